//! The traffic of an experiment.

use candor_config::{Data, Section, Value};
use candor_diagnostics::{Origin, part_of};
use candor_sim::Discipline;
use candor_time::Nanos;
use candor_wire::frame::{BRS, EFF_FLAG, EFF_MASK, SFF_MASK, fd_dlc};

use super::reader::Reader;
use crate::dbc;
use crate::doubt;
use crate::experiment::{Pace, Traffic};
use crate::locate::locate;
use crate::traffic::{Message, Numbered};

/// The kinds of traffic as files name them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OneAtATime,
    Half,
    Flood,
    Periodic,
    Replay,
}

const KINDS: [(&str, Kind); 5] = [
    ("one-at-a-time", Kind::OneAtATime),
    ("half", Kind::Half),
    ("flood", Kind::Flood),
    ("periodic", Kind::Periodic),
    ("replay", Kind::Replay),
];

/// The shortest period of a message: less is a mistake in the unit.
const SHORTEST_PERIOD: Nanos = Nanos::from_micros(10);

/// The messages of one node: `(bus, node, messages)`.
type Node = (usize, String, Vec<Message>);

impl Reader<'_> {
    /// Reads what is sent. A campaign sets what any of its kinds needs; each kind takes its own.
    pub(super) fn traffic(&mut self, mut section: Section<'_>) -> Option<Traffic> {
        section.require(&["kind"]);
        let kind = section.one_of("kind", &KINDS);
        let frames = self.numbered(&mut section);
        let turnaround = (
            section.nanos("turnaround_shortest").unwrap_or(Nanos::from_micros(50)),
            section.nanos("turnaround_longest").unwrap_or(Nanos::from_micros(150)),
        );
        let timeout = section.nanos("timeout").unwrap_or(Nanos::from_secs(1));
        let discipline = section
            .one_of("queue", &[("fifo", Discipline::Fifo), ("priority", Discipline::Priority)])
            .unwrap_or(Discipline::Priority);
        let nodes = self.periodic(&mut section, kind == Some(Kind::Periodic));
        let replay = self.replay(&mut section, kind == Some(Kind::Replay));
        section.finish();
        let numbered = |pace| Some(Traffic::Numbered { frames: frames?, pace, timeout });
        match kind? {
            Kind::OneAtATime => numbered(Pace::OneAtATime { turnaround }),
            Kind::Half => numbered(Pace::Half),
            Kind::Flood => numbered(Pace::Flood),
            Kind::Periodic => Some(Traffic::Periodic { nodes, discipline }),
            Kind::Replay => replay,
        }
    }

    fn numbered(&self, section: &mut Section<'_>) -> Option<Numbered> {
        section.refuse_empty("id", "remove `id` to send 0x123");
        let can_ids: Vec<_> =
            section.values("id").into_iter().filter_map(|value| self.identifier(value)).collect();
        let length = section.integer("length", 0..=64).unwrap_or(8);
        let is_fd = section.boolean("fd").unwrap_or(length > 8);
        let fill = section.integer("fill", 0..=u8::MAX).unwrap_or(0x55);
        let fits = if is_fd { fd_dlc(length).is_some() } else { length <= 8 };
        if length < 2 || !fits {
            let message = format!(
                "`length` is {length}, but the frame's number needs 2 bytes and \
                                   a frame has at most 8, or with CAN FD 12, 16, 20, 24, 32, 48, 64"
            );
            self.findings.error(section.origin_of("length"), message);
            return None;
        }
        if is_fd && self.buses.first().is_some_and(|bus| !bus.is_fd) {
            let hint = "add data_bitrate or fd = true to the bus";
            let message = "the first bus does not support CAN FD";
            self.findings.error_with_hint(section.origin_of("length"), message, hint);
        }
        let fd_flags = is_fd.then_some(BRS);
        let can_ids = if can_ids.is_empty() { vec![0x123] } else { can_ids };
        Some(Numbered { can_ids, length, fd_flags, fill })
    }

    fn periodic(&mut self, section: &mut Section<'_>, is_used: bool) -> Vec<Node> {
        let placed = self.placed_nodes(section);
        let mut messages = Vec::new();
        let dbc_origin = section.origin_of("dbc");
        if let Some(dbc) = section.string("dbc").filter(|_| is_used) {
            messages = self.dbc(dbc, dbc_origin);
        }
        let listed = section.sections("message").into_iter();
        messages.extend(listed.map(|message| self.message(message)));
        if !is_used {
            return Vec::new();
        }
        if messages.is_empty() && !self.findings.has_errors() {
            let hint =
                "name a DBC file with traffic.dbc, or list messages under [[traffic.message]]";
            self.findings.error_with_hint(section.origin(), "there are no messages to send", hint);
        }
        self.nodes(messages, &placed, section.origin())
    }

    /// Which node is on which bus.
    fn placed_nodes(&self, section: &mut Section<'_>) -> Vec<(usize, String)> {
        let mut placed = Vec::new();
        for entry in section.table_entries("nodes") {
            let Some(bus) = self.bus(&entry.key, &entry.origin) else { continue };
            let Some(nodes) = entry.value.as_array() else {
                entry.value.wrong_type(&entry.key, "a list of nodes", self.findings);
                continue;
            };
            for node in nodes {
                match node.as_str() {
                    Some(node) => placed.push((bus, node.to_owned())),
                    None => node.wrong_type(&entry.key, "the name of a node", self.findings),
                }
            }
        }
        placed
    }

    /// The messages of a DBC file; those that cannot be sent are a warning.
    fn dbc(&mut self, dbc: &str, origin: &Origin) -> Vec<Message> {
        let path = locate(self.base, dbc);
        self.input(dbc, &path);
        let read = match dbc::load(&path) {
            Ok(read) => read,
            Err(error) => {
                self.findings.error(origin, error.to_string());
                return Vec::new();
            }
        };
        let all = read.messages.len() + read.without_period + read.without_frame;
        if read.without_period > 0 {
            let verbs =
                ("has no cycle time and is not sent", "have no cycle time and are not sent");
            let messages = part_of(read.without_period, all, "message", verbs);
            let message = format!("{dbc}: {messages}");
            let hint = "add a GenMsgCycleTime in ms to them, or list them under \
                        [[traffic.message]]";
            self.findings.warning(origin, message, hint);
        }
        if read.without_frame > 0 {
            let messages = part_of(read.without_frame, all, "message", ("is", "are"));
            let message = format!(
                "{dbc}: {messages} not sent: the length or identifier is not possible, or another \
                 message has the same identifier"
            );
            let hint = "a frame has up to 8 bytes, or with CAN FD 12, 16, 20, 24, 32, 48 or 64, and a \
                        standard identifier is at most 0x7FF";
            self.findings.warning(origin, message, hint);
        }
        read.messages
    }

    /// A message of `[[traffic.message]]`.
    fn message(&self, mut entry: Section<'_>) -> Message {
        entry.require(&["id", "period", "node"]);
        let can_id = entry.value("id").and_then(|value| self.identifier(value)).unwrap_or(0);
        let length = entry.integer("length", 0..=64).unwrap_or(8);
        if fd_dlc(length).is_none() {
            let message = format!("a frame cannot have {length} bytes");
            self.findings.error(entry.origin_of("length"), message);
        }
        let period = entry.nanos("period").unwrap_or(Nanos::from_secs(1));
        if period < SHORTEST_PERIOD {
            let message = format!("a period must be at least {SHORTEST_PERIOD}");
            self.findings.error(entry.origin_of("period"), message);
        }
        let message = Message {
            name: entry.string("name").map_or_else(|| show_id(can_id), str::to_owned),
            node: entry.string("node").unwrap_or_default().to_owned(),
            can_id,
            length,
            period: period.max(SHORTEST_PERIOD),
            offset: entry.nanos("offset"),
            jitter: entry.nanos("jitter").unwrap_or_default(),
        };
        entry.finish();
        message
    }

    /// The messages by the node that sends them.
    fn nodes(
        &self,
        messages: Vec<Message>,
        placed: &[(usize, String)],
        origin: &Origin,
    ) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for message in messages {
            let Some(&(bus, _)) = placed.iter().find(|(_, node)| *node == message.node) else {
                let text = format!(
                    "node `{}` sends {}, but is not on any bus",
                    message.node, message.name
                );
                let hint = "list it under [traffic.nodes], as in powertrain = [\"Engine\"]";
                self.findings.error_with_hint(origin, text, hint);
                continue;
            };
            if message.length > 8 && !self.buses[bus].is_fd {
                let (name, length) = (&message.name, message.length);
                let text = format!("{name} has {length} bytes, but its bus is classical");
                self.findings.error(origin, text);
            }
            let other = nodes.iter().find(|(at, node, messages)| {
                let has_id = |other: &Message| other.can_id == message.can_id;
                *at == bus && *node != message.node && messages.iter().any(has_id)
            });
            if let Some((_, other, _)) = other {
                let (bus, id) = (&self.buses[bus].name, doubt::shown(message.can_id));
                let text = format!("`{other}` and `{}` both send {id} on bus {bus}", message.node);
                let hint = "on a CAN bus, only one node may send an identifier: give each one a \
                            different identifier";
                self.findings.error_with_hint(origin, text, hint);
            }
            match nodes.iter_mut().find(|(at, node, _)| *at == bus && *node == message.node) {
                Some((_, _, messages)) => messages.push(message),
                None => nodes.push((bus, message.node.clone(), vec![message])),
            }
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
        if let Err(error) = std::fs::File::open(&path) {
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

impl Reader<'_> {
    /// An identifier: text, or a number as far as standard identifiers go. A number does not say how
    /// many bits its identifier has.
    fn identifier(&self, value: &Value) -> Option<u32> {
        let read = match &value.data {
            Data::String(text) => {
                parse_id(text).map_err(|reason| format!("`{text}` is not an identifier: {reason}"))
            }
            Data::Integer(number) => standard_id(*number),
            _ => {
                value.wrong_type("id", "an identifier such as \"0x123\"", self.findings);
                return None;
            }
        };
        read.map_err(|message| self.findings.error(&value.origin, message)).ok()
    }
}

fn standard_id(number: i64) -> Result<u32, String> {
    match u32::try_from(number) {
        Ok(id @ 0..=SFF_MASK) => Ok(id),
        Ok(id @ 0..=EFF_MASK) => Err(format!(
            "0x{id:X} is not a standard identifier; write an extended one as text with an x at \
             the end: \"0x{id:X}x\", or --set traffic.id=0x{id:X}x"
        )),
        _ => Err(format!("{number} is not an identifier: an identifier is at most 0x1FFFFFFFx")),
    }
}

/// An identifier as files have it.
fn show_id(can_id: u32) -> String {
    let is_extended = can_id & EFF_FLAG != 0;
    format!("0x{:X}{}", can_id & EFF_MASK, if is_extended { "x" } else { "" })
}

/// An identifier: `0x123`, or `0x18FEF100x` for an extended one.
fn parse_id(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "expected 0x123, or 0x18FEF100x for an extended one";
    let digits = text.strip_prefix("0x").ok_or(EXPECTED)?;
    let (digits, is_extended) = match digits.strip_suffix('x') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let id = u32::from_str_radix(digits, 16).map_err(|_| EXPECTED)?;
    match (is_extended, id) {
        (true, 0..=EFF_MASK) => Ok(id | EFF_FLAG),
        (false, 0..=SFF_MASK) => Ok(id),
        (false, 0..=EFF_MASK) => {
            Err("a standard identifier is at most 0x7FF; an extended one ends in x")
        }
        _ => Err("an identifier is at most 0x1FFFFFFFx"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_as_in_rule_files() {
        assert_eq!(parse_id("0x123"), Ok(0x123));
        assert_eq!(parse_id("0x18FEF100x"), Ok(0x98FE_F100));
        assert_eq!(standard_id(0x124), Ok(0x124));
        for number in [-1, 0x800, 0x1FFF_FFFF, 0x2000_0000, i64::MAX] {
            assert!(standard_id(number).is_err(), "{number}");
        }
        assert_eq!((show_id(0x123), show_id(0x98FE_F100)), ("0x123".into(), "0x18FEF100x".into()));
        for text in ["123", "0x800", "0x20000000x", "0x", "0xG", ""] {
            assert!(parse_id(text).is_err(), "{text}");
        }
    }
}
