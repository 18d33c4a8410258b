//! Nodes with their queues and messages.

use candor_config::{Data, Section};
use candor_diagnostics::{Findings, Origin, counted, did_you_mean, part_of};
use candor_queue::Discipline;
use candor_time::Nanos;
use candor_wire::can::frame::fd_dlc;

use super::{Include, bus_named, dbc_messages, identifier};
use crate::{Bus, Message, Node, Payload, Queue, show_id};

/// The shortest period of a message: less is a mistake in the unit.
const SHORTEST_PERIOD: Nanos = Nanos::from_micros(10);

/// What readers of nodes need to know.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The buses.
    pub buses: &'a [Bus],
    /// The names of buses that could not be read: there are findings about them already.
    pub unread: &'a [String],
    /// The DBC files of buses: the index of the bus, the file, and where it is named.
    pub databases: &'a [(usize, &'a str, &'a Origin)],
    /// What stands before `nodes`, `message` and so on in the names of tables: nothing, or `traffic.`.
    pub prefix: &'a str,
    /// What is in messages that do not say it themselves.
    pub fill: Option<Fill>,
    /// Reads DBC files.
    pub include: Include<'a>,
    /// Whether anybody wants the nodes: if not, the keys are only known, and no other file is read.
    pub is_used: bool,
}

/// What `fill` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Every byte is this.
    Byte(u8),
    /// As many stuff bits as a frame of this length may have.
    Worst,
}

impl Fill {
    fn payload(self, length: usize) -> Payload {
        match self {
            Self::Byte(byte) => Payload::Bytes(vec![byte; length]),
            Self::Worst => Payload::Worst,
        }
    }
}

/// `fill`: a byte, or what takes the most bits.
pub fn fill(section: &mut Section<'_>) -> Option<Fill> {
    let value = section.value("fill")?;
    match (&value.data, value.as_str()) {
        (Data::Integer(byte), _) if u8::try_from(*byte).is_ok() => {
            u8::try_from(*byte).ok().map(Fill::Byte)
        }
        (_, Some("worst-case")) => Some(Fill::Worst),
        _ => {
            let found = value.to_toml_string();
            let message = format!("`fill` is {found}, but must be 0 to 255, or \"worst-case\"");
            let hint = "worst-case: as many stuff bits as a frame of this length may have";
            section.findings().error_with_hint(&value.origin, message, hint);
            None
        }
    }
}

/// `queue` and `queue_depth`; what is absent is as usual.
#[must_use]
pub fn queue(section: &mut Section<'_>, usual: Queue) -> Queue {
    let disciplines = [("fifo", Discipline::Fifo), ("priority", Discipline::Priority)];
    Queue {
        depth: section.integer("queue_depth", 1..=100_000).unwrap_or(usual.depth),
        discipline: section.one_of("queue", &disciplines).unwrap_or(usual.discipline),
    }
}

/// The nodes that the tables `nodes`, `node`, `message`, `offsets` of a section describe, and its keys
/// `dbc`, `offset`, `queue` and `queue_depth`. Other keys are left to the caller.
#[must_use]
pub fn nodes(section: &mut Section<'_>, context: &Context<'_>) -> Vec<Node> {
    let findings = section.findings();
    let origin = section.origin();
    let reader = Reader { context: *context, findings };
    let usual = queue(section, Queue::default());
    let mut placed = reader.placed_nodes(section);
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
            messages.push(Sent { bus, node, message });
        }
    }
    if let Some(fill) = context.fill {
        for Sent { message, .. } in &mut messages {
            message.payload = fill.payload(message.length);
        }
    }
    let queues = reader.queues(section, usual, &placed);
    let listed = section.sections("message").into_iter();
    messages.extend(listed.map(|message| reader.message(message)));
    reader.offsets(section, &mut messages);
    if !context.is_used {
        return Vec::new();
    }
    reader.by_node(messages, &placed, usual, &queues, origin)
}

/// A message, and who sends it.
struct Sent {
    /// The bus, if the file of the message says it.
    bus: Option<usize>,
    node: String,
    message: Message,
}

struct Reader<'a> {
    context: Context<'a>,
    findings: &'a Findings,
}

impl Reader<'_> {
    /// Which node is on which bus.
    fn placed_nodes(&self, section: &mut Section<'_>) -> Vec<(usize, String)> {
        let mut placed = Vec::new();
        for entry in section.table_entries("nodes") {
            let bus = bus_named(
                self.context.buses,
                self.context.unread,
                &entry.key,
                &entry.origin,
                self.findings,
            );
            let Some(bus) = bus else { continue };
            let Some(nodes) = entry.value.as_array() else {
                entry.value.wrong_type(&entry.key, "a list of nodes", self.findings);
                continue;
            };
            for node in nodes {
                match node.as_str() {
                    Some(node) => placed.push((bus, node.to_owned())),
                    None => node.wrong_type(&entry.key, "the name of a node", self.findings),
                }
            }
        }
        placed
    }

    /// The queues of nodes that have one of their own: `[node.Engine]`.
    fn queues(
        &self,
        section: &mut Section<'_>,
        usual: Queue,
        placed: &[(usize, String)],
    ) -> Vec<(String, Queue)> {
        let mut queues = Vec::new();
        for entry in section.table_entries("node") {
            let Some(table) = entry.value.as_table() else {
                let expected = "a table with queue and queue_depth";
                entry.value.wrong_type(&entry.key, expected, self.findings);
                continue;
            };
            let is_known = placed.iter().any(|(_, node)| *node == entry.key);
            if !is_known && self.context.unread.is_empty() {
                let message = format!("there is no node `{}` on any bus", entry.key);
                let hint = self.where_nodes_are_placed();
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
        for entry in section.table_entries("offsets") {
            let offset = entry.value.nanos(&entry.key, self.findings);
            let mut known = false;
            for Sent { message, .. } in messages.iter_mut() {
                if message.name == entry.key {
                    known = true;
                    message.offset = offset.or(message.offset);
                }
            }
            if self.context.is_used && !known {
                let message = format!("there is no message `{}`", entry.key);
                let names = messages.iter().map(|it| it.message.name.as_str());
                let hint = match did_you_mean(&entry.key, names) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => {
                        let list = self.list();
                        format!("use the name of a message of the DBC file, or of {list}")
                    }
                };
                self.findings.error_with_hint(&entry.origin, message, hint);
            }
        }
    }

    /// The messages of a DBC file; those that cannot be sent are a warning.
    fn dbc(&self, dbc: &str, origin: &Origin) -> Vec<(String, Message)> {
        if !self.context.is_used {
            return Vec::new();
        }
        let list = self.list();
        let read = (self.context.include)(dbc).map_err(|reason| format!("{dbc}: {reason}"));
        let read = match read.and_then(|bytes| dbc_messages(dbc, &bytes, &list)) {
            Ok(read) => read,
            Err(reason) => {
                self.findings.error(origin, reason);
                return Vec::new();
            }
        };
        let all = read.messages.len() + read.without_period + read.without_frame;
        if read.without_period > 0 {
            let verbs =
                ("has no cycle time and is not sent", "have no cycle time and are not sent");
            let messages = part_of(read.without_period, all, "message", verbs);
            let message = format!("{dbc}: {messages}");
            let hint = format!("add a GenMsgCycleTime in ms to them, or list them under {list}");
            self.findings.warning(origin, message, hint);
        }
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

    /// A message of `[[message]]`.
    fn message(&self, mut entry: Section<'_>) -> Sent {
        entry.require(&["id", "period", "node"]);
        let can_id =
            entry.value("id").and_then(|value| identifier(value, self.findings)).unwrap_or(0);
        let length = entry.integer("length", 0..=64).unwrap_or(8);
        if fd_dlc(length).is_none() {
            let message = format!("a frame cannot have {length} bytes");
            self.findings.error(entry.origin_of("length"), message);
        }
        let period = entry.nanos("period").unwrap_or(Nanos::from_secs(1));
        if period < SHORTEST_PERIOD {
            let message = format!("a period must be at least {SHORTEST_PERIOD}");
            self.findings.error(entry.origin_of("period"), message);
        }
        let payload = self.payload(&mut entry, length);
        let message = Message {
            payload,
            name: entry.string("name").map_or_else(|| show_id(can_id), str::to_owned),
            can_id,
            length,
            period: period.max(SHORTEST_PERIOD),
            offset: entry.nanos("offset"),
            jitter: entry.nanos("jitter").unwrap_or_default(),
        };
        let node = entry.string("node").unwrap_or_default().to_owned();
        entry.finish();
        Sent { bus: None, node, message }
    }

    /// What is in a message: its `data`, its `fill`, or that of all messages.
    fn payload(&self, entry: &mut Section<'_>, length: usize) -> Payload {
        let data = entry.value("data");
        let fill = fill(entry);
        let Some(data) = data else {
            return fill
                .or(self.context.fill)
                .map_or(Payload::Signals, |fill| fill.payload(length));
        };
        if fill.is_some() {
            self.findings.error(&data.origin, "a message can have `data` or `fill`, not both");
        }
        let Some(bytes) = data.hex_bytes("data", self.findings) else { return Payload::Signals };
        if bytes.len() != length {
            let count = counted(bytes.len() as u64, "byte");
            let message = format!("`data` has {count}, but `length` is {length}");
            self.findings.error(&data.origin, message);
        }
        Payload::Bytes(bytes)
    }

    /// The messages by the node that sends them.
    fn by_node(
        &self,
        messages: Vec<Sent>,
        placed: &[(usize, String)],
        usual: Queue,
        queues: &[(String, Queue)],
        origin: &Origin,
    ) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for Sent { bus, node: sender, message } in messages {
            let place = || placed.iter().find(|(_, node)| *node == sender).map(|(bus, _)| *bus);
            let Some(bus) = bus.or_else(place) else {
                if !self.context.unread.is_empty() {
                    continue; // it may be on a bus that could not be read
                }
                let text = format!("node `{sender}` sends {}, but is not on any bus", message.name);
                self.findings.error_with_hint(origin, text, self.where_nodes_are_placed());
                continue;
            };
            let Some(on) = self.context.buses.get(bus) else { continue };
            if message.length > 8 && !on.is_fd {
                let (name, length) = (&message.name, message.length);
                let text = format!("{name} has {length} bytes, but its bus is classical");
                self.findings.error(origin, text);
            }
            let other = nodes.iter().find(|node| {
                let has_id = |other: &Message| other.can_id == message.can_id;
                node.bus == bus && node.name != sender && node.messages.iter().any(has_id)
            });
            if let Some(Node { name: other, .. }) = other {
                let (bus, id) = (&on.name, show_id(message.can_id));
                let text = format!("`{other}` and `{sender}` both send {id} on bus {bus}");
                let hint = "on a CAN bus, only one node may send an identifier: give each one a \
                            different identifier";
                self.findings.error_with_hint(origin, text, hint);
            }
            match nodes.iter_mut().find(|node| node.bus == bus && node.name == sender) {
                Some(node) => node.messages.push(message),
                None => {
                    let own = queues.iter().find(|(node, _)| *node == sender);
                    let queue = own.map_or(usual, |(_, queue)| *queue);
                    nodes.push(Node { name: sender, bus, queue, messages: vec![message] });
                }
            }
        }
        nodes
    }

    /// The table that lists messages.
    fn list(&self) -> String {
        format!("[[{}message]]", self.context.prefix)
    }

    fn where_nodes_are_placed(&self) -> String {
        format!("list it under [{}nodes], as in powertrain = [\"Engine\"]", self.context.prefix)
    }
}
