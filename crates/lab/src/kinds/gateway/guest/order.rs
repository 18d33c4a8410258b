//! The order that makes a guest perform an experiment.
//!
//! | experiment | order |
//! |---|---|
//! | first bus, second bus | `can2`, `can3`: the gateway's interfaces on source and target |
//! | virtual buses of the rules | `vcan0`, `vcan1`, ... |
//! | one at a time | as such; with a tester inside, to each turnaround comes what a frame would take on both buses |
//! | open loop | as such |
//! | half, flood | every 200 % and every 100 % of a frame's time |
//! | warm-up | its first frames before it, one at a time |
//! | periodic, replay | all frames with their instants, by node: those of the simulation |

use candor_engine::Table;
use candor_network::Bus;
use candor_protocol::interface;
use candor_protocol::order::{BusFaults, Measurement, Offer, Pace, Tester, Traffic};
use candor_time::Nanos;
use candor_wire::can::bits;

use super::super::settings::{self, CanGateway};
use super::super::sources::{self, Numbered, Offers};
use crate::buses::timing;
use crate::error::Error;
use crate::experiment::{Experiment, Vm};

/// The order for `experiment`.
///
/// # Errors
/// Its traffic is of another world.
pub(super) fn order(
    experiment: &Experiment,
    can: &CanGateway,
    settings: &Vm,
) -> Result<Measurement, Error> {
    let [source, target] = match can.network.buses.as_slice() {
        [only] => [only, only],
        [source, target, ..] => [source, target],
        [] => return Err(Error::Other(format!("{}: no bus is defined", experiment.name))),
    };
    let timeout = match can.traffic {
        settings::Traffic::Numbered { timeout, .. } => timeout,
        settings::Traffic::Periodic | settings::Traffic::Replay { .. } => MISSING,
    };
    let (traffic, offers) = match &can.traffic {
        settings::Traffic::Numbered { frames, pace, timeout } => {
            let pace = paced((*pace, *timeout), frames, [source, target], settings);
            let traffic = Traffic {
                pace,
                count: experiment.count,
                can_ids: frames.can_ids.clone(),
                length: frames.length as u8,
                fd_flags: frames.fd_flags,
                fill: frames.fill,
            };
            (traffic, Vec::new())
        }
        settings::Traffic::Periodic | settings::Traffic::Replay { .. } => {
            offered(&offers(experiment, can)?)
        }
    };
    Ok(Measurement {
        tester: settings.machine.tester,
        controller: settings.controller,
        driver: settings.driver.of_order(),
        source: timing(source),
        target: timing(target),
        faults: faults(settings),
        gateway: settings.gateway.clone(),
        rules: can.rules().map_or_else(Table::default, |rules| placed(rules, &can.network.buses)),
        traffic,
        warm_up: settings.warm_up,
        timeout_ns: timeout.as_nanos(),
        offers,
        load: settings.load,
        settings: settings.settings.clone(),
        files: settings.files.clone(),
        seed: experiment.seed,
        wants_frames: true,
        wants_symbols: false,
    })
}

/// How long a missing frame is waited for where the traffic does not say it.
const MISSING: Nanos = Nanos::from_secs(1);

/// Frames at most of a recording: as many as a count can be.
const MOST_OFFERS: u64 = 200_000;

/// The frames of periodic messages, or of a recording: those that `sim` offers with the same seed.
///
/// # Errors
/// The recording cannot be read, or is too long.
pub(super) fn offers(experiment: &Experiment, can: &CanGateway) -> Result<Offers, Error> {
    let settings::Traffic::Replay { log, interface, speed, .. } = &can.traffic else {
        return Ok(sources::offered(&can.network.nodes, experiment.seed, experiment.count));
    };
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    let most = experiment.count.min(MOST_OFFERS + 1);
    let offers = sources::replayed(log, (interface.as_deref(), *speed), most)
        .map_err(|error| reported(error.to_string()))?;
    if offers.all.len() as u64 + offers.left_out > MOST_OFFERS {
        let log = log.display();
        return Err(reported(format!(
            "{log} has more than {MOST_OFFERS} frames; set `count` to send the first of them, or cut it with `candor log cut`"
        )));
    }
    if offers.all.is_empty() {
        let log = log.display();
        return Err(reported(format!(
            "no frame of {log} has room for a number: two bytes of classical data; run it with --testbed sim"
        )));
    }
    Ok(offers)
}

fn offered(offers: &Offers) -> (Traffic, Vec<Offer>) {
    let all = &offers.all;
    let offer = |it: &sources::Offered| Offer {
        sender: it.sender as u8,
        at_ns: it.at.as_nanos(),
        can_id: it.frame.can_id(),
        data: it.frame.data().into(),
    };
    let offers: Vec<_> = all.iter().map(offer).collect();
    let lasts_ns = offers.last().map_or(0, |it| it.at_ns);
    (Traffic::new(Pace::Offered { lasts_ns }, offers.len() as u64), offers)
}

/// When numbered frames are sent.
fn paced(
    (pace, timeout): (settings::Pace, Nanos),
    frames: &Numbered,
    [source, target]: [&Bus; 2],
    settings: &Vm,
) -> Pace {
    match pace {
        settings::Pace::OneAtATime { turnaround: (shortest, longest) } => {
            let on_buses_ns = match settings.machine.tester {
                Tester::Inside => on_bus_ns(source, frames) + on_bus_ns(target, frames),
                Tester::Outside | Tester::Master => 0,
            };
            Pace::OneAtATime {
                shortest_ns: shortest.as_nanos() + on_buses_ns,
                longest_ns: longest.max(shortest).as_nanos() + on_buses_ns,
                timeout_ns: timeout.as_nanos(),
            }
        }
        settings::Pace::OpenLoop { gap: (shortest, longest) } => Pace::OpenLoop {
            shortest_ns: shortest.as_nanos(),
            longest_ns: longest.max(shortest).as_nanos(),
        },
        settings::Pace::Half => Pace::Paced { period_percent: 200, gap_ns: 0 },
        settings::Pace::Flood { gap } => {
            Pace::Paced { period_percent: 100, gap_ns: gap.as_nanos() }
        }
    }
}

/// What goes wrong on source and target. Buses that take no time are without errors.
fn faults(settings: &Vm) -> [BusFaults; 2] {
    let of_bus = |bus: usize| {
        let faults = match settings.machine.tester {
            Tester::Inside => None,
            Tester::Outside | Tester::Master => settings.faults.get(bus),
        };
        faults.map_or(BusFaults::default(), |faults| BusFaults {
            bit_error_rate: faults.bit_error_rate,
            restart_ns: faults.restart.map(Nanos::as_nanos),
        })
    };
    [of_bus(0), of_bus(1)]
}

/// What the longest of these frames takes on a bus at most: the emulated one takes no time, and
/// without a pause the next frame would come sooner than it could.
fn on_bus_ns(bus: &Bus, frames: &Numbered) -> u64 {
    let ids = 0..frames.can_ids.len();
    let lengths = ids.filter_map(|id| bits::worst_length(&frames.with_id(0, id)?).ok());
    lengths.map(|length| bus.timing.duration_ns(length)).max().unwrap_or(0)
}

/// The rules on the interfaces of the test bed. Names stay.
fn placed(rules: &Table, buses: &[Bus]) -> Table {
    let mut table = rules.clone();
    let mut virtual_buses = 0;
    for bus in &mut table.buses {
        bus.port = if bus.is_virtual {
            virtual_buses += 1;
            format!("vcan{}", virtual_buses - 1)
        } else if buses.first().is_some_and(|source| source.name == bus.name) {
            interface::SOURCE.into()
        } else {
            interface::TARGET.into()
        };
    }
    // Where rules stand in their file does not matter to a guest.
    table.rules.iter_mut().for_each(|rule| rule.position = (0, 0));
    table
}
