//! Taps: the points on a frame's way through a gateway where its time is taken.
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
//! [`metrics`](crate::metrics) take the name from [`Tap::name`]. All times of one [`Taps`] are
//! nanoseconds of one clock. A world that cannot see a tap leaves it absent: a test bed with real
//! controllers never learns `target_start`, a lost frame has no `target_end`.

/// A point on a frame's way; the order of the variants is the order of that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The application handed the frame to the sender's transmit queue.
    Queued,
    /// Start of frame on the source bus.
    SourceStart,
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
}

impl Tap {
    /// How many taps there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All taps in the order of a frame's way.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::SourceStart,
        Self::SourceEnd,
        Self::Read,
        Self::Decided,
        Self::Enqueued,
        Self::Loaded,
        Self::TargetStart,
        Self::TargetEnd,
    ];

    /// The name in columns, keys and formulas.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::SourceStart => "source_start",
            Self::SourceEnd => "source_end",
            Self::Read => "read",
            Self::Decided => "decided",
            Self::Enqueued => "enqueued",
            Self::Loaded => "loaded",
            Self::TargetStart => "target_start",
            Self::TargetEnd => "target_end",
        }
    }

    /// What happened at this moment, as half a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Queued => "the application handed the frame to the sender's transmit queue",
            Self::SourceStart => "start of frame on the source bus",
            Self::SourceEnd => "end of frame on the source bus: receivers have it",
            Self::Read => "the driver took the frame out of the controller",
            Self::Decided => "the rule engine decided",
            Self::Enqueued => "the frame is in the egress queue",
            Self::Loaded => "the frame is in the controller's transmit buffer",
            Self::TargetStart => "start of frame on the target bus",
            Self::TargetEnd => "end of frame on the target bus: receivers have it",
        }
    }
}

/// The times of one frame, in nanoseconds of one clock; each may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Taps {
    times_ns: [u64; Tap::COUNT],
}

/// Stands for a time that was not taken. As an instant it would lie 584 years after the clock's
/// zero.
const ABSENT: u64 = u64::MAX;

impl Taps {
    /// When the frame passed `tap`, if that is known.
    #[must_use]
    pub const fn at(&self, tap: Tap) -> Option<u64> {
        match self.times_ns[tap as usize] {
            ABSENT => None,
            time_ns => Some(time_ns),
        }
    }

    /// Notes when the frame passed `tap`, replacing what was noted before.
    pub const fn set(&mut self, tap: Tap, time_ns: u64) {
        self.times_ns[tap as usize] = time_ns;
    }

    /// The same times and one more.
    #[must_use]
    pub const fn with(mut self, tap: Tap, time_ns: u64) -> Self {
        self.set(tap, time_ns);
        self
    }

    /// The time from one tap to another, if both are known: negative if `to` came first, which
    /// happens where the instrument is inaccurate.
    #[must_use]
    pub const fn distance_ns(&self, from: Tap, to: Tap) -> Option<i64> {
        let (Some(from), Some(to)) = (self.at(from), self.at(to)) else { return None };
        let distance = to as i128 - from as i128;
        Some(if distance > i64::MAX as i128 {
            i64::MAX
        } else if distance < i64::MIN as i128 {
            i64::MIN
        } else {
            distance as i64
        })
    }
}

/// No time was taken yet.
impl Default for Taps {
    fn default() -> Self {
        Self { times_ns: [ABSENT; Tap::COUNT] }
    }
}

impl core::fmt::Debug for Taps {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let known = Tap::ALL.into_iter().filter_map(|tap| Some((tap.name(), self.at(tap)?)));
        f.debug_map().entries(known).finish()
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
        for tap in Tap::ALL {
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

    #[test]
    fn a_time_is_absent_until_it_is_taken() {
        let mut taps = Taps::default();
        assert!(Tap::ALL.into_iter().all(|tap| taps.at(tap).is_none()));
        taps.set(Tap::Read, 0);
        assert_eq!(taps.at(Tap::Read), Some(0));
        assert_eq!(format!("{taps:?}"), r#"{"read": 0}"#);
    }

    #[test]
    fn distances_have_a_sign_and_an_end() {
        for (read, decided, distance_ns) in [
            (10, 25, 15),
            (25, 10, -15),
            (0, u64::MAX - 1, i64::MAX),
            (u64::MAX - 1, 0, i64::MIN),
            (7, 7, 0),
        ] {
            let taps = Taps::default().with(Tap::Read, read).with(Tap::Decided, decided);
            assert_eq!(taps.distance_ns(Tap::Read, Tap::Decided), Some(distance_ns));
        }
        let taps = Taps::default().with(Tap::Read, 1);
        assert_eq!(taps.distance_ns(Tap::Read, Tap::Decided), None);
        assert_eq!(taps.distance_ns(Tap::Queued, Tap::Read), None);
    }
}
