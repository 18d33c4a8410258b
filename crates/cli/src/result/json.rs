//! What commands print that measure.

use candor_lat::Figures;

use super::Saved;
use crate::json::objects;

/// The worlds in which something is measured.
const TESTBEDS: [&str; 4] = ["sim", "vm", "host", "live"];

objects! {
    /// What was measured; `sent` is the sum of `received`, `not_routed`, `refused` and `lost`.
    "result" of "lab run", "ping", "tte analyze", "tte run" for Saved<'_> as it {
        /// The name of the experiment, with its seed if it has several
        experiment = it.result.experiment;
        /// The name of the experiment, without the seed
        group = it.result.group();
        /// The seed
        seed = it.result.seed;
        /// Where it ran: live are real buses and networks
        testbed [TESTBEDS.into_iter()] = it.result.testbed;
        /// Whether the result was in the cache
        cached;
        /// Frames sent
        sent = it.result.counts.sent;
        /// Frames of which a copy arrived
        received = it.result.counts.received;
        /// Frames that no rule took
        not_routed = it.result.counts.not_routed;
        /// Frames that the rules refused
        refused = it.result.counts.refused;
        /// Frames that a rule took, or that never got to the rules, and that did not arrive
        lost = it.result.counts.lost;
        /// Further copies of frames that arrived
        duplicated = it.result.counts.duplicated;
        /// Copies that arrived behind a later frame
        reordered = it.result.counts.reordered;
        /// Of the received ones, those that came too late
        late = it.result.counts.late;
        /// The latencies that it has, by metric, as docs/experiments.md lists them; a metric is absent if no frame
        /// has it
        metrics = it.result.metrics;
        /// What is known besides, such as the loads of buses: tables, as docs/experiments.md lists them
        sections = it.result.sections;
        /// The file with everything about the result; null if it is not kept
        file;
    }

    /// The figures of a latency.
    Figures as it {
        /// Frames that were measured
        count;
        /// The shortest latency, in ns
        min_ns;
        /// Half of the latencies are at most this, in ns
        p50_ns;
        /// 90 of 100 latencies are at most this, in ns
        p90_ns;
        /// 99 of 100 latencies are at most this, in ns
        p99_ns;
        /// 999 of 1,000 latencies are at most this, in ns
        p999_ns;
        /// The longest latency, in ns
        max_ns;
        /// The mean, in ns
        mean_ns;
        /// The standard deviation, in ns
        stddev_ns;
    }
}
