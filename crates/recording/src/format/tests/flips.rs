//! One wrong bit anywhere in a recording of each format: what it may cost, and that it is told where something in the file says so.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::ops::Range;

use super::super::*;
use super::{Any, AnyNamed, TEXTS, encode};
use crate::compression::Compressor;
use crate::{AnyRecord, Direction, PassedOver, Recording};

/// What was read: the frames, and whether anything was said to be wrong or passed over.
#[derive(Debug, PartialEq)]
struct Read {
    frames: Vec<String>,
    is_told: bool,
    passed_over: PassedOver,
}

/// Reads a recording of the format.
fn read(format: &'static Format, bytes: &[u8], skips_malformed: bool) -> Read {
    let mut read = Read { frames: vec![], is_told: true, passed_over: PassedOver::default() };
    let file = Cursor::new(bytes.to_vec());
    let input = Input::new(file.clone()).with_file(file);
    let Ok(recording) = Recording::of("a", input, Some(format)) else {
        return read;
    };
    let mut recording = recording.skip_malformed(skips_malformed);
    read.is_told = false;
    while let Some(entry) = recording.next_any() {
        let Ok(entry) = entry else {
            read.is_told = true;
            break;
        };
        let (time_ns, direction) = (entry.record.time_ns(), entry.record.direction());
        let frame = match entry.record {
            AnyRecord::Can(record) => record.frame.to_string(),
            AnyRecord::Ethernet(record) => format!("{:?}", record.frame),
        };
        read.frames.push(format!("{time_ns} {} {direction:?} {frame}", entry.interface));
        assert!(read.frames.len() <= bytes.len(), "it ends");
    }
    let is_confirmed = recording.unverified().is_none();
    read.is_told |= recording.skipped().count > 0 || recording.cut().is_some() || !is_confirmed;
    read.passed_over = recording.passed_over();
    read
}

/// How many of `frames` are not in `others`.
fn missing(frames: &[String], others: &[String]) -> usize {
    let mut counts = BTreeMap::<_, usize>::new();
    others.iter().for_each(|it| *counts.entry(it).or_default() += 1);
    let is_missing = |it: &&String| match counts.get_mut(*it) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    frames.iter().filter(is_missing).count()
}

/// Hands over what is read for each bit in the range that is wrong, with and without malformed records being passed over.
fn flip(
    format: &'static Format,
    bytes: &[u8],
    range: Range<usize>,
    mut check: impl FnMut(&Read, &Read, bool, &str),
) {
    let mut flipped = bytes.to_vec();
    for skips_malformed in [false, true] {
        let whole = read(format, bytes, skips_malformed);
        assert!(!whole.is_told && whole.frames.len() > 1, "{format:?}: {whole:?}");
        for (at, bit) in range.clone().flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            flipped[at] ^= 1 << bit;
            let read = read(format, &flipped, skips_malformed);
            flipped[at] ^= 1 << bit;
            let place = format!("{format:?}: byte {at}, bit {bit}, {skips_malformed}: {read:?}");
            check(&whole, &read, skips_malformed, &place);
        }
    }
}

/// Different frames, a millisecond apart.
fn records(count: u64) -> Vec<AnyNamed> {
    let frame = |number: u64| format!("{:03X}#{:08X}", 0x100 + number, 0xA5C3_0F00 + number);
    let record = |number: u64| {
        let frame = Any::Can(frame(number).parse().unwrap());
        let time_ns = 1_700_000_000_000_000_000 + number * 1_000_000;
        (time_ns, "can0".to_owned(), Some(Direction::Received), frame)
    };
    (0..count).map(record).collect()
}

fn packed(bytes: &[u8], compression: Compression) -> Vec<u8> {
    let mut out = Compressor::new(Vec::new(), Some(compression));
    out.write_all(bytes).unwrap();
    out.finish().unwrap().0
}

/// Where there is a checksum, all frames are right, or something is told. Of blocks no frame is made up even then.
#[test]
fn what_has_a_checksum_is_right_or_told() {
    let candump = encode(&candump::FORMAT, &records(8));
    let [gzip, zstd] = Compression::ALL.map(|it| packed(&candump, it));
    let blf = blf::tests::three_containers(2);
    let (mf4, contents) = mf4::tests::compressed();
    // Members and frames as a whole; containers without the header of the file; the lengths and contents of a block.
    for (format, bytes, range, is_block) in [
        (&candump::FORMAT, &gzip, 0..gzip.len(), false),
        (&candump::FORMAT, &zstd, 0..zstd.len(), false),
        (&blf::FORMAT, &blf, 144..blf.len(), true),
        (&mf4::FORMAT, &mf4, contents, true),
    ] {
        flip(format, bytes, range, |whole, read, _, place| {
            let is_told = read.is_told || read.passed_over != whole.passed_over;
            assert!(read.frames == whole.frames || is_told, "{place}");
            let made_up = missing(&read.frames, &whole.frames);
            assert!(made_up == 0 || !is_block, "{place}");
        });
    }
}

/// Where there is none, a wrong bit costs the record that it is in, and one beside it if it is in the border between them; or it
/// is told. At most one frame is another one.
#[test]
fn what_has_no_checksum_costs_its_record() {
    for format in FORMATS {
        let (bytes, range) = sample(format);
        // Without the border of a record that is damaged the next one cannot be found.
        let is_found_again = !["pcap", "pcapng"].contains(&format.name);
        // A time of the day before the last one is of the next day, and so are those behind it.
        let has_days = format.name == "busmaster";
        let counted = |frame: &String| match frame.split_once(' ') {
            Some((_, frame)) if has_days => frame.to_owned(),
            _ => frame.clone(),
        };
        flip(format, &bytes, range, |whole, read, skips_malformed, place| {
            let is_told = read.is_told || read.passed_over != whole.passed_over;
            let [there, found] =
                [whole, read].map(|it| it.frames.iter().map(counted).collect::<Vec<_>>());
            let (lost, made_up) = (missing(&there, &found), missing(&found, &there));
            assert!(made_up <= 1 && made_up <= lost, "{place}");
            assert!(is_told || lost <= 1, "{place}");
            assert!(lost <= 2 || !skips_malformed || !is_found_again, "{place}");
        });
    }
}

/// A small recording, and where its records are.
fn sample(format: &'static Format) -> (Vec<u8>, Range<usize>) {
    let text = TEXTS.iter().find(|(name, _)| *name == format.name);
    let text = text.map(|(_, text)| text.as_bytes().to_vec());
    let bytes = text.unwrap_or_else(|| match format.name {
        "mf4" | "blf" => vec![],
        _ => encode(format, &records(4)),
    });
    // What the first record begins with.
    let first: &[u8] = match format.name {
        "mf4" => return mf4::tests::stored(),
        "blf" => {
            let bytes = blf::tests::three_containers(0);
            let len = bytes.len();
            return (bytes, 144..len);
        }
        "pcap" => &1_700_000_000_u32.to_le_bytes(),
        "pcapng" => &[6, 0, 0, 0, 60],
        "candump" => b"(",
        "asc" => b"   0.0",
        "trc" => b"      1 ",
        "gvret" => b"17,",
        "busmaster" => b"22:20:",
        "microchip" => b"166064;",
        "carbusanalyzer" => b"46,016",
        "python-can-csv" => b"5.5e",
        _ => b"  can0",
    };
    let from = bytes.windows(first.len()).position(|it| it == first).unwrap();
    let len = bytes.len();
    (bytes, from..len)
}
