//! [`Log`]: encoded events in a ring.

use std::iter;
use std::ops::Range;

use crate::topic::TopicId;

/// The number of no event.
const NONE: u64 = u64::MAX;

/// Appends the frame header of a message of so many bytes: what a transport puts in front of each.
pub type Framing = fn(usize, &mut Vec<u8>);

/// Which event it is, and when it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) topic: TopicId,
    /// The number of the topic.
    pub(crate) number: u32,
    /// Which event at the place of its topic it is, from 0.
    pub(crate) count: u64,
    /// Which event of its topic it is.
    pub(crate) ordinal: u64,
    pub(crate) time_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    /// The value of a signal.
    pub(crate) value: Option<f64>,
    /// Where its bytes are in the ring.
    start: u32,
    len: u32,
    /// How many of them are the frame header.
    header: u32,
    /// The number of the event of its topic before this one; [`NONE`] of the first.
    previous: u64,
}

impl Entry {
    const fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct TopicTrace {
    /// The number of its newest event; [`NONE`] if there was none.
    newest: u64,
    /// How many of the events at its place were overwritten, or came before one that was.
    overwritten: u64,
}

impl TopicTrace {
    const EMPTY: Self = Self { newest: NONE, overwritten: 0 };
}

/// What [`Log::written`] grows by while the whole log is written once.
pub(crate) const WHOLE: u64 = 1 << 32;

/// The newest events in one format, with their frame headers, in bounded memory. Events have numbers, from 0.
#[derive(Debug)]
pub struct Log {
    framing: Framing,
    /// Events: that of number `n` is at `n % entries.capacity`.
    entries: Vec<Entry>,
    most_entries: usize,
    traces: Vec<TopicTrace>,
    bytes: Box<[u8]>,
    /// Where the next event begins.
    end: usize,
    /// The number of the oldest event that is there, and of the next one.
    tail: u64,
    head: u64,
    written: u64,
    /// An event that is being made.
    scratch: Vec<u8>,
    header: Vec<u8>,
}

impl Log {
    /// A log of so many events and bytes at most.
    #[must_use]
    pub fn new(most_entries: usize, most_bytes: usize, framing: Framing) -> Self {
        let most_entries = most_entries.max(1);
        let most_bytes = most_bytes.clamp(1, u32::MAX as usize);
        Self {
            framing,
            entries: Vec::with_capacity(most_entries),
            most_entries,
            traces: Vec::new(),
            bytes: vec![0; most_bytes].into(),
            end: 0,
            tail: 0,
            head: 0,
            written: 0,
            scratch: Vec::new(),
            header: Vec::new(),
        }
    }

    /// The number of the next event.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// The number of the oldest event that is still there.
    #[must_use]
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// How much was written so far, in parts of the log: [`WHOLE`] is all of its events or bytes, whichever are used up
    /// first.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Appends an event. Older ones give way. One that is longer than the log is left out, and counts as
    /// overwritten at once.
    pub(crate) fn append(
        &mut self,
        mark: Mark,
        value: Option<f64>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let previous = self.replace_newest(mark.topic);
        self.scratch.clear();
        encode(&mut self.scratch);
        self.header.clear();
        (self.framing)(self.scratch.len(), &mut self.header);
        let len = self.header.len() + self.scratch.len();
        let part = |part: usize, all: usize| (part as u64 * WHOLE).div_ceil(all as u64);
        self.written += part(1, self.most_entries).max(part(len, self.bytes.len()));
        if len > self.bytes.len() {
            // Whoever looks for it finds that it is gone.
            let (start, len, header) = (0, 0, 0);
            self.put(Entry { mark, value, start, len, header, previous });
            while self.tail < self.head {
                self.overwrite_oldest();
            }
            return;
        }
        let start = if self.end + len > self.bytes.len() { 0 } else { self.end };
        self.make_room(start, len);
        let (header, rest) = self.bytes[start..start + len].split_at_mut(self.header.len());
        header.copy_from_slice(&self.header);
        rest.copy_from_slice(&self.scratch);
        self.end = start + len;
        // The ring has at most so many bytes.
        let (start, len, header) = (start as u32, len as u32, self.header.len() as u32);
        self.put(Entry { mark, value, start, len, header, previous });
    }

    /// The next event is the newest one of this topic. The number of the one before.
    fn replace_newest(&mut self, topic: TopicId) -> u64 {
        let place = topic.0 as usize;
        if self.traces.len() <= place {
            self.traces.resize(place + 1, TopicTrace::EMPTY);
        }
        let trace = self.traces.get_mut(place);
        trace.map_or(NONE, |trace| std::mem::replace(&mut trace.newest, self.head))
    }

    fn trace(&self, topic: TopicId) -> TopicTrace {
        self.traces.get(topic.0 as usize).copied().unwrap_or(TopicTrace::EMPTY)
    }

    /// How many events at the place of a topic were overwritten, or came before one that was.
    pub(crate) fn overwritten(&self, topic: TopicId) -> u64 {
        self.trace(topic).overwritten
    }

    /// Lets the oldest event go.
    fn overwrite_oldest(&mut self) {
        let oldest = self.entries.get(self.place(self.tail));
        if let Some(Entry { mark, .. }) = oldest
            && let Some(trace) = self.traces.get_mut(mark.topic.0 as usize)
        {
            trace.overwritten = mark.count + 1;
        }
        self.tail += 1;
    }

    /// The numbers of the events of a topic that are there, from this number on, newest first.
    pub(crate) fn events_of(&self, topic: TopicId, from: u64) -> impl Iterator<Item = u64> {
        let mut next = self.trace(topic).newest;
        iter::from_fn(move || {
            let number = next;
            if number < from {
                return None;
            }
            next = self.entry(number)?.previous;
            Some(number)
        })
    }

    fn put(&mut self, entry: Entry) {
        let place = self.place(self.head);
        match self.entries.get_mut(place) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        self.head += 1;
    }

    fn place(&self, number: u64) -> usize {
        (number % self.most_entries as u64) as usize
    }

    /// Lets events go until nothing of them is in these bytes, and there is a place for one more.
    fn make_room(&mut self, start: usize, len: usize) {
        while self.tail < self.head {
            let Some(oldest) = self.entry(self.tail) else { break };
            let Range { start: from, end: to } = oldest.range();
            let is_in_the_way = from < start + len && start < to;
            // What is skipped at the end of the ring is older than what begins at its start.
            let is_skipped = start == 0 && self.end > 0 && from >= self.end;
            let is_full = self.head - self.tail >= self.most_entries as u64;
            if !is_in_the_way && !is_skipped && !is_full {
                break;
            }
            self.overwrite_oldest();
        }
    }

    /// The event of this number, if it is still there.
    pub(crate) fn entry(&self, number: u64) -> Option<&Entry> {
        if !(self.tail..self.head).contains(&number) {
            return None;
        }
        self.entries.get(self.place(number))
    }

    /// Its bytes, with the header.
    pub(crate) fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.range()]
    }

    /// Its bytes, without the header.
    pub(crate) fn message(&self, entry: &Entry) -> &[u8] {
        &self.bytes(entry)[entry.header as usize..]
    }

    /// What puts headers in front of messages.
    pub(crate) const fn framing(&self) -> Framing {
        self.framing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn length(len: usize, out: &mut Vec<u8>) {
        out.push(len as u8);
    }

    proptest! {
        /// Whatever the lengths are, the newest events are there whole, and no more than there is room for.
        #[test]
        fn the_newest_events_are_there(
            most_entries in 1..20_usize,
            most_bytes in 1..200_usize,
            lengths in prop::collection::vec(0..60_usize, 0..300),
        ) {
            let mut log = Log::new(most_entries, most_bytes, length);
            let mut all = Vec::new();
            for (number, len) in lengths.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|at| (number * 31 + at) as u8).collect();
                let topic = TopicId(number as u32);
                let mark = Mark { topic, number: 3, count: 7, ordinal: 9, time_ns: 0 };
                log.append(mark, None, |out| out.extend_from_slice(&bytes));
                all.push([&[len as u8][..], &bytes].concat());
                prop_assert_eq!(log.head(), all.len() as u64);
                let mut sum = 0;
                for number in log.tail()..log.head() {
                    let entry = log.entry(number).unwrap();
                    prop_assert_eq!(u64::from(entry.mark.topic.0), number);
                    prop_assert_eq!(log.bytes(entry), &*all[number as usize]);
                    prop_assert_eq!(log.message(entry), &all[number as usize][1..]);
                    sum += entry.len as usize;
                }
                prop_assert!(sum <= most_bytes);
                prop_assert!(log.head() - log.tail() <= most_entries as u64);
                // The newest one is always there, if it can be.
                prop_assert_eq!(log.tail() < log.head(), len < most_bytes);
                // And not more is let go than has to be: twice its place is always enough.
                let newest: usize = all.iter().rev().take(most_entries).take_while({
                    let mut room = most_bytes / 3;
                    move |bytes| { let fits = bytes.len() <= room; room = room.saturating_sub(bytes.len()); fits }
                }).count();
                prop_assert!(log.head() - log.tail() >= newest as u64);
            }
        }
    }
}
