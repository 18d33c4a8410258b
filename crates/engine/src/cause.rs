//! [`Cause`]: why a copy of a frame was not forwarded.

/// Why a copy of a frame was not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It has passed the gateway as often as it may (the kernel counts it as deleted).
    HopLimit,
    /// After the edit its length is beyond what its kind of frame holds (deleted).
    TooLong,
    /// The destination is down (the kernel counts it as dropped).
    Down,
    /// It would leave on the interface it first came in on (the kernel does not count it).
    Returning,
    /// The egress queue is full (dropped).
    QueueFull,
    /// The destination does not carry this kind of frame (dropped).
    Unsupported,
    /// It waited for its destination for longer than the rule allows.
    Stale,
    /// More frames came than the rule lets pass in that time.
    Rate,
    /// The rule lets only one of so many pass, and it was another.
    Sampled,
    /// Its data are those of the last frame that went out.
    Unchanged,
    /// It has fewer bytes than an edit works on.
    TooShort,
    /// A signal takes a value that it cannot have at the destination.
    OutOfRange,
    /// Its identifier is not in the table of the rule.
    Unmapped,
    /// The other kind of frame has nothing like it.
    Unconvertible,
}

impl Cause {
    /// All causes, in the order in which they are listed.
    pub const ALL: [Self; 14] = [
        Self::HopLimit,
        Self::TooLong,
        Self::Down,
        Self::Returning,
        Self::QueueFull,
        Self::Unsupported,
        Self::Stale,
        Self::Rate,
        Self::Sampled,
        Self::Unchanged,
        Self::TooShort,
        Self::OutOfRange,
        Self::Unmapped,
        Self::Unconvertible,
    ];

    /// The name in counters, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HopLimit => "hop_limit",
            Self::TooLong => "too_long",
            Self::Down => "down",
            Self::Returning => "returning",
            Self::QueueFull => "queue_full",
            Self::Unsupported => "unsupported",
            Self::Stale => "stale",
            Self::Rate => "rate",
            Self::Sampled => "sampled",
            Self::Unchanged => "unchanged",
            Self::TooShort => "too_short",
            Self::OutOfRange => "out_of_range",
            Self::Unmapped => "unmapped",
            Self::Unconvertible => "unconvertible",
        }
    }
}
