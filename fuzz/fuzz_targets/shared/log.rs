//! What must hold for every log format and all bytes: no panic, no dependence on how the bytes are
//! cut, and what was read is read again after writing it.

use std::io::{self, Cursor, Read};

use candor_recording::{
    Direction, Format, Input, InterfaceIndex, Labels, Packet, ReadError, Record, Step,
};
use candor_wire::can::Frame;

/// A record with the name of its interface.
struct Named {
    time_ns: u64,
    interface: String,
    direction: Option<Direction>,
    frame: Any,
}

enum Any {
    Can(Frame),
    /// What was captured, and the length there was.
    Ethernet(Vec<u8>, u32),
}

impl PartialEq for Any {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Error reports are equal if they are written equally: the notation of candump leaves out
            // the other flags of their identifier word.
            (Self::Can(one), Self::Can(other)) => one.to_string() == other.to_string(),
            (Self::Ethernet(one, len), Self::Ethernet(other, other_len)) => {
                one == other && len == other_len
            }
            _ => false,
        }
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        (self.time_ns, &self.interface, self.direction, &self.frame)
            == (other.time_ns, &other.interface, other.direction, &other.frame)
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
    if !format.is_written {
        return;
    }
    let mut kept = records;
    kept.retain(|record| format.keeps_ethernet || matches!(record.frame, Any::Can(_)));
    if !format.keeps_directions {
        kept.iter_mut().for_each(|record| record.direction = None);
    }
    if format.labels == Labels::None {
        // Those of can2udp have several, also there.
        kept.iter_mut().for_each(|record| record.interface = "can0".to_owned());
    }
    let first_ns = kept.first().map_or(0, |record| record.time_ns);
    kept.retain(|record| !format.has_start || record.time_ns >= first_ns);
    let written = encode(format, &kept);
    let mut again = decode(format, &written, written.len());
    if format.labels == Labels::Numbers {
        // Numbers beyond those that are written become others.
        number_interfaces(&mut kept);
        number_interfaces(&mut again);
    }
    assert!(kept == again, "does not survive writing");
}

/// Calls interfaces by the order of their first records.
fn number_interfaces(records: &mut [Named]) {
    let mut names: Vec<String> = Vec::new();
    for record in records {
        let known = names.iter().position(|name| *name == record.interface);
        let place = known.unwrap_or_else(|| {
            names.push(record.interface.clone());
            names.len() - 1
        });
        record.interface = place.to_string();
    }
}

/// Gives so many bytes at once.
struct Pieces(Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(self.1);
        self.0.read(&mut out[..len])
    }
}

/// All records; malformed ones are passed over as long as possible.
fn decode(format: &Format, bytes: &[u8], chunk: usize) -> Vec<Named> {
    let mut decoder = format.decoder();
    let mut input = Input::new(Pieces(Cursor::new(bytes.to_vec()), chunk));
    let mut records = Vec::new();
    loop {
        match decoder.next(&mut input) {
            Ok(Step::Record(Record { time_ns, interface, direction, frame })) => {
                let interface = decoder.interfaces().name(interface).to_owned();
                records.push(Named { time_ns, interface, direction, frame: Any::Can(frame) });
            }
            Ok(Step::Ethernet(Record { time_ns, interface, direction, frame })) => {
                let Packet { bytes, original_len } = frame.slice(input.taken());
                assert!(bytes.len() == frame.len, "the packet is not in the bytes");
                // Any bytes are a frame or too short for one.
                let _ = candor_wire::eth::Frame::parse(bytes);
                let frame = Any::Ethernet(bytes.to_vec(), original_len);
                let interface = decoder.interfaces().name(interface).to_owned();
                records.push(Named { time_ns, interface, direction, frame });
            }
            Ok(Step::Skip) => {}
            Ok(Step::End) => return records,
            Err(ReadError::Io(error)) => panic!("bytes can be read: {error}"),
            Err(ReadError::Malformed(error)) => match error.resume {
                Some(len) => {
                    assert!(len <= input.window().len(), "more than there is");
                    input.consume(len);
                }
                None => return records,
            },
        }
        assert!(input.offset() <= bytes.len() as u64, "consumed more than there is");
    }
}

fn encode(format: &Format, records: &[Named]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = format.encoder(&mut out);
    for &Named { time_ns, ref interface, direction, ref frame } in records {
        let record = Record { time_ns, interface: InterfaceIndex(0), direction, frame };
        match frame {
            Any::Can(frame) => encoder.encode(&record.map(|_| *frame), interface, &mut out),
            Any::Ethernet(bytes, original_len) => {
                let packet = Packet { bytes, original_len: *original_len };
                encoder.encode_ethernet(&record.map(|_| packet), interface, &mut out)
            }
        }
        .expect("the format held it before");
    }
    if let Some(head) = encoder.finish(&mut out) {
        out[..head.len()].copy_from_slice(&head);
    }
    out
}
