//! A row of CSV per value, as RFC 4180 has it, but with line feeds only.

use std::io::Write;

use candor_bus::words::{View, number};
use candor_recording::{Interfaces, Record};

use super::{Out, Sheet, Stop};

pub(super) struct Csv {
    out: Out,
    /// What is not yet written: first the header.
    lines: Vec<u8>,
    /// What all rows of a frame begin with.
    start: Vec<u8>,
}

impl Csv {
    pub(super) fn new(out: Out) -> Self {
        let lines = b"time,bus,message,signal,value,unit\n".to_vec();
        Self { out, lines, start: Vec::new() }
    }
}

impl Sheet for Csv {
    fn show(&mut self, view: &View, record: &Record, interfaces: &Interfaces) -> Result<u64, Stop> {
        let Self { out, lines, start } = self;
        let Some(message) = view.message(&record.frame) else { return Ok(0) };
        start.clear();
        let (seconds, nanos) = (record.time_ns / 1_000_000_000, record.time_ns % 1_000_000_000);
        write!(start, "{seconds}.{nanos:09},")?;
        for word in [interfaces.name(record.interface), &message.name] {
            push(word, start);
            start.push(b',');
        }
        let mut values = 0;
        for decoded in view.decode(&record.frame) {
            values += 1;
            lines.extend_from_slice(start);
            push(&decoded.signal.name, lines);
            write!(lines, ",{},", number(decoded.physical))?;
            push(&decoded.signal.unit, lines);
            lines.push(b'\n');
        }
        out.write_all(lines)?;
        lines.clear();
        Ok(values)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        self.out.write_all(&self.lines)?;
        Ok(self.out.flush()?)
    }
}

/// Appends a cell, in quotation marks if it needs them.
fn push(cell: &str, out: &mut Vec<u8>) {
    if !cell.contains([',', '"', '\n', '\r']) {
        out.extend_from_slice(cell.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        for (cell, expected) in [
            ("", ""),
            ("km/h", "km/h"),
            ("Grad C", "Grad C"),
            ("a,b", "\"a,b\""),
            ("5\"", "\"5\"\"\""),
            ("a\nb\r", "\"a\nb\r\""),
            ("\u{b0}C", "\u{b0}C"),
        ] {
            let mut out = Vec::new();
            push(cell, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
