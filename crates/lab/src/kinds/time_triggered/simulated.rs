//! Time-triggered Ethernet in virtual time.

use candor_lat::Latencies;
use candor_sim::tte::{Observer, Record, World};
use candor_sim::{Random, Time};
use candor_time::Nanos;
use candor_tte::{Node, Traffic};

use super::flow::{Flow, Seen};
use super::{TimeStamping, TimeTriggered};
use crate::error::Error;
use crate::experiment::Run;
use crate::result::ResultFile;
use crate::sections::{CLOCKS, LINKS};
use crate::watch::Watch;

/// The stream of the instrument among those of a seed.
const RANDOM: u64 = 9 << 32;

/// Runs one experiment.
pub(super) fn run<'a>(settings: &'a TimeTriggered, run: Run<'a>) -> Result<ResultFile, Error> {
    let Run { experiment, watch, .. } = run;
    let TimeTriggered { network, flow, .. } = settings;
    let mut world = World::new(network.clone(), experiment.seed);
    let mut bench = FlowObserver {
        settings,
        flow: Flow::new(settings, run)?,
        random: Random::new(experiment.seed, RANDOM),
        watch,
        differences: Vec::new(),
    };
    if !world.run(*flow, experiment.count, &mut bench) {
        return Err(Error::Interrupted);
    }
    let loads = network.links.iter().enumerate().flat_map(|(index, link)| {
        let world = &world;
        link.ends.iter().map(move |&from| {
            let load_percent = (world.occupation(index, from) * 100_000.0).round() / 1_000.0;
            let (link, from) = (link.name.as_str(), network.nodes[from].name.as_str());
            LINKS.row([link.into(), from.into(), load_percent.into()])
        })
    });
    let duration = world.now() - Time::ZERO;
    let mut result = bench.flow.finish(duration, loads.collect())?;
    let apart = Latencies::Exact(bench.differences).figures();
    let clocks = CLOCKS.row([apart.into(), network.precision.as_nanos().into()]);
    result.sections = result.sections.with_one(&CLOCKS, clocks);
    result.random = is_random(settings);
    Ok(result)
}

/// Whether numbers are drawn: clocks that begin apart or wander, senders without a schedule or with jitter, and time stamps
/// that are late at random.
fn is_random(settings: &TimeTriggered) -> bool {
    let TimeTriggered { network, instrument, .. } = settings;
    let is_drawn =
        |node: &Node| node.jitter() > Nanos::ZERO || node.oscillator.drift_change_ppm > 0;
    let is_free = |flow: &candor_tte::Flow| {
        !flow.is_control && !matches!(flow.traffic, Traffic::TimeTriggered { .. })
    };
    network.synchronisation.is_some()
        || network.nodes.iter().any(is_drawn)
        || network.flows.iter().any(is_free)
        || instrument.copied_from.is_some() && instrument.copy_jitter > Nanos::ZERO
}

/// Takes the frames of the flow that is measured, with what the instrument adds.
struct FlowObserver<'a> {
    settings: &'a TimeTriggered,
    flow: Flow<'a>,
    random: Random,
    watch: &'a dyn Watch,
    /// How far clocks were apart, for each integration cycle.
    differences: Vec<i64>,
}

impl FlowObserver<'_> {
    /// How much later than the last bit the receiving side takes its time stamp.
    fn stamping(&mut self) -> Nanos {
        let TimeStamping { copied_from, copy, copy_jitter } = self.settings.instrument;
        let size = self.settings.network.flows[self.settings.flow].size;
        match copied_from {
            Some(from) if size >= from => copy + self.random.nanos(Nanos::ZERO, copy_jitter),
            _ => Nanos::ZERO,
        }
    }
}

impl Observer for FlowObserver<'_> {
    fn record(&mut self, record: &Record) {
        if (record.flow, record.receiver) != (self.settings.flow, self.settings.receiver) {
            return;
        }
        let stamping = self.stamping();
        self.flow.add(&Seen {
            number: record.number,
            due_ns: record.due.as_nanos(),
            dispatched_ns: record.started.map(Time::as_nanos),
            fate: record.fate.map(|arrived| (arrived + stamping).as_nanos()),
            is_marked: false,
        });
    }

    fn precision(&mut self, _now: Time, difference: Nanos) {
        self.differences.push(i64::try_from(difference.as_nanos()).unwrap_or(i64::MAX));
    }

    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        self.flow.is_intact() && self.watch.proceed(now - Time::ZERO, sent)
    }
}
