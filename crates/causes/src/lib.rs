//! How frames end, and every cause that stops one. The one list for all worlds.
//!
//! A frame that was sent ends in exactly one of four ways, so
//! `sent = received + not routed + refused + lost`:
//!
//! | ending | meaning |
//! |---|---|
//! | received | a copy of it arrived |
//! | not routed | no rule takes it |
//! | refused | the rules refuse it: a rate limit, a list of allowed identifiers, a value out of range |
//! | lost | a rule would have passed it on, but something had no room or no time, or was down |
//!
//! Only the last one is a fault of the gateway or of the network. A single copy of a frame ends in
//! the same ways. Tables, JSON, metrics and claims sort what they count by [`Cause::ending`].
//!
//! ```
//! use candor_causes::{Cause, Ending, ending};
//! assert_eq!(Cause::Rate.ending(), Ending::Refused);
//! assert_eq!(Cause::QueueFull.name(), "queue_full");
//! assert_eq!(ending("queue_full"), Ending::Lost);
//! ```
#![no_std]

/// How a frame, or a copy of one, ended.
///
/// A frame ends as the greatest of its copies: received if any copy arrived, else lost if any was lost, else refused if any
/// was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// No rule takes it.
    NotRouted,
    /// The rules refuse it.
    Refused,
    /// A rule would have passed it on.
    Lost,
    /// It arrived.
    Received,
}

impl Ending {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Self; 4] = [Self::Received, Self::NotRouted, Self::Refused, Self::Lost];

    /// The name in JSON and metrics.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::NotRouted => "not_routed",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }

    /// The name in tables.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotRouted => "not routed",
            other => other.key(),
        }
    }
}

/// Makes the list of causes: for each its name in the code, its name for users, the ending and the
/// meaning.
macro_rules! causes {
    ($($variant:ident $name:literal $ending:ident $meaning:literal;)+) => {
        /// Something that stops frames.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $(#[doc = $meaning] $variant,)+
        }

        impl Cause {
            /// Every cause there is, in the order in which they are listed.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in tables, JSON and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// How a frame ends that it stops. Never [`Ending::Received`].
            #[must_use]
            pub const fn ending(self) -> Ending {
                match self { $(Self::$variant => Ending::$ending,)+ }
            }

            /// What happened, in one clause.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

// Those of rules are described in `docs/gateway.md`, all of them in `docs/experiments.md`.
causes! {
    NoRule "no_rule" NotRouted "no rule takes it";
    NoGateway "no_gateway" NotRouted "its bus has no gateway";
    NoFurtherRule "no_further_rule" NotRouted "no rule takes it on the virtual bus";
    VirtualWithoutEcho "virtual_without_echo" NotRouted "vcan discards frames that are sent without `echo`";
    NotAllowed "not_allowed" Refused "no rule takes it, and the rules are a list of what is allowed";
    Rate "rate" Refused "it exceeds the rate limit of the rule";
    Sampled "sampled" Refused "the rule passes only every Nth frame";
    Unchanged "unchanged" Refused "its data did not change since the last frame";
    TooShort "too_short" Refused "it has fewer bytes than the rule needs";
    TooLong "too_long" Refused "after the edit it is too long for its kind of frame";
    OutOfRange "out_of_range" Refused "the value of a signal is out of range at the destination";
    Unmapped "unmapped" Refused "its identifier is not in the table of the rule";
    Unconvertible "unconvertible" Refused "the other kind of frame has no equivalent";
    Returning "returning" Refused "it would go back to the bus that it came from";
    OutsideWindow "outside_window" Refused "it came outside of its receive window";
    TooSoon "too_soon" Refused "it came sooner behind the one before than its bandwidth allocation gap";
    Oversized "oversized" Refused "it is longer than the frames of its flow";
    HopLimit "hop_limit" Refused "it reached the limit of passes through the gateway";
    Deleted "deleted" Refused "can-gw: over the hop limit, or too long after the edit";
    SenderQueueFull "sender_queue_full" Lost "the transmit queue of its sender was full";
    Merged "merged" Lost "another node sent exactly the same frame at the same time, so only one was seen";
    BusOff "bus_off" Lost "the gateway's controller was bus-off";
    RxOverflow "rx_overflow" Lost "the receive FIFO of the gateway's controller was full";
    BacklogFull "backlog_full" Lost "the host's receive queue, shared with Ethernet, was full";
    SocketFull "socket_full" Lost "the socket buffer of the user-space gateway was full";
    QueueFull "queue_full" Lost "the egress queue of the destination was full";
    Overwritten "overwritten" Lost "a newer frame took its place in the relay buffer";
    Stale "stale" Lost "it waited longer than the deadline of its rule";
    Down "down" Lost "the destination is down";
    Unsupported "unsupported" Lost "the destination does not support this kind of frame";
    Dropped "dropped" Lost "can-gw: the destination is down, full, or does not support this kind of frame";
    Unfinished "unfinished" Lost "still waiting when the simulation ended";
    Unexplained "unexplained" Lost "it did not arrive, and no counter shows why";
}

impl Cause {
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

/// How a frame ends that the cause of that name stops. A cause that is not in the list counts as a
/// loss, so that a loss is never taken for something else.
#[must_use]
pub fn ending(name: &str) -> Ending {
    Cause::by_name(name).map_or(Ending::Lost, Cause::ending)
}

/// How many frames or copies ended in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endings {
    counts: [u64; Ending::ALL.len()],
}

impl Endings {
    /// Counts `more` that ended in this way.
    pub fn add(&mut self, ending: Ending, more: u64) {
        self.counts[ending as usize] += more;
    }

    #[must_use]
    pub const fn count(&self, ending: Ending) -> u64 {
        self.counts[ending as usize]
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Sums counts by cause.
impl FromIterator<(Cause, u64)> for Endings {
    fn from_iter<T: IntoIterator<Item = (Cause, u64)>>(causes: T) -> Self {
        let mut endings = Self::default();
        for (cause, count) in causes {
            endings.add(cause.ending(), count);
        }
        endings
    }
}

/// Sums counts by the name of the cause; see [`ending`].
impl<'a> FromIterator<(&'a str, u64)> for Endings {
    fn from_iter<T: IntoIterator<Item = (&'a str, u64)>>(causes: T) -> Self {
        let mut endings = Self::default();
        for (cause, count) in causes {
            endings.add(ending(cause), count);
        }
        endings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_listed_once_and_stops_a_frame() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index, "{cause:?}");
            // It is the first of its name.
            assert_eq!(Cause::by_name(cause.name()), Some(cause));
            assert_ne!(cause.ending(), Ending::Received, "{cause:?}");
            assert!(cause.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{cause:?}");
            assert!(cause.meaning().contains(' '), "{cause:?}");
        }
    }

    #[test]
    fn what_is_not_known_counts_as_a_loss() {
        assert_eq!(ending("made_up_tomorrow"), Ending::Lost);
    }

    #[test]
    fn endings_have_a_name_for_programs_and_one_for_people() {
        let names = Ending::ALL.map(|ending| (ending.key(), ending.label()));
        assert_eq!(
            names,
            [
                ("received", "received"),
                ("not_routed", "not routed"),
                ("refused", "refused"),
                ("lost", "lost")
            ]
        );
    }

    #[test]
    fn sums_go_by_ending() {
        let endings: Endings =
            [("rate", 3), ("queue_full", 5), ("sampled", 4), ("no_rule", 1)].into_iter().collect();
        let counts = Ending::ALL.map(|ending| (ending.key(), endings.count(ending)));
        assert_eq!(counts, [("received", 0), ("not_routed", 1), ("refused", 7), ("lost", 5)]);
        assert_eq!(endings.total(), 13);
        let same =
            [(Cause::Rate, 3), (Cause::QueueFull, 5), (Cause::Sampled, 4), (Cause::NoRule, 1)];
        assert_eq!(same.into_iter().collect::<Endings>(), endings);
    }
}
