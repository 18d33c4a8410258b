//! The CSV of GVRET and SavvyCAN. (Layouts: `framefileio.cpp` of SavvyCAN.)
//!
//! ```text
//! Time Stamp,ID,Extended,Dir,Bus,LEN,D1,D2,D3,D4,D5,D6,D7,D8
//! 166064000,0000021A,false,Rx,0,8,FE,36,12,FE,69,05,07,AD,
//! ```
//!
//! Columns are found by their names: older files have no `Dir`. Times are microseconds, usually not since 1970. Bus 0 is `can0`.
//! Up to 8 columns of data may be filled though a frame is shorter, all others behind it are empty; a frame with more than 8 bytes is CAN FD.

use super::text::{
    BAD_TIME, BEHIND, Layout, LineError, Log, Reader, Word, Words, begins_with, data_bytes,
    decimal, direction, identifier, length, number, without_0x,
};
use super::{Format, usual};
use crate::decode::Reason;
use crate::record::Record;
use candor_wire::can::Frame;
use candor_wire::can::frame::EFF_FLAG;

pub(super) static FORMAT: Format = Format {
    name: "gvret",
    title: "GVRET log",
    endings: &["csv"],
    begins: |head| begins_with(head, NAMES),
    ..usual(|_| Box::new(Reader::<Gvret>::default()))
};

const BAD_EXTENDED: &str =
    "this does not say whether the identifier has 29 bits; expected `true` or `false`";
/// How the line with the names begins.
const NAMES: &[u8] = b"Time Stamp,ID,Extended,";
/// How many columns stand before the data at most.
const MAX_COLUMNS: usize = 16;
/// How many bytes may be filled in of a frame that is shorter.
const FILLED: usize = 8;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Column {
    #[default]
    Other,
    Time,
    Id,
    Extended,
    Direction,
    Bus,
    Length,
}

struct Gvret {
    /// Up to the length, which the data follow.
    columns: [Column; MAX_COLUMNS],
}

impl Default for Gvret {
    fn default() -> Self {
        Self { columns: columns(b"Time Stamp,ID,Extended,Bus,LEN") }
    }
}

fn columns(names: &[u8]) -> [Column; MAX_COLUMNS] {
    let mut columns = [Column::Other; MAX_COLUMNS];
    for (column, name) in columns.iter_mut().zip(names.split(|&byte| byte == b',')) {
        *column = match name.trim_ascii() {
            b"Time Stamp" => Column::Time,
            b"ID" => Column::Id,
            b"Extended" => Column::Extended,
            b"Dir" => Column::Direction,
            b"Bus" => Column::Bus,
            b"LEN" => Column::Length,
            _ => Column::Other,
        };
    }
    columns
}

/// Behind the names of columns nothing may follow: those of data are `D` and a number.
fn check_names(line: &[u8]) -> Result<(), LineError> {
    let mut words = Words::new(line);
    let mut is_data = false;
    while words.at < line.len() {
        let (name, at) = words.field(b',');
        let number_of = name.strip_prefix(b"D").filter(|digits| digits.len() <= 2);
        let is_known = name.is_empty() || number_of.is_some_and(|it| number(it, true).is_some());
        if is_data && !is_known {
            return Err((at, Reason::Text(BEHIND)));
        }
        is_data |= name == b"LEN";
    }
    Ok(())
}

impl Layout for Gvret {
    const TOO_LONG: &'static str = " bytes; this is not a GVRET log";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if line.starts_with(NAMES) {
            self.columns = columns(line);
            return check_names(line).map(|()| None);
        }
        let mut words = Words::new(line);
        let mut found: [Word<'_>; 7] = Default::default();
        for column in self.columns {
            found[column as usize] = words.field(b',');
            if column == Column::Length {
                break;
            }
        }
        let [_, time, id, extended, way, bus, len] = found;
        let time_ns = decimal(time.0, 1_000).ok_or((time.1, Reason::Text(BAD_TIME)))?;
        let is_extended = match extended.0.to_ascii_lowercase().as_slice() {
            b"true" | b"1" => true,
            b"false" | b"0" => false,
            _ => return Err((extended.1, Reason::Text(BAD_EXTENDED))),
        };
        let can_id = identifier(without_0x(id), false)? | if is_extended { EFF_FLAG } else { 0 };
        let len = length(len, 64)?;
        let mut data = [0; 64];
        data_bytes(&mut data[..len], false, || words.field(b','))?;
        for place in len.. {
            let (word, at) = words.field(b',');
            if at >= line.len() {
                break;
            }
            let is_byte = word.len() <= 2 && number(word, false).is_some() && place < FILLED;
            if !word.is_empty() && !is_byte {
                return Err((at, Reason::Text(BEHIND)));
            }
        }
        let frame = Frame::from_parts(can_id, &data[..len], (len > 8).then_some(0))
            .map_err(|error| (id.1, Reason::Frame(error)))?;
        let bus_number = number(bus.0, true).and_then(|bus| u32::try_from(bus).ok()).unwrap_or(0);
        let interface = log.channel(bus_number.saturating_add(1), bus.1)?;
        Ok(Some(Record { time_ns, interface, direction: direction(way.0), frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::format::tests::{Any, decode, decode_any};

    #[test]
    fn frames_are_read() {
        use Direction::{Received, Transmitted};
        let old = "Time Stamp,ID,Extended,Bus,LEN,D1,D2,D3,D4,D5,D6,D7,D8";
        let new = "\u{feff}Time Stamp,ID,Extended,Dir,Bus,LEN,D1,D2,D3,D4,D5,D6,D7,D8\r";
        for (names, line, name, direction, expected) in [
            (old, "7,0000021A,false,0,2,FE,36,00,00,00,00,00,00,", "can0", None, "21A#FE36"),
            (old, "7,0x21a,TRUE,1,1,fe", "can1", None, "0000021A#FE"),
            (old, "7,21A,0,0,0,,,,,,,,", "can0", None, "21A#"),
            (new, "7,0000021A,false,Rx,0,1,0A,\r", "can0", Some(Received), "21A#0A"),
            (new, "7,0000021A,false,Tx,2,0", "can2", Some(Transmitted), "21A#"),
            (
                new,
                "7,0000021A,false,Tx,0,12,1,2,3,4,5,6,7,8,9,A,B,C,",
                "can0",
                Some(Transmitted),
                "21A##00102030405060708090A0B0C",
            ),
        ] {
            let text = format!("{names}\n{line}\n");
            let frame = Any::Can(expected.parse().unwrap());
            let record = (7_000, name.to_owned(), direction, frame);
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("x,21A,false,0,0", "2:1: this is not a time"),
            ("99999999999999999999,21A,false,0,0", "2:1: this is not a time"),
            ("1,21G,false,0,0", "2:3: this is not an identifier"),
            ("1,FFFFFFFF,true,0,0", "2:3: this is not an identifier"),
            ("1,800,false,0,0", "2:3: standard identifier 0x800"),
            ("1,21A,maybe,0,0", "2:7: this does not say"),
            ("1,21A,false,0,65", "2:15: this is not the length"),
            ("1,21A,false,0,9,1,2,3,4,5,6,7,8,9", "2:3: 9 bytes of data, but a CAN FD"),
            ("1,21A,false,0,2,1,", "2:19: the frame has fewer data bytes"),
            ("1,21A,false,0,1,100", "2:17: the frame has fewer data bytes"),
            ("1,21A,false,0,1,10,166064,21A,false,0,1,10", "2:20: the line goes on"),
            ("1,21A,false,0,1,10,,7,21A,false,0,1,10", "2:23: the line goes on"),
            ("1,21A,0,0,8,1,2,3,4,5,6,7,8,9", "2:29: the line goes on"),
            ("Time Stamp,ID,Extended,Bus,LEN,D1,D2166064,21A,false,0,0", "2:35: the line goes on"),
            ("1,21A", "2:6: this does not say"),
        ] {
            let text = format!("Time Stamp,ID,Extended,Bus,LEN,D1\n{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let cut = decode(&FORMAT, b"Time Stamp,ID,Extended,Bus,LEN,D1\n1,21A,false,0,2,11");
        assert!(cut.unwrap_err().is_cut());
        assert!(
            !(FORMAT.begins)(b"Time Stamp;ID")
                && (FORMAT.begins)(b"\xEF\xBB\xBFTime Stamp,ID,Extended,Dir")
        );
    }
}
