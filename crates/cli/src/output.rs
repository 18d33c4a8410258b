//! Standard output, where a reader may go away early.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::time::Duration;

use candor_diagnostics::visible;
use candor_output::say;
use candor_wire::can::Timing;

/// Writes `text` to standard output, when nothing follows. A broken pipe is success: nobody wants to
/// know more.
pub(crate) fn print(text: &str) -> Result<(), String> {
    print_more(text).map(drop)
}

/// The same, but nobody who does not read can keep the program from ending.
pub(crate) fn print_within(text: String, timeout: Duration) -> Result<(), String> {
    let (done, printed) = mpsc::channel();
    std::thread::spawn(move || done.send(print(&text)));
    // A thread that waits for its reader ends with the process.
    printed.recv_timeout(timeout).unwrap_or(Ok(()))
}

/// Writes `text` to standard output, when more follows; false if nobody reads any more.
pub(crate) fn print_more(text: &str) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unwritable(&error)),
    }
}

/// Why standard output cannot be written, and what to do.
pub(crate) fn unwritable(error: &io::Error) -> String {
    let remedy = candor_recording::remedy(error, "check where it goes");
    format!("standard output cannot be written: {error}; {remedy}")
}

/// Says so if no CAN bus runs at these bit rates.
pub(crate) fn note_unusual(timing: Timing) {
    if let Some(unusual) = timing.unusual() {
        let meant = unusual.meant().map_or(String::new(), |rate| format!("; did you mean {rate}?"));
        say!("note: {unusual}{meant}");
    }
}

/// A line of what an interval has brought: its end, then figures.
pub(crate) fn interval_line(cells: &[String]) -> String {
    let width = |place: usize| if place == 0 { 6 } else { 10 };
    let padded = cells.iter().enumerate().map(|(place, cell)| format!("{cell:>0$}", width(place)));
    padded.chain(["\n".to_owned()]).collect()
}

/// The same as [`duration`], with a dash for none.
pub(crate) fn duration_or_dash(ns: Option<i64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| duration(ns as f64))
}

/// A duration in nanoseconds for people: three digits that matter.
pub(crate) fn duration(ns: f64) -> String {
    let (per_unit, unit, digits) = unit(ns);
    format!("{:.digits$} {unit}", ns / per_unit)
}

/// The same for an upper bound: what is shown is not below it.
pub(crate) fn duration_at_most(ns: u64) -> String {
    rounded(ns, u64::div_ceil)
}

/// The same for a lower bound: what is shown is not above it.
pub(crate) fn duration_at_least(ns: u64) -> String {
    rounded(ns, |ns, last| ns / last)
}

fn rounded(ns: u64, divide: fn(u64, u64) -> u64) -> String {
    let (per_unit, _, digits) = unit(ns as f64);
    let last = (per_unit as u64 / 10_u64.pow(digits as u32)).max(1);
    duration((divide(ns, last) * last) as f64)
}

/// In ns, the unit that a duration is shown in; its name; and how many digits are behind the point.
fn unit(ns: f64) -> (f64, &'static str, usize) {
    let (per_unit, unit) = match ns.abs() {
        size if size < 1e3 => return (1.0, "ns", 0),
        size if size < 1e6 => (1e3, "us"),
        size if size < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let digits = match (ns / per_unit).abs() {
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    (per_unit, unit, digits)
}

/// A number with thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Rows as an aligned table with a line under the head. Columns whose name begins with `>` are
/// aligned to the right.
pub(crate) fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let head: Vec<_> = head.iter().map(AsRef::as_ref).collect();
    let rows: Vec<Vec<_>> =
        rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let is_right: Vec<_> = head.iter().map(|name| name.starts_with('>')).collect();
    let head: Vec<_> = head.iter().map(|name| Cow::from(name.trim_start_matches('>'))).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(head.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let line = |row: &[Cow<'_, str>]| {
        let cells = row.iter().zip(&widths).zip(&is_right).map(|((cell, &width), &is_right)| {
            // The formatter of the library panics at widths of 65,536 and more.
            let gap = " ".repeat(width - cell.chars().count().min(width));
            if is_right { format!("{gap}{cell}") } else { format!("{cell}{gap}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let rule: Vec<_> = widths.iter().map(|&width| Cow::from("-".repeat(width))).collect();
    std::iter::once(line(&head))
        .chain(std::iter::once(line(&rule)))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
}

/// A table with a row for each item.
pub(crate) struct Table<T> {
    items: Vec<T>,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl<T> Table<T> {
    pub(crate) fn of(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<_> = items.into_iter().collect();
        Self { rows: vec![Vec::new(); items.len()], items, head: Vec::new() }
    }

    /// Adds a column: its head, as [`table`] has it, and what it has of an item.
    pub(crate) fn column(self, head: impl Into<String>, cell: impl Fn(&T) -> String) -> Self {
        self.column_if(true, head, cell)
    }

    /// The same if it is wanted.
    pub(crate) fn column_if(
        mut self,
        is_wanted: bool,
        head: impl Into<String>,
        cell: impl Fn(&T) -> String,
    ) -> Self {
        if is_wanted {
            self.head.push(head.into());
            self.rows.iter_mut().zip(&self.items).for_each(|(row, item)| row.push(cell(item)));
        }
        self
    }

    pub(crate) fn text(self) -> String {
        table(&self.head, &self.rows)
    }

    /// As text with a column for each item: where there are few items, and more about them than a terminal has room for.
    #[cfg(feature = "lab")]
    pub(crate) fn turned(self) -> String {
        let names = self.rows.iter().map(|row| format!(">{}", row.first().map_or("", |it| it)));
        let head: Vec<_> = std::iter::once(String::new()).chain(names).collect();
        let row = |column: usize| {
            let name = self.head[column].trim_start_matches('>').to_owned();
            let cells = self.rows.iter().map(|row| row.get(column).cloned().unwrap_or_default());
            std::iter::once(name).chain(cells).collect()
        };
        let rows: Vec<Vec<_>> = (1..self.head.len()).map(row).collect();
        table(&head, &rows)
    }

    /// The head, and then the rows.
    pub(crate) fn lines(self) -> Vec<Vec<String>> {
        [vec![self.head], self.rows].concat()
    }
}

/// Both parts of `LEFT=RIGHT`, neither of them empty.
pub(crate) fn pair(text: &str) -> Option<(String, String)> {
    let (left, right) = text.split_once('=')?;
    let is_whole = !left.is_empty() && !right.is_empty();
    is_whole.then(|| (left.to_owned(), right.to_owned()))
}

/// Each of the items once, where it comes first.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// A word for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Words in lines of at most so many characters.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// `3 d 4 h`, `1 h 2 min`, `2 min 3 s`, `3 s`
pub(crate) fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{} d {hours} h", thousands(days)),
    }
}

/// Several things in a cell of a table.
pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<_> = items.into_iter().collect();
    if items.is_empty() { "-".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_tables_do_not_move_the_cursor() {
        let row = |name: &str| vec![name.to_owned(), "1".to_owned()];
        assert_eq!(
            table(&["name", ">frames"], &[row("a\nb"), row("\u{1b}[31mred"), row("plain \u{fc}")]),
            "name           frames\n\
             -------------  ------\n\
             a\\nb                1\n\
             \\u{1b}[31mred       1\n\
             plain \u{fc}             1\n"
        );
    }

    #[test]
    fn numbers_are_shown_for_people() {
        for (ns, shown) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (35_000.0, "35.0 us"),
            (1.5e6, "1.50 ms"),
            (-2e9, "-2.00 s"),
        ] {
            assert_eq!(duration(ns), shown);
        }
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (51_637_000, "51,637,000")]
        {
            assert_eq!(thousands(number), shown);
        }
    }

    #[test]
    fn tables_are_aligned() {
        let rows = vec![vec!["in".into(), "12".into()], vec!["out bus".into(), "3".into()]];
        let expected = "bus      frames\n-------  ------\nin           12\nout bus       3\n";
        assert_eq!(table(&["bus", ">frames"], &rows), expected);
        let long = "x".repeat(70_000);
        let shown = table(&["name"], &[vec![long.clone()], vec!["short".into()]]);
        assert!(shown.contains(&format!("\n{long}\nshort\n")));
    }

    #[test]
    fn ages_are_shown_for_people() {
        for (seconds, shown) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3_720, "1 h 2 min"),
            (90_000, "1 d 1 h"),
            (315_360_000, "3,650 d 0 h"),
        ] {
            assert_eq!(age(seconds * 1_000_000_000), shown);
        }
    }
}
