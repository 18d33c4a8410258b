//! [`TapPath`]: a way that frames take, as the taps along it.
//!
//! | path | taps | what it is |
//! |---|---|---|
//! | `can-gateway` | `queued`, `source_start`, `source_end`, `read`, `decided`, `enqueued`, `loaded`, `target_start`, `target_end` | from a node of one CAN bus through a gateway to another bus |
//! | `host` | `read`, `enqueued` | through a gateway, as the gateway itself sees it |
//! | `signal-service` | `queued`, `delivered` | from who sends a frame to an application that has the event decoded |
//! | `round-trip` | `queued`, `answered` | from who sends a request to the answer at the same application |
//! | `reception` | `interrupt`, `delivered` | from the interrupt of a controller to a program that has read the frame |
//! | `time-triggered` | `due`, `dispatched`, `arrived` | from an end system through a network with a schedule to another end system |
//!
//! An experiment has one path, and its result names it. A metric exists wherever both of its taps are on the
//! path, and it means the same on each: `host_time` of a simulated gateway can be laid over `host_time` of a
//! running one. A new medium is a new path here, with the taps that it needs in [`taps`](crate::taps).

use crate::taps::Tap;

/// A named way of frames: its taps, in the order in which frames pass them.
#[derive(Debug, PartialEq, Eq)]
pub struct TapPath {
    name: &'static str,
    taps: &'static [Tap],
    /// The place of each tap on this path.
    places: [u8; Tap::COUNT],
}

/// Stands for the place of a tap that is not on a path.
const NOWHERE: u8 = u8::MAX;

impl TapPath {
    /// From a node of one CAN bus through a gateway to another bus.
    pub const CAN_GATEWAY: &Self = &Self::new(
        "can-gateway",
        &[
            Tap::Queued,
            Tap::SourceStart,
            Tap::SourceEnd,
            Tap::Read,
            Tap::Decided,
            Tap::Enqueued,
            Tap::Loaded,
            Tap::TargetStart,
            Tap::TargetEnd,
        ],
    );

    /// Through a gateway, as the gateway itself sees it.
    pub const HOST: &Self = &Self::new("host", &[Tap::Read, Tap::Enqueued]);

    /// From who sends a frame to an application that has the event decoded.
    pub const SIGNAL_SERVICE: &Self = &Self::new("signal-service", &[Tap::Queued, Tap::Delivered]);

    /// From who sends a request to the answer at the same application.
    pub const ROUND_TRIP: &Self = &Self::new("round-trip", &[Tap::Queued, Tap::Answered]);

    /// From the interrupt of a controller to a program that has read the frame.
    pub const RECEPTION: &Self = &Self::new("reception", &[Tap::Interrupt, Tap::Delivered]);

    /// From an end system through a network with a schedule to another end system.
    pub const TIME_TRIGGERED: &Self =
        &Self::new("time-triggered", &[Tap::Due, Tap::Dispatched, Tap::Arrived]);

    pub const ALL: [&Self; 6] = [
        Self::CAN_GATEWAY,
        Self::HOST,
        Self::SIGNAL_SERVICE,
        Self::ROUND_TRIP,
        Self::RECEPTION,
        Self::TIME_TRIGGERED,
    ];

    /// The most taps of a path: each frame of a simulation takes room for so many times.
    pub const MAX_TAPS: usize = 9;

    /// A path with these taps.
    ///
    /// # Panics
    /// There are more than [`TapPath::MAX_TAPS`], or one of them twice.
    #[must_use]
    pub const fn new(name: &'static str, taps: &'static [Tap]) -> Self {
        assert!(taps.len() <= Self::MAX_TAPS, "a path has at most MAX_TAPS taps");
        let mut places = [NOWHERE; Tap::COUNT];
        let mut place = 0;
        while place < taps.len() {
            let tap = taps[place] as usize;
            assert!(places[tap] == NOWHERE, "a tap is once on a path");
            places[tap] = place as u8;
            place += 1;
        }
        Self { name, taps, places }
    }

    /// The name in results.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|path| path.name == name)
    }

    /// Its taps in their order.
    #[must_use]
    pub const fn taps(&self) -> &'static [Tap] {
        self.taps
    }

    /// Where a tap is on this path, counted from 0.
    #[inline]
    #[must_use]
    pub const fn place(&self, tap: Tap) -> Option<usize> {
        match self.places[tap as usize] {
            NOWHERE => None,
            place => Some(place as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_documentation_is_the_list() {
        let source = include_str!("path.rs");
        for path in TapPath::ALL {
            let taps: Vec<_> = path.taps().iter().map(|tap| format!("`{}`", tap.name())).collect();
            let row = format!("//! | `{}` | {} | ", path.name(), taps.join(", "));
            assert!(source.contains(&row), "{row}");
            assert_eq!(TapPath::by_name(path.name()), Some(path));
        }
        assert_eq!(TapPath::by_name("host "), None);
    }

    #[test]
    fn every_tap_is_on_a_path() {
        for tap in Tap::ALL {
            let paths = TapPath::ALL.into_iter().filter(|path| path.place(tap).is_some());
            assert!(paths.count() > 0, "{}", tap.name());
        }
    }

    #[test]
    #[should_panic(expected = "a tap is once on a path")]
    fn a_tap_is_once_on_a_path() {
        let _ = TapPath::new("twice", &[Tap::Read, Tap::Read]);
    }
}
