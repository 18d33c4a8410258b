//! Nodes with their queues and messages.

use candor_config::{Section, Value};
use candor_diagnostics::{Findings, Origin, meant_or, part_of};
use candor_queue::Discipline;
use candor_time::Nanos;

use super::context::Context;
use super::listed::{Places, Sent, listed, name_of, no_deadline};
use super::senders::{Placed, by_node};
use super::{bus_named, dbc_messages};
use crate::{Message, Node, Queue};

/// `queue` and `queue_depth`; what is absent is as usual.
#[must_use]
pub fn queue(section: &mut Section<'_>, usual: Queue) -> Queue {
    let disciplines = [("fifo", Discipline::Fifo), ("priority", Discipline::Priority)];
    Queue {
        depth: section.integer("queue_depth", 1..=100_000).unwrap_or(usual.depth),
        discipline: section.one_of("queue", &disciplines).unwrap_or(usual.discipline),
    }
}

/// The nodes that the tables `nodes`, `node`, `message`, `offsets`, `deadlines` of a section describe, and its keys
/// `dbc`, `offset`, `queue` and `queue_depth`. Other keys are left to the caller. Nodes that send nothing are
/// behind the others.
#[must_use]
pub fn nodes(section: &mut Section<'_>, context: &Context<'_>) -> Vec<Node> {
    let findings = section.findings();
    let reader = Reader { context: *context, findings };
    let usual = queue(section, Queue::default());
    let (mut placed, misplaced) = reader.placed_nodes(section);
    let mut messages = Vec::new();
    let file = section.string("dbc").map(|dbc| (None, dbc, section.origin_of("dbc")));
    let of_buses = context.databases.iter().map(|&(bus, dbc, origin)| (Some(bus), dbc, origin));
    for (bus, dbc, origin) in file.into_iter().chain(of_buses) {
        for (node, message) in reader.dbc(dbc, origin) {
            // A DBC file describes one bus, so its nodes are there.
            if let Some(bus) = bus
                && !placed.contains(&(bus, node.clone()))
            {
                placed.push((bus, node.clone()));
            }
            let places = Places::elsewhere(origin);
            messages.push(Sent { bus, node: Some(node), message, is_named: true, places });
        }
    }
    if let Some(fill) = context.fill {
        for Sent { message, .. } in &mut messages {
            message.payload = fill.payload(message.length);
        }
    }
    let queues = reader.queues(section, usual, &placed, &misplaced);
    let tables = section.sections("message").into_iter();
    // Experiments have no deadlines.
    let is_network = context.prefix.is_empty();
    messages.extend(tables.map(|message| listed(message, context.fill, is_network)));
    reader.offsets(section, &mut messages);
    if is_network {
        reader.deadlines(section, &mut messages);
    }
    if !context.is_used {
        return Vec::new();
    }
    let placed = Placed { nodes: &placed, misplaced: &misplaced, queues: &queues, usual };
    by_node(context, findings, messages, &placed)
}

/// Reads the tables of nodes and messages.
struct Reader<'a> {
    context: Context<'a>,
    findings: &'a Findings,
}

impl Reader<'_> {
    /// Which node is on which bus, and which ones are on buses that do not exist.
    fn placed_nodes(&self, section: &mut Section<'_>) -> (Vec<(usize, String)>, Vec<String>) {
        let (mut placed, mut misplaced) = (Vec::new(), Vec::new());
        for entry in section.table_entries("nodes") {
            let bus = bus_named(
                self.context.buses,
                self.context.unread,
                &entry.key,
                &entry.origin,
                self.findings,
            );
            let Some(nodes) = entry.value.as_array() else {
                entry.value.wrong_type(&entry.key, "a list of nodes", self.findings);
                continue;
            };
            let Some(bus) = bus else {
                misplaced.extend(nodes.iter().filter_map(Value::as_str).map(str::to_owned));
                continue;
            };
            for node in nodes {
                match node.as_str() {
                    Some(name) => self.place(bus, name, &node.origin, &mut placed),
                    None => node.wrong_type(&entry.key, "the name of a node", self.findings),
                }
            }
        }
        (placed, misplaced)
    }

    /// Puts a node on a bus, if it is on none.
    fn place(&self, bus: usize, name: &str, origin: &Origin, placed: &mut Vec<(usize, String)>) {
        let Some(name) = name_of("node", name, origin, self.findings) else { return };
        match placed.iter().find(|(_, node)| node == name) {
            None => placed.push((bus, name.to_owned())),
            Some((on, _)) if *on == bus => {
                let message = format!("node `{name}` is listed twice");
                self.findings.error_with_hint(origin, message, "list each node once");
            }
            Some((on, _)) => {
                let on = self.context.buses.get(*on).map_or("", |bus| bus.name.as_str());
                let message = format!("node `{name}` is on bus `{on}` already");
                let hint =
                    "a computer on two buses is two nodes with different names, or a gateway";
                self.findings.error_with_hint(origin, message, hint);
            }
        }
    }

    /// The queues of nodes that have one of their own: `[node.Engine]`.
    fn queues(
        &self,
        section: &mut Section<'_>,
        usual: Queue,
        placed: &[(usize, String)],
        misplaced: &[String],
    ) -> Vec<(String, Queue)> {
        let mut queues = Vec::new();
        for entry in section.table_entries("node") {
            let Some(table) = entry.value.as_table() else {
                let expected = "a table with queue and queue_depth";
                entry.value.wrong_type(&entry.key, expected, self.findings);
                continue;
            };
            let is_known =
                placed.iter().map(|(_, node)| node).chain(misplaced).any(|node| *node == entry.key);
            if !is_known && self.context.unread.is_empty() {
                let message = format!("there is no node `{}` on any bus", entry.key);
                let hint = self.context.where_nodes_are_placed();
                self.findings.error_with_hint(&entry.origin, message, hint);
            }
            let mut section = Section::new(table, self.findings);
            queues.push((entry.key.clone(), queue(&mut section, usual)));
            section.finish();
        }
        queues
    }

    /// When the first frame of each message is sent: `offset` for all that do not say it themselves, and
    /// `[offsets]` by name.
    fn offsets(&self, section: &mut Section<'_>, messages: &mut [Sent]) {
        if let Some(offset) = section.nanos("offset") {
            for Sent { message, .. } in messages.iter_mut() {
                message.offset.get_or_insert(offset);
            }
        }
        self.by_name(section, "offsets", messages, |message, offset| message.offset = Some(offset));
    }

    /// By when frames must have arrived: `[deadlines]`, by name.
    fn deadlines(&self, section: &mut Section<'_>, messages: &mut [Sent]) {
        for entry in section.table_entries("deadlines") {
            if entry.value.nanos(&entry.key, &Findings::new()) == Some(Nanos::ZERO) {
                no_deadline(&entry.value.origin, self.findings);
            }
        }
        let set = |message: &mut Message, time| message.deadline = Some(time);
        self.by_name(section, "deadlines", messages, set);
    }

    /// A table with a time for some messages, by their names.
    fn by_name(
        &self,
        section: &mut Section<'_>,
        table: &'static str,
        messages: &mut [Sent],
        set: impl Fn(&mut Message, Nanos),
    ) {
        for entry in section.table_entries(table) {
            let time = entry.value.nanos(&entry.key, self.findings);
            let mut known = false;
            for Sent { message, .. } in
                messages.iter_mut().filter(|it| it.message.name == entry.key)
            {
                known = true;
                if let Some(time) = time {
                    set(message, time);
                }
            }
            if self.context.is_used && !known {
                let message = format!("there is no message `{}`", entry.key);
                let names = messages.iter().map(|it| it.message.name.as_str());
                let hint = meant_or(&entry.key, names, || {
                    let list = self.context.list();
                    format!("use the name of a message of the DBC file, or of {list}")
                });
                self.findings.error_with_hint(&entry.origin, message, hint);
            }
        }
    }

    /// The messages of a DBC file; those that cannot be sent are a warning.
    fn dbc(&self, dbc: &str, origin: &Origin) -> Vec<(String, Message)> {
        if !self.context.is_used {
            return Vec::new();
        }
        let list = self.context.list();
        let read = (self.context.include)(dbc).map_err(|reason| format!("{dbc}: {reason}"));
        let read = match read.and_then(|bytes| dbc_messages(dbc, &bytes, &list)) {
            Ok(read) => read,
            Err(reason) => {
                self.findings.error(origin, reason);
                return Vec::new();
            }
        };
        let all = read.count();
        let unsent = |names: &[String], verbs: (&str, &str), hint: String| {
            if !names.is_empty() {
                let messages = part_of(names.len(), all, "message", verbs);
                let message = format!("{dbc}: {messages}: {}", some_of(names));
                self.findings.warning(origin, message, hint);
            }
        };
        let verbs = ("has no cycle time and is not sent", "have no cycle time and are not sent");
        let hint = format!("add a GenMsgCycleTime in ms to them, or list them under {list}");
        unsent(&read.without_period, verbs, hint);
        let hint = format!("name their senders in the file, or list them with a node under {list}");
        let verbs = ("has no sender and is not sent", "have no sender and are not sent");
        unsent(&read.without_sender, verbs, hint);
        if read.without_frame > 0 {
            let messages = part_of(read.without_frame, all, "message", ("is", "are"));
            let message = format!(
                "{dbc}: {messages} not sent: the length or identifier is not possible, or another \
                 message has the same identifier"
            );
            let hint = "a frame has up to 8 bytes, or with CAN FD 12, 16, 20, 24, 32, 48 or 64, and a \
                        standard identifier is at most 0x7FF";
            self.findings.warning(origin, message, hint);
        }
        read.messages
    }
}

/// The first of some names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
