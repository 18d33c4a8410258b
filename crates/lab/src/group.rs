//! Groups: the runs of one experiment with several seeds, and the range of a figure over them.

use crate::result::ResultFile;

/// A figure over several runs: from the smallest to the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// How many runs have the figure.
    pub count: usize,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Range {
    /// The range of these values; `None` if there are none.
    #[must_use]
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().fold(None, |range: Option<Self>, value| {
            Some(match range {
                None => Self { count: 1, least: value, most: value },
                Some(range) => Self {
                    count: range.count + 1,
                    least: range.least.min(value),
                    most: range.most.max(value),
                },
            })
        })
    }

    /// Whether a value can lie in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

/// The runs of one experiment, in the order of their seeds.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The experiment's name, without a seed.
    pub name: &'a str,
    /// At least one.
    pub runs: Vec<&'a ResultFile>,
}

impl Group<'_> {
    /// The range of a figure, over the runs that have it.
    pub fn range(&self, figure: impl FnMut(&ResultFile) -> Option<f64>) -> Option<Range> {
        let mut figure = figure;
        Range::from_values(self.runs.iter().filter_map(|run| figure(run)))
    }

    pub fn sum(&self, counter: impl Fn(&ResultFile) -> u64) -> u64 {
        self.runs.iter().map(|run| counter(run)).sum()
    }
}

/// Results by experiment, in the order in which each comes first.
#[must_use]
pub fn groups<'a>(results: impl IntoIterator<Item = &'a ResultFile>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for result in results {
        let place = *places.entry(result.group()).or_insert_with(|| {
            groups.push(Group { name: result.group(), runs: Vec::new() });
            groups.len() - 1
        });
        groups[place].runs.push(result);
    }
    for group in &mut groups {
        group.runs.sort_by_key(|run| run.seed);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_from_the_smallest_to_the_largest() {
        assert_eq!(Range::from_values([]), None);
        let range = Range::from_values([2.0, 1.0, 3.0]).unwrap();
        assert_eq!(range, Range { count: 3, least: 1.0, most: 3.0 });
        for (least, most, overlaps) in
            [(3.0, 4.0, true), (3.1, 4.0, false), (0.0, 0.9, false), (1.5, 1.6, true)]
        {
            let other = Range { count: 2, least, most };
            assert_eq!((range.overlaps(&other), other.overlaps(&range)), (overlaps, overlaps));
        }
    }
}
