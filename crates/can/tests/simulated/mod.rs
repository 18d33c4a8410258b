//! The bus of the simulation as an oracle.

use candor_queue::Discipline;
use candor_sim::can::{BusConfig, Can, ControllerConfig, Event, Offer};
use candor_sim::event::{Core, Time};
use candor_sim::medium::{FrameId, Medium, Outcome};
use candor_time::Nanos;
use candor_wire::can::bits::length;
use candor_wire::can::{Frame, Timing};

/// A frame offered to a node at a time.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) at_ns: u64,
    pub(crate) node: usize,
    pub(crate) frame: Frame,
}

/// A frame on the wire: which of the offered ones, from when to when.
pub(crate) type OnWire = (usize, u64, u64);

/// What the simulation makes of it: the frames in the order in which they got through, and for how long the bus was busy.
/// Each node has a queue of its own, in order of time.
pub(crate) fn simulated(timing: Timing, nodes: usize, offers: &[Offered]) -> (Vec<OnWire>, u64) {
    let (mut core, mut can) = (Core::<Event>::new(1), Can::default());
    let name = "bus".into();
    let config = BusConfig { name, timing, is_fd: true, bit_error_rate: 0.0, restart: None };
    let bus = can.add_bus(&core, config);
    let config =
        ControllerConfig { discipline: Discipline::Fifo, depth: 1_000, ..Default::default() };
    // One more, so that frames are acknowledged.
    let controllers: Vec<_> = (0..=nodes).map(|_| can.add_controller(bus, config)).collect();
    let (mut starts, mut sent) = (vec![0; offers.len()], Vec::new());
    let mut outcomes = Vec::new();
    let mut happen = |core: &mut Core<Event>, can: &mut Can, event| {
        can.happen(core, event, &mut outcomes);
        let now = core.now().as_nanos();
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Started { frame, .. } => starts[frame.0 as usize] = now,
                Outcome::Sent { frame, .. } => sent.push((frame.0 as usize, now)),
                _ => {}
            }
        }
    };
    for (index, offer) in offers.iter().enumerate() {
        let at = Time::from_nanos(offer.at_ns);
        while let Some(event) = core.next_until(at) {
            happen(&mut core, &mut can, event);
        }
        core.reach(at);
        let (frame, length) = (&offer.frame, length(&offer.frame).unwrap());
        let id = FrameId(index as u32);
        can.offer(&mut core, controllers[offer.node], Offer { id, frame, length }).unwrap();
    }
    while let Some(event) = core.next() {
        happen(&mut core, &mut can, event);
    }
    let later = core.now() + Nanos::from_secs(1);
    let busy = can.statistics(bus, later).busy.as_nanos();
    (sent.into_iter().map(|(index, end)| (index, starts[index], end)).collect(), busy)
}
