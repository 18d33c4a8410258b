//! [`Class`]: traffic classes.

use core::fmt;

/// A class of traffic. Classes are ordered by their priority at an egress port: time-triggered frames are the greatest
/// (CoRE4INET, `src/core4inet/linklayer/shaper/TT_PCF_RC_BE_Shaper.ned`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Everything else.
    BestEffort,
    /// Frames of a virtual link with a least gap between them (ARINC 664 part 7).
    RateConstrained,
    /// Protocol control frames, by which clocks are synchronised; see [`Pcf`](super::Pcf).
    ProtocolControl,
    /// Frames that are sent by a schedule.
    TimeTriggered,
}

impl Class {
    /// All of them, that of the highest priority first.
    pub const ALL: [Self; 4] =
        [Self::TimeTriggered, Self::ProtocolControl, Self::RateConstrained, Self::BestEffort];

    /// Its short name: `tt`, `pcf`, `rc` or `be`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeTriggered => "tt",
            Self::ProtocolControl => "pcf",
            Self::RateConstrained => "rc",
            Self::BestEffort => "be",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ordered_by_priority() {
        assert!(Class::ALL.is_sorted_by(|first, second| first > second));
        assert_eq!(Class::ALL.iter().max(), Some(&Class::TimeTriggered));
    }

    #[test]
    fn classes_have_names() {
        assert_eq!(Class::ALL.map(Class::name), ["tt", "pcf", "rc", "be"]);
    }
}
