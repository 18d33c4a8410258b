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

/// Makes the list of taps: for each its name in the code, its name for users and what happened.
macro_rules! taps {
    ($($(#[$more:meta])* $variant:ident $name:literal $description:literal;)+) => {
        /// A point on a frame's way; the order of the variants is the order of that way.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tap {
            $(#[doc = $description] $(#[$more])* $variant,)+
        }

        impl Tap {
            pub const COUNT: usize = Self::ALL.len();

            /// All taps in the order of a frame's way.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in columns, keys and formulas.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What happened at this moment, as half a sentence.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)+ }
            }
        }
    };
}

taps! {
    Due "due" "the schedule has the first bit of the frame leave its sender";
    Dispatched "dispatched" "the first bit of the frame behind its preamble left the sender";
    Queued "queued" "the application handed the frame to the sender's transmit queue";
    SourceStart "source_start" "start of frame on the source bus";
    Interrupt "interrupt" "the controller of a receiver raised its interrupt for the frame";
    /// (The end of the end-of-frame field.)
    SourceEnd "source_end" "end of frame on the source bus: receivers have it";
    Read "read" "the driver took the frame out of the controller";
    Decided "decided" "the rule engine decided";
    Enqueued "enqueued" "the frame is in the egress queue";
    Loaded "loaded" "the frame is in the controller's transmit buffer";
    TargetStart "target_start" "start of frame on the target bus";
    /// (The end of the end-of-frame field.)
    TargetEnd "target_end" "end of frame on the target bus: receivers have it";
    Delivered "delivered" "an application has the frame, or what it says, decoded";
    Answered "answered" "the application has the answer to the frame";
    Arrived "arrived" "the last bit of the frame reached the receiver over a link";
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
