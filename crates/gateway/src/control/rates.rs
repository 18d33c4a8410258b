//! [`Rates`]: what happened between two snapshots, per second.

use std::collections::HashMap;

use crate::Snapshot;
use crate::snapshot::{PortSnapshot, RuleSnapshot};

/// What happened between two snapshots of the same gateway, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Of each port of the later snapshot.
    pub ports: Vec<PortRates>,
    /// Of each rule of the later snapshot.
    pub rules: Vec<RuleRates>,
}

/// Frames per second of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortRates {
    /// Frames received.
    pub received: f64,
    /// Of these, frames that no rule took: not routed, or refused by a list of what is allowed.
    pub unmatched: f64,
    /// Frames that the port took for transmission.
    pub transmitted: f64,
    /// Frames that were lost before or behind the gateway: dropped by the kernel, taken by the port and
    /// lost.
    pub lost: f64,
    /// Datagrams that were lost before it, with whatever was in them: dropped by the kernel, missing.
    pub lost_datagrams: f64,
}

/// Copies per second of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleRates {
    /// Copies that the destination took.
    pub handled: f64,
    /// Copies that the rule refused.
    pub refused: f64,
    /// Copies that were lost.
    pub lost: f64,
}

impl Rates {
    /// Between `old` and `new`. `None` if they are not of the same run of a gateway, or no time has
    /// passed. What was not there before counts from zero.
    #[must_use]
    pub fn between(old: &Snapshot, new: &Snapshot) -> Option<Self> {
        if old.pid != new.pid || new.uptime_ns <= old.uptime_ns {
            return None;
        }
        let seconds = (new.uptime_ns - old.uptime_ns) as f64 / 1e9;
        // A counter never goes back in one run; if it did that is not to be seen as much traffic.
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        let old_ports: HashMap<_, _> = old.ports.iter().map(|port| (&*port.bus, port)).collect();
        let old_rules: HashMap<_, _> = old.rules.iter().map(|rule| (key(rule), rule)).collect();
        let (no_port, no_rule) = (PortSnapshot::default(), RuleSnapshot::default());
        let port = |new: &PortSnapshot| {
            let old = old_ports.get(&*new.bus).copied().unwrap_or(&no_port);
            PortRates {
                received: rate(old.received, new.received),
                unmatched: rate(old.unmatched, new.unmatched),
                transmitted: rate(old.transmitted, new.transmitted),
                lost: rate(lost(old), lost(new)),
                lost_datagrams: rate(lost_datagrams(old), lost_datagrams(new)),
            }
        };
        let rule = |new: &RuleSnapshot| {
            let old = old_rules.get(&key(new)).copied().unwrap_or(&no_rule);
            RuleRates {
                handled: rate(old.handled, new.handled),
                refused: rate(old.refused(), new.refused()),
                lost: rate(old.lost(), new.lost()),
            }
        };
        Some(Self {
            ports: new.ports.iter().map(port).collect(),
            rules: new.rules.iter().map(rule).collect(),
        })
    }
}

/// What tells a rule and its destination from others.
fn key(rule: &RuleSnapshot) -> (&str, &str, &str, &str) {
    (&rule.rule, &rule.from, &rule.to, &rule.plane)
}

/// Frames that came to nothing though no rule refused them.
#[must_use]
pub fn lost(port: &PortSnapshot) -> u64 {
    port.overflow_frames.saturating_add(port.lost)
}

/// Datagrams that came to nothing. How many frames were in them is not known.
#[must_use]
pub fn lost_datagrams(port: &PortSnapshot) -> u64 {
    port.overflow_datagrams.saturating_add(port.missing_datagrams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(uptime_ms: u64, received: u64, handled: u64, refused: u64) -> Snapshot {
        let port =
            PortSnapshot { bus: "a".into(), received, overflow_frames: 4, ..Default::default() };
        let stopped = [("rate".to_owned(), refused), ("stale".to_owned(), 2 * refused)].into();
        let rule = RuleSnapshot { rule: "r".into(), handled, stopped, ..Default::default() };
        Snapshot {
            pid: 7,
            uptime_ns: uptime_ms * 1_000_000,
            ports: vec![port],
            rules: vec![rule],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_differences_by_time() {
        let rates =
            Rates::between(&snapshot(500, 10, 100, 0), &snapshot(2_500, 30, 100, 6)).unwrap();
        assert_eq!(rates.ports, [PortRates { received: 10.0, ..PortRates::default() }]);
        assert_eq!(rates.rules, [RuleRates { handled: 0.0, refused: 3.0, lost: 6.0 }]);
    }

    #[test]
    fn what_is_new_counts_from_zero_and_nothing_goes_back() {
        let mut new = snapshot(2_000, 0, 50, 0);
        new.rules[0].rule = "new".into();
        let rates = Rates::between(&snapshot(1_000, 10, 100, 9), &new).unwrap();
        assert_eq!(rates.ports, [PortRates::default()]);
        assert_eq!(rates.rules, [RuleRates { handled: 50.0, ..RuleRates::default() }]);
    }

    #[test]
    fn runs_are_not_mixed() {
        let old = snapshot(1_000, 10, 100, 9);
        assert_eq!(Rates::between(&old, &old), None);
        assert_eq!(Rates::between(&old, &snapshot(999, 20, 200, 9)), None);
        assert_eq!(Rates::between(&old, &Snapshot { pid: 8, ..snapshot(2_000, 20, 200, 9) }), None);
    }
}
