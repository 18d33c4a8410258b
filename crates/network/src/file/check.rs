//! What becomes of the messages of a network, and what is wrong with that.

use std::collections::BTreeMap;
use std::sync::Arc;

use candor_diagnostics::{Findings, Origin, Source, counted};

use crate::flow::{Flow, MOST_COPIES, Reason, Unbounded, flows, loads};
use crate::{Message, Network, show_id};

/// Where a file describes the parts of its network.
pub(super) struct Places<'a> {
    /// By bus.
    pub(super) buses: &'a [&'a Origin],
    /// The rule file of each gateway.
    pub(super) rules: &'a [Arc<Source>],
}

/// Follows the messages through the gateways.
pub(super) fn check(network: &Network, places: &Places<'_>, findings: &Findings) {
    let checker = NetworkChecker { network, places, findings };
    match flows(network) {
        Err(unbounded) => checker.unbounded(&unbounded),
        Ok(flows) => {
            checker.refused(&flows);
            checker.collisions(&flows);
            checker.overload(&flows);
        }
    }
}

struct NetworkChecker<'a> {
    network: &'a Network,
    places: &'a Places<'a>,
    findings: &'a Findings,
}

impl NetworkChecker<'_> {
    fn message(&self, node: usize, message: usize) -> Option<&Message> {
        self.network.nodes.get(node)?.messages.get(message)
    }

    fn message_name(&self, node: usize, message: usize) -> &str {
        self.message(node, message).map_or("", |it| it.name.as_str())
    }

    fn node_name(&self, node: usize) -> &str {
        self.network.nodes.get(node).map_or("", |it| it.name.as_str())
    }

    fn bus_name(&self, bus: usize) -> &str {
        self.network.buses.get(bus).map_or("", |it| it.name.as_str())
    }

    fn gateway_name(&self, gateway: usize) -> &str {
        self.network.gateways.get(gateway).map_or("", |it| it.name.as_str())
    }

    /// Where a rule stands in its file.
    fn rule(&self, gateway: usize, rule: usize) -> Option<Origin> {
        let source = self.places.rules.get(gateway)?;
        let rule = self.network.gateways.get(gateway)?.rules.rules.get(rule)?;
        Some(Origin::at(source, rule.position.0, rule.position.1))
    }

    /// A message whose copies cannot be listed.
    fn unbounded(&self, unbounded: &Unbounded) {
        let &Unbounded { node, message, gateway, rule, ref reason } = unbounded;
        let Some(origin) = self.rule(gateway, rule) else { return };
        let (name, node) = (self.message_name(node, message), self.node_name(node));
        let name = format!("`{name}` of node `{node}`");
        match reason {
            Reason::Endless(circle) => {
                let step = |&(gateway, bus): &(usize, usize)| {
                    let (gateway, bus) = (self.gateway_name(gateway), self.bus_name(bus));
                    format!("`{gateway}` sends it to `{bus}`")
                };
                let steps: Vec<_> = circle.iter().map(step).collect();
                let message = format!("{name} goes round for ever: {}", steps.join(", "));
                let hint = "let one of these gateways leave it out: match only what nodes of its own \
                            buses send, or except what the other gateway sends";
                self.findings.error_with_hint(&origin, message, hint);
            }
            Reason::TooMany(most) => {
                let gateway = self.gateway_name(gateway);
                let of = match *most == MOST_COPIES {
                    true => format!("of {name}"),
                    false => format!("of all messages, the last of {name}"),
                };
                let message = format!(
                    "gateways make more than {most} copies {of}, this one in gateway `{gateway}`"
                );
                let hint = "let the rules of gateways match only what nodes of their own buses send, and \
                            send each message once";
                self.findings.error_with_hint(&origin, message, hint);
            }
        }
    }

    /// Copies that are lost because their bus is classical.
    fn refused(&self, flows: &[Flow]) {
        let mut refused: BTreeMap<_, Vec<&Flow>> = BTreeMap::new();
        for flow in flows.iter().filter(|flow| flow.is_refused) {
            if let (Some(gateway), Some(rule)) = (flow.sent_by(), flow.rule) {
                refused.entry((gateway, rule, flow.bus)).or_default().push(flow);
            }
        }
        for ((gateway, rule, bus), flows) in refused {
            let (Some(origin), Some(first)) = (self.rule(gateway, rule), flows.first()) else {
                continue;
            };
            let (gateway, bus) = (self.gateway_name(gateway), self.bus_name(bus));
            let name = self.message_name(first.node, first.message);
            let more = match flows.len() - 1 {
                0 => String::new(),
                more => format!(" (and {})", counted(more as u64, "other message")),
            };
            let message = format!(
                "gateway `{gateway}` sends `{name}`{more} to bus `{bus}` as CAN FD frames, but the bus is \
                 classical, so they are lost"
            );
            let hint = "leave them out of the rule; or add fd = true to the bus; or, if they have 8 bytes at \
                        most, convert = \"classical\" to the rule";
            self.findings.warning(&origin, message, hint);
        }
    }

    /// Copies with an identifier that somebody else sends on their bus, or that another message has.
    fn collisions(&self, flows: &[Flow]) {
        let mut by_id: BTreeMap<_, Vec<&Flow>> = BTreeMap::new();
        for flow in flows.iter().filter(|flow| !flow.is_refused) {
            by_id.entry((flow.bus, flow.frame.can_id())).or_default().push(flow);
        }
        for (_, mut sharers) in by_id {
            // Nodes first, and of gateways those that come first.
            sharers.sort_by_key(|flow| flow.sent_by());
            let Some((first, others)) = sharers.split_first() else { continue };
            let is_other = |flow: &&&Flow| {
                let is_same = (flow.node, flow.message) == (first.node, first.message);
                !is_same || flow.sent_by() != first.sent_by()
            };
            for copy in others.iter().filter(is_other) {
                self.collision(copy, first);
            }
        }
    }

    /// A copy with the identifier of another message on its bus.
    fn collision(&self, copy: &Flow, other: &Flow) {
        let (Some(gateway), Some(rule)) = (copy.sent_by(), copy.rule) else { return };
        let Some(origin) = self.rule(gateway, rule) else { return };
        let name = |flow: &Flow| self.message_name(flow.node, flow.message);
        let sender = match other.sent_by() {
            None => format!("node `{}` sends", self.node_name(other.node)),
            Some(same) if same == gateway => "it also sends".into(),
            Some(other) => format!("gateway `{}` sends", self.gateway_name(other)),
        };
        let message = format!(
            "gateway `{}` sends `{}` to bus `{}` as {}, with which {sender} `{}` there",
            self.gateway_name(gateway),
            name(copy),
            self.bus_name(copy.bus),
            show_id(copy.frame.can_id()),
            name(other),
        );
        let hint = "on a CAN bus, an identifier has one sender and one meaning: give the copy another one \
                    with set = { id = \"0x123\" }, or leave it out of the rule";
        self.findings.warning(&origin, message, hint);
    }

    /// Buses that cannot carry all of their messages.
    fn overload(&self, flows: &[Flow]) {
        let loads = loads(self.network, flows);
        for ((bus, load), origin) in self.network.buses.iter().zip(loads).zip(self.places.buses) {
            if load.longest_share > 1.0 {
                let percent = load.longest_share * 100.0;
                let message = format!(
                    "the messages on bus `{}` may need {percent:.0} % of its time",
                    bus.name
                );
                let hint = "give the bus a higher bit rate, or send less on it; what does not fit waits in \
                            queues until they are full";
                self.findings.warning(origin, message, hint);
            }
        }
    }
}
