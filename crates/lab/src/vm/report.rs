//! What every report of a guest says, whatever it measured: whether it is of use, what the machine was, and what it took there.

use candor_diagnostics::counted;
use candor_lat::quantile;
use candor_lat::section::{Row, Sections};
use candor_protocol::Report;
use candor_protocol::report::StationCount;

use crate::experiment::Vm;
use crate::result::{Machine, row_of};
use crate::sections::{EFFORT, MACHINE, STATION};

/// The report of a guest that measured and lost nothing on the way to its sockets.
pub(crate) fn refuse_failures(report: &Report) -> Result<(), String> {
    if let Some(reason) = &report.failure {
        return Err(format!("the guest reports: {reason}"));
    }
    match report.totals.overflow_of_tester {
        0 => Ok(()),
        lost => Err(format!(
            "the tester itself lost {}, so the result would be invalid; send fewer frames, set a \
             higher vm.mips, or let fewer frames gather in gateway.port",
            counted(lost, "frame")
        )),
    }
}

/// World and conditions, with the machine as it turned out to be; `buses` says of what kind they are, and who is where.
pub(crate) fn conditions_with(machine: &Machine, settings: &Vm, buses: &str) -> String {
    let Machine { release, qemu, shift, mips, .. } = machine;
    let package =
        machine.package.as_ref().map_or(String::new(), |package| format!(" (package {package})"));
    format!(
        "Linux {release}{package}, QEMU {qemu}, instruction time, shift {shift} ({mips} MIPS), {buses}: \
         path lengths, not a forecast for a board; {}",
        settings.description
    )
}

/// The sections that say what the machine was, and what it took there.
pub(crate) fn with_machine(
    machine: &Machine,
    report: &Report,
    received: u64,
    unknown: u64,
) -> Sections {
    let totals = &report.totals;
    let (gateway_waits, gateway_preemptions) = totals.gateway_switches;
    let instructions = (totals.gateway_cpu_ns >> machine.shift) as f64;
    let has_process = totals.gateway_cpu_ns > 0 && received > 0;
    let per_frame = instructions / received as f64;
    let effort = EFFORT.row([
        totals.gateway_cpu_ns.into(),
        has_process.then_some((per_frame * 1_000.0).round() / 1_000.0).into(),
        gateway_waits.into(),
        gateway_preemptions.into(),
        totals.sender_cpu_ns.into(),
        totals.latest_departure_ns.into(),
        totals.ping_replies.into(),
        totals.hackbench_messages.into(),
        unknown.into(),
    ]);
    let sections =
        Sections::default().with_one(&MACHINE, row_of(machine)).with_one(&EFFORT, effort);
    match report.wire.as_ref().and_then(|wire| wire.station.as_ref()) {
        Some(count) => sections.with_one(&STATION, station(count)),
        None => sections,
    }
}

fn station(count: &StationCount) -> Row {
    let mut times = count.round_trips_ns.clone();
    times.sort_unstable();
    STATION.row([
        count.datagrams.into(),
        count.answers.into(),
        count.frames.into(),
        count.refused.into(),
        count.received.into(),
        quantile(&times, 50, 100).into(),
        quantile(&times, 99, 100).into(),
        times.last().copied().into(),
    ])
}
