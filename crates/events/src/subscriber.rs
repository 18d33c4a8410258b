//! [`Subscriber`]: who wants which events, and how far they have been delivered.

mod change;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::batch::Batch;
use crate::binary;
use crate::filter::{Filter, TopicMemory};
use crate::hub::{Format, Hub};
use crate::log::{Entry, Framing, Log};
use crate::notifier::Notifier;
use crate::pattern::{Pattern, Patterns};
use crate::selection::Selection;
use crate::steps::Steps;
use crate::topic::{Topic, TopicId};

pub use change::{Subscribing, Unsubscribing};

/// A pattern with what is wanted of its topics.
#[derive(Clone, Debug)]
struct TopicRequest {
    pattern: Pattern,
    filter: Filter,
    /// Only the newest event of each topic, whenever some are delivered.
    is_latest: bool,
    /// The one with the greatest takes precedence.
    order: u64,
    /// It is no more, but topics may still have it.
    is_over: bool,
}

/// Who is at most so many events behind looks up those of its topics; others look at all.
const MOST_LOOKED_UP: u64 = 4_096;
/// To look up a topic takes as long as to look at so many events.
const LOOK_UP: u64 = 4;
/// How much is looked at of topics that came up before events are delivered: below a millisecond. Events wait for the rest.
const LOOK: u64 = 10_000;
/// What it takes to hand out a name.
const NAME: u64 = 4;
/// The place of no slot.
const NONE: u32 = u32::MAX;

/// What a subscriber has of a topic that it wants.
#[derive(Clone, Copy, Debug)]
struct Slot {
    topic: TopicId,
    /// The number of the topic.
    number: u32,
    /// The wish that takes it, by its place: the last one that does.
    wish: u32,
    /// The next event at the place of the topic for this subscriber.
    next: u64,
    memory: TopicMemory,
}

/// How the next events are found.
#[derive(Clone, Copy, Debug)]
enum Search {
    /// One after the other.
    Each,
    /// By the numbers in [`Subscriber::found`], from this place on.
    Found(usize),
}

/// What became of the events that a subscriber wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub delivered: u64,
    /// Events that its filters left out.
    pub filtered: u64,
    /// Events that were not delivered because a newer one of the same topic was there (*latest value*).
    pub superseded: u64,
    /// Events that were overwritten before they could be delivered, as far as that was told.
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
    /// By place.
    wishes: Vec<Option<TopicRequest>>,
    /// Where another one may be put.
    free: Vec<u32>,
    /// The places of wishes, without those that are over.
    patterns: Patterns<u32>,
    next_order: u64,
    /// By topic, the place of its slot, or [`NONE`].
    places: Vec<u32>,
    slots: Vec<Slot>,
    cursor: u64,
    notifier: Notifier,
    /// The numbers of events that were looked up.
    found: Vec<u64>,
    /// By slot, the first event at its place behind a gap.
    first: Vec<Option<u64>>,
    counts: Counts,
    /// By topic, the number whose name has been told, in formats that have numbers instead.
    named: Vec<Option<u32>>,
    /// How many of [`Hub::renewed`] it has looked at.
    renewals: u64,
    /// Events of topics that gave way, which it has not been told of.
    untold: u64,
    /// What times count from, as it was told last.
    base_us: Option<u64>,
    is_batched: bool,
    /// A message that is being made, and those that become one.
    scratch: Vec<u8>,
    gathered: Vec<u8>,
}

/// Where the messages of a delivery go.
struct OutgoingMessage<'a> {
    framing: Framing,
    out: &'a mut Vec<u8>,
    scratch: Vec<u8>,
    /// Messages without headers, if they become one.
    gathered: Option<Vec<u8>>,
    messages: usize,
}

impl OutgoingMessage<'_> {
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

/// Whether events of the topic may still come.
fn is_there(hub: &Hub, slot: &Slot) -> bool {
    hub.topic(slot.topic).is_some_and(|topic| !topic.is_gone)
}

impl Slot {
    /// That of a topic of which the events from this one on are wanted.
    fn new(id: TopicId, topic: &Topic, wish: u32, next: u64) -> Self {
        Self { topic: id, number: topic.number, wish, next, memory: TopicMemory::default() }
    }
}

impl Subscriber {
    /// Somebody who wants nothing yet, with events in this format. The hub must have it open.
    #[must_use]
    pub fn new(hub: &Hub, format: Format) -> Self {
        Self {
            format,
            wishes: Vec::new(),
            free: Vec::new(),
            patterns: Patterns::default(),
            next_order: 0,
            places: Vec::new(),
            slots: Vec::new(),
            notifier: Notifier::new(),
            found: Vec::new(),
            first: Vec::new(),
            cursor: hub.log(format).map_or(0, Log::head),
            counts: Counts::default(),
            named: Vec::new(),
            renewals: hub.renewals(),
            untold: 0,
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

    /// Events that were overwritten before they could be delivered: those that it was told of ([`Counts::missed`]), and those
    /// since. It need not come to look.
    pub fn missed(&mut self, hub: &Hub) -> u64 {
        self.look(hub, &mut Steps::all());
        let Some(log) = hub.log(self.format) else { return self.counts.missed };
        let untold = |slot: &Slot| log.overwritten(slot.topic).saturating_sub(slot.next);
        self.counts.missed + self.untold + self.slots.iter().map(untold).sum::<u64>()
    }

    /// The patterns that it is subscribed to.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.wishes.iter().flatten().filter(|wish| !wish.is_over).map(|wish| &wish.pattern)
    }

    /// How many of these it is not subscribed to yet.
    pub fn new_among(&self, patterns: &[Pattern]) -> usize {
        patterns.iter().filter(|pattern| self.patterns.get(pattern).is_none()).count()
    }

    /// Whether it wants nothing but the newest events of topics: what it does not get now, newer ones take the place of.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        self.is_subscribed() && self.wishes.iter().flatten().all(|wish| wish.is_latest)
    }

    /// Whether it wants anything.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// How many topics it keeps something of: those that it is subscribed to, and some that are gone.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    #[must_use]
    pub fn topics(&self, hub: &Hub) -> usize {
        self.slots.iter().filter(|slot| is_there(hub, slot)).count()
    }

    /// How many events came since the first one that waits, wanted or not; more than the log holds if some will be
    /// missed.
    #[must_use]
    pub fn behind(&self, hub: &Hub) -> u64 {
        let head = hub.log(self.format).map_or(0, Log::head);
        self.notifier.first().map_or(0, |first| head - first.max(self.cursor))
    }

    /// How many events there are since the first one that waits, wanted or not, without those that were overwritten.
    #[must_use]
    pub fn waiting(&self, hub: &Hub) -> u64 {
        let held = hub.log(self.format).map_or(0, |log| log.head() - log.tail());
        self.behind(hub).min(held)
    }

    /// Waits until there is something for it: see [`Hub::notify`].
    pub fn poll_due(&self, context: &Context<'_>) -> Poll<()> {
        self.notifier.poll(context)
    }

    /// Subscribes to the topics of a pattern, also to those that come up later. Topics that an earlier pattern has as well
    /// get the new filter. The number of topics that it takes now. This takes all the time that it needs; see [`Subscribing`].
    pub fn subscribe(
        &mut self,
        hub: &mut Hub,
        pattern: Pattern,
        filter: Filter,
        is_latest: bool,
    ) -> usize {
        let mut selection = Selection::new(&[pattern]);
        selection.go_on(hub, &mut Steps::all());
        let mut subscribing = Subscribing::new(selection, filter, is_latest);
        subscribing.go_on(self, hub, &mut Steps::all());
        subscribing.topics()
    }

    /// Whether the messages of a delivery become one. Formats without such a message do not mind.
    pub fn set_batched(&mut self, is_batched: bool) {
        self.is_batched = is_batched && matches!(self.format, Format::Binary(_));
    }

    /// The topics that it is subscribed to and whose names it has not been told, by number. From now on, it has. It goes on at
    /// this place of a topic until there are no more steps; that is then the number of topics if it has all of them.
    pub fn name_topics(
        &mut self,
        hub: &Hub,
        next: &mut usize,
        steps: &mut Steps,
    ) -> Vec<(u32, Arc<str>)> {
        let mut names = Vec::new();
        if !self.look(hub, steps) {
            return names;
        }
        self.named.resize(self.places.len(), None);
        while *next < self.places.len() && !steps.are_over() {
            let id = TopicId(*next as u32);
            *next += 1;
            steps.spend(1);
            let is_wanted = self.places.get(id.0 as usize).is_some_and(|place| *place != NONE);
            if is_wanted
                && let (Some(topic), Some(named)) =
                    (hub.topic(id), self.named.get_mut(id.0 as usize))
                && !topic.is_gone
                && named.replace(topic.number) != Some(topic.number)
            {
                steps.spend(NAME);
                names.push((topic.number, Arc::clone(&topic.name)));
            }
        }
        names
    }

    /// Ends the subscription to these patterns, by the words in which they were made. False if there was none of them. This takes
    /// all the time that it needs; see [`Unsubscribing`].
    pub fn unsubscribe(&mut self, hub: &mut Hub, patterns: &[Pattern]) -> bool {
        let mut unsubscribing = Unsubscribing::new(patterns.to_vec());
        unsubscribing.go_on(self, hub, &mut Steps::all());
        unsubscribing.is_changed()
    }

    /// Ends all subscriptions. To be called before it is dropped.
    pub fn leave(&mut self, hub: &mut Hub) {
        self.leaving().go_on(self, hub, &mut Steps::all());
    }

    /// What ends all subscriptions in steps.
    pub fn leaving(&self) -> Unsubscribing {
        Unsubscribing::new(self.patterns().cloned().collect())
    }

    /// Nothing before now is of interest to who wants nothing.
    fn skip_if_idle(&mut self, hub: &Hub) {
        if !self.is_subscribed() {
            self.cursor = hub.log(self.format).map_or(0, Log::head);
            self.notifier.clear();
        }
    }

    /// How a wish stands to others.
    fn order(&self, wish: u32) -> Option<u64> {
        self.wishes.get(wish as usize)?.as_ref().map(|wish| wish.order)
    }

    /// The wish that takes a topic, by its place.
    fn wish_of(&self, topic: &Topic) -> Option<u32> {
        self.patterns.taking(topic).copied().max_by_key(|wish| self.order(*wish))
    }

    /// Adds a wish that takes precedence over the others, in the place of one with this pattern. Its place.
    fn add(&mut self, hub: &mut Hub, wish: TopicRequest) -> u32 {
        let place = self.free.pop().unwrap_or(self.wishes.len() as u32);
        let old = self.patterns.insert(wish.pattern.clone(), place);
        match old.and_then(|old| self.wishes.get_mut(old as usize)?.as_mut()) {
            Some(old) => old.is_over = true,
            None => hub.want(self.format, &wish.pattern, &self.notifier, true),
        }
        match self.wishes.get_mut(place as usize) {
            Some(free) => *free = Some(wish),
            None => self.wishes.push(Some(wish)),
        }
        place
    }

    /// Ends a wish. Whether there was one.
    fn end_wish(&mut self, hub: &mut Hub, pattern: &Pattern) -> bool {
        let Some(place) = self.patterns.remove(pattern) else { return false };
        hub.want(self.format, pattern, &self.notifier, false);
        if let Some(Some(wish)) = self.wishes.get_mut(place as usize) {
            wish.is_over = true;
        }
        true
    }

    /// No topic has a wish any more that is over.
    fn forget_ended(&mut self) {
        for (place, wish) in (0..).zip(&mut self.wishes) {
            if wish.as_ref().is_some_and(|wish| wish.is_over) {
                *wish = None;
                self.free.push(place);
            }
        }
    }

    /// Removes the slot of a topic that no wish takes any more.
    fn remove_slot(&mut self, id: TopicId) {
        let Some(place) = self.places.get_mut(id.0 as usize) else { return };
        let freed = std::mem::replace(place, NONE);
        if freed as usize >= self.slots.len() {
            return;
        }
        self.slots.swap_remove(freed as usize);
        let moved = self.slots.get(freed as usize).map(|slot| slot.topic.0 as usize);
        if let Some(place) = moved.and_then(|moved| self.places.get_mut(moved)) {
            *place = freed;
        }
    }

    /// Looks at the topics that came up since: all their events count. Whether it has seen all of them.
    pub fn look(&mut self, hub: &Hub, steps: &mut Steps) -> bool {
        let known = self.places.len();
        let renewals = std::mem::replace(&mut self.renewals, hub.renewals());
        let is_subscribed = self.is_subscribed();
        if !is_subscribed && self.slots.is_empty() {
            self.places.resize(hub.topics().len(), NONE);
            return true;
        }
        for id in hub.renewed(renewals).filter(|id| (id.0 as usize) < known) {
            self.look_at_renewed(hub, id);
        }
        let wants_all = self.patterns.get(&Pattern::Raw).is_some();
        let new = hub.topics().get(known..).unwrap_or_default();
        for (id, topic) in (known as u32..).map(TopicId).zip(new) {
            if steps.are_over() {
                return false;
            }
            steps.spend(self.patterns.steps(topic));
            // Of those that had the place before, and gave way.
            self.untold += if wants_all { topic.first } else { 0 };
            let slot = self.wish_of(topic).map(|wish| Slot::new(id, topic, wish, topic.first));
            self.put(slot);
        }
        true
    }

    /// Another topic has taken over a place. What was not delivered of those before is missed: nobody wanted them by their
    /// identifiers, so who wanted one of them wants all.
    fn look_at_renewed(&mut self, hub: &Hub, id: TopicId) {
        let Some(topic) = hub.topic(id) else { return };
        let wish = self.wish_of(topic);
        let Some(place) = self.places.get_mut(id.0 as usize) else { return };
        match (self.slots.get_mut(*place as usize), wish) {
            (Some(slot), _) if slot.number == topic.number => {}
            (Some(slot), Some(wish)) => {
                self.untold += topic.first.saturating_sub(slot.next);
                *slot = Slot::new(id, topic, wish, slot.next.max(topic.first));
            }
            (Some(slot), None) => {
                self.untold += topic.first.saturating_sub(slot.next);
                self.remove_slot(id);
            }
            (None, Some(wish)) => {
                *place = self.slots.len() as u32;
                self.slots.push(Slot::new(id, topic, wish, topic.first));
            }
            (None, None) => {}
        }
    }

    /// The slot of the next topic.
    fn put(&mut self, slot: Option<Slot>) {
        self.places.push(slot.map_or(NONE, |_| self.slots.len() as u32));
        self.slots.extend(slot);
    }

    /// Appends messages with their frame headers to `out`, until that has `most_bytes` or no more wait: events, and first how
    /// many were missed.
    pub fn deliver(&mut self, hub: &Hub, most_bytes: usize, out: &mut Vec<u8>) -> Delivery {
        if !self.look(hub, &mut Steps::new(LOOK)) {
            return Delivery { missed: 0, has_more: true };
        }
        let Some(log) = hub.log(self.format) else { return Delivery::default() };
        let mut delivery = self.begin(hub, log);
        let mut parcel = OutgoingMessage {
            framing: log.framing(),
            out,
            scratch: std::mem::take(&mut self.scratch),
            gathered: self.is_batched.then(|| std::mem::take(&mut self.gathered)),
            messages: 0,
        };
        if delivery.missed > 0 {
            parcel.add(|out| self.format.missed(delivery.missed, self.counts.missed, out));
        }
        let mut search = self.search(log);
        while let Some(entry) = self.find(log, &mut search) {
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
        self.end(&delivery);
        let OutgoingMessage { mut scratch, gathered, messages, out, framing } = parcel;
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
        batch.missed = 0;
        if !self.look(hub, &mut Steps::new(LOOK)) {
            return Delivery { missed: 0, has_more: true };
        }
        let Some(log) = hub.log(self.format) else { return Delivery::default() };
        let mut delivery = self.begin(hub, log);
        let mut search = self.search(log);
        while let Some(entry) = self.find(log, &mut search) {
            if batch.len() >= most {
                delivery.has_more = true;
                break;
            }
            if self.take(hub, entry) {
                batch.push(entry, log.message(entry));
            }
        }
        self.end(&delivery);
        batch.missed = delivery.missed;
        delivery
    }

    /// Goes to the first event that may be wanted, and looks whether events were overwritten.
    fn begin(&mut self, hub: &Hub, log: &Log) -> Delivery {
        let mut delivery = Delivery::default();
        let first = self.notifier.first().filter(|_| self.is_subscribed());
        self.cursor = first.unwrap_or(log.head()).max(self.cursor);
        if self.cursor < log.tail() {
            delivery.missed = self.catch_up(hub, log);
        }
        delivery.missed += std::mem::take(&mut self.untold);
        self.counts.missed += delivery.missed;
        delivery
    }

    /// All that was there is delivered, or more waits.
    fn end(&self, delivery: &Delivery) {
        if !delivery.has_more {
            self.notifier.clear();
        }
    }

    /// Looks up the events of its topics if that is faster than to look at all.
    fn search(&mut self, log: &Log) -> Search {
        let behind = log.head() - self.cursor;
        if behind > MOST_LOOKED_UP || self.slots.len() as u64 * LOOK_UP > behind {
            return Search::Each;
        }
        self.found.clear();
        for slot in &self.slots {
            self.found.extend(log.events_of(slot.topic, self.cursor));
        }
        self.found.sort_unstable();
        Search::Found(0)
    }

    /// Goes to the next event that may be wanted.
    fn find<'a>(&mut self, log: &'a Log, search: &mut Search) -> Option<&'a Entry> {
        if let Search::Found(place) = search {
            self.cursor = self.found.get(*place).copied().unwrap_or(log.head());
            *place += 1;
        }
        log.entry(self.cursor)
    }

    /// Goes past the event at the cursor. Whether it is to be delivered.
    fn take(&mut self, hub: &Hub, entry: &Entry) -> bool {
        self.cursor += 1;
        let Some(&place) = self.places.get(entry.mark.topic.0 as usize) else { return false };
        let Some(slot) = self.slots.get_mut(place as usize) else { return false };
        let Some(Some(wish)) = self.wishes.get(slot.wish as usize) else { return false };
        if entry.mark.count < slot.next {
            // From before the subscription, or of a topic that gave way.
            return false;
        }
        slot.next = entry.mark.count + 1;
        let newest = hub.topic(entry.mark.topic).map_or(0, |topic| topic.created);
        if wish.is_latest && entry.mark.count + 1 < newest {
            self.counts.superseded += 1;
            return false;
        }
        if !wish.filter.passes(&mut slot.memory, entry.mark.time_ns, entry.value) {
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
        parcel: &mut OutgoingMessage<'_>,
    ) {
        let place = entry.mark.topic.0 as usize;
        if self.named.len() <= place {
            self.named.resize(self.places.len(), None);
        }
        if let Some(named) = self.named.get_mut(place)
            && named.replace(entry.mark.number) != Some(entry.mark.number)
            && let Some(topic) = hub.topic(entry.mark.topic)
        {
            parcel.add(|out| binary::name_message(encoding, entry.mark.number, &topic.name, out));
        }
        let base_us = binary::time_base(entry.mark.time_ns);
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
            let place = self.places.get(entry.mark.topic.0 as usize);
            if let Some(first) = place.and_then(|&place| self.first.get_mut(place as usize)) {
                first.get_or_insert(entry.mark.count);
            }
        }
        let mut missed = 0;
        for (slot, first) in self.slots.iter_mut().zip(&self.first) {
            // Without an event there, all that were created are before the gap's end.
            let created = hub.topic(slot.topic).map_or(0, |topic| topic.created);
            let first = first.unwrap_or(created).max(slot.next);
            missed += first - slot.next;
            slot.next = first;
        }
        self.cursor = restart;
        missed
    }
}
