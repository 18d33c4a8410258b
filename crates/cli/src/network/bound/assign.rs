//! `candor network bound --assign`: identifiers in an order in which all deadlines hold.

use candor_diagnostics::{meant_or, visible};
use candor_network::bound::assign::{Candidate, assign};
use candor_network::flow::{Flow, flows};
use candor_network::{Message, bounds, show_id};
use candor_output::say;
use candor_wire::can::frame::EFF_FLAG;

use super::{Names, Shown};
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, print};

/// A message with the identifier that it may get.
pub(crate) struct Assigned<'a> {
    pub(crate) bus: &'a str,
    pub(crate) message: &'a Message,
    /// The new identifier word.
    pub(crate) can_id: u32,
}

/// Assigns the identifiers of the messages of these names, or of all, among themselves; `false` if there is no order.
pub(super) fn run(names: &Names<'_>, movable: &[String], is_json: bool) -> Answer {
    for name in movable {
        let all = || (0..names.flows.len()).map(|flow| names.message(flow));
        if !all().any(|it| it == name) {
            let hint =
                meant_or(name, all(), || "use a name that `candor network show` lists".into());
            return Err(format!("there is no message `{}`: {hint}", visible(name)));
        }
    }
    let mut network = names.network.clone();
    let mut assigned = Vec::new();
    let mut holds = true;
    for (bus, settings) in names.network.buses.iter().enumerate() {
        let name = visible(&settings.name);
        let (flows, candidates) = candidates(names, bus, movable)?;
        let Some(owners) = assign(&candidates, names.bounds.bit_ns(bus)) else {
            let group = candidates.first().and_then(|it| it.group);
            let is_exact = group.is_some() && candidates.iter().all(|it| it.group == group);
            say!(
                "{name}: {}",
                match is_exact {
                    true => "no order of these identifiers meets all deadlines",
                    false =>
                        "no order was found that meets all deadlines; there may be one: all are looked at only where all messages \
                     have one kind of identifier and may move",
                }
            );
            holds = false;
            continue;
        };
        for (&flow, owner) in flows.iter().zip(owners) {
            let can_id = names.flows[flows[owner]].frame.can_id();
            let Flow { node, message, .. } = names.flows[flow];
            network.nodes[node].messages[message].can_id = can_id;
            if let Some(message) = names.sent(flow) {
                assigned.push(Assigned { bus: &settings.name, message, can_id });
            }
        }
    }
    assigned.sort_by_key(|it| (it.bus, it.can_id & EFF_FLAG, it.can_id));
    if assigned.is_empty() {
        return Ok(holds);
    }
    let table = Table::of(&assigned)
        .column("bus", |it| it.bus.into())
        .column("identifier", |it| show_id(it.can_id))
        .column("message", |it| it.message.name.clone())
        .column("now", |it| match it.can_id == it.message.can_id {
            true => "the same".into(),
            false => show_id(it.message.can_id),
        })
        .text();
    print(&if is_json { lines(&assigned)? } else { table })?;
    // Whether queues are deep enough, too, which the order has no part in.
    let flows = flows(&network).map_err(|_| "the identifiers cannot be exchanged".to_owned())?;
    let bounds = bounds(&network, &flows);
    let shown = Shown::new(&network, &flows, &bounds);
    if holds && !shown.holds() {
        say!("with these identifiers:");
        candor_output::messages::lines(shown.troubles().unwrap_or_default());
    }
    Ok(holds && shown.holds())
}

/// The flows of a bus as candidates.
fn candidates(
    names: &Names<'_>,
    bus: usize,
    movable: &[String],
) -> Result<(Vec<usize>, Vec<Candidate>), String> {
    let on_bus = names.bounds.streams(bus);
    let mut candidates = Vec::new();
    for (flow, stream) in on_bus.clone() {
        let shown = names.flow(flow);
        let is_watched = stream.arrivals.as_ref().is_some_and(|it| it.curve.is_some());
        let reason = match () {
            () if names.flows[flow].parent.is_some() => "is behind a gateway",
            () if stream.fifo.is_some() => "waits in a FIFO queue",
            () if is_watched => "has distances instead of a period",
            () => "",
        };
        if !reason.is_empty() {
            return Err(format!(
                "{shown} {reason}, where how late it is depends on the order of more than its identifier; --assign is for \
                 buses with queues of priorities and without gateways"
            ));
        }
        let message = names.sent(flow);
        let may_move = movable.is_empty() || movable.iter().any(|it| it == names.message(flow));
        // With an identifier of the other kind, a frame would be longer or shorter.
        let group = may_move.then(|| names.flows[flow].frame.can_id() & EFF_FLAG);
        let deadline_ns = message.map_or(0, |it| it.deadline().as_nanos());
        candidates.push(Candidate { stream: stream.clone(), deadline_ns, group });
    }
    Ok((on_bus.map(|(flow, _)| flow).collect(), candidates))
}
