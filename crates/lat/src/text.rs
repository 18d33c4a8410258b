//! Latency profiles and histograms drawn with characters.
//!
//! Everything here returns a string of lines, each ended by a line feed and none wider than asked
//! for; nothing is printed. The count axis of a profile is always logarithmic, as in the papers:
//! it magnifies the worst case, which ends the curve at the lower right.
//!
//! ```
//! use candor_lat::text::{self, Canvas, Series};
//! let simple = Series { name: "simple", profile: &[(35_000, 9000), (60_000, 200), (140_000, 1)] };
//! let canvas = Canvas { width: 40, height: 10, ..Canvas::default() };
//! assert_eq!(text::profile("Gateway latency", &[simple], canvas), "\
//! frames with at least this latency
//!      ││
//!   1k ┤│
//!  100 ┤╰───────╮
//!   10 ┤        │
//!    1 ┤        ╰────────────────────────●
//!      └─────┬──────────────┬─────────────
//!          50 µs         100 µs
//!                         Gateway latency
//!  ──● simple
//! ");
//! ```

mod ranges;

use core::fmt::Write;

use crate::histogram::Bin;

pub use ranges::{Range, ranges};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Columns, at least 40.
    pub width: usize,
    /// Lines for everything, legend included; a profile takes at least 8.
    pub height: usize,
    /// How the time axis runs.
    pub time: Scale,
    /// What to draw with.
    pub charset: Charset,
}

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal ratios; what is not above zero stands at the left edge.
    Logarithmic,
}

/// What to draw with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Box-drawing characters.
    Unicode,
    /// Plain ASCII.
    Ascii,
}

/// 80 columns, 20 lines, linear time, Unicode.
impl Default for Canvas {
    fn default() -> Self {
        Self { width: 80, height: 20, time: Scale::Linear, charset: Charset::Unicode }
    }
}

/// A latency profile and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series<'a> {
    /// What the legend calls it.
    pub name: &'a str,
    /// Points as [`Histogram::profile`](crate::Histogram::profile) makes them.
    pub profile: &'a [(i64, u64)],
}

/// Draws latency profiles over one another; `label` names the time axis.
#[must_use]
pub fn profile(label: &str, series: &[Series<'_>], canvas: Canvas) -> String {
    let canvas = Canvas { width: canvas.width.max(40), ..canvas };
    let legend = legend(series, canvas);
    let points = || series.iter().flat_map(|series| series.profile).copied();
    let (Some(shortest_ns), Some(longest_ns), Some(most)) = (
        points().map(|(time_ns, _)| time_ns).min(),
        points().map(|(time_ns, _)| time_ns).max(),
        points().map(|(_, count)| count).max(),
    ) else {
        return format!("{label}: no frames\n");
    };
    let axis = CountAxis::new(most, canvas.height.saturating_sub(4 + legend.len()).max(3));
    let columns = canvas.width - axis.margin() - 2;
    let time = TimeAxis::new(canvas.time, (shortest_ns, longest_ns), columns, points());

    let mut cells = vec![vec![' '; columns]; axis.rows];
    // The first series is drawn last: it is what the others are compared with.
    for (index, series) in series.iter().enumerate().rev() {
        draw(&mut cells, series.profile, pen(index, canvas.charset), &axis, &time);
    }

    let mut text = String::from("frames with at least this latency\n");
    let (plain, ticked) =
        if canvas.charset == Charset::Unicode { ('│', '┤') } else { ('|', '+') };
    for (row, cells) in cells.iter().enumerate() {
        let tick = axis.label(row);
        let edge = if tick.is_empty() { plain } else { ticked };
        push_line(
            &mut text,
            &format!("{tick:>margin$} {edge}{}", String::from_iter(cells), margin = axis.margin()),
        );
    }
    let (ruler, labels) = time.ruler(canvas.charset);
    let margin = axis.margin() + 1;
    push_line(&mut text, &format!("{:margin$}{ruler}", ""));
    push_line(&mut text, &format!("{:margin$}{labels}", ""));
    push_line(&mut text, &format!("{label:>width$.width$}", width = canvas.width - 1));
    legend.iter().for_each(|line| push_line(&mut text, line));
    text
}

/// Draws a classic histogram as one bar per bin, first the shortest latencies; `label` stands
/// above. Only the canvas's width and character set count.
#[must_use]
pub fn histogram(label: &str, bins: &[Bin], canvas: Canvas) -> String {
    let edges: Vec<String> = bins
        .iter()
        .map(|bin| {
            format!("{} .. {}", time(bin.from_ns, canvas.charset), time(bin.to_ns, canvas.charset))
        })
        .collect();
    let edges_width = edges.iter().map(|edge| edge.chars().count()).max().unwrap_or(0);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let count_width = most.to_string().len();
    let bar_width = canvas.width.saturating_sub(edges_width + count_width + 4).max(8);

    let mut text = String::new();
    push_line(&mut text, label);
    for (bin, edge) in bins.iter().zip(&edges) {
        let bar = bar(bin.count, most, bar_width, canvas.charset);
        push_line(&mut text, &format!(" {edge:>edges_width$}  {:>count_width$} {bar}", bin.count));
    }
    text
}

/// A bar of `count` of `most`, to an eighth of a character; nothing is invisible but nothing.
fn bar(count: u64, most: u64, width: usize, charset: Charset) -> String {
    const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let parts = if charset == Charset::Unicode { 8 } else { 1 };
    let length = u128::from(count) * width as u128 * parts;
    let length = length.div_ceil(u128::from(most)) as usize;
    if charset == Charset::Ascii {
        return "#".repeat(length);
    }
    let mut bar = "█".repeat(length / 8);
    if !length.is_multiple_of(8) {
        bar.push(PARTS[length % 8 - 1]);
    }
    bar
}

/// A time in the largest unit that leaves a number of at least 1, to three digits or more.
#[must_use]
pub fn time(time_ns: i64, charset: Charset) -> String {
    let micro = if charset == Charset::Unicode { "µs" } else { "us" };
    let magnitude = time_ns.unsigned_abs();
    let (unit, suffix) = match magnitude {
        0..1_000 => return format!("{time_ns} ns"),
        1_000..1_000_000 => (1_000, micro),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let digits = match magnitude / unit {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    format!("{:.digits$} {suffix}", time_ns as f64 / unit as f64)
}

/// A [`time`] that is round, without the zeros.
fn round_time(time_ns: i64, charset: Charset) -> String {
    let time = time(time_ns, charset);
    match time.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => time,
    }
}

/// The characters of one series.
#[derive(Clone, Copy)]
struct Pen {
    across: char,
    down: char,
    /// From the left, downwards.
    fall: char,
    /// From above, to the right.
    land: char,
    /// The worst case.
    end: char,
}

/// The pen of the series of that index; after the sixth they repeat.
fn pen(index: usize, charset: Charset) -> Pen {
    const fn line([across, down, fall, land, end]: [char; 5]) -> Pen {
        Pen { across, down, fall, land, end }
    }
    const UNICODE: [Pen; 6] = [
        line(['─', '│', '╮', '╰', '●']),
        line(['═', '║', '╗', '╚', '◆']),
        line(['┄', '┆', '╮', '╰', '○']),
        line(['━', '┃', '┓', '┗', '■']),
        line(['∙', '∙', '∙', '∙', '▲']),
        line(['×', '×', '×', '×', '×']),
    ];
    const ASCII: [Pen; 6] = [
        line(['-', '|', '.', '\'', '@']),
        line(['='; 5]),
        line(['o'; 5]),
        line(['x'; 5]),
        line(['*'; 5]),
        line(['~'; 5]),
    ];
    match charset {
        Charset::Unicode => UNICODE[index % UNICODE.len()],
        Charset::Ascii => ASCII[index % ASCII.len()],
    }
}

/// Which neighbours of a cell a curve passes to.
mod towards {
    pub(super) const LEFT: u8 = 1;
    pub(super) const RIGHT: u8 = 2;
    pub(super) const UP: u8 = 4;
    pub(super) const DOWN: u8 = 8;
}

/// Draws one profile: from each point down to the next one's count, then across to its time.
fn draw(
    cells: &mut [Vec<char>],
    points: &[(i64, u64)],
    pen: Pen,
    counts: &CountAxis,
    time: &TimeAxis,
) {
    let mut course = vec![vec![0_u8; time.columns]; counts.rows];
    let places = points.iter().map(|&(time_ns, count)| (time.column(time_ns), counts.row(count)));
    let Some((mut column, mut row)) = places.clone().next() else { return };
    for (next_column, next_row) in places {
        while row < next_row {
            course[row][column] |= towards::DOWN;
            row += 1;
            course[row][column] |= towards::UP;
        }
        while column < next_column {
            course[row][column] |= towards::RIGHT;
            column += 1;
            course[row][column] |= towards::LEFT;
        }
    }
    for (cells, course) in cells.iter_mut().zip(&course) {
        for (cell, &course) in cells.iter_mut().zip(course) {
            *cell = match course {
                0 => continue,
                _ if course == towards::LEFT | towards::DOWN => pen.fall,
                _ if course == towards::UP | towards::RIGHT => pen.land,
                _ if course & (towards::UP | towards::DOWN) != 0 => pen.down,
                _ => pen.across,
            };
        }
    }
    cells[row][column] = pen.end;
}

/// The vertical axis: counts from 1 at the bottom to the highest at the top, logarithmic.
struct CountAxis {
    most: u64,
    rows: usize,
}

impl CountAxis {
    fn new(most: u64, rows: usize) -> Self {
        Self { most: most.max(2), rows }
    }

    fn row(&self, count: u64) -> usize {
        let height = (count.max(1) as f64).ln() / (self.most as f64).ln();
        let row = (1.0 - height) * (self.rows - 1) as f64;
        (row.round() as usize).min(self.rows - 1)
    }

    /// The label of a row: a power of ten whose place this is.
    fn label(&self, row: usize) -> String {
        let decades =
            (0..=19).map(|power| 10_u64.pow(power)).take_while(|&count| count <= self.most);
        let here = decades.filter(|&count| self.row(count) == row).last();
        here.map(short_count).unwrap_or_default()
    }

    fn margin(&self) -> usize {
        (0..self.rows).map(|row| self.label(row).len()).max().unwrap_or(0).max(4)
    }
}

/// A power of ten with a unit: `10k`.
fn short_count(count: u64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let thousands = (count.max(1).ilog10() / 3) as usize;
    format!("{}{}", count / 1000_u64.pow(thousands as u32), UNITS[thousands])
}

/// The horizontal axis.
struct TimeAxis {
    scale: Scale,
    from_ns: f64,
    to_ns: f64,
    columns: usize,
}

impl TimeAxis {
    fn new(
        scale: Scale,
        (shortest_ns, longest_ns): (i64, i64),
        columns: usize,
        points: impl Iterator<Item = (i64, u64)>,
    ) -> Self {
        let shortest_ns = match scale {
            Scale::Linear => shortest_ns,
            Scale::Logarithmic => {
                points.map(|(time_ns, _)| time_ns).filter(|&time_ns| time_ns > 0).min().unwrap_or(1)
            }
        };
        let (from_ns, to_ns) = (shortest_ns as f64, longest_ns as f64);
        // A single time stands in the middle of a small range.
        let (from_ns, to_ns) = if to_ns > from_ns {
            (from_ns, to_ns)
        } else {
            (from_ns - (from_ns.abs() * 0.1).max(0.5), from_ns + (from_ns.abs() * 0.1).max(0.5))
        };
        Self { scale, from_ns, to_ns, columns }
    }

    fn column(&self, time_ns: i64) -> usize {
        (self.part(time_ns as f64) * (self.columns - 1) as f64).round() as usize
    }

    /// Where a time lies between the ends, 0 to 1.
    fn part(&self, time_ns: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (time_ns - self.from_ns) / (self.to_ns - self.from_ns),
            Scale::Logarithmic => {
                (time_ns.max(self.from_ns) / self.from_ns).ln() / (self.to_ns / self.from_ns).ln()
            }
        };
        part.clamp(0.0, 1.0)
    }

    /// The axis with its ticks, and the line of labels below.
    fn ruler(&self, charset: Charset) -> (String, String) {
        let (corner, line, tick) =
            if charset == Charset::Unicode { ('└', '─', '┬') } else { ('+', '-', '+') };
        let mut ruler = vec![line; self.columns];
        let mut labels = String::new();
        for time_ns in self.ticks() {
            let label = round_time(time_ns as i64, charset);
            let column = self.column(time_ns as i64);
            // A label stands under its tick, the corner being one further to the left.
            let start = (column + 1).saturating_sub(label.chars().count() / 2);
            let used = labels.chars().count();
            if (used > 0 && start < used + 2) || start + label.chars().count() > self.columns + 1 {
                continue;
            }
            ruler[column] = tick;
            let _ = write!(labels, "{:gap$}{label}", "", gap = start - used);
        }
        (format!("{corner}{}", String::from_iter(ruler)), labels)
    }

    /// Round times between the ends, about one per ten columns.
    fn ticks(&self) -> Vec<f64> {
        let wanted = (self.columns / 10).max(2) as f64;
        match self.scale {
            Scale::Linear => {
                let rough = (self.to_ns - self.from_ns) / wanted;
                let decade = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
                let step = step.into_iter().find(|&step| step >= rough).unwrap_or(rough).max(1.0);
                let first = (self.from_ns / step).ceil();
                let count = ((self.to_ns / step).floor() - first) as usize + 1;
                (0..count).map(|index| (first + index as f64) * step).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.to_ns / self.from_ns).log10();
                let factors: &[f64] = match wanted / decades {
                    ..2.0 => &[1.0],
                    2.0..4.0 => &[1.0, 2.0, 5.0],
                    _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
                };
                (0..19)
                    .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                    .filter(|time_ns| (self.from_ns..=self.to_ns).contains(time_ns))
                    .collect()
            }
        }
    }
}

/// The names beside their pens, as many on a line as fit.
fn legend(series: &[Series<'_>], canvas: Canvas) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, series) in series.iter().enumerate() {
        let Pen { across, end, .. } = pen(index, canvas.charset);
        let rest = if series.profile.is_empty() { " (no frames)" } else { "" };
        let entry = format!(" {across}{across}{end} {}{rest}", series.name);
        let entry: String = entry.chars().filter(|c| !c.is_control()).take(canvas.width).collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + entry.chars().count() + 2 <= canvas.width => {
                line.push_str("  ");
                line.push_str(&entry);
            }
            _ => lines.push(entry),
        }
    }
    lines
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    #[test]
    fn times_are_short() {
        for (time_ns, shown, round) in [
            (0, "0 ns", "0 ns"),
            (999, "999 ns", "999 ns"),
            (1_000, "1.00 us", "1 us"),
            (-35_400, "-35.4 us", "-35.4 us"),
            (124_501, "125 us", "125 us"),
            (2_500_000, "2.50 ms", "2.5 ms"),
            (100_000_000, "100 ms", "100 ms"),
            (3_600_000_000_000, "3600 s", "3600 s"),
        ] {
            assert_eq!(time(time_ns, Charset::Ascii), shown);
            assert_eq!(round_time(time_ns, Charset::Ascii), round);
        }
    }

    #[test]
    fn two_series_in_ascii() {
        let series = [
            Series { name: "simple", profile: &[(30_000, 1000), (50_000, 100), (60_000, 2)] },
            Series { name: "Ethernet", profile: &[(40_000, 900), (900_000, 90), (2_000_000, 1)] },
            Series { name: "lost", profile: &[] },
        ];
        let canvas =
            Canvas { width: 60, height: 12, time: Scale::Logarithmic, charset: Charset::Ascii };
        assert_eq!(
            profile("Total latency", &series, canvas),
            "\
frames with at least this latency
  1k +|   =
     ||   =
 100 +'-----.=====================================
     |      |                                    =
  10 +      |                                    =
     |      '--@                                 =
   1 +                                           ===========
     +------+--------+--------+-----------+-------+---------
          50 us   100 us   200 us      500 us   1 ms
                                              Total latency
 --@ simple   === Ethernet   ooo lost (no frames)
"
        );
    }

    #[test]
    fn bars() {
        let latencies: Histogram = (0..80).map(|_| 35_000).chain([45_000, 74_999]).collect();
        let canvas = Canvas { width: 40, ..Canvas::default() };
        assert_eq!(
            histogram("Gateway latency", &latencies.classic(4), canvas),
            "\
Gateway latency
 35.0 µs .. 45.0 µs  81 ████████████████
 45.0 µs .. 55.0 µs   0
 55.0 µs .. 65.0 µs   0
 65.0 µs .. 75.0 µs   1 ▎
"
        );
        let canvas = Canvas { charset: Charset::Ascii, ..canvas };
        assert_eq!(
            histogram("Gateway latency", &latencies.classic(1), canvas),
            "\
Gateway latency
 35.0 us .. 75.0 us  82 ################
"
        );
        assert_eq!(histogram("Gateway latency", &[], canvas), "Gateway latency\n");
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let axis = CountAxis::new(1000, 4);
        assert_eq!([1000, 100, 10, 1, 0].map(|count| axis.row(count)), [0, 1, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|row| axis.label(row)), ["1k", "100", "10", "1"]);
    }

    fn linear(from_ns: i64, to_ns: i64, columns: usize) -> TimeAxis {
        TimeAxis::new(Scale::Linear, (from_ns, to_ns), columns, std::iter::empty())
    }

    #[test]
    fn ticks_are_at_round_times_within_the_axis() {
        for (from_ns, to_ns, columns, ticks) in [
            (0, 400, 40, &[0.0, 100.0, 200.0, 300.0, 400.0][..]),
            (130, 510, 40, &[200.0, 300.0, 400.0, 500.0]),
            (-150, 250, 40, &[-100.0, 0.0, 100.0, 200.0]),
        ] {
            assert_eq!(linear(from_ns, to_ns, columns).ticks(), ticks, "{from_ns}..{to_ns}");
        }
    }

    #[test]
    fn labels_that_have_no_room_are_left_out() {
        // At the left end; two spaces after another one; up to the right end; one column too few.
        for (to_ns, columns, ruler, labels) in [
            (100, 13, "++------------", "0 ns"),
            (100, 14, "++------+------", "0 ns  50 ns"),
            (107, 24, "++--------------------+--", "0 ns               100 ns"),
            (107, 23, "++----------------------", "0 ns"),
        ] {
            let drawn = linear(0, to_ns, columns).ruler(Charset::Ascii);
            assert_eq!(drawn, (ruler.into(), labels.into()), "{to_ns} {columns}");
        }
    }

    #[test]
    fn names_begin_a_line_where_they_do_not_fit() {
        let series = ["first", "second", "third"].map(|name| Series { name, profile: &[(1, 1)] });
        let all = " --@ first   === second   ooo third";
        let lines = |width| {
            let canvas = Canvas { width, charset: Charset::Ascii, ..Canvas::default() };
            legend(&series, canvas)
        };
        assert_eq!(lines(all.len()), [all]);
        assert_eq!(lines(all.len() - 1), [" --@ first   === second", " ooo third"]);
    }

    #[test]
    fn nothing_is_said_in_words() {
        let empty = Series { name: "none", profile: &[] };
        for series in [&[][..], &[empty]] {
            assert_eq!(
                profile("Total latency", series, Canvas::default()),
                "Total latency: no frames\n"
            );
        }
    }

    proptest! {
        #[test]
        fn every_picture_fits_and_shows_the_worst_case(
            parts in prop::collection::vec(prop::collection::vec(
                prop_oneof![-50_000..5_000_000_i64, any::<i64>()], 1..40), 1..4),
            width in 0..120_usize,
            height in 0..40_usize,
            is_logarithmic: bool,
            is_ascii: bool,
        ) {
            let profiles: Vec<_> =
                parts.into_iter().map(|part| part.into_iter().collect::<Histogram>().profile()).collect();
            let series: Vec<_> =
                profiles.iter().map(|profile| Series { name: "series", profile }).collect();
            let canvas = Canvas {
                width,
                height,
                time: if is_logarithmic { Scale::Logarithmic } else { Scale::Linear },
                charset: if is_ascii { Charset::Ascii } else { Charset::Unicode },
            };
            let picture = profile("Total latency", &series, canvas);
            prop_assert!(picture.lines().all(|line| line.chars().count() <= width.max(40)));
            prop_assert!(picture.lines().count() <= height.max(8 + series.len()));
            prop_assert_eq!(is_ascii, picture.is_ascii());
            // The first series lies on top: its end is visible in the plot and in the legend.
            prop_assert!(picture.matches(pen(0, canvas.charset).end).count() >= 2);
        }
    }
}
