//! Ranges over seeds and differences, for people.

use crate::output::duration;

/// A range of durations: `21.0..527 us`. One duration if both look the same.
pub(crate) fn duration_range(least_ns: f64, most_ns: f64) -> String {
    let (least, most) = (duration(least_ns), duration(most_ns));
    if least == most {
        return most;
    }
    let split = |text: &str| text.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
    match (split(&least), split(&most)) {
        (Some((value, unit)), Some((_, other))) if unit == other => format!("{value}..{most}"),
        _ => format!("{least}..{most}"),
    }
}

/// A range of numbers: `1.00..1.97`. One number if both look the same.
pub(crate) fn number_range(least: f64, most: f64, digits: usize) -> String {
    // No sign where all digits are 0.
    let text = |value: f64| match format!("{value:.digits$}") {
        text if text.bytes().all(|it| b"-0.".contains(&it)) => text.trim_start_matches('-').into(),
        text => text,
    };
    let [least, most] = [least, most].map(text);
    if least == most { most } else { format!("{least}..{most}") }
}

/// A difference with its sign.
pub(crate) fn signed(value: f64, digits: usize) -> String {
    format!("{value:+.digits$}")
}
