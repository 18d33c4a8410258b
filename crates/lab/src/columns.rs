//! [`Columns`]: results as a table, with a row for each experiment. A kind of experiments says which columns it has
//! ([`kinds`](crate::kinds)); who shows them knows no kind.

use crate::group::{Group, Range};
use crate::quantity::Quantity;
use crate::result::ResultFile;

/// The columns of some results of one kind, behind their names.
pub struct Columns {
    /// Whether there is a column with the number of runs.
    pub has_runs: bool,
    pub columns: Vec<Column>,
    /// What the heads mean, in lines.
    pub legend: String,
}

/// A column: a value of each experiment, over its runs.
pub struct Column {
    pub head: String,
    /// How its values are shown.
    pub shown: Shown,
    of: Box<Value>,
}

/// The value of an experiment.
type Value = dyn Fn(&Group<'_>) -> Option<Range>;

/// How values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Whole numbers.
    Count,
    /// Nanoseconds, with a unit that fits.
    Duration,
    /// So many digits behind the point, and this behind them.
    Number(usize, &'static str),
    /// As a duration, and nothing instead of a dash if there is none.
    DurationIfAny,
}

impl Column {
    /// The sum of a counter over the runs.
    #[must_use]
    pub fn total(head: &str, counter: impl Fn(&ResultFile) -> u64 + 'static) -> Self {
        let of = move |group: &Group<'_>| Range::from_values([group.sum(&counter) as f64]);
        Self { head: head.into(), shown: Shown::Count, of: Box::new(of) }
    }

    /// The range of a value over the runs.
    #[must_use]
    pub fn range(
        head: impl Into<String>,
        shown: Shown,
        value: impl Fn(&ResultFile) -> Option<f64> + 'static,
    ) -> Self {
        let of = move |group: &Group<'_>| group.range(&value);
        Self { head: head.into(), shown, of: Box::new(of) }
    }

    /// The range of a quantity over the runs.
    #[must_use]
    pub fn quantity(head: impl Into<String>, shown: Shown, quantity: Quantity) -> Self {
        Self::range(head, shown, move |run| quantity.of(run))
    }

    /// The range of the quantity of these words.
    #[must_use]
    pub fn words(head: impl Into<String>, shown: Shown, words: &[&str]) -> Self {
        let quantity = Quantity::of_words(words);
        Self::range(head, shown, move |run| quantity.as_ref()?.of(run))
    }

    /// The range of the time of these words, in microseconds.
    #[must_use]
    pub fn micros(head: impl Into<String>, shown: Shown, words: &[&str]) -> Self {
        let quantity = Quantity::of_words(words);
        Self::range(head, shown, move |run| Some(quantity.as_ref()?.of(run)? / 1_000.0))
    }

    /// The value of an experiment.
    #[must_use]
    pub fn of(&self, group: &Group<'_>) -> Option<Range> {
        (self.of)(group)
    }
}
