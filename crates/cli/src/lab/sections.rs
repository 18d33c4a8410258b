//! Sections of results in the terminal.

use candor_lab::result::{Figures, ResultFile};
use candor_lab::sections;
use candor_lat::section::{Cell, Column, Row, Section, SectionKind, Shown, Unit};

use crate::output::{duration, table, thousands};

/// The figures that are shown of many values.
const FIGURES: [&str; 4] = ["min", "p50", "p99", "max"];

/// The sections of a result that are shown everywhere.
pub(super) fn text(result: &ResultFile) -> String {
    let everywhere = sections::ALL.iter().filter(|kind| kind.shown == Shown::Everywhere);
    let known = everywhere.filter_map(|kind| Some((kind, result.sections.get(kind)?)));
    known.map(|(kind, section)| format!("\n{}", section_text(kind, section))).collect()
}

/// One section. Columns without a value, or with nothing but zeros, are left out.
fn section_text(kind: &SectionKind, section: &Section) -> String {
    match section {
        Section::Rows(rows) => rows_text(kind.columns, rows),
        Section::One(row) => {
            let columns = kind.columns.iter().filter(|column| is_shown(column, [row]));
            let line = |column: &Column| {
                Some(vec![column.label.into(), shown(row.get(column.key)?, column.unit)])
            };
            table(&[&kind.title.to_lowercase(), ""], &columns.filter_map(line).collect::<Vec<_>>())
        }
    }
}

/// Rows as a table; figures have several columns.
pub(super) fn rows_text(columns: &[Column], rows: &[Row]) -> String {
    let (mut head, mut cells) = (Vec::new(), vec![Vec::new(); rows.len()]);
    for column in columns.iter().filter(|column| is_shown(column, rows)) {
        let has_figures = rows.iter().any(|row| figures(row, column).is_some());
        let figure_names = if has_figures { &FIGURES[..] } else { &[""] };
        for name in figure_names {
            let sign = if column.unit == Unit::Text { "" } else { ">" };
            head.push(format!("{sign}{} {name}", column.label).trim_end().to_owned());
            for (cells, row) in cells.iter_mut().zip(rows) {
                let of_figures = figures(row, column).and_then(|it| it.figure_ns(name));
                let value = || row.get(column.key).map(|cell| shown(cell, column.unit));
                let text = if has_figures { of_figures.map(duration) } else { value() };
                cells.push(text.unwrap_or_else(|| "-".into()));
            }
        }
    }
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &cells)
}

fn figures<'a>(row: &'a Row, column: &Column) -> Option<&'a Figures> {
    row.get(column.key)?.figures()
}

fn is_shown<'a>(column: &Column, rows: impl IntoIterator<Item = &'a Row>) -> bool {
    let mut cells = rows.into_iter().filter_map(|row| row.get(column.key));
    cells.any(|cell| cell.number() != Some(0.0))
}

/// A value for people.
fn shown(cell: &Cell, unit: Unit) -> String {
    match (cell, unit) {
        (Cell::Figures(figures), _) => {
            let figure = |name| figures.figure_ns(name).map_or_else(String::new, duration);
            let all = FIGURES.map(|name| format!("{name} {}", figure(name)));
            format!("{}; {} values", all.join(", "), thousands(figures.count))
        }
        (Cell::Texts(texts), _) => texts.join(" "),
        (Cell::Rows(rows), _) => thousands(rows.len() as u64),
        (Cell::Text(text), _) => text.clone(),
        (cell, Unit::Nanoseconds) => cell.number().map_or_else(String::new, duration),
        (cell, Unit::Percent) => cell.number().map_or_else(String::new, |it| format!("{it:.2} %")),
        (Cell::Count(count), Unit::BitsPerSecond) => format!("{} bit/s", thousands(*count)),
        (Cell::Count(count), _) => thousands(*count),
        (Cell::Number(number), _) => format!("{number:.1}"),
        (Cell::Empty, _) => String::new(),
    }
}
