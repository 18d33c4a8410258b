//! [`Stats`]: what a running service tells about itself: the verb `stats`, `candor signals stats`, `/metrics` and `/healthz`.

use std::sync::atomic::Ordering;

use candor_daemon::exposition::{Metric, Page, seconds};
pub use candor_daemon::health::{MaxSilence, Problem};
use candor_daemon::health::{Silence, too_silent};
use candor_events::Hub;
use candor_linux::clock;
use candor_time::{Monotonic, Nanos};
use serde::{Deserialize, Serialize};

use crate::Shared;
use crate::ingest::Intake;

/// A running service at some time. All counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Its buses, in their order.
    pub buses: Vec<BusStats>,
    /// How often buses were changed.
    pub changes: u64,
    pub subscribers: Vec<SubscriberStats>,
    /// How long it has been running, in ns.
    pub uptime_ns: u64,
    /// Why the file on disk is not in use, if it is not.
    #[serde(default)]
    pub rejected: Option<String>,
    /// Message buses that do not work, each with the reason.
    #[serde(default)]
    pub troubles: Vec<String>,
}

/// A bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusStats {
    pub name: String,
    pub port: String,
    /// Frames received.
    pub frames: u64,
    /// What was lost before it could be received: frames, or datagrams of ports that have such.
    pub lost: u64,
    /// Datagrams, lines and records that are not what they should be.
    pub malformed: u64,
    /// Datagrams and connections of others than the peer.
    pub foreign: u64,
    /// Frames that became no events, since there was no room for their identifiers.
    pub unlisted: u64,
    /// Identifiers that gave way to others.
    pub displaced: u64,
    /// Batches in which frames became events.
    pub batches: u64,
    /// Why no frames come, if so.
    pub trouble: Option<String>,
    /// For how long no frame has come, in ns; since its bus is there if none ever came.
    #[serde(default)]
    pub silent_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriberStats {
    /// Its number, which no other one has or had.
    pub id: u64,
    /// The format of its events.
    pub format: String,
    pub topics: u64,
    /// Events that it got.
    pub delivered: u64,
    /// Events that it missed, also those that it does not know of yet.
    pub missed: u64,
    /// Events in the log that it has not read, also those that it did not ask for.
    pub waiting: u64,
}

impl Stats {
    /// All that a service knows of itself, but its subscribers.
    pub(crate) fn without_subscribers(shared: &Shared) -> Self {
        let hub = shared.hub();
        let buses = shared.intakes().iter().map(|intake| bus(&hub, intake)).collect();
        drop(hub);
        Self {
            buses,
            changes: shared.changes.load(Ordering::Relaxed),
            subscribers: Vec::new(),
            uptime_ns: (clock::now::<Monotonic>() - shared.started).as_nanos(),
            rejected: shared.rejected().clone(),
            troubles: shared.links().iter().filter_map(|link| link.trouble()).collect(),
        }
    }

    /// What is not as it should be: a file that was refused, ports and message buses that do not work, and buses that are
    /// silent for longer than `limits` allow.
    ///
    /// # Errors
    /// A limit for a bus that there is not, in one sentence.
    pub fn problems(&self, limits: &[MaxSilence]) -> Result<Vec<Problem>, String> {
        let silence = |bus: &BusStats| Some(Nanos::from_nanos(bus.silent_ns));
        let silences: Vec<Silence<'_>> =
            self.buses.iter().map(|bus| (bus.name.as_str(), silence(bus))).collect();
        let too_silent = too_silent(&silences, limits)?;
        let rejected = self.rejected.iter().map(|why| {
            let why = why.lines().next().unwrap_or_default();
            Problem::new(format!("the file on disk is not in use: {why}"))
        });
        let of_buses = self
            .buses
            .iter()
            .filter_map(|bus| Some(Problem::of_bus(&bus.name, bus.trouble.as_deref()?)));
        let of_links = self.troubles.iter().map(Problem::new);
        Ok(rejected.chain(of_buses).chain(of_links).chain(too_silent).collect())
    }

    /// A page of metrics for Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut page = Page::default();
        page.only("candor_signals_up", "1 while the service runs.", 1);
        let name = "candor_signals_info";
        page.head(name, "The version of candor.");
        page.line(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let help = "Time since the service started.";
        page.only("candor_signals_uptime_seconds", help, seconds(self.uptime_ns));
        let help = "Times the buses were changed since the start.";
        page.only("candor_signals_changes_total", help, self.changes);
        let help = "Whether the file on disk has errors, so that the older buses are in use.";
        page.only("candor_signals_rejected", help, u64::from(self.rejected.is_some()));
        let help = "Message buses that do not work.";
        page.only("candor_signals_dbus_troubles", help, self.troubles.len());
        let help = "Clients that are subscribed to something.";
        page.only("candor_signals_subscribers", help, self.subscribers.len());
        let help = "Events that the subscribers missed that are there now.";
        let missed: u64 = self.subscribers.iter().map(|subscriber| subscriber.missed).sum();
        page.only("candor_signals_missed_events", help, missed);
        page.of_each("candor_signals_bus_", &BUS_METRICS, &self.buses, labels);
        let name = "candor_signals_bus_silent_seconds";
        page.head(name, "Time without a frame.");
        for bus in &self.buses {
            page.line(name, &labels(bus), seconds(bus.silent_ns));
        }
        page.into_text()
    }
}

fn labels(bus: &BusStats) -> [(&'static str, &str); 2] {
    [("bus", &bus.name), ("port", &bus.port)]
}

/// In the order in which they are written.
const BUS_METRICS: [Metric<BusStats>; 7] = [
    ("up", "Whether its port works.", |bus| u64::from(bus.trouble.is_none())),
    ("received_frames_total", "Frames received.", |bus| bus.frames),
    ("lost_total", "Frames or datagrams lost before they could be received.", |bus| bus.lost),
    ("malformed_total", "Datagrams, lines and records that are not what they should be.", |bus| {
        bus.malformed
    }),
    ("foreign_total", "Datagrams and connections of others than the peer.", |bus| bus.foreign),
    ("unlisted_frames_total", "Frames without room for their identifiers.", |bus| bus.unlisted),
    ("displaced_total", "Identifiers that gave way to others.", |bus| bus.displaced),
];

/// The bus of an intake. The hub is locked, so no frame of it becomes events meanwhile.
fn bus(hub: &Hub, intake: &Intake) -> BusStats {
    let counted = intake.reception.totals();
    BusStats {
        name: hub.buses().get(intake.bus()).map_or_else(String::new, |bus| bus.name.clone()),
        port: intake.port.clone(),
        frames: counted.frames,
        lost: counted.lost(),
        malformed: counted.malformed,
        foreign: counted.foreign,
        unlisted: hub.unlisted(intake.bus()),
        displaced: hub.displaced(intake.bus()),
        batches: intake.batches.load(Ordering::Relaxed),
        trouble: intake.reception.trouble(),
        silent_ns: intake.silence().as_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use candor_daemon::exposition;

    use super::*;

    fn stats() -> Stats {
        let body = BusStats {
            name: "body".into(),
            port: "can0".into(),
            frames: 7,
            trouble: Some("it is down".into()),
            silent_ns: 2_500_000_000,
            ..BusStats::default()
        };
        let drive = BusStats { name: "drive".into(), port: "can1".into(), ..BusStats::default() };
        Stats {
            buses: vec![body, drive],
            rejected: Some("a.toml:1:2: error: what\n  more\n".into()),
            troubles: vec!["D-Bus session: nobody is there".into()],
            ..Stats::default()
        }
    }

    #[test]
    fn the_manual_has_every_metric() {
        let manual = include_str!("../../../docs/metrics.md");
        exposition::assert_listed(manual, "Metrics of a signal service", &stats().metrics());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |limits: &[&str]| {
            let limits: Vec<_> = limits.iter().map(|text| text.parse().unwrap()).collect();
            let problems = stats().problems(&limits)?;
            Ok::<_, String>(problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let always = [
            "the file on disk is not in use: a.toml:1:2: error: what",
            "bus `body`: it is down",
            "D-Bus session: nobody is there",
        ];
        assert_eq!(told(&[]).unwrap(), always);
        assert_eq!(told(&["2.5s"]).unwrap(), always);
        assert_eq!(told(&["2.4s"]).unwrap().len(), 4);
        assert!(told(&["out=2s"]).unwrap_err().starts_with("there is no bus `out`"));
        assert_eq!(Stats::default().problems(&[]), Ok(vec![]));
    }
}
