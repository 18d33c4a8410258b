//! Measuring: everything is set up, then frames are sent, then everything is counted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use candor_linux::realtime::lock_memory;
use candor_protocol::order::{self, File, Measurement};
use candor_protocol::report::{Totals, Ways};
use candor_protocol::{Message, Order, interface};

use crate::failure::{Context, FAULT, Failure};
use crate::gateway::{self, Tally};
use crate::load::{self, FloodPing, Hackbench};
use crate::testbed::{self, TestBed};
use crate::tester::{GuestMaster, GuestTester, Outside, Seen};
use crate::{system, watchdog};

pub(crate) fn measure(
    order: &Measurement,
    hello: &Message,
    messages: &mut Vec<Message>,
) -> Result<(), Failure> {
    let mut notes = Vec::new();
    write_files(&order.files)?;
    // Processes are forked before there is a second thread.
    let hackbench = order.load.hackbench_groups.filter(|&groups| groups > 0);
    let hackbench = hackbench.map(Hackbench::prepare).transpose()?;
    watchdog::start(&Order::Measure(Box::new(order.clone())), hello).at("watchdog", FAULT)?;
    let mut bed = TestBed::set_up(order)?;
    lock_memory().at("memory", FAULT)?;
    let mut tester = Prepared::new(order)?;
    let mut gateway = gateway::start(order, &mut bed)?;
    let ping = match (order.load.ethernet, order.tester) {
        (None, _) => None,
        (Some(load), order::Tester::Inside) => {
            Some(FloodPing::start(&mut bed.netlink, load.data_bytes)?)
        }
        (Some(_), order::Tester::Outside | order::Tester::Master) => {
            load::set_up_link(&mut bed.netlink)?;
            None
        }
    };
    testbed::settings(&order.settings, &mut notes)?;
    let hackbench = hackbench.map(Hackbench::start).transpose()?;

    let mut before = (Totals::default(), Tally::default());
    if order.has_warm_up() {
        messages.extend(tester.warm_up()?.map(Message::Cold));
        before = (of_machine(), gateway.tally(&mut bed)?);
    }
    let seen = tester.run()?;

    let ping_replies = ping.map_or(Ok(0), FloodPing::stop)?;
    let hackbench_messages = hackbench.map_or(Ok(0), Hackbench::stop)?;
    let counted = Totals { ping_replies, hackbench_messages, ..since(&before.0, of_machine()) };
    let tally = gateway.stop(&before.1, &mut bed)?;
    notes.extend(tally.notes.iter().cloned());
    if seen.without_number > 0 {
        notes.push(format!(
            "{} frames arrived with less than two bytes of data, without a number",
            seen.without_number
        ));
    }
    messages.extend(notes.into_iter().map(Message::Note));
    if order.wants_symbols {
        messages.push(Message::Symbols(system::symbols()?));
    }
    messages.push(Message::Totals(totals(counted, &seen, &tally)));
    messages.push(Message::Jobs(tally.jobs));
    messages.push(Message::Sent(seen.sent));
    messages.push(Message::Due(seen.due));
    messages.push(Message::Monitored(seen.monitored));
    messages.push(Message::Received(seen.received));
    messages.push(Message::Delivered(tally.delivered));
    if order.wants_frames {
        messages.push(Message::Frames(seen.frames));
    }
    Ok(())
}

/// A tester that is ready.
enum Prepared {
    Inside(Box<GuestTester>),
    Outside(Outside),
    Master(Box<GuestMaster>),
}

impl Prepared {
    fn new(order: &Measurement) -> Result<Self, Failure> {
        Ok(match order.tester {
            order::Tester::Inside => Self::Inside(Box::new(GuestTester::new(order)?)),
            order::Tester::Outside => Self::Outside(Outside::new()?),
            order::Tester::Master => Self::Master(Box::new(GuestMaster::new(order)?)),
        })
    }

    /// Sends the frames before those that count; what a tester outside saw, the guest does not know.
    fn warm_up(&mut self) -> Result<Option<Ways>, Failure> {
        match self {
            Self::Inside(tester) => tester.warm_up().map(Some),
            Self::Outside(tester) => tester.warm_up().map(|()| None),
            Self::Master(_) => Ok(None),
        }
    }

    /// Sends everything; what a tester outside saw, the guest does not know.
    fn run(self) -> Result<Seen, Failure> {
        match self {
            Self::Inside(tester) => tester.run(),
            Self::Outside(tester) => tester.run().map(|()| Seen::default()),
            Self::Master(master) => master.run(),
        }
    }
}

/// Writes the files of an order.
pub(crate) fn write_files(files: &[File]) -> Result<(), Failure> {
    for File { path, is_executable, contents } in files {
        let remedy = "choose another place; the guest has memory for about 10 MB";
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder).at(path, remedy)?;
        }
        fs::write(path, contents).at(path, remedy)?;
        let mode = if *is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).at(path, remedy)?;
    }
    Ok(())
}

/// What the machine lost outside of sockets.
fn of_machine() -> Totals {
    let over_errors = |names: [&str; 2]| -> u64 {
        names.into_iter().map(|name| system::interface_counter(name, "rx_over_errors")).sum()
    };
    Totals {
        overflow_of_controller: over_errors([interface::SOURCE, interface::TARGET]),
        // The emulated bus takes no time: what a gateway sends at one go comes to the receiver at
        // once, more than its controller has room for.
        overflow_of_tester: over_errors([interface::MONITOR, interface::RECEIVE]),
        overflow_of_backlog: system::backlog_dropped(),
        ..Totals::default()
    }
}

/// What the machine has lost since then.
const fn since(before: &Totals, now: Totals) -> Totals {
    Totals {
        overflow_of_controller: now.overflow_of_controller - before.overflow_of_controller,
        overflow_of_tester: now.overflow_of_tester - before.overflow_of_tester,
        overflow_of_backlog: now.overflow_of_backlog - before.overflow_of_backlog,
        ..now
    }
}

/// All figures together.
fn totals(counted: Totals, seen: &Seen, tally: &Tally) -> Totals {
    let first = seen.sent.first().map_or(0, |stamp| stamp.time_ns);
    let times = [&seen.sent, &seen.monitored, &seen.received];
    let last = times.into_iter().flatten().map(|stamp| stamp.time_ns).max().unwrap_or(first);
    Totals {
        duration_ns: last.saturating_sub(first),
        refused_by_sender: seen.refused,
        overflow_of_tester: counted.overflow_of_tester + seen.overflow,
        overflow_of_gateway: tally.overflow,
        overflow_of_queue: tally.refused,
        gateway_cpu_ns: tally.cpu.as_nanos(),
        gateway_switches: (tally.switches.voluntary, tally.switches.involuntary),
        sender_cpu_ns: seen.cpu.as_nanos(),
        latest_departure_ns: seen.latest_departure.as_nanos(),
        ..counted
    }
}
