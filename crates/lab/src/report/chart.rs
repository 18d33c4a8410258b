//! The time chart of an experiment: its frames in the order they were sent, thinned.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use candor_lat::{Metric, Tap, TapPath, Taps};
use serde::Serialize;

use crate::results::{Error, RUN_AGAIN, unreadable};

/// Into how many stretches of equally many frames an experiment is cut at most.
pub(super) const BUCKETS: usize = 2_000;

/// The longest line: 25 numbers and two frames with 64 data bytes fit many times.
const MAX_LINE_LEN: usize = 4_096;

/// How many causes are distinguished; a file with more is damaged or forged.
const MAX_CAUSES: usize = 100;

/// What further causes are called.
const OTHER_CAUSES: &str = "other";

/// The outcomes of frames that came through; any other outcome is the cause why not.
const ARRIVED: [&str; 2] = ["forwarded", "delivered"];

/// The frames of an experiment, thinned. Numbers and times are written as differences to the one
/// before, the first to 0, because short numbers make short files.
#[derive(Serialize)]
pub(super) struct Frames {
    /// How many frames there were.
    count: u64,
    /// Of so many frames, at most two latencies per metric are kept.
    frames_per_bucket: u64,
    /// By metric: the shortest and the longest latency of each stretch.
    latencies: BTreeMap<&'static str, LatencyCurve>,
    /// By cause: the first frame of each stretch that it stopped, and how many there were.
    stopped: BTreeMap<String, StoppedFrames>,
}

#[derive(Default, Serialize)]
struct LatencyCurve {
    number: Vec<i64>,
    time_ns: Vec<i64>,
    latency_ns: Vec<i64>,
}

#[derive(Default, Serialize)]
struct StoppedFrames {
    number: Vec<i64>,
    time_ns: Vec<i64>,
    frames: Vec<u64>,
}

/// Reads one line per frame; `path` is for messages.
pub(super) fn read(path: &Path, file: impl Read, taps: &'static TapPath) -> Result<Frames, Error> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = String::new();
    let mut next_line = |line: &mut String, number: usize| {
        line.clear();
        let len = (&mut reader).take(MAX_LINE_LEN as u64 + 1).read_line(line);
        let len = len.map_err(|error| unreadable(path, &error))?;
        if len > MAX_LINE_LEN {
            let message = format!("the line is longer than {MAX_LINE_LEN} bytes");
            return Err(Error::new(path, message, RUN_AGAIN).at(number, MAX_LINE_LEN));
        }
        Ok(len > 0)
    };
    if !next_line(&mut line, 1)? {
        return Err(Error::new(path, "the header line is missing", RUN_AGAIN).at(1, 1));
    }
    let columns = Columns::parse(line.trim_end(), taps)
        .map_err(|message| Error::new(path, message, RUN_AGAIN).at(1, 1))?;

    let mut thinning = Thinning::new();
    let mut number = 2;
    while next_line(&mut line, number)? {
        let row = columns
            .row(line.trim_end())
            .map_err(|(column, message)| Error::new(path, message, RUN_AGAIN).at(number, column))?;
        thinning.push(row);
        number += 1;
    }
    Ok(thinning.finish())
}

/// Where the header says that things stand.
struct Columns {
    names: Vec<String>,
    number: usize,
    outcome: usize,
    path: &'static TapPath,
    /// The columns of its taps.
    taps: Vec<Option<usize>>,
    total_ns: Option<usize>,
    /// The same without what is known of the frame before it is sent.
    rest_ns: Option<usize>,
}

/// A frame as far as the chart needs it.
struct Row<'a> {
    number: i64,
    outcome: &'a str,
    taps: Taps,
    /// What is known of it before it is sent; 0 if it did not get there.
    known_ns: u64,
}

impl Row<'_> {
    fn has_arrived(&self) -> bool {
        ARRIVED.contains(&self.outcome)
    }
}

impl Columns {
    fn parse(header: &str, path: &'static TapPath) -> Result<Self, String> {
        let names: Vec<String> = header.split(',').map(str::to_owned).collect();
        let find = |name: &str| names.iter().position(|column| column == name);
        let column = |metric: Metric| find(&format!("{}_ns", metric.key()));
        let need = |name: &str| find(name).ok_or_else(|| format!("the column `{name}` is missing"));
        Ok(Self {
            number: need("number")?,
            outcome: need("outcome")?,
            path,
            taps: path.taps().iter().map(|tap| find(&format!("{}_ns", tap.name()))).collect(),
            total_ns: column(Metric::TotalLatency).or_else(|| column(Metric::NetworkLatency)),
            rest_ns: column(Metric::GatewayLatency).or_else(|| column(Metric::Residual)),
            names,
        })
    }

    /// A line's frame, or the column and the reason.
    fn row<'a>(&self, line: &'a str) -> Result<Row<'a>, (usize, String)> {
        let cells = cells(line);
        if cells.len() != self.names.len() {
            let message = format!("{} columns, expected {}", cells.len(), self.names.len());
            return Err((1, message));
        }
        let number = |index: usize| -> Result<Option<i64>, (usize, String)> {
            let cell = cells[index];
            if cell.is_empty() {
                return Ok(None);
            }
            cell.parse().map(Some).map_err(|_| {
                let column = 1 + cells[..index].iter().map(|cell| cell.len() + 1).sum::<usize>();
                (column, format!("`{cell}` is not a {}", self.names[index]))
            })
        };
        let optional = |index: Option<usize>| index.map_or(Ok(None), number);

        let mut taps = Taps::new(self.path);
        for (tap, &index) in self.path.taps().iter().zip(&self.taps) {
            if let Some(time_ns) = optional(index)? {
                taps.set(*tap, time_ns.max(0).cast_unsigned());
            }
        }
        let known_ns = match (optional(self.total_ns)?, optional(self.rest_ns)?) {
            (Some(total_ns), Some(rest_ns)) => total_ns.saturating_sub(rest_ns).max(0),
            _ => 0,
        };
        Ok(Row {
            number: number(self.number)?.unwrap_or(0),
            outcome: cells[self.outcome],
            taps,
            known_ns: known_ns.cast_unsigned(),
        })
    }
}

/// What is between the commas of a line.
fn cells(line: &str) -> Vec<&str> {
    // Most lines have no quotes, and the search for one character is the fast one.
    if !line.contains('"') {
        return line.split(',').collect();
    }
    // A comma between quotes belongs to a name; names do not matter here, so they stay quoted.
    let mut is_quoted = false;
    let is_end = |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    };
    line.split(is_end).collect()
}

/// Thins frames to at most [`BUCKETS`] buckets while they come, not knowing how many will: when
/// all buckets are full, neighbours are joined and every bucket takes twice as many frames.
struct Thinning {
    buckets: Vec<Bucket>,
    frames_per_bucket: u64,
    count: u64,
    /// The time of the latest frame, for frames that have none.
    time_ns: i64,
    causes: BTreeSet<String>,
}

/// What is kept of a stretch of frames.
#[derive(Default)]
struct Bucket {
    extremes: [Option<Extremes>; Metric::ALL.len()],
    stopped: BTreeMap<String, (Point, u64)>,
}

/// The shortest and the longest latency, the first of equal ones.
#[derive(Clone, Copy)]
struct Extremes {
    shortest: Point,
    longest: Point,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    number: i64,
    time_ns: i64,
    latency_ns: i64,
}

impl Thinning {
    fn new() -> Self {
        Self {
            buckets: Vec::new(),
            frames_per_bucket: 1,
            count: 0,
            time_ns: 0,
            causes: BTreeSet::new(),
        }
    }

    fn push(&mut self, mut row: Row<'_>) {
        if !row.has_arrived() && !self.causes.contains(row.outcome) {
            if self.causes.len() < MAX_CAUSES {
                self.causes.insert(row.outcome.to_owned());
            } else {
                row.outcome = OTHER_CAUSES;
            }
        }
        if self.count == BUCKETS as u64 * self.frames_per_bucket {
            self.join_neighbours();
        }
        if self.count.is_multiple_of(self.frames_per_bucket) {
            self.buckets.push(Bucket::default());
        }
        self.count += 1;
        let seen = [Tap::SourceEnd, Tap::SourceStart, Tap::Queued, Tap::TargetEnd];
        // Other paths begin with taps of their own.
        let mut seen = seen.into_iter().chain(row.taps.path().taps().iter().copied());
        if let Some(time_ns) = seen.find_map(|tap| row.taps.at(tap)) {
            self.time_ns = time_ns.cast_signed();
        }
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.push(&row, self.time_ns);
        }
    }

    fn join_neighbours(&mut self) {
        let mut buckets = core::mem::take(&mut self.buckets).into_iter();
        while let Some(mut bucket) = buckets.next() {
            if let Some(next) = buckets.next() {
                bucket.join(next);
            }
            self.buckets.push(bucket);
        }
        self.frames_per_bucket *= 2;
    }

    fn finish(self) -> Frames {
        let mut latencies = BTreeMap::new();
        for (index, metric) in Metric::ALL.into_iter().enumerate() {
            let extremes = self.buckets.iter().filter_map(|bucket| bucket.extremes[index]);
            let points: Vec<Point> = extremes.flat_map(Extremes::in_order).collect();
            if !points.is_empty() {
                latencies.insert(metric.key(), LatencyCurve::new(&points));
            }
        }
        let mut stopped: BTreeMap<String, Vec<(Point, u64)>> = BTreeMap::new();
        for (cause, first) in self.buckets.into_iter().flat_map(|bucket| bucket.stopped) {
            stopped.entry(cause).or_default().push(first);
        }
        Frames {
            count: self.count,
            frames_per_bucket: self.frames_per_bucket,
            latencies,
            stopped: stopped
                .into_iter()
                .map(|(cause, all)| (cause, StoppedFrames::new(&all)))
                .collect(),
        }
    }
}

impl Bucket {
    fn push(&mut self, row: &Row<'_>, time_ns: i64) {
        let point = |latency_ns| Point { number: row.number, time_ns, latency_ns };
        for (metric, extremes) in Metric::ALL.into_iter().zip(&mut self.extremes) {
            if let Some(latency_ns) = metric.value(&row.taps, row.known_ns) {
                let one = point(latency_ns);
                Extremes { shortest: one, longest: one }.join_into(extremes);
            }
        }
        if !row.has_arrived() {
            let (_, frames) = self.stopped.entry(row.outcome.to_owned()).or_insert((point(0), 0));
            *frames += 1;
        }
    }

    fn join(&mut self, next: Self) {
        for (extremes, next) in self.extremes.iter_mut().zip(next.extremes) {
            if let Some(next) = next {
                next.join_into(extremes);
            }
        }
        for (cause, (first, more)) in next.stopped {
            let (_, frames) = self.stopped.entry(cause).or_insert((first, 0));
            *frames += more;
        }
    }
}

impl Extremes {
    /// Joins these, the later ones, with earlier ones.
    fn join_into(self, earlier: &mut Option<Self>) {
        let joined = earlier.get_or_insert(self);
        if self.shortest.latency_ns < joined.shortest.latency_ns {
            joined.shortest = self.shortest;
        }
        if self.longest.latency_ns > joined.longest.latency_ns {
            joined.longest = self.longest;
        }
    }

    /// Both in the order of the frames, one if they are the same.
    fn in_order(self) -> impl Iterator<Item = Point> {
        let (first, second) = (self.shortest.min(self.longest), self.shortest.max(self.longest));
        [Some(first), (second != first).then_some(second)].into_iter().flatten()
    }
}

impl LatencyCurve {
    fn new(points: &[Point]) -> Self {
        Self {
            number: differences(points.iter().map(|point| point.number)),
            time_ns: differences(points.iter().map(|point| point.time_ns)),
            latency_ns: points.iter().map(|point| point.latency_ns).collect(),
        }
    }
}

impl StoppedFrames {
    fn new(all: &[(Point, u64)]) -> Self {
        Self {
            number: differences(all.iter().map(|(point, _)| point.number)),
            time_ns: differences(all.iter().map(|(point, _)| point.time_ns)),
            frames: all.iter().map(|&(_, frames)| frames).collect(),
        }
    }
}

fn differences(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut before = 0_i64;
    values
        .map(|value| {
            let difference = value.saturating_sub(before);
            before = value;
            difference
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Frames {
        read(Path::new("frames.csv"), text.as_bytes(), TapPath::CAN_GATEWAY).unwrap()
    }

    /// `frames` frames, one per millisecond; the latency of each in nanoseconds, or its cause.
    fn table(frames: usize, outcome: impl Fn(usize) -> Result<i64, &'static str>) -> String {
        let mut text = String::from("number,outcome,source_end_ns,target_end_ns\n");
        for frame in 0..frames {
            let sent_ns = frame * 1_000_000;
            text += &match outcome(frame) {
                Ok(latency_ns) => {
                    format!("{frame},forwarded,{sent_ns},{}\n", sent_ns as i64 + latency_ns)
                }
                Err(cause) => format!("{frame},{cause},{sent_ns},\n"),
            };
        }
        text
    }

    fn sums(differences: &[i64]) -> Vec<i64> {
        differences
            .iter()
            .scan(0, |sum, difference| {
                *sum += difference;
                Some(*sum)
            })
            .collect()
    }

    #[test]
    fn few_frames_stay_as_they_are() {
        let frames = read_text(&table(BUCKETS, |frame| Ok(35_000 + (frame % 7) as i64)));
        assert_eq!((frames.count, frames.frames_per_bucket), (BUCKETS as u64, 1));
        let total = &frames.latencies["total_latency"];
        let expected: Vec<i64> = (0..BUCKETS).map(|frame| 35_000 + (frame % 7) as i64).collect();
        assert_eq!(total.latency_ns, expected);
        assert_eq!(sums(&total.time_ns)[BUCKETS - 1], (BUCKETS as i64 - 1) * 1_000_000);
    }

    #[test]
    fn frames_of_other_paths_have_the_time_of_their_first_tap() {
        let text = "number,outcome,due_ns,dispatched_ns,arrived_ns\n\
                    0,delivered,1000,1001,1500\n1,delivered,,4001,4500\n2,overwritten,7000,,\n";
        let frames = read(Path::new("frames.csv"), text.as_bytes(), TapPath::TIME_TRIGGERED);
        let frames = frames.unwrap();
        assert_eq!(sums(&frames.latencies["network_latency"].time_ns), [1_000, 4_001]);
        assert_eq!(frames.stopped["overwritten"].time_ns, [7_000]);
    }

    #[test]
    fn outliers_survive_thinning() {
        const FRAMES: usize = 100_001;
        let text = table(FRAMES, |frame| match frame {
            77_777 => Ok(9_000_000),
            33_333 => Ok(-5),
            _ => Ok(35_000 + (frame * 7919 % 1000) as i64),
        });
        let frames = read_text(&text);
        assert_eq!((frames.count, frames.frames_per_bucket), (FRAMES as u64, 64));
        let total = &frames.latencies["total_latency"];
        assert!(total.latency_ns.len() <= 2 * BUCKETS && total.latency_ns.len() > BUCKETS);
        let numbers = sums(&total.number);
        assert!(numbers.is_sorted_by(|a, b| a < b));
        for (number, latency_ns) in [(77_777, 9_000_000), (33_333, -5)] {
            let index = numbers.iter().position(|&n| n == number).unwrap();
            assert_eq!(total.latency_ns[index], latency_ns);
            assert_eq!(sums(&total.time_ns)[index], number * 1_000_000);
        }
    }

    #[test]
    fn every_stopped_frame_is_counted_under_its_cause() {
        let text = table(50_000, |frame| match frame % 10 {
            3 => Err("rx_overflow"),
            4 if frame > 25_000 => Err("queue_full"),
            _ => Ok(1_000),
        });
        let frames = read_text(&text);
        let count = |cause: &str| frames.stopped[cause].frames.iter().sum::<u64>();
        assert_eq!((count("rx_overflow"), count("queue_full")), (5_000, 2_500));
        assert_eq!(sums(&frames.stopped["queue_full"].number)[0], 25_004);
        assert!(frames.stopped["rx_overflow"].frames.len() <= BUCKETS);
    }

    #[test]
    fn forged_causes_do_not_fill_the_memory() {
        let mut text = String::from("number,outcome\n");
        for frame in 0..10 * MAX_CAUSES {
            text += &format!("{frame},cause {frame}\n");
        }
        let frames = read_text(&text);
        assert_eq!(frames.stopped.len(), MAX_CAUSES + 1);
        assert_eq!(frames.stopped[OTHER_CAUSES].frames.iter().sum::<u64>(), 9 * MAX_CAUSES as u64);
    }

    #[test]
    fn the_transmission_is_what_total_and_gateway_latency_differ_by() {
        let frames = read_text(
            "number,rule,outcome,source_end_ns,target_end_ns,total_latency_ns,gateway_latency_ns\n\
             1,\"this, and \"\"that\"\"\",delivered,0,300000,300000,76000\n",
        );
        assert_eq!(frames.latencies["total_latency"].latency_ns, [300_000]);
        assert_eq!(frames.latencies["gateway_latency"].latency_ns, [76_000]);
        assert!(!frames.latencies.contains_key("bus_wait"));
    }
}
