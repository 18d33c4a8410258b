//! [`Snapshot`]: what a running gateway tells about itself: the data behind `candor route stats`, its
//! JSON, `/metrics` and `candor route top`.
//!
//! All counts are since the start, over all changes of the rules. Every frame that a bus received is
//! taken by a rule, or [not routed, or refused](PortSnapshot::not_routed) by a list of what is
//! allowed. Every copy of a frame that a rule took is handled, pending, refused or lost; what stopped
//! it is one of [`candor_causes::Cause`].

use std::collections::BTreeMap;

use candor_causes::{Ending, Endings};
use candor_engine::counters::{BusCounters, JobCounters};
use candor_lat::Metric;
use serde::{Deserialize, Serialize};

/// The latency that a running gateway measures, on the path [`TapPath::HOST`](candor_lat::TapPath::HOST):
/// `read` is when the kernel stamped the frame, or where it stamps none, when the gateway had it; `enqueued` is
/// when the destination's port had taken it.
pub const LATENCY: Metric = Metric::HostTime;

/// A running gateway at some time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The file of the rules in use.
    pub file: String,
    /// The process.
    pub pid: u32,
    /// How long it has been running, in ns.
    pub uptime_ns: u64,
    /// How often the rules were changed since.
    pub generation: u64,
    /// Why the rules on disk are not those in use, if they are not.
    pub rejected: Option<String>,
    /// Messages that nobody could read: standard error could not be written, or was full.
    #[serde(default)]
    pub messages_dropped: u64,
    pub ports: Vec<PortSnapshot>,
    /// Its rules: one entry per destination.
    pub rules: Vec<RuleSnapshot>,
    /// How long frames take from port to port.
    pub latencies: Vec<LatencySnapshot>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortSnapshot {
    /// What the rules call it.
    pub bus: String,
    /// Its name, such as `can0`.
    pub port: String,
    /// Whether it works; if not, why.
    pub trouble: Option<String>,
    /// Frames received.
    pub received: u64,
    /// For how long no frame has come, in ns; since its bus is there if none ever came. It is looked once a second whether
    /// some came, so it is at least so long, and at most a second longer. `None` if no rule takes frames of the bus.
    #[serde(default)]
    pub silent_ns: Option<u64>,
    /// Of these, frames that no rule took.
    pub unmatched: u64,
    /// Whether those are refused: the rules are a list of what is allowed.
    pub refuses_unmatched: bool,
    /// Error reports of the controller received.
    pub error_reports: u64,
    /// Frames that were refused because they were malformed, or came in a malformed datagram and could
    /// be read: those before the fault. A broken record of a recording and a place where a TCP stream
    /// cannot be understood count as one frame.
    pub malformed_frames: u64,
    /// Frames that the kernel dropped before they could be received (`SO_RXQ_OVFL`).
    pub overflow_frames: u64,
    /// Datagrams received whose frames were handed over. This and what follows is zero for ports
    /// without datagrams.
    pub received_datagrams: u64,
    /// Datagrams that are none of the format.
    pub malformed_datagrams: u64,
    /// Datagrams that the kernel dropped before they could be received (`SO_RXQ_OVFL`). How many frames
    /// were in them nobody knows.
    pub overflow_datagrams: u64,
    /// Datagrams that never came, by their sequence numbers, without those in `overflow_datagrams`. The
    /// numbers of cannelloni have 8 bits, so of a gap only the remainder modulo 256 is known.
    pub missing_datagrams: u64,
    /// Datagrams that came late or twice.
    pub out_of_order_datagrams: u64,
    /// Datagrams from others than the peer; for TCP, connections that were hung up on: of others than
    /// the peer, without a greeting, or of a silent client whose place another one took.
    pub foreign: u64,
    /// Frames that were received again and again in one second, or more of one identifier than a bus
    /// carries, as frames are that several gateways pass on in a circle.
    pub looping: u64,
    /// Frames that the port took for transmission.
    pub transmitted: u64,
    /// Datagrams sent with them.
    pub transmitted_datagrams: u64,
    /// How often the port had no room for one (`ENOBUFS`, `EAGAIN`).
    pub full: u64,
    /// Frames that were taken and then lost: the peer of a tunnel went away before it acknowledged them,
    /// a recording could not be written to its end, or the interface dropped them while it was taken
    /// down (`tx_dropped`, which counts those of other programs too).
    pub lost: u64,
    /// Frames that wait in its egress queue now.
    pub queued: u64,
    /// The most that ever waited.
    pub most_queued: u64,
    /// How many there is room for.
    pub queue_depth: u64,
    /// How often it was opened again.
    pub reopened: u64,
    /// How much of the last second its bus was busy at least, in percent, if its bit rate is known: by
    /// what the kernel counts on the interface, 47 bits and 8 per byte for a frame. Extended
    /// identifiers and stuff bits come on top; `candor bus load` counts every bit.
    pub least_load_percent: Option<f64>,
    /// The most steps that the driver `candor_can` took for one frame received, in its interrupt handler. This and what follows
    /// is zero for ports that it runs no rules of.
    #[serde(default)]
    pub most_steps: u64,
    /// The most that it could have taken, by the rules and the files that were open.
    #[serde(default)]
    pub step_limit: u64,
    /// The longest time from the interrupt until the rules and the open files had a frame, in ns.
    #[serde(default)]
    pub longest_ns: u64,
}

/// A rule and one of its destinations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleSnapshot {
    /// The name of the rule.
    pub rule: String,
    /// The bus it takes frames from.
    pub from: String,
    /// The bus its copies go to.
    pub to: String,
    /// Who does it: the name of a plane, such as `user`.
    pub plane: String,
    /// Whether it is in use; a rule that was taken out keeps what it counted.
    pub in_use: bool,
    /// Copies that the destination took.
    pub handled: u64,
    /// Copies that wait for it.
    pub pending: u64,
    /// Copies that were stopped, by cause; causes that never occurred are left out.
    pub stopped: BTreeMap<String, u64>,
}

/// How long frames take from one port to another: from the time stamp of the kernel, or where there
/// is none from when the gateway had it, until the destination's port took it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySnapshot {
    /// The bus they came from.
    pub from: String,
    /// The bus they went to.
    pub to: String,
    /// The metric, by its key in the laboratory.
    #[serde(default)]
    pub metric: String,
    /// How many were measured.
    pub count: u64,
    /// Their sum, in ns.
    pub sum_ns: u64,
    pub min_ns: u64,
    /// Half of them were at most this.
    pub p50_ns: u64,
    /// 99 of 100 were at most this.
    pub p99_ns: u64,
    /// 999 of 1000 were at most this.
    pub p999_ns: u64,
    pub max_ns: u64,
    /// The same, of the last whole second: how many,
    pub recent_count: u64,
    /// half of them at most,
    pub recent_p50_ns: u64,
    /// 99 of 100 at most.
    pub recent_p99_ns: u64,
    /// Frames whose time stamp could not be used: the clock was set in between.
    pub unusable: u64,
}

impl PortSnapshot {
    pub(crate) fn count(&mut self, counters: BusCounters) {
        self.received += counters.received;
        self.unmatched += counters.unmatched;
    }
}

impl RuleSnapshot {
    pub(crate) fn count(&mut self, counters: &JobCounters) {
        self.handled += counters.handled;
        self.pending += counters.pending;
        for (cause, refused) in counters.refusals().filter(|(_, refused)| *refused > 0) {
            *self.stopped.entry(cause.name().to_owned()).or_default() += refused;
        }
    }

    /// How the copies ended: handled ones count as received.
    #[must_use]
    pub fn endings(&self) -> Endings {
        let stopped = self.stopped.iter().map(|(cause, &count)| (cause.as_str(), count));
        let mut endings: Endings = stopped.collect();
        endings.add(Ending::Received, self.handled);
        endings
    }

    /// Copies that the rule refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.endings().count(Ending::Refused)
    }

    /// Copies that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.endings().count(Ending::Lost)
    }

    /// Copies that the rule was asked for: handled, pending, refused and lost.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.pending + self.endings().total()
    }
}

impl PortSnapshot {
    /// Frames received that no rule takes, and that are nobody's business.
    #[must_use]
    pub const fn not_routed(&self) -> u64 {
        if self.refuses_unmatched { 0 } else { self.unmatched }
    }

    /// Frames received that no rule takes, where the rules are a list of what is allowed.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        if self.refuses_unmatched { self.unmatched } else { 0 }
    }

    /// Frames received that a rule took.
    #[must_use]
    pub const fn routed(&self) -> u64 {
        self.received.saturating_sub(self.unmatched)
    }
}
