//! [`Format`]: what a format is called, what it can hold, and how to read and write it. One file per
//! format, and one registry, [`FORMATS`].
//!
//! | format | file | interfaces | directions | time |
//! |---|---|---|---|---|
//! | candump log | `candump.rs` | by name | ` R`, ` T` at the end of the line | 1 to 9 decimals |
//! | ASC log | `asc.rs` | by number | `Rx`, `Tx` | from the start on, 6 or 9 decimals |
//! | BLF recording | `blf.rs` | by number | a flag | from the start on, 10 microseconds or nanoseconds |
//! | pcap | `pcap.rs` | one, unnamed | - | micro- or nanoseconds, until 2106 |
//! | pcapng | `pcapng.rs` | by name | in the packet flags | any resolution |
//! | TRC log | `trc.rs` | by number | `Rx`, `Tx` | from the start on, 3 or 6 decimals of milliseconds |
//! | GVRET log, only read | `gvret.rs` | by number | `Rx`, `Tx` in newer files | microseconds |
//! | BUSMASTER log, only read | `busmaster.rs` | by number | `Rx`, `Tx` | of the day, or from the start on, 0.1 ms |
//! | Microchip log, only read | `microchip.rs` | one, unnamed | `RX`, `TX` | milliseconds |
//! | CarBusAnalyzer trace, only read | `carbus.rs` | by number | - | milliseconds |
//! | CSV of python-can, only read | `python_can_csv.rs` | one, unnamed | - | decimals of seconds |
//! | console output of candump, only read | `console.rs` | by name | `RX`, `TX` with `-x` | as they stand, 6 decimals |
//! | MF4 recording, only read | `mf4.rs` | by number | a channel | from the start on, any resolution |
//! | pcap of can2udp, only written | `can2udp.rs` | by number | - | nanoseconds, until 2106 |
//!
//! Ethernet frames are read from pcap and pcapng, and written to pcapng. Those with a datagram of can2udp are read as
//! the CAN frame in it ([`CanUdp`]); [`CAN2UDP`] in `can2udp.rs` writes such captures. (The header of a pcap file says which
//! kind its frames are. Here it is written before the first one, for CAN.)

mod asc;
mod blf;
mod busmaster;
mod can2udp;
mod candump;
mod carbus;
mod channels;
mod console;
mod gvret;
mod link;
mod mf4;
mod microchip;
mod order;
mod pcap;
mod pcapng;
mod python_can_csv;
mod start;
mod text;
mod trc;

use std::fmt;

use candor_wire::can::frame::ERR_FLAG;
use candor_wire::can::{Frame, FrameError};

pub use can2udp::CAN2UDP;
pub(crate) use channels::renamed;

use crate::can_udp::CanUdp;
use crate::compression::Compression;
use crate::decode::{DecodeError, Decoder, Position, ReadError, Reason, SCATTERED, Step};
use crate::encode::{Encoder, ReadOnly};
use crate::input::Input;

/// Every format there is, in the order in which messages list them.
pub static FORMATS: &[&Format] = &[
    &candump::FORMAT,
    &pcap::FORMAT,
    &pcapng::FORMAT,
    &asc::FORMAT,
    &blf::FORMAT,
    &trc::FORMAT,
    &gvret::FORMAT,
    &busmaster::FORMAT,
    &microchip::FORMAT,
    &carbus::FORMAT,
    &python_can_csv::FORMAT,
    &console::FORMAT,
    &mf4::FORMAT,
];

/// What the name of an interface is if the recording has none.
const UNNAMED: &str = "can0";
/// As [`UNNAMED`], of an Ethernet interface.
const UNNAMED_ETHERNET: &str = "eth0";

/// A format of recordings: what it is called, what it can hold, and how to read and write it.
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in sentences.
    pub title: &'static str,
    /// Endings of file names without the dot, the usual one first; every format of [`FORMATS`] has one.
    pub endings: &'static [&'static str],
    /// How it tells interfaces apart.
    pub labels: Labels,
    /// Whether it tells received frames from transmitted ones. If it has a start, each frame is one of them.
    pub keeps_directions: bool,
    /// Whether Ethernet frames can be written, too.
    pub keeps_ethernet: bool,
    /// Whether error reports keep their class and data; else they say only that there was one.
    pub keeps_error_reports: bool,
    /// Whether times count from the start of the measurement, before which there is none.
    pub has_start: bool,
    /// Whether Candor writes it, too.
    pub is_written: bool,
    /// Whether a record is among the bytes as soon as it was encoded; else several are compressed at once.
    pub grows_by_record: bool,
    begins: fn(&[u8]) -> bool,
    decoder: fn(CanUdp) -> Box<dyn Decoder>,
    encoder: fn(&mut Vec<u8>) -> Box<dyn Encoder>,
}

/// What most formats are: texts of numbered channels, with directions, that are only read. What a format has to say beyond what reads it
/// are its name, its title, its endings and how it begins, and what of this it does otherwise.
const fn usual(decoder: fn(CanUdp) -> Box<dyn Decoder>) -> Format {
    Format {
        name: "",
        title: "",
        endings: &[],
        labels: Labels::Numbers,
        keeps_directions: true,
        keeps_ethernet: false,
        keeps_error_reports: false,
        has_start: false,
        is_written: false,
        grows_by_record: true,
        begins: |_| false,
        decoder,
        encoder: |_| Box::new(ReadOnly),
    }
}

/// How a format tells interfaces apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// By their names.
    Names,
    /// By numbers, from 1: `canN` is number N + 1, and others take the smallest that is free.
    Numbers,
    /// Not at all: there is only one.
    None,
}

/// The report of an error on the bus that says no more (`CAN_ERR_BUSERROR` of linux/can/error.h and eight zeros), as python-can
/// writes error frames into candump logs.
pub(crate) fn error_report() -> Result<Frame, FrameError> {
    const BUS_ERROR: u32 = 0x80;
    Frame::from_parts(ERR_FLAG | BUS_ERROR, &[0; 8], None)
}

/// A classical frame with this data length code, 0 to 15, and as many of the eight bytes as it says.
fn classical(can_id: u32, dlc: u8, data: &[u8; 8]) -> Result<Frame, FrameError> {
    let frame = Frame::from_parts(can_id, &data[..usize::from(dlc).min(8)], None)?;
    if dlc > 8 { frame.with_raw_dlc(dlc) } else { Ok(frame) }
}

impl Format {
    /// The format of this [`Format::name`].
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.name == name)
    }

    /// The first format with the ending of this file name, in any case and before that of a [`Compression`].
    #[must_use]
    pub fn by_file_name(file_name: &str) -> Option<&'static Self> {
        Self::all_by_file_name(file_name).next()
    }

    /// All of them.
    pub(crate) fn all_by_file_name(file_name: &str) -> impl Iterator<Item = &'static Self> {
        FORMATS.iter().copied().filter(move |format| format.has_ending_of(file_name))
    }

    /// As [`Format::by_file_name`], of those that are written.
    #[must_use]
    pub fn written_by_file_name(file_name: &str) -> Option<&'static Self> {
        Self::written().find(|format| format.has_ending_of(file_name))
    }

    fn has_ending_of(&self, file_name: &str) -> bool {
        let (file_name, _) = Compression::of_file_name(file_name);
        let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
        self.endings.iter().any(|known| known.eq_ignore_ascii_case(ending))
    }

    /// The formats that are written, in the order of [`FORMATS`].
    pub fn written() -> impl Iterator<Item = &'static Self> + Clone {
        FORMATS.iter().copied().filter(|format| format.is_written)
    }

    /// The format of a recording that begins with `head`; 4 bytes suffice unless a text begins
    /// with comments.
    #[must_use]
    pub fn by_content(head: &[u8]) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| (format.begins)(head))
    }

    /// Why a text that is called like a recording in this format is none: no line of its beginning is a frame. The error is that of the first
    /// line that is neither a frame nor a comment; nothing is wrong with a text without such a line. A format that needs the whole file
    /// is not asked.
    pub(crate) fn refuted_by(&self, head: &[u8], at_end: bool) -> Option<DecodeError> {
        if head.trim_ascii().is_empty() {
            return None;
        }
        let (mut input, mut decoder) = (Input::of_head(head, at_end), self.decoder());
        let (mut line, mut first) = (0, None);
        loop {
            line += 1;
            let begin = input.window().trim_ascii_start().first().copied();
            match decoder.next(&mut input) {
                Ok(Step::Record(_) | Step::Ethernet(_)) => return None,
                Ok(Step::End) | Err(ReadError::Io(_)) => return first,
                // Comments of candump, TRC and ASC.
                Ok(Step::Skip) if begin.is_none_or(|byte| b"#;/".contains(&byte)) => {}
                Ok(Step::Skip) => {
                    let position = Position::Text { line, column: 1 };
                    let reason = Reason::Text("this is no frame");
                    first.get_or_insert(DecodeError { position, reason, resume: None });
                }
                Err(ReadError::Malformed(error)) if error.reason == SCATTERED => return None,
                Err(ReadError::Malformed(error)) => {
                    let resume = error.resume;
                    first.get_or_insert(error);
                    match resume {
                        Some(count) => input.consume(count),
                        None => return first,
                    }
                }
            }
        }
    }

    /// A decoder for one recording. In captures of Ethernet, datagrams to can2udp's usual port are CAN frames.
    #[must_use]
    pub fn decoder(&self) -> Box<dyn Decoder> {
        self.decoder_with(CanUdp::default())
    }

    /// As [`Format::decoder`], with another port of can2udp, or none.
    #[must_use]
    pub fn decoder_with(&self, can_udp: CanUdp) -> Box<dyn Decoder> {
        (self.decoder)(can_udp)
    }

    /// An encoder for one recording; appends the header of the format to `out`. Of formats that are only read it refuses every
    /// record.
    #[must_use]
    pub fn encoder(&self, out: &mut Vec<u8>) -> Box<dyn Encoder> {
        (self.encoder)(out)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Format {}

#[cfg(test)]
mod tests {
    mod flips;

    use std::io::ErrorKind;

    use candor_wire::can::frame::{ERR_FLAG, FD_LENGTHS, SFF_MASK};
    use candor_wire::can::{ExtendedId, Frame, Id, StandardId};
    use proptest::prelude::*;

    use super::*;
    use crate::encode::NANOS_PER_SECOND;
    use crate::{DecodeError, Direction, InterfaceIndex, Packet, Record, Step};

    /// A record of a CAN frame with the name of its interface.
    type Named = (u64, String, Option<Direction>, Frame);
    /// A record of either kind with the name of its interface.
    pub(crate) type AnyNamed = (u64, String, Option<Direction>, Any);

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Any {
        Can(Frame),
        /// What was captured, and the length there was.
        Ethernet(Vec<u8>, u32),
    }

    /// Gives bytes in pieces, and is not ready between them.
    struct Pieces {
        bytes: Vec<u8>,
        lengths: Vec<usize>,
        calls: usize,
    }

    impl std::io::Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(2) {
                return Err(ErrorKind::WouldBlock.into());
            }
            let len = self.lengths[self.calls / 2 % self.lengths.len()].max(1);
            let len = len.min(self.bytes.len()).min(out.len());
            out[..len].copy_from_slice(&self.bytes[..len]);
            self.bytes.drain(..len);
            Ok(len)
        }
    }

    /// Gives so many bytes at once.
    pub(crate) struct Chunks(std::io::Cursor<Vec<u8>>, usize);

    impl Chunks {
        pub(crate) fn new(bytes: &[u8], len: usize) -> Self {
            Self(std::io::Cursor::new(bytes.to_vec()), len)
        }
    }

    impl std::io::Read for Chunks {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(out.len());
            self.0.read(&mut out[..len])
        }
    }

    /// What is read if the bytes come in pieces of these lengths, again and again.
    pub(crate) fn decode_any(
        format: &Format,
        bytes: &[u8],
        lengths: &[usize],
    ) -> Result<Vec<AnyNamed>, DecodeError> {
        let mut decoder = format.decoder();
        let pieces = Pieces { bytes: bytes.to_vec(), lengths: lengths.to_vec(), calls: 0 };
        let mut input = Input::new(pieces);
        let mut records = Vec::new();
        loop {
            match decoder.next(&mut input) {
                Ok(Step::Record(record)) => {
                    let name = decoder.interfaces().name(record.interface).into();
                    let frame = Any::Can(record.frame);
                    records.push((record.time_ns, name, record.direction, frame));
                }
                Ok(Step::Ethernet(record)) => {
                    let name = decoder.interfaces().name(record.interface).into();
                    let packet = record.frame.slice(input.taken());
                    let frame = Any::Ethernet(packet.bytes.to_vec(), packet.original_len);
                    records.push((record.time_ns, name, record.direction, frame));
                }
                Ok(Step::Skip) => {}
                Ok(Step::End) => {
                    assert_eq!(input.offset(), bytes.len() as u64);
                    return Ok(records);
                }
                Err(ReadError::Io(error)) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                Err(ReadError::Malformed(error)) => return Err(error),
            }
        }
    }

    /// Reads up to the end, or as long as `tell` wants to go on, which is given CAN frames and errors.
    pub(crate) fn read_on(
        decoder: &mut dyn Decoder,
        input: &mut Input,
        mut tell: impl FnMut(Result<Record, &DecodeError>, &dyn Decoder) -> bool,
    ) {
        loop {
            match decoder.next(input) {
                Ok(Step::Record(record)) if tell(Ok(record), decoder) => {}
                Ok(Step::Skip) => {}
                Ok(Step::Record(_) | Step::End) => return,
                Err(ReadError::Malformed(error)) => {
                    let goes_on = tell(Err(&error), decoder);
                    let Some(len) = error.resume.filter(|_| goes_on) else { return };
                    input.consume(len);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// How many frames come before the end or an error.
    pub(crate) fn count(decoder: &mut dyn Decoder, bytes: &[u8]) -> usize {
        let mut count = 0;
        read_on(decoder, &mut Input::of_head(bytes, true), |found, _| {
            count += usize::from(found.is_ok());
            found.is_ok()
        });
        count
    }

    /// What is wrong with what comes next.
    pub(crate) fn error(decoder: &mut dyn Decoder, input: &mut Input) -> DecodeError {
        match decoder.next(input) {
            Err(ReadError::Malformed(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// As [`decode_any`]; there is nothing but CAN.
    pub(crate) fn decode_in_chunks(
        format: &Format,
        bytes: &[u8],
        chunks: &[usize],
    ) -> Result<Vec<Named>, DecodeError> {
        let can = |(time_ns, name, direction, frame)| match frame {
            Any::Can(frame) => (time_ns, name, direction, frame),
            Any::Ethernet(..) => panic!("an Ethernet frame"),
        };
        Ok(decode_any(format, bytes, chunks)?.into_iter().map(can).collect())
    }

    pub(crate) fn decode(format: &Format, bytes: &[u8]) -> Result<Vec<Named>, DecodeError> {
        decode_in_chunks(format, bytes, &[bytes.len()])
    }

    pub(crate) fn encode(format: &Format, records: &[AnyNamed]) -> Vec<u8> {
        let (mut out, head) = encode_to_pipe(format, records);
        if let Some(head) = head {
            out[..head.len()].copy_from_slice(&head);
        }
        out
    }

    /// The bytes, and what takes the place of the first ones where that is possible.
    fn encode_to_pipe(format: &Format, records: &[AnyNamed]) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut out = Vec::new();
        let mut encoder = format.encoder(&mut out);
        for (time_ns, name, direction, frame) in records {
            let (time_ns, direction) = (*time_ns, *direction);
            let record = Record { time_ns, interface: InterfaceIndex(0), direction, frame };
            match frame {
                Any::Can(frame) => encoder.encode(&record.map(|_| *frame), name, &mut out),
                Any::Ethernet(bytes, original_len) => {
                    let packet = Packet { bytes, original_len: *original_len };
                    encoder.encode_ethernet(&record.map(|_| packet), name, &mut out)
                }
            }
            .unwrap();
        }
        let head = encoder.finish(&mut out);
        (out, head)
    }

    fn any_id() -> impl Strategy<Value = Id> {
        prop_oneof![
            (0..=SFF_MASK as u16).prop_map(|raw| StandardId::new(raw).unwrap().into()),
            (0..1_u32 << 29).prop_map(|raw| ExtendedId::new(raw).unwrap().into()),
        ]
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        let bytes = |len| proptest::collection::vec(any::<u8>(), len);
        prop_oneof![
            (any_id(), bytes(0..=8)).prop_map(|(id, data)| Frame::new(id, &data).unwrap()),
            (any_id(), 0..=8_usize).prop_map(|(id, len)| Frame::remote(id, len).unwrap()),
            (any_id(), 9..=15_u8, bytes(8..=8)).prop_map(|(id, dlc, data)| {
                Frame::new(id, &data).unwrap().with_raw_dlc(dlc).unwrap()
            }),
            (any_id(), 0..=3_u8, 0..16_usize, bytes(64..=64)).prop_map(|(id, flags, dlc, data)| {
                Frame::fd(id, flags, &data[..usize::from(FD_LENGTHS[dlc])]).unwrap()
            }),
            (0..1_u32 << 29, bytes(0..=8)).prop_map(|(class, data)| {
                Frame::from_parts(class | ERR_FLAG, &data, None).unwrap()
            }),
        ]
    }

    /// Of either kind.
    pub(crate) fn any_record() -> impl Strategy<Value = AnyNamed> {
        let time = prop_oneof![
            0..u64::MAX,
            // Whole microseconds, as most recorders have them.
            (0..u64::MAX / 1_000).prop_map(|us| us * 1_000),
            Just(0),
        ];
        let name = prop_oneof![Just("can0"), Just("vcan-body.1"), Just("c")];
        let direction = prop_oneof![
            Just(None),
            Just(Some(Direction::Received)),
            Just(Some(Direction::Transmitted)),
        ];
        let ethernet = (proptest::collection::vec(any::<u8>(), 0..70), any::<u32>()).prop_map(
            |(bytes, original_len)| {
                let original_len = original_len.max(bytes.len() as u32);
                Any::Ethernet(bytes, original_len)
            },
        );
        let frame = prop_oneof![3 => any_frame().prop_map(Any::Can), 1 => ethernet];
        (time, name.prop_map(String::from), direction, frame)
    }

    /// What is left of records after a stay in `format`. What it cannot hold at all is left out.
    pub(crate) fn as_kept_by(format: &Format, records: &[AnyNamed]) -> Vec<AnyNamed> {
        let mut kept = records.to_vec();
        kept.retain(|(.., frame)| format.keeps_ethernet || matches!(frame, Any::Can(_)));
        let first_ns = kept.first().map_or(0, |&(first_ns, ..)| first_ns);
        // Years have four digits, and dates end with 64-bit nanoseconds.
        kept.retain(|&(time_ns, ..)| !format.has_start || time_ns >= first_ns);
        let mut numbers = channels::Numbers::default();
        for (time_ns, name, direction, frame) in &mut kept {
            match format.labels {
                Labels::Names => {}
                Labels::Numbers => *name = format!("can{}", numbers.channel(name).unwrap() - 1),
                Labels::None => {
                    *name = UNNAMED.into();
                    *time_ns %= (1 << 32) * NANOS_PER_SECOND;
                }
            }
            if !format.keeps_directions {
                *direction = None;
            } else if format.has_start {
                direction.get_or_insert(Direction::Received);
            }
            if !format.keeps_error_reports
                && let Any::Can(error) = frame
                && error.kind() == candor_wire::can::Kind::Error
            {
                *error = error_report().unwrap();
            }
        }
        kept
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec(any_record(), 0..20),
            chunks in proptest::collection::vec(1..200_usize, 1..10),
        ) {
            for format in Format::written() {
                let records = as_kept_by(format, &records);
                let bytes = encode(format, &records);
                prop_assert_eq!(&decode_any(format, &bytes, &chunks).unwrap(), &records);
                prop_assert_eq!(&decode_any(format, &bytes, &[1]).unwrap(), &records);
                let (piped, _) = encode_to_pipe(format, &records);
                prop_assert_eq!(&decode_any(format, &piped, &[piped.len()]).unwrap(), &records);
                if !records.is_empty() || format.name != "candump" {
                    prop_assert_eq!(Format::by_content(&bytes), Some(format));
                }
            }
        }

        #[test]
        fn a_damaged_recording_does_not_depend_on_the_chunks(
            records in proptest::collection::vec(any_record(), 1..5),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
            chunks in proptest::collection::vec(1..200_usize, 1..10),
        ) {
            for format in Format::written() {
                let mut bytes = encode(format, &as_kept_by(format, &records));
                if bytes.is_empty() {
                    continue;
                }
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                let outcome = |result: Result<Vec<AnyNamed>, DecodeError>| {
                    result.map_err(|error| (error.position, error.reason))
                };
                prop_assert_eq!(
                    outcome(decode_any(format, &bytes, &chunks)),
                    outcome(decode_any(format, &bytes, &[bytes.len()]))
                );
            }
        }
    }

    /// Texts of the formats that are only read.
    pub(crate) const TEXTS: [(&str, &str); 6] = [
        (
            "gvret",
            "Time Stamp,ID,Extended,Dir,Bus,LEN,D1\n17,0000021A,false,Rx,0,2,FE,36,\n18,1,true,Tx,1,0,\n",
        ),
        (
            "busmaster",
            "***BUSMASTER\n***START DATE AND TIME 23:9:2015 22:17:28:928***\n22:20:14:992 Rx 1 21A s 2 FE 36 \n1:0:0:1 Tx 1 1 xr 0\n",
        ),
        (
            "microchip",
            "//---\nMicrochip Technology Inc.\n166064;RX;0x21A;2;0xFE;0x36;\n166065;TX;0x81A;0;\n",
        ),
        (
            "carbusanalyzer",
            "@ TEXT @ 2 @\r46,016\t1\t0004\t45A\t2\t5A 04\t00000000\tZ\t\r46,017\t1\t0004\t45A\t0\r",
        ),
        (
            "python-can-csv",
            "timestamp,arbitration_id,\n5.5e-05,0x123,0,0,0,2,+/8=\n16.000221,0x409f134,1,0,0,8,PDRMQYnrLx4=\n",
        ),
        (
            "candump-console",
            "  can0  123   [2]  11 22\n (2020-09-13 12:26:40.123456)  can0  RX B -  123  [02]  11 22\n",
        ),
    ];

    proptest! {
        #[test]
        fn a_damaged_text_does_not_depend_on_the_chunks(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            chunks in proptest::collection::vec(1..20_usize, 1..10),
        ) {
            for (name, text) in TEXTS {
                let format = Format::by_name(name).unwrap();
                let mut bytes = text.as_bytes().to_vec();
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                let outcome = |chunks: &[usize]| {
                    decode_any(format, &bytes, chunks).map_err(|it| (it.position, it.reason))
                };
                let whole = outcome(&[bytes.len()]);
                prop_assert!(!changes.is_empty() || whole.as_ref().is_ok_and(|it| it.len() == 2));
                prop_assert_eq!(outcome(&chunks), whole);
            }
        }
    }

    #[test]
    fn every_format_is_documented() {
        const DOCS: &str = include_str!("../../../docs/recordings.md");
        let has = |has: bool| if has { "yes" } else { "no" };
        for format in FORMATS {
            let endings: Vec<_> = format.endings.iter().map(|it| format!("`.{it}`")).collect();
            let labels = match format.labels {
                Labels::Names => "names",
                Labels::Numbers => "numbers",
                Labels::None => "one",
            };
            let directions = has(format.keeps_directions);
            let start = format!(
                "| {} | `{}` | {} | {} | {labels} | {directions} |",
                format.title,
                format.name,
                endings.join(", "),
                has(format.is_written)
            );
            let row = DOCS.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("docs/recordings.md has no row {start}"));
            let errors =
                if format.keeps_error_reports { "| yes |" } else { "| that there was one |" };
            let times = if format.has_start { "| from the start on" } else { "| " };
            assert!(row.contains(errors) && row.contains(times), "{row}");
        }
    }

    #[test]
    fn no_format_takes_the_head_of_another() {
        for (head, name) in [
            ("(1436509052.249713) can0 123#11\n", "candump"),
            ("date Sat Sep 30 15:06:13.191 2017\nbase hex  timestamps absolute\n", "asc"),
            ("// version 7\nbase hex  timestamps absolute\n", "asc"),
            (";$FILEVERSION=1.1\n", "trc"),
            (";   C:\\a.trc\n;\n     1)      1841  0001  8 00 00 00 00 00 00 00 00\n", "trc"),
            ("Time Stamp,ID,Extended,Bus,LEN,D1,D2,D3,D4,D5,D6,D7,D8\n", "gvret"),
            ("***BUSMASTER Ver 2.4.0***\n", "busmaster"),
            ("//---\nMicrochip Technology Inc.\nCAN BUS Analyzer\n", "microchip"),
            ("@ TEXT @ 2 @ 64 @ 0 @ 55 @ 10078 @ 00:00:10.078 @\r", "carbusanalyzer"),
            ("timestamp,arbitration_id,extended,remote,error,dlc,data\n", "python-can-csv"),
            ("  can0  123   [2]  11 22\n", "candump-console"),
            (" (1600000000.123456)  can0  RX - -  123   [2]  11 22\n", "candump-console"),
        ] {
            for text in [head.to_owned(), head.replace('\n', "\r\n"), format!("\u{feff}{head}")] {
                let known = FORMATS.iter().filter(|it| (it.begins)(text.as_bytes()));
                let known: Vec<_> = known.map(|it| it.name).collect();
                let has_mark = text.starts_with('\u{feff}');
                let expected = if has_mark && name == "candump" { vec![] } else { vec![name] };
                assert_eq!(known, expected, "{text}");
            }
        }
    }

    #[test]
    fn formats_are_found_by_name_and_ending() {
        assert_eq!(Format::by_name("pcapng"), Some(&pcapng::FORMAT));
        assert_eq!(Format::by_name("pcapn"), None);
        assert_ne!(Format::by_name("pcap"), Format::by_name("pcapng"));
        assert_eq!(
            format!("{FORMATS:?}"),
            "[candump, pcap, pcapng, asc, blf, trc, gvret, busmaster, microchip, carbusanalyzer, python-can-csv, candump-console, mf4]"
        );
        for (file_name, name) in [
            ("a.log", Some("candump")),
            ("a.b.PCAP", Some("pcap")),
            ("dir.log/a.pcapng", Some("pcapng")),
            ("a.trc", Some("trc")),
            ("pcap", None),
            ("a.pcap.zst", Some("pcap")),
            ("a.gz", None),
            ("a.xlsx", None),
        ] {
            assert_eq!(Format::by_file_name(file_name).map(|format| format.name), name);
        }
    }
}
