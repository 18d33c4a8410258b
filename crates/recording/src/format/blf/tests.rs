//! BLF recordings made by hand, byte by byte: what recorders write, and what damage makes of it.

use std::io::Write as _;

use candor_wire::can::Frame;

use super::*;
use crate::format::tests::{Any, AnyNamed, count, decode, decode_any, read_on};
use crate::record::Direction;

/// 2017-09-30 15:06:13.191 as SYSTEMTIME.
const START: [u16; 8] = [2017, 9, 6, 30, 15, 6, 13, 191];
const START_NS: u64 = 1_506_783_973_191_000_000;

fn file(start: [u16; 8], parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; 144];
    bytes[..4].copy_from_slice(FILE_SIGNATURE);
    bytes[4] = 144;
    for (place, number) in start.iter().enumerate() {
        bytes[40 + 2 * place..][..2].copy_from_slice(&number.to_le_bytes());
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// With a header of version 1 and a time in nanoseconds.
fn object(kind: u32, time: u64, body: &[u8]) -> Vec<u8> {
    versioned((kind, 1, 2), time, body)
}

fn versioned((kind, version, flags): (u32, u16, u32), time: u64, body: &[u8]) -> Vec<u8> {
    let header_len: u16 = if version == 2 { 40 } else { 32 };
    let mut bytes = b"LOBJ".to_vec();
    bytes.extend(header_len.to_le_bytes());
    bytes.extend(version.to_le_bytes());
    bytes.extend((u32::from(header_len) + body.len() as u32).to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(time.to_le_bytes());
    bytes.resize(usize::from(header_len), 0);
    bytes.extend_from_slice(body);
    bytes
}

/// With the padding that is usual.
fn container(method: u16, contents: &[u8]) -> Vec<u8> {
    let packed = match method {
        ZLIB => {
            let mut packer =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(contents).unwrap();
            packer.finish().unwrap()
        }
        _ => contents.to_vec(),
    };
    let mut bytes = b"LOBJ".to_vec();
    bytes.extend([16, 0, 1, 0]);
    bytes.extend((32 + packed.len() as u32).to_le_bytes());
    bytes.extend(CONTAINER.to_le_bytes());
    bytes.extend(method.to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend((contents.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend_from_slice(&packed);
    bytes.resize(bytes.len() + packed.len() % 4, 0);
    bytes
}

fn message(id: u32, data: u8) -> Vec<u8> {
    let mut body = vec![1, 0, 0, 1];
    body.extend(id.to_le_bytes());
    body.extend([data, 0, 0, 0, 0, 0, 0, 0]);
    object(1, u64::from(data), &body)
}

/// Nine frames in three containers, with objects that run over both borders.
pub(in crate::format) fn three_containers(method: u16) -> Vec<u8> {
    let all: Vec<_> = (1..=9_u8).map(|number| message(number.into(), number)).collect();
    let stream = all.concat();
    let parts = [&stream[..110], &stream[110..250], &stream[250..]];
    file(START, &parts.map(|part| container(method, part)))
}

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

fn frames(records: &[AnyNamed]) -> Vec<String> {
    let text = |(.., frame): &AnyNamed| match frame {
        Any::Can(frame) => frame.to_string(),
        Any::Ethernet(..) => "Ethernet".to_owned(),
    };
    records.iter().map(text).collect()
}

/// What is read if malformed records are passed over: frames and refusals.
fn lenient(bytes: &[u8]) -> Vec<String> {
    lenient_by(&mut *FORMAT.decoder(), bytes)
}

fn lenient_by(decoder: &mut dyn Decoder, bytes: &[u8]) -> Vec<String> {
    let mut told = Vec::new();
    read_on(decoder, &mut Input::of_head(bytes, true), |found, _| {
        assert!(found.is_ok() || found.is_err_and(|error| error.resume.is_some()));
        told.push(found.map_or_else(ToString::to_string, |record| record.frame.to_string()));
        true
    });
    told
}

/// Objects behind a damaged header are read on request.
#[test]
fn a_file_that_does_not_begin_with_its_signature_is_no_blf_file() {
    for bytes in [vec![0; 3], vec![0; 72], vec![0; 1 << 20], b"LOGX".repeat(50)] {
        let error = decode(&FORMAT, &bytes).unwrap_err();
        assert!(error.to_string().starts_with("byte 0: this is not a BLF file"), "{error}");
    }
    let mut bytes = file(START, &[object(1, 5, &[1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])]);
    let sound = lenient(&bytes);
    bytes[0] ^= 1;
    let damaged = lenient(&bytes);
    assert!(damaged[0].starts_with("byte 0: this is not a BLF file"), "{damaged:?}");
    assert_eq!((damaged[1..].to_vec(), sound.len()), (sound, 1));
}

#[test]
fn every_type_of_frame_is_read() {
    use Direction::{Received, Transmitted};
    let extended = 0x8000_0000_u32 | 0x0123_4567;
    let classical = |channel: u8, flags: u8, dlc: u8, id: u32| {
        let mut body = vec![channel, 0, flags, dlc];
        body.extend(id.to_le_bytes());
        body.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        body
    };
    let fd = |flags: u8, fd_flags: u8, dlc: u8, len: u8| {
        let mut body = vec![2, 0, flags, dlc];
        body.extend(extended.to_le_bytes());
        body.extend([0, 0, 0, 0, 0, fd_flags, len, 0, 0, 0, 0, 0]);
        body.extend(1..=64);
        body
    };
    let fd_64 = |flags: u32, dlc: u8, len: u8, others_at: u8, there: usize| {
        let mut body = vec![3, dlc, len, 0];
        body.extend(0x123_u32.to_le_bytes());
        body.extend([0; 4]);
        body.extend(flags.to_le_bytes());
        body.resize(40, 0);
        body[34] = 1;
        body[35] = others_at;
        body.extend((1..=64).take(there));
        body
    };
    let error = "20000080#0000000000000000";
    let error_ext = |valid: u8, flags: u16| {
        let mut body = vec![0; 32];
        (body[0], body[4]) = (2, valid);
        body[20..22].copy_from_slice(&flags.to_le_bytes());
        body
    };
    for (kind, body, name, direction, expected) in [
        (1, classical(1, 0, 2, 0x123), "can0", Received, "123#0102"),
        (86, classical(2, 1, 8, extended), "can1", Transmitted, "01234567#0102030405060708"),
        (86, classical(2, 1, 12, 0x7FF), "can1", Transmitted, "7FF#0102030405060708_C"),
        (1, classical(9, 0x80, 4, 0x123), "can8", Received, "123#R4"),
        (100, fd(0, 1, 9, 12), "can1", Received, "01234567##00102030405060708090A0B0C"),
        (100, fd(1, 7, 1, 1), "can1", Transmitted, "01234567##301"),
        // Bytes that the recorder did not keep are zero.
        (100, fd(0, 1, 9, 2), "can1", Received, "01234567##0010200000000000000000000"),
        (100, fd(0, 0, 2, 2), "can1", Received, "01234567#0102"),
        (100, fd(0x80, 0, 2, 2), "can1", Received, "01234567#R2"),
        (101, fd_64(0x3000, 3, 3, 0, 3), "can2", Transmitted, "123##1010203"),
        (101, fd_64(0x5000, 9, 12, 0, 3), "can2", Transmitted, "123##2010203000000000000000000"),
        (101, fd_64(0x1000, 4, 4, 32 + 42, 64), "can2", Transmitted, "123##001020000"),
        (101, fd_64(0x0010, 4, 0, 0, 0), "can2", Transmitted, "123#R4"),
        (2, vec![1, 0, 0, 0], "can0", Received, error),
        (73, vec![2, 0, 0, 0], "can1", Received, error),
        (73, error_ext(2, 2 << 12), "can1", Received, error),
        (73, error_ext(2, 1 << 12), "can1", Transmitted, error),
        (73, error_ext(2, 3 << 12), "can1", Transmitted, error),
        (73, error_ext(0xD, 3 << 12), "can1", Received, error),
        (104, vec![3, 9, 0, 0], "can2", Received, error),
        (104, vec![3, 9, 0, 0, 2, 0, 0, 0x30], "can2", Transmitted, error),
        (104, vec![3, 9, 0, 0, 1, 0, 0, 0x30], "can2", Received, error),
    ] {
        for method in [STORED, ZLIB] {
            let bytes = file(START, &[container(method, &object(kind, 1_000, &body))]);
            let record =
                (START_NS + 1_000, name.to_owned(), Some(direction), Any::Can(frame(expected)));
            assert_eq!(decode(&FORMAT, &bytes).map(|it| it.len()), Ok(1), "{kind} {expected}");
            assert_eq!(decode_any(&FORMAT, &bytes, &[7]), Ok(vec![record]), "{kind}");
        }
    }
}

#[test]
fn times_have_units_and_a_start() {
    let body = &message(0x123, 5)[32..];
    for (version, flags, start, expected) in [
        (1, 1, START, START_NS + 50_000),
        (1, 2, START, START_NS + 5),
        (2, 2, START, START_NS + 5),
        (3, 2, START, START_NS + 5),
        (1, 2, [0; 8], 5),
        // No date: the times count from 0.
        (1, 2, [2017, 2, 0, 30, 0, 0, 0, 0], 5),
    ] {
        let object = versioned((1, version, flags), 5, body);
        let bytes = file(start, &[container(ZLIB, &object)]);
        assert_eq!(decode(&FORMAT, &bytes).unwrap()[0].0, expected, "{version} {flags}");
    }
    let late = file(START, &[container(STORED, &versioned((1, 1, 1), u64::MAX / 2, body))]);
    assert!(decode(&FORMAT, &late).unwrap_err().to_string().contains("after the year 2554"));
}

#[test]
fn objects_go_on_in_the_next_container_and_may_stand_outside() {
    let two = [message(1, 1), vec![0; 3], message(2, 2)].concat();
    for cut in 0..=two.len() {
        let (one, other) = two.split_at(cut);
        for (first, second) in [(STORED, ZLIB), (ZLIB, STORED), (ZLIB, ZLIB)] {
            let bytes = file(START, &[container(first, one), container(second, other)]);
            let found = decode_any(&FORMAT, &bytes, &[5, 1, 100]).unwrap();
            assert_eq!(frames(&found), ["001#01", "002#02"], "{cut}");
        }
    }
    let other = object(65, 0, b"a text of any length");
    let long = object(115, 0, &vec![b'L'; 300_000]);
    let bytes =
        file(START, &[message(1, 1), container(ZLIB, &[long, other].concat()), message(2, 2)]);
    let mut decoder = FORMAT.decoder();
    assert_eq!(lenient(&bytes), ["001#01", "002#02"]);
    assert_eq!(decoder.passed_over(), PassedOver::default());
    assert_eq!(count(&mut *decoder, &bytes), 2);
    assert_eq!((decoder.passed_over().other_packets, decoder.start_ns()), (2, Some(START_NS)));
}

#[test]
fn damage_costs_itself_and_is_told() {
    let good = |number: u8| container(ZLIB, &message(u32::from(number), number));
    let broken = || {
        let mut bytes = container(ZLIB, &[message(5, 5), message(6, 6)].concat());
        let middle = bytes.len() / 2;
        bytes[middle..middle + 8].fill(0xFF);
        bytes
    };
    let sized = |size: u32| {
        let mut bytes = message(5, 5);
        bytes[8..12].copy_from_slice(&size.to_le_bytes());
        container(STORED, &bytes)
    };
    let unknown = || {
        let mut bytes = good(5);
        bytes[16] = 9;
        bytes
    };
    let with = |at: usize, mask: u8| {
        let mut bytes = container(ZLIB, &[message(5, 5), message(6, 6)].concat());
        bytes[at] ^= mask;
        bytes
    };
    let packed_len = Order::Little.u32(&good(5), 8) as usize;
    let unchecked = || {
        let mut bytes = good(5);
        bytes[packed_len - 1] ^= 1;
        bytes
    };
    let two_sizes = || {
        let mut bytes = container(STORED, &[message(5, 5), message(6, 6)].concat());
        bytes[24] ^= 4;
        bytes
    };
    for (middle, message) in [
        (broken(), "holds more or less than it says"),
        (unchecked(), "a container cannot be inflated, its checksum is wrong"),
        (with(24, 1), "holds more or less than it says"),
        (with(27, 1), "a container says that it holds 16777312 bytes, more than 16 MiB"),
        (two_sizes(), "holds more or less than it says"),
        (sized(0), "an object cannot have a size of 0 bytes"),
        (sized(31), "an object cannot have a size of 31 bytes"),
        (sized(u32::MAX), "an object cannot have a size of 4294967295 bytes"),
        (unknown(), "the method of compression 9 is neither"),
        (b"what is this?".to_vec(), "13 bytes that belong to no object"),
        (container(STORED, &object(1, 0, &[1, 0, 0])), "an object with a frame has only 3 bytes"),
        (container(STORED, &message(0x4444_4444, 5)), "standard identifier 0x4444444 is greater"),
    ] {
        let bytes = file(START, &[good(1), middle, good(2)]);
        let found = lenient(&bytes);
        let [first, .., last] = &found[..] else { panic!("{found:?}") };
        assert_eq!((first.as_str(), last.as_str()), ("001#01", "002#02"), "{found:?}");
        let told: Vec<_> = found.iter().filter(|it| !it.contains('#')).collect();
        assert!(told.len() == 1 && told[0].contains(message), "{found:?}");
        // Only the objects of a stored container are there without it.
        let others = found.iter().filter(|it| it.contains('#')).skip(1);
        assert!(others.clone().count() == 1 || others.eq(&["005#05", "006#06", "002#02"]));
        assert!(told.iter().all(|it| it.starts_with("byte ")), "{found:?}");
    }
    // Zeros are padding behind the last object, however many; elsewhere they are a hole.
    assert_eq!(lenient(&file(START, &[good(1), vec![0; 4_096]])), ["001#01"]);
    let found = lenient(&file(START, &[good(1), vec![0; 4_096], good(2)]));
    assert!(
        found.len() == 3 && found[1].contains("4096 bytes that belong to no object"),
        "{found:?}"
    );
    // An object that reaches into it is lost, and not made whole by what follows.
    let objects = [message(1, 1), message(2, 2), message(3, 3)].concat();
    let pieces: Vec<_> = objects.chunks(44).map(|piece| container(STORED, piece)).collect();
    let hole = vec![0; pieces[1].len()];
    let found = lenient(&file(START, &[pieces[0].clone(), hole, pieces[2].clone()]));
    assert!(found.iter().all(|it| !it.starts_with("002")), "{found:?}");
    assert!(found[0].contains("belong to no object"), "{found:?}");
    // A size that is too large reaches to the end of the file.
    let mut last = good(3);
    last[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let found = lenient(&file(START, &[good(1), last]));
    assert_eq!((&found[..2], found.len()), (&["001#01".to_owned(), "003#03".to_owned()][..], 3));
    assert!(found[2].contains("ends inside this record"), "{found:?}");
}

/// Nothing is made of bytes before a container that is lost and bytes behind it, wherever objects run over its borders.
#[test]
fn a_lost_container_costs_its_objects_and_glues_none() {
    let all: Vec<_> = (1..=9_u8).map(|number| message(number.into(), number)).collect();
    let stream = all.concat();
    for (first, second) in (97..200).flat_map(|first| [(first, first + 96), (first, first + 130)]) {
        let whole = [&stream[..first], &stream[first..second], &stream[second..]];
        let parts = whole.map(|part| container(ZLIB, part));
        // Of the middle one: its signature, its type, its contents, its checksum.
        let end = Order::Little.u32(&parts[1], 8) as usize;
        for (at, mask) in [(0, 1), (12, 1), (12, 8), (16, 2), (40, 0x10), (end - 1, 0x80)] {
            let mut parts = parts.clone();
            parts[1][at] ^= mask;
            let mut decoder = FORMAT.decoder();
            let found = lenient_by(&mut *decoder, &file(START, &parts));
            let (before, behind) = (first / 48, second.div_ceil(48));
            let kept = (1..=before).chain(behind + 1..=9);
            let expected: Vec<_> = kept.map(|it| format!("{it:03X}#{it:02X}")).collect();
            let frames = found.iter().filter(|it| it.contains('#'));
            assert!(frames.clone().eq(&expected), "{first} {second} {at}: {found:?}");
            let is_told = found.len() > expected.len() || decoder.passed_over().other_packets > 0;
            assert!(is_told, "{first} {second} {at}: {found:?}");
        }
    }
}

/// Memory is what a container brings, not what it claims, up to a bound.
#[test]
fn a_container_takes_no_more_memory_than_it_may() {
    let bomb = |len: usize, claimed: usize| {
        let mut bytes = container(ZLIB, &object(65, 0, &vec![0; len - 32]));
        bytes[24..28].copy_from_slice(&(claimed as u32).to_le_bytes());
        bytes
    };
    for (container_len, claimed, told, most) in [
        (MAX_CONTAINER_LEN, MAX_CONTAINER_LEN, None, MAX_CONTAINER_LEN + WINDOW_LEN),
        (1_000, MAX_CONTAINER_LEN, Some("holds more or less than it says"), WINDOW_LEN),
        (MAX_CONTAINER_LEN + 1, 1_000, Some("holds more or less than it says"), WINDOW_LEN),
        (MAX_CONTAINER_LEN + 1, MAX_CONTAINER_LEN + 1, Some("more than 16 MiB"), WINDOW_LEN),
    ] {
        let parts = [bomb(container_len, claimed), container(ZLIB, &message(1, 1))];
        let mut decoder = BlfDecoder::new();
        let found = lenient_by(&mut decoder, &file(START, &parts));
        let expected = told.map_or(1, |_| 2);
        assert_eq!((found.len(), found[expected - 1].as_str()), (expected, "001#01"), "{found:?}");
        assert!(told.is_none_or(|told| found[0].contains(told)), "{found:?}");
        assert!(decoder.stream.bytes.len() <= most, "{}", decoder.stream.bytes.len());
    }
}

#[test]
fn a_file_that_was_cut_is_read_as_far_as_it_goes() {
    let bytes = file(START, &[container(ZLIB, &message(1, 1)), container(STORED, &message(2, 2))]);
    for len in 144..bytes.len() {
        let found = lenient(&bytes[..len]);
        let whole = found.iter().filter(|it| it.contains('#')).count();
        let cut = found.iter().filter(|it| it.contains("ends inside this record")).count();
        assert!(found.len() == whole + cut && cut <= 1, "{len}: {found:?}");
        assert!(whole == 0 || found[0] == "001#01", "{len}: {found:?}");
    }
    for len in 0..72 {
        let error = decode(&FORMAT, &bytes[..len]).unwrap_err();
        assert!(error.to_string().contains("ends inside its header") && error.resume.is_none());
    }
}

#[test]
fn a_size_that_lies_costs_no_more_than_its_piece() {
    let first = container(ZLIB, &[message(1, 1), message(2, 2)].concat());
    let second = container(STORED, &[message(3, 3), message(4, 4)].concat());
    let third = container(ZLIB, &message(5, 5));
    let size = |piece: &[u8], size: u32| {
        let mut piece = piece.to_vec();
        piece[8..12].copy_from_slice(&size.to_le_bytes());
        piece
    };
    let len = first.len() as u32;
    let all = ["001#01", "002#02", "003#03", "004#04", "005#05"];
    let pieces = [first.clone(), second.clone(), third.clone()];
    for place in 0..2 {
        for more in [8, 20, 200, 100_000, u32::MAX / 2] {
            let mut pieces = pieces.clone();
            let wrong = pieces[place].len() as u32 + more;
            pieces[place] = size(&pieces[place], wrong);
            let mut found = lenient(&file(START, &pieces));
            let told = found.iter().position(|it| it.contains("so its size is wrong"));
            found.remove(told.unwrap());
            assert_eq!(found, all, "{place} {more}");
        }
    }
    // Ends early: told once.
    let found = lenient(&file(START, &[size(&first, len - 9), second, third]));
    assert_eq!(found[found.len() - 3..], all[2..]);
    assert_eq!(found.iter().filter(|it| !it.contains('#')).count(), 1, "{found:?}");
    // That of the file does not matter.
    for wrong in [0_u32, 72, 145, 200, 100_000, u32::MAX] {
        let mut bytes = file(START, &pieces);
        bytes[4..8].copy_from_slice(&wrong.to_le_bytes());
        assert_eq!(lenient(&bytes), all, "{wrong}");
    }
}

/// A drive may have a BLF recording in its frames, sent from one controller to another.
#[test]
fn what_a_frame_carries_is_no_object() {
    let looks_like_one = u64::from_le_bytes(*b"LOBJ \0\x01\0");
    let body = |len: usize, parts: &[(usize, &[u8])]| {
        let mut body = vec![0; len];
        for &(at, bytes) in parts {
            body[at..at + bytes.len()].copy_from_slice(bytes);
        }
        body
    };
    let inner = message(0x123, 0xAA);
    let id: &[u8] = &[0x23, 1];
    let short: &[u8] = b"LOBJ \0\x01\0";
    let bodies = [
        (object::MESSAGE, body(16, &[(0, &[1, 0, 0, 8]), (4, id), (8, short)])),
        (
            object::FD_MESSAGE,
            body(84, &[(0, &[1, 0, 0, 15]), (4, id), (13, &[1, 64]), (20, &inner)]),
        ),
        (101, body(104, &[(0, &[1, 15, 64]), (4, id), (13, &[0x10]), (40, &inner)])),
    ];
    for (kind, body) in bodies {
        for time in [5, looks_like_one] {
            for method in [STORED, ZLIB] {
                let objects = [object(kind, time, &body), message(0x7, 7)].concat();
                let found = lenient(&file(START, &[container(method, &objects)]));
                let frames: Vec<_> = found.iter().filter(|it| it.contains('#')).collect();
                assert_eq!((found.len(), frames.len()), (2, 2), "{kind} {time}: {found:?}");
                assert!(frames[0].contains("4C4F424A20000100"), "{found:?}");
                assert!(frames[1].contains("007#07"), "{found:?}");
            }
        }
    }
}

proptest::proptest! {
    /// Whatever one size in a recording says: no frame but those of its piece is lost or changed, and not silently.
    #[test]
    fn any_size_may_lie(
        containers in proptest::collection::vec((1..6_usize, proptest::bool::ANY, 0..60_usize), 1..6),
        place: proptest::sample::Index,
        inside: bool,
        wrong in proptest::prop_oneof![0..400_u32, 0..200_000_u32, proptest::num::u32::ANY],
    ) {
        let count: usize = containers.iter().map(|container| container.0).sum();
        let mut objects: Vec<_> = (0..count).map(|it| message(it as u32, it as u8)).collect();
        let hit = place.index(count);
        if inside {
            objects[hit][8..12].copy_from_slice(&wrong.to_le_bytes());
        }
        let mut stream = objects.concat();
        let mut parts = Vec::new();
        for &(objects, is_zlib, more) in &containers {
            let len = if parts.len() + 1 == containers.len() { stream.len() } else { objects * 48 + more };
            let piece: Vec<_> = stream.drain(..len.min(stream.len())).collect();
            parts.push(container(if is_zlib { ZLIB } else { STORED }, &piece));
        }
        let piece = place.index(parts.len());
        // Up to seven bytes more or less may pass for padding.
        let true_size = Order::Little.u32(&parts[piece], 8);
        proptest::prop_assume!(inside || wrong.abs_diff(true_size) > MAX_PADDING as u32);
        if !inside {
            parts[piece][8..12].copy_from_slice(&wrong.to_le_bytes());
        }
        let mut decoder = FORMAT.decoder();
        let found = lenient_by(&mut *decoder, &file(START, &parts));
        let other = decoder.passed_over().other_packets;
        let frames: Vec<_> = found.iter().filter(|it| it.contains('#')).collect();
        let all: Vec<_> = (0..count).map(|it| format!("{it:03X}#{it:02X}")).collect();
        // One may have lost some bytes to zeros.
        let is_read = |it: &&String| frames.contains(it);
        let read: Vec<_> = all.iter().filter(is_read).collect();
        proptest::prop_assert!(frames.iter().filter(|it| all.contains(it)).eq(read.iter()), "{found:?}");
        proptest::prop_assert!(frames.len() <= read.len() + 1, "{found:?}");
        let lost = count - read.len();
        // Those of the container, and one that reaches into it, and one out of it.
        let most = if inside { 1 } else { parts[piece].len() / 48 + 2 };
        let most = if inside { most } else { most.max(8) };
        proptest::prop_assert!(lost <= most, "{lost}: {found:?}");
        proptest::prop_assert!(lost == 0 || found.len() > frames.len() || other > 0, "{lost}: {found:?}");
    }
}
