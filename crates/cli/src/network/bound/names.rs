//! [`Names`]: what flows and queues are called, and why something has no bound.

use candor_diagnostics::visible;
use candor_network::bound::network::{NoBound, Sender};
use candor_network::bound::{Bounds, bus};
use candor_network::flow::Flow;
use candor_network::{Message, Network};

use crate::network::bus_name;
use crate::output::list;

/// What flows and queues are called.
pub(super) struct Names<'a> {
    pub(super) network: &'a Network,
    pub(super) flows: &'a [Flow],
    pub(super) bounds: &'a Bounds,
}

impl<'a> Names<'a> {
    pub(super) fn message(&self, flow: usize) -> &'a str {
        self.sent(flow).map_or("", |it| it.name.as_str())
    }

    /// The message of a flow.
    pub(super) fn sent(&self, flow: usize) -> Option<&'a Message> {
        let flow = self.flows.get(flow)?;
        self.network.nodes.get(flow.node)?.messages.get(flow.message)
    }

    /// A message and the bus.
    pub(super) fn flow(&self, flow: usize) -> String {
        visible(&format!("{} on {}", self.message(flow), self.bus(flow))).to_string()
    }

    pub(super) fn bus(&self, flow: usize) -> &'a str {
        self.flows.get(flow).map_or("", |it| bus_name(self.network, it.bus))
    }

    pub(super) fn gateway(&self, gateway: usize) -> &'a str {
        self.network.gateways.get(gateway).map_or("", |it| it.name.as_str())
    }

    /// Who has a queue, and on which bus.
    pub(super) fn queue(&self, sender: Sender) -> (&'a str, &'a str) {
        match sender {
            Sender::Node(index) => {
                let node = self.network.nodes.get(index);
                let bus = node.map_or("", |it| bus_name(self.network, it.bus));
                (node.map_or("", |it| it.name.as_str()), bus)
            }
            Sender::Gateway(gateway, bus) => (self.gateway(gateway), bus_name(self.network, bus)),
        }
    }

    pub(super) fn reason(&self, flow: &Flow, reason: &NoBound) -> String {
        let percent = |share: &u64| format!("{:.1} %", *share as f64 / 1e4);
        let bus = visible(bus_name(self.network, flow.bus));
        match reason {
            NoBound::Lost => "the bus cannot carry it".into(),
            NoBound::Overloaded(share) => {
                let of = percent(share);
                format!("it and what it waits for need {of} of the time of {bus}")
            }
            NoBound::TooLong => format!("{bus} may not rest for 10 s and more"),
            NoBound::Growing(flows) => {
                let more = flows.len().saturating_sub(5);
                let flows = list(flows.iter().take(5).map(|&flow| self.flow(flow)));
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("jitters in a circle make each other grow on and on: {flows}{more}")
            }
            NoBound::WaitsFor(other) => {
                format!("it waits for {}, which may come as densely as it likes", self.flow(*other))
            }
            NoBound::Behind(other) => format!("there is none for {}", self.flow(*other)),
            NoBound::Processor(gateway, bus::NoBound::Overloaded(share)) => {
                let of = percent(share);
                format!(
                    "the frames that {} receives need {of} of its time",
                    visible(self.gateway(*gateway))
                )
            }
            NoBound::Processor(gateway, _) => {
                format!("{} may not rest for 10 s and more", visible(self.gateway(*gateway)))
            }
            NoBound::Overflow(queue) => {
                let sender = self.bounds.queues.get(*queue).map(|it| self.queue(it.sender));
                let (sender, bus) = sender.unwrap_or_default();
                format!("the queue of {} on {} can lose it", visible(sender), visible(bus))
            }
        }
    }
}
