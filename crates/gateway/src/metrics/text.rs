//! A snapshot in the text format of Prometheus.

use std::collections::HashMap;

use candor_causes::ending;
use candor_daemon::exposition::{Metric, Page, seconds};

use crate::Snapshot;
use crate::snapshot::{LATENCY, LatencySnapshot, PortSnapshot, RuleSnapshot};

/// In the order in which they are written.
const PORT_METRICS: [Metric<PortSnapshot>; 24] = [
    ("up", "Whether the port works.", |port| u64::from(port.trouble.is_none())),
    ("received_frames_total", "Frames received.", |port| port.received),
    (
        "routed_frames_total",
        "Frames received that a rule matched: received = routed + not routed + refused.",
        PortSnapshot::routed,
    ),
    ("not_routed_frames_total", "Frames received that no rule matched.", PortSnapshot::not_routed),
    (
        "refused_frames_total",
        "Frames received that no rule matched, with default = \"refuse\".",
        PortSnapshot::refused,
    ),
    (
        "refuses_unmatched",
        "Whether frames that no rule matches are refused (default = \"refuse\").",
        |port| u64::from(port.refuses_unmatched),
    ),
    ("error_reports_total", "Error reports from the controller.", |port| port.error_reports),
    (
        "malformed_frames_total",
        "Frames refused because they or their datagram were malformed.",
        |port| port.malformed_frames,
    ),
    (
        "overflow_frames_total",
        "Frames that the kernel dropped before they could be received.",
        |port| port.overflow_frames,
    ),
    ("received_datagrams_total", "Datagrams received and accepted.", |port| {
        port.received_datagrams
    }),
    (
        "malformed_datagrams_total",
        "Datagrams received that do not have the expected format.",
        |port| port.malformed_datagrams,
    ),
    (
        "overflow_datagrams_total",
        "Datagrams that the kernel dropped before they could be received.",
        |port| port.overflow_datagrams,
    ),
    (
        "missing_datagrams_total",
        "Datagrams that never arrived, by their sequence numbers, modulo 256 for each gap.",
        |port| port.missing_datagrams,
    ),
    ("out_of_order_datagrams_total", "Datagrams that arrived late or twice.", |port| {
        port.out_of_order_datagrams
    }),
    (
        "foreign_total",
        "Datagrams or connections refused: not from the peer, or without a greeting.",
        |port| port.foreign,
    ),
    (
        "looping_frames_total",
        "Frames received again and again: several gateways may forward them in a loop.",
        |port| port.looping,
    ),
    ("transmitted_frames_total", "Frames accepted by the port for transmission.", |port| {
        port.transmitted
    }),
    ("transmitted_datagrams_total", "Datagrams sent.", |port| port.transmitted_datagrams),
    ("full_total", "Times the port had no room for a frame.", |port| port.full),
    (
        "lost_frames_total",
        "Frames that the port accepted and then lost: its peer disconnected, or its disk is full.",
        |port| port.lost,
    ),
    ("queue_frames", "Frames waiting in the egress queue.", |port| port.queued),
    (
        "queue_most_frames",
        "The highest number of frames that ever waited in the egress queue.",
        |port| port.most_queued,
    ),
    ("queue_depth_frames", "The capacity of the egress queue in frames.", |port| port.queue_depth),
    ("reopened_total", "Times the port was reopened.", |port| port.reopened),
];

/// The snapshot as a page of metrics.
#[must_use]
pub fn text(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    process(&mut page, snapshot);
    ports(&mut page, &snapshot.ports);
    rules(&mut page, &snapshot.rules);
    latencies(&mut page, &snapshot.latencies);
    page.into_text()
}

fn process(page: &mut Page, snapshot: &Snapshot) {
    page.only("candor_up", "1 while the gateway runs.", 1);
    let name = "candor_info";
    page.head(name, "The rule file and the version of candor.");
    let version = env!("CARGO_PKG_VERSION");
    page.line(name, &[("file", &snapshot.file), ("version", version)], 1);
    let help = "Time since the gateway started.";
    page.only("candor_uptime_seconds", help, seconds(snapshot.uptime_ns));
    let help = "Times the rules were changed since the start.";
    page.only("candor_rules_generation", help, snapshot.generation);
    let help = "Whether the rules on disk have errors, so that older ones are in use.";
    page.only("candor_rules_rejected", help, u64::from(snapshot.rejected.is_some()));
    let help = "Messages that standard error did not take.";
    page.only("candor_messages_dropped_total", help, snapshot.messages_dropped);
}

fn ports(page: &mut Page, ports: &[PortSnapshot]) {
    fn labels(port: &PortSnapshot) -> [(&'static str, &str); 2] {
        [("bus", &port.bus), ("port", &port.port)]
    }
    page.of_each("candor_port_", &PORT_METRICS, ports, labels);
    let name = "candor_port_silent_seconds";
    let help = "Time without a frame, if a rule takes frames of the port: at least so long, and at most 1 s longer.";
    page.head(name, help);
    for port in ports {
        if let Some(silent_ns) = port.silent_ns {
            page.line(name, &labels(port), seconds(silent_ns));
        }
    }
}

/// Rules with the same name and destination, such as one that the kernel did before and a thread
/// does now, are one series: a page has each series once.
fn merged(rules: &[RuleSnapshot]) -> Vec<RuleSnapshot> {
    let mut merged: Vec<RuleSnapshot> = Vec::with_capacity(rules.len());
    let mut places = HashMap::with_capacity(rules.len());
    for rule in rules {
        let place = *places.entry((&rule.rule, &rule.from, &rule.to)).or_insert(merged.len());
        match merged.get_mut(place) {
            None => merged.push(rule.clone()),
            Some(sum) => {
                sum.handled += rule.handled;
                sum.pending += rule.pending;
                sum.in_use |= rule.in_use;
                for (cause, count) in &rule.stopped {
                    *sum.stopped.entry(cause.clone()).or_default() += count;
                }
            }
        }
    }
    merged
}

fn rules(page: &mut Page, rules: &[RuleSnapshot]) {
    let rules = merged(rules);
    fn labels(rule: &RuleSnapshot) -> [(&'static str, &str); 3] {
        [("rule", &rule.rule), ("from", &rule.from), ("to", &rule.to)]
    }
    let name = "candor_rule_copies_total";
    page.head(name, "Copies of frames by outcome: handled, refused or lost, with the cause.");
    for rule in &rules {
        let [name_of, from, to] = labels(rule);
        let handled = [name_of, from, to, ("outcome", "handled"), ("cause", "")];
        page.line(name, &handled, rule.handled);
        for (cause, &count) in &rule.stopped {
            let outcome = ending(cause).key();
            let stopped = [name_of, from, to, ("outcome", outcome), ("cause", cause)];
            page.line(name, &stopped, count);
        }
    }
    let name = "candor_rule_pending_copies";
    page.head(name, "Copies waiting for their destination.");
    for rule in &rules {
        page.line(name, &labels(rule), rule.pending);
    }
    let name = "candor_rule_in_use";
    page.head(name, "Whether the rule is in use; 0 after it was removed.");
    for rule in &rules {
        page.line(name, &labels(rule), u64::from(rule.in_use));
    }
}

fn latencies(page: &mut Page, latencies: &[LatencySnapshot]) {
    fn labels(latency: &LatencySnapshot) -> [(&'static str, &str); 2] {
        [("from", &latency.from), ("to", &latency.to)]
    }
    let name = "candor_latency_seconds";
    let help = format!(
        "Latency of frames from port to port since the start: {} = {}.",
        LATENCY.key(),
        LATENCY.formula()
    );
    page.head_of("summary", name, &help);
    for latency in latencies {
        let [from, to] = labels(latency);
        for (quantile, ns) in
            [("0.5", latency.p50_ns), ("0.99", latency.p99_ns), ("0.999", latency.p999_ns)]
        {
            let value = if latency.count > 0 { seconds(ns) } else { f64::NAN };
            page.line(name, &[from, to, ("quantile", quantile)], value);
        }
        page.line("candor_latency_seconds_sum", &[from, to], seconds(latency.sum_ns));
        page.line("candor_latency_seconds_count", &[from, to], latency.count);
    }
    let name = "candor_latency_max_seconds";
    page.head(name, "The highest latency of a frame from port to port.");
    for latency in latencies {
        page.line(name, &labels(latency), seconds(latency.max_ns));
    }
    let name = "candor_latency_unusable_total";
    page.head(name, "Frames without a usable time stamp.");
    for latency in latencies {
        page.line(name, &labels(latency), latency.unusable);
    }
}

#[cfg(test)]
mod tests {
    use candor_daemon::exposition;

    use super::*;

    /// The same for everybody who compares pages.
    fn snapshot() -> Snapshot {
        let port = PortSnapshot {
            bus: "powertrain".into(),
            port: "can0".into(),
            received: 1_000,
            unmatched: 40,
            queued: 3,
            silent_ns: Some(2_500_000_000),
            ..PortSnapshot::default()
        };
        let down = PortSnapshot {
            bus: "body".into(),
            port: "can1".into(),
            trouble: Some("it is down".into()),
            received: 5,
            unmatched: 5,
            refuses_unmatched: true,
            ..PortSnapshot::default()
        };
        let rule = |plane: &str, in_use, handled, rate| RuleSnapshot {
            rule: "speed".into(),
            from: "powertrain".into(),
            to: "body".into(),
            plane: plane.into(),
            in_use,
            handled,
            pending: 1,
            stopped: [("rate".to_owned(), rate), ("queue_full".to_owned(), 1)].into(),
        };
        let latency = LatencySnapshot {
            from: "powertrain".into(),
            to: "body".into(),
            count: 4,
            sum_ns: 200_000,
            p50_ns: 35_000,
            p99_ns: 60_000,
            p999_ns: 60_000,
            max_ns: 1_500_000_000,
            ..LatencySnapshot::default()
        };
        let never = LatencySnapshot { to: "none".into(), ..LatencySnapshot::default() };
        Snapshot {
            file: "/etc/drive.toml".into(),
            uptime_ns: 1_500_000_000,
            generation: 2,
            rejected: Some("line 7".into()),
            messages_dropped: 9,
            ports: vec![port, down],
            rules: vec![rule("kernel", false, 90, 5), rule("user", true, 10, 2)],
            latencies: vec![latency, never],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_page_has_everything_once() {
        let page = text(&snapshot());
        for line in [
            "candor_up 1",
            "candor_uptime_seconds 1.5",
            "candor_rules_generation 2",
            "candor_rules_rejected 1",
            "candor_messages_dropped_total 9",
            "candor_port_up{bus=\"powertrain\",port=\"can0\"} 1",
            "candor_port_up{bus=\"body\",port=\"can1\"} 0",
            "candor_port_received_frames_total{bus=\"powertrain\",port=\"can0\"} 1000",
            "candor_port_queue_frames{bus=\"powertrain\",port=\"can0\"} 3",
            "candor_port_silent_seconds{bus=\"powertrain\",port=\"can0\"} 2.5",
            "candor_rule_copies_total{rule=\"speed\",from=\"powertrain\",to=\"body\",outcome=\"handled\",cause=\"\"} 100",
            "candor_rule_copies_total{rule=\"speed\",from=\"powertrain\",to=\"body\",outcome=\"refused\",cause=\"rate\"} 7",
            "candor_rule_copies_total{rule=\"speed\",from=\"powertrain\",to=\"body\",outcome=\"lost\",cause=\"queue_full\"} 2",
            "candor_port_routed_frames_total{bus=\"powertrain\",port=\"can0\"} 960",
            "candor_port_not_routed_frames_total{bus=\"powertrain\",port=\"can0\"} 40",
            "candor_port_refused_frames_total{bus=\"body\",port=\"can1\"} 5",
            "candor_rule_pending_copies{rule=\"speed\",from=\"powertrain\",to=\"body\"} 2",
            "candor_rule_in_use{rule=\"speed\",from=\"powertrain\",to=\"body\"} 1",
            "candor_latency_seconds{from=\"powertrain\",to=\"body\",quantile=\"0.99\"} 0.00006",
            "candor_latency_seconds{from=\"\",to=\"none\",quantile=\"0.99\"} NaN",
            "candor_latency_seconds_sum{from=\"powertrain\",to=\"body\"} 0.0002",
            "candor_latency_seconds_count{from=\"powertrain\",to=\"body\"} 4",
            "candor_latency_max_seconds{from=\"powertrain\",to=\"body\"} 1.5",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
        }
        let mut series: Vec<_> =
            page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        let count = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), count, "a series twice");
        assert!(page.ends_with('\n'));
    }
    #[test]
    fn the_manual_has_every_metric() {
        let manual = include_str!("../../../../docs/metrics.md");
        exposition::assert_listed(manual, "Metrics of a gateway", &text(&snapshot()));
    }
}
