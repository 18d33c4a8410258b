//! [`Topic`]: what events are about.

use std::sync::Arc;

use candor_wire::can::Id;

/// A topic, by its place in the hub. See [`Hub::MOST_UNKNOWN`](crate::Hub::MOST_UNKNOWN) for places that another one takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bytes of the frames with an identifier.
    Raw { id: Id },
    /// The value of a signal.
    Signal {
        /// The message, by its place in the DBC file.
        message: usize,
        /// The signal, by its place in the message.
        signal: usize,
        /// The unit; empty if there is none.
        unit: String,
        /// The identifier of the message.
        id: Id,
        /// Whether the message is known by its group number (PGN) alone.
        is_j1939: bool,
    },
}

/// What events are about.
#[derive(Clone, Debug)]
pub struct Topic {
    /// `MESSAGE.SIGNAL`, or `BUS/IDENTIFIER` (decimal) of raw frames. With several buses, signals begin with `BUS/`, too.
    pub name: Arc<str>,
    /// The bus, by its place in the hub.
    pub bus: usize,
    pub kind: Kind,
    /// What clients call it in formats with numbers. No other topic ever has it, also not one that takes over its place.
    pub number: u32,
    /// How many events there were at its place. Those of a signal count only while somebody wants its message.
    pub created: u64,
    /// How many of them were of topics that had the place before.
    pub(crate) first: u64,
    /// What is added to its events at its place for their ordinals: an identifier that comes back begins with none that it had.
    pub(crate) offset: u64,
    /// How many subscriptions want it by its identifier or its group.
    pub(crate) pinned: u32,
    /// Whether no more events of it can come: its bus or its signal is gone. It keeps its place, and has it again if it
    /// returns.
    pub is_gone: bool,
    /// Where the name without that of the bus begins in `name`.
    plain_at: usize,
    /// The name, as it stands between the quotation marks of JSON.
    pub(crate) escaped: String,
}

impl Topic {
    pub(crate) fn new(name: String, bus: usize, kind: Kind) -> Self {
        let quoted = serde_json::Value::from(&*name).to_string();
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
        let (number, created, first, offset, pinned) = (0, 0, 0, 0, 0);
        let is_gone = false;
        let plain_at = name.find('/').map_or(0, |at| at + 1);
        Self {
            name: name.into(),
            bus,
            kind,
            number,
            created,
            first,
            offset,
            pinned,
            is_gone,
            plain_at,
            escaped,
        }
    }

    /// The name without that of the bus.
    pub(crate) fn plain_name(&self) -> &str {
        self.name.get(self.plain_at..).unwrap_or_default()
    }

    /// The identifier of its frames.
    #[must_use]
    pub const fn id(&self) -> Id {
        match &self.kind {
            Kind::Raw { id } | Kind::Signal { id, .. } => *id,
        }
    }

    /// Whether its events are the bytes of frames.
    #[must_use]
    pub const fn is_raw(&self) -> bool {
        matches!(self.kind, Kind::Raw { .. })
    }
}
