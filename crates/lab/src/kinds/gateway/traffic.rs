//! The traffic of an experiment.

use std::cell::RefCell;

use candor_config::Section;
use candor_network::file::{Context, Fill, fill, identifier, nodes};
use candor_protocol::order::Datagrams;
use candor_rules::file::disk;
use candor_sim::Stuffing;
use candor_time::Nanos;
use candor_wire::can::frame::{BRS, fd_dlc};

use super::settings::{Pace, Traffic};
use super::sources::Numbered;
use crate::experiment::Load;
use crate::locate::locate;
use crate::reading::machine::LoadSize;
use crate::reading::reader::Reader;

/// The kinds of traffic as files name them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneAtATime,
    OpenLoop,
    Half,
    Flood,
    Periodic,
    Replay,
}

const KINDS: [(&str, Kind); 6] = [
    ("one-at-a-time", Kind::OneAtATime),
    ("open-loop", Kind::OpenLoop),
    ("half", Kind::Half),
    ("flood", Kind::Flood),
    ("periodic", Kind::Periodic),
    ("replay", Kind::Replay),
];

/// How long a tester waits between two frames: that of the papers answers within a few interrupts.
pub(super) const SHORT_TURNAROUND: (Nanos, Nanos) =
    (Nanos::from_micros(50), Nanos::from_micros(150));

/// The same for a tester that must not follow the guest: the longest period of an idle system is the timer tick of 4 ms (`CONFIG_HZ=250`).
/// A frame that comes evenly within more than that after the last one meets every phase of it.
const LONG_TURNAROUND: (Nanos, Nanos) = (Nanos::from_micros(100), Nanos::from_millis(5));

/// A sender that takes longer for its next frame floods nothing.
const MOST_GAP: Nanos = Nanos::from_millis(100);

/// The turnaround of a tester outside of the guest: as long as the longest period of the system, which may be that of the load.
pub(super) fn turnaround_outside(load: Load, size: LoadSize) -> (Nanos, Nanos) {
    let (shortest, longest) = LONG_TURNAROUND;
    let period_ns = match size.ethernet.datagrams {
        Datagrams::Echo { period_ns } | Datagrams::Udp { period_ns } if load.ethernet => period_ns,
        _ => 0,
    };
    (shortest, longest.max(shortest + Nanos::from_nanos(period_ns)))
}

impl Reader<'_> {
    /// Reads what is sent. A campaign sets what any of its kinds needs; each kind takes its own.
    pub(super) fn traffic(
        &mut self,
        mut section: Section<'_>,
        turnaround: (Nanos, Nanos),
    ) -> Option<Traffic> {
        section.require(&["kind"]);
        let kind = section.one_of("kind", &KINDS);
        let fill = fill(&mut section);
        let frames = self.numbered(&mut section, fill);
        let (shortest, longest) =
            (section.nanos("turnaround_shortest"), section.nanos("turnaround_longest"));
        let at = match longest {
            Some(_) => section.origin_of("turnaround_longest"),
            None => section.origin_of("turnaround_shortest"),
        };
        let or_default = |default: (Nanos, Nanos)| {
            let ends = (shortest.unwrap_or(default.0), longest.unwrap_or(default.1));
            if ends.0 > ends.1 {
                let message = format!(
                    "`turnaround_longest` is {}, shorter than `turnaround_shortest`, which is {}",
                    ends.1, ends.0
                );
                self.findings.error_with_hint(at, message, "give both, the shorter one first");
            }
            ends
        };
        let gap = section.nanos("gap").unwrap_or_default();
        if gap > MOST_GAP {
            let message = format!("`gap` is {gap}, but can be {MOST_GAP} at most");
            let hint = "frames that are rarer are traffic.kind = \"open-loop\"";
            self.findings.error_with_hint(section.origin_of("gap"), message, hint);
        }
        let timeout = section.nanos("timeout").unwrap_or(Nanos::from_secs(1));
        if timeout == Nanos::ZERO {
            let hint = "give more than a frame takes to arrive";
            let message = "`timeout` is 0, so every frame would be late";
            self.findings.error_with_hint(section.origin_of("timeout"), message, hint);
        }
        let is_periodic = kind == Some(Kind::Periodic);
        let origin = section.origin();
        self.network.nodes = self.nodes(&mut section, is_periodic, fill);
        if is_periodic && self.network.nodes.is_empty() && !self.findings.has_errors() {
            let hint = match self.has_network {
                true => {
                    "in the network file, name a DBC file with dbc, or list messages under [[message]]"
                }
                false => {
                    "name a DBC file with traffic.dbc, or list messages under [[traffic.message]]"
                }
            };
            self.findings.error_with_hint(origin, "there are no messages to send", hint);
        }
        let replay = self.replay(&mut section, kind == Some(Kind::Replay));
        section.finish();
        let numbered = |pace| Some(Traffic::Numbered { frames: frames?, pace, timeout });
        match kind? {
            Kind::OneAtATime => numbered(Pace::OneAtATime { turnaround: or_default(turnaround) }),
            Kind::OpenLoop => numbered(Pace::OpenLoop { gap: or_default(LONG_TURNAROUND) }),
            Kind::Half => numbered(Pace::Half),
            Kind::Flood => numbered(Pace::Flood { gap }),
            Kind::Periodic => Some(Traffic::Periodic),
            Kind::Replay => replay,
        }
    }

    fn numbered(&self, section: &mut Section<'_>, fill: Option<Fill>) -> Option<Numbered> {
        section.refuse_empty("id", "remove `id` to send 0x123");
        let can_ids: Vec<_> = section
            .values("id")
            .into_iter()
            .filter_map(|value| identifier(value, self.findings))
            .collect();
        let length = section.integer("length", 0..=64).unwrap_or(8);
        let is_fd = section.boolean("fd").unwrap_or(length > 8);
        let (fill, stuffing) = match fill {
            Some(Fill::Byte(fill)) => (fill, Stuffing::Exact),
            Some(Fill::Worst) => (0x55, Stuffing::Worst),
            None => (0x55, Stuffing::Exact),
        };
        let fits = if is_fd { fd_dlc(length).is_some() } else { length <= 8 };
        if length < 2 || !fits {
            let message = format!(
                "`length` is {length}, but the frame's number needs 2 bytes and \
                                   a frame has at most 8, or with CAN FD 12, 16, 20, 24, 32, 48, 64"
            );
            self.findings.error(section.origin_of("length"), message);
            return None;
        }
        if is_fd && self.network.buses.first().is_some_and(|bus| !bus.is_fd) {
            let hint = "add data_bitrate or fd = true to the bus";
            let message = "the first bus does not support CAN FD";
            self.findings.error_with_hint(section.origin_of("length"), message, hint);
        }
        let fd_flags = is_fd.then_some(BRS);
        let can_ids = if can_ids.is_empty() { vec![0x123] } else { can_ids };
        Some(Numbered { can_ids, length, fd_flags, fill, stuffing })
    }

    /// The nodes that send messages.
    fn nodes(
        &mut self,
        section: &mut Section<'_>,
        is_used: bool,
        fill: Option<Fill>,
    ) -> Vec<candor_network::Node> {
        let files = RefCell::new(Vec::new());
        let include = |name: &str| {
            let path = locate(self.base, name);
            files.borrow_mut().push((name.to_owned(), path.clone()));
            disk::read(&path, disk::MOST_BYTES)
        };
        let (buses, unread) = (&self.network.buses[..], &self.unread[..]);
        let databases: Vec<_> =
            self.databases.iter().map(|(bus, dbc, origin)| (*bus, dbc.as_str(), origin)).collect();
        let databases = &databases[..];
        let context = Context {
            buses,
            unread,
            databases,
            prefix: "traffic.",
            fill,
            include: &include,
            is_used,
        };
        let mut nodes = nodes(section, &context);
        // Who sends nothing takes no part.
        nodes.retain(|node| !node.messages.is_empty());
        for (name, path) in files.into_inner() {
            self.input(&name, &path);
        }
        nodes
    }

    fn replay(&mut self, section: &mut Section<'_>, is_used: bool) -> Option<Traffic> {
        let log_origin = section.origin_of("log");
        let log = section.string("log");
        let interface = section.string("interface").map(str::to_owned);
        let speed = section.float("speed", 0.001..=1_000_000.0).unwrap_or(1.0);
        let bus_origin = section.origin_of("bus");
        let bus = match section.string("bus") {
            Some(name) => self.bus(name, bus_origin)?,
            None => 0,
        };
        if !is_used {
            return None;
        }
        let Some(log) = log else {
            let hint = "name a recording: log = \"drive.log\", or --set traffic.log=drive.log";
            self.findings.error_with_hint(section.origin(), "`log` is missing", hint);
            return None;
        };
        let path = locate(self.base, log);
        // A pipe is not opened: that waits for somebody who writes into it.
        let opened = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => std::fs::File::open(&path).map(drop),
            other => other.map(drop),
        };
        if let Err(error) = opened {
            let hint = "paths are relative to the experiment file or to the current folder";
            self.findings.error_with_hint(
                log_origin,
                format!("{log} cannot be read: {error}"),
                hint,
            );
            return None;
        }
        // Whatever else may be wrong with it is reported with its place when it is read.
        let first = || candor_recording::open(&path, None).map(|mut recording| recording.next());
        if path.is_file() && matches!(first(), Ok(None)) {
            let hint = "name a recording that contains frames";
            self.findings.error_with_hint(log_origin, format!("{log} has no frames to send"), hint);
            return None;
        }
        self.input(log, &path);
        Some(Traffic::Replay { log: path, interface, speed, bus })
    }
}
