//! The CSV lines of an experiment in a guest: one per frame.

use std::fmt::Write as _;
use std::io::Write;

use candor_lat::{Metric, Tap, Taps};
use candor_wire::Frame;

use super::journey::TRANSMISSION_NS;
use crate::error::Error;
use crate::result::LATENCIES;

/// The taps that a test bed of real controllers has.
const TAPS: [Tap; 3] = [Tap::Queued, Tap::SourceEnd, Tap::TargetEnd];

/// The lines per frame, if they are wanted.
pub(super) struct Lines<'a> {
    out: Option<&'a mut dyn Write>,
    arrived: &'static str,
    line: String,
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: Option<&'a mut dyn Write>, is_delivered: bool) -> Result<Self, Error> {
        let arrived = if is_delivered { "delivered" } else { "forwarded" };
        let mut lines = Self { out, arrived, line: String::new() };
        let taps = TAPS.map(|tap| format!("{}_ns", tap.name())).join(",");
        let [total, gateway] = LATENCIES.map(Metric::key);
        lines.line = format!("number,sent,received,outcome,{taps},{total}_ns,{gateway}_ns");
        lines.end()?;
        Ok(lines)
    }

    pub(super) fn missed(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        outcome: &str,
        taps: &Taps,
    ) -> Result<(), Error> {
        self.write(number, sent, None, outcome, taps)
    }

    pub(super) fn arrived(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        received: &Frame,
        taps: &Taps,
    ) -> Result<(), Error> {
        self.write(number, sent, Some(received), self.arrived, taps)
    }

    fn write(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        received: Option<&Frame>,
        outcome: &str,
        taps: &Taps,
    ) -> Result<(), Error> {
        if self.out.is_none() {
            return Ok(());
        }
        let line = &mut self.line;
        let frame = |frame: Option<&Frame>| frame.map_or(String::new(), ToString::to_string);
        // Writing to a string does not fail.
        let _ = write!(line, "{number},{},{},{outcome}", frame(sent), frame(received));
        for tap in TAPS {
            line.push(',');
            if let Some(at) = taps.at(tap) {
                let _ = write!(line, "{at}");
            }
        }
        for metric in LATENCIES {
            line.push(',');
            if let Some(value) = metric.value(taps, TRANSMISSION_NS) {
                let _ = write!(line, "{value}");
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.line.push('\n');
        if let Some(out) = &mut self.out {
            out.write_all(self.line.as_bytes()).map_err(Error::lines)?;
        }
        self.line.clear();
        Ok(())
    }
}
