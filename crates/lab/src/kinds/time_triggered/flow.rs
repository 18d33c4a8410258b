//! What became of the frames of a time-triggered flow, in any testbed: latencies, against the schedule, against the
//! model, and what was lost.

use std::fmt::Display;

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_lat::account::{Account, End, Terms};
use candor_lat::section::{Row, Sections};
use candor_lat::{Metric, Tap, TapPath, Taps};
use candor_time::Nanos;
use candor_tte::Network;
use candor_tte::model::Framing;
use candor_tte::schedule::{self, Slot, Span};

use super::TimeTriggered;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::error::Error;
use crate::experiment::Run;
use crate::result::{ResultFile, Stopped};
use crate::sections::{FLOW, LINKS, SCHEDULE, UNMARKED};

/// A frame as its testbed saw it; instants in nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// When its first bit was to leave.
    pub(crate) due_ns: u64,
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
    model: candor_tte::model::Latency,
    marked: u64,
    /// Frames that are not marked.
    unmarked: Account,
}

impl<'a> Flow<'a> {
    pub(crate) fn new(settings: &'a TimeTriggered, run: Run<'a>) -> Result<Self, Error> {
        let TimeTriggered { network, flow, receiver, framing, .. } = settings;
        let model = network.latency(*flow, *receiver, *framing).ok_or_else(|| {
            Error::Other("the flow that is measured does not go to the receiver".into())
        })?;
        let path = TapPath::TIME_TRIGGERED;
        // Half a period late or more: with the next cycle.
        let bound_ns = |period: Nanos| {
            i64::try_from(model.total().as_nanos().saturating_add(period.as_nanos() / 2)).ok()
        };
        let terms = Terms {
            is_exact: true,
            has_variation: true,
            late_after_ns: network.flows[*flow].period().and_then(bound_ns),
            ..Terms::new(path)
        };
        let sight = Sight { taps: path.taps(), has_rules: false };
        Ok(Self {
            settings,
            builder: ResultBuilder::new(terms, sight, run),
            model,
            marked: 0,
            unmarked: Account::new(Terms { is_exact: true, ..Terms::new(path) }),
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
        let mut taps = Taps::new(TapPath::TIME_TRIGGERED).with(Tap::Due, seen.due_ns);
        if let Some(dispatched_ns) = seen.dispatched_ns {
            taps.set(Tap::Dispatched, dispatched_ns.saturating_sub(self.preamble_ns()));
        }
        if let Ok(arrived_ns) = seen.fate {
            taps.set(Tap::Arrived, arrived_ns);
        }
        let end = End {
            stream: Some(0),
            number: seen.number,
            taps: &taps,
            known_ns: self.model.total().as_nanos(),
            stopped_by: seen.fate.err(),
        };
        match seen.is_marked {
            true => self.marked += 1,
            false => drop(self.unmarked.end(&end)),
        }
        self.builder.add(&Copied {
            end,
            sent: None,
            received: seen.fate.is_ok().then_some(&"frame" as &dyn Display),
            passed: "delivered",
            rule: "",
        });
    }

    /// Frames during which the testbed was stopped.
    pub(crate) const fn marked(&self) -> u64 {
        self.marked
    }

    /// The latencies of the others: a row of [`UNMARKED`].
    pub(crate) fn unmarked(&self) -> Row {
        let figures = |metric| self.unmarked.figures(metric).into();
        UNMARKED.row([figures(Metric::NetworkLatency), figures(Metric::Residual)])
    }

    /// The result; the testbed adds what it knows of its links and its machine.
    pub(crate) fn finish(self, duration: Nanos, links: Vec<Row>) -> Result<ResultFile, Error> {
        let TimeTriggered { network, flow, receiver, framing, published, .. } = self.settings;
        let flow = &network.flows[*flow];
        let account = &self.builder.account;
        let stopped = account.stopped().iter();
        let stopped =
            stopped.map(|((_, cause), frames)| Stopped::new("network", "", *cause, *frames));
        let stopped = stopped.collect();
        let ipdv = account.variation();
        let jitter_ns = account.figures(Metric::NetworkLatency).map(|latency| latency.jitter_ns());
        let result = self.builder.finish()?;
        let row = FLOW.row([
            flow.name.as_str().into(),
            network.nodes[*receiver].name.as_str().into(),
            u32::from(flow.size).into(),
            flow.period().unwrap_or(network.cycle).as_nanos().into(),
            self.model.relays.as_nanos().into(),
            self.model.total().as_nanos().into(),
            self.model.equation_3().as_nanos().into(),
            match framing {
                Framing::Frame => "frame",
                Framing::Preamble => "preamble",
            }
            .into(),
            published.map(Nanos::as_nanos).into(),
            jitter_ns.into(),
            ipdv.into(),
            network.cycle.as_nanos().into(),
        ]);
        let errors = &self.settings.schedule_errors;
        let note = errors.first().map(|first| {
            format!("the schedule has {}: {first}", counted(errors.len() as u64, "error"))
        });
        Ok(ResultFile {
            notes: note.into_iter().collect(),
            duration_ns: duration.as_nanos(),
            stopped,
            sections: Sections::default()
                .with_one(&FLOW, row)
                .with(&LINKS, links)
                .with(&SCHEDULE, schedule_of(network)),
            ..result
        })
    }
}

/// Frames of a schedule that a result lists at most.
pub(crate) const SCHEDULE_MOST: usize = 4_096;

/// The schedule of each direction of a link that has one: rows of [`SCHEDULE`]; none if they have more than
/// [`SCHEDULE_MOST`] frames.
fn schedule_of(network: &Network) -> Vec<Row> {
    let name = |node: usize| network.nodes[node].name.as_str();
    let directions = schedule::directions(network).into_iter();
    let directions: Vec<_> = directions.filter(|it| !it.slots.is_empty()).collect();
    let frames = directions.iter().map(|it| it.frames(network.cycle) as usize).sum::<usize>();
    if frames > SCHEDULE_MOST {
        return Vec::new();
    }
    let frame = |(span, slot): (Span, Slot)| {
        Row::from([
            ("flow".into(), network.flows[slot.flow].name.as_str().into()),
            ("begin_ns".into(), span.begin.as_nanos().into()),
            ("end_ns".into(), span.end.as_nanos().into()),
        ])
    };
    let row = |direction: &schedule::Direction| {
        let occupied = direction.occupied(network.cycle)?;
        Some(SCHEDULE.row([
            network.links[direction.link].name.as_str().into(),
            name(direction.from).into(),
            name(direction.to).into(),
            occupied.into_iter().map(frame).collect::<Vec<_>>().into(),
        ]))
    };
    directions.iter().map(row).collect::<Option<_>>().unwrap_or_default()
}
