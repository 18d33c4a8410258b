//! [`Speed`]: how long an instruction lasts.

use std::fmt;

/// How long an instruction lasts in the time of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    shift: u8,
}

impl Default for Speed {
    /// 500 MIPS: about the speed of the papers' board of 400 MHz.
    fn default() -> Self {
        Self { shift: 1 }
    }
}

impl Speed {
    /// What can be chosen, in million instructions per second.
    pub const MIPS: [u32; 7] = [1000, 500, 250, 125, 62, 31, 15];

    /// So many million instructions per second: an instruction lasts a power of two of nanoseconds.
    ///
    /// # Errors
    /// There is no such speed.
    pub fn from_mips(mips: u32) -> Result<Self, String> {
        match Self::MIPS.iter().position(|&known| known == mips) {
            Some(shift) => Ok(Self { shift: shift as u8 }),
            None => {
                let known = Self::MIPS.map(|mips| mips.to_string()).join(", ");
                Err(format!(
                    "{mips} MIPS is not possible: an instruction takes 1, 2, 4, ... ns, so use \
                     {known}"
                ))
            }
        }
    }

    /// An instruction lasts 2 to the power of this, in nanoseconds.
    #[must_use]
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Million instructions per second, rounded down.
    #[must_use]
    pub const fn mips(self) -> u32 {
        1000 >> self.shift
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction time, shift {} ({} MIPS)", self.shift, self.mips())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_powers_of_two() {
        for (mips, shift) in [(1000, 0), (500, 1), (250, 2), (125, 3), (15, 6)] {
            let speed = Speed::from_mips(mips).unwrap();
            assert_eq!((speed.shift(), speed.mips()), (shift, mips));
        }
        for mips in [0, 1, 400, 501, 2000] {
            let reason = Speed::from_mips(mips).unwrap_err();
            assert!(reason.contains("1000, 500, 250"), "{reason}");
        }
        assert_eq!(Speed::default().to_string(), "instruction time, shift 1 (500 MIPS)");
    }
}
