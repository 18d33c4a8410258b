//! [`Subscriber`]: who wants which events, and how far they have been delivered.

use crate::batch::Batch;
use crate::binary;
use crate::filter::{Filter, Memory};
use crate::hub::{Format, Hub};
use crate::log::{Entry, Framing, Log};
use crate::pattern::Pattern;
use crate::topic::TopicId;

/// A pattern with what is wanted of its topics.
#[derive(Clone, Debug, PartialEq)]
struct Wish {
    pattern: Pattern,
    filter: Filter,
    /// Only the newest event of each topic, whenever some are delivered.
    is_latest: bool,
}

/// What a subscriber has of a topic.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The wish that takes it: the last one that does.
    wish: Option<usize>,
    /// The ordinal of the next event of the topic for this subscriber.
    next: u64,
    memory: Memory,
}

/// What became of the events that a subscriber wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events delivered.
    pub delivered: u64,
    /// Events that its filters left out.
    pub filtered: u64,
    /// Events that were not delivered because a newer one of the same topic was there (*latest value*).
    pub superseded: u64,
    /// Events that were overwritten before they could be delivered.
    pub missed: u64,
}

/// What [`Subscriber::deliver`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Events missed since the last delivery.
    pub missed: u64,
    /// Whether more events wait.
    pub has_more: bool,
}

/// A subscriber: what it wants, and how far that has been delivered.
#[derive(Debug)]
pub struct Subscriber {
    format: Format,
    wishes: Vec<Wish>,
    slots: Vec<Slot>,
    cursor: u64,
    counts: Counts,
    /// The first ordinal of each topic behind a gap.
    first: Vec<Option<u64>>,
    /// By topic, whether its name has been told, in formats that have numbers instead.
    named: Vec<bool>,
    /// What times count from, as it was told last.
    base_us: Option<u64>,
    is_batched: bool,
    /// A message that is being made, and those that become one.
    scratch: Vec<u8>,
    gathered: Vec<u8>,
}

/// Where the messages of a delivery go.
struct Parcel<'a> {
    framing: Framing,
    out: &'a mut Vec<u8>,
    scratch: Vec<u8>,
    /// Messages without headers, if they become one.
    gathered: Option<Vec<u8>>,
    messages: usize,
}

impl Parcel<'_> {
    fn len(&self) -> usize {
        self.out.len() + self.gathered.as_ref().map_or(0, Vec::len)
    }

    /// Appends a message that is this subscriber's own.
    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.scratch.clear();
        encode(&mut self.scratch);
        self.messages += 1;
        let to = match &mut self.gathered {
            Some(gathered) => gathered,
            None => {
                (self.framing)(self.scratch.len(), self.out);
                &mut *self.out
            }
        };
        to.extend_from_slice(&self.scratch);
    }

    /// Appends an event that all share.
    fn share(&mut self, log: &Log, entry: &Entry) {
        self.messages += 1;
        match &mut self.gathered {
            Some(gathered) => gathered.extend_from_slice(log.message(entry)),
            None => self.out.extend_from_slice(log.bytes(entry)),
        }
    }
}

impl Subscriber {
    /// Somebody who wants nothing yet, with events in this format. The hub must have it open.
    #[must_use]
    pub fn new(hub: &Hub, format: Format) -> Self {
        Self {
            format,
            wishes: Vec::new(),
            slots: Vec::new(),
            cursor: hub.log(format).map_or(0, Log::head),
            counts: Counts::default(),
            first: Vec::new(),
            named: Vec::new(),
            base_us: None,
            is_batched: false,
            scratch: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// What became of the events so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether it wants anything.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// How many topics it is subscribed to.
    #[must_use]
    pub fn topics(&self, hub: &Hub) -> usize {
        let topics = self.slots.iter().zip(hub.topics());
        topics.filter(|(slot, topic)| slot.wish.is_some() && !topic.is_gone).count()
    }

    /// How many events wait in its log, wanted or not; more than the log holds if some will be missed.
    #[must_use]
    pub fn behind(&self, hub: &Hub) -> u64 {
        hub.log(self.format).map_or(0, |log| log.head() - self.cursor)
    }

    /// Subscribes to the topics of a pattern, also to those that come up later. Topics that an earlier pattern has as well
    /// get the new filter. The number of topics that it takes now.
    pub fn subscribe(
        &mut self,
        hub: &mut Hub,
        pattern: Pattern,
        filter: Filter,
        is_latest: bool,
    ) -> usize {
        self.skip_if_idle(hub);
        self.look_at_new_topics(hub);
        self.remove(hub, |other| *other == pattern);
        hub.want(self.format, &pattern, true);
        self.wishes.push(Wish { pattern, filter, is_latest });
        self.assign(hub);
        let wish = self.wishes.len() - 1;
        let topics = self.slots.iter().zip(hub.topics());
        topics.filter(|(slot, topic)| slot.wish == Some(wish) && !topic.is_gone).count()
    }

    /// Whether the messages of a delivery become one. Formats without such a message do not mind.
    pub fn set_batched(&mut self, is_batched: bool) {
        self.is_batched = is_batched && matches!(self.format, Format::Binary(_));
    }

    /// The topics that it is subscribed to and whose names it has not been told, by number. From now on, it has.
    pub fn name_topics<'a>(&mut self, hub: &'a Hub) -> Vec<(TopicId, &'a str)> {
        self.look_at_new_topics(hub);
        self.named.resize(self.slots.len(), false);
        let mut names = Vec::new();
        let topics = self.slots.iter().zip(&mut self.named).zip(hub.topics());
        for (number, ((slot, is_named), topic)) in (0..).zip(topics) {
            if slot.wish.is_some() && !topic.is_gone && !std::mem::replace(is_named, true) {
                names.push((TopicId(number), topic.name.as_str()));
            }
        }
        names
    }

    /// Ends the subscription to these patterns, by the words in which they were made. False if there was none of them.
    pub fn unsubscribe(&mut self, hub: &mut Hub, patterns: &[Pattern]) -> bool {
        self.look_at_new_topics(hub);
        let before = self.wishes.len();
        self.remove(hub, |pattern| patterns.contains(pattern));
        self.assign(hub);
        self.wishes.len() < before
    }

    /// Ends all subscriptions. To be called before it is dropped.
    pub fn leave(&mut self, hub: &mut Hub) {
        self.remove(hub, |_| true);
        self.assign(hub);
    }

    fn remove(&mut self, hub: &mut Hub, is_meant: impl Fn(&Pattern) -> bool) {
        let format = self.format;
        self.wishes.retain(|wish| {
            let is_meant = is_meant(&wish.pattern);
            if is_meant {
                hub.want(format, &wish.pattern, false);
            }
            !is_meant
        });
    }

    /// Nothing before now is of interest to who wants nothing.
    fn skip_if_idle(&mut self, hub: &Hub) {
        if self.wishes.is_empty() {
            self.cursor = hub.log(self.format).map_or(0, Log::head);
        }
    }

    /// Finds the wish of each topic after the wishes have changed.
    fn assign(&mut self, hub: &Hub) {
        self.slots.resize_with(hub.topics().len(), Slot::default);
        for (slot, topic) in self.slots.iter_mut().zip(hub.topics()) {
            let wish = self.wishes.iter().rposition(|wish| wish.pattern.takes(topic));
            match (slot.wish, wish) {
                (None, Some(_)) => *slot = Slot { wish, next: topic.created, ..Slot::default() },
                (_, None) => *slot = Slot::default(),
                _ => slot.wish = wish,
            }
        }
    }

    /// Topics that came up since: all their events count.
    fn look_at_new_topics(&mut self, hub: &Hub) {
        let new = hub.topics().get(self.slots.len()..).unwrap_or_default();
        for topic in new {
            let wish = self.wishes.iter().rposition(|wish| wish.pattern.takes(topic));
            self.slots.push(Slot { wish, ..Slot::default() });
        }
    }

    /// Appends messages with their frame headers to `out`, until that has `most_bytes` or no more wait: events, and first how
    /// many were missed.
    pub fn deliver(&mut self, hub: &Hub, most_bytes: usize, out: &mut Vec<u8>) -> Delivery {
        self.look_at_new_topics(hub);
        let Some(log) = hub.log(self.format) else { return Delivery::default() };
        let mut delivery = self.begin(hub, log);
        let mut parcel = Parcel {
            framing: log.framing(),
            out,
            scratch: std::mem::take(&mut self.scratch),
            gathered: self.is_batched.then(|| std::mem::take(&mut self.gathered)),
            messages: 0,
        };
        if delivery.missed > 0 {
            parcel.add(|out| self.format.missed(delivery.missed, self.counts.missed, out));
        }
        while let Some(entry) = log.entry(self.cursor) {
            if parcel.len() >= most_bytes {
                delivery.has_more = true;
                break;
            }
            if self.take(hub, entry) {
                if let Format::Binary(encoding) = self.format {
                    self.introduce(hub, encoding, entry, &mut parcel);
                }
                parcel.share(log, entry);
            }
        }
        let Parcel { mut scratch, gathered, messages, out, framing } = parcel;
        if let (Some(mut gathered), Format::Binary(encoding)) = (gathered, self.format) {
            if messages > 0 {
                scratch.clear();
                binary::begin_batch(encoding, messages, &mut scratch);
                framing(scratch.len() + gathered.len(), out);
                out.extend_from_slice(&scratch);
                out.extend_from_slice(&gathered);
            }
            gathered.clear();
            self.gathered = gathered;
        }
        self.scratch = scratch;
        delivery
    }

    /// Puts events of [`Format::Plain`] into a batch, `most` at once. What was there before goes.
    pub fn gather(&mut self, hub: &Hub, most: usize, batch: &mut Batch) -> Delivery {
        batch.clear();
        self.look_at_new_topics(hub);
        let Some(log) = hub.log(self.format) else { return Delivery::default() };
        let mut delivery = self.begin(hub, log);
        while let Some(entry) = log.entry(self.cursor) {
            if batch.len() >= most {
                delivery.has_more = true;
                break;
            }
            if self.take(hub, entry) {
                batch.push(entry, log.message(entry));
            }
        }
        batch.missed = delivery.missed;
        delivery
    }

    /// Looks whether events were overwritten; somebody who wants nothing has nothing waiting.
    fn begin(&mut self, hub: &Hub, log: &Log) -> Delivery {
        let mut delivery = Delivery::default();
        if self.wishes.is_empty() {
            self.cursor = log.head();
        } else if self.cursor < log.tail() {
            delivery.missed = self.catch_up(hub, log);
            self.counts.missed += delivery.missed;
        }
        delivery
    }

    /// Goes past the event at the cursor. Whether it is to be delivered.
    fn take(&mut self, hub: &Hub, entry: &Entry) -> bool {
        self.cursor += 1;
        let Some(slot) = self.slots.get_mut(entry.topic.0 as usize) else { return false };
        let Some(wish) = slot.wish.and_then(|wish| self.wishes.get(wish)) else { return false };
        if entry.ordinal < slot.next {
            // From before the subscription.
            return false;
        }
        slot.next = entry.ordinal + 1;
        let newest = hub.topic(entry.topic).map_or(0, |topic| topic.created);
        if wish.is_latest && entry.ordinal + 1 < newest {
            self.counts.superseded += 1;
            return false;
        }
        if !wish.filter.passes(&mut slot.memory, entry.time_ns, entry.value) {
            self.counts.filtered += 1;
            return false;
        }
        self.counts.delivered += 1;
        true
    }

    /// Tells what an event takes for granted, if that was not told yet: the name of its topic, and the time base.
    fn introduce(
        &mut self,
        hub: &Hub,
        encoding: binary::Encoding,
        entry: &Entry,
        parcel: &mut Parcel<'_>,
    ) {
        let TopicId(number) = entry.topic;
        if self.named.len() <= number as usize {
            self.named.resize(self.slots.len(), false);
        }
        if let Some(is_named) = self.named.get_mut(number as usize)
            && !std::mem::replace(is_named, true)
            && let Some(topic) = hub.topic(entry.topic)
        {
            parcel.add(|out| binary::name_message(encoding, number, &topic.name, out));
        }
        let base_us = binary::time_base(entry.time_ns);
        if self.base_us.replace(base_us) != Some(base_us) {
            parcel.add(|out| binary::base_message(encoding, base_us, out));
        }
    }

    /// Goes on in the middle of what is there, so that there is time before the next gap. How many events were missed.
    fn catch_up(&mut self, hub: &Hub, log: &Log) -> u64 {
        let restart = log.tail() + (log.head() - log.tail()) / 2;
        self.first.clear();
        self.first.resize(self.slots.len(), None);
        for entry in (restart..log.head()).filter_map(|number| log.entry(number)) {
            if let Some(first) = self.first.get_mut(entry.topic.0 as usize) {
                first.get_or_insert(entry.ordinal);
            }
        }
        let mut missed = 0;
        let topics = self.slots.iter_mut().zip(&self.first).zip(hub.topics());
        for ((slot, first), topic) in topics.filter(|((slot, _), _)| slot.wish.is_some()) {
            // Without an event there, all that were created are before the gap's end.
            let first = first.unwrap_or(topic.created).max(slot.next);
            missed += first - slot.next;
            slot.next = first;
        }
        self.cursor = restart;
        missed
    }
}
