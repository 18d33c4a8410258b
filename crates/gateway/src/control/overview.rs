//! [`Overview`]: what a gateway reported while it was watched, and those of its rules that somebody wants to see.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::rates::{PortRates, Rates, RuleRates};
use crate::Snapshot;
use crate::snapshot::RuleSnapshot;

/// How many seconds of latency are kept for each pair of ports.
const HISTORY: usize = 300;

/// What rules are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Copies per second, whatever became of them.
    #[default]
    Rate,
    /// Lost copies per second.
    LostRate,
    /// Copies that destinations took.
    Handled,
    /// Copies that were lost.
    Lost,
    /// The name of the rule.
    Name,
}

impl Sort {
    /// The next one, after the last the first.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Rate => Self::LostRate,
            Self::LostRate => Self::Handled,
            Self::Handled => Self::Lost,
            Self::Lost => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    /// What it is called.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::LostRate => "lost/s",
            Self::Handled => "handled",
            Self::Lost => "lost",
            Self::Name => "name",
        }
    }
}

/// The p99 of each second from one port to another.
#[derive(Debug)]
struct History {
    from: String,
    to: String,
    /// Nothing for a second without frames.
    p99_ns: VecDeque<Option<u64>>,
}

/// What a gateway reported while it was watched.
#[derive(Debug, Default)]
pub struct Overview {
    /// What is shown stays as it is.
    pub is_paused: bool,
    /// Only rules are shown that have this in their name, their buses or the cause of a refusal, in whatever case.
    pub filter: String,
    pub sort: Sort,
    snapshot: Option<Snapshot>,
    rates: Option<Rates>,
    histories: Vec<History>,
    /// Up to which second of the gateway's life there is history.
    seconds: u64,
}

impl Overview {
    /// Takes what the gateway reported.
    pub fn take(&mut self, snapshot: Snapshot) {
        self.remember(&snapshot);
        if self.is_paused {
            return;
        }
        self.rates = self.snapshot.as_ref().and_then(|before| Rates::between(before, &snapshot));
        self.snapshot = Some(snapshot);
    }

    /// What is shown; nothing before the first.
    #[must_use]
    pub const fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    fn remember(&mut self, snapshot: &Snapshot) {
        let seconds = snapshot.uptime_ns / 1_000_000_000;
        if seconds == self.seconds {
            return;
        }
        self.seconds = seconds;
        for latency in &snapshot.latencies {
            let is_it =
                |history: &History| history.from == latency.from && history.to == latency.to;
            let index = self.histories.iter().position(is_it).unwrap_or_else(|| {
                let (from, to) = (latency.from.clone(), latency.to.clone());
                self.histories.push(History { from, to, p99_ns: VecDeque::new() });
                self.histories.len() - 1
            });
            let p99_ns = &mut self.histories[index].p99_ns;
            if p99_ns.len() == HISTORY {
                p99_ns.pop_front();
            }
            p99_ns.push_back((latency.recent_count > 0).then_some(latency.recent_p99_ns));
        }
    }

    /// The p99 of the last seconds, at most `count` of them, the latest one last.
    #[must_use]
    pub fn history(&self, from: &str, to: &str, count: usize) -> Vec<Option<u64>> {
        let history = self.histories.iter().find(|known| known.from == from && known.to == to);
        history.map_or_else(Vec::new, |history| {
            let skipped = history.p99_ns.len().saturating_sub(count);
            history.p99_ns.iter().skip(skipped).copied().collect()
        })
    }

    /// Of a port, by its place in the snapshot; nothing before the second snapshot.
    #[must_use]
    pub fn port_rates(&self, index: usize) -> Option<&PortRates> {
        self.rates.as_ref()?.ports.get(index)
    }

    /// The rules that pass the filter, sorted, with their rates.
    #[must_use]
    pub fn rules(&self) -> Vec<(&RuleSnapshot, RuleRates)> {
        let rules = self.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.rules);
        let rate = |index| {
            let rates = self.rates.as_ref().and_then(|rates| rates.rules.get(index));
            rates.copied().unwrap_or_default()
        };
        let mut rules: Vec<_> = rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| self.passes(rule))
            .map(|(index, rule)| (rule, rate(index)))
            .collect();
        // Stable: what is equal stays in the order of the file.
        rules.sort_by(|(a, a_rates), (b, b_rates)| self.order((a, a_rates), (b, b_rates)));
        rules
    }

    fn order(&self, a: (&RuleSnapshot, &RuleRates), b: (&RuleSnapshot, &RuleRates)) -> Ordering {
        let total = |rates: &RuleRates| rates.handled + rates.refused + rates.lost;
        match self.sort {
            Sort::Rate => total(b.1).total_cmp(&total(a.1)),
            Sort::LostRate => b.1.lost.total_cmp(&a.1.lost),
            Sort::Handled => b.0.handled.cmp(&a.0.handled),
            Sort::Lost => b.0.lost().cmp(&a.0.lost()),
            Sort::Name => a.0.rule.cmp(&b.0.rule),
        }
    }

    fn passes(&self, rule: &RuleSnapshot) -> bool {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        has(&rule.rule)
            || has(&rule.from)
            || has(&rule.to)
            || rule.stopped.iter().any(|(cause, &count)| count > 0 && has(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::LatencySnapshot;

    /// By name: what was handled, and refused for the cause.
    fn snapshot(second: u64, rules: &[(&str, u64, &str, u64)]) -> Snapshot {
        let rule = |&(name, handled, cause, count): &(&str, u64, &str, u64)| RuleSnapshot {
            rule: name.into(),
            from: "Body".into(),
            handled: handled * second,
            stopped: [(cause.to_owned(), count * second)].into(),
            ..RuleSnapshot::default()
        };
        let latency = LatencySnapshot {
            from: "a".into(),
            to: "b".into(),
            recent_count: second % 2,
            recent_p99_ns: second,
            ..LatencySnapshot::default()
        };
        Snapshot {
            uptime_ns: second * 1_000_000_000,
            rules: rules.iter().map(rule).collect(),
            latencies: vec![latency],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rules_are_sorted_and_filtered() {
        let mut overview = Overview::default();
        let rules = [("x", 5, "rate", 9), ("b", 7, "queue_full", 0), ("a", 5, "queue_full", 1)];
        for second in 1..=2 {
            overview.take(snapshot(second, &rules));
        }
        let names = |it: &Overview| it.rules().iter().map(|it| &*it.0.rule).collect::<String>();
        let mut sort = overview.sort;
        for expected in ["xba", "axb", "bxa", "axb", "abx"] {
            overview.sort = sort;
            assert_eq!(names(&overview), expected, "{sort:?}");
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default());
        for (filter, expected) in [("X", "x"), ("bod", "abx"), ("Queue", "a"), ("none", "")] {
            overview.filter = filter.into();
            assert_eq!(names(&overview), expected, "{filter}");
        }
        assert_eq!(overview.rules().len(), 0);
        overview.filter.clear();
        let rates = overview.rules()[0].1;
        assert_eq!(rates, RuleRates { handled: 5.0, refused: 0.0, lost: 1.0 });
    }

    #[test]
    fn a_pause_keeps_what_is_shown_and_history_goes_on() {
        let mut overview = Overview::default();
        for second in 1..=HISTORY as u64 + 2 {
            overview.is_paused = second > 2;
            overview.take(snapshot(second, &[]));
            overview.take(snapshot(second, &[]));
        }
        assert_eq!(overview.snapshot().unwrap().uptime_ns, 2_000_000_000);
        assert_eq!(overview.history("a", "b", 3), [None, Some(301), None]);
        assert_eq!(overview.history("a", "b", 1_000).len(), HISTORY);
        assert_eq!(overview.history("b", "a", 3), []);
    }
}
