//! CAN buses.

use candor_time::Nanos;
use candor_wire::Timing;
use candor_wire::bits::{INTERMISSION_BITS, Length, TAIL_BITS};

use crate::event::Time;
use crate::random::Random;

/// Error delimiter and intermission after an error flag, in bits.
const ERROR_TAIL_BITS: u32 = 8 + INTERMISSION_BITS;
/// An error flag, in bits; up to as many again follow where flags of several nodes overlap.
const ERROR_FLAG_BITS: u32 = 6;
/// An error-passive transmitter waits this long after its frame.
pub(crate) const SUSPEND_BITS: u32 = 8;
/// Recovery from bus-off takes 128 times 11 recessive bits.
pub(crate) const RECOVERY_BITS: u32 = 128 * 11;

/// What a bus is.
#[derive(Clone, Debug)]
pub struct BusConfig {
    /// The name in messages and results.
    pub name: String,
    /// Its bit rates.
    pub timing: Timing,
    /// Whether it carries CAN FD.
    pub is_fd: bool,
    /// Probability that a bit is destroyed on the way, for all receivers alike.
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
    /// How often two nodes sent the same identifier at once, which CAN forbids.
    pub id_collisions: u64,
    /// How long it was occupied, intermission and error frames included.
    pub busy: Nanos,
}

/// What is on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmission {
    pub(crate) controller: u32,
    pub(crate) start: Time,
    pub(crate) destroyed: bool,
}

pub(crate) struct Bus {
    pub(crate) config: BusConfig,
    pub(crate) controllers: Vec<u32>,
    pub(crate) on_wire: Option<Transmission>,
    /// When the intermission after the last frame is over.
    pub(crate) idle_at: Time,
    /// Whether an arbitration is planned.
    pub(crate) is_called: bool,
    pub(crate) statistics: BusStatistics,
    pub(crate) random: Random,
    /// Good bits before the next bad one.
    pub(crate) until_error: u64,
}

impl Bus {
    pub(crate) fn new(config: BusConfig, mut random: Random) -> Self {
        let until_error = random.geometric(config.bit_error_rate);
        Self {
            config,
            controllers: Vec::new(),
            on_wire: None,
            idle_at: Time::ZERO,
            is_called: false,
            statistics: BusStatistics::default(),
            random,
            until_error,
        }
    }

    /// What happened up to `now`: of an intermission that is not over, only what has passed.
    pub(crate) fn statistics_at(&self, now: Time) -> BusStatistics {
        let busy = self.statistics.busy - self.idle_at.since(now);
        BusStatistics { busy, ..self.statistics }
    }

    /// How long from start to end of frame.
    pub(crate) fn transmission(&self, length: Length) -> Nanos {
        Nanos::from_nanos(self.config.timing.duration_ns(length.without_intermission()))
    }

    pub(crate) fn bits(&self, bits: u32) -> Nanos {
        Nanos::from_nanos(self.config.timing.nominal.duration_ns(bits))
    }

    /// Draws whether a frame of this length is destroyed, and at which bit.
    pub(crate) fn draw_error(&mut self, length: Length, fault_rate: f64) -> Option<u32> {
        let bits = length.total() - INTERMISSION_BITS;
        if self.until_error < u64::from(bits) {
            let at = self.until_error as u32;
            self.until_error = self.random.geometric(self.config.bit_error_rate);
            return Some(at);
        }
        if self.until_error != u64::MAX {
            self.until_error -= u64::from(bits);
        }
        let is_faulty = fault_rate > 0.0 && self.random.unit() < fault_rate;
        is_faulty.then(|| (self.random.unit() * f64::from(bits)) as u32)
    }

    /// How long the wire is taken by a frame destroyed at bit `at`, with error flags, delimiter
    /// and intermission. Flags of nodes that notice late lengthen the flag by up to six bits.
    pub(crate) fn destroyed_for(&mut self, length: Length, at: u32) -> Nanos {
        let nominal_head = length.nominal - TAIL_BITS.min(length.nominal);
        let sent = at + 1;
        let data = sent.saturating_sub(nominal_head).min(length.data);
        let overlap = (self.random.unit() * f64::from(ERROR_FLAG_BITS + 1)) as u32;
        let partial = Length { nominal: sent - data, data, stuff_bits: 0 };
        Nanos::from_nanos(self.config.timing.duration_ns(partial))
            + self.bits(ERROR_FLAG_BITS + overlap + ERROR_TAIL_BITS)
    }
}
