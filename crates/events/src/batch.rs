//! [`Batch`]: events for subscribers in the same process.

use crate::log::{Entry, Mark};
use crate::topic::TopicId;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content<'a> {
    /// The data of a frame.
    Data(&'a [u8]),
    /// The value of a signal in its unit, and what the value is called.
    Value(f64, Option<&'a str>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// What it is about.
    pub topic: TopicId,
    /// The number of the topic: see [`Topic::number`](crate::Topic::number).
    pub number: u32,
    /// Which event of its topic it is, from 0 or where its identifier ended before.
    pub ordinal: u64,
    /// When the frame was received, in ns.
    pub time_ns: u64,
    pub content: Content<'a>,
}

/// Events that are delivered together, apart from the log that they come from.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events, and where their bytes end.
    events: Vec<(Entry, usize)>,
    bytes: Vec<u8>,
    /// Events that were missed before the first of these.
    pub missed: u64,
}

impl Batch {
    #[must_use]
    pub const fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, in the order in which they were created.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let mut start = 0;
        self.events.iter().map(move |(entry, end)| {
            let end = *end;
            let bytes = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            let Mark { topic, number, ordinal, time_ns, .. } = entry.mark;
            let content = match entry.value {
                None => Content::Data(bytes),
                Some(value) => {
                    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
                    Content::Value(value, text)
                }
            };
            Event { topic, number, ordinal, time_ns, content }
        })
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
        self.missed = 0;
    }

    pub(crate) fn push(&mut self, entry: &Entry, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.events.push((*entry, self.bytes.len()));
    }
}
