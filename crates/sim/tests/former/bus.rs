//! CAN buses. Bits and their laws are those of ISO 11898-1.

use candor_random::BitErrors;
use candor_time::Nanos;
use candor_wire::can::Timing;
use candor_wire::can::bits::{INTERMISSION_BITS, Length, TAIL_BITS};

use crate::event::{Random, Time};

/// Error delimiter (8) and intermission (3) after an error flag, in bits: all recessive.
pub const ERROR_TAIL_BITS: u32 = 8 + INTERMISSION_BITS;
/// The recessive end of a frame without its intermission, in bits: acknowledge delimiter (1) and end of
/// frame (7). The acknowledge slot before it is dominant.
const FRAME_TAIL_BITS: u32 = 1 + 7;
/// An error flag, in bits; up to as many again follow where flags of several nodes overlap, so that
/// 6 to 12 dominant bits are seen.
const ERROR_FLAG_BITS: u32 = 6;
/// An error-passive node waits this long after the intermission of its own frame (suspend
/// transmission); others may begin meanwhile.
pub const SUSPEND_BITS: u32 = 8;
/// Sequences of recessive bits that a bus-off node must see before it comes back.
pub const RECOVERY_SEQUENCES: u32 = 128;
/// The length of such a sequence in bits.
pub const SEQUENCE_BITS: u32 = 11;
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
pub struct Transmission {
    pub sender: u32,
    /// Those that send the very same bits at the same time.
    pub also: Vec<u32>,
    pub start: Time,
    /// When an error flag begins, if one does.
    pub flagged_at: Option<Time>,
}

pub struct Bus {
    pub config: BusConfig,
    pub controllers: Vec<u32>,
    pub on_wire: Option<Transmission>,
    /// When the intermission after the last frame is over.
    pub idle_at: Time,
    /// Since when the wire is recessive; means nothing while a frame is on it.
    pub recessive_since: Time,
    /// When an arbitration is planned.
    pub arbitration: Option<Time>,
    /// How many controllers are bus-off.
    pub off: u32,
    pub statistics: BusStatistics,
    pub random: Random,
    pub bit_errors: BitErrors,
    /// How long the recessive end of a frame takes, and the intermission behind it.
    pub tail: Nanos,
    pub intermission: Nanos,
}

impl Bus {
    pub fn new(config: BusConfig, random: Random, bit_errors: BitErrors) -> Self {
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
    pub fn statistics_at(&self, now: Time) -> BusStatistics {
        let busy = self.statistics.busy - self.idle_at.since(now);
        BusStatistics { busy, ..self.statistics }
    }

    /// How long from start to end of frame.
    #[inline]
    pub fn transmission(&self, length: Length) -> Nanos {
        Nanos::from_nanos(self.config.timing.duration_ns(length.without_intermission()))
    }

    #[inline]
    pub fn bits(&self, bits: u32) -> Nanos {
        Nanos::from_nanos(self.config.timing.nominal.duration_ns(bits))
    }

    /// How many sequences of recessive bits a node sees in so long a time without a dominant one.
    pub fn sequences_in(&self, recessive: Nanos) -> u32 {
        let rate = u128::from(self.config.timing.nominal.bits_per_second());
        let thousandths = u128::from(recessive.as_nanos()) * rate / 1_000_000;
        let bits = (thousandths + u128::from(1_000 - SAMPLE_POINT_PERMILLE)) / 1_000;
        (bits / u128::from(SEQUENCE_BITS)) as u32
    }

    /// Draws whether a frame of this length is destroyed, and at which bit.
    #[inline]
    pub fn draw_error(&mut self, length: Length, fault_rate: f64) -> Option<u32> {
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
    pub fn flagged_after(&self, length: Length, at: u32) -> Nanos {
        // The CRC delimiter is the last data bit, if there are data bits.
        let nominal_head = length.nominal.saturating_sub(TAIL_BITS - 1);
        let sent = at + 1;
        let data = sent.saturating_sub(nominal_head).min(length.data);
        let partial = Length { nominal: sent - data, data, stuff_bits: 0 };
        Nanos::from_nanos(self.config.timing.duration_ns(partial))
    }

    /// How long an error frame takes: flags, delimiter and intermission. Flags of nodes that notice
    /// late lengthen the flag by up to six bits.
    pub fn error_frame(&mut self) -> Nanos {
        let overlap = (self.random.unit() * f64::from(ERROR_FLAG_BITS + 1)) as u32;
        self.bits(ERROR_FLAG_BITS + overlap + ERROR_TAIL_BITS)
    }
}
