//! The CSV of python-can. (Layout: `can/io/csv.py` of python-can 4.6.)
//!
//! ```text
//! timestamp,arbitration_id,extended,remote,error,dlc,data
//! 1600000000.000221,0x409f134,1,0,0,8,PDRMQYnrLx4=
//! ```
//!
//! Times are seconds, as Python writes its floats (`5e-05`). Data are in base64. The file has no channel and no direction, and does
//! not mark CAN FD: a frame with more than 8 bytes is one, and shorter ones are taken for classical frames.

use super::text::{
    BAD_DATA, BAD_TIME, BEHIND, Layout, LineError, Log, Reader, Word, Words, begins_with, decimal,
    identifier, length, number, without_0x,
};
use super::{Format, Labels, UNNAMED, error_report, usual};
use crate::decode::Reason;
use crate::encode::NANOS_PER_SECOND;
use crate::record::Record;
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, RTR_FLAG};

pub(super) static FORMAT: Format = Format {
    name: "python-can-csv",
    title: "CSV of python-can",
    endings: &["csv"],
    labels: Labels::None,
    keeps_directions: false,
    begins: |head| begins_with(head, NAMES),
    ..usual(|_| Box::new(Reader::<Csv>::default()))
};

const BAD_FLAG: &str = "this is no flag; expected `0` or `1`";
const NAMES: &[u8] = b"timestamp,arbitration_id,";
const COLUMNS: [&[u8]; 8] =
    [b"timestamp", b"arbitration_id", b"extended", b"remote", b"error", b"dlc", b"data", b""];

#[derive(Default)]
struct Csv;

impl Layout for Csv {
    const TOO_LONG: &'static str = " bytes; this is not a CSV of python-can";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let mut words = Words::new(line);
        if line.starts_with(NAMES) {
            while words.at < line.len() {
                let (name, at) = words.field(b',');
                if !COLUMNS.contains(&name) {
                    return Err((at, Reason::Text(BEHIND)));
                }
            }
            return Ok(None);
        }
        let (time, time_at) = words.field(b',');
        let time_ns = seconds(time).ok_or((time_at, Reason::Text(BAD_TIME)))?;
        let (id, id_at) = without_0x(words.field(b','));
        let id = identifier((id, id_at), false)?;
        let is_extended = flag(words.field(b','))?;
        let is_remote = flag(words.field(b','))?;
        let is_error = flag(words.field(b','))?;
        let len = length(words.field(b','), 64)?;
        let (text, data_at) = words.field(b',');
        words.end()?;
        let mut data = [0; 64];
        // An error frame may have data, which say nothing.
        let has_data = !is_remote && !is_error;
        if has_data && base64(text, &mut data) != Some(len) {
            return Err((data_at, Reason::Text(BAD_DATA)));
        }
        let flags = if is_extended { EFF_FLAG } else { 0 } | if is_remote { RTR_FLAG } else { 0 };
        let frame = match is_error {
            true => error_report(),
            false => Frame::from_parts(id | flags, &data[..len], (len > 8).then_some(0)),
        };
        let frame = frame.map_err(|error| (id_at, Reason::Frame(error)))?;
        let interface = log.named((UNNAMED.as_bytes(), 0))?;
        Ok(Some(Record { time_ns, interface, direction: None, frame }))
    }
}

fn flag((word, at): Word<'_>) -> Result<bool, LineError> {
    match word {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err((at, Reason::Text(BAD_FLAG))),
    }
}

/// Nanoseconds of `1600000000.000221` or `5e-05`.
fn seconds(word: &[u8]) -> Option<u64> {
    let Some(at) = word.iter().position(|&byte| byte == b'e') else {
        return decimal(word, NANOS_PER_SECOND);
    };
    // Python writes so what is less than 0.0001.
    let places = number(word[at + 1..].strip_prefix(b"-")?, true)?;
    let unit = u32::try_from(places).ok().and_then(|places| 10_u64.checked_pow(places));
    decimal(&word[..at], unit.map_or(0, |unit| NANOS_PER_SECOND / unit))
}

/// Decodes base64 (RFC 4648) into `data`; the number of bytes, `None` if it is none or has more.
fn base64(text: &[u8], data: &mut [u8; 64]) -> Option<usize> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let (mut bits, mut count, mut len) = (0_u32, 0, 0);
    for &byte in digits {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            *data.get_mut(len)? = (bits >> count) as u8;
            len += 1;
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{Any, decode, decode_any};

    const NAMES: &str = "timestamp,arbitration_id,extended,remote,error,dlc,data\n";

    #[test]
    fn frames_are_read() {
        for (line, time_ns, expected) in [
            (
                "1600000000.000221,0x409f134,1,0,0,8,PDRMQYnrLx4=",
                1_600_000_000_000_221_000,
                "0409F134#3C344C4189EB2F1E",
            ),
            ("0.0,0x123,0,0,0,0,\r", 0, "123#"),
            ("5e-05,0x123,0,0,0,1,/w==", 50_000, "123#FF"),
            ("5.25e-05,0x123,0,0,0,2,+/8=", 52_500, "123#FBFF"),
            ("5e-99,0x7,1,0,0,3,AQID", 0, "00000007#010203"),
            ("1,0x123,0,1,0,4,", 1_000_000_000, "123#R4"),
            ("1,0x123,0,0,1,0,", 1_000_000_000, "20000080#0000000000000000"),
            ("1,0x1,0,0,0,12,AQIDBAUGBwgJCgsM", 1_000_000_000, "001##00102030405060708090A0B0C"),
        ] {
            let text = format!("\u{feff}{NAMES}{line}\n");
            let frame = Any::Can(expected.parse().unwrap());
            let record = (time_ns, "can0".to_owned(), None, frame);
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("x,0x1,0,0,0,0,", "2:1: this is not a time"),
            ("1e5,0x1,0,0,0,0,", "2:1: this is not a time"),
            ("1,0x1G,0,0,0,0,", "2:3: this is not an identifier"),
            ("1,0x800,0,0,0,0,", "2:3: standard identifier 0x800"),
            ("1,0x1,2,0,0,0,", "2:7: this is no flag"),
            ("1,0x1", "2:6: this is no flag"),
            ("1,0x1,0,0,0,65,", "2:13: this is not the length"),
            ("1,0x1,0,1,0,9,", "2:3: CAN FD has no remote frames"),
            ("1,0x1,0,0,0,2,AQ==", "2:15: the frame has fewer data bytes"),
            ("1,0x1,0,0,0,1,AQ=", "2:15: the frame has fewer data bytes"),
            ("1,0x1,0,0,0,1,A-==", "2:15: the frame has fewer data bytes"),
            ("1,0x1,0,1,0,4,2,0x1,0,0,0,0,", "2:17: the line goes on"),
            ("1,0x1,0,0,0,1,AQ==,2,0x1,0,0,0,0,", "2:20: the line goes on"),
            (
                "timestamp,arbitration_id,extended,remote,error,dlc,data1,0x1,0,0,0,0,",
                "2:52: the line goes on",
            ),
            ("1,0x1,0,0,0,9,AQIDBAUGBwgJ", "2:3: 9 bytes of data, but a CAN FD"),
        ] {
            let text = format!("{NAMES}{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let text = format!("{NAMES}1,0x1,0,0,0,2,AQ");
        assert!(decode(&FORMAT, text.as_bytes()).unwrap_err().is_cut());
        assert!((FORMAT.begins)(NAMES.as_bytes()) && !(FORMAT.begins)(b"timestamp,id"));
        // 66 bytes.
        assert_eq!(base64(&[b'A'; 88], &mut [0; 64]), None);
    }
}
