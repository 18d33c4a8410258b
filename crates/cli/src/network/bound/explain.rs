//! `candor network bound --explain`: what the bound of a message is made of, step by step.

use candor_diagnostics::{meant_or, visible};
use candor_output::say;

use super::Names;
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, duration_at_least, duration_at_most, list, print};

/// A part of the way of a message.
pub(crate) struct Step {
    /// The message.
    pub(crate) message: String,
    /// The bus that it goes to.
    pub(crate) bus: String,
    /// What happens.
    pub(crate) step: String,
    pub(crate) least_ns: u64,
    pub(crate) most_ns: u64,
    /// Whose frame blocks it there.
    pub(crate) blocked_by: Option<String>,
    /// Which frames of others are sent before it there.
    pub(crate) waits_for: Vec<WaitsFor>,
}

/// Frames of a message that another one waits for.
pub(crate) struct WaitsFor {
    pub(crate) message: String,
    pub(crate) frames: u64,
}

/// Shows the ways of all messages of a name; `false` if one has no bound.
pub(super) fn run(names: &Names<'_>, message: &str, is_json: bool) -> Answer {
    let is_of = |flow: &usize| names.message(*flow) == message;
    let found: Vec<_> = (0..names.flows.len()).filter(is_of).collect();
    if found.is_empty() {
        let messages = (0..names.flows.len()).map(|flow| names.message(flow));
        let hint =
            meant_or(message, messages, || "use a name that `candor network show` lists".into());
        return Err(format!("there is no message `{}`: {hint}", visible(message)));
    }
    let mut text = String::new();
    let mut has_bounds = true;
    for flow in found {
        let Some(steps) = steps(names, flow) else {
            let reason = names.bounds.flows[flow].as_ref().err();
            let reason = reason.map(|it| names.reason(&names.flows[flow], it));
            say!("{}: no bound: {}", names.flow(flow), reason.unwrap_or_default());
            has_bounds = false;
            continue;
        };
        text += &match is_json {
            true => lines(&steps)?,
            false => shown(names, flow, &steps),
        };
    }
    print(text.trim_start_matches('\n'))?;
    Ok(has_bounds)
}

/// The way of a flow from its node, in order; `None` if it has no bound.
fn steps(names: &Names<'_>, flow: usize) -> Option<Vec<Step>> {
    let mut way = vec![flow];
    while let Some(parent) = way.last().and_then(|&it| names.flows[it].parent) {
        way.push(parent);
    }
    way.reverse();
    let step = |step: String, (least_ns, most_ns): (u64, u64)| Step {
        message: names.message(flow).to_owned(),
        bus: names.bus(flow).to_owned(),
        step,
        least_ns,
        most_ns,
        blocked_by: None,
        waits_for: Vec::new(),
    };
    let mut steps = Vec::new();
    let mut before_ns = 0;
    for at in way {
        let bound = names.bounds.flows[at].as_ref().ok()?;
        let bus = names.bus(at);
        match names.flows[at].sent_by() {
            None => steps.push(step("released late".into(), (0, bound.jitter_ns))),
            Some(gateway) => {
                let delay_ns = names.bounds.delays_ns[gateway]?;
                before_ns += delay_ns.0;
                steps.push(step(format!("in {}", names.gateway(gateway)), delay_ns));
            }
        }
        let waits_ns = bound.response.response_ns - bound.jitter_ns - bound.longest_ns;
        let waits_for = names.bounds.interference(at).into_iter();
        let waits_for = waits_for
            .map(|(other, frames)| WaitsFor { message: names.message(other).to_owned(), frames });
        steps.push(Step {
            blocked_by: bound.blocked_by.map(|it| names.message(it).to_owned()),
            waits_for: waits_for.collect(),
            ..step(format!("waits for {bus}"), (0, waits_ns))
        });
        let sent_ns = (bound.best_ns - before_ns, bound.longest_ns);
        before_ns = bound.best_ns;
        steps.push(step(format!("sent on {bus}"), sent_ns));
    }
    Some(steps)
}

fn shown(names: &Names<'_>, flow: usize, steps: &[Step]) -> String {
    let because = |it: &&Step| {
        let blocked = it.blocked_by.iter().map(|by| format!("blocked by {by}"));
        let waits = it.waits_for.iter().map(|it| format!("{} {}", it.frames, it.message));
        list(blocked.chain(waits)).trim_start_matches('-').to_owned()
    };
    let sum = |of: fn(&Step) -> u64| steps.iter().map(of).sum();
    let (least, most) = (sum(|it| it.least_ns), sum(|it| it.most_ns));
    let head = names.flow(flow);
    let (least, most) = (duration_at_least(least), duration_at_most(most));
    let table = Table::of(steps)
        .column("step", |it| it.step.clone())
        .column(">at least", |it| duration_at_least(it.least_ns))
        .column(">at most", |it| duration_at_most(it.most_ns))
        .column("behind", because)
        .text();
    format!("\n{head}: {least} to {most}\n\n{table}")
}
