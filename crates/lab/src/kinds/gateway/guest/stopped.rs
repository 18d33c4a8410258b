//! What stopped frames in a guest: by the rules, by the counters of the gateway, and by neither.

use std::collections::{BTreeMap, BTreeSet};

use candor_causes::{Cause, Ending, Endings};
use candor_lat::Account;
use candor_lat::section::Row;
use candor_protocol::Report;
use candor_protocol::report::JobCount;

use super::super::settings::CanGateway;
use super::expect::PACED;
use crate::experiment::Vm;
use crate::result::Stopped;
use crate::sections;

/// Frames that did not arrive, by what should have stopped them.
#[derive(Default)]
pub(super) struct Missed(BTreeMap<Cause, u64>);

impl Missed {
    pub(super) fn of(account: &Account) -> Self {
        let mut missed = Self::default();
        for ((_, cause), frames) in account.stopped() {
            *missed.0.entry(*cause).or_default() += frames;
        }
        missed
    }

    fn count(&self, cause: Cause) -> u64 {
        self.0.get(&cause).copied().unwrap_or(0)
    }

    /// How these frames ended. What the rules refuse at any time is known frame by frame; of what
    /// they refuse for its time, the gateway's counters say how much it was.
    pub(super) fn endings(&self, stopped: &[Stopped]) -> Endings {
        let is_open = |cause: &Cause| PACED.contains(cause) || *cause == Cause::Unexplained;
        let (open, known): (Vec<_>, Vec<_>) =
            self.0.iter().map(|(&cause, &count)| (cause, count)).partition(|(it, _)| is_open(it));
        let open: u64 = open.into_iter().map(|(_, count)| count).sum();
        let is_paced = |stopped: &&Stopped| PACED.iter().any(|it| it.name() == stopped.cause);
        let counted = stopped.iter().filter(is_paced).map(|stopped| stopped.frames);
        let paced = counted.sum::<u64>().min(open);
        let mut endings: Endings = known.into_iter().collect();
        endings.add(Ending::Refused, paced);
        endings.add(Ending::Lost, open - paced);
        endings
    }
}

/// Frames that rules have put on the target bus and that the tester did not see. can-gw counts what
/// the interface took; a process counts what it could send, which may be lost behind that.
pub(super) fn missing_on_target(can: &CanGateway, settings: &Vm, report: &Report) -> u64 {
    let target = can.network.buses.get(1).map(|bus| bus.name.as_str());
    let on_target = jobs(can, settings, report).filter(|(_, to, _)| Some(*to) == target);
    let handled: u64 = on_target.map(|(_, _, count)| count.handled).sum();
    let received = match &report.wire {
        None => report.received.len(),
        // A frame with an error in its last bit is received twice, and was wanted once.
        Some(wire) => {
            let wanted = report.received.iter().zip(&wire.target);
            let wanted: BTreeSet<_> = wanted.map(|(it, on)| (on.requested_ns, it.number)).collect();
            wanted.len()
        }
    };
    handled.saturating_sub(received as u64)
}

/// What the rules counted, in their order.
pub(super) fn rules(can: &CanGateway, settings: &Vm, report: &Report) -> Vec<Row> {
    let row = |(rule, to, count): (&str, &str, &JobCount)| {
        let stopped = causes(count, &Missed::default()).collect();
        sections::rule(rule, to, count.handled, &stopped)
    };
    jobs(can, settings, report).map(row).collect()
}

/// The jobs of the rules that a gateway follows: the rule, the destination and what was counted.
fn jobs<'a>(
    can: &'a CanGateway,
    settings: &Vm,
    report: &'a Report,
) -> impl Iterator<Item = (&'a str, &'a str, &'a JobCount)> {
    let table = can.rules().filter(|_| settings.gateway.follows_rules());
    let destinations = table.into_iter().flat_map(|table| {
        let to = |to: &candor_engine::table::BusIndex| {
            table.buses.get(usize::from(to.0)).map_or("", |bus| bus.name.as_str())
        };
        table
            .rules
            .iter()
            .flat_map(move |rule| rule.to.iter().map(move |bus| (rule.name.as_str(), to(bus))))
    });
    destinations.zip(&report.jobs).map(|((rule, to), count)| (rule, to, count))
}

/// What a rule stopped, by cause. can-gw counts two kinds: `dropped` is what the queue of the
/// destination refused, `deleted` what was over the hop limit or too long after its edit.
fn causes<'a>(
    count: &'a JobCount,
    missed: &Missed,
) -> impl Iterator<Item = (Cause, u64)> + use<'a> {
    let is_too_long = missed.count(Cause::TooLong) > missed.count(Cause::HopLimit);
    let deleted = if is_too_long { Cause::TooLong } else { Cause::HopLimit };
    let of_kernel = [(Cause::QueueFull, count.dropped), (deleted, count.deleted)];
    let knows_causes = !count.causes.is_empty();
    let of_user = count
        .causes
        .iter()
        .map(|(cause, count)| (Cause::by_name(cause).unwrap_or(Cause::Unexplained), *count));
    of_user.chain(of_kernel.into_iter().filter(move |_| !knows_causes)).filter(|(_, n)| *n > 0)
}

/// Frames that were lost because the controller of the target bus was bus-off: the one in its buffer, those in the queue
/// in front of it, which Linux empties without counting when a device loses its carrier (`dev_deactivate`), and what comes
/// until it is back.
///
/// They have come behind the last frame that arrived before, have not arrived later, and came before it took part again.
fn lost_at_bus_off(report: &Report) -> u64 {
    let Report { monitored, received, wire, .. } = report;
    let target = wire.as_ref().and_then(|wire| wire.buses.get(1));
    let lost = |&(from_ns, to_ns): &(u64, u64)| {
        let mut arrives: BTreeMap<u16, u32> = BTreeMap::new();
        for stamp in received.iter().filter(|it| it.time_ns >= from_ns) {
            *arrives.entry(stamp.number).or_default() += 1;
        }
        let before = received.iter().rfind(|it| it.time_ns < from_ns);
        let sent_before = before.and_then(|last| {
            monitored.iter().rposition(|it| it.number == last.number && it.time_ns < last.time_ns)
        });
        let behind = &monitored[sent_before.map_or(0, |at| at + 1)..];
        let came = behind.iter().take_while(|it| it.time_ns < to_ns);
        came.filter(|it| match arrives.get_mut(&it.number) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .count() as u64
    };
    target.map_or(0, |bus| bus.off.iter().map(lost).sum())
}

/// Frames and copies that got no further, by cause. What nobody counted is unexplained.
pub(super) fn stopped(can: &CanGateway, report: &Report, missed: &Missed) -> Vec<Stopped> {
    let totals = &report.totals;
    let at_gateway = |cause, frames| Stopped::new("gateway", "", cause, frames);
    let table = can.rules();
    let names = table.iter().flat_map(|table| &table.rules);
    let names = names.flat_map(|rule| rule.to.iter().map(|_| rule.name.as_str()));
    let of_rules: Vec<_> = names
        .zip(&report.jobs)
        .flat_map(|(rule, count)| {
            causes(count, missed)
                .map(move |(cause, count)| Stopped::new("rule", rule, cause, count))
        })
        .collect();
    let by_rules = |cause: Cause| -> u64 {
        of_rules
            .iter()
            .filter(|stopped| stopped.cause == cause.name())
            .map(|stopped| stopped.frames)
            .sum()
    };
    // can-gw counts what a queue refuses too.
    let queue_full = totals.overflow_of_queue.saturating_sub(by_rules(Cause::QueueFull));
    let mut stopped = vec![
        Stopped::new("sender", "", Cause::SenderQueueFull, totals.refused_by_sender),
        Stopped::new("sender", "", Cause::Unfinished, missed.count(Cause::Unfinished)),
        at_gateway(Cause::RxOverflow, totals.overflow_of_controller),
        at_gateway(Cause::BacklogFull, totals.overflow_of_backlog),
        at_gateway(Cause::SocketFull, totals.overflow_of_gateway),
        at_gateway(Cause::QueueFull, queue_full),
    ];
    // What the rules say of a frame and no counter does: those that no rule takes, and `returning`,
    // which can-gw does not count.
    let is_of_frames = |it: &Cause| it.ending() != Ending::Lost && !PACED.contains(it);
    let mut of_frames: Vec<_> = missed.0.iter().filter(|(cause, _)| is_of_frames(cause)).collect();
    of_frames.sort_by_key(|(cause, _)| cause.name());
    stopped.extend(
        of_frames
            .into_iter()
            .map(|(&cause, &count)| at_gateway(cause, count.saturating_sub(by_rules(cause)))),
    );
    stopped.extend(of_rules);
    let endings = missed.endings(&stopped);
    let explained: Endings =
        stopped.iter().map(|stopped| (stopped.cause.as_str(), stopped.frames)).collect();
    let unexplained = endings.count(Ending::Lost).saturating_sub(explained.count(Ending::Lost));
    let bus_off = lost_at_bus_off(report).min(unexplained);
    stopped.push(at_gateway(Cause::BusOff, bus_off));
    stopped.push(at_gateway(Cause::Unexplained, unexplained - bus_off));
    stopped.retain(|stopped| stopped.frames > 0);
    stopped
}
