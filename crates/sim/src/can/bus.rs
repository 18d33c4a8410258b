//! CAN buses. Bits and their laws are those of ISO 11898-1.

use candor_random::BitErrors;
use candor_time::Nanos;
use candor_wire::can::Timing;
use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS};

use crate::event::{Random, Time};

/// Error delimiter (8) and intermission (3) after an error flag, in bits: all recessive.
pub(super) const ERROR_TAIL_BITS: u32 = 8 + INTERMISSION_BITS;
/// The recessive end of a frame without its intermission, in bits: acknowledge delimiter (1) and end of
/// frame (7). The acknowledge slot before it is dominant.
const FRAME_TAIL_BITS: u32 = 1 + 7;
/// An error flag, in bits; up to as many again follow where flags of several nodes overlap, so that
/// 6 to 12 dominant bits are seen.
const ERROR_FLAG_BITS: u32 = 6;
/// An error-passive node waits this long after the intermission of its own frame (suspend
/// transmission); others may begin meanwhile.
pub(super) const SUSPEND_BITS: u32 = 8;
/// Sequences of recessive bits that a bus-off node must see before it comes back.
pub(super) const RECOVERY_SEQUENCES: u32 = 128;
/// The length of such a sequence in bits.
pub(super) const SEQUENCE_BITS: u32 = 11;
/// Where in a bit its value is taken, in thousandths: a bit cut short behind that point counts.
/// CiA 301 recommends 87.5 %, Linux aims at that or at 80 % (`can_calc_bittiming`).
const SAMPLE_POINT_PERMILLE: u64 = 800;

/// What a bus is.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// The name in messages and results.
    pub name: String,
    /// Its bit rates.
    pub timing: Timing,
    /// Whether it carries CAN FD.
    pub is_fd: bool,
    /// Probability, 0 to 1, that a bit is destroyed on the way, for all receivers alike.
    pub bit_error_rate: f64,
    /// How long after bus-off the controllers on it restart; `None`: never.
    pub restart: Option<Nanos>,
}

/// What happened on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusStatistics {
    /// Frames that got through.
    pub frames: u64,
    /// Frames destroyed by an error, each followed by an error frame.
    pub error_frames: u64,
    /// How often a controller went bus-off.
    pub bus_offs: u64,
    /// How often nodes began a frame with the same identifier at once, which CAN forbids.
    pub id_collisions: u64,
    /// The identifier word of the first of these frames.
    pub collision_id: Option<u32>,
    /// How long it was occupied, intermission and error frames included.
    pub busy: Nanos,
}

/// What is on the wire.
#[derive(Clone, Debug)]
pub(super) struct Transmission {
    pub(super) sender: u32,
    /// Those that send the very same bits at the same time.
    pub(super) also: Vec<u32>,
    pub(super) start: Time,
    /// When an error flag begins, if one does.
    pub(super) flagged_at: Option<Time>,
}

pub(super) struct Bus {
    pub(super) config: BusConfig,
    pub(super) controllers: Vec<u32>,
    pub(super) on_wire: Option<Transmission>,
    /// When the intermission after the last frame is over.
    pub(super) idle_at: Time,
    /// Since when the wire is recessive; means nothing while a frame is on it.
    pub(super) recessive_since: Time,
    /// When an arbitration is planned.
    pub(super) arbitration: Option<Time>,
    /// How many controllers are bus-off.
    pub(super) off: u32,
    pub(super) statistics: BusStatistics,
    pub(super) random: Random,
    pub(super) bit_errors: BitErrors,
    /// How long the recessive end of a frame takes, and the intermission behind it.
    pub(super) tail: Nanos,
    pub(super) intermission: Nanos,
}

impl Bus {
    pub(super) fn new(config: BusConfig, random: Random, bit_errors: BitErrors) -> Self {
        let bits = |bits| Nanos::from_nanos(config.timing.nominal.duration_ns(bits));
        Self {
            tail: bits(FRAME_TAIL_BITS),
            intermission: bits(INTERMISSION_BITS),
            config,
            controllers: Vec::new(),
            on_wire: None,
            idle_at: Time::ZERO,
            recessive_since: Time::ZERO,
            arbitration: None,
            off: 0,
            statistics: BusStatistics::default(),
            random,
            bit_errors,
        }
    }

    /// What happened up to `now`: of an intermission that is not over, only what has passed.
    pub(super) fn statistics_at(&self, now: Time) -> BusStatistics {
        let busy = self.statistics.busy - self.idle_at.since(now);
        BusStatistics { busy, ..self.statistics }
    }

    /// How long from start to end of frame.
    #[inline]
    pub(super) fn transmission(&self, length: Length) -> Nanos {
        Nanos::from_nanos(self.config.timing.duration_ns(length.without_intermission()))
    }

    #[inline]
    pub(super) fn bits(&self, bits: u32) -> Nanos {
        Nanos::from_nanos(self.config.timing.nominal.duration_ns(bits))
    }

    /// How many sequences of recessive bits a node sees in so long a time without a dominant one.
    pub(super) fn sequences_in(&self, recessive: Nanos) -> u32 {
        let rate = u128::from(self.config.timing.nominal.bits_per_second());
        let thousandths = u128::from(recessive.as_nanos()) * rate / 1_000_000;
        let bits = (thousandths + u128::from(1_000 - SAMPLE_POINT_PERMILLE)) / 1_000;
        (bits / u128::from(SEQUENCE_BITS)) as u32
    }

    /// Draws whether a frame of this length is destroyed, and at which bit.
    #[inline]
    pub(super) fn draw_error(&mut self, length: Length, fault_rate: f64) -> Option<u32> {
        let bits = length.total() - INTERMISSION_BITS;
        let destroyed = self.bit_errors.draw(bits);
        if destroyed.is_some() {
            return destroyed;
        }
        let is_faulty = fault_rate > 0.0 && self.random.unit() < fault_rate;
        is_faulty.then(|| (self.random.unit() * f64::from(bits)) as u32)
    }

    /// How long after the start of a frame with an error in bit `at` the error flag begins.
    ///
    /// An error in the data phase of CAN FD switches the rate back at the sample point of the wrong
    /// bit, as the CRC delimiter does; the flag is sent at the nominal rate.
    pub(super) fn flagged_after(&self, length: Length, at: u32) -> Nanos {
        // The CRC delimiter is the last data bit, if there are data bits.
        let nominal_head = length.nominal.saturating_sub(TAIL_BITS - 1);
        let sent = at + 1;
        let data = sent.saturating_sub(nominal_head).min(length.data);
        let partial = Length { nominal: sent - data, data, stuff_bits: 0 };
        Nanos::from_nanos(self.config.timing.duration_ns(partial))
    }

    /// How long an error frame takes: flags, delimiter and intermission. Flags of nodes that notice
    /// late lengthen the flag by up to six bits.
    pub(super) fn error_frame(&mut self) -> Nanos {
        let overlap = (self.random.unit() * f64::from(ERROR_FLAG_BITS + 1)) as u32;
        self.bits(ERROR_FLAG_BITS + overlap + ERROR_TAIL_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(nominal: &str, data: &str) -> Bus {
        let timing = Timing { nominal: nominal.parse().unwrap(), data: data.parse().unwrap() };
        let config = BusConfig {
            name: "bus".into(),
            timing,
            is_fd: true,
            bit_error_rate: 0.0,
            restart: None,
        };
        Bus::new(config, Random::new(1, 1), BitErrors::of_bus(1, 0, 0.0))
    }

    #[test]
    fn sequences_of_recessive_bits_are_counted_as_they_are_sampled() {
        let bus = bus("1M", "1M");
        for (nanos, sequences) in [
            (0, 0),
            (10_799, 0),
            (10_800, 1),
            (11_000, 1),
            (21_799, 1),
            (21_800, 2),
            (1_408_000, 128),
        ] {
            assert_eq!(bus.sequences_in(Nanos::from_nanos(nanos)), sequences, "{nanos} ns");
        }
    }

    #[test]
    fn error_flags_begin_behind_the_wrong_bit() {
        let frame: candor_wire::can::Frame = "123##1AABB".parse().unwrap();
        let length = candor_wire::can::bits::length(&frame).unwrap();
        // 17 bits up to BRS, 49 data bits with the CRC delimiter, then 12 nominal ones.
        assert_eq!((length.nominal, length.data), (29, 49));
        let mut bus = bus("500k", "2M");
        for (at, flagged_ns) in [
            (0, 2_000),
            (16, 17 * 2_000),
            (17, 17 * 2_000 + 500),
            (65, 17 * 2_000 + 49 * 500),
            (66, 18 * 2_000 + 49 * 500),
        ] {
            assert_eq!(bus.flagged_after(length, at), Nanos::from_nanos(flagged_ns), "bit {at}");
            let bits = bus.error_frame().as_nanos() / 2_000;
            assert!((6 + 11..=12 + 11).contains(&bits), "{bits} bits");
        }
    }

    #[test]
    fn a_bit_error_hits_the_frame_that_it_falls_into() {
        let mut bus = bus("500k", "500k");
        let length = candor_wire::can::bits::length(&"123#11".parse().unwrap()).unwrap();
        let bits = length.total() - INTERMISSION_BITS;
        // The distance to the next error counts the bits of frames, without intermissions.
        for (good_bits, hit) in [
            (0, Some(0)),
            (u64::from(bits) - 1, Some(bits - 1)),
            (u64::from(bits), None),
            (u64::MAX, None),
        ] {
            bus.bit_errors = bus.bit_errors.with_next(good_bits);
            assert_eq!(bus.draw_error(length, 0.0), hit, "{good_bits}");
        }
    }

    #[test]
    fn a_faulty_sender_spoils_its_share_of_frames_at_any_bit() {
        let mut bus = bus("500k", "500k");
        let length = candor_wire::can::bits::length(&"123#".parse().unwrap()).unwrap();
        let bits = length.total() - INTERMISSION_BITS;
        let mut hits = vec![0; bits as usize];
        for _ in 0..20_000 {
            if let Some(at) = bus.draw_error(length, 0.25) {
                hits[at as usize] += 1;
            }
        }
        let spoiled = hits.iter().sum::<u32>();
        assert!((4_700..5_300).contains(&spoiled), "{spoiled}");
        let mean = spoiled / bits;
        assert!(hits.iter().all(|&hits| (mean / 2..2 * mean).contains(&hits)), "{hits:?}");
    }

    #[test]
    fn flags_overlap_by_none_to_six_bits() {
        let mut bus = bus("500k", "500k");
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            let bits = bus.error_frame().as_nanos() / 2_000;
            seen[bits as usize - 17] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    }
}
