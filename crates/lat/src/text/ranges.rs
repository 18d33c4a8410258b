//! [`ranges`]: the smallest, the median and the largest latency of several sets of frames, a line each.

use super::{Canvas, Charset, TimeAxis, push_line};

/// A set of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// What stands before its line.
    pub name: String,
    /// The smallest latency, in ns.
    pub min_ns: i64,
    /// The median, in ns.
    pub p50_ns: i64,
    /// The largest, in ns.
    pub max_ns: i64,
}

/// Draws a line for each range of each block, from the smallest to the largest with the median on it. Blocks have a heading, unless
/// that is empty; `label` names the time axis. Of the canvas, the height does not count.
#[must_use]
pub fn ranges(label: &str, blocks: &[(String, Vec<Range>)], canvas: Canvas) -> String {
    let all = || blocks.iter().flat_map(|(_, ranges)| ranges);
    let ends = all().map(|it| it.min_ns).min().zip(all().map(|it| it.max_ns).max());
    let Some(ends) = ends else { return format!("{label}: no frames\n") };
    let width = canvas.width.max(40);
    let margin = all().map(|it| it.name.chars().count()).max().unwrap_or(0).min(width / 2);
    let columns = width - margin - 3;
    let points = all().flat_map(|it| [(it.min_ns, 1), (it.max_ns, 1)]);
    let time = TimeAxis::new(canvas.time, ends, columns, points);
    let [edge, left, across, middle, right] = match canvas.charset {
        Charset::Unicode => ['│', '├', '─', '●', '┤'],
        Charset::Ascii => ['|', '[', '-', '@', ']'],
    };
    let mut text = String::new();
    for (heading, ranges) in blocks {
        if !heading.is_empty() {
            push_line(&mut text, &format!("{:margin$} {edge} {heading}", ""));
        }
        for range in ranges {
            let mut cells = vec![' '; columns];
            let [from, at, to] =
                [range.min_ns, range.p50_ns, range.max_ns].map(|it| time.column(it));
            cells[from..=to].fill(across);
            (cells[from], cells[to], cells[at]) = (left, right, middle);
            let name: String = range.name.chars().take(margin).collect();
            let cells = String::from_iter(cells);
            push_line(&mut text, &format!("{name:>margin$} {edge}{cells}"));
        }
    }
    let (ruler, labels) = time.ruler(canvas.charset);
    push_line(&mut text, &format!("{:margin$} {ruler}", ""));
    push_line(&mut text, &format!("{:margin$} {labels}", ""));
    let label =
        format!("{label}: {left}{across} smallest  {middle} median  {across}{right} largest");
    push_line(&mut text, &format!("{label:>width$}", width = width - 1));
    text
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn range(name: &str, [min_ns, p50_ns, max_ns]: [i64; 3]) -> Range {
        Range { name: name.into(), min_ns, p50_ns, max_ns }
    }

    #[test]
    fn each_range_has_a_line() {
        let blocks = [
            (
                "scheduled".to_owned(),
                vec![range("0", [54_000, 55_000, 56_000]), range("50", [54_000, 54_000, 54_000])],
            ),
            (
                "ordinary".to_owned(),
                vec![range("0", [12_000, 12_500, 13_000]), range("50", [12_000, 44_000, 250_000])],
            ),
        ];
        let canvas =
            Canvas { width: 60, time: Scale::Logarithmic, charset: Charset::Ascii, height: 0 };
        assert_eq!(
            ranges("Network latency", &blocks, canvas),
            [
                "   | scheduled",
                " 0 |                           @",
                "50 |                           @",
                "   | ordinary",
                " 0 |[@",
                "50 |[----------------------@------------------------------]",
                "   +---------+---------------+------------+-----------+----",
                "           20 us           50 us       100 us      200 us",
                "         Network latency: [- smallest  @ median  -] largest",
                "",
            ]
            .join("\n")
        );
        assert_eq!(ranges("Nothing", &[], canvas), "Nothing: no frames\n");
    }
}
