//! The order of the values of an axis: numbers by their size, versions as versions, words as they come.

use std::cmp::Ordering;

use candor_time::Nanos;

use crate::result::{ResultFile, settings};

/// The axis of kernels: each of its values is one.
const KERNEL: &str = "vm.kernel";

/// How the values of an axis are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Numbers and durations, by their size.
    Numbers,
    /// Versions, such as `6.9`, `6.12-rt` and `debian:6.12.90+deb13-amd64`.
    Versions,
    /// Anything else: as it comes.
    Words,
}

impl Order {
    /// The order of an axis in these results. Those without it have no say.
    #[must_use]
    pub fn of(results: &[&ResultFile], axis: &str) -> Self {
        let has_axis = || results.iter().filter_map(|it| Some((it, it.axes.get(axis)?)));
        if has_axis().next().is_none() {
            Self::Words
        } else if has_axis().all(|(result, value)| is_version(result, axis, value)) {
            Self::Versions
        } else if has_axis().all(|(_, value)| number_of(text_of(value)).is_some()) {
            Self::Numbers
        } else {
            Self::Words
        }
    }

    /// Compares two values. Words are equal.
    #[must_use]
    pub fn compare(self, one: &str, other: &str) -> Ordering {
        match self {
            Self::Numbers => {
                let number = |text| number_of(text).unwrap_or(f64::NEG_INFINITY);
                number(one).total_cmp(&number(other))
            }
            Self::Versions => compare_versions(one, other),
            Self::Words => Ordering::Equal,
        }
    }
}

/// The axes whose value is a version in this result.
pub(crate) fn versions(result: &ResultFile) -> Vec<String> {
    let axes = result.axes.iter().filter(|(axis, value)| is_version(result, axis, value));
    axes.map(|(axis, _)| axis.clone()).collect()
}

/// Whether a value is a version: a kernel, or a text of the file that is written like one. A number of the file is none:
/// `6.9` may be both.
fn is_version(result: &ResultFile, axis: &str, value: &str) -> bool {
    // What is no setting, such as the name of an alternative, is a text.
    let is_text = || settings(&result.config).get(axis).is_none_or(|it| it.starts_with('"'));
    axis == KERNEL || (is_written_like_a_version(text_of(value)) && is_text())
}

/// `6.9`, and what may follow: `6.12-rt`, `6.12.90+deb13-amd64`; not `1.5M` and not `0.2ms`.
fn is_written_like_a_version(text: &str) -> bool {
    let text = text.strip_prefix("debian:").unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let numbers: Vec<_> = numbers.split('.').collect();
    let is_end = rest.is_empty() || rest.starts_with(['-', '+', '~']);
    is_end && numbers.len() > 1 && numbers.iter().all(|number| !number.is_empty())
}

/// A value without the quotes of TOML.
pub(crate) fn text_of(value: &str) -> &str {
    value.trim_matches('"')
}

/// The number that a value stands for: a duration in ns, or a number.
fn number_of(value: &str) -> Option<f64> {
    let duration = || value.parse::<Nanos>().ok().map(|it| it.as_nanos() as f64);
    value.parse().ok().or_else(duration)
}

/// Numbers in versions are numbers, and a candidate comes before its release: `6.9`, `6.18-rc3`, `6.18`, `6.18-rt`.
fn compare_versions(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (parts(one).into_iter(), parts(other).into_iter());
    loop {
        match (left.next(), right.next()) {
            // The same release in two notations.
            (None, None) => return one.cmp(other),
            (left, right) if left == right => {}
            (left, right) => return rank(left.as_ref()).cmp(&rank(right.as_ref())),
        }
    }
}

/// A part of a version.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Letter(char),
}

/// What comes first: a candidate, the end, anything else.
fn rank(part: Option<&Part>) -> (u8, Option<&Part>) {
    match part {
        Some(Part::Letter('~')) => (0, None),
        None => (1, None),
        part => (2, part),
    }
}

fn parts(version: &str) -> Vec<Part> {
    let text = version.strip_prefix("debian:").unwrap_or(version).replace("-rc", "~rc");
    let mut parts = Vec::new();
    for c in text.chars() {
        match (parts.last_mut(), c.to_digit(10).map(u64::from)) {
            (Some(Part::Number(number)), Some(digit)) => {
                *number = number.saturating_mul(10).saturating_add(digit);
            }
            (_, Some(digit)) => parts.push(Part::Number(digit)),
            (_, None) => parts.push(Part::Letter(c)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::three_frames;

    fn with(axis: &str, value: &str, config: &str) -> ResultFile {
        let axes = [(axis.to_owned(), value.to_owned())].into();
        ResultFile { axes, config: config.to_owned(), ..three_frames() }
    }

    fn sorted(order: Order, values: &[&'static str]) -> Vec<&'static str> {
        let mut values = values.to_vec();
        values.sort_by(|one, other| order.compare(one, other));
        values
    }

    #[test]
    fn versions_are_ordered_as_versions() {
        let expected = [
            "2.6.33",
            "6.9",
            "6.12",
            "6.12-rt",
            "debian:6.12.9+deb13-amd64",
            "debian:6.12.90+deb13-amd64",
            "6.18-rc3",
            "6.18~rc4",
            "6.18",
            "debian:6.18",
            "6.18-rt",
            "7.2",
            "bzImage-6.9",
            "bzImage-6.18",
        ];
        let mut reversed = expected;
        reversed.reverse();
        assert_eq!(sorted(Order::Versions, &reversed), expected);
    }

    #[test]
    fn numbers_are_ordered_by_size_and_words_as_they_come() {
        assert_eq!(sorted(Order::Numbers, &["6.9", "6.18", "1e-6"]), ["1e-6", "6.18", "6.9"]);
        assert_eq!(sorted(Order::Numbers, &["3ms", "25us", "1s"]), ["25us", "3ms", "1s"]);
        assert_eq!(sorted(Order::Words, &["flood", "cpu"]), ["flood", "cpu"]);
    }

    #[test]
    fn the_setting_says_whether_a_value_is_a_version() {
        let rate = |value: &str| with("a.rate", value, &format!("[a]\nrate = {value}\n"));
        let text = |value: &str| with("a.rate", value, &format!("[a]\nrate = \"{value}\"\n"));
        let kernel = |value: &str| with("vm.kernel", value, "[vm]\nkernel = { image = 'x' }\n");
        let other = |value: &str| with("alternative", value, "");
        let words = |value: &str| with("a.rate", value, "[a]\nrate = 'x'\n");
        for (results, order) in [
            (vec![rate("6.9"), rate("6.18")], Order::Numbers),
            (vec![text("6.9"), text("6.18-rt")], Order::Versions),
            (vec![text("6.9"), rate("6.18")], Order::Numbers),
            (vec![text("0.2ms"), text("25us")], Order::Numbers),
            (vec![text("1.5M"), text("500k")], Order::Words),
            (vec![kernel("6.9"), kernel("bzImage")], Order::Versions),
            (vec![other("6.9"), other("6.18")], Order::Versions),
            (vec![words("flood"), words("6.")], Order::Words),
            (vec![], Order::Words),
        ] {
            let results: Vec<_> = results.iter().collect();
            let axes: Vec<_> = results.iter().flat_map(|it| it.axes.keys()).collect();
            let axis = axes.first().map_or("none", |axis| axis.as_str());
            assert_eq!(Order::of(&results, axis), order, "{axes:?}");
        }
        assert_eq!(versions(&kernel("6.9")), ["vm.kernel"]);
        assert!(versions(&rate("6.9")).is_empty());
    }
}
