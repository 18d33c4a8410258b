//! `candor network bound --sensitivity`: how much slower buses and longer messages may become.

use candor_network::bound::sensitivity::{Trouble, longest, slowest};
use candor_network::{Bus, Message};
use candor_output::say;
use candor_wire::can::Timing;

use super::Names;
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, print};

/// The lowest bit rate with which all holds.
pub(crate) struct SlowerBus<'a> {
    pub(crate) bus: &'a Bus,
    pub(crate) timing: Timing,
    /// What breaks with less.
    pub(crate) breaks: String,
}

/// The longest that a message may become.
pub(crate) struct LongerMessage<'a> {
    pub(crate) message: &'a Message,
    /// More bits at the nominal bit rate.
    pub(crate) bits: u32,
    /// What breaks with one more.
    pub(crate) breaks: String,
}

/// Shows how much worse everything may become; `false` if the network does not hold as it is.
pub(super) fn run(names: &Names<'_>, is_json: bool) -> Answer {
    let (network, flows) = (names.network, names.flows);
    if let Some(trouble) = names.bounds.trouble(network, flows) {
        say!("{}; see without --sensitivity", names.trouble(trouble));
        return Ok(false);
    }
    let slower = network.buses.iter().enumerate().filter_map(|(index, bus)| {
        let (timing, trouble) = slowest(network, flows, index)?;
        Some(SlowerBus { bus, timing, breaks: names.trouble(trouble) })
    });
    let slower: Vec<_> = slower.collect();
    let mut longer = Vec::new();
    for (node, sender) in network.nodes.iter().enumerate() {
        for (index, message) in sender.messages.iter().enumerate() {
            if let Some((bits, trouble)) = longest(network, flows, (node, index)) {
                longer.push(LongerMessage { message, bits, breaks: names.trouble(trouble) });
            }
        }
    }
    longer.sort_by_key(|it| it.bits);
    if is_json {
        print(&(lines(&slower)? + &lines(&longer)?))?;
        return Ok(true);
    }
    let buses = Table::of(&slower)
        .column("bus", |it| it.bus.name.clone())
        .column(">bit rate", |it| it.bus.timing.nominal.to_string())
        .column(">at least", |it| it.timing.nominal.to_string())
        .column("with less", |it| it.breaks.clone())
        .text();
    let messages = Table::of(&longer)
        .column("message", |it| it.message.name.clone())
        .column(">bytes", |it| it.message.length.to_string())
        .column(">more bits at most", |it| it.bits.to_string())
        .column("with one more", |it| it.breaks.clone())
        .text();
    print(&format!("{buses}\n{messages}"))?;
    Ok(true)
}

impl Names<'_> {
    /// What does not hold, in a few words.
    fn trouble(&self, trouble: Trouble) -> String {
        match trouble {
            Trouble::Late(flow) => format!("{} is late", self.flow(flow)),
            Trouble::Overflow(queue) => {
                let sender = self.bounds.queues.get(queue).map(|it| self.queue(it.sender));
                let (sender, bus) = sender.unwrap_or_default();
                format!("the queue of {sender} on {bus} is too short")
            }
        }
    }
}
