//! [`Hub`]: the topics, the logs, and the newest frame of each identifier.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use candor_signals::{Database, Fit, Message};
use candor_wire::can::frame::{ERR_FLAG, RTR_FLAG, group_number, id_word};
use candor_wire::can::{Frame, Id, Kind as FrameKind};

use crate::binary::Encoding;
use crate::log::{Framing, Log, Mark};
use crate::notifier::Notifier;
use crate::pattern::{Pattern, Patterns};
use crate::topic::{Kind, Topic, TopicId};
use crate::{afb, binary, sse};

/// Events that a log holds at most, and their bytes: some seconds of a full bus.
const MOST_ENTRIES: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;

/// A bus whose frames become events.
#[derive(Debug)]
pub struct Bus {
    pub name: String,
    /// What its frames mean, if that is known.
    pub database: Option<Arc<Database>>,
}

/// When the name of the bus stands before those of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// If there are several buses.
    IfSeveral,
    /// Always: buses come and go, and names stay.
    Always,
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
    /// Of each signal.
    topics: Vec<TopicId>,
    /// How many subscriptions want one of its signals.
    wanted: u32,
    newest: Option<(u64, Frame)>,
}

/// What is known of a bus.
#[derive(Debug, Default)]
struct State {
    /// Whether it is there.
    is_present: bool,
    /// By message.
    known: Vec<Known>,
    /// The frames that became no events.
    unlisted: u64,
    /// The identifiers that gave way to others.
    displaced: u64,
    /// Whether its database is that of its frames.
    fit: Fit,
}

/// A log and what is wanted in it.
#[derive(Debug)]
struct Open {
    format: Format,
    log: Log,
    /// The patterns of all subscriptions, each with those whom it is of.
    wanted: Patterns<Vec<Notifier>>,
    /// By topic, those who want it.
    listeners: Vec<Vec<Notifier>>,
    /// Those for whom there is something that they have not been told of.
    due: Vec<Notifier>,
}

impl Open {
    /// Those who want a topic that comes up.
    fn taking(&self, topic: &Topic) -> Vec<Notifier> {
        let mut listeners: Vec<_> = self.wanted.taking(topic).flatten().cloned().collect();
        listeners.sort_unstable_by_key(Notifier::address);
        listeners.dedup_by(|one, other| one.is(other));
        listeners
    }

    /// How many want it by its identifier or its group.
    fn keeping(&self, topic: &Topic) -> u32 {
        self.wanted.keeping(topic).map(|notifiers| notifiers.len() as u32).sum()
    }
}

/// The topics of raw frames.
#[derive(Debug, Default)]
struct RawTopics {
    /// By the word of the identifier: one for each bus.
    by_word: HashMap<u32, Vec<TopicId>>,
    /// A group may have tens of thousands.
    by_group: BTreeSet<(u32, TopicId)>,
}

impl RawTopics {
    fn add(&mut self, id: Id, topic: TopicId) {
        self.by_word.entry(id_word(id)).or_default().push(topic);
        if let Some(group) = group_number(id) {
            self.by_group.insert((group, topic));
        }
    }

    fn remove(&mut self, id: Id, topic: TopicId) {
        remove_place(&mut self.by_word, &id_word(id), topic);
        if let Some(group) = group_number(id) {
            self.by_group.remove(&(group, topic));
        }
    }

    fn of_group(&self, group: u32) -> impl Iterator<Item = TopicId> {
        let all = (group, TopicId(0))..=(group, TopicId(u32::MAX));
        self.by_group.range(all).map(|(_, topic)| *topic)
    }
}

/// Where frames become events.
#[derive(Debug)]
pub struct Hub {
    /// One that was removed keeps its place, for a bus of the same name.
    buses: Vec<Bus>,
    /// What is known of each of them.
    states: Vec<State>,
    names_buses: bool,
    topics: Vec<Topic>,
    /// Those of signals, by the name without that of the bus: one for each bus.
    named: HashMap<String, Vec<TopicId>>,
    raw_topics: RawTopics,
    /// Topics that are gone, by name.
    gone: HashMap<Arc<str>, Vec<TopicId>>,
    keys: HashMap<(usize, u32), Key>,
    open: Vec<Open>,
    frames: u64,
    unknown: Unknown,
    /// The number of the next topic.
    next_number: u32,
    changes: u64,
}

/// The topics of identifiers that no database describes.
#[derive(Debug)]
struct Unknown {
    /// How many there may be.
    most: usize,
    /// First those that can give way, then those that somebody keeps.
    places: Vec<TopicId>,
    /// How many can give way.
    free: usize,
    /// By place of a topic, what is known of it here.
    slots: Vec<Slot>,
    hand: usize,
    /// The greatest ordinal of those that gave way, plus 1.
    next_ordinal: u64,
    /// The places that others took over, the newest last.
    renewed: VecDeque<TopicId>,
    /// How many there were.
    renewals: u64,
}

/// A topic, as far as it concerns whether it gives way.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Where it stands in [`Unknown::places`], if it does.
    at: Option<usize>,
    /// Whether a frame of it came since the hand passed: *second chance*, a way to find one that was not seen for long in
    /// constant time.
    is_seen: bool,
}

/// Places that others took over, as far as they are kept: who was away for longer looks at all.
const MOST_RENEWED: usize = 1 << 12;

impl Unknown {
    fn new(most: usize) -> Self {
        Self {
            most,
            places: Vec::new(),
            free: 0,
            slots: Vec::new(),
            hand: 0,
            next_ordinal: 0,
            renewed: VecDeque::new(),
            renewals: 0,
        }
    }

    /// A frame of a topic has come.
    fn see(&mut self, id: TopicId) {
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            slot.is_seen = true;
        }
    }

    /// Adds a topic. It stays until [`Self::keep`] says otherwise.
    fn add(&mut self, id: TopicId) {
        let place = id.0 as usize;
        if self.slots.len() <= place {
            self.slots.resize(place + 1, Slot::default());
        }
        if let Some(slot) = self.slots.get_mut(place) {
            slot.at = Some(self.places.len());
            self.places.push(id);
        }
    }

    /// Notes whether somebody keeps a topic. What a database describes has no place here.
    fn keep(&mut self, id: TopicId, is_kept: bool) {
        let Some(at) = self.slots.get(id.0 as usize).and_then(|slot| slot.at) else { return };
        if is_kept == (at >= self.free) {
            return;
        }
        // It changes places with the one at the border, which then moves.
        let border = if is_kept { self.free - 1 } else { self.free };
        self.places.swap(at, border);
        self.free = if is_kept { border } else { border + 1 };
        for at in [at, border] {
            let slot = self.places.get(at).and_then(|id| self.slots.get_mut(id.0 as usize));
            if let Some(slot) = slot {
                slot.at = Some(at);
            }
        }
    }

    /// One that can give way and was not seen for longest, roughly. It passes each one once for each frame of it at most, so
    /// a flood of new identifiers costs constant time each; if none can give way, nothing is looked at.
    fn oldest(&mut self) -> Option<TopicId> {
        // In the first turn each one may have been seen.
        for _ in 0..2 * self.free {
            // Those that somebody keeps now may have been before it.
            let at = if self.hand < self.free { self.hand } else { 0 };
            self.hand = at + 1;
            let id = *self.places.get(at)?;
            let slot = self.slots.get_mut(id.0 as usize)?;
            if !std::mem::replace(&mut slot.is_seen, false) {
                return Some(id);
            }
        }
        None
    }

    fn renew(&mut self, id: TopicId) {
        self.renewals += 1;
        if self.renewed.len() == MOST_RENEWED {
            self.renewed.pop_front();
        }
        self.renewed.push_back(id);
    }
}

impl Hub {
    /// A log, as a part of what [`Self::written`] says.
    pub const WHOLE: u64 = crate::log::WHOLE;
    /// The most identifiers of all buses together that no database describes. If one more comes, one that was not seen for long
    /// gives way: its topic ends, and the new one takes over its place with a number of its own. One that somebody is subscribed to
    /// by its identifier or its group stays; who wants all frames is told what he misses of it. If none can give way, frames with
    /// others become no events but those of their signals, and are counted.
    pub const MOST_UNKNOWN: usize = 1 << 16;

    /// A hub for these buses. The signals of their databases are its topics; identifiers become topics when they are seen.
    #[must_use]
    pub fn new(buses: Vec<Bus>) -> Self {
        Self::with_naming(buses, Naming::IfSeveral)
    }

    /// The same with a choice of how signals are called.
    #[must_use]
    pub fn with_naming(buses: Vec<Bus>, naming: Naming) -> Self {
        let mut hub = Self {
            buses: Vec::new(),
            states: Vec::new(),
            names_buses: naming == Naming::Always || buses.len() != 1,
            topics: Vec::new(),
            named: HashMap::new(),
            raw_topics: RawTopics::default(),
            gone: HashMap::new(),
            keys: HashMap::new(),
            open: Vec::new(),
            frames: 0,
            unknown: Unknown::new(Self::MOST_UNKNOWN),
            next_number: 0,
            changes: 0,
        };
        for bus in buses {
            let place = hub.buses.len();
            hub.set(place, bus);
        }
        hub
    }

    /// Adds a bus, or gives the bus of this name another database. Topics whose names stay keep their places, ordinals and
    /// subscribers. Returns the place of the bus.
    pub fn set_bus(&mut self, bus: Bus) -> usize {
        let found = self.buses.iter().position(|other| other.name == bus.name);
        let place = found.unwrap_or(self.buses.len());
        self.set(place, bus);
        place
    }

    /// Removes a bus: its frames become no events any more, and its topics are gone. What was published before is still
    /// delivered.
    pub fn remove_bus(&mut self, place: usize) {
        let (Some(bus), Some(state)) = (self.buses.get_mut(place), self.states.get_mut(place))
        else {
            return;
        };
        bus.database = None;
        state.is_present = false;
        state.known.clear();
        self.changes += 1;
        self.keys.retain(|(bus, _), _| *bus != place);
        self.end_topics(|topic| topic.bus == place);
    }

    /// Topics are gone from now on.
    fn end_topics(&mut self, is_meant: impl Fn(&Topic) -> bool) {
        for (number, topic) in (0..).zip(&mut self.topics) {
            if is_meant(topic) && !std::mem::replace(&mut topic.is_gone, true) {
                self.gone.entry(topic.name.clone()).or_default().push(TopicId(number));
            }
        }
    }

    /// Puts a bus into a place, which is that of the bus of the same name or a new one.
    fn set(&mut self, place: usize, bus: Bus) {
        let Bus { name, database } = bus;
        self.changes += 1;
        // All signals go, and those that the new database has return.
        self.end_topics(|topic| topic.bus == place && !topic.is_raw());
        let prefix = if self.names_buses { format!("{name}/") } else { String::new() };
        let mut all = Vec::new();
        for (index, message) in database.iter().flat_map(|database| database.messages()).enumerate()
        {
            let topics: Vec<_> =
                signals(place, index, message, &prefix).map(|topic| self.enter(topic)).collect();
            let wanted = self.open.iter().flat_map(|open| {
                let listeners = |id: &TopicId| open.listeners.get(id.0 as usize);
                topics.iter().filter_map(listeners).map(|listeners| listeners.len() as u32)
            });
            all.push(Known { wanted: wanted.sum(), topics, newest: None });
        }
        // What is known of the frames is seen with the new database.
        let mut fit = Fit::default();
        for (_, key) in self.keys.iter_mut().filter(|((bus, _), _)| *bus == place) {
            key.message = database.as_ref().and_then(|it| message_of(it, &key.newest.1));
            fit.see(key.newest.1.id(), key.message.is_some());
            let known = key.message.and_then(|message| all.get_mut(message));
            if let Some(known) = known
                && known.newest.is_none_or(|(time_ns, _)| time_ns < key.newest.0)
            {
                known.newest = Some(key.newest);
            }
        }
        let bus = Bus { name, database };
        match self.buses.get_mut(place) {
            Some(old) => *old = bus,
            None => {
                self.buses.push(bus);
                self.states.push(State::default());
            }
        }
        if let Some(state) = self.states.get_mut(place) {
            (state.is_present, state.known, state.fit) = (true, all, fit);
        }
    }

    /// The place of a topic: the one that it had before, if it is gone, or a new one.
    fn enter(&mut self, mut topic: Topic) -> TopicId {
        self.changes += 1;
        let is_same = |id: &&TopicId| {
            let old = self.topics.get(id.0 as usize);
            old.is_some_and(|old| old.bus == topic.bus && old.is_raw() == topic.is_raw())
        };
        let old =
            self.gone.get(&topic.name).and_then(|places| places.iter().find(is_same)).copied();
        if let Some(id) = old
            && let Some(old) = self.topics.get_mut(id.0 as usize)
        {
            remove_place(&mut self.gone, &topic.name, id);
            // Who subscribed to it by its name still does: patterns look at nothing else that may change.
            let before = id_word(old.id());
            (old.kind, old.is_gone) = (topic.kind, false);
            // Two identifiers, one of 11 bits and one of 29, may have the same name.
            if old.is_raw() && id_word(old.id()) != before {
                self.raw_topics.add(old.id(), id);
            }
            return id;
        }
        let id = TopicId(self.topics.len() as u32);
        topic.number = self.next_number;
        self.next_number = self.next_number.saturating_add(1);
        match topic.is_raw() {
            true => self.raw_topics.add(topic.id(), id),
            false => self.named.entry(topic.plain_name().to_owned()).or_default().push(id),
        }
        topic.pinned = self.open.iter().map(|open| open.keeping(&topic)).sum();
        for open in &mut self.open {
            open.listeners.push(open.taking(&topic));
        }
        self.topics.push(topic);
        id
    }

    /// The place of an identifier that no database describes: a new one, or that of one that gives way. `None` if none can.
    fn enter_unknown(&mut self, mut topic: Topic) -> Option<TopicId> {
        let is_back = self.gone.contains_key(&topic.name);
        if is_back || self.unknown.places.len() < self.unknown.most {
            let is_new = self.topics.len();
            let id = self.enter(topic);
            if id.0 as usize == is_new {
                self.unknown.add(id);
                self.unknown.keep(id, self.is_pinned(id));
            }
            return Some(id);
        }
        let id = self.unknown.oldest()?;
        let number = self.next_number;
        self.next_number = number.checked_add(1)?;
        self.changes += 1;
        let old = self.topics.get(id.0 as usize)?;
        let (old_id, old_bus) = (old.id(), old.bus);
        let old_word = id_word(old_id);
        self.unknown.next_ordinal = self.unknown.next_ordinal.max(old.created + old.offset);
        remove_place(&mut self.gone, &old.name, id);
        for word in [old_word, old_word | RTR_FLAG] {
            if self.keys.get(&(old_bus, word)).is_some_and(|key| key.raw == id) {
                self.keys.remove(&(old_bus, word));
            }
        }
        self.raw_topics.remove(old_id, id);
        if let Some(state) = self.states.get_mut(old_bus) {
            state.displaced += 1;
        }
        (topic.number, topic.created, topic.first) = (number, old.created, old.created);
        topic.offset = self.unknown.next_ordinal - old.created;
        self.raw_topics.add(topic.id(), id);
        topic.pinned = self.open.iter().map(|open| open.keeping(&topic)).sum();
        for open in &mut self.open {
            let taking = open.taking(&topic);
            if let Some(listeners) = open.listeners.get_mut(id.0 as usize) {
                *listeners = taking;
            }
        }
        *self.topics.get_mut(id.0 as usize)? = topic;
        self.unknown.keep(id, self.is_pinned(id));
        self.unknown.renew(id);
        Some(id)
    }

    /// Whether somebody is subscribed to a topic by its identifier or its group.
    fn is_pinned(&self, id: TopicId) -> bool {
        self.topic(id).is_some_and(|topic| topic.pinned > 0)
    }

    /// How many places of identifiers were taken over by others.
    pub(crate) const fn renewals(&self) -> u64 {
        self.unknown.renewals
    }

    /// The places that were taken over since there were so many; all that can be if that is long ago.
    pub(crate) fn renewed(&self, since: u64) -> impl Iterator<Item = TopicId> {
        let new = (self.unknown.renewals - since) as usize;
        let kept = &self.unknown.renewed;
        let all = (new > kept.len()).then(|| self.unknown.places.iter().copied());
        let some = (new <= kept.len()).then(|| kept.iter().skip(kept.len() - new).copied());
        all.into_iter().flatten().chain(some.into_iter().flatten())
    }

    /// The topics that a pattern can mean, if they are found by what it says.
    pub(crate) fn found(&self, pattern: &Pattern) -> Vec<TopicId> {
        let found = match pattern {
            Pattern::Name(name) => {
                self.named.get(name.split_once('/').map_or(name.as_str(), |(_, plain)| plain))
            }
            Pattern::Id(id) => self.raw_topics.by_word.get(&id_word(*id)),
            Pattern::Group(group) => return self.raw_topics.of_group(*group).collect(),
            Pattern::Raw => None,
        };
        found.cloned().unwrap_or_default()
    }

    /// The number of the next topic: that of all there are is less.
    pub(crate) const fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Differs after topics came up, went or returned.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a bus is there.
    #[must_use]
    pub fn has_bus(&self, place: usize) -> bool {
        self.states.get(place).is_some_and(|state| state.is_present)
    }

    /// The buses, by their places, and those that were there: see [`Self::has_bus`].
    #[must_use]
    pub fn buses(&self) -> &[Bus] {
        &self.buses
    }

    /// All topics, by their place, also those that are gone.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    #[must_use]
    pub fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(id.0 as usize)
    }

    /// Frames that became events, and those that did not since there was no room for their identifiers.
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        (self.frames, self.states.iter().map(|state| state.unlisted).sum())
    }

    /// Frames of a bus whose identifier had no room: somebody is subscribed to each of [`Self::MOST_UNKNOWN`] others.
    #[must_use]
    pub fn unlisted(&self, place: usize) -> u64 {
        self.states.get(place).map_or(0, |state| state.unlisted)
    }

    /// Whether the database of a bus is that of its frames; `None` without one.
    #[must_use]
    pub fn fit(&self, place: usize) -> Option<(&Fit, &Database)> {
        let database = self.buses.get(place)?.database.as_deref()?;
        Some((&self.states.get(place)?.fit, database))
    }

    /// Identifiers of a bus that gave way to others: see [`Self::MOST_UNKNOWN`].
    #[must_use]
    pub fn displaced(&self, place: usize) -> u64 {
        self.states.get(place).map_or(0, |state| state.displaced)
    }

    /// The log of a format, if it is open.
    #[must_use]
    pub fn log(&self, format: Format) -> Option<&Log> {
        self.open.iter().find(|open| open.format == format).map(|open| &open.log)
    }

    /// How much was written to all logs so far. While this grows by less than half of [`Self::WHOLE`], nothing that was written
    /// before is overwritten.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.open.iter().map(|open| open.log.written()).sum()
    }

    /// Opens the log of a format, if nobody has done so before.
    pub fn open(&mut self, format: Format, framing: Framing) {
        if self.log(format).is_none() {
            let log = Log::new(MOST_ENTRIES, MOST_BYTES, framing);
            let listeners = vec![Vec::new(); self.topics.len()];
            let (wanted, due) = (Patterns::default(), Vec::new());
            self.open.push(Open { format, log, wanted, listeners, due });
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

    /// Those who want a topic.
    #[cfg(test)]
    pub(crate) fn listeners(&self, format: Format, id: TopicId) -> &[Notifier] {
        let open = self.open.iter().find(|open| open.format == format);
        open.and_then(|open| open.listeners.get(id.0 as usize)).map_or(&[], Vec::as_slice)
    }

    /// How many want a signal of a message.
    #[cfg(test)]
    pub(crate) fn wanted(&self, bus: usize, message: usize) -> Option<u32> {
        self.states.get(bus)?.known.get(message).map(|known| known.wanted)
    }

    /// Lets so many identifiers that no database describes have places.
    #[cfg(test)]
    pub(crate) fn bound_unknown(&mut self, most: usize) {
        self.unknown.most = most;
    }

    /// Wakes the subscribers for whom there are events that they have not been told of.
    pub fn notify(&mut self) {
        for notifier in self.open.iter_mut().flat_map(|open| open.due.drain(..)) {
            notifier.notify();
        }
    }

    /// Wakes all subscribers: topics may have changed.
    pub fn ring_all(&mut self) {
        for open in &mut self.open {
            let head = open.log.head();
            open.due.extend(
                open.wanted.values().flatten().filter(|notifier| notifier.note(head)).cloned(),
            );
        }
        self.notify();
    }

    /// A subscriber to this format wants the topics of a pattern that come up from now on, or does so no more. Those that the pattern
    /// means by an identifier or a group stay.
    pub(crate) fn want(
        &mut self,
        format: Format,
        pattern: &Pattern,
        notifier: &Notifier,
        is_wanted: bool,
    ) {
        let Some(open) = self.open.iter_mut().find(|open| open.format == format) else { return };
        match open.wanted.get_mut(pattern) {
            Some(notifiers) if is_wanted => notifiers.push(notifier.clone()),
            Some(notifiers) => {
                let Some(place) = notifiers.iter().position(|of| of.is(notifier)) else { return };
                notifiers.swap_remove(place);
                if notifiers.is_empty() {
                    open.wanted.remove(pattern);
                }
            }
            None if is_wanted => drop(open.wanted.insert(pattern.clone(), vec![notifier.clone()])),
            None => return,
        }
        if !matches!(pattern, Pattern::Id(_) | Pattern::Group(_)) {
            return;
        }
        for id in self.found(pattern) {
            let topic = self.topics.get_mut(id.0 as usize).filter(|topic| pattern.is_of(topic));
            let Some(topic) = topic else { continue };
            match is_wanted {
                true => topic.pinned += 1,
                false => topic.pinned = topic.pinned.saturating_sub(1),
            }
            self.unknown.keep(id, topic.pinned > 0);
        }
    }

    /// A subscriber to this format wants a topic, or does so no more. How many others were passed over to find it.
    pub(crate) fn listen(
        &mut self,
        format: Format,
        id: TopicId,
        notifier: &Notifier,
        is_wanted: bool,
    ) -> u64 {
        let place = id.0 as usize;
        let Some(open) = self.open.iter_mut().find(|open| open.format == format) else { return 0 };
        let (Some(topic), Some(listeners)) =
            (self.topics.get(place), open.listeners.get_mut(place))
        else {
            return 0;
        };
        let mut passed = 0;
        if is_wanted {
            listeners.push(notifier.clone());
        } else {
            let Some(place) = listeners.iter().position(|of| of.is(notifier)) else { return 0 };
            listeners.swap_remove(place);
            passed = place as u64;
        }
        // The message of one that is gone is another one now, or none.
        if !topic.is_gone
            && let Kind::Signal { message, .. } = topic.kind
            && let Some(known) =
                self.states.get_mut(topic.bus).and_then(|state| state.known.get_mut(message))
        {
            match is_wanted {
                true => known.wanted += 1,
                false => known.wanted = known.wanted.saturating_sub(1),
            }
        }
        passed
    }

    /// Makes events of a frame that was received on a bus at a time in ns. Error reports are none.
    pub fn publish(&mut self, bus: usize, time_ns: u64, frame: &Frame) {
        if frame.kind() == FrameKind::Error || !self.has_bus(bus) {
            return;
        }
        let (raw, message) = self.note(bus, time_ns, frame);
        let Some(raw) = raw else {
            if let Some(state) = self.states.get_mut(bus) {
                state.unlisted += 1;
            }
            if let Some(message) = message {
                self.decode(bus, message, time_ns, frame);
            }
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

    /// Notes the frame as the newest one of its identifier. Its topic, if there is room for it, and its message.
    fn note(
        &mut self,
        bus: usize,
        time_ns: u64,
        frame: &Frame,
    ) -> (Option<TopicId>, Option<usize>) {
        let word = frame.can_id() & !ERR_FLAG;
        let newest = (time_ns, *frame);
        if let Some(key) = self.keys.get_mut(&(bus, word)) {
            key.newest = newest;
            self.unknown.see(key.raw);
            return (Some(key.raw), key.message);
        }
        let Some(of_bus) = self.buses.get(bus) else { return (None, None) };
        let id = frame.id();
        let name = format!("{}/{}", of_bus.name, afb::id_number(id));
        let database = of_bus.database.as_ref();
        let message = database.and_then(|database| message_of(database, frame));
        if let Some(state) = self.states.get_mut(bus) {
            state.fit.see(id, message.is_some());
        }
        // A group has messages of any number of identifiers.
        let described = message.and_then(|message| database?.messages().get(message));
        let topic = Topic::new(name, bus, Kind::Raw { id });
        let raw = match described.is_some_and(|message| !message.is_j1939) {
            true => Some(self.enter(topic)),
            false => self.enter_unknown(topic),
        };
        if let Some(raw) = raw {
            self.keys.insert((bus, word), Key { raw, message, newest });
        }
        (raw, message)
    }

    /// Makes events of the signals of a frame, if somebody wants one of them.
    fn decode(&mut self, bus: usize, index: usize, time_ns: u64, frame: &Frame) {
        let Some(state) = self.states.get_mut(bus) else { return };
        let Some(known) = state.known.get_mut(index) else { return };
        known.newest = Some((time_ns, *frame));
        if known.wanted == 0 {
            return;
        }
        let known = &*known;
        let Some(database) = self.buses.get(bus).and_then(|bus| bus.database.as_ref()) else {
            return;
        };
        let Some(message) = database.messages().get(index) else { return };
        for (&place, signal) in known.topics.iter().zip(&message.signals) {
            let Some(decoded) = message.read(signal, frame.data()) else { continue };
            let (value, text) = (decoded.physical, decoded.value_name());
            append(
                &mut self.topics,
                &mut self.open,
                place,
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
    pub fn latest(&self, id: TopicId) -> Option<Latest<'_>> {
        let topic = self.topic(id)?;
        let Kind::Signal { message, signal, .. } = topic.kind else { return None };
        let (time_ns, frame) = self.newest_frame(id)?;
        let message = self.buses.get(topic.bus)?.database.as_ref()?.messages().get(message)?;
        let decoded = message.read(message.signals.get(signal)?, frame.data())?;
        let (value, text) = (decoded.physical, decoded.value_name());
        Some(Latest { time_ns, value, text })
    }

    /// The newest frame of a topic of raw frames, or of the message of a signal, and its time. It need not have the signal:
    /// see [`Message::read`].
    #[must_use]
    pub fn newest_frame(&self, id: TopicId) -> Option<(u64, &Frame)> {
        let topic = self.topic(id).filter(|topic| !topic.is_gone)?;
        if let Kind::Signal { message, .. } = topic.kind {
            let (time_ns, frame) =
                self.states.get(topic.bus)?.known.get(message)?.newest.as_ref()?;
            return Some((*time_ns, frame));
        }
        let word = id_word(topic.id());
        // Remote frames have topics of their own.
        let keys = [word, word | RTR_FLAG].into_iter();
        let mut keys = keys.filter_map(|word| self.keys.get(&(topic.bus, word)));
        let (time_ns, frame) = &keys.find(|key| key.raw == id)?.newest;
        Some((*time_ns, frame))
    }

    /// The newest frame of each identifier seen, with its time and its topic, in no order.
    pub fn newest_frames(&self) -> impl Iterator<Item = (&Topic, u64, &Frame)> {
        self.keys.values().filter_map(|key| {
            let (time_ns, frame) = &key.newest;
            Some((self.topic(key.raw)?, *time_ns, frame))
        })
    }
}

/// Removes a place from those of a key, which goes with the last of them.
fn remove_place<K: Eq + Hash>(all: &mut HashMap<K, Vec<TopicId>>, key: &K, id: TopicId) {
    let Some(places) = all.get_mut(key) else { return };
    places.retain(|place| *place != id);
    if places.is_empty() {
        all.remove(key);
    }
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
    let (count, ordinal) = (topic.created, topic.created + topic.offset);
    let mark = Mark { topic: id, number: topic.number, count, ordinal, time_ns };
    topic.created += 1;
    let topic = &*topic;
    for open in open {
        let Open { format, log, listeners, due, .. } = open;
        let Some(listeners) = listeners.get(id.0 as usize).filter(|all| !all.is_empty()) else {
            continue;
        };
        let number = log.head();
        log.append(mark, value, |out| encode(*format, topic, mark, out));
        due.extend(listeners.iter().filter(|notifier| notifier.note(number)).cloned());
    }
}

/// The message that a frame is, by its place in the database.
fn message_of(database: &Database, frame: &Frame) -> Option<usize> {
    let found = database.message_of(frame)?;
    database.messages().iter().position(|message| std::ptr::eq(message, found))
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
