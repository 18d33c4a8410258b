//! Multiplexed signals: which selector each has, and which can never be selected.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use candor_diagnostics::{Findings, Origin};

use crate::{MAX_NESTING, Selection, Signal};

/// Adds a warning, as long as there is room: a file may be wrong a million times.
pub(super) fn warn(findings: &Findings, origin: &Origin, message: impl Into<String>, hint: &str) {
    if !findings.is_full() {
        findings.warning(origin, message, hint);
    }
}

/// A signal while its file is read.
pub(super) struct DraftSignal {
    pub(super) signal: Signal,
    pub(super) origin: Origin,
    pub(super) indicator: Indicator,
    /// From SG_MUL_VAL_: the name of the selector and its values.
    pub(super) selection: Option<(String, Vec<RangeInclusive<u64>>)>,
    pub(super) long_name: Option<String>,
}

/// What stands between the name of a signal and its colon.
#[derive(Clone, Copy, Default)]
pub(super) struct Indicator {
    /// `M`, or the `M` of `m7M`.
    pub(super) is_selector: bool,
    /// The 7 of `m7`.
    pub(super) selected_by: Option<u64>,
}

impl Indicator {
    /// `M`, `m7` or `m7M`; `None` if the number is too large.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_selector = text.ends_with('M');
        let number = text.trim_end_matches('M').strip_prefix('m').unwrap_or("");
        let selected_by = if number.is_empty() { None } else { Some(number.parse().ok()?) };
        Some(Self { is_selector, selected_by })
    }
}

/// When a signal is in a frame.
enum MultiplexCondition {
    Always,
    When(Selection),
    /// Its selector does not exist.
    Never,
}

/// The signals of a message with their selectors, without those that can never be selected.
pub(super) fn select(drafts: Vec<DraftSignal>, findings: &Findings) -> Vec<Signal> {
    let conditions = conditions(&drafts, findings);
    // A signal stays if the way from selector to selector has an end.
    let stays = |index: usize| {
        let mut index = index;
        for _ in 0..=MAX_NESTING {
            match conditions.get(index) {
                Some(MultiplexCondition::When(selection)) => index = selection.selector,
                Some(MultiplexCondition::Always) => return true,
                Some(MultiplexCondition::Never) | None => return false,
            }
        }
        false
    };
    // Where each signal is when those that do not stay are gone.
    let mut count = 0;
    let new_indices: Vec<Option<usize>> = (0..drafts.len())
        .map(|index| {
            count += usize::from(stays(index));
            stays(index).then(|| count - 1)
        })
        .collect();

    let mut signals = Vec::with_capacity(count);
    let mut names = HashSet::new();
    for ((draft, condition), new_index) in drafts.into_iter().zip(conditions).zip(&new_indices) {
        let mut signal = draft.signal;
        if new_index.is_none() {
            warn(
                findings,
                &draft.origin,
                format!("`{}` has no selector and is skipped", signal.name),
                "mark one signal of the message with `M`, or name the selector with SG_MUL_VAL_",
            );
            continue;
        }
        signal.is_selector = draft.indicator.is_selector;
        if let MultiplexCondition::When(Selection { selector, ranges }) = condition {
            // The selector of a signal that stays does so too.
            let selector = new_indices.get(selector).copied().flatten();
            signal.selection = selector.map(|selector| Selection { selector, ranges });
        }
        let long_name = draft.long_name.filter(|name| !name.is_empty());
        let wanted = long_name.unwrap_or_else(|| signal.name.clone());
        let mut number = signals.len() + 1;
        let mut name = wanted.clone();
        // The shorter name is another one unless it is a longer one of another signal.
        if names.contains(&name) {
            name.clone_from(&signal.name);
        }
        while names.contains(&name) {
            name = format!("{}_{number}", signal.name);
            number += 1;
        }
        if name != wanted {
            warn(
                findings,
                &draft.origin,
                format!("`{wanted}` is already defined; this one is called `{name}`"),
                "give each signal of a message a different name",
            );
        }
        names.insert(name.clone());
        signal.name = name;
        signals.push(signal);
    }
    // SG_MUL_VAL_ names selectors that need not be marked.
    let selectors: Vec<_> =
        signals.iter().filter_map(|it| Some(it.selection.as_ref()?.selector)).collect();
    for selector in selectors {
        if let Some(signal) = signals.get_mut(selector) {
            signal.is_selector = true;
        }
    }
    signals
}

fn conditions(drafts: &[DraftSignal], findings: &Findings) -> Vec<MultiplexCondition> {
    let names = drafts.iter().enumerate().map(|(index, it)| (it.signal.name.as_str(), index));
    let by_name: HashMap<&str, usize> = names.collect();
    let is_main = |it: &DraftSignal| it.indicator.is_selector && it.indicator.selected_by.is_none();
    let mut mains = drafts.iter().enumerate().filter(|(_, it)| is_main(it));
    let main = mains.next().map(|(index, _)| index);
    // With SG_MUL_VAL_ there may be several.
    if let Some((_, other)) = mains.next()
        && drafts.iter().all(|draft| draft.selection.is_none())
    {
        warn(
            findings,
            &other.origin,
            format!("`{}` is a second selector", other.signal.name),
            "use SG_MUL_VAL_ to name the selector of each signal; without it, the first one is \
             used",
        );
    }
    let condition = |draft: &DraftSignal| {
        let (selector, ranges) = match (&draft.selection, draft.indicator.selected_by) {
            (Some((name, ranges)), _) => (by_name.get(name.as_str()).copied(), ranges.clone()),
            (None, Some(value)) => (main, [value..=value].into()),
            (None, None) => return MultiplexCondition::Always,
        };
        selector.map_or(MultiplexCondition::Never, |selector| {
            MultiplexCondition::When(Selection { selector, ranges })
        })
    };
    drafts.iter().map(condition).collect()
}
