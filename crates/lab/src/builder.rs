//! [`ResultBuilder`]: makes the result of an experiment from what a testbed saw of each frame. The same
//! for all testbeds.
//!
//! ```text
//!  a testbed --- Copied, for each copy of a frame ---> lines of CSV, the account of frames
//!            --- causes, buses, rules ---------------> ResultFile
//! ```

use std::fmt::{Display, Write as _};
use std::io::Write;

use candor_lat::Tap;
use candor_lat::account::{Account, End, Taken, Terms};

use crate::error::Error;
use crate::experiment::Run;
use crate::result::{self, PROFILE_POINTS, ResultFile};

/// The end of a frame, or of a copy of it.
pub struct Copied<'a> {
    /// Which frame it was, when it passed the taps, and what stopped it, if something did.
    pub end: End<'a>,
    /// The frame as it was sent, if that is known.
    pub sent: Option<&'a dyn Display>,
    /// The frame as it arrived, if it did.
    pub received: Option<&'a dyn Display>,
    /// The word for a frame that nothing stopped: `forwarded` or `delivered`.
    pub passed: &'a str,
    pub rule: &'a str,
}

impl<'a> Copied<'a> {
    /// `forwarded`, `delivered`, or the name of what stopped it.
    const fn outcome(&self) -> &'a str {
        match self.end.stopped_by {
            Some(cause) => cause.name(),
            None => self.passed,
        }
    }
}

/// What a testbed sees.
pub struct Sight {
    /// The taps where it takes times.
    pub taps: &'static [Tap],
    /// Whether it knows the rule of each copy.
    pub has_rules: bool,
}

pub struct ResultBuilder<'a> {
    sight: Sight,
    pub account: Account,
    pub(crate) run: Run<'a>,
    line: String,
    failure: Option<Error>,
}

impl<'a> ResultBuilder<'a> {
    /// Of what a run shows.
    pub fn new(terms: Terms, sight: Sight, run: Run<'a>) -> Self {
        let account = Account::new(terms);
        let mut builder = Self { sight, account, run, line: String::new(), failure: None };
        builder.head();
        builder
    }

    /// The names of the columns.
    fn head(&mut self) {
        let taps = self.sight.taps.iter().map(|tap| format!(",{}_ns", tap.name()));
        let metrics = self.account.path().headline().map(|metric| format!(",{}_ns", metric.key()));
        let rule = if self.sight.has_rules { ",rule" } else { "" };
        let columns: String = taps.chain(metrics).collect();
        self.line = format!("number,sent,received,outcome{rule}{columns}");
        self.end_line();
    }

    fn end_line(&mut self) {
        self.line.push('\n');
        if let Some(lines) = &mut self.run.lines
            && let Err(error) = lines.write_all(self.line.as_bytes())
        {
            self.failure.get_or_insert(Error::lines(error));
        }
        self.line.clear();
    }

    /// Takes what became of one more copy.
    pub fn add(&mut self, copied: &Copied<'_>) -> Taken {
        self.line(copied);
        self.account.end(&copied.end)
    }

    /// Writes the line of a copy, which the account takes in the order of ends.
    pub fn line(&mut self, copied: &Copied<'_>) {
        if self.run.lines.is_some() {
            self.write(copied);
            self.end_line();
        }
    }

    fn write(&mut self, copied: &Copied<'_>) {
        let line = &mut self.line;
        // Writing to a string does not fail.
        let _ = write!(line, "{},", copied.end.number);
        for frame in [copied.sent, copied.received] {
            if let Some(frame) = frame {
                let _ = write!(line, "{frame}");
            }
            line.push(',');
        }
        line.push_str(copied.outcome());
        if self.sight.has_rules {
            let _ = write!(line, ",{}", quoted(copied.rule));
        }
        for tap in self.sight.taps {
            line.push(',');
            if let Some(at) = copied.end.taps.at(*tap) {
                let _ = write!(line, "{at}");
            }
        }
        for metric in self.account.path().headline() {
            line.push(',');
            if let Some(value) = metric.value(copied.end.taps, copied.end.known_ns) {
                let _ = write!(line, "{value}");
            }
        }
    }

    /// Why lines cannot be written, if they cannot.
    pub fn check(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether lines could be written so far.
    pub const fn is_intact(&self) -> bool {
        self.failure.is_none()
    }

    /// The result with the counts and latencies of the account; the testbed adds what else it counted.
    ///
    /// # Errors
    /// Lines could not be written.
    pub fn finish(mut self) -> Result<ResultFile, Error> {
        self.check()?;
        let figures = self.account.metrics().filter_map(|(metric, latencies)| {
            Some((metric.key().to_owned(), latencies.with_profile(PROFILE_POINTS)?))
        });
        Ok(ResultFile {
            metrics: figures.collect(),
            counts: self.account.counts(),
            ..result::new(self.run.experiment, self.run.command)
        })
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
