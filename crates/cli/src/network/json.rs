//! What `candor network` prints.

use candor_network::flow::Load;
use candor_network::{Bus, Discipline, Network, Node, show_id};

use super::show::Reached;
use crate::json::{objects, words};

objects! {
    /// The network as a whole.
    "network" of "network show" for Network as it {
        /// Its title; empty if the file has none
        title;
        /// How many buses it has
        buses = it.buses.len();
        /// How many nodes send messages in it
        nodes = it.nodes.len();
        /// How many gateways it has
        gateways = it.gateways.len();
    }

    /// A bus of the network.
    "bus" of "network show" for (&Bus, &Load) as (bus, load) {
        /// The name
        bus = bus.name;
        /// The bit rate in bit/s
        bitrate = bus.timing.nominal;
        /// The bit rate of the data of CAN FD frames in bit/s; that of the others if there is none
        data_bitrate = bus.timing.data;
        /// Whether it carries CAN FD frames
        fd = bus.is_fd;
        /// How many frames it carries in a second
        frames_per_second = load.frames_per_second;
        /// How busy it is in percent, if every frame has as many stuff bits as it may have
        longest_percent = load.longest_share * 100.0;
    }

    /// A node of a bus.
    "node" of "network show" for (&Node, &str) as (node, bus) {
        /// The name
        node = node.name;
        /// Its bus
        bus = bus;
        /// The order of its transmit queue
        queue = node.queue.discipline;
        /// How many frames its transmit queue holds
        queue_depth = node.queue.depth;
        /// How many messages it sends
        messages = node.messages.len();
    }

    /// A message on a bus: where it is sent, or where gateways forward it to.
    "message" of "network show" for Reached<'_> as it {
        /// The name of the message
        message = it.message.name;
        /// The node that sends it
        node = it.node.name;
        /// The bus that it is sent on
        from;
        /// The bus that this object is about
        bus = it.bus.name;
        /// The identifier on this bus in hex; an extended one ends in x
        id = show_id(it.flow.frame.can_id());
        /// Bytes of data on this bus
        length = it.flow.frame.len();
        /// Whether it is a CAN FD frame on this bus
        fd = it.flow.frame.is_fd();
        /// The time from one frame to the next in ns
        period_ns = it.message.period;
        /// When the first frame is sent in ns; null if the file does not say it
        offset_ns = it.message.offset;
        /// How late a frame may be sent in ns
        jitter_ns = it.message.jitter;
        /// The longest time on this bus in ns, intermission included; null if the bus cannot carry it, so that it
        /// is lost
        longest_ns = it.longest();
        /// The gateways that it has passed, in order; empty on the bus that it is sent on
        gateways;
    }
}

words! {
    Discipline { "fifo": "the oldest first", "priority": "the most urgent first" }
}
