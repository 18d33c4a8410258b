//! The buses of the simulation against those that it had before: networks without errors, to the nanosecond.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    unreachable_pub,
    reason = "the former code as it was"
)]

mod event {
    pub use candor_sim::event::*;
}
mod medium {
    pub use candor_sim::medium::*;
}
#[path = "former/mod.rs"]
mod former;
#[path = "former/slab.rs"]
mod slab;

use candor_queue::Discipline;
use candor_sim::can::{self, ControllerConfig};
use candor_sim::event::{Core, Includes, Ranked, Time};
use candor_sim::medium::{ControllerId, FrameId, Medium, Outcome};
use candor_time::Nanos;
use candor_wire::can::bits::{length, worst_length};
use candor_wire::can::{Frame, Timing};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Offered {
    at_ns: u64,
    node: usize,
    frame: Frame,
    is_worst: bool,
}

#[derive(Clone, Debug)]
struct Network {
    timing: Timing,
    nodes: Vec<(bool, usize, u64, bool)>,
    offers: Vec<Offered>,
}

fn frames(is_fd: bool) -> impl Strategy<Value = Frame> {
    let data = prop::collection::vec(prop_oneof![Just(0), Just(0xFF), any::<u8>()], 0..=8);
    (any::<u32>(), any::<bool>(), data, any::<bool>(), any::<u8>(), any::<bool>()).prop_map(
        move |(id, is_extended, data, is_long, flags, is_crowded)| {
            let id = if is_crowded { id & 0x3 | id & 0x8000_0000 } else { id };
            let id = if is_extended { id & 0x1FFF_FFFF | 0x8000_0000 } else { id & 0x7FF };
            // Equal identifiers have equal data, so that there are no errors.
            let data = if is_crowded { vec![id as u8] } else { data };
            if is_fd && is_long && !is_crowded {
                return Frame::from_parts(
                    id,
                    &data.repeat(8)[..data.len() / 2 * 8],
                    Some(flags & 3),
                )
                .unwrap_or_else(|_| Frame::from_parts(id, &data, Some(flags & 3)).unwrap());
            }
            Frame::from_parts(id, &data, None).unwrap()
        },
    )
}

fn networks() -> impl Strategy<Value = Network> {
    let rates = prop_oneof![Just("125k"), Just("500k"), Just("1M"), Just("83.333k")];
    (rates, any::<bool>(), 1_usize..7).prop_flat_map(|(rate, is_fd, nodes)| {
        let gaps = prop_oneof![Just(0), Just(0), 0_u64..300_000, 0_u64..3_000_000];
        let offers = prop::collection::vec((gaps, 0..nodes, frames(is_fd), any::<bool>()), 1..80);
        let reload = prop_oneof![Just(0), Just(0), 1_u64..100_000];
        let node = (any::<bool>(), prop_oneof![1_usize..4, Just(100)], reload, any::<bool>());
        (prop::collection::vec(node, nodes), offers).prop_map(move |(nodes, offers)| {
            let nominal = rate.parse().unwrap();
            let timing =
                Timing { nominal, data: if is_fd { "2M".parse().unwrap() } else { nominal } };
            let mut at_ns = 0;
            // Frames with one identifier are equal.
            let mut known: Vec<Frame> = Vec::new();
            let offers = offers.into_iter().map(|(gap, node, frame, is_worst)| {
                at_ns += gap;
                let key = frame.arbitration_key();
                let before = known.iter().find(|it| it.arbitration_key() == key).copied();
                let frame = before.unwrap_or_else(|| {
                    known.push(frame);
                    frame
                });
                Offered { at_ns, node, frame, is_worst: is_worst && before.is_none() }
            });
            Network { timing, nodes, offers: offers.collect() }
        })
    })
}

/// Everything that comes of a network: outcomes with their times, what was refused, and what was counted.
macro_rules! run {
    ($can:ident, $network:expr) => {{
        let network = $network;
        let (mut core, mut can) = (Core::<$can::Event>::new(1), $can::Can::default());
        let config = $can::BusConfig {
            name: "bus".into(),
            timing: network.timing,
            is_fd: true,
            bit_error_rate: 0.0,
            restart: None,
        };
        let bus = can.add_bus(&core, config);
        let controllers: Vec<_> = network
            .nodes
            .iter()
            .map(|&(is_fifo, depth, reload_ns, is_listening)| {
                can.add_controller(
                    bus,
                    $can::ControllerConfig {
                        discipline: if is_fifo { Discipline::Fifo } else { Discipline::Priority },
                        depth,
                        reload: Nanos::from_nanos(reload_ns),
                        fault_rate: 0.0,
                        is_listening,
                    },
                )
            })
            .collect();
        let mut log: Vec<(u64, Result<Outcome, u32>)> = Vec::new();
        let mut outcomes = Vec::new();
        let mut busy = Vec::new();
        for (index, offer) in network.offers.iter().enumerate() {
            let at = Time::from_nanos(offer.at_ns);
            while let Some(event) = core.next_until(at) {
                can.happen(&mut core, event, &mut outcomes);
                log.extend(outcomes.drain(..).map(|it| (core.now().as_nanos(), Ok(it))));
            }
            core.reach(at);
            busy.push(can.statistics(bus, core.now()).busy);
            let length =
                if offer.is_worst { worst_length(&offer.frame) } else { length(&offer.frame) };
            let one = $can::Offer {
                id: FrameId(index as u32),
                frame: &offer.frame,
                length: length.unwrap(),
            };
            if can.offer(&mut core, controllers[offer.node], one).is_err() {
                log.push((core.now().as_nanos(), Err(index as u32)));
            }
        }
        while let Some(event) = core.next() {
            can.happen(&mut core, event, &mut outcomes);
            log.extend(outcomes.drain(..).map(|it| (core.now().as_nanos(), Ok(it))));
        }
        let counted = can.statistics(bus, core.now() + Nanos::from_secs(1));
        (log, busy, format!("{counted:?}"))
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn networks_without_errors_are_those_of_before(network in networks()) {
        let (log, busy, counted) = run!(can, &network);
        let (former_log, former_busy, former_counted) = run!(former, &network);
        prop_assert_eq!(log, former_log);
        prop_assert_eq!(busy, former_busy);
        prop_assert_eq!(counted, former_counted);
    }
}
