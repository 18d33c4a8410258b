//! [`Hub`]: the topics, the logs, and the newest frame of each identifier.

use std::collections::HashMap;
use std::ops::Range;

use candor_signals::{Database, Message};
use candor_wire::can::frame::ERR_FLAG;
use candor_wire::can::{Frame, Kind as FrameKind};

use crate::binary::Encoding;
use crate::log::{Framing, Log, Mark};
use crate::pattern::Pattern;
use crate::topic::{Kind, Topic, TopicId};
use crate::{afb, binary, sse};

/// Events that a log holds at most, and their bytes: some seconds of a full bus.
const MOST_ENTRIES: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;
/// The most topics of raw frames: identifiers seen on all buses.
const MOST_IDS: usize = 1 << 16;

/// A bus whose frames become events.
#[derive(Debug)]
pub struct Bus {
    /// What it is called.
    pub name: String,
    /// What its frames mean, if that is known.
    pub database: Option<Database>,
}

/// How events are encoded. Each format in use has a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Events of `x-afb-ws-json1`, with signals under this api.
    Afb(afb::Api),
    /// Lines of `text/event-stream`.
    Sse,
    /// Messages of CBOR or MessagePack.
    Binary(Encoding),
    /// What an [`Event`](crate::Event) has: the data of a frame, or what the value of a signal is called.
    Plain,
}

impl Format {
    /// Its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Afb(_) => "json",
            Self::Sse => "sse",
            Self::Binary(encoding) => encoding.name(),
            Self::Plain => "plain",
        }
    }

    /// What tells that events were missed, since the last one and in all.
    pub(crate) fn missed(self, missed: u64, total: u64, out: &mut Vec<u8>) {
        match self {
            Self::Afb(_) => afb::missed_event(missed, total, out),
            Self::Sse => sse::missed_event(missed, total, out),
            Self::Binary(encoding) => binary::missed_message(encoding, missed, total, out),
            // A batch says it.
            Self::Plain => {}
        }
    }
}

/// The newest value of a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latest<'a> {
    /// When the frame was received, in ns.
    pub time_ns: u64,
    /// The value, in the signal's unit.
    pub value: f64,
    /// What the value is called.
    pub text: Option<&'a str>,
}

/// What is known of an identifier on a bus.
#[derive(Debug)]
struct Key {
    raw: TopicId,
    /// The message, by its place in the database.
    message: Option<usize>,
    newest: (u64, Frame),
}

/// A message on a bus.
#[derive(Debug)]
struct Known {
    topics: Range<u32>,
    /// How many subscriptions want one of its signals.
    wanted: u32,
    newest: Option<(u64, Frame)>,
}

/// A log and what is wanted in it.
#[derive(Debug)]
struct Open {
    format: Format,
    log: Log,
    /// The patterns of all subscriptions.
    patterns: Vec<Pattern>,
    /// By topic, how many of them take it.
    wanted: Vec<u32>,
}

/// Where frames become events.
#[derive(Debug)]
pub struct Hub {
    buses: Vec<Bus>,
    topics: Vec<Topic>,
    keys: HashMap<(usize, u32), Key>,
    /// By bus and message.
    known: Vec<Vec<Known>>,
    open: Vec<Open>,
    frames: u64,
    unlisted: u64,
}

impl Hub {
    /// A hub for these buses. The signals of their databases are its topics; identifiers become topics when they are seen.
    #[must_use]
    pub fn new(buses: Vec<Bus>) -> Self {
        let mut hub = Self {
            buses: Vec::new(),
            topics: Vec::new(),
            keys: HashMap::new(),
            known: Vec::new(),
            open: Vec::new(),
            frames: 0,
            unlisted: 0,
        };
        let is_alone = buses.len() == 1;
        for (index, bus) in buses.iter().enumerate() {
            let messages = bus.database.as_ref().map_or(&[][..], Database::messages);
            let known = messages.iter().enumerate().map(|(place, message)| {
                let start = hub.topics.len() as u32;
                let prefix = if is_alone { String::new() } else { format!("{}/", bus.name) };
                hub.topics.extend(signals(index, place, message, &prefix));
                Known { topics: start..hub.topics.len() as u32, wanted: 0, newest: None }
            });
            let known = known.collect();
            hub.known.push(known);
        }
        hub.buses = buses;
        hub
    }

    /// The buses.
    #[must_use]
    pub fn buses(&self) -> &[Bus] {
        &self.buses
    }

    /// All topics, by their place.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// A topic.
    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(id.0 as usize)
    }

    /// Frames that became events, and those that did not since too many identifiers had been seen.
    #[must_use]
    pub const fn frames(&self) -> (u64, u64) {
        (self.frames, self.unlisted)
    }

    /// The log of a format, if it is open.
    #[must_use]
    pub fn log(&self, format: Format) -> Option<&Log> {
        self.open.iter().find(|open| open.format == format).map(|open| &open.log)
    }

    /// Opens the log of a format, if nobody has done so before.
    pub fn open(&mut self, format: Format, framing: Framing) {
        if self.log(format).is_none() {
            let log = Log::new(MOST_ENTRIES, MOST_BYTES, framing);
            let wanted = vec![0; self.topics.len()];
            self.open.push(Open { format, log, patterns: Vec::new(), wanted });
        }
    }

    /// Replaces an open log by one of another size.
    #[cfg(test)]
    pub(crate) fn shrink(
        &mut self,
        format: Format,
        entries: usize,
        bytes: usize,
        framing: Framing,
    ) {
        for open in self.open.iter_mut().filter(|open| open.format == format) {
            open.log = Log::new(entries, bytes, framing);
        }
    }

    /// A subscription of this format wants the topics of a pattern, also those that come up later, or does so no
    /// more.
    pub(crate) fn want(&mut self, format: Format, pattern: &Pattern, is_wanted: bool) {
        let Some(open) = self.open.iter_mut().find(|open| open.format == format) else { return };
        match (is_wanted, open.patterns.iter().position(|other| other == pattern)) {
            (true, _) => open.patterns.push(pattern.clone()),
            (false, Some(place)) => drop(open.patterns.swap_remove(place)),
            (false, None) => return,
        }
        let change = |count: &mut u32| match is_wanted {
            true => *count += 1,
            false => *count = count.saturating_sub(1),
        };
        for (topic, wanted) in self.topics.iter().zip(&mut open.wanted) {
            if !pattern.takes(topic) {
                continue;
            }
            change(wanted);
            if let Kind::Signal { message, .. } = topic.kind
                && let Some(known) =
                    self.known.get_mut(topic.bus).and_then(|known| known.get_mut(message))
            {
                change(&mut known.wanted);
            }
        }
    }

    /// Makes events of a frame that was received on a bus at a time in ns. Error reports are none.
    pub fn publish(&mut self, bus: usize, time_ns: u64, frame: &Frame) {
        if frame.kind() == FrameKind::Error || bus >= self.buses.len() {
            return;
        }
        let Some((raw, message)) = self.note(bus, time_ns, frame) else {
            self.unlisted += 1;
            return;
        };
        self.frames += 1;
        append(&mut self.topics, &mut self.open, raw, time_ns, None, |format, topic, mark, out| {
            match format {
                Format::Afb(_) => afb::raw_event(topic, frame, out),
                Format::Sse => sse::raw_event(topic, mark, frame, out),
                Format::Binary(encoding) => binary::raw_event(encoding, mark, frame.data(), out),
                Format::Plain => out.extend_from_slice(frame.data()),
            }
        });
        if let Some(message) = message {
            self.decode(bus, message, time_ns, frame);
        }
    }

    /// Notes the frame as the newest one of its identifier. Its topic and its message.
    fn note(
        &mut self,
        bus: usize,
        time_ns: u64,
        frame: &Frame,
    ) -> Option<(TopicId, Option<usize>)> {
        let word = frame.can_id() & !ERR_FLAG;
        let newest = (time_ns, *frame);
        if let Some(key) = self.keys.get_mut(&(bus, word)) {
            key.newest = newest;
            return Some((key.raw, key.message));
        }
        if self.keys.len() >= MOST_IDS {
            return None;
        }
        let of_bus = self.buses.get(bus)?;
        let messages = of_bus.database.as_ref();
        let found = messages.and_then(|database| database.message_of(frame));
        let message = messages.zip(found).and_then(|(database, found)| {
            database.messages().iter().position(|message| std::ptr::eq(message, found))
        });
        let raw = TopicId(self.topics.len() as u32);
        let id = frame.id();
        let name = format!("{}/{}", of_bus.name, afb::id_number(id));
        let topic = Topic::new(name, bus, Kind::Raw { id });
        for open in &mut self.open {
            let taking = open.patterns.iter().filter(|pattern| pattern.takes(&topic));
            open.wanted.push(taking.count() as u32);
        }
        self.topics.push(topic);
        self.keys.insert((bus, word), Key { raw, message, newest });
        Some((raw, message))
    }

    /// Makes events of the signals of a frame, if somebody wants one of them.
    fn decode(&mut self, bus: usize, index: usize, time_ns: u64, frame: &Frame) {
        let Some(known) = self.known.get_mut(bus).and_then(|known| known.get_mut(index)) else {
            return;
        };
        known.newest = Some((time_ns, *frame));
        if known.wanted == 0 {
            return;
        }
        let first = known.topics.start;
        let Some(database) = self.buses.get(bus).and_then(|bus| bus.database.as_ref()) else {
            return;
        };
        let Some(message) = database.messages().get(index) else { return };
        for (place, signal) in (first..).zip(&message.signals) {
            if signal.selection.is_some() && !message.is_selected(signal, frame.data()) {
                continue;
            }
            let Some(decoded) = signal.read(frame.data()) else { continue };
            let (value, text) = (tidy(decoded.physical), decoded.value_name());
            append(
                &mut self.topics,
                &mut self.open,
                TopicId(place),
                time_ns,
                Some(value),
                |format, topic, mark, out| match format {
                    Format::Afb(api) => afb::signal_event(api, topic, time_ns, value, text, out),
                    Format::Sse => sse::signal_event(topic, mark, value, text, out),
                    Format::Binary(encoding) => {
                        binary::signal_event(encoding, mark, value, text, out);
                    }
                    Format::Plain => out.extend_from_slice(text.unwrap_or_default().as_bytes()),
                },
            );
        }
    }

    /// The newest value of a signal; `None` of other topics, and before the first frame that has it.
    #[must_use]
    pub fn latest(&self, topic: &Topic) -> Option<Latest<'_>> {
        let Kind::Signal { message, signal, .. } = &topic.kind else { return None };
        let (time_ns, frame) = self.known.get(topic.bus)?.get(*message)?.newest.as_ref()?;
        let database = self.buses.get(topic.bus)?.database.as_ref()?;
        let message = database.messages().get(*message)?;
        let signal = message.signals.get(*signal)?;
        if !message.is_selected(signal, frame.data()) {
            return None;
        }
        let decoded = signal.read(frame.data())?;
        Some(Latest {
            time_ns: *time_ns,
            value: tidy(decoded.physical),
            text: decoded.value_name(),
        })
    }

    /// The newest frame of each identifier seen, with its time and its topic, in no order.
    pub fn newest_frames(&self) -> impl Iterator<Item = (&Topic, u64, &Frame)> {
        self.keys.values().filter_map(|key| {
            let (time_ns, frame) = &key.newest;
            Some((self.topic(key.raw)?, *time_ns, frame))
        })
    }
}

/// The value without the error of multiplying by a decimal scale: 12.78, and not 12.780000000000001.
fn tidy(value: f64) -> f64 {
    let rounded = (value * 1e9).round() / 1e9;
    // Two errors of a multiplication, each at most half of the last place.
    if (rounded - value).abs() <= value.abs() * (2.0 * f64::EPSILON) { rounded } else { value }
}

/// Counts an event of a topic, and encodes it once for each log in which somebody wants it.
fn append(
    topics: &mut [Topic],
    open: &mut [Open],
    id: TopicId,
    time_ns: u64,
    value: Option<f64>,
    encode: impl Fn(Format, &Topic, Mark, &mut Vec<u8>),
) {
    let Some(topic) = topics.get_mut(id.0 as usize) else { return };
    let mark = Mark { topic: id, ordinal: topic.created, time_ns };
    topic.created += 1;
    let topic = &*topic;
    for open in
        open.iter_mut().filter(|open| open.wanted.get(id.0 as usize).is_some_and(|&n| n > 0))
    {
        let format = open.format;
        open.log.append(mark, value, |out| encode(format, topic, mark, out));
    }
}

/// The topics of the signals of a message.
fn signals<'a>(
    bus: usize,
    place: usize,
    message: &'a Message,
    prefix: &'a str,
) -> impl Iterator<Item = Topic> + use<'a> {
    message.signals.iter().enumerate().map(move |(index, signal)| {
        let name = format!("{prefix}{}.{}", message.name, signal.name);
        let kind = Kind::Signal {
            message: place,
            signal: index,
            unit: signal.unit.clone(),
            id: message.id,
            is_j1939: message.is_j1939,
        };
        Topic::new(name, bus, kind)
    })
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn values_of_decimal_scales_are_short() {
        for (raw, scale, text) in [
            (1_278.0, 0.01, "12.78"),
            (3.0, 0.1, "0.3"),
            (65_535.0, 0.000_1, "6.5535"),
            (1.0, 0.015_625, "0.015625"),
            (-7.0, 0.1, "-0.7"),
        ] {
            assert_eq!(tidy(raw * scale).to_string(), text);
        }
        // What has more digits keeps them.
        for value in [1.0 / 3.0, 1e-20, 1e300, f64::MAX, f64::INFINITY] {
            assert_eq!(tidy(value).to_bits(), value.to_bits(), "{value}");
        }
        assert!(tidy(f64::NAN).is_nan());
    }
}
