//! Taps: the points on a frame's way where its time is taken. Which of them a frame passes, and in which
//! order, is its [`TapPath`](crate::TapPath); this is the longest one, `can-gateway`. (`delivered` is on the path
//! `signal-service`, `answered` on `round-trip`, `interrupt` on `reception`, `due`, `dispatched` and `arrived` on
//! `time-triggered`.)
//!
//! ```text
//!  application   source bus         gateway                              target bus
//!  ───┬─────────┬─────────┬────────┬───────┬─────────┬─────────┬────────┬────────┬───▶ time
//!     │         │█████████│        │       │         │         │        │████████│
//!   queued  source_start  │      read   decided  enqueued    loaded target_start │
//!                     source_end                                            target_end
//!
//!     ├─────────┤         ├────────┤                 ├─────────┤────────┤
//!     source_wait       controller_wait             egress_wait bus_wait
//!                                  ├─────────────────┤
//!                                       host_time
//!                         ├──────────────────────────────────────────────────────┤
//!                                              total_latency
//! ```
//!
//! A tap is named here and nowhere else: columns of files, tables and the formulas of
//! [`metrics`](crate::metrics) take the name from [`Tap::name`]. All times of one [`Taps`](crate::Taps) are
//! nanoseconds of one clock. A world that cannot see a tap leaves it absent: a test bed with real
//! controllers never learns `target_start`, a lost frame has no `target_end`.

/// A point on a frame's way; the order of the variants is the order of that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The schedule has the first bit of the frame leave its sender.
    Due,
    /// The first bit of the frame behind its preamble left the sender.
    Dispatched,
    /// The application handed the frame to the sender's transmit queue.
    Queued,
    /// Start of frame on the source bus.
    SourceStart,
    /// The controller of a receiver raised its interrupt for the frame.
    Interrupt,
    /// End of the end-of-frame field on the source bus: receivers have the frame.
    SourceEnd,
    /// The driver took the frame out of the controller.
    Read,
    /// The rule engine decided.
    Decided,
    /// The frame is in the egress queue.
    Enqueued,
    /// The frame is in the controller's transmit buffer.
    Loaded,
    /// Start of frame on the target bus.
    TargetStart,
    /// End of the end-of-frame field on the target bus: receivers have the frame.
    TargetEnd,
    /// An application has the frame, or what it says, decoded.
    Delivered,
    /// The application has the answer to the frame.
    Answered,
    /// The last bit of the frame reached the receiver over a link.
    Arrived,
}

impl Tap {
    /// How many taps there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All taps in the order of a frame's way.
    pub const ALL: [Self; 15] = [
        Self::Due,
        Self::Dispatched,
        Self::Queued,
        Self::SourceStart,
        Self::Interrupt,
        Self::SourceEnd,
        Self::Read,
        Self::Decided,
        Self::Enqueued,
        Self::Loaded,
        Self::TargetStart,
        Self::TargetEnd,
        Self::Delivered,
        Self::Answered,
        Self::Arrived,
    ];

    /// The name in columns, keys and formulas.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Dispatched => "dispatched",
            Self::Queued => "queued",
            Self::SourceStart => "source_start",
            Self::Interrupt => "interrupt",
            Self::SourceEnd => "source_end",
            Self::Read => "read",
            Self::Decided => "decided",
            Self::Enqueued => "enqueued",
            Self::Loaded => "loaded",
            Self::TargetStart => "target_start",
            Self::TargetEnd => "target_end",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Arrived => "arrived",
        }
    }

    /// What happened at this moment, as half a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Due => "the schedule has the first bit of the frame leave its sender",
            Self::Dispatched => "the first bit of the frame behind its preamble left the sender",
            Self::Queued => "the application handed the frame to the sender's transmit queue",
            Self::SourceStart => "start of frame on the source bus",
            Self::Interrupt => "the controller of a receiver raised its interrupt for the frame",
            Self::SourceEnd => "end of frame on the source bus: receivers have it",
            Self::Read => "the driver took the frame out of the controller",
            Self::Decided => "the rule engine decided",
            Self::Enqueued => "the frame is in the egress queue",
            Self::Loaded => "the frame is in the controller's transmit buffer",
            Self::TargetStart => "start of frame on the target bus",
            Self::TargetEnd => "end of frame on the target bus: receivers have it",
            Self::Delivered => "an application has the frame, or what it says, decoded",
            Self::Answered => "the application has the answer to the frame",
            Self::Arrived => "the last bit of the frame reached the receiver over a link",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_stand_in_the_order_of_the_way() {
        assert!(Tap::ALL.is_sorted());
        for (index, tap) in Tap::ALL.into_iter().enumerate() {
            assert_eq!(tap as usize, index, "{}", tap.name());
        }
    }

    #[test]
    fn the_drawing_shows_every_tap() {
        let drawing = include_str!("taps.rs").split("//! ```").nth(1).unwrap();
        // That of the path `can-gateway`.
        let others = [
            Tap::Due,
            Tap::Dispatched,
            Tap::Interrupt,
            Tap::Delivered,
            Tap::Answered,
            Tap::Arrived,
        ];
        for tap in Tap::ALL.into_iter().filter(|tap| !others.contains(tap)) {
            assert!(drawing.contains(tap.name()), "{}", tap.name());
        }
    }

    #[test]
    fn each_tap_has_a_description_of_its_own() {
        let descriptions = Tap::ALL.map(Tap::description);
        for (index, description) in descriptions.iter().enumerate() {
            assert!(description.split(' ').count() >= 4, "{description}");
            assert!(!descriptions[..index].contains(description), "{description}");
        }
    }
}
