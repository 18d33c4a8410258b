//! What `candor tte` prints.

use candor_tte::schedule::{Departure, Direction};
use candor_tte::{Flow, Hop, Network};

use super::analyze::Interval;
use super::check::{Checked, instant};
use super::model::Row;
use crate::json::objects;

objects! {
    /// What the schedule makes of a direction of a link.
    "tte_direction" of "tte check" for (&Checked, &Direction) as (of, it) {
        /// The link
        link = of.link(it.link);
        /// The node that sends
        from = of.node(it.from);
        /// The node that receives
        to = of.node(it.to);
        /// Time-triggered frames in a cycle, those behind ordinary switches left out
        tt_frames = it.frames(of.network.cycle);
        /// How much of the time is occupied by time-triggered frames, in percent
        tt_percent = it.load.tt * 100.0;
        /// The same for rate-constrained frames that come as often as they may
        rc_percent = it.load.rc * 100.0;
        /// The same for best-effort frames
        be_percent = it.load.be * 100.0;
        /// The longest time that no time-triggered frame can occupy, in ns; null if there are too many frames
        longest_gap_ns = it.longest_gap(of.network.cycle);
    }

    /// When the frames of a time-triggered flow leave a node.
    "tte_instant" of "tte check" for (&Checked, &Flow, &Hop, Departure) as (of, flow, hop, departure) {
        /// The flow
        flow = flow.name;
        /// The distance of two frames in ns
        period_ns = flow.period().unwrap_or_default();
        /// The link
        link = of.link(hop.link);
        /// The node that sends
        from = of.node(hop.from);
        /// The node that receives
        to = of.node(hop.to);
        /// The instant of the first bit in ns, from the begin of the period in which the frame was sent; null
        /// behind an ordinary switch, where no instant holds
        at_ns = instant(*departure);
    }

    /// How many findings there are; it comes last.
    "summary" of "tte check" for (&str, Option<&Checked>, [usize; 2]) as (file, it, counts) {
        /// The network file
        file = file;
        /// The cycle in ns; null if the file describes no network
        cycle_ns = it.map(|it| it.network.cycle);
        /// The number of time-triggered flows; null if the file describes no network
        flows = it.map(|it| it.flows().count());
        /// The number of errors
        errors = counts[0];
        /// The number of warnings
        warnings = counts[1];
    }

    /// The latency that the schedule gives to the frames of a flow at a receiver.
    "tte_latency" of "tte model" for (&Network, &Row) as (network, it) {
        /// The flow
        flow = network.flows[it.index].name;
        /// The receiver
        receiver = network.nodes[it.receiver].name;
        /// The size of a frame in bytes, with header and check sequence
        size = it.size;
        /// Switches on the way
        switches = it.latency.switches;
        /// On wires, in ns
        wires_ns = it.latency.wires;
        /// The transmission on the last link, in ns
        transmission_ns = it.latency.transmission;
        /// In switches, each from the first bit in to the first bit out, in ns
        relays_ns = it.latency.relays;
        /// The sum, in ns
        latency_ns = it.latency.total();
        /// The same with a transmission for each switch, as equation 3 of Bartols and others (2011) is printed, in
        /// ns
        equation_3_ns = it.latency.equation_3();
        /// At how many switches some frames are not ready at their instant: then they are a period later than this
        misses = it.latency.misses;
    }

    /// What was seen in an interval, of all flows together.
    "interval" of "tte analyze" for Interval<'_> as it {
        /// When the interval ended, in ns since the begin
        time_ns = it.time;
        /// Frames that arrived, duplicates left out
        received = it.totals.received - it.last.received;
        /// Frames that were lost, less those that came behind a later one
        lost = it.lost();
        /// Frames that arrived once more
        duplicated = it.totals.duplicated - it.last.duplicated;
        /// Frames that arrived behind a later one
        reordered = it.totals.reordered - it.last.reordered;
        /// The shortest latency, in ns; null if there is none
        latency_ns_min = it.latencies_ns.first();
        /// Half of them are at most this, in ns
        latency_ns_p50 = it.quantile(50);
        /// 99 of 100 are at most this, in ns
        latency_ns_p99 = it.quantile(99);
        /// The longest of them, in ns
        latency_ns_max = it.latencies_ns.last();
    }
}
