//! What a machine of the `vm` testbed cannot host: findings before anything boots.

use candor_diagnostics::{Findings, Origin};
use candor_engine::Table;
use candor_network::{Node, Payload};
use candor_protocol::order::{Controller, Datagrams, Tester};
use candor_sim::{Discipline, Stuffing};
use candor_vm::MOST_SENDERS;
use candor_wire::can::Frame;

use super::keys::{self, Kind};
use super::said::Said;
use super::settings::Traffic;
use super::sources::numbered;
use crate::experiment::Driver;
use crate::reading::reader::Reader;

/// The most frames of one experiment: a guest of 256 MB keeps every stamp until the end.
const MAX_COUNT: u64 = 200_000;

/// The longest queue that Linux gives an interface: `ERANGE` above it, seen from 6.1 to 7.2.
const MAX_TX_QUEUE: usize = 32_767;

/// The refusals of one experiment.
struct Refusals<'a> {
    findings: &'a Findings,
    is_fine: bool,
}

impl Refusals<'_> {
    fn refuse(&mut self, origin: &Origin, message: &str, hint: &str) {
        self.findings.error_with_hint(origin, message, hint);
        self.is_fine = false;
    }
}

impl Reader<'_> {
    /// Whether a machine can host this; findings tell what not.
    pub(super) fn vm_hosts(&self, said: &Said<'_>, count: Option<u64>) -> bool {
        let mut refusals = Refusals { findings: self.findings, is_fine: true };
        self.hosts_bed(said, count, &mut refusals);
        self.hosts_driver(said, &mut refusals);
        if let Some(gateway) = &said.gateway {
            hosts_gateway(said, gateway, &mut refusals);
            if let Some(rules) = &gateway.rules {
                let samples = samples(said.traffic.as_ref(), &self.network.nodes);
                let is_replay = matches!(said.traffic, Some(Traffic::Replay { .. }));
                hosts_rules((&samples, is_replay), gateway, rules, &mut refusals);
            }
        }
        refusals.is_fine
    }

    /// Buses, traffic and controllers.
    fn hosts_bed(&self, said: &Said<'_>, count: Option<u64>, refusals: &mut Refusals<'_>) {
        if self.network.buses.len() > 2 {
            let message = "the vm testbed needs two buses, a source and a target";
            let hint = "list two under [bus]; rules may use virtual buses between them";
            refusals.refuse(said.origin_of(&["bus"]), message, hint);
        }
        match &said.traffic {
            Some(Traffic::Replay { bus, .. }) => {
                hosts_senders_outside(said, refusals);
                if *bus != 0 {
                    let message = "a recording is sent on the first bus, the only one with senders";
                    let hint = "remove traffic.bus, or run it with --testbed sim";
                    refusals.refuse(said.origin_of(&["traffic", "bus"]), message, hint);
                }
            }
            Some(Traffic::Periodic) => hosts_nodes(&self.network.nodes, said, refusals),
            Some(Traffic::Numbered { frames, .. }) if frames.stuffing == Stuffing::Worst => {
                refusals.refuse(
                    said.origin_of(&["traffic", "fill"]),
                    "a real frame has the stuff bits of its bits",
                    "use a number for `fill`, or run it with --testbed sim",
                );
            }
            Some(Traffic::Numbered { .. }) | None => {}
        }
        if count.is_some_and(|count| count > MAX_COUNT) {
            let message = format!(
                "`count` is more than {MAX_COUNT}; a guest stores all time stamps in memory"
            );
            let hint = "send fewer frames, with several seeds";
            refusals.refuse(said.origin_of(&["count"]), &message, hint);
        }
        let is_outside = said.tester == Tester::Outside;
        for key in ["datagrams", "period", "link"] {
            let key = ["load", key];
            if !is_outside && said.says(&key) {
                let message = "this is for a station outside of the guest";
                let hint =
                    "remove it, or what puts the tester inside: vm.tester = \"inside\", or CAN FD";
                refusals.refuse(said.origin_of(&key), message, hint);
            }
        }
        let is_ping = said.load_size.ethernet.datagrams == Datagrams::Ping;
        if is_outside && is_ping && said.says(&["load", "period"]) {
            let message = "a flood ping has no period: it waits for answers";
            let hint = "remove `period`, or use datagrams = \"echo\"";
            refusals.refuse(said.origin_of(&["load", "period"]), message, hint);
        }
        let has_fd = self.network.buses.iter().any(|bus| bus.is_fd);
        if has_fd && said.machine.controller == Some(Controller::Sja1000) {
            let message = "a bus has CAN FD, but the SJA1000 does not support it";
            let hint = "use controller = \"ctucanfd\"";
            refusals.refuse(said.origin_of(&["vm", "controller"]), message, hint);
        }
        let wants_fd = has_fd || said.machine.controller == Some(Controller::CtuCanFd);
        if wants_fd && said.tester == Tester::Outside {
            let message =
                "a tester outside has SJA1000 controllers only, which do not support CAN FD";
            let hint = "use tester = \"inside\", or buses without data_bitrate and controller = \"sja1000\"";
            refusals.refuse(said.origin_of(&["vm", "tester"]), message, hint);
        }
    }

    /// The driver of the gateway's controllers.
    fn hosts_driver(&self, said: &Said<'_>, refusals: &mut Refusals<'_>) {
        let kind = said.gateway.as_ref().map(|gateway| gateway.kind);
        if said.machine.driver == Driver::Kernel {
            if kind == Some(Kind::CandorCan) {
                let message =
                    "the gateway in the interrupt handler is part of the driver candor_can";
                let origin = said.origin_of(&["gateway", "kind"]);
                refusals.refuse(origin, message, "write vm.driver = \"candor_can\"");
            }
            return;
        }
        let origin = said.origin_of(&["vm", "driver"]);
        if said.tester != Tester::Outside {
            let message =
                "the tester inside uses the driver of the kernel, which candor_can replaces";
            refusals.refuse(
                origin,
                message,
                "remove what puts the tester inside: vm.tester = \"inside\", or CAN FD",
            );
        }
        if said.machine.controller == Some(Controller::CtuCanFd) {
            let message = "candor_can is a driver of the SJA1000";
            refusals.refuse(origin, message, "remove vm.controller");
        }
        if kind.is_some_and(|kind| !matches!(kind, Kind::User | Kind::CandorCan | Kind::Reader)) {
            let message = "only the read/write loop, the gateway in the interrupt handler and the reader use the devices of candor_can";
            refusals.refuse(
                origin,
                message,
                "use gateway.kind = \"user\", \"candor_can\" or \"reader\"",
            );
        }
        let mut rates = self.network.buses.iter().map(|bus| bus.timing.nominal);
        let first = rates.next();
        if rates.any(|rate| Some(rate) != first) {
            let message = "candor_can starts both controllers with the same bit rate";
            refusals.refuse(origin, message, "give both buses the same bitrate");
        }
    }
}

/// The gateway and its settings.
fn hosts_gateway(said: &Said<'_>, gateway: &keys::Said<'_>, refusals: &mut Refusals<'_>) {
    if gateway.port.is_some() && gateway.receive_buffer.is_some() {
        let message = "`receive_buffer` is for the ports that a gateway has without `port`";
        let hint = "write it into `port`, such as \"{interface}?buffer=4096\"";
        refusals.refuse(said.origin_of(&["gateway", "receive_buffer"]), message, hint);
    }
    if gateway.port.is_some() && gateway.kind != Kind::Live {
        let message = "only the live gateway has ports of a chosen kind";
        let hint = "use kind = \"live\", or remove `port`";
        refusals.refuse(said.origin_of(&["gateway", "port"]), message, hint);
    }
    if gateway.depth.is_some_and(|depth| depth > MAX_TX_QUEUE) {
        let message = format!("Linux gives an interface a queue of {MAX_TX_QUEUE} frames at most");
        let hint = "use a shorter one, or run it with --testbed sim";
        refusals.refuse(said.origin_of(&["gateway", "tx_queue"]), &message, hint);
    }
    if gateway.kind == Kind::Reader && said.tester != Tester::Outside {
        let message =
            "a reader is measured against the bus, which takes no time with a tester inside";
        let hint = "remove what puts the tester inside: vm.tester = \"inside\", or CAN FD";
        refusals.refuse(said.origin_of(&["gateway", "kind"]), message, hint);
    }
    if gateway.delay.is_some() {
        let message = "a gateway of constant delay exists only in simulation";
        let hint = "use gateway.kind instead of gateway.delay";
        refusals.refuse(said.origin_of(&["gateway", "delay"]), message, hint);
    }
    if gateway.discipline == Some(Discipline::Priority) {
        let message = "the queues of Linux interfaces are first in, first out";
        let hint = "remove gateway.egress, or run it with --testbed sim";
        refusals.refuse(said.origin_of(&["gateway", "egress"]), message, hint);
    }
    if gateway.has_rules {
        match gateway.kind {
            Kind::User => refusals.refuse(
                gateway.rules_origin,
                "the read/write loop forwards every frame and ignores rules",
                "use kind = \"live\" to run rules in user space",
            ),
            Kind::Command => refusals.refuse(
                gateway.rules_origin,
                "a command does not read rules",
                "configure it with gateway.command and gateway.files",
            ),
            Kind::Reader => refusals.refuse(
                gateway.rules_origin,
                "a reader passes nothing on",
                "remove `rules` and `generate`, or use another kind",
            ),
            _ => {}
        }
    }
}

/// Frames at given instants, which a tester outside alone sends.
fn hosts_senders_outside(said: &Said<'_>, refusals: &mut Refusals<'_>) {
    let kind = said.origin_of(&["traffic", "kind"]);
    let mut refuse = |message: &str, hint: &str| refusals.refuse(kind, message, hint);
    if said.tester != Tester::Outside {
        let message = "a tester inside sends numbered frames only";
        let hint = "remove what puts the tester inside: vm.tester = \"inside\", or CAN FD";
        refuse(message, hint);
    }
    if said.gateway.as_ref().is_some_and(|it| it.kind == Kind::Reader) {
        let message = "a reader is measured with one sender, whose frames keep their order";
        refuse(message, "use another gateway.kind, or traffic.kind = \"open-loop\"");
    }
}

/// The senders of periodic messages, all outside of the guest.
fn hosts_nodes(nodes: &[Node], said: &Said<'_>, refusals: &mut Refusals<'_>) {
    hosts_senders_outside(said, refusals);
    let kind = said.origin_of(&["traffic", "kind"]);
    let mut refuse = |message: &str, hint: &str| refusals.refuse(kind, message, hint);
    if nodes.len() > MOST_SENDERS {
        let message = format!(
            "there are {} nodes, but {MOST_SENDERS} can be outside of a guest",
            nodes.len()
        );
        refuse(&message, "list fewer nodes under traffic.nodes, or run it with --testbed sim");
    }
    if let Some(node) = nodes.iter().find(|node| node.bus != 0) {
        let message =
            format!("node `{}` is not on the first bus, the only one with senders", node.name);
        refuse(&message, "list nodes of the first bus only, or run it with --testbed sim");
    }
    let of_priority =
        |node: &&Node| node.messages.len() > 1 && node.queue.discipline == Discipline::Priority;
    if let Some(node) = nodes.iter().find(of_priority) {
        let message = format!(
            "node `{}` sends the most urgent message first; outside of a guest queues are first in, first out",
            node.name
        );
        refuse(&message, "write queue = \"fifo\" under [traffic], or run it with --testbed sim");
    }
    let mut messages = nodes.iter().flat_map(|node| &node.messages);
    if let Some(message) = messages.clone().find(|it| it.length < 2) {
        let name = &message.name;
        let message = format!(
            "message `{name}` has no room for the number of a frame, its first two bytes of data"
        );
        refuse(&message, "give it a length of 2 or more, or run it with --testbed sim");
    }
    if messages.any(|it| it.payload == Payload::Worst) {
        let message = "a real frame has the stuff bits of its bits";
        refuse(message, "use a number for `fill`, or run it with --testbed sim");
    }
}

fn hosts_rules(
    (samples, meets_any): (&[(u16, Frame)], bool),
    gateway: &keys::Said<'_>,
    rules: &Table,
    refusals: &mut Refusals<'_>,
) {
    if gateway.kind == Kind::Kernel {
        let reasons = match keys::too_few_hops(rules) {
            Some(reason) => vec![reason],
            None => keys::beyond_can_gw(rules),
        };
        for reason in reasons {
            refusals.refuse(gateway.rules_origin, &reason, "use kind = \"live\"");
        }
    }
    if gateway.kind == Kind::CandorCan {
        for reason in keys::beyond_candor_can(rules) {
            refusals.refuse(gateway.rules_origin, &reason, "remove it from the rules");
        }
    }
    if let Some(rule) = changes_number(rules, samples, meets_any) {
        let message = format!(
            "rule `{rule}` changes the first two data bytes, which contain the number of the frame"
        );
        refusals.refuse(gateway.rules_origin, &message, "let rules change only other bytes");
    }
}

/// Frames with numbers that have bits of both values in every place, with each identifier.
fn samples(traffic: Option<&Traffic>, nodes: &[Node]) -> Vec<(u16, Frame)> {
    const NUMBERS: [u16; 4] = [0x0000, 0xFFFF, 0x5A69, 0xA596];
    let of_number = |number: u16| -> Vec<Option<Frame>> {
        match traffic {
            Some(Traffic::Numbered { frames, .. }) => {
                let ids = 0..frames.can_ids.len().max(1);
                ids.map(|id| frames.with_id(number.into(), id)).collect()
            }
            Some(Traffic::Periodic) => {
                let messages = nodes.iter().flat_map(|node| &node.messages);
                let data = [[0; 64], [0xA5; 64]];
                let frames = messages.flat_map(|it| data.map(|data| it.frame(&data)));
                frames.map(|it| numbered(&it?, number.into())).collect()
            }
            // Which identifiers it has is known when it is read: any rule may meet a frame.
            Some(Traffic::Replay { .. }) => [[0; 8], [0xA5; 8]]
                .map(|data| numbered(&Frame::from_parts(0, &data, None).ok()?, number.into()))
                .into(),
            None => Vec::new(),
        }
    };
    NUMBERS
        .iter()
        .flat_map(|&number| of_number(number).into_iter().flatten().map(move |it| (number, it)))
        .collect()
}

/// A rule that would change the number of a frame that it may meet: one that it matches, or any.
fn changes_number<'a>(
    rules: &'a Table,
    samples: &[(u16, Frame)],
    meets_any: bool,
) -> Option<&'a str> {
    let is_virtual = |rule: &candor_engine::Rule| {
        rules.buses.get(usize::from(rule.from.0)).is_some_and(|bus| bus.is_virtual)
    };
    let changes = |rule: &&candor_engine::Rule| {
        rule.edit.modifies()
            && samples.iter().any(|(number, frame)| {
                // On a virtual bus frames have other identifiers than at first.
                (meets_any || is_virtual(rule) || rule.matches(frame))
                    && rule.edit.apply(frame).is_ok_and(|edited| {
                        candor_lat::pairing::number_of(edited.data()) != Some(*number)
                    })
            })
    };
    rules.rules.iter().find(changes).map(|rule| rule.name.as_str())
}
