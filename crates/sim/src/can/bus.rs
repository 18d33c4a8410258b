//! [`Bus`]: a bus of [`candor_can`] with the controllers that are its nodes.

use candor_can::{Faults, Node, NodeId, Options, TimedFaults};
use candor_random::BitErrors;
use candor_time::Nanos;
use candor_wire::can::Timing;

use crate::event::{Random, Time};

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

/// Every bus has a listener that acknowledges, and the world sees frames when they are over.
const OPTIONS: Options =
    Options { is_acknowledged: true, receives_at_end: true, is_arbitration_silent: true };

pub(super) struct Bus {
    pub(super) config: BusConfig,
    /// Its controllers, by their places among its nodes.
    pub(super) controllers: Vec<u32>,
    pub(super) wire: candor_can::Bus<Vec<Node>, SenderFaults>,
    /// The controllers that send what is on the wire, in their order.
    pub(super) senders: Vec<u32>,
    /// When the next arbitration is planned.
    pub(super) arbitration: Option<Time>,
    /// How many controllers are bus-off.
    pub(super) off: u32,
}

impl Bus {
    pub(super) fn new(config: BusConfig, random: Random, bit_errors: BitErrors) -> Self {
        let mut timed = TimedFaults::NONE;
        timed.set_bit_errors(bit_errors);
        let faults = SenderFaults { timed, rates: Vec::new(), random };
        Self {
            wire: candor_can::Bus::new(config.timing, Vec::new(), faults, OPTIONS),
            config,
            controllers: Vec::new(),
            senders: Vec::new(),
            arbitration: None,
            off: 0,
        }
    }

    /// Adds a controller whose own faults destroy so many of its frames: which node it is.
    pub(super) fn add(&mut self, controller: u32, fault_rate: f64) -> NodeId {
        let node = NodeId(self.controllers.len() as u32);
        self.controllers.push(controller);
        self.wire.nodes_mut().push(Node::TAKES_PART);
        self.wire.faults_mut().rates.push(fault_rate);
        node
    }

    /// What happened up to `now`: of an intermission or an error frame that is not over, only what has passed.
    pub(super) fn statistics_at(&self, now: Time) -> BusStatistics {
        let it = self.wire.statistics();
        let ahead = self.wire.idle_at_ns().saturating_sub(now.as_nanos());
        BusStatistics {
            frames: it.frames,
            error_frames: it.error_frames,
            bus_offs: it.bus_offs,
            id_collisions: it.id_collisions,
            collision_id: it.collision_id,
            busy: Nanos::from_nanos(it.busy_ns - ahead),
        }
    }
}

/// Faults of the wire, and those of the controllers that send.
pub(super) struct SenderFaults {
    pub(super) timed: TimedFaults,
    /// The probability, 0 to 1, that a node destroys a frame that it sends.
    rates: Vec<f64>,
    random: Random,
}

impl Faults for SenderFaults {
    #[inline]
    fn draw(&mut self, number: u64, sender: NodeId, bits: u32) -> Option<u32> {
        let destroyed = self.timed.draw(number, sender, bits);
        if destroyed.is_some() {
            return destroyed;
        }
        let rate = self.rates.get(sender.0 as usize).copied().unwrap_or_default();
        let is_faulty = rate > 0.0 && self.random.unit() < rate;
        is_faulty.then(|| (self.random.unit() * f64::from(bits)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rate: f64) -> SenderFaults {
        SenderFaults { timed: TimedFaults::NONE, rates: vec![rate], random: Random::new(1, 1) }
    }

    #[test]
    fn a_bit_error_hits_the_frame_that_it_falls_into() {
        // The distance to the next error counts the bits of frames, without intermissions.
        for (good_bits, hit) in [(0, Some(0)), (51, Some(51)), (52, None), (u64::MAX, None)] {
            let mut faults = faults(0.0);
            faults.timed.set_bit_errors(BitErrors::of_bus(1, 0, 0.0).with_next(good_bits));
            assert_eq!(faults.draw(0, NodeId(0), 52), hit, "{good_bits}");
        }
    }

    #[test]
    fn a_faulty_sender_spoils_its_share_of_frames_at_any_bit() {
        let (mut faults, bits) = (faults(0.25), 44);
        let mut hits = vec![0; bits as usize];
        for number in 0..20_000 {
            if let Some(at) = faults.draw(number, NodeId(0), bits) {
                hits[at as usize] += 1;
            }
        }
        let spoiled = hits.iter().sum::<u32>();
        assert!((4_700..5_300).contains(&spoiled), "{spoiled}");
        let mean = spoiled / bits;
        assert!(hits.iter().all(|&hits| (mean / 2..2 * mean).contains(&hits)), "{hits:?}");
    }
}
