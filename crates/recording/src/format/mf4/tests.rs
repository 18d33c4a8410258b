use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::*;
use crate::Recording;
use crate::format::tests::read_on;

/// Blocks of a file, one behind the other.
struct File(Vec<u8>);

/// A field of a record: member, type, data type, bit, byte, bits, and links to a conversion and to data.
type Channel = (&'static str, u8, u8, u8, u32, u32, u64, u64);

const START_NS: u64 = 1_700_000_000_000_000_000;

impl File {
    fn new(magic: &[u8; 8]) -> Self {
        let mut file = Self([&magic[..], b"4.10    ", &[0; 48]].concat());
        let at = file.block(b"HD", &[0; 6], &START_NS.to_le_bytes());
        assert_eq!(at, 64);
        file
    }

    fn block(&mut self, id: &[u8; 2], links: &[u64], data: &[u8]) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = self.0.len() as u64;
        let len = 24 + 8 * links.len() + data.len();
        self.0.extend_from_slice(&[b'#', b'#', id[0], id[1], 0, 0, 0, 0]);
        for number in [len as u64, links.len() as u64].iter().chain(links) {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
        self.0.extend_from_slice(data);
        at
    }

    /// Sets a link of a block.
    fn link(&mut self, at: u64, number: usize, to: u64) {
        let place = at as usize + 24 + 8 * number;
        self.0[place..place + 8].copy_from_slice(&to.to_le_bytes());
    }

    fn conversion(&mut self, kind: u8, values: &[f64]) -> u64 {
        let mut data = vec![0; 24];
        data[0] = kind;
        data[6] = values.len() as u8;
        values.iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        self.block(b"CC", &[0; 4], &data)
    }

    /// A channel group with a time of 8 bytes, whole nanoseconds, and these members; returns its place.
    fn group(&mut self, frame: &str, id: u64, len: u32, channels: &[Channel], next: u64) -> u64 {
        let nanos = self.conversion(1, &[0.0, 1e-9]);
        let mut first = 0;
        for &(member, kind, data_type, bit, byte, bits, conversion, data) in channels {
            let name = self.block(b"TX", &[], format!("{frame}.{member}\0").as_bytes());
            let body = channel(kind, 0, data_type, bit, byte, bits);
            first = self.block(b"CN", &[first, 0, name, 0, conversion, data, 0, 0], &body);
        }
        let name = self.block(b"TX", &[], format!("{frame}\0").as_bytes());
        let composed =
            self.block(b"CN", &[0, first, name, 0, 0, 0, 0, 0], &channel(0, 0, 10, 0, 8, 0));
        let time =
            self.block(b"CN", &[composed, 0, 0, 0, nanos, 0, 0, 0], &channel(2, 1, 2, 0, 0, 64));
        let mut head = vec![0; 32];
        head[..8].copy_from_slice(&id.to_le_bytes());
        head[24..28].copy_from_slice(&len.to_le_bytes());
        self.block(b"CG", &[next, time, 0, 0, 0, 0], &head)
    }

    /// Puts a data group before the others.
    fn data_group(&mut self, groups: u64, id_len: u8, data: u64) {
        let others = Little.u64(&self.0, 64 + 24);
        let at = self.block(b"DG", &[others, groups, data, 0], &[id_len, 0, 0, 0, 0, 0, 0, 0]);
        self.link(64, 0, at);
    }

    fn read(&self) -> Read {
        read(&self.0)
    }
}

fn channel(kind: u8, sync: u8, data_type: u8, bit: u8, byte: u32, bits: u32) -> [u8; 48] {
    let mut body = [0; 48];
    body[..4].copy_from_slice(&[kind, sync, data_type, bit]);
    body[4..8].copy_from_slice(&byte.to_le_bytes());
    body[8..12].copy_from_slice(&bits.to_le_bytes());
    body
}

/// Frames with their times from the start on, and messages.
#[derive(Debug, Default, PartialEq)]
struct Read {
    frames: Vec<String>,
    messages: Vec<String>,
}

fn read(bytes: &[u8]) -> Read {
    let mut decoder = Mf4Decoder::default();
    let mut input = Input::new(std::io::empty()).with_file(Cursor::new(bytes.to_vec()));
    let mut read = Read::default();
    read_on(&mut decoder, &mut input, |found, decoder| match found {
        Ok(record) => {
            // A damaged file may have any time.
            let since = (record.time_ns as i64).wrapping_sub(START_NS as i64);
            let name = decoder.interfaces().name(record.interface);
            let direction =
                if record.direction == Some(crate::Direction::Transmitted) { "T" } else { "R" };
            read.frames.push(format!("{since} {name} {} {direction}", record.frame));
            true
        }
        Err(error) => {
            read.messages.push(error.to_string());
            assert!(read.messages.len() < 10_000, "it ends");
            !error.is_cut()
        }
    });
    read
}

/// Members of a data frame of 24 bytes behind the time: identifier with its highest bit for 29 bits, a byte of flags, the length
/// and 8 bytes of data.
const DATA: &[Channel] = &[
    ("ID", 0, 0, 0, 8, 29, 0, 0),
    ("IDE", 0, 0, 7, 11, 1, 0, 0),
    ("BusChannel", 0, 0, 0, 12, 4, 0, 0),
    ("Dir", 0, 0, 4, 12, 1, 0, 0),
    ("EDL", 0, 0, 5, 12, 1, 0, 0),
    ("BRS", 0, 0, 6, 12, 1, 0, 0),
    ("DLC", 0, 0, 0, 13, 4, 0, 0),
    ("DataLength", 0, 0, 0, 14, 8, 0, 0),
    ("DataBytes", 0, 10, 0, 16, 64, 0, 0),
];

fn record(time: i64, id: u32, flags: u8, dlc: u8, data: u64) -> [u8; 24] {
    let mut record = [0; 24];
    record[..8].copy_from_slice(&time.to_le_bytes());
    record[8..12].copy_from_slice(&id.to_le_bytes());
    record[12..16].copy_from_slice(&[flags, dlc, dlc.min(8), 0]);
    record[16..].copy_from_slice(&data.to_be_bytes());
    record
}

fn records() -> [[u8; 24]; 4] {
    [
        record(1_000, 0x123, 1, 3, 0xAABB_CC00_0000_0000),
        record(3_000, 0x98EB_FF00, 0x12, 8, 0x1122_3344_5566_7788),
        record(2_000, 0x7FF, 0x61, 8, 0x0102_0304_0506_0708),
        record(4_000, 0x1, 0, 0, 0),
    ]
}

/// In order of time, whatever the order of records is.
const FRAMES: [&str; 4] = [
    "1000 can0 123#AABBCC R",
    "2000 can0 7FF##10102030405060708 R",
    "3000 can1 18EBFF00#1122334455667788 T",
    "4000 channel0 001# R",
];

fn sorted(data: impl FnOnce(&mut File, Vec<u8>) -> u64) -> File {
    let mut file = File::new(b"MDF     ");
    let group = file.group("CAN_DataFrame", 0, 24, DATA, 0);
    let data = data(&mut file, records().concat());
    file.data_group(group, 0, data);
    file
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A DZBLOCK of these bytes; transposed by so many columns, if they are not 0.
fn packed(file: &mut File, bytes: &[u8], columns: usize) -> u64 {
    let mut ordered = bytes.to_vec();
    if let Some(rows) = bytes.len().checked_div(columns) {
        ordered = (0..rows * columns).map(|at| bytes[at % rows * columns + at / rows]).collect();
        ordered.extend_from_slice(&bytes[rows * columns..]);
    }
    let packed = deflated(&ordered);
    let mut data = vec![b'D', b'T', u8::from(columns > 0), 0];
    data.extend_from_slice(&(columns as u32).to_le_bytes());
    data.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    data.extend_from_slice(&(packed.len() as u64).to_le_bytes());
    data.extend_from_slice(&packed);
    file.block(b"DZ", &[], &data)
}

/// A recording with its records as they are, and where they are.
pub(in crate::format) fn stored() -> (Vec<u8>, std::ops::Range<usize>) {
    let mut at = 0;
    let file = sorted(|file, bytes| {
        at = file.block(b"DT", &[], &bytes);
        at
    });
    let from = at as usize + 24;
    (file.0, from..from + records().len() * 24)
}

/// A recording with a compressed block, and where the block has its contents.
pub(in crate::format) fn compressed() -> (Vec<u8>, std::ops::Range<usize>) {
    let mut at = 0;
    let file = sorted(|file, bytes| {
        at = packed(file, &bytes, 24);
        at
    });
    let contents = at as usize + 48;
    let len = Little.u64(&file.0, at as usize + 40) as usize;
    (file.0, contents..contents + len)
}

#[test]
fn records_are_read_however_their_blocks_are_cut() {
    let expected = Read { frames: FRAMES.map(str::to_owned).into(), messages: vec![] };
    assert_eq!(sorted(|file, bytes| file.block(b"DT", &[], &bytes)).read(), expected);
    for columns in [0, 24, 7] {
        assert_eq!(
            sorted(|file, bytes| packed(file, &bytes, columns)).read(),
            expected,
            "{columns}"
        );
    }
    // Lists of lists, and records across their borders.
    let lists = |file: &mut File, bytes: Vec<u8>| {
        let parts: Vec<_> = bytes.chunks(19).map(|part| file.block(b"DT", &[], part)).collect();
        let second = file.block(b"DL", &[&[0], &parts[2..]].concat(), &[0; 8]);
        let first = file.block(b"DL", &[second, parts[0], parts[1]], &[0; 8]);
        file.block(b"HL", &[first], &[0; 8])
    };
    assert_eq!(sorted(lists).read(), expected);
}

#[test]
fn groups_share_data_and_are_merged() {
    let mut file = File::new(b"MDF     ");
    let remote: &[Channel] = &[("ID", 0, 1, 0, 8, 16, 0, 0), ("DLC", 0, 0, 0, 10, 8, 0, 0)];
    let remote = file.group("CAN_RemoteFrame", 2, 11, remote, 0);
    let error = file.group("CAN_ErrorFrame", 300, 8, &[], remote);
    let other = file.group("LIN_Frame", 7, 9, &[], error);
    let mut bytes = Vec::new();
    for (id, record) in [
        (300_u16, &2_500_i64.to_le_bytes()[..]),
        (7, &[0; 9]),
        (2, &[&(-5_i64).to_le_bytes()[..], &[0x01, 0x23, 4]].concat()),
        (2, &[&1_500_i64.to_le_bytes()[..], &[0x07, 0xFF, 0]].concat()),
    ] {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(record);
    }
    let data = file.block(b"DT", &[], &bytes);
    file.data_group(other, 2, data);
    let data = file.block(b"DT", &[], &records().concat());
    let group = file.group("CAN_DataFrame", 0, 24, DATA, 0);
    file.data_group(group, 0, data);
    let mut frames = FRAMES.map(str::to_owned).to_vec();
    frames.insert(0, "-5 can0 123#R4 R".into());
    frames.insert(2, "1500 can0 7FF#R R".into());
    frames.insert(4, "2500 can0 20000080#0000000000000000 R".into());
    assert_eq!(file.read(), Read { frames, messages: vec![] });
}

/// The numbers of channels are those of the standard, from 1, unless all of a file is as python-can leaves it.
#[test]
fn python_can_counts_channels_from_0() {
    let channel: &[Channel] = &[("BusChannel", 0, 0, 0, 8, 8, 0, 0), ("Dir", 0, 0, 0, 9, 8, 0, 0)];
    let identified: Vec<_> = [channel, &[("ID", 0, 0, 0, 10, 8, 0, 0)]].concat();
    let data: Vec<_> = [
        &identified[..],
        &[("DataLength", 0, 0, 0, 11, 8, 0, 0), ("DataBytes", 0, 10, 0, 12, 8, 0, 0)],
    ]
    .concat();
    let file = |program: &[u8], comment: &str, others: &[&str]| {
        let mut file = File::new(b"MDF     ");
        file.0[16..16 + program.len()].copy_from_slice(program);
        let id = if comment.starts_with('<') { b"MD" } else { b"TX" };
        let comment = file.block(id, &[], format!("{comment}\0").as_bytes());
        // The last one is the first in the file.
        let kinds = [&["CAN_DataFrame", "CAN_ErrorFrame", "CAN_RemoteFrame"], others].concat();
        for (number, kind) in kinds.iter().enumerate().rev() {
            let channels = match *kind {
                "CAN_DataFrame" => &data,
                "CAN_RemoteFrame" => &identified,
                _ => channel,
            };
            let group = file.group(kind, 0, 13, channels, 0);
            file.link(group, 5, comment);
            let record = |time: u8, channel| [time, 0, 0, 0, 0, 0, 0, 0, channel, 1, 5, 0, 0];
            let time = 2 * number as u8;
            let data = file.block(b"DT", &[], &[record(time, 0), record(time + 1, 1)].concat());
            file.data_group(group, 0, data);
        }
        file.read()
    };
    let frames = |names: [&str; 2]| {
        let frames = ["005#", "20000080#0000000000000000", "005#R"];
        let pairs = frames.iter().enumerate().flat_map(|(number, frame)| {
            [0, 1].map(|place| format!("{} {} {frame} T", 2 * number + place, names[place]))
        });
        Read { frames: pairs.collect(), messages: vec![] }
    };
    for comment in ["Python", "<CGcomment><TX>Python</TX></CGcomment>"] {
        assert_eq!(file(b"amdf8.8.", comment, &[]), frames(["can0", "can1"]), "{comment}");
    }
    for (program, comment, others) in [
        (&b"CE"[..], "Python", &[][..]),
        (b"amdf8.8.", "", &[]),
        (b"amdf8.8.", "Python", &["LIN_Frame"]),
    ] {
        assert_eq!(file(program, comment, others), frames(["channel0", "can0"]));
    }
}

/// A data frame whose bytes are elsewhere: time, identifier, data length, place.
fn elsewhere(of: u64) -> [Channel; 4] {
    [
        ("ID", 0, 0, 0, 8, 16, 0, 0),
        ("EDL", 0, 0, 7, 9, 1, 0, 0),
        ("DataLength", 0, 0, 0, 10, 8, 0, 0),
        ("DataBytes", 1, 10, 0, 11, 64, 0, of),
    ]
}

#[test]
fn data_of_variable_length_are_found() {
    let records = [(10_u64, 0x123_u16, 3_u8, 0_u64), (20, 0x7F0, 2, 7), (30, 0x7F1, 0, 13)];
    let values = [&b"\x01\x02\x03"[..], b"\x0A\x0B", b""];
    let value = |value: &[u8]| [&(value.len() as u32).to_le_bytes()[..], value].concat();
    let record = |&(time, id, len, place): &(u64, u16, u8, u64)| {
        [&time.to_le_bytes()[..], &id.to_le_bytes(), &[len], &place.to_le_bytes()].concat()
    };
    let frames = ["10 can0 123#010203 R", "20 can0 7F0#0A0B R", "30 can0 7F1# R"]
        .map(str::to_owned)
        .to_vec();
    // In a signal data block.
    let mut file = File::new(b"MDF     ");
    let of = file.block(b"SD", &[], &values.map(value).concat());
    let group = file.group("CAN_DataFrame", 0, 19, &elsewhere(of), 0);
    let data = file.block(b"DT", &[], &records.each_ref().map(record).concat());
    file.data_group(group, 0, data);
    assert_eq!(file.read(), Read { frames: frames.clone(), messages: vec![] });
    // Among the records of a group of their own, before and behind their frames, in a file that was not finished.
    let mut file = File::new(b"UnFinMF ");
    let mut head = vec![0; 32];
    (head[0], head[16]) = (2, 1);
    let of = file.block(b"CG", &[0, 0, 0, 0, 0, 0], &head);
    let group = file.group("CAN_DataFrame", 1, 19, &elsewhere(of), of);
    let mut bytes = Vec::new();
    for (number, at) in records.iter().enumerate() {
        let parts = [[&[1][..], &record(at)].concat(), [&[2][..], &value(values[number])].concat()];
        let [first, second] =
            if number == 1 { [&parts[1], &parts[0]] } else { [&parts[0], &parts[1]] };
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
    }
    file.data_group(group, 1, 0);
    let group = Little.u64(&file.0, 64 + 24);
    // The last block has no length, and its last record is cut.
    bytes.extend_from_slice(&[1, 0]);
    let data = file.block(b"DT", &[], &bytes);
    file.0[data as usize + 8..data as usize + 16].copy_from_slice(&24_u64.to_le_bytes());
    file.link(group, 2, data);
    let read = file.read();
    assert_eq!(read.frames, frames);
    assert!(read.messages[0].contains("ends inside this record"), "{read:?}");
}

#[test]
fn what_is_damaged_is_told_with_its_place() {
    let whole = sorted(|file, bytes| file.block(b"DT", &[], &bytes));
    let data = Little.u64(&whole.0, Little.u64(&whole.0, 88) as usize + 24 + 16) as usize;
    // An illegal identifier costs its frame.
    let mut bytes = whole.0.clone();
    bytes[data + 24 + 9] = 0x2F;
    let found = read(&bytes);
    assert_eq!(found.frames, FRAMES[1..].iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(found.messages[0].contains("identifier"), "{found:?}");
    // A block of data in a circle, or of another kind, or too long.
    let mut circle = sorted(|file, _| {
        let at = file.block(b"DL", &[0, 0], &[]);
        file.link(at, 1, at);
        at
    });
    assert!(circle.read().messages[0].contains("circles"), "{:?}", circle.read());
    circle.link(64, 0, 64);
    assert!(!circle.read().messages.is_empty());
    let long = sorted(|file, bytes| {
        let at = packed(file, &bytes, 0);
        file.0[at as usize + 32..at as usize + 40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        at
    });
    assert!(long.read().messages[0].contains("more than 16 MiB"), "{:?}", long.read());
    let bomb = sorted(|file, _| packed(file, &vec![0; 1 << 20], 24));
    assert_eq!(bomb.read().frames.len(), (1 << 20) / 24);
}

/// Whatever bit of the contents of a compressed block is wrong, or of its lengths: no frame is read of it.
#[test]
fn a_compressed_block_is_read_when_its_checksum_holds() {
    for columns in [0, 24] {
        let mut dz = 0;
        let whole = sorted(|file, bytes| {
            dz = packed(file, &bytes, columns) as usize + 24;
            dz as u64 - 24
        });
        let packed_len = Little.u64(&whole.0, dz + 16) as usize;
        let mut whole_flips = 0;
        for at in (dz + 8..dz + 16).chain(dz + 24..dz + 24 + packed_len) {
            for bit in 0..8 {
                let mut bytes = whole.0.clone();
                bytes[at] ^= 1 << bit;
                let read = read(&bytes);
                // A few bits mean nothing: those behind the last deflated one, and distances within a run of one byte.
                let is_whole = read.frames == FRAMES && read.messages.is_empty();
                let is_told = read.frames.is_empty() && !read.messages.is_empty();
                assert!(is_whole || is_told, "{columns}: byte {at}, bit {bit}: {read:?}");
                whole_flips += u32::from(is_whole);
            }
        }
        assert!(whole_flips < 16, "{columns}: {whole_flips}");
        // Those in front of a damaged block are read, and of what is behind it nothing.
        let mut file = sorted(|file, bytes| {
            let first = packed(file, &bytes[..36], 0);
            let second = packed(file, &bytes[36..], 0);
            dz = second as usize + 24;
            file.block(b"DL", &[0, first, second], &[0; 8])
        });
        file.0[dz + 30] ^= 4;
        let read = file.read();
        assert_eq!(read.frames, FRAMES[..1], "{read:?}");
        assert!(read.messages[0].contains("cannot be inflated"), "{read:?}");
    }
    // Nor is there more in it than it says.
    let more = sorted(|file, bytes| {
        let at = packed(file, &bytes, 0);
        file.0[at as usize + 32..at as usize + 40].copy_from_slice(&72_u64.to_le_bytes());
        at
    });
    assert!(more.read().messages[0].contains("not as long as it says"), "{:?}", more.read());
    let longer = sorted(|file, bytes| {
        let at = packed(file, &bytes, 0);
        file.0[at as usize + 40] += 1;
        at
    });
    assert!(longer.read().messages[0].contains("than the block around"), "{:?}", longer.read());
}

#[test]
fn a_file_that_ends_anywhere_is_no_panic() {
    let whole = sorted(|file, bytes| packed(file, &bytes, 24));
    // The last block is a data group, of which one byte is read.
    for len in 0..whole.0.len() - 7 {
        assert_ne!(read(&whole.0[..len]).messages, Vec::<String>::new(), "{len}");
    }
}

#[test]
fn a_block_that_the_file_does_not_hold_is_told() {
    let mut file = File::new(b"MDF     ");
    let group = file.group("CAN_DataFrame", 0, 24, DATA, 0);
    file.data_group(group, 0, 0);
    let group = Little.u64(&file.0, 64 + 24);
    let data = file.block(b"DT", &[], &records().concat());
    file.link(group, 2, data);
    // As if the file had two records more, which it ends in front of.
    let len = &mut file.0[data as usize + 8..][..8];
    len.copy_from_slice(&(24 + 6 * 24_u64).to_le_bytes());
    let read = file.read();
    assert_eq!(read.frames, FRAMES);
    assert!(read.messages.len() == 1 && read.messages[0].contains("ends inside this record"));
    // No group of frames.
    let mut file = File::new(b"MDF     ");
    let group = file.group("Engine", 0, 8, &[], 0);
    file.data_group(group, 0, 0);
    assert!(file.read().messages[0].contains("no group of frames on a CAN bus"));
}

#[test]
fn frames_that_a_finished_file_counts_and_does_not_hold_are_told() {
    let count = |file: &mut File, group: u64, count: u64| {
        file.0[group as usize + 24 + 6 * 8 + 8..][..8].copy_from_slice(&count.to_le_bytes());
    };
    for (magic, counted, has_data, told) in [
        (b"MDF     ", 4, true, None),
        (b"MDF     ", 6, true, Some("counts 2 frames more than its data hold")),
        (b"MDF     ", 4, false, Some("counts 4 frames more")),
        (b"MDF     ", u64::MAX, true, Some("frames more")),
        // What was not finished has no counts.
        (b"UnFinMF ", 6, true, None),
    ] {
        let mut file = File::new(magic);
        let group = file.group("CAN_DataFrame", 0, 24, DATA, 0);
        count(&mut file, group, counted);
        let data = if has_data { file.block(b"DT", &[], &records().concat()) } else { 0 };
        file.data_group(group, 0, data);
        let read = file.read();
        assert_eq!(read.frames.len(), if has_data { 4 } else { 0 }, "{counted}");
        assert_eq!(read.messages.len(), usize::from(told.is_some()), "{read:?}");
        assert!(told.is_none_or(|told| read.messages[0].contains(told)), "{read:?}");
    }
}

#[test]
fn groups_whose_frames_would_be_others_are_refused() {
    let with = |channels: &[Channel]| {
        let mut file = File::new(b"MDF     ");
        let group = file.group("CAN_DataFrame", 0, 24, channels, 0);
        let data = file.block(b"DT", &[], &records().concat());
        file.data_group(group, 0, data);
        file
    };
    for missing in ["ID", "DataBytes"] {
        let channels: Vec<_> = DATA.iter().copied().filter(|it| it.0 != missing).collect();
        let read = with(&channels).read();
        assert_eq!(read.frames, Vec::<String>::new());
        assert!(read.messages[0].contains("has no channel for"), "{read:?}");
    }
    // A byte of data behind the record; the last bit of the last byte is inside it.
    let mut channels = DATA.to_vec();
    channels[8].4 = 17;
    assert!(with(&channels).read().messages[0].contains("behind the end of its records"));
    // The first channel of the frame leads to a text.
    let mut file = with(DATA);
    let group = Little.u64(&file.0, Little.u64(&file.0, 88) as usize + 24 + 8);
    let time = Little.u64(&file.0, group as usize + 24 + 8);
    let frame = Little.u64(&file.0, time as usize + 24);
    let name = Little.u64(&file.0, frame as usize + 24 + 16);
    file.link(frame, 1, name);
    assert!(file.read().messages[0].contains("a block of another kind"), "{:?}", file.read());
}

#[test]
fn a_stream_is_refused_with_the_reason() {
    let whole = sorted(|file, bytes| file.block(b"DT", &[], &bytes)).0;
    let mut recording = Recording::new("pipe", Cursor::new(whole), None).unwrap();
    assert_eq!(recording.format().name, "mf4");
    let message = recording.next().unwrap().unwrap_err().to_string();
    assert!(
        message.starts_with("pipe: byte 0: an MF4 recording is read in places all over"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn a_damaged_file_is_no_panic_and_ends(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kind in 0..3_usize,
    ) {
        let mut file = match kind {
            0 => sorted(|file, bytes| file.block(b"DT", &[], &bytes)),
            1 => sorted(|file, bytes| packed(file, &bytes, 24)),
            _ => {
                let mut file = File::new(b"UnFinMF ");
                let of = file.block(b"SD", &[], &[1, 0, 0, 0, 9, 0, 0, 0, 0]);
                let group = file.group("CAN_DataFrame", 1, 19, &elsewhere(of), 0);
                let data = file.block(b"DT", &[], &[1; 60]);
                file.data_group(group, 1, data);
                file
            }
        };
        for (place, byte) in places {
            let at = place.index(file.0.len());
            file.0[at] = byte;
        }
        file.read();
    }
}

proptest::proptest! {
    /// What comes out of a window is what a heap alone gives, whether times run on or not.
    #[test]
    fn a_window_gives_frames_in_order_of_time(
        drawn in proptest::collection::vec((0..40_u64, proptest::bool::ANY, proptest::bool::ANY), 0..300),
    ) {
        let (mut window, mut heap) = (Window::default(), BinaryHeap::new());
        for (number, (time_ns, runs_on, is_taken)) in (0..).zip(drawn) {
            let time_ns = if runs_on { time_ns / 8 + number } else { time_ns };
            let raw = Group::default().raw(&[]);
            let direction = crate::Direction::Received;
            let waiting = Waiting { time_ns, number, at: 0, interface: InterfaceIndex(0), direction, raw };
            window.push(waiting);
            heap.push(Reverse(waiting));
            proptest::prop_assert_eq!(window.len(), heap.len());
            if is_taken {
                proptest::prop_assert!(window.pop() == heap.pop().map(|Reverse(waiting)| waiting));
            }
        }
        while let Some(Reverse(expected)) = heap.pop() {
            proptest::prop_assert!(window.pop() == Some(expected));
        }
        proptest::prop_assert!(window.pop().is_none());
    }
}
