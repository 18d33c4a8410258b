//! The signal service between processes of this machine.
//!
//! ```text
//!  trace -- injector --can2udp--> server --WebSocket, D-Bus--> subscribers      a process each, orders by their stdin
//!              |                                             |
//!              +-- departures --> evaluate <-- arrivals -----+           a file of times each
//! ```
//!
//! What is sent is made before anything is measured. Frames leave at times that are random against the tick of the
//! service, whatever became of those before. An event that has not arrived 1 s after the last frame left is lost.

mod bed;
mod columns;
mod daemon;
mod evaluate;
mod injector;
mod read;
mod server;
mod subscriber;
mod times;
mod trace;
mod worker;

use std::path::Path;

use candor_lat::TapPath;
use candor_lat::result::ResultFile;
use candor_time::Nanos;
use serde::{Deserialize, Serialize};

pub use self::bed::work;
use super::{Key, KindEntry};
use crate::error::Error;
use crate::experiment::{Kind, Run, Testbed};

/// The signal service between a sender of datagrams and subscribers, each a process.
#[derive(Clone, Debug)]
pub struct SignalService {
    /// Events per second.
    pub rate_hz: u32,
    /// How many identifiers they have.
    pub ids: u16,
    /// How long the service gathers events.
    pub coalesce: Nanos,
    pub subscriber: SubscriberKind,
    pub subscribers: u32,
}

impl SignalService {
    /// What is examined, for people.
    pub(crate) fn describe(&self) -> String {
        let whom = match (self.subscriber, self.subscribers) {
            (SubscriberKind::None, _) => "no subscriber".to_owned(),
            (kind, 1) => format!("one subscriber, {}", kind.description()),
            (kind, many) => format!("{many} subscribers, {}", kind.description()),
        };
        format!(
            "processes of this machine; {} events/s of {} identifiers over can2udp, gathered for {}; {whom}",
            self.rate_hz, self.ids, self.coalesce
        )
    }
}

/// How the signal service is subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriberKind {
    /// Nobody is: frames are received.
    None,
    /// In the process of the service.
    InProcess,
    /// WebSocket with AGL's messages.
    #[default]
    Json,
    /// WebSocket with CBOR, in batches.
    Cbor,
    /// WebSocket with MessagePack, in batches.
    #[serde(rename = "msgpack")]
    MessagePack,
    /// D-Bus, with a daemon of its own.
    Dbus,
}

impl SubscriberKind {
    pub const ALL: [Self; 6] =
        [Self::None, Self::InProcess, Self::Json, Self::Cbor, Self::MessagePack, Self::Dbus];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InProcess => "in-process",
            Self::Json => "json",
            Self::Cbor => "cbor",
            Self::MessagePack => "msgpack",
            Self::Dbus => "dbus",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InProcess => "in the process of the service",
            Self::Json => "WebSocket with JSON",
            Self::Cbor => "WebSocket with CBOR",
            Self::MessagePack => "WebSocket with MessagePack",
            Self::Dbus => "D-Bus",
        }
    }
}

pub(super) static KIND: KindEntry = KindEntry {
    name: "signal-service",
    testbeds: &[Testbed::Host],
    has_own_network: false,
    read: read::read,
    check_parts: None,
    keys: &[key("service.*"), key("subscribers.*"), key("traffic.rate"), key("traffic.ids")],
    tables: &[(TapPath::SIGNAL_SERVICE, columns::columns)],
};

/// A setting of all experiments of this kind.
const fn key(pattern: &'static str) -> Key {
    let advice = "no experiment examines the signal service; set kind=signal-service";
    Key { pattern, uses: |it| it.of::<SignalService>().is_some(), advice }
}

impl Kind for SignalService {
    fn path(&self) -> &'static TapPath {
        TapPath::SIGNAL_SERVICE
    }

    fn testbed(&self) -> Testbed {
        Testbed::Host
    }

    fn on_host<'a>(&'a self, run: Run<'a>, program: &Path) -> Option<Result<ResultFile, Error>> {
        Some(bed::run(self, run, program))
    }
}
