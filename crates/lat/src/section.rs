//! Sections: what a result says besides counts and latencies, as tables of cells. Each section and each of its columns
//! is defined once, as a [`SectionKind`]; who shows a result needs no more than that.

use std::collections::BTreeMap;

use crate::Figures;

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words.
    Text,
    Count,
    Frames,
    Nanoseconds,
    /// Percent of the frames that were sent, of the time, or of all processors.
    Percent,
    Bytes,
    BitsPerSecond,
    /// Instructions.
    Instructions,
}

impl Unit {
    /// Its word, as the report and `--json` have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Count => "count",
            Self::Frames => "frames",
            Self::Nanoseconds => "ns",
            Self::Percent => "percent",
            Self::Bytes => "bytes",
            Self::BitsPerSecond => "bit/s",
            Self::Instructions => "instructions",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// Its key in files, with the unit at the end if it is one of time.
    pub key: &'static str,
    /// Its head, for people.
    pub label: &'static str,
    /// What its values count; of [`Cell::Figures`], what those count.
    pub unit: Unit,
}

impl Column {
    #[must_use]
    pub const fn new(key: &'static str, label: &'static str, unit: Unit) -> Self {
        Self { key, label, unit }
    }

    /// What claims call it: its key without the unit.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.key.strip_suffix("_ns").unwrap_or(self.key)
    }
}

/// Where a section is shown besides the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    Nowhere,
    Report,
    /// In the report and in the terminal.
    Everywhere,
}

/// Which columns a section has. The first column of one with several rows names the row.
#[derive(Debug, PartialEq, Eq)]
pub struct SectionKind {
    /// Its key in files.
    pub key: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// Its columns, in the order of tables.
    pub columns: &'static [Column],
    pub shown: Shown,
}

impl SectionKind {
    /// A row with these cells, one for each column. Empty ones are left out.
    ///
    /// # Panics
    /// There are fewer or more cells than columns.
    #[must_use]
    pub fn row<const N: usize>(&self, cells: [Cell; N]) -> Row {
        assert_eq!(N, self.columns.len(), "{} has a cell for each column", self.key);
        let row = self.columns.iter().zip(cells).filter(|(_, cell)| *cell != Cell::Empty);
        row.map(|(column, cell)| (column.key.to_owned(), cell)).collect()
    }

    /// The column that claims call so.
    #[must_use]
    pub fn column(&self, word: &str) -> Option<&'static Column> {
        self.columns.iter().find(|column| column.word() == word)
    }
}

/// A value of a section.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum Cell {
    /// Nothing is known.
    #[default]
    Empty,
    /// A whole number.
    Count(u64),
    Number(f64),
    /// Words.
    Text(String),
    /// Several of them.
    Texts(Vec<String>),
    /// What is said of many values.
    Figures(Box<Figures>),
    /// A table of its own.
    Rows(Vec<Row>),
}

impl Cell {
    /// Its number; of words, none.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Its words; of a number, none.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its figures, if it has some.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Figures(figures) => Some(figures),
            _ => None,
        }
    }
}

impl Cell {
    /// Whether a column of that unit can have it: words, or numbers and what is made of them. Of what is counted, nothing
    /// is below zero.
    #[must_use]
    pub fn fits(&self, unit: Unit) -> bool {
        match self {
            Self::Empty | Self::Rows(_) => true,
            Self::Text(_) | Self::Texts(_) => unit == Unit::Text,
            Self::Number(number) if *number < 0.0 => {
                matches!(unit, Unit::Nanoseconds | Unit::Percent)
            }
            Self::Count(_) | Self::Number(_) | Self::Figures(_) => unit != Unit::Text,
        }
    }
}

/// Turns a type into a cell.
macro_rules! cells {
    ($($type:ty: $value:ident => $cell:expr),* $(,)?) => {
        $(impl From<$type> for Cell {
            fn from($value: $type) -> Self {
                $cell
            }
        })*
    };
}

cells! {
    u64: it => Self::Count(it),
    u32: it => Self::Count(it.into()),
    usize: it => Self::Count(it as u64),
    f64: it => Self::Number(it),
    &str: it => Self::Text(it.to_owned()),
    String: it => Self::Text(it),
    Vec<String>: it => Self::Texts(it),
    Figures: it => Self::Figures(Box::new(it)),
    Vec<Row>: it => Self::Rows(it),
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

/// Cells by the keys of their columns.
pub type Row = BTreeMap<String, Cell>;

/// A section of a result. In files, one without several rows is an object and no list.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum Section {
    /// Values that there are once.
    One(Row),
    /// A table.
    Rows(Vec<Row>),
}

impl Section {
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        match self {
            Self::One(row) => core::slice::from_ref(row),
            Self::Rows(rows) => rows,
        }
    }
}

/// The sections of a result by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Sections(BTreeMap<String, Section>);

impl Sections {
    /// With a table, unless it has no rows.
    #[must_use]
    pub fn with(mut self, kind: &SectionKind, rows: Vec<Row>) -> Self {
        if !rows.is_empty() {
            self.0.insert(kind.key.to_owned(), Section::Rows(rows));
        }
        self
    }

    /// With values that there are once.
    #[must_use]
    pub fn with_one(mut self, kind: &SectionKind, row: Row) -> Self {
        self.0.insert(kind.key.to_owned(), Section::One(row));
        self
    }

    /// The first cell, of the sections of these kinds, that its column cannot have: the section, the row from 0, and
    /// the column. Sections and columns of other kinds are those of later versions.
    #[must_use]
    pub fn misfit<'a>(
        &self,
        kinds: &[&'a SectionKind],
    ) -> Option<(&'a SectionKind, usize, &'a Column)> {
        kinds.iter().find_map(|kind| {
            let rows = self.rows(kind).iter().enumerate();
            let mut cells =
                rows.flat_map(|(at, row)| kind.columns.iter().map(move |it| (at, row, it)));
            let is_wrong =
                |row: &Row, it: &Column| row.get(it.key).is_some_and(|cell| !cell.fits(it.unit));
            let (at, _, column) = cells.find(|(_, row, it)| is_wrong(row, it))?;
            Some((*kind, at, column))
        })
    }

    #[must_use]
    pub fn get(&self, kind: &SectionKind) -> Option<&Section> {
        self.0.get(kind.key)
    }

    /// The rows of a section; none if there is none.
    #[must_use]
    pub fn rows(&self, kind: &SectionKind) -> &[Row] {
        self.get(kind).map_or(&[], Section::rows)
    }

    /// Its only row, if it is a section with values that there are once.
    #[must_use]
    pub fn one(&self, kind: &SectionKind) -> Option<&Row> {
        match self.get(kind)? {
            Section::One(row) => Some(row),
            Section::Rows(_) => None,
        }
    }

    /// A value of a section whose values there are once.
    #[must_use]
    pub fn cell(&self, kind: &SectionKind, key: &str) -> Option<&Cell> {
        self.one(kind)?.get(key)
    }

    #[must_use]
    pub fn number(&self, kind: &SectionKind, key: &str) -> Option<f64> {
        self.cell(kind, key)?.number()
    }

    /// The numbers of a column, of the rows that have one.
    #[must_use]
    pub fn numbers(&self, kind: &SectionKind, key: &str) -> Vec<f64> {
        self.rows(kind).iter().filter_map(|row| row.get(key)?.number()).collect()
    }

    /// The words of a column, of the rows that have some.
    #[must_use]
    pub fn texts(&self, kind: &SectionKind, key: &str) -> Vec<&str> {
        self.rows(kind).iter().filter_map(|row| row.get(key)?.text()).collect()
    }

    /// Keeps some rows of a table; how many went.
    pub fn retain(&mut self, kind: &SectionKind, keeps: impl FnMut(&Row) -> bool) -> usize {
        let Some(Section::Rows(rows)) = self.0.get_mut(kind.key) else { return 0 };
        let all = rows.len();
        rows.retain(keeps);
        all - rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: SectionKind = SectionKind {
        key: "buses",
        title: "Buses",
        columns: &[
            Column::new("name", "bus", Unit::Text),
            Column::new("waiting_ns", "waiting", Unit::Nanoseconds),
        ],
        shown: Shown::Everywhere,
    };

    #[test]
    fn what_is_empty_is_left_out() {
        let rows = vec![KIND.row(["a".into(), 5_u64.into()]), KIND.row(["b".into(), Cell::Empty])];
        let sections = Sections::default().with(&KIND, rows);
        let [first, second] = sections.rows(&KIND) else { panic!("{sections:?}") };
        assert_eq!(first["waiting_ns"].number(), Some(5.0));
        assert_eq!((second["name"].text(), second.len()), (Some("b"), 1));
        assert_eq!(Sections::default().with(&KIND, Vec::new()), Sections::default());
        assert_eq!(sections.one(&KIND), None, "a table has no only row");
    }

    #[test]
    fn a_cell_that_its_column_cannot_have_is_found() {
        let row = |name: Cell, waiting: Cell| KIND.row([name, waiting]);
        let misfit = |row: Row| {
            let good = KIND.row(["a".into(), (-5.0).into()]);
            let sections = Sections::default().with(&KIND, vec![good, row]);
            sections.misfit(&[&KIND]).map(|(kind, at, column)| (kind.key, at, column.key))
        };
        assert_eq!(misfit(row("b".into(), 5_u64.into())), None);
        assert_eq!(misfit(row("b".into(), "x".into())), Some(("buses", 1, "waiting_ns")));
        assert_eq!(misfit(row(5_u64.into(), Cell::Empty)), Some(("buses", 1, "name")));
        assert_eq!(misfit(Row::from([("zzz".into(), "later".into())])), None);
        assert!(!Cell::from(-1.0).fits(Unit::Frames));
    }

    #[test]
    fn claims_call_columns_without_their_unit() {
        assert_eq!(KIND.column("waiting").map(|column| column.key), Some("waiting_ns"));
        assert_eq!(KIND.column("waiting_ns"), None);
    }
}
