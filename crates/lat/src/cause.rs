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
//! the same ways. Tables, JSON, metrics and claims sort what they count by [`ending`].
//!
//! ```
//! use candor_lat::cause::{Ending, ending};
//! assert_eq!(ending("rate"), Ending::Refused);
//! assert_eq!(ending("queue_full"), Ending::Lost);
//! ```

/// How a frame, or a copy of one, ended.
///
/// The order is that of [`Ending::of_frame`].
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

    /// The ending of a frame whose copies ended in these ways: received if any copy arrived, else
    /// lost if any was lost, else refused if any was refused. `None` if there are none.
    #[must_use]
    pub fn of_frame(copies: impl IntoIterator<Item = Self>) -> Option<Self> {
        copies.into_iter().max()
    }
}

/// Something that stops frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its name in tables, JSON and metrics.
    pub name: &'static str,
    /// How a frame ends that it stops. Never [`Ending::Received`].
    pub ending: Ending,
    /// What happened, in one clause.
    pub meaning: &'static str,
}

/// The sender's transmit queue was full.
pub const SENDER_QUEUE_FULL: &str = "sender_queue_full";
/// Another node sent the very same frame at the same time: on the bus they were one.
pub const MERGED: &str = "merged";
/// The gateway's controller was bus-off.
pub const BUS_OFF: &str = "bus_off";
/// The receive FIFO of the gateway's controller was full.
pub const RX_OVERFLOW: &str = "rx_overflow";
/// The host's receive queue, shared with Ethernet, was full.
pub const BACKLOG_FULL: &str = "backlog_full";
/// The socket buffer of the user-space gateway was full.
pub const SOCKET_FULL: &str = "socket_full";
/// No rule took the frame.
pub const NO_RULE: &str = "no_rule";
/// No rule took the frame, and the rules are a list of what is allowed.
pub const NOT_ALLOWED: &str = "not_allowed";
/// No rule took the frame on a virtual bus that a rule had put it on.
pub const NO_FURTHER_RULE: &str = "no_further_rule";
/// There is no gateway on the bus of the frame.
pub const NO_GATEWAY: &str = "no_gateway";
/// The egress queue was full.
pub const QUEUE_FULL: &str = "queue_full";
/// CAN FD towards a bus that carries classical frames only.
pub const UNSUPPORTED: &str = "unsupported";
/// The frame has passed the gateway as often as it may.
pub const HOP_LIMIT: &str = "hop_limit";
/// Sent to a virtual bus without `echo`: vcan discards it.
pub const VIRTUAL_WITHOUT_ECHO: &str = "virtual_without_echo";
/// Still under way when nothing could move any more, such as behind a bus-off controller.
pub const UNFINISHED: &str = "unfinished";
/// It did not arrive, and no counter says why.
pub const UNEXPLAINED: &str = "unexplained";

const fn cause(name: &'static str, ending: Ending, meaning: &'static str) -> Cause {
    Cause { name, ending, meaning }
}

/// Every cause there is, in the order in which they are listed. Those of rules are described in
/// `docs/gateway.md`.
pub const CAUSES: [Cause; 29] = {
    use Ending::{Lost, NotRouted, Refused};
    [
        cause(NO_RULE, NotRouted, "no rule takes it"),
        cause(NO_GATEWAY, NotRouted, "its bus has no gateway"),
        cause(NO_FURTHER_RULE, NotRouted, "no rule takes it on the virtual bus"),
        cause(VIRTUAL_WITHOUT_ECHO, NotRouted, "vcan discards frames that are sent without `echo`"),
        cause(
            NOT_ALLOWED,
            Refused,
            "no rule takes it, and the rules are a list of what is allowed",
        ),
        cause("rate", Refused, "it exceeds the rate limit of the rule"),
        cause("sampled", Refused, "the rule passes only every Nth frame"),
        cause("unchanged", Refused, "its data did not change since the last frame"),
        cause("too_short", Refused, "it has fewer bytes than the rule needs"),
        cause("too_long", Refused, "after the edit it is too long for its kind of frame"),
        cause("out_of_range", Refused, "the value of a signal is out of range at the destination"),
        cause("unmapped", Refused, "its identifier is not in the table of the rule"),
        cause("unconvertible", Refused, "the other kind of frame has no equivalent"),
        cause("returning", Refused, "it would go back to the bus that it came from"),
        cause(HOP_LIMIT, Refused, "it reached the limit of passes through the gateway"),
        cause("deleted", Refused, "can-gw: over the hop limit, or too long after the edit"),
        cause(SENDER_QUEUE_FULL, Lost, "the transmit queue of its sender was full"),
        cause(
            MERGED,
            Lost,
            "another node sent exactly the same frame at the same time, so only one was seen",
        ),
        cause(BUS_OFF, Lost, "the gateway's controller was bus-off"),
        cause(RX_OVERFLOW, Lost, "the receive FIFO of the gateway's controller was full"),
        cause(BACKLOG_FULL, Lost, "the host's receive queue, shared with Ethernet, was full"),
        cause(SOCKET_FULL, Lost, "the socket buffer of the user-space gateway was full"),
        cause(QUEUE_FULL, Lost, "the egress queue of the destination was full"),
        cause("stale", Lost, "it waited longer than the deadline of its rule"),
        cause("down", Lost, "the destination is down"),
        cause(UNSUPPORTED, Lost, "the destination does not support this kind of frame"),
        cause(
            "dropped",
            Lost,
            "can-gw: the destination is down, full, or does not support this \
                                kind of frame",
        ),
        cause(UNFINISHED, Lost, "still waiting when the simulation ended"),
        cause(UNEXPLAINED, Lost, "it did not arrive, and no counter shows why"),
    ]
};

/// What is known about the cause of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.name == name)
}

/// How a frame ends that the cause of that name stops. A cause that is not in the list counts as a
/// loss, so that a loss is never taken for something else.
#[must_use]
pub fn ending(name: &str) -> Ending {
    find(name).map_or(Ending::Lost, |cause| cause.ending)
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

    /// How many ended in this way.
    #[must_use]
    pub const fn of(&self, ending: Ending) -> u64 {
        self.counts[ending as usize]
    }

    /// How many ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Sums counts by cause.
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
        for (index, cause) in CAUSES.iter().enumerate() {
            assert_eq!(find(cause.name), Some(cause));
            assert!(CAUSES[..index].iter().all(|earlier| earlier.name != cause.name), "{cause:?}");
            assert_ne!(cause.ending, Ending::Received, "{cause:?}");
            assert!(cause.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{cause:?}");
        }
    }

    #[test]
    fn what_is_not_known_counts_as_a_loss() {
        assert_eq!(ending("made_up_tomorrow"), Ending::Lost);
    }

    #[test]
    fn a_frame_ends_as_the_best_of_its_copies_that_arrived_or_the_worst_of_the_others() {
        use Ending::{Lost, NotRouted, Received, Refused};
        for (copies, ending) in [
            (&[][..], None),
            (&[NotRouted], Some(NotRouted)),
            (&[Refused, NotRouted], Some(Refused)),
            (&[Refused, Lost, Refused], Some(Lost)),
            (&[Lost, Received, Refused], Some(Received)),
        ] {
            assert_eq!(Ending::of_frame(copies.iter().copied()), ending, "{copies:?}");
        }
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
        let counts = Ending::ALL.map(|ending| (ending.key(), endings.of(ending)));
        assert_eq!(counts, [("received", 0), ("not_routed", 1), ("refused", 7), ("lost", 5)]);
        assert_eq!(endings.total(), 13);
    }
}
