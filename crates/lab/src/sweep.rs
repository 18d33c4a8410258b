//! Sweeps: a latency over an axis, such as the relay delay of a flow, the load of a link or the kernel.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use candor_lat::Metric;
use candor_lat::result::file_name;
use candor_lat::text::Range;

use crate::axis::{Order, text_of};
use crate::group::{Group, groups};
use crate::result::{Figures, ResultFile};

/// The experiments that differ in an axis only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// In what they differ from other sweeps; empty if there are none.
    pub name: String,
    /// The figures for each value of the axis, named by it, in the [`Order`] of the axis. Of several runs, the
    /// smallest, the median of the medians and the largest.
    pub ranges: Vec<Range>,
}

/// The axes of results, by their whole names.
#[must_use]
pub fn axes(results: &[&ResultFile]) -> BTreeSet<String> {
    results
        .iter()
        .flat_map(|result| result.axes.keys().cloned())
        .filter(|it| it != "seed")
        .collect()
}

/// What the end of an axis's name stands for: all axes of that name or with that end.
#[must_use]
pub fn named<'a>(axes: &'a BTreeSet<String>, name: &str) -> Vec<&'a str> {
    let end = format!(".{name}");
    axes.iter().map(String::as_str).filter(|axis| *axis == name || axis.ends_with(&end)).collect()
}

/// A metric over an axis. Experiments without the axis or the metric are left out. Sweeps are in the order of the other axes,
/// those of different experiments as these come.
#[must_use]
pub fn sweeps(results: &[&ResultFile], axis: &str, metric: Metric) -> Vec<Sweep> {
    let has_both = |result: &&&ResultFile| {
        result.axes.contains_key(axis) && result.metric(metric).is_some_and(|it| it.count > 0)
    };
    let used: Vec<_> = results.iter().filter(has_both).copied().collect();
    let others = axes(&used);
    let others: Vec<_> = others.iter().filter(|name| *name != axis).collect();
    let orders: Vec<_> = others.iter().map(|name| Order::of(&used, name)).collect();
    let order = Order::of(&used, axis);
    let mut sweeps: Vec<Points> = Vec::new();
    for group in groups(used) {
        let first = group.runs[0];
        let own = others.iter().zip(&orders).filter_map(|(name, order)| {
            let value = text_of(first.axes.get(*name)?).to_owned();
            Some(Place { axis: last_part(name).to_owned(), value, order: *order })
        });
        let own: Vec<_> = own.collect();
        let value = text_of(&first.axes[axis]).to_owned();
        let Some(range) = range(&group, metric, &value) else { continue };
        let experiment = base_name(first);
        let place = sweeps.iter().position(|it| it.experiment == experiment && it.own == own);
        let place = place.unwrap_or_else(|| {
            // What has no title of its own has the name of its place in the matrix in its place.
            let is_titled = !first.title.is_empty() && first.title != group.name;
            let title = if is_titled { &first.title } else { experiment };
            let (title, experiment) = (title.to_owned(), experiment.to_owned());
            sweeps.push(Points { title, experiment, own, ranges: Vec::new() });
            sweeps.len() - 1
        });
        sweeps[place].ranges.push(range);
    }
    let experiments: BTreeSet<_> = sweeps.iter().map(|it| it.experiment.clone()).collect();
    let titles: BTreeSet<_> = sweeps.iter().map(|it| it.title.clone()).collect();
    sweeps.sort_by(|one, other| {
        let pairs = one.own.iter().zip(&other.own);
        let pairs = pairs.map(|(one, other)| one.order.compare(&one.value, &other.value));
        pairs.fold(Ordering::Equal, Ordering::then)
    });
    let sweep = |Points { title, experiment, own, mut ranges }: Points| {
        ranges.sort_by(|one, other| order.compare(&one.name, &other.name));
        // Experiments with one title are told apart by their names.
        let title = if titles.len() < experiments.len() { experiment } else { title };
        let title = Some(title).filter(|title| experiments.len() > 1 && !title.is_empty());
        let own = own.iter().map(|Place { axis, value, .. }| format!("{axis} {value}"));
        Sweep { name: title.into_iter().chain(own).collect::<Vec<_>>().join(" · "), ranges }
    };
    sweeps.into_iter().map(sweep).collect()
}

struct Points {
    title: String,
    experiment: String,
    /// Where it is on the other axes.
    own: Vec<Place>,
    ranges: Vec<Range>,
}

/// A place on an axis.
#[derive(PartialEq, Eq)]
struct Place {
    axis: String,
    value: String,
    order: Order,
}

/// The name of the experiment that a matrix made this one of: without the values of its axes at the end. Empty if it has
/// none.
pub(crate) fn base_name(result: &ResultFile) -> &str {
    let values: Vec<_> = result.axes.values().map(|it| file_name(text_of(it))).collect();
    let mut name = result.group();
    while let Some(shorter) =
        values.iter().find_map(|value| name.strip_suffix(value.as_str())?.strip_suffix('-'))
    {
        name = shorter;
    }
    // One that has no name has its values only.
    if values.iter().any(|value| value == name) { "" } else { name }
}

/// What a result is about: its title, or else where it is on the axes of its matrix, or else its name.
#[must_use]
pub fn subject(result: &ResultFile) -> String {
    let has_title = !result.title.is_empty() && result.title != result.group();
    let axes = result.axes.iter().filter(|(axis, _)| *axis != "seed");
    let axes = axes.map(|(axis, value)| {
        let axis = axis.strip_suffix(".kind").unwrap_or(axis);
        format!("{} {}", last_part(axis), text_of(value))
    });
    let places = if has_title { String::new() } else { axes.collect::<Vec<_>>().join(" · ") };
    match (has_title, places.is_empty(), base_name(result)) {
        (true, ..) => result.title.clone(),
        (_, true, _) => result.group().to_owned(),
        (_, _, "") => places,
        (_, _, base) => format!("{base} · {places}"),
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn range(group: &Group<'_>, metric: Metric, name: &str) -> Option<Range> {
    let figures = || group.runs.iter().filter_map(|run| run.metric(metric));
    let of = |figure: fn(&Figures) -> i64| figures().map(figure);
    let mut medians: Vec<_> = of(|it| it.p50_ns).collect();
    medians.sort_unstable();
    Some(Range {
        name: name.to_owned(),
        min_ns: of(|it| it.min_ns).min()?,
        p50_ns: *medians.get(medians.len() / 2)?,
        max_ns: of(|it| it.max_ns).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::three_frames;

    #[test]
    fn kernels_stand_in_the_order_of_their_versions() {
        let on = |kernel: &str| ResultFile {
            experiment: format!("flood-{}", file_name(kernel)),
            axes: [("vm.kernel".to_owned(), kernel.to_owned())].into(),
            ..three_frames()
        };
        let results = ["6.18", "6.9", "debian:6.12.90+deb13-amd64", "6.12-rt"].map(on);
        let results: Vec<_> = results.iter().collect();
        let sweeps = sweeps(&results, "vm.kernel", Metric::TotalLatency);
        let values: Vec<_> = sweeps[0].ranges.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(values, ["6.9", "6.12-rt", "debian:6.12.90+deb13-amd64", "6.18"]);
        assert_eq!(sweeps.len(), 1);
    }
}
