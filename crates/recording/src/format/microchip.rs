//! The log of Microchip's CAN BUS Analyzer. (Layout: `framefileio.cpp` of SavvyCAN, which writes it, too.)
//!
//! ```text
//! //---------------------------------
//! Microchip Technology Inc.
//! CAN BUS Analyzer
//! Logging Started: 23/9/2015 22:17:43
//! //---------------------------------
//! 166064;RX;0x0000021A;8;0xFE;0x36;0x12;0xFE;0x69;0x05;0x07;0xAD;
//! ```
//!
//! Times are milliseconds, not counted from the date. Nothing marks 29-bit identifiers: those above 0x7FF have 29 bits, and
//! those up to there are taken for 11-bit ones. Lines of the header begin with a letter or `/` and have no `;`.

use super::text::{
    BAD_DIRECTION, BAD_TIME, BYTE_ORDER_MARK, Layout, LineError, Log, Reader, Words, data_bytes,
    decimal, direction, identifier, length, without_0x,
};
use super::{Format, Labels, UNNAMED, usual};
use crate::decode::Reason;
use crate::record::Record;
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, SFF_MASK};

pub(super) static FORMAT: Format = Format {
    name: "microchip",
    title: "Microchip log",
    endings: &["log"],
    labels: Labels::None,
    begins,
    ..usual(|_| Box::new(Reader::<Microchip>::default()))
};

/// How far the names of the maker and the device are from the beginning.
const HEAD_LEN: usize = 200;

fn begins(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let head = head.get(..HEAD_LEN).unwrap_or(head);
    let names: [&[u8]; 2] = [b"Microchip Technology", b"CAN BUS Analyzer"];
    head.starts_with(b"//---")
        && names.iter().any(|name| head.windows(name.len()).any(|window| window == *name))
}

#[derive(Default)]
struct Microchip;

impl Layout for Microchip {
    const TOO_LONG: &'static str = " bytes; this is not a Microchip log";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        let mut words = Words::new(line);
        let (time, time_at) = words.field(b';');
        let may_be_header = |&byte: &u8| byte.is_ascii_alphabetic() || byte == b'/';
        if !line.contains(&b';') && time.first().is_none_or(may_be_header) {
            return Ok(None);
        }
        let time_ns = decimal(time, 1_000_000).ok_or((time_at, Reason::Text(BAD_TIME)))?;
        let (way, way_at) = words.field(b';');
        let direction = direction(way).ok_or((way_at, Reason::Text(BAD_DIRECTION)))?;
        let (id, id_at) = words.field(b';');
        let (digits, _) = without_0x((id, id_at));
        // Without `0x` it would be one of another base.
        let digits = if digits.len() < id.len() { digits } else { b"" };
        let id = identifier((digits, id_at), false)?;
        let len = length(words.field(b';'), 8)?;
        let mut data = [0; 8];
        data_bytes(&mut data[..len], false, || without_0x(words.field(b';')))?;
        words.end()?;
        let can_id = id | if id > SFF_MASK { EFF_FLAG } else { 0 };
        let frame = Frame::from_parts(can_id, &data[..len], None)
            .map_err(|error| (id_at, Reason::Frame(error)))?;
        let interface = log.named((UNNAMED.as_bytes(), 0))?;
        Ok(Some(Record { time_ns, interface, direction: Some(direction), frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::format::tests::{Any, decode, decode_any};

    const HEADER: &str = "//---\nMicrochip Technology Inc.\nCAN BUS Analyzer\n\nLogging Started: 23/9/2015 22:17:43\n//---\n";

    #[test]
    fn frames_are_read() {
        use Direction::{Received, Transmitted};
        for (line, direction, expected) in [
            ("7;RX;0x0000021A;2;0xFE;0x36;", Received, "21A#FE36"),
            ("7;TX;0x7ff;0;\r", Transmitted, "7FF#"),
            ("7;RX;0x800;1;0x1", Received, "00000800#01"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let frame = Any::Can(expected.parse().unwrap());
            let record = (7_000_000, "can0".to_owned(), Some(direction), frame);
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("!66064;RX;0x1;0;", "7:1: this is not a time"),
            ("RX;0x1;0;", "7:1: this is not a time"),
            ("\u{fffd}6064", "7:1: this is not a time"),
            ("7,1;RX;x", "7:8: this is not an identifier"),
            ("99999999999999999999;RX;0x1;0;", "7:1: this is not a time"),
            ("7;XX;0x1;0;", "7:3: this is no direction"),
            ("7;RX;123;0;", "7:6: this is not an identifier"),
            ("7;RX;0x20000000;0;", "7:6: this is not an identifier"),
            ("7;RX;0x1;9;", "7:10: this is not the length"),
            ("7;RX;0x1;2;0x01;", "7:17: the frame has fewer data bytes"),
            ("7;RX;0x1;1;0x01;8;RX;0x1;0;", "7:17: the line goes on"),
            ("7;RX;0x1;0;8;RX;0x1;0;", "7:12: the line goes on"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let text = format!("{HEADER}7;RX;0x1;2;0x01");
        assert!(decode(&FORMAT, text.as_bytes()).unwrap_err().is_cut());
        assert!(begins(HEADER.as_bytes()) && !begins(b"//---\n// version 9.0.0\nbase hex\n"));
    }
}
