//! What became of the frames of a time-triggered flow, in any testbed: latencies, against the schedule, against the
//! model, and what was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::Write;

use candor_causes::{Cause, Ending, Endings};
use candor_diagnostics::counted;
use candor_lat::{Metric, Tap, TapPath, Taps};
use candor_time::Nanos;
use candor_tte::model::Framing;

use crate::builder::{Copied, ResultBuilder, Sight};
use crate::error::Error;
use crate::experiment::{Experiment, TimeTriggered};
use crate::result::{
    Counts, Figures, LinkLoad, LinkSchedule, ResultFile, Stopped, TimeTriggeredFigures,
};

/// A frame as its testbed saw it; instants in nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// When its first bit was to leave.
    pub(crate) due_ns: u64,
    /// When it did.
    pub(crate) dispatched_ns: Option<u64>,
    /// When its last bit arrived, or why it did not.
    pub(crate) fate: Result<u64, Cause>,
    /// Whether the testbed was stopped while it handled the frame.
    pub(crate) is_marked: bool,
}

/// Takes frames in the order of their ends.
pub(crate) struct Flow<'a> {
    settings: &'a TimeTriggered,
    builder: ResultBuilder<'a>,
    /// The latency of the model.
    model: candor_tte::model::Latency,
    sent: u64,
    /// Frames of which a copy came.
    received: BTreeSet<u64>,
    stopped: BTreeMap<Cause, u64>,
    duplicated: u64,
    reordered: u64,
    late_cycle: u64,
    last: Option<(u64, i64)>,
    ipdv: Vec<i64>,
    marked: u64,
    /// Latencies of frames that are not marked.
    unmarked: Vec<i64>,
}

impl<'a> Flow<'a> {
    pub(crate) fn new(
        settings: &'a TimeTriggered,
        lines: Option<&'a mut dyn Write>,
    ) -> Result<Self, Error> {
        let TimeTriggered { network, flow, receiver, framing, .. } = settings;
        let model = network.latency(*flow, *receiver, *framing).ok_or_else(|| {
            Error::Other("the flow that is measured does not go to the receiver".into())
        })?;
        let path = TapPath::TIME_TRIGGERED;
        let sight = Sight { taps: path.taps(), has_rules: false, is_exact: true };
        Ok(Self {
            settings,
            builder: ResultBuilder::new(path, sight, lines),
            model,
            sent: 0,
            received: BTreeSet::new(),
            stopped: BTreeMap::new(),
            duplicated: 0,
            reordered: 0,
            late_cycle: 0,
            last: None,
            ipdv: Vec::new(),
            marked: 0,
            unmarked: Vec::new(),
        })
    }

    /// What latencies begin before the first bit.
    fn preamble_ns(&self) -> u64 {
        let TimeTriggered { network, flow, framing, .. } = self.settings;
        let first = network.flows[*flow].hops.first().map(|hop| &network.links[hop.link]);
        match (framing, first) {
            (Framing::Preamble, Some(link)) => link.preamble().as_nanos(),
            _ => 0,
        }
    }

    /// Whether lines can still be written.
    pub(crate) const fn is_intact(&self) -> bool {
        self.builder.is_intact()
    }

    /// A frame has ended.
    pub(crate) fn add(&mut self, seen: &Seen) {
        let period_ns = self.settings.network.flows[self.settings.flow]
            .period()
            .map_or(i64::MAX, |period| period.as_nanos() as i64);
        let mut taps = Taps::new(TapPath::TIME_TRIGGERED).with(Tap::Due, seen.due_ns);
        if let Some(dispatched_ns) = seen.dispatched_ns {
            taps.set(Tap::Dispatched, dispatched_ns.saturating_sub(self.preamble_ns()));
        }
        let outcome = match seen.fate {
            Ok(arrived_ns) => {
                taps.set(Tap::Arrived, arrived_ns);
                "delivered"
            }
            Err(cause) => cause.name(),
        };
        let is_first = seen.fate.is_ok() && self.received.insert(seen.number);
        match seen.fate {
            Ok(_) if !is_first => self.duplicated += 1,
            Ok(_) => self.sent += 1,
            Err(cause) => {
                self.sent += 1;
                *self.stopped.entry(cause).or_default() += 1;
            }
        }
        let latency = Metric::NetworkLatency.value(&taps, 0).filter(|_| seen.fate.is_ok());
        self.marked += u64::from(seen.is_marked);
        if let Some(latency_ns) = latency {
            if !seen.is_marked {
                self.unmarked.push(latency_ns);
            }
            let model_ns = self.model.total().as_nanos() as i64;
            self.late_cycle += u64::from(latency_ns.saturating_sub(model_ns) > period_ns / 2);
            if let Some((number, last_ns)) = self.last.replace((seen.number, latency_ns)) {
                self.reordered += u64::from(number > seen.number);
                self.ipdv.push(latency_ns.saturating_sub(last_ns).saturating_abs());
            }
        }
        self.builder.add(&Copied {
            number: seen.number,
            sent: None,
            received: latency.is_some().then_some(&"frame" as &dyn Display),
            outcome,
            rule: "",
            taps: &taps,
            known_ns: self.model.total().as_nanos(),
        });
    }

    /// Frames during which the testbed was stopped.
    pub(crate) const fn marked(&self) -> u64 {
        self.marked
    }

    /// The latencies of the others by metric, without their profiles.
    pub(crate) fn unmarked(&self) -> BTreeMap<String, Figures> {
        let model_ns = self.model.total().as_nanos() as i64;
        let residuals: Vec<_> = self.unmarked.iter().map(|it| it - model_ns).collect();
        let figures = [
            (Metric::NetworkLatency, Figures::exact(self.unmarked.clone())),
            (Metric::Residual, Figures::exact(residuals)),
        ];
        let plain = |figures: Figures| Figures { profile: Vec::new(), ..figures };
        let known = figures.into_iter().filter_map(|(metric, it)| Some((metric, it?)));
        known.map(|(metric, it)| (metric.key().to_owned(), plain(it))).collect()
    }

    /// The result; the testbed adds what it knows of its links and its machine.
    pub(crate) fn finish(
        self,
        experiment: &Experiment,
        command: String,
        duration: Nanos,
        links: Vec<LinkLoad>,
    ) -> Result<ResultFile, Error> {
        let TimeTriggered { network, flow, receiver, framing, published, .. } = self.settings;
        let flow = &network.flows[*flow];
        let mut endings = Endings::default();
        endings.add(Ending::Received, self.received.len() as u64);
        for (cause, frames) in &self.stopped {
            endings.add(cause.ending(), *frames);
        }
        let counts = Counts {
            duplicated: self.duplicated,
            reordered: self.reordered,
            ..Counts::from_endings(&endings)
        };
        debug_assert_eq!(counts.sent, self.sent);
        let stopped =
            |(cause, frames): (&Cause, &u64)| Stopped::new("network", "", *cause, *frames);
        let stopped = self.stopped.iter().map(stopped).collect();
        let result = self.builder.finish(experiment, command)?;
        let latency = result.metric(Metric::NetworkLatency);
        let figures = TimeTriggeredFigures {
            flow: flow.name.clone(),
            receiver: network.nodes[*receiver].name.clone(),
            size: flow.size,
            period_ns: flow.period().unwrap_or(network.cycle).as_nanos(),
            relay_delay_ns: self.model.relays.as_nanos(),
            model_ns: self.model.total().as_nanos(),
            equation_3_ns: self.model.equation_3().as_nanos(),
            framing: match framing {
                Framing::Frame => "frame",
                Framing::Preamble => "preamble",
            }
            .into(),
            precision_ns: network.precision.as_nanos(),
            published_ns: published.map(Nanos::as_nanos),
            jitter_ns: latency.map(|it| it.max_ns.abs_diff(it.min_ns)),
            ipdv: Figures::exact(self.ipdv).map(|ipdv| Figures { profile: Vec::new(), ..ipdv }),
            late_cycle: self.late_cycle,
            clock_difference: None,
            links,
            cycle_ns: network.cycle.as_nanos(),
            schedule: LinkSchedule::of(network),
            instrument: None,
        };
        let errors = &self.settings.schedule_errors;
        let note = errors.first().map(|first| {
            format!("the schedule has {}: {first}", counted(errors.len() as u64, "error"))
        });
        Ok(ResultFile {
            notes: note.into_iter().collect(),
            duration_ns: duration.as_nanos(),
            counts,
            stopped,
            time_triggered: Some(figures),
            ..result
        })
    }
}
