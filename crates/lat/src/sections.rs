//! The sections that results have: each with its title, its columns and their units.

use crate::section::{Column, SectionKind, Shown, Unit};

/// All of them, in the order in which they are shown.
pub static ALL: [&SectionKind; 18] = [
    &BUSES,
    &PING,
    &LINKS,
    &CLOCKS,
    &UNMARKED,
    &INSTRUMENT,
    &SERVICE,
    &PROCESSES,
    &HOST,
    &RULES,
    &FLOW,
    &ANALYSIS,
    &SCHEDULE,
    &EFFORT,
    &COLD,
    &STATION,
    &MACHINE,
    &MESSAGES,
];

/// A column; a short name keeps a table of them readable.
const fn column(key: &'static str, label: &'static str, unit: Unit) -> Column {
    Column::new(key, label, unit)
}

/// CAN buses.
pub static BUSES: SectionKind = SectionKind {
    key: "buses",
    title: "Buses",
    columns: &[
        column("name", "bus", Unit::Text),
        column("bitrate", "bit rate", Unit::BitsPerSecond),
        column("data_bitrate", "data bit rate", Unit::BitsPerSecond),
        // Those that got through.
        column("frames", "frames", Unit::Frames),
        // Intermission and error frames included.
        column("load_percent", "load", Unit::Percent),
        // Frames destroyed by errors.
        column("error_frames", "error frames", Unit::Frames),
        // How often a controller went bus-off.
        column("bus_offs", "bus-offs", Unit::Count),
        // How often nodes began frames with the same identifier at once, which CAN forbids.
        column("id_collisions", "id collisions", Unit::Count),
    ],
    shown: Shown::Everywhere,
};

/// Rules, and each of their destinations.
pub static RULES: SectionKind = SectionKind {
    key: "rules",
    title: "Rules",
    columns: &[
        column("name", "rule", Unit::Text),
        column("to", "to", Unit::Text),
        // Copies that its queue took.
        column("handled", "handled", Unit::Frames),
        column("refused", "refused", Unit::Frames),
        column("lost", "lost", Unit::Frames),
    ],
    shown: Shown::Report,
};

/// Messages of periodic traffic, and identifiers of numbered frames.
pub static MESSAGES: SectionKind = SectionKind {
    key: "messages",
    title: "Messages",
    columns: &[
        column("name", "message", Unit::Text),
        // Such as `0x123`, or `0x18FEF100x` for an extended one.
        column("id", "id", Unit::Text),
        column("node", "node", Unit::Text),
        column("bus", "bus", Unit::Text),
        // Frames that ended in some way.
        column("sent", "sent", Unit::Frames),
        // Frames of which a copy arrived.
        column("received", "received", Unit::Frames),
        column("response_time", "response", Unit::Nanoseconds),
        column("end_to_end", "end to end", Unit::Nanoseconds),
    ],
    shown: Shown::Report,
};

/// What an experiment in a guest took, and how well its tester worked. Times are CPU time, interrupts that hit the
/// process included.
pub static EFFORT: SectionKind = SectionKind {
    key: "effort",
    title: "Effort",
    columns: &[
        // Of a user-space gateway.
        column("gateway_cpu_ns", "CPU time of the gateway's process", Unit::Nanoseconds),
        // For each frame that arrived.
        column(
            "gateway_instructions",
            "its instructions per frame that arrived",
            Unit::Instructions,
        ),
        // How often it gave up the CPU, and how often the CPU was taken from it.
        column("gateway_waits", "its waits", Unit::Count),
        column("gateway_preemptions", "its preemptions", Unit::Count),
        column("sender_cpu_ns", "CPU time of the tester's sender", Unit::Nanoseconds),
        column("latest_departure_ns", "latest departure", Unit::Nanoseconds),
        // Replies that the flood ping got, and messages that hackbench passed.
        column("ping_replies", "ping replies", Unit::Count),
        column("hackbench_messages", "hackbench messages", Unit::Count),
        // Frames that arrived although nobody had sent them, or too late.
        column("unknown", "unknown frames", Unit::Frames),
    ],
    shown: Shown::Everywhere,
};

/// The machine of QEMU: as `candor_vm` identifies it.
pub static MACHINE: SectionKind = SectionKind {
    key: "machine",
    title: "Machine",
    columns: &[
        column("kernel", "kernel", Unit::Text),
        column("release", "Linux", Unit::Text),
        column("package", "package", Unit::Text),
        column("kernel_sha256", "kernel and modules, sha256", Unit::Text),
        column("guest_sha256", "guest program, sha256", Unit::Text),
        column("qemu", "QEMU", Unit::Text),
        column("qemu_sha256", "QEMU, sha256", Unit::Text),
        column("plugin_sha256", "plugin that counts, sha256", Unit::Text),
        column("bus", "time of buses", Unit::Text),
        column("timed_bus_sha256", "plugin with the buses, sha256", Unit::Text),
        column("flags", "options", Unit::Text),
        // An instruction lasts 2 to the power of this, in nanoseconds.
        column("shift", "shift", Unit::Count),
        // Million instructions per second.
        column("mips", "MIPS", Unit::Count),
    ],
    shown: Shown::Report,
};

/// The frames of the warm-up, one at a time before those that count: some of them are what makes a path take memory for the
/// first time.
pub static COLD: SectionKind = SectionKind {
    key: "cold",
    title: "Cold frames",
    columns: &[
        column("cold_frames", "frames", Unit::Frames),
        column("cold_received", "received", Unit::Frames),
        column("cold_latency", "gateway latency", Unit::Nanoseconds),
    ],
    shown: Shown::Everywhere,
};

/// What a station counted that loads a guest over Ethernet, from outside of the guest.
pub static STATION: SectionKind = SectionKind {
    key: "station",
    title: "Ethernet load",
    columns: &[
        column("datagrams", "datagrams sent", Unit::Count),
        column("answers", "whole answers", Unit::Count),
        // At the guest's card, and those for which the card had no room.
        column("frames", "frames at the card", Unit::Frames),
        column("refused", "frames without room in the card", Unit::Frames),
        column("received", "frames of the guest", Unit::Frames),
        // From the begin of the request to the end of the answer.
        column("round_trip_ns_p50", "round trip p50", Unit::Nanoseconds),
        column("round_trip_ns_p99", "round trip p99", Unit::Nanoseconds),
        column("round_trip_ns_max", "round trip max", Unit::Nanoseconds),
    ],
    shown: Shown::Report,
};

/// What the signal service did.
pub static SERVICE: SectionKind = SectionKind {
    key: "service",
    title: "Service",
    columns: &[
        // Frames that became events.
        column("events", "events", Unit::Count),
        column("datagram_bytes", "bytes of UDP", Unit::Bytes),
        // What a subscriber got for each event, headers of the WebSocket included.
        column("bytes_per_event", "bytes per event", Unit::Bytes),
        column("subscribers", "subscribers", Unit::Count),
    ],
    shown: Shown::Report,
};

/// CPU time of processes by what they are for, as the kernel accounts it.
pub static PROCESSES: SectionKind = SectionKind {
    key: "processes",
    title: "Processes",
    columns: &[
        // Such as `server`, `subscriber`.
        column("name", "process", Unit::Text),
        column("processes", "processes", Unit::Count),
        // Of all of them together.
        column("cpu_ns", "CPU time", Unit::Nanoseconds),
        column("cpu_per_event_ns", "per event", Unit::Nanoseconds),
        // Of all processors, while frames were sent.
        column("cpu_percent", "of all processors", Unit::Percent),
    ],
    shown: Shown::Everywhere,
};

/// The machine that processes ran on.
pub static HOST: SectionKind = SectionKind {
    key: "host",
    title: "This machine",
    columns: &[
        column("cpu", "processor", Unit::Text),
        column("cpus", "processors", Unit::Count),
        // The release.
        column("kernel", "Linux", Unit::Text),
        column("clock", "clock", Unit::Text),
        // Time that all processes used, those of the experiment included, of all processors.
        column("busy_percent", "busy", Unit::Percent),
        // Time that the hypervisor gave to others, of all processors.
        column("stolen_percent", "stolen", Unit::Percent),
    ],
    shown: Shown::Everywhere,
};

/// A flow of time-triggered frames: what the schedule gives it, and what it got.
pub static FLOW: SectionKind = SectionKind {
    key: "flow",
    title: "Flow",
    columns: &[
        column("flow", "flow", Unit::Text),
        column("receiver", "receiver", Unit::Text),
        // Of its frames, with header and check sequence.
        column("size", "size", Unit::Bytes),
        // The distance of two frames.
        column("period_ns", "period", Unit::Nanoseconds),
        // The sum of the relay delays, each from the first bit in to the first bit out.
        column("relay_delay_ns", "relay delays", Unit::Nanoseconds),
        // The latency that follows from the schedule, and equation 3 as it is printed (Bartols and others, 2011), which
        // differs from it where there are several switches.
        column("model_ns", "model", Unit::Nanoseconds),
        column("equation_3_ns", "equation 3", Unit::Nanoseconds),
        // Where latencies begin: `frame` or `preamble`.
        column("framing", "from", Unit::Text),
        // What was published for these conditions.
        column("published_ns", "published", Unit::Nanoseconds),
        // The largest latency less the smallest.
        column("jitter_ns", "jitter", Unit::Nanoseconds),
        // Differences between the latencies of frames that follow one another (RFC 3393), without their sign.
        column("ipdv", "delay variation", Unit::Nanoseconds),
        // Of the schedule.
        column("cycle_ns", "cycle", Unit::Nanoseconds),
    ],
    shown: Shown::Everywhere,
};

/// Where frames of a time-triggered network were seen.
pub static ANALYSIS: SectionKind = SectionKind {
    key: "analysis",
    title: "Analysis",
    columns: &[
        // The port behind the network.
        column("interface", "behind the network", Unit::Text),
        // The port before it, unless latencies count from the instants of the schedule.
        column("source", "before it", Unit::Text),
        // Frames that the port before the network did not see.
        column("unmatched", "unmatched", Unit::Frames),
        // When time-triggered frames came, from the begin of their period; with one port.
        column("position", "in the period at", Unit::Nanoseconds),
        // Frames that came outside of their receive window.
        column("outside", "outside of the window", Unit::Frames),
        // Frames of another size than their flow, or with a VLAN tag.
        column("misshapen", "of another size or tagged", Unit::Frames),
    ],
    shown: Shown::Everywhere,
};

/// Round trips.
pub static PING: SectionKind = SectionKind {
    key: "ping",
    title: "Ping",
    columns: &[
        // Identifiers in hex, as candump writes them.
        column("request", "request", Unit::Text),
        column("answer", "answer", Unit::Text),
        // Requests that still waited for their answer at the end.
        column("waiting", "still waiting", Unit::Frames),
        // Frames with the identifier of an answer, but with other data than any request.
        column("strange", "strange frames", Unit::Frames),
        // Of the shortest round trips that the bus allows, by the exact lengths of the frames that were answered: the
        // shortest and the longest; and by how much round trips exceed that of their frames.
        column("wire_ns_min", "the bus allows", Unit::Nanoseconds),
        column("wire_ns_max", "and at most", Unit::Nanoseconds),
        column("above_wire", "above that", Unit::Nanoseconds),
        // How long after they were due requests were sent (open loop).
        column("sent_late", "sent late by", Unit::Nanoseconds),
    ],
    shown: Shown::Everywhere,
};

/// How far clocks were apart.
pub static CLOCKS: SectionKind = SectionKind {
    key: "clocks",
    title: "Clocks",
    columns: &[
        // Of any two nodes in each integration cycle, over the cycles.
        column("clock_difference", "largest difference", Unit::Nanoseconds),
        // As the network file states it.
        column("precision_ns", "stated precision", Unit::Nanoseconds),
    ],
    shown: Shown::Everywhere,
};

/// How much of the time links were occupied, each way, preambles and gaps included.
pub static LINKS: SectionKind = SectionKind {
    key: "links",
    title: "Links",
    columns: &[
        column("link", "link", Unit::Text),
        // The node that sends.
        column("from", "from", Unit::Text),
        column("load_percent", "load", Unit::Percent),
    ],
    shown: Shown::Everywhere,
};

/// What time-triggered frames occupy in a cycle of the schedule, for each direction of a link.
pub static SCHEDULE: SectionKind = SectionKind {
    key: "schedule",
    title: "Schedule",
    columns: &[
        column("link", "link", Unit::Text),
        column("from", "from", Unit::Text),
        column("to", "to", Unit::Text),
        // Rows with `flow`, and from when until when the link is occupied: `begin_ns` is the preamble, and half of the
        // jitter before it; `end_ns` is behind the gap, and half of the jitter. It may be behind the end of the cycle.
        column("frames", "frames", Unit::Frames),
    ],
    // The report draws it.
    shown: Shown::Nowhere,
};

/// What measured time-triggered frames on this machine, and how well it could.
pub static INSTRUMENT: SectionKind = SectionKind {
    key: "instrument",
    title: "Instrument",
    columns: &[
        // By how much the stamps at both ends of a pair of interfaces differ without a switch.
        column("bias_ns", "taken off each latency", Unit::Nanoseconds),
        // How long a frame takes from a program to its interface.
        column("advance_ns", "handed over earlier by", Unit::Nanoseconds),
        // Frames during which the thread that sent or relayed them was stopped for 20 us or more.
        column("marked", "marked frames", Unit::Frames),
        column("send_stops", "stops of the thread that sends", Unit::Count),
        column("send_longest_stop_ns", "the longest of them", Unit::Nanoseconds),
        column("relay_stops", "stops of threads that relay", Unit::Count),
        column("relay_longest_stop_ns", "the longest of these", Unit::Nanoseconds),
        // Without a stamp of the kernel at one end.
        column("unstamped", "frames without a stamp", Unit::Frames),
        column("others", "frames of other flows relayed", Unit::Frames),
    ],
    shown: Shown::Everywhere,
};

/// Latencies of the frames that are not marked.
pub static UNMARKED: SectionKind = SectionKind {
    key: "unmarked",
    title: "Frames that are not marked",
    columns: &[
        column("network_latency", "network latency", Unit::Nanoseconds),
        column("residual", "residual", Unit::Nanoseconds),
    ],
    shown: Shown::Everywhere,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A claim finds a value by the word of its column, so the same word counts the same everywhere.
    #[test]
    fn a_word_has_one_unit() {
        let mut units = BTreeMap::new();
        let columns = ALL.iter().flat_map(|kind| kind.columns);
        for column in columns.filter(|column| column.unit != Unit::Text) {
            let unit = *units.entry(column.word()).or_insert(column.unit);
            assert_eq!(unit, column.unit, "{}", column.key);
        }
    }
}
