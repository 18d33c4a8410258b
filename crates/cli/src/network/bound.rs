//! `candor network bound`: how late each message of a network can be.
//!
//! `candor help json network bound` describes what `--json` prints. The laws are in [`candor_network::bound`].

mod assign;
mod depths;
mod explain;
mod names;
mod sensitivity;

use std::path::{Path, PathBuf};

use candor_diagnostics::{Findings, visible};
use candor_gateway::control::FindingLine;
use candor_network::bound::network::{NoBound, QueueBound};
use candor_network::bound::{Bound, Bounds};
use candor_network::file::Purpose;
use candor_network::flow::Flow;
use candor_network::{Network, bounds, show_id};
use clap::Args;

use self::names::Names;
use super::{Loaded, Reached, load, recorded};
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, duration_at_least, duration_at_most, print};

pub(crate) use self::assign::Assigned;
pub(crate) use self::explain::{Step, WaitsFor};
pub(crate) use self::sensitivity::{LongerMessage, SlowerBus};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The network file, or - for standard input; then the files that it names are looked for in the current
    /// folder
    file: PathBuf,
    /// Show instead what the bounds of this message are made of, on every bus that it reaches
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["depths", "sensitivity"])]
    explain: Option<String>,
    /// Print instead how deep the transmit queues must be at least so that none loses a frame, as settings of a network
    /// file
    #[arg(long)]
    depths: bool,
    /// Show instead how much slower each bus and how much longer each message may become, and what breaks first; takes as
    /// long as some thousand analyses
    #[arg(long, conflicts_with = "depths")]
    sensitivity: bool,
    /// Show instead in which order the identifiers of all messages, or of these, meet all deadlines; for buses with queues
    /// of priorities and without gateways
    #[arg(long, value_name = "MESSAGE,...", num_args = 0.., require_equals = true, value_delimiter = ',')]
    #[arg(conflicts_with_all = ["depths", "sensitivity", "explain"])]
    assign: Option<Vec<String>>,
    /// Print JSON Lines: an object of type "finding" for each warning, then one of type "message" for each message on each
    /// bus that it reaches, then one of type "queue" for each transmit queue; with --explain, one of type "step" for each part of a way; with
    /// --sensitivity, of types "slower_bus" and "longer_message"; with --assign, of type "assigned"
    #[arg(long, conflicts_with = "depths")]
    json: bool,
}

/// Under which the bounds hold.
const ASSUMPTIONS: &str = "\
These bounds hold if
- each node and gateway offers the first frame of its queue at every arbitration: no driver needs longer than the
  intermission from one frame to the next, and no transmit buffer keeps a frame that a more urgent one should replace;
- no frame is sent again because of an error, and nobody else sends on these buses;
- no message is requested more densely than its period and jitter say, and its frames are sent in the order of their
  requests. Offsets are ignored: all phases may happen.
";

/// And if there are messages that somebody has watched.
const OF_WATCHED: &str = "\
- messages with `distances` come no closer than they did while somebody watched, and are queued when they are requested.
";

/// What the file itself knows to stand against them.
const AGAINST: &str = "These warnings of the file can stand against them:\n";

pub(super) fn run(arguments: &Arguments) -> Answer {
    let Loaded { mut network, mut flows, findings } = load(&arguments.file, Purpose::Bound)??;
    let mut is_whole = true;
    if !network.recorded.is_empty() {
        let folder = arguments.file.parent().unwrap_or(Path::new(""));
        (flows, is_whole) = recorded::add(&mut network, folder)?;
    }
    let bounds = bounds(&network, &flows);
    let shown = Shown::new(&network, &flows, &bounds);
    let names = Names { network: &network, flows: &flows, bounds: &bounds };
    if let Some(message) = &arguments.explain {
        return explain::run(&names, message, arguments.json);
    }
    if arguments.sensitivity {
        return sensitivity::run(&names, arguments.json);
    }
    if let Some(movable) = &arguments.assign {
        return assign::run(&names, movable, arguments.json);
    }
    if arguments.depths {
        return depths::run(&shown.queues);
    }
    print(&if arguments.json { shown.json(&findings)? } else { shown.text(&findings) })?;
    Ok(shown.holds() && is_whole)
}

/// What is shown.
struct Shown<'a> {
    network: &'a Network,
    messages: Vec<Late<'a>>,
    queues: Vec<InQueue<'a>>,
}

/// How late a message can be on a bus that it reaches.
pub(crate) struct Late<'a> {
    pub(crate) reached: Reached<'a>,
    /// The name of the message whose frame blocks it the longest.
    pub(crate) blocked_by: Option<&'a str>,
    pub(crate) deadline_ns: u64,
    /// Why it has no bound.
    pub(crate) reason: Option<String>,
    bound: Result<&'a Bound, &'a NoBound>,
}

/// A transmit queue.
pub(crate) struct InQueue<'a> {
    pub(crate) sender: &'a str,
    pub(crate) bus: &'a str,
    pub(crate) bound: &'a QueueBound,
}

/// Whether a message arrives in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    NoBound,
}

impl Verdict {
    pub(crate) const ALL: [Self; 3] = [Self::Met, Self::Missed, Self::NoBound];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NoBound => "no bound",
        }
    }
}

impl<'a> Late<'a> {
    pub(crate) fn bound(&self) -> Option<&'a Bound> {
        self.bound.ok()
    }

    /// What it waits for on this bus but for the blocking frame.
    pub(crate) fn interference_ns(&self) -> Option<u64> {
        self.bound().map(|it| it.response.begins_ns - it.response.blocking_ns)
    }

    pub(crate) fn slack_ns(&self) -> Option<i64> {
        let slack = |worst_ns: u64| {
            let slack = i128::from(self.deadline_ns) - i128::from(worst_ns);
            i64::try_from(slack).unwrap_or(if slack < 0 { i64::MIN } else { i64::MAX })
        };
        self.bound().map(|it| slack(it.worst_ns))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.slack_ns() {
            None => Verdict::NoBound,
            Some(slack) if slack < 0 => Verdict::Missed,
            Some(_) => Verdict::Met,
        }
    }
}

impl<'a> Shown<'a> {
    fn new(network: &'a Network, flows: &'a [Flow], bounds: &'a Bounds) -> Self {
        let names = Names { network, flows, bounds };
        let queue = |bound: &'a QueueBound| {
            let (sender, bus) = names.queue(bound.sender);
            InQueue { sender, bus, bound }
        };
        let mut order: Vec<_> = flows.iter().zip(&bounds.flows).collect();
        order.sort_by_key(|(flow, _)| (flow.bus, flow.frame.id()));
        let late = |(flow, bound): (&'a Flow, &'a Result<Bound, NoBound>)| {
            let reached = Reached::new(network, flow)?;
            let blocked_by = bound.as_ref().ok().and_then(|it| it.blocked_by);
            let message = reached.message;
            Some(Late {
                blocked_by: blocked_by.map(|flow| names.message(flow)),
                deadline_ns: message.deadline().as_nanos(),
                reason: bound.as_ref().err().map(|reason| names.reason(flow, reason)),
                bound: bound.as_ref(),
                reached,
            })
        };
        let messages = order.into_iter().filter_map(late).collect();
        Self { network, messages, queues: bounds.queues.iter().map(queue).collect() }
    }

    fn holds(&self) -> bool {
        self.messages.iter().all(|it| it.verdict() == Verdict::Met)
            && self.queues.iter().all(|it| !it.bound.overflows())
    }

    fn json(&self, warnings: &Findings) -> Result<String, String> {
        let warnings = lines(warnings.sorted().iter().map(FindingLine::new))?;
        Ok(warnings + &lines(&self.messages)? + &lines(&self.queues)?)
    }

    fn text(&self, warnings: &Findings) -> String {
        let mut parts = Vec::new();
        if !self.network.title.is_empty() {
            parts.push(format!("{}\n", visible(&self.network.title)));
        }
        if self.messages.is_empty() {
            parts.push("no message is sent\n".into());
        } else {
            parts.push(self.message_table());
            parts.push(self.queue_table());
        }
        parts.extend(self.troubles());
        let is_watched = self.messages.iter().any(|it| !it.reached.message.distances.is_empty());
        let watched = if is_watched { OF_WATCHED } else { "" };
        parts.push(format!("{ASSUMPTIONS}{watched}"));
        let warnings = warnings.sorted();
        if !warnings.is_empty() {
            let each = warnings.iter().map(|it| format!("- {}\n", visible(&it.message)));
            parts.push(AGAINST.to_owned() + &each.collect::<String>());
        }
        parts.join("\n")
    }

    /// Each message on each bus, the most urgent first. What no message has takes no column.
    fn message_table(&self) -> String {
        let has_jitter =
            self.messages.iter().any(|it| it.bound().is_some_and(|it| it.jitter_ns > 0));
        let has_copies = self.messages.iter().any(|it| !it.reached.gateways.is_empty());
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), duration_at_most);
        let of = |of: fn(&Bound) -> u64| move |it: &Late<'_>| time(it.bound().map(of));
        Table::of(&self.messages)
            .column("bus", |it| it.reached.bus.name.clone())
            .column("identifier", |it| show_id(it.reached.flow.frame.can_id()))
            .column("message", |it| it.reached.message.name.clone())
            .column("sent by", |it| it.reached.sender())
            .column(">longest", |it| of(|it| it.longest_ns)(it))
            .column_if(has_jitter, ">jitter", |it| of(|it| it.jitter_ns)(it))
            .column(">blocking", |it| of(|it| it.response.blocking_ns)(it))
            .column(">interference", |it| time(it.interference_ns()))
            .column(">response", |it| of(|it| it.response.response_ns)(it))
            .column_if(has_copies, ">end to end", |it| of(|it| it.worst_ns)(it))
            .column(">deadline", |it| duration_at_least(it.deadline_ns))
            .column(">slack", slack)
            .text()
    }

    fn queue_table(&self) -> String {
        Table::of(&self.queues)
            .column("queue of", |it| it.sender.into())
            .column("on", |it| it.bus.into())
            .column("order", |it| it.bound.queue.discipline.name().into())
            .column(">frames at most", |it| {
                it.bound.frames.map_or_else(|| "no bound".into(), |frames| frames.to_string())
            })
            .column(">depth", |it| it.bound.queue.depth.to_string())
            .text()
    }

    /// What does not hold, a paragraph of it.
    fn troubles(&self) -> Option<String> {
        let queue = |it: &InQueue<'_>| {
            let holds = it.bound.queue.depth;
            let lost = "frames can be lost";
            let of = format!("the queue of {} on {}", visible(it.sender), visible(it.bus));
            match it.bound.frames {
                Some(frames) => format!("{of}: at worst {frames} of {holds}: {lost}"),
                None => format!("{of}: no bound for its {holds} places: {lost}"),
            }
        };
        let queues = self.queues.iter().filter(|it| it.bound.overflows()).map(queue);
        let message = |it: &Late<'_>| {
            let name = format!("{} on {}", it.reached.message.name, it.reached.bus.name);
            let name = visible(&name);
            match (&it.reason, it.slack_ns()) {
                (Some(reason), _) => Some(format!("{name}: no bound: {reason}")),
                (None, Some(slack @ ..0)) => {
                    let late = duration_at_most(slack.unsigned_abs());
                    Some(format!("{name}: up to {late} later than its deadline"))
                }
                _ => None,
            }
        };
        let troubles: Vec<_> =
            queues.chain(self.messages.iter().filter_map(message)).map(|it| it + "\n").collect();
        (!troubles.is_empty()).then(|| troubles.concat())
    }
}

fn slack(it: &&Late<'_>) -> String {
    match it.slack_ns() {
        None => "no bound".into(),
        Some(slack @ ..0) => format!("-{}", duration_at_most(slack.unsigned_abs())),
        Some(slack) => duration_at_least(slack.unsigned_abs()),
    }
}
