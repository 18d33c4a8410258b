//! What is shown, and what keys change about it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::ControlFlow;

use candor_gateway::Snapshot;
use candor_gateway::control::rates::{PortRates, Rates, RuleRates};
use candor_gateway::snapshot::RuleSnapshot;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// How many seconds of latency are kept for each pair of ports.
const HISTORY: usize = 300;
/// How long a filter may be.
const MAX_FILTER: usize = 64;

/// What rules are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    LostRate,
    Handled,
    Lost,
    Name,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Rate => Self::LostRate,
            Self::LostRate => Self::Handled,
            Self::Handled => Self::Lost,
            Self::Lost => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    pub(super) const fn title(self) -> &'static str {
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
struct History {
    from: String,
    to: String,
    /// Nothing for a second without frames.
    p99_ns: VecDeque<Option<u64>>,
}

pub(super) struct State {
    pub(super) is_coloured: bool,
    pub(super) is_paused: bool,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    pub(super) filter: String,
    pub(super) sort: Sort,
    /// How many of the rules are above those shown.
    pub(super) scrolled: usize,
    pub(super) snapshot: Option<Snapshot>,
    rates: Option<Rates>,
    histories: Vec<History>,
    /// Up to which second of the gateway's life there is history.
    seconds: u64,
    end: Option<String>,
}

impl State {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self {
            is_coloured,
            is_paused: false,
            is_typing: false,
            filter: String::new(),
            sort: Sort::Rate,
            scrolled: 0,
            snapshot: None,
            rates: None,
            histories: Vec::new(),
            seconds: 0,
            end: None,
        }
    }

    /// Takes what the gateway reported.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.remember(&snapshot);
        if self.is_paused {
            return;
        }
        self.rates = self.snapshot.as_ref().and_then(|before| Rates::between(before, &snapshot));
        self.snapshot = Some(snapshot);
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
    pub(super) fn history(&self, from: &str, to: &str, count: usize) -> Vec<Option<u64>> {
        let history = self.histories.iter().find(|known| known.from == from && known.to == to);
        history.map_or_else(Vec::new, |history| {
            let skipped = history.p99_ns.len().saturating_sub(count);
            history.p99_ns.iter().skip(skipped).copied().collect()
        })
    }

    /// Nothing more will come, and why.
    pub(super) fn ended(&mut self, why: String) {
        self.end = Some(why);
    }

    pub(super) const fn is_over(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Of a port, by its place in the snapshot; nothing before the second snapshot.
    pub(super) fn port_rates(&self, index: usize) -> Option<&PortRates> {
        self.rates.as_ref()?.ports.get(index)
    }

    /// The rules that pass the filter, sorted, with their rates.
    pub(super) fn rules(&self) -> Vec<(&RuleSnapshot, RuleRates)> {
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

    /// Does what a key is for. Break to end.
    pub(super) fn key(&mut self, key: KeyEvent) -> ControlFlow<()> {
        if key.kind == KeyEventKind::Release {
            return ControlFlow::Continue(());
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return ControlFlow::Break(()),
            code if self.is_typing => self.edit(code),
            KeyCode::Char('q') => return ControlFlow::Break(()),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.scrolled = 0;
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-10),
            KeyCode::PageDown => self.scroll(10),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER => self.filter.push(c),
            _ => {}
        }
        self.scrolled = 0;
    }

    fn scroll(&mut self, lines: isize) {
        let last = self.rules().len().saturating_sub(1);
        self.scrolled = self.scrolled.saturating_add_signed(lines).min(last);
    }
}
