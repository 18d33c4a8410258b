//! Messages that a file lists, one table each.

use candor_config::{Data, Section};
use candor_diagnostics::{Findings, Origin, counted};
use candor_time::Nanos;
use candor_wire::can::frame::fd_dlc;

use super::identifier;
use crate::{Message, Payload, show_id};

/// The shortest period of a message: less is a mistake in the unit.
const SHORTEST_PERIOD: Nanos = Nanos::from_micros(10);

/// A message, and who sends it.
pub(super) struct Sent {
    /// The bus, if the file of the message says it.
    pub(super) bus: Option<usize>,
    /// Its sender; `None` if nobody knows, about which there is a finding.
    pub(super) node: Option<String>,
    pub(super) message: Message,
    /// Whether it has a name of its own.
    pub(super) is_named: bool,
    pub(super) places: Places,
}

/// Where a message is described.
pub(super) struct Places {
    pub(super) id: Origin,
    pub(super) name: Origin,
    pub(super) node: Origin,
    pub(super) length: Origin,
}

impl Places {
    /// All of it is in another file, which is named here.
    pub(super) fn elsewhere(origin: &Origin) -> Self {
        let [id, name, node, length] = [(); 4].map(|()| origin.clone());
        Self { id, name, node, length }
    }
}

/// Each of these keys that is absent is a finding, with what to write.
pub(super) fn require(section: &mut Section<'_>, keys: &[(&'static str, &str)]) {
    for &(key, hint) in keys {
        if !section.has(key) {
            let message = format!("`{key}` is missing");
            section.findings().error_with_hint(section.origin(), message, hint);
        }
    }
}

/// A name; nothing if it is empty, which is a finding.
pub(super) fn name_of<'a>(
    what: &str,
    name: &'a str,
    origin: &Origin,
    findings: &Findings,
) -> Option<&'a str> {
    if name.is_empty() {
        let message = format!("the name of this {what} is empty");
        findings.error_with_hint(origin, message, "give it a name of at least one character");
        return None;
    }
    Some(name)
}

/// A message of `[[message]]`. What does not say itself what is in it has this `fill`. Only in network files it may have a
/// deadline, and distances.
pub(super) fn listed(mut entry: Section<'_>, usual: Option<Fill>, is_network: bool) -> Sent {
    require(
        &mut entry,
        &[
            ("id", "write id = \"0x123\", or \"0x18FEF100x\" for an extended identifier"),
            ("period", "write the time from one frame to the next: period = \"10ms\""),
            ("node", "name the node that sends it: node = \"Engine\""),
        ],
    );
    let findings = entry.findings();
    let can_id = entry.value("id").and_then(|value| identifier(value, findings));
    let length = entry.integer("length", 0..=64).unwrap_or(8);
    if fd_dlc(length).is_none() {
        let message = format!("a frame cannot have {length} bytes");
        let hint = "a frame has 0 to 8 bytes, or with CAN FD also 12, 16, 20, 24, 32, 48 or 64";
        findings.error_with_hint(entry.origin_of("length"), message, hint);
    }
    let is_fd = entry.boolean("fd").unwrap_or(length > 8);
    if length > 8 && !is_fd {
        let message = format!("a classical frame cannot have {length} bytes");
        let hint = "remove fd = false, or write a length of at most 8";
        findings.error_with_hint(entry.origin_of("fd"), message, hint);
    }
    let has_brs = entry.boolean("brs");
    if has_brs.is_some() && !is_fd {
        let hint = "remove it, or write fd = true";
        let message = "only CAN FD frames switch their bit rate";
        findings.error_with_hint(entry.origin_of("brs"), message, hint);
    }
    let period = entry.nanos("period").unwrap_or(Nanos::from_secs(1));
    if period < SHORTEST_PERIOD {
        let message = format!("a period must be at least {SHORTEST_PERIOD}");
        let hint = "check its unit, as in period = \"10ms\"";
        findings.error_with_hint(entry.origin_of("period"), message, hint);
    }
    let payload = payload(&mut entry, length, usual);
    let min_length = if is_network { min_length(&mut entry, length, &payload) } else { None };
    let own = entry.string("name");
    let own = own.and_then(|name| name_of("message", name, entry.origin_of("name"), findings));
    let message = Message {
        payload,
        name: own.map_or_else(|| show_id(can_id.unwrap_or(0)), str::to_owned),
        can_id: can_id.unwrap_or(0),
        length,
        min_length,
        is_fd,
        has_brs: has_brs.unwrap_or(true),
        period: period.max(SHORTEST_PERIOD),
        offset: entry.nanos("offset"),
        jitter: entry.nanos("jitter").unwrap_or_default(),
        deadline: is_network.then(|| deadline(&mut entry)).flatten(),
        distances: if is_network { distances(&mut entry) } else { Vec::new() },
    };
    let node = entry.string("node");
    let node = node.and_then(|name| name_of("node", name, entry.origin_of("node"), findings));
    let place = |key| entry.origin_of(key).clone();
    let places = Places {
        id: place("id"),
        name: place("name"),
        node: place("node"),
        length: place("length"),
    };
    entry.finish();
    // Without an identifier it can be held against nothing.
    let node = can_id.and(node).map(str::to_owned);
    Sent { bus: None, node, message, is_named: own.is_some(), places }
}

/// `min_length`: what a frame can have, and no more than `length`.
fn min_length(entry: &mut Section<'_>, length: usize, payload: &Payload) -> Option<usize> {
    let least = entry.integer("min_length", 0..=64)?;
    let (message, hint) = match () {
        () if least > length => (
            format!("`min_length` is {least}, but `length` is {length}"),
            "`length` is the longest",
        ),
        () if fd_dlc(least).is_none() => {
            (format!("a frame cannot have {least} bytes"), "write the length of the shortest frame")
        }
        () if least < length && matches!(payload, Payload::Bytes(_)) => {
            ("a message with given data has one length".into(), "remove `min_length`")
        }
        () => return Some(least),
    };
    entry.findings().error_with_hint(entry.origin_of("min_length"), message, hint);
    None
}

/// `deadline`: above 0.
fn deadline(entry: &mut Section<'_>) -> Option<Nanos> {
    let deadline = entry.nanos("deadline")?;
    if deadline == Nanos::ZERO {
        no_deadline(entry.origin_of("deadline"), entry.findings());
    }
    Some(deadline)
}

/// `distances`: they do not fall, and the last one is above 0.
fn distances(entry: &mut Section<'_>) -> Vec<Nanos> {
    let findings = entry.findings();
    let Some(value) = entry.value("distances") else { return Vec::new() };
    let expected = "a list of durations, such as [\"9ms\", \"19ms\"]";
    let Some(values) = value.as_array() else {
        value.wrong_type("distances", expected, findings);
        return Vec::new();
    };
    let read = values.iter().map(|it| it.nanos("distances", findings));
    let Some(distances) = read.collect::<Option<Vec<_>>>() else { return Vec::new() };
    let falls = distances.windows(2).position(|pair| pair[1] < pair[0]);
    if let Some(origin) = falls.and_then(|at| values.get(at + 1)).map(|it| &it.origin) {
        let message = "the second next frame cannot come before the next one";
        let hint = "write the least time to the next frame, then to the one behind it, and so on";
        findings.error_with_hint(origin, message, hint);
    }
    if distances.last().is_none_or(|&last| last == Nanos::ZERO) {
        let message = "`distances` must end with a time above 0";
        findings.error_with_hint(
            &value.origin,
            message,
            "else any number of frames may come at once",
        );
    }
    distances
}

/// A deadline of 0 is a finding.
pub(super) fn no_deadline(origin: &Origin, findings: &Findings) {
    let hint = "write how late a frame may arrive after its release, as in \"5ms\"";
    findings.error_with_hint(origin, "a deadline must be above 0", hint);
}

/// What is in a message: its `data`, its `fill`, or that of all messages.
fn payload(entry: &mut Section<'_>, length: usize, usual: Option<Fill>) -> Payload {
    let findings = entry.findings();
    let data = entry.value("data");
    let fill = fill(entry);
    let Some(data) = data else {
        return fill.or(usual).map_or(Payload::Signals, |fill| fill.payload(length));
    };
    if fill.is_some() {
        let hint = "remove one of them";
        let message = "a message can have `data` or `fill`, not both";
        findings.error_with_hint(&data.origin, message, hint);
    }
    let Some(bytes) = data.hex_bytes("data", findings) else { return Payload::Signals };
    if bytes.len() != length {
        let count = counted(bytes.len() as u64, "byte");
        let message = format!("`data` has {count}, but `length` is {length}");
        findings.error_with_hint(&data.origin, message, "write as many bytes as `length` says");
    }
    Payload::Bytes(bytes)
}

/// What `fill` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every byte is this.
    Byte(u8),
    /// As many stuff bits as a frame of this length may have.
    Worst,
}

impl Fill {
    pub(super) fn payload(self, length: usize) -> Payload {
        match self {
            Self::Byte(byte) => Payload::Bytes(vec![byte; length]),
            Self::Worst => Payload::Worst,
        }
    }
}

/// `fill`: a byte, or what takes the most bits.
pub fn fill(section: &mut Section<'_>) -> Option<Fill> {
    let value = section.value("fill")?;
    match (&value.data, value.as_str()) {
        (Data::Integer(byte), _) if u8::try_from(*byte).is_ok() => {
            u8::try_from(*byte).ok().map(Fill::Byte)
        }
        (_, Some("worst-case")) => Some(Fill::Worst),
        _ => {
            let found = value.to_toml_string();
            let message = format!("`fill` is {found}, but must be 0 to 255, or \"worst-case\"");
            let hint = "worst-case: as many stuff bits as a frame of this length may have";
            section.findings().error_with_hint(&value.origin, message, hint);
            None
        }
    }
}
