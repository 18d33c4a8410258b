//! Frames with their signals below: as text, or as JSON Lines.

use std::io::Write;

use candor_bus::words::{View, number};
use candor_recording::{Encoder, Interfaces, Record};

use super::super::unshown;
use super::{Out, Sheet, Stop};
use crate::json;
use crate::reading::candump_lines;

/// Each frame as in a candump log, with a line per signal below.
pub(super) struct Text {
    out: Out,
    encoder: Box<dyn Encoder>,
    line: Vec<u8>,
}

impl Text {
    pub(super) fn new(out: Out) -> Result<Self, String> {
        Ok(Self { out, encoder: candump_lines()?, line: Vec::new() })
    }
}

impl Sheet for Text {
    fn show(&mut self, view: &View, record: &Record, interfaces: &Interfaces) -> Result<u64, Stop> {
        let Self { out, encoder, line } = self;
        if !view.takes(&record.frame) {
            return Ok(0);
        }
        line.clear();
        encoder.encode(record, interfaces.name(record.interface), line).map_err(unshown)?;
        for decoded in view.decode(&record.frame) {
            let signal = decoded.signal;
            let value = number(decoded.physical);
            match decoded.value_name() {
                Some(name) => writeln!(line, "  {} {name} ({value})", signal.name)?,
                None if signal.unit.is_empty() => writeln!(line, "  {} {value}", signal.name)?,
                None => writeln!(line, "  {} {value} {}", signal.name, signal.unit)?,
            }
        }
        out.write_all(line)?;
        Ok(1)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        Ok(self.out.flush()?)
    }

    fn words(&self, shown: u64) -> String {
        format!("{shown} shown")
    }
}

/// An object for each frame.
pub(super) struct Json {
    out: Out,
    line: Vec<u8>,
}

impl Json {
    pub(super) fn new(out: Out) -> Self {
        Self { out, line: Vec::new() }
    }
}

impl Sheet for Json {
    fn show(&mut self, view: &View, record: &Record, interfaces: &Interfaces) -> Result<u64, Stop> {
        if !view.takes(&record.frame) {
            return Ok(0);
        }
        self.line.clear();
        let interface = interfaces.name(record.interface);
        json::write(&(record, interface, view), &mut self.line).map_err(unshown)?;
        self.out.write_all(&self.line)?;
        Ok(1)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        Ok(self.out.flush()?)
    }

    fn words(&self, shown: u64) -> String {
        format!("{shown} shown")
    }
}
