//! What makes a simulation doubtful although it ran: bit rates that no bus has, buses that cannot carry
//! what they are given, senders that fall behind, controllers that leave their bus, identifiers with two senders.
//!
//! A wrong bit rate gives figures as smooth as a right one. These notes say it beside the figures.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use candor_diagnostics::counted;
use candor_network::{Bus, Message, Payload, show_id};
use candor_protocol::report::Wire;
use candor_sim::{BusStatistics, Model, Release, Source, Stuffing, Time};
use candor_time::Nanos;
use candor_wire::can::{Timing, bits};

use super::settings::{CanGateway, Pace, Sim, Traffic};
use crate::buses::{self, BusFaults};

/// What is to be sent on a bus is added up for each of these.
const WINDOW: Nanos = Nanos::from_secs(1);
/// More than this is more than a bus can carry: a window may hold the stamp of one frame more than fits.
const FULL_PERCENT: f64 = 101.0;
/// A recording was on a bus: its frames wait for one another, and for coarse stamps, but not so long.
const LONG_WAIT: Nanos = Nanos::from_millis(100);

/// What senders with times want a bus to carry.
#[derive(Debug, Default)]
pub(super) struct Demand {
    frames: u64,
    busy_ns: u64,
    first: Option<Time>,
    last: Time,
    /// What the frames of each window take, where there are any.
    windows: BTreeMap<u64, u64>,
}

impl Demand {
    fn add(&mut self, release: &Release, timing: Timing) {
        let length = match release.stuffing {
            Stuffing::Exact => bits::length(&release.frame),
            Stuffing::Worst => bits::worst_length(&release.frame),
        };
        let Ok(length) = length else { return };
        let taken = timing.duration_ns(length);
        self.frames += 1;
        self.busy_ns += taken;
        self.first = Some(self.first.map_or(release.at, |first| first.min(release.at)));
        self.last = self.last.max(release.at);
        let window = release.at.as_nanos() / WINDOW.as_nanos();
        *self.windows.entry(window).or_default() += taken;
    }

    /// Percent of the time from the first release to the last that the frames take; nothing of less
    /// than a window.
    fn mean_percent(&self) -> Option<f64> {
        let time = self.last - self.first?;
        (time >= WINDOW).then(|| percent(self.busy_ns, time))
    }

    /// Percent of the busiest window.
    fn peak_percent(&self) -> f64 {
        percent(self.windows.values().copied().max().unwrap_or(0), WINDOW)
    }
}

fn percent(busy_ns: u64, time: Nanos) -> f64 {
    busy_ns as f64 / time.as_nanos() as f64 * 100.0
}

/// Adds up what a source wants to send.
pub(super) struct Metered<S> {
    source: S,
    timing: Timing,
    demand: Rc<RefCell<Demand>>,
}

impl<S: Source> Metered<S> {
    pub(super) fn new(source: S, timing: Timing, demand: &Rc<RefCell<Demand>>) -> Self {
        Self { source, timing, demand: Rc::clone(demand) }
    }
}

impl<S: Source> Source for Metered<S> {
    fn next(&mut self) -> Option<Release> {
        let release = self.source.next()?;
        self.demand.borrow_mut().add(&release, self.timing);
        Some(release)
    }
}

/// How long frames of senders with times waited for their bus.
#[derive(Debug)]
pub(super) struct Waits {
    /// By sender: its bus, and by identifier word how long a frame may wait.
    senders: Vec<(usize, BTreeMap<u32, Nanos>)>,
    /// By bus: the longest wait, and frames that waited longer than they may.
    of_buses: Vec<(Nanos, u64)>,
}

impl Waits {
    /// For the senders of an experiment, in the order in which they were added.
    pub(super) fn new(can: &CanGateway) -> Self {
        let senders = match &can.traffic {
            Traffic::Periodic => can
                .network
                .nodes
                .iter()
                .map(|node| {
                    // The next one is due then.
                    let messages = node.messages.iter();
                    (node.bus, messages.map(|message| (message.can_id, message.period)).collect())
                })
                .collect(),
            Traffic::Replay { bus, .. } => vec![(*bus, BTreeMap::new())],
            Traffic::Numbered { .. } => Vec::new(),
        };
        Self { senders, of_buses: vec![(Nanos::ZERO, 0); can.network.buses.len()] }
    }

    /// A frame of `sender` waited so long.
    pub(super) fn add(&mut self, sender: u32, can_id: u32, wait: Nanos) {
        let Some((bus, limits)) = self.senders.get(sender as usize) else { return };
        let Some((longest, late)) = self.of_buses.get_mut(*bus) else { return };
        *longest = (*longest).max(wait);
        *late += u64::from(wait > limits.get(&can_id).copied().unwrap_or(LONG_WAIT));
    }
}

/// Whether a simulation draws numbers that move latencies, so that another seed gives others: the work of a host and its
/// phases, the tester's delays, bit errors, random times of messages, and data, which decide about stuff bits. Behind
/// a constant delay, the pause before the next frame moves no latency.
pub(super) fn is_random(can: &CanGateway, settings: &Sim) -> bool {
    let is_drawn = |message: &Message| {
        message.offset.is_none()
            || message.jitter > Nanos::ZERO
            || message.payload == Payload::Signals
    };
    let of_traffic = match &can.traffic {
        Traffic::Numbered { pace, .. } => matches!(pace, Pace::OpenLoop { .. }),
        Traffic::Periodic => can.network.nodes.iter().flat_map(|node| &node.messages).any(is_drawn),
        Traffic::Replay { .. } => false,
    };
    of_traffic
        || matches!(settings.model, Some(Model::Linux(_)))
        || settings.instrument.is_some()
        || settings.faults.iter().any(|faults| faults.bit_error_rate > 0.0)
}

/// A controller that left its bus.
pub(super) struct Left {
    /// The index of the bus.
    pub(super) bus: usize,
    /// Whose controller it is.
    pub(super) whose: String,
    /// How often it went bus-off.
    pub(super) times: u64,
    /// What destroys frames on the bus, and what brings controllers back.
    pub(super) faults: BusFaults,
}

/// What is doubtful about a bus, after the run.
pub(super) fn notes(
    can: &CanGateway,
    demands: &[Rc<RefCell<Demand>>],
    waits: &Waits,
    statistics: &[BusStatistics],
    left: &[Left],
) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, bus) in can.network.buses.iter().enumerate() {
        notes.extend(unusual(bus));
        let of_bus = || left.iter().filter(|left| left.bus == index && left.times > 0);
        let overload = demands.get(index).zip(waits.of_buses.get(index));
        // What waited for a controller to come back says nothing of the bit rate.
        let overload = overload.map(|(demand, &wait)| match of_bus().next() {
            None => overloaded(bus, &demand.borrow(), wait),
            Some(_) => overloaded(bus, &demand.borrow(), (Nanos::ZERO, 0)),
        });
        notes.extend(overload.flatten());
        notes.extend(of_bus().filter_map(|it| buses::left(&it.whose, it.times, bus, it.faults)));
        notes.extend(statistics.get(index).and_then(|statistics| collided(bus, statistics)));
    }
    notes
}

fn unusual(bus: &Bus) -> Option<String> {
    let unusual = bus.timing.unusual()?;
    let meant = unusual.meant().map_or(String::new(), |rate| format!("; did you mean {rate}?"));
    Some(format!("bus {}: {unusual}{meant}", bus.name))
}

fn overloaded(bus: &Bus, demand: &Demand, (longest, late): (Nanos, u64)) -> Option<String> {
    let peak = demand.peak_percent();
    let needs = match demand.mean_percent() {
        Some(mean) if mean > FULL_PERCENT => {
            format!("its frames need {mean:.0} % of the time, {peak:.0} % in the busiest second")
        }
        _ if peak > FULL_PERCENT => format!("its frames need {peak:.0} % of the busiest second"),
        _ if late > 0 => "its senders fall behind".into(),
        _ => return None,
    };
    let mut note =
        format!("bus {} at {}bit/s is overloaded: {needs}", bus.name, bus.timing.nominal);
    if longest > Nanos::ZERO {
        note.push_str(&format!("; they waited up to {longest}"));
    }
    if late > 0 {
        note.push_str(&format!(", {late} of {} longer than they may", demand.frames));
    }
    note.push_str("; check the bit rate");
    Some(note)
}

/// The nodes that left the buses of a guest: the gateway's, which are of the guest, and the tester's.
pub(super) fn left_in_guest(
    buses: &[Bus],
    faults: &[BusFaults],
    wire: &Wire,
    senders: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    for ((bus, &faults), count) in buses.iter().zip(faults).zip(&wire.buses) {
        let of_guest = count.off.len() as u64;
        let of_tester = count.bus_offs.saturating_sub(of_guest);
        notes.extend(buses::left("the gateway", of_guest, bus, faults));
        notes.extend(buses::left(senders, of_tester, bus, faults));
    }
    notes
}

fn collided(bus: &Bus, statistics: &BusStatistics) -> Option<String> {
    let can_id = statistics.collision_id?;
    let times = statistics.id_collisions;
    Some(format!(
        "bus {}: {} two nodes started a frame with the same identifier at the same \
         time (first {}), which causes errors on a real bus; give every identifier one sender",
        bus.name,
        counted(times, "time"),
        show_id(can_id)
    ))
}
