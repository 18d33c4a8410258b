//! [`ResultBuilder`]: makes the result of an experiment from what a testbed saw of each frame. The same
//! for all testbeds.
//!
//! ```text
//!  a testbed --- Copied, for each copy of a frame ---> lines of CSV, latencies by metric
//!            --- endings, causes, buses, rules ------> ResultFile
//! ```

use std::fmt::{Display, Write as _};
use std::io::Write;

use candor_lat::{Histogram, Metric, Tap, TapPath, Taps};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::result::{Figures, ResultFile};

/// The end of a frame, or of a copy of it.
pub(crate) struct Copied<'a> {
    /// The number of the frame, from 0.
    pub(crate) number: u64,
    /// The frame as it was sent, if that is known.
    pub(crate) sent: Option<&'a dyn Display>,
    /// The frame as it arrived, if it did.
    pub(crate) received: Option<&'a dyn Display>,
    /// What became of it: `forwarded`, `delivered` or the name of a cause.
    pub(crate) outcome: &'a str,
    /// The rule whose copy it was.
    pub(crate) rule: &'a str,
    /// When it passed the taps.
    pub(crate) taps: &'a Taps,
    /// What is known of it before it is sent, as [`Metric::value`] wants it.
    pub(crate) known_ns: u64,
}

/// What a testbed sees.
pub(crate) struct Sight {
    /// The taps where it takes times.
    pub(crate) taps: &'static [Tap],
    /// Whether it knows the rule of each copy.
    pub(crate) has_rules: bool,
    /// Whether it sees so few frames that all latencies are kept: then quantiles are exact, else they are
    /// those of a [`Histogram`].
    pub(crate) is_exact: bool,
}

/// Makes a result.
pub(crate) struct ResultBuilder<'a> {
    sight: Sight,
    path: &'static TapPath,
    /// The metrics of the path.
    metrics: Vec<Metric>,
    lines: Option<&'a mut dyn Write>,
    line: String,
    failure: Option<Error>,
    latencies: Vec<Latencies>,
}

/// The latencies of one metric.
enum Latencies {
    Exact(Vec<i64>),
    Counted(Histogram),
}

impl Latencies {
    fn new(is_exact: bool) -> Self {
        match is_exact {
            true => Self::Exact(Vec::new()),
            false => Self::Counted(Histogram::new()),
        }
    }

    fn record(&mut self, latency_ns: i64) {
        match self {
            Self::Exact(latencies) => latencies.push(latency_ns),
            Self::Counted(histogram) => histogram.record(latency_ns),
        }
    }

    fn figures(self) -> Option<Figures> {
        match self {
            Self::Exact(latencies) => Figures::exact(latencies),
            Self::Counted(histogram) => Figures::from_histogram(&histogram),
        }
    }
}

impl<'a> ResultBuilder<'a> {
    /// `lines` takes a line of CSV per copy, if lines are wanted.
    pub(crate) fn new(
        path: &'static TapPath,
        sight: Sight,
        lines: Option<&'a mut dyn Write>,
    ) -> Self {
        let metrics: Vec<_> = path.metrics().collect();
        let latencies = metrics.iter().map(|_| Latencies::new(sight.is_exact)).collect();
        let line = String::new();
        let mut builder = Self { sight, path, metrics, lines, line, failure: None, latencies };
        builder.head();
        builder
    }

    /// The names of the columns.
    fn head(&mut self) {
        let taps = self.sight.taps.iter().map(|tap| format!(",{}_ns", tap.name()));
        let metrics = self.path.headline().map(|metric| format!(",{}_ns", metric.key()));
        let rule = if self.sight.has_rules { ",rule" } else { "" };
        let columns: String = taps.chain(metrics).collect();
        self.line = format!("number,sent,received,outcome{rule}{columns}");
        self.end_line();
    }

    fn end_line(&mut self) {
        self.line.push('\n');
        if let Some(lines) = &mut self.lines
            && let Err(error) = lines.write_all(self.line.as_bytes())
        {
            self.failure.get_or_insert(Error::lines(error));
        }
        self.line.clear();
    }

    /// Takes what became of one more copy; its latencies count if it arrived.
    pub(crate) fn add(&mut self, copied: &Copied<'_>) {
        if copied.received.is_some() {
            for (metric, latencies) in self.metrics.iter().zip(&mut self.latencies) {
                if let Some(latency_ns) = metric.value(copied.taps, copied.known_ns) {
                    latencies.record(latency_ns);
                }
            }
        }
        if self.lines.is_some() {
            self.write(copied);
            self.end_line();
        }
    }

    fn write(&mut self, copied: &Copied<'_>) {
        let line = &mut self.line;
        // Writing to a string does not fail.
        let _ = write!(line, "{},", copied.number);
        for frame in [copied.sent, copied.received] {
            if let Some(frame) = frame {
                let _ = write!(line, "{frame}");
            }
            line.push(',');
        }
        line.push_str(copied.outcome);
        if self.sight.has_rules {
            let _ = write!(line, ",{}", quoted(copied.rule));
        }
        for tap in self.sight.taps {
            line.push(',');
            if let Some(at) = copied.taps.at(*tap) {
                let _ = write!(line, "{at}");
            }
        }
        for metric in self.path.headline() {
            line.push(',');
            if let Some(value) = metric.value(copied.taps, copied.known_ns) {
                let _ = write!(line, "{value}");
            }
        }
    }

    /// Why lines cannot be written, if they cannot.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether lines could be written so far.
    pub(crate) const fn is_intact(&self) -> bool {
        self.failure.is_none()
    }

    /// The result with its latencies; the testbed adds what it counted.
    ///
    /// # Errors
    /// Lines could not be written.
    pub(crate) fn finish(
        mut self,
        experiment: &Experiment,
        command: String,
    ) -> Result<ResultFile, Error> {
        self.check()?;
        let metrics = self
            .metrics
            .iter()
            .zip(self.latencies)
            .filter_map(|(metric, latencies)| Some((metric.key().to_owned(), latencies.figures()?)))
            .collect();
        Ok(ResultFile { metrics, ..ResultFile::new(experiment, command) })
    }
}

/// A text in a CSV file.
fn quoted(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}
