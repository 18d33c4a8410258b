//! The messages by the node that sends them.

use std::collections::BTreeMap;

use candor_diagnostics::{Findings, Origin, list_of_names};

use super::context::Context;
use super::listed::Sent;
use crate::{Bus, Node, Queue, show_id};

/// Which nodes are where, and which queues they have.
pub(super) struct Placed<'a> {
    /// Buses and the names of nodes.
    pub(super) nodes: &'a [(usize, String)],
    /// The names of nodes on buses that do not exist, about which there are findings.
    pub(super) misplaced: &'a [String],
    /// The queues of nodes that have one of their own.
    pub(super) queues: &'a [(String, Queue)],
    /// That of all others.
    pub(super) usual: Queue,
}

impl Placed<'_> {
    fn node(&self, name: String, bus: usize) -> Node {
        let own = self.queues.iter().find(|(node, _)| *node == name);
        let queue = own.map_or(self.usual, |(_, queue)| *queue);
        Node { name, bus, queue, messages: Vec::new() }
    }
}

/// Puts messages to their nodes.
struct Senders<'a> {
    context: &'a Context<'a>,
    findings: &'a Findings,
    placed: &'a Placed<'a>,
    nodes: Vec<Node>,
    /// By bus and name: which of the nodes.
    by_name: BTreeMap<(usize, String), usize>,
    /// By bus and identifier: who sends it, and where that is written.
    by_id: BTreeMap<(usize, u32), (usize, Origin)>,
    /// By the name of a message: where that is written.
    named: BTreeMap<String, Origin>,
}

/// The nodes with their messages, in the order of the first message of each; behind them those that send
/// nothing.
pub(super) fn by_node(
    context: &Context<'_>,
    findings: &Findings,
    messages: Vec<Sent>,
    placed: &Placed<'_>,
) -> Vec<Node> {
    let mut senders = Senders {
        context,
        findings,
        placed,
        nodes: Vec::new(),
        by_name: BTreeMap::new(),
        by_id: BTreeMap::new(),
        named: BTreeMap::new(),
    };
    messages.into_iter().for_each(|sent| senders.add(sent));
    for (bus, node) in placed.nodes {
        senders.node(*bus, node);
    }
    senders.nodes
}

impl Senders<'_> {
    /// The index of the node.
    fn node(&mut self, bus: usize, name: &str) -> usize {
        *self.by_name.entry((bus, name.to_owned())).or_insert_with(|| {
            self.nodes.push(self.placed.node(name.to_owned(), bus));
            self.nodes.len() - 1
        })
    }

    fn add(&mut self, sent: Sent) {
        self.refuse_name(&sent);
        let Some(bus) = self.bus_of(&sent) else { return };
        let Sent { node: Some(sender), message, places, .. } = sent else { return };
        let Some(on) = self.context.buses.get(bus) else { return };
        if message.is_fd && !on.is_fd {
            let (name, length) = (&message.name, message.length);
            let text = format!(
                "`{name}` is a CAN FD frame of {length} bytes, but its bus `{}` is classical",
                on.name
            );
            let hint = "give the bus a data_bitrate, or the message a length of at most 8 and no fd = true";
            self.findings.error_with_hint(&places.length, text, hint);
        }
        let node = self.node(bus, &sender);
        self.refuse_id(bus, on, message.can_id, (node, places.id));
        if let Some(node) = self.nodes.get_mut(node) {
            node.messages.push(message);
        }
    }

    /// The bus that a message is sent on.
    fn bus_of(&self, sent: &Sent) -> Option<usize> {
        let sender = sent.node.as_ref()?;
        if sent.bus.is_some() {
            return sent.bus;
        }
        let placed = self.placed.nodes.iter().filter(|(_, node)| node == sender);
        let buses: Vec<_> = placed.map(|(bus, _)| *bus).collect();
        let name = &sent.message.name;
        match &buses[..] {
            [bus] => return Some(*bus),
            // It may be on a bus that could not be read.
            [] if !self.context.unread.is_empty() => {}
            [] if self.placed.misplaced.contains(sender) => {}
            [] => {
                let text = format!("node `{sender}` sends {name}, but is not on any bus");
                let hint = self.context.where_nodes_are_placed();
                self.findings.error_with_hint(&sent.places.node, text, hint);
            }
            several => {
                let all = self.context.buses;
                let names =
                    several.iter().filter_map(|&bus| all.get(bus)).map(|it| it.name.as_str());
                let names = list_of_names(names, "and");
                let text = format!("node `{sender}` sends {name}, but is on the buses {names}");
                let hint = "give the nodes on these buses different names";
                self.findings.error_with_hint(&sent.places.node, text, hint);
            }
        }
        None
    }

    /// Two messages of one name are one for `offsets` and for claims.
    fn refuse_name(&mut self, sent: &Sent) {
        if !sent.is_named {
            return;
        }
        let (name, origin) = (&sent.message.name, &sent.places.name);
        if let Some(first) = self.named.get(name) {
            let text = format!("another message is called `{name}`: {first}");
            let hint = "give each message a different name: offsets and figures go by it";
            self.findings.warning(origin, text, hint);
        } else {
            self.named.insert(name.clone(), origin.clone());
        }
    }

    /// An identifier that is sent already.
    fn refuse_id(&mut self, bus: usize, on: &Bus, can_id: u32, (node, origin): (usize, Origin)) {
        let Some((first, place)) = self.by_id.get(&(bus, can_id)) else {
            self.by_id.insert((bus, can_id), (node, origin));
            return;
        };
        let name = |node: usize| self.nodes.get(node).map_or("", |it| it.name.as_str());
        let (bus, id) = (&on.name, show_id(can_id));
        let (text, hint) = if *first == node {
            let text = format!("`{}` sends {id} on bus {bus} twice: {place}", name(node));
            (text, "list each message once, in one DBC file or under one [[message]]")
        } else {
            let (other, node) = (name(*first), name(node));
            let text = format!("`{other}` and `{node}` both send {id} on bus {bus}: {place}");
            let hint = "on a CAN bus, only one node may send an identifier: give each one a different \
                        identifier";
            (text, hint)
        };
        self.findings.error_with_hint(&origin, text, hint);
    }
}
