//! The laws by which clocks are kept synchronised (SAE AS6802).
//!
//! ```text
//!  master    |cycle                                                     |permanent, compared with the schedule
//!            +--PCF--> compression master                               |      |clock corrected
//!                      |permanent: windows, overhead, dispatch delay     |
//!                      +---------------------------------------PCF----->+
//!            |-- mtd --|------------------- cmd -----------------|-mtd --|
//! ```
//!
//! Each master sends a protocol control frame (PCF) at the begin of an integration cycle. Frames have different delays
//! on the way; they count them in their transparent clock, and a receiver waits for what is left of the maximum
//! transmission delay (mtd): then the frame is *permanent*, as if all had had the same delay. The
//! compression master takes the middle of the instants at which frames of the masters became permanent and sends one
//! frame to all, which is due a fixed compression master delay (cmd) behind it. Every node compares the
//! instant at which this frame is permanent with the one that its own clock says, and corrects its clock by the
//! difference.
//!
//! Instants and durations are whole numbers of one unit, whatever it is: nanoseconds here, ticks in tables.
//!
//! Each law names its source: an equation of the standard, or the file of the simulator CoRE4INET (CoRE-RG/CoRE4INET,
//! `synchronisation/AS6802`) that has it as code.

/// How long a frame that was received is kept until it is permanent: `max_transmission_delay - elapsed`.
///
/// `elapsed` is its transparent clock and the local processing since its reception. `None` if the frame took longer
/// than the maximum: it cannot become permanent in time.
///
/// Source: SAE AS6802; CoRE4INET, `CoRE4INET_SMStates.cc`: `permanence_pit = receive_pit + permanence_delay`.
#[must_use]
pub const fn permanence_delay(max_transmission_delay: u64, elapsed: u64) -> Option<u64> {
    max_transmission_delay.checked_sub(elapsed)
}

/// The compression function: how far behind the first of them the middle of `permanent` instants is, rounded down;
/// `None` if there are none.
///
/// | instants | correction |
/// |---|---|
/// | 1 | 0 |
/// | 2 | `(c2-c1)/2` |
/// | 3 | `c2-c1` |
/// | 4 | `((c2-c1)+(c3-c1))/2` |
/// | 5 | `((c2-c1)+(c4-c1))/2` |
/// | more | the mean of the (k+1)-th smallest and the (k+1)-th largest, less `c1`; k: faulty masters |
///
/// Source: CoRE4INET, `CoRE4INET_HICMState.h`, `compress()`. For more than five it has half the *difference*
/// of both there, which lies far before either of them; here it is their mean.
#[must_use]
pub fn compression_correction(permanent: &[u64], faulty: u32) -> Option<u64> {
    let mut sorted = permanent.to_vec();
    sorted.sort_unstable();
    let first = *sorted.first()?;
    let count = sorted.len();
    // How many are left out at each side.
    let left_out = match count {
        0..=2 => 0,
        3..=5 => 1,
        _ => (faulty as usize).min((count - 1) / 2),
    };
    let (low, high) = (sorted[left_out] - first, sorted[count - 1 - left_out] - first);
    Some(low + (high - low) / 2)
}

/// What the schedule of an integration cycle follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// No two correct clocks differ by more.
    pub precision: u64,
    /// No frame takes longer from its dispatch to the node that receives it (mtd).
    pub max_transmission_delay: u64,
    /// How long the compression master computes.
    pub overhead: u64,
    /// How many masters may be faulty.
    pub faulty: u32,
}

impl Timing {
    /// How long the compression master waits for further frames, behind the first one of a window.
    ///
    /// Source: SAE AS6802; CoRE4INET: the observation window is the precision.
    #[must_use]
    pub const fn observation_window(&self) -> u64 {
        self.precision
    }

    /// How many observation windows there are at most: one more than masters may be faulty.
    #[must_use]
    pub const fn observation_windows(&self) -> u64 {
        self.faulty as u64 + 1
    }

    /// From the instant at which a compressed frame is ready to its dispatch: `2 * precision + 1`.
    ///
    /// Source: CoRE4INET, `CoRE4INET_HICMStates.cc`.
    #[must_use]
    pub const fn dispatch_delay(&self) -> u64 {
        2 * self.precision + 1
    }

    /// From the first permanent frame to the compressed one, without correction: `OW * (f + 1) + overhead`.
    #[must_use]
    pub const fn compression(&self) -> u64 {
        self.observation_window() * self.observation_windows() + self.overhead
    }

    /// The compression master delay (cmd): `OW * (f + 1) + overhead + dispatch_delay`.
    ///
    /// Source: CoRE4INET, `HighIntegrity_small/calculation.txt`.
    #[must_use]
    pub const fn compression_master_delay(&self) -> u64 {
        self.compression() + self.dispatch_delay()
    }

    /// When the compressed frame of an integration cycle is to be permanent at a master or client (`smc_sched_rcv`):
    /// `dispatch + 2 * mtd + cmd`. `dispatch` is the begin of the integration cycle by the clock of that node.
    ///
    /// Source: SAE AS6802, equations 16 to 20; CoRE4INET, `SM.ned`.
    #[must_use]
    pub const fn scheduled_receive(&self, dispatch: u64) -> u64 {
        dispatch + 2 * self.max_transmission_delay + self.compression_master_delay()
    }

    /// When the frame is to be compressed by the clock of the compression master (`cm_scheduled_pit`):
    /// `dispatch + mtd + OW * (f + 1) + overhead`.
    ///
    /// Source: CoRE4INET, `HighIntegrity_small/calculation.txt`: 261 + 85.
    #[must_use]
    pub const fn scheduled_compression(&self, dispatch: u64) -> u64 {
        dispatch + self.max_transmission_delay + self.compression()
    }

    /// The correction of a clock by a frame that was permanent at `permanent` and scheduled at `scheduled`: the clock
    /// is ahead by so much. `None` if the frame is outside of the acceptance window, `2 * precision` wide.
    ///
    /// Source: SAE AS6802, equations 36 and 37, for one channel; CoRE4INET: in schedule if
    /// `|permanent - scheduled| <= precision`.
    #[must_use]
    pub const fn clock_correction(&self, permanent: u64, scheduled: u64) -> Option<i64> {
        if permanent.abs_diff(scheduled) > self.precision {
            return None;
        }
        Some(permanent.wrapping_sub(scheduled).cast_signed())
    }

    /// When a clock is corrected (`smc_clock_corr_pit`): `scheduled + 2 * precision + 1`, and with two faults
    /// `3 * precision`.
    ///
    /// Source: CoRE4INET, `SM.ned`, which cites SAE AS6802, equations 16 to 20.
    #[must_use]
    pub const fn correction_at(&self, scheduled: u64) -> u64 {
        let precisions = if self.faulty > 1 { 3 } else { 2 };
        scheduled + precisions * self.precision + 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// CoRE4INET, `examples/AS6802/synchronization/HighIntegrity_small`, in ticks of 80 ns.
    const SMALL: Timing =
        Timing { precision: 80, max_transmission_delay: 261, overhead: 5, faulty: 0 };

    #[test]
    fn the_small_network_of_core_to_the_tick() {
        assert_eq!(SMALL.compression_master_delay(), 246);
        assert_eq!(SMALL.scheduled_receive(0), 768);
        assert_eq!(SMALL.scheduled_compression(0), 346);
        assert_eq!(SMALL.dispatch_delay(), 161);
        assert_eq!(SMALL.correction_at(SMALL.scheduled_receive(0)), 768 + 161);
    }

    #[test]
    fn permanence_is_what_is_left_of_the_largest_delay() {
        assert_eq!(permanence_delay(261, 0), Some(261));
        assert_eq!(permanence_delay(261, 100), Some(161));
        assert_eq!(permanence_delay(261, 261), Some(0));
        assert_eq!(permanence_delay(261, 262), None);
    }

    #[test]
    fn corrections_are_differences_within_the_window() {
        for (permanent, correction) in
            [(768, Some(0)), (848, Some(80)), (849, None), (688, Some(-80)), (687, None)]
        {
            assert_eq!(SMALL.clock_correction(permanent, 768), correction, "{permanent}");
        }
        assert_eq!(Timing { faulty: 2, ..SMALL }.correction_at(0), 241);
    }

    #[test]
    fn the_table_of_the_compression_function() {
        for (permanent, faulty, correction) in [
            (&[][..], 0, None),
            (&[100], 1, Some(0)),
            (&[100, 110], 1, Some(5)),
            (&[130, 100, 110], 1, Some(10)),
            (&[100, 110, 120, 190], 1, Some(15)),
            (&[100, 110, 117, 130, 990], 1, Some(20)),
            // The second and the fifth; half of their difference would be 15.
            (&[100, 110, 120, 130, 140, 990], 1, Some(25)),
            (&[100, 110, 120, 130, 140, 150, 990], 2, Some(30)),
            // As many as can be left out.
            (&[100, 110, 120, 130, 140, 150], 9, Some(25)),
        ] {
            assert_eq!(compression_correction(permanent, faulty), correction, "{permanent:?}");
        }
    }

    proptest! {
        #[test]
        fn compression_moves_with_its_inputs_and_stays_among_them(
            inputs in prop::collection::vec(0..1_000_000_u64, 1..12),
            faulty in 0..4_u32,
            shift in 0..1_000_000_u64,
        ) {
            let correction = compression_correction(&inputs, faulty).unwrap();
            let moved: Vec<_> = inputs.iter().map(|it| it + shift).collect();
            prop_assert_eq!(compression_correction(&moved, faulty), Some(correction));
            let (first, last) = (inputs.iter().min().unwrap(), inputs.iter().max().unwrap());
            prop_assert!(first + correction <= *last);
        }

        #[test]
        fn one_faulty_master_of_five_moves_it_no_further_than_the_good_ones_are_apart(
            good in prop::array::uniform4(1_000..2_000_u64),
            faulty in 0..100_000_u64,
        ) {
            let inputs = [&good[..], &[faulty]].concat();
            let middle = inputs.iter().min().unwrap() + compression_correction(&inputs, 1).unwrap();
            prop_assert!(good.iter().min().unwrap() <= &middle);
            prop_assert!(&middle <= good.iter().max().unwrap());
        }

        #[test]
        fn k_faulty_masters_of_more_than_five_do_not_either(
            good in prop::collection::vec(1_000..2_000_u64, 4..8),
            faulty in prop::collection::vec(0..100_000_u64, 2),
        ) {
            let inputs = [&good[..], &faulty[..]].concat();
            let middle = inputs.iter().min().unwrap() + compression_correction(&inputs, 2).unwrap();
            prop_assert!(good.iter().min().unwrap() <= &middle);
            prop_assert!(&middle <= good.iter().max().unwrap());
        }
    }
}
