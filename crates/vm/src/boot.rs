//! Boots: what a machine is by the accident of one power-on, and not by its kernel.
//!
//! Where tables and buffers lie, how lists of free memory are ordered, and which random numbers salt a hash is decided while
//! a kernel boots. It moves latencies by some instructions, and the same seed cannot show it, since every run starts from
//! the same saved boot. So a machine has several, each the same on every computer:
//!
//! | differs between boots | what follows from it |
//! |---|---|
//! | the time at power-on | it salts the kernel's first random numbers, and with them hashes and the order of free slabs |
//! | a parameter that nobody uses, of another length | so does the command line; what the kernel allocates lies elsewhere |
//! | what the guest program allocates and frees before the machine is saved | the lists of free pages and slabs |

use std::fmt;

use candor_protocol::meeting;
use candor_protocol::random::Random;
use serde::{Deserialize, Serialize};

/// One of the boots of a machine, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Boot(u32);

/// The longest word of the parameter that nobody uses.
const LONGEST_WORD: u64 = 63;

impl Boot {
    /// The first one: without a parameter of its own, and nothing is allocated before it is saved.
    pub const FIRST: Self = Self(1);
    /// Boots of a machine at most: each is a file of about 80 MB.
    pub const MOST: u32 = 100;

    /// The boot that a run with this seed starts from, of so many: that of its number, counted round.
    #[must_use]
    pub fn of_seed(seed: u64, boots: u32) -> Self {
        let boots = u64::from(boots.clamp(1, Self::MOST));
        // The remainder is below `boots`.
        Self(1 + ((seed % boots + boots - 1) % boots) as u32)
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    fn random(self) -> Random {
        Random::new(u64::from(self.0))
    }

    /// The time at power-on, as QEMU's `-rtc base=` takes it.
    pub(crate) fn started_at(self) -> String {
        let mut random = self.random();
        let mut any = |least, most| match self {
            Self::FIRST => least,
            _ => random.between(least, most),
        };
        let (day, hour) = (any(1, 28), any(0, 23));
        let (minute, second) = (any(0, 59), any(0, 59));
        format!("2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }

    /// What it adds to the kernel's command line.
    pub(crate) fn parameter(self) -> Option<String> {
        // Kernels ignore a parameter of a module that they do not know, without a word.
        let word = |letters| "x".repeat(letters as usize);
        let parameter = || {
            format!("{}={},{}", meeting::BOOT, self.0, word(self.random().between(0, LONGEST_WORD)))
        };
        (self != Self::FIRST).then(parameter)
    }
}

impl Default for Boot {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_go_round_the_boots() {
        for (seed, boots, boot) in [
            (1, 5, 1),
            (2, 5, 2),
            (5, 5, 5),
            (6, 5, 1),
            (0, 5, 5),
            (7, 1, 1),
            (u64::MAX, 5, 5),
            (3, 0, 1),
            (u64::from(Boot::MOST), u32::MAX, Boot::MOST),
        ] {
            assert_eq!(Boot::of_seed(seed, boots).number(), boot, "seed {seed} of {boots}");
        }
    }

    #[test]
    fn no_two_boots_are_alike() {
        let all = || (1..=Boot::MOST).map(Boot);
        let parameters: BTreeSet<_> = all().filter_map(Boot::parameter).collect();
        assert_eq!(parameters.len(), Boot::MOST as usize - 1);
        let lengths: BTreeSet<_> = parameters.iter().map(String::len).collect();
        assert!(lengths.len() > 30, "{lengths:?}");
        let started: BTreeSet<_> = all().map(Boot::started_at).collect();
        assert_eq!(started.len(), Boot::MOST as usize);
        assert_eq!(Boot::FIRST.started_at(), "2026-01-01T00:00:00");
        assert_eq!(Boot::FIRST.parameter(), None);
    }
}
