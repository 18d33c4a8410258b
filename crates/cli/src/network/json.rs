//! What `candor network` prints.

use candor_network::flow::Load;
use candor_network::{Bus, Discipline, Network, Node, show_id};

use super::Reached;
use super::bound::{Assigned, InQueue, Late, LongerMessage, SlowerBus, Step, Verdict, WaitsFor};
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

    /// How late a message can be on a bus: where it is sent, or where gateways forward it to. Times are upper bounds if nothing
    /// else is said.
    "message" of "network bound" for Late<'_> as it {
        /// The name of the message
        message = it.reached.message.name;
        /// The node that sends it
        node = it.reached.node.name;
        /// The bus that it is sent on
        from = it.reached.from;
        /// The bus that this object is about
        bus = it.reached.bus.name;
        /// The identifier on this bus in hex; an extended one ends in x
        id = show_id(it.reached.flow.frame.can_id());
        /// The gateways that it has passed, in order; empty on the bus that it is sent on
        gateways = it.reached.gateways;
        /// The longest transmission on this bus in ns, intermission included
        longest_ns = it.bound().map(|it| it.longest_ns);
        /// How late a frame may be queued on this bus in ns: the jitter of the message, or what its way adds
        jitter_ns = it.bound().map(|it| it.jitter_ns);
        /// The time for which a less urgent frame blocks it in ns
        blocking_ns = it.bound().map(|it| it.response.blocking_ns);
        /// The message whose frame that is; null if there is none
        blocked_by = it.blocked_by;
        /// The time of all other frames that it waits for in ns
        interference_ns = it.interference_ns();
        /// The time on this bus in ns, from when a frame is released there at the earliest, to its end with intermission
        response_ns = it.bound().map(|it| it.response.response_ns);
        /// The least time from the release of the message to the end of the frame on this bus in ns
        best_ns = it.bound().map(|it| it.best_ns);
        /// The time from the release of the message to the end of the frame on this bus in ns; null if it has no bound
        worst_ns = it.bound().map(|it| it.worst_ns);
        /// By when it must have arrived after its release in ns
        deadline_ns = it.deadline_ns;
        /// How much earlier than that it arrives in ns; below 0 if it can be late
        slack_ns = it.slack_ns();
        /// Whether it arrives in time
        verdict = it.verdict();
        /// Why it has no bound; null if it has one
        reason;
    }

    /// How many frames a transmit queue holds at worst.
    "queue" of "network bound" for InQueue<'_> as it {
        /// The node or the gateway that it is of
        sender;
        /// The bus that it sends on
        bus;
        /// The order in it
        queue = it.bound.queue.discipline;
        /// How many frames it holds
        queue_depth = it.bound.queue.depth;
        /// How many frames are in it at worst, the one on the bus included; null if there is no bound
        frames = it.bound.frames;
        /// Whether it can lose frames
        overflows = it.bound.overflows();
    }

    /// A part of the way of a message to a bus, with --explain; those of a way come in their order, and their sums are the
    /// bounds.
    "step" of "network bound" for Step as it {
        /// The name of the message
        message;
        /// The bus at the end of the way
        bus;
        /// What happens: it is released late, is in a gateway, waits for a bus, or is sent on it
        step;
        /// How long that takes at least in ns
        least_ns;
        /// How long that takes at most in ns
        most_ns;
        /// The message whose less urgent frame blocks it; null if none does
        blocked_by;
        /// The frames that are sent before it otherwise
        waits_for;
    }

    /// How slow a bus may become, with --sensitivity.
    "slower_bus" of "network bound" for SlowerBus<'_> as it {
        /// The name of the bus
        bus = it.bus.name;
        /// Its bit rate in bit/s
        bitrate = it.bus.timing.nominal;
        /// The lowest bit rate in bit/s with which all deadlines are met and no queue loses a frame; that of the data is as
        /// much lower
        least_bitrate = it.timing.nominal;
        /// What breaks with less
        breaks;
    }

    /// How long a message may become, with --sensitivity.
    "longer_message" of "network bound" for LongerMessage<'_> as it {
        /// The name of the message
        message = it.message.name;
        /// Its bytes of data
        length = it.message.length;
        /// By how many bits at the nominal bit rate it may become longer so that all deadlines are met and no queue loses a
        /// frame
        more_bits = it.bits;
        /// What breaks with one more
        breaks;
    }

    /// The identifier that a message may get so that all deadlines are met, with --assign.
    "assigned" of "network bound" for Assigned<'_> as it {
        /// The bus
        bus;
        /// The name of the message
        message = it.message.name;
        /// The identifier that it may get in hex; an extended one ends in x
        id = show_id(it.can_id);
        /// The identifier that it has
        old_id = show_id(it.message.can_id);
    }

    /// Frames of a message that another one waits for.
    WaitsFor as it {
        /// The name of the message
        message;
        /// How many
        frames;
    }
}

words! {
    Verdict {
        "met": "no frame is later than its deadline",
        "missed": "a frame can be later than its deadline",
        "no bound": "nobody can say how late it is; `reason` has why"
    }
    Discipline { "fifo": "the oldest first", "priority": "the most urgent first" }
}
