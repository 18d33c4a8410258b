//! What must hold for every log format and all bytes: no panic, no dependence on how the bytes are
//! cut, and what was read is read again after writing it.

use candor_recording::{Direction, Format, InterfaceIndex, Record, Step};
use candor_wire::can::Frame;

/// A record with the name of its interface.
struct Named {
    time_ns: u64,
    interface: String,
    direction: Option<Direction>,
    frame: Frame,
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        // Error reports are equal if they are written equally: the notation of candump leaves out
        // the other flags of their identifier word.
        (self.time_ns, &self.interface, self.direction, self.frame.to_string())
            == (other.time_ns, &other.interface, other.direction, other.frame.to_string())
    }
}

/// The first byte says how the rest is cut.
pub fn check(format_name: &str, input: &[u8]) {
    let format = Format::by_name(format_name).expect("a known format");
    let Some((&chunk, bytes)) = input.split_first() else {
        return;
    };
    let records = decode(format, bytes, usize::from(chunk) + 1);
    assert!(records == decode(format, bytes, bytes.len()), "depends on how the bytes are cut");
    let written = encode(format, &records);
    assert!(records == decode(format, &written, written.len()), "does not survive writing");
}

/// All records; malformed ones are passed over as long as possible.
fn decode(format: &Format, bytes: &[u8], chunk: usize) -> Vec<Named> {
    let mut decoder = format.decoder();
    let (mut start, mut end) = (0, 0);
    let mut records = Vec::new();
    loop {
        let consumed = match decoder.decode(&bytes[start..end], end == bytes.len()) {
            Ok(Step::Record {
                consumed,
                record: Record { time_ns, interface, direction, frame },
            }) => {
                let interface = decoder.interfaces().name(interface).to_owned();
                records.push(Named { time_ns, interface, direction, frame });
                consumed
            }
            Ok(Step::Skip { consumed }) => {
                assert!(consumed > 0);
                consumed
            }
            Ok(Step::NeedMore) => {
                assert!(end < bytes.len(), "asks for more at the end");
                end = bytes.len().min(end + chunk);
                0
            }
            Ok(Step::End) => return records,
            Err(error) => match error.resume {
                Some(consumed) => consumed,
                None => return records,
            },
        };
        start += consumed;
        assert!(start <= end, "consumed more than there is");
    }
}

fn encode(format: &Format, records: &[Named]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = format.encoder(&mut out);
    for &Named { time_ns, ref interface, direction, frame } in records {
        let record = Record { time_ns, interface: InterfaceIndex(0), direction, frame };
        encoder.encode(&record, interface, &mut out).expect("the format held it before");
    }
    out
}
