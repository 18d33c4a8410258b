//! Datagrams there and back, and those that are refused.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::can::tunnel::testing;

/// What python-can 4.6.1 sends for `Message(timestamp=1700000000.25, arbitration_id=0x123,
/// is_extended_id=False, data=[0xAA, 0xBB])`.
const SENT: &[u8] = b"\x8b\
    \xa9timestamp\xcb\x41\xd9\x54\xfc\x40\x10\x00\x00\
    \xaearbitration_id\xcd\x01\x23\
    \xaeis_extended_id\xc2\
    \xafis_remote_frame\xc2\
    \xaeis_error_frame\xc2\
    \xa7channel\xc0\
    \xa3dlc\x02\
    \xa4data\xc4\x02\xaa\xbb\
    \xa5is_fd\xc2\
    \xaebitrate_switch\xc2\
    \xb5error_state_indicator\xc2";

fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

/// A key and its value.
type Entry = (&'static str, &'static [u8]);

/// A map of MessagePack with these keys and values.
fn map(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::from([0x80 | entries.len() as u8]);
    for (key, value) in entries {
        bytes.push(0xA0 | key.len() as u8);
        bytes.extend(key.as_bytes());
        bytes.extend(*value);
    }
    bytes
}

#[test]
fn bytes_are_those_of_python_can() {
    let datagram = Datagram { frame: frame("123#AABB"), time_ns: Some(1_700_000_000_250_000_000) };
    assert_eq!(Datagram::decode(SENT), Ok(datagram));
    let mut out = [0; MAX_LEN];
    let len = datagram.encode(&mut out).unwrap();
    assert_eq!(&out[..len], SENT);
}

#[test]
fn identifiers_are_as_short_as_those_of_python_can() {
    let cases: [(&str, &[u8]); 8] = [
        ("000#", b"\x00"),
        ("07F#", b"\x7f"),
        ("080#", b"\xcc\x80"),
        ("0FF#", b"\xcc\xff"),
        ("100#", b"\xcd\x01\x00"),
        ("0000FFFF#", b"\xcd\xff\xff"),
        ("00010000#", b"\xce\x00\x01\x00\x00"),
        ("1FFFFFFF#", b"\xce\x1f\xff\xff\xff"),
    ];
    for (text, value) in cases {
        let mut out = [0; MAX_LEN];
        let len = Datagram { frame: frame(text), time_ns: None }.encode(&mut out).unwrap();
        let entry = [b"\xaearbitration_id", value, b"\xae"].concat();
        assert!(out[..len].windows(entry.len()).any(|window| window == entry), "{text}");
    }
}

#[test]
fn values_of_any_width_and_order_are_read() {
    let cases: [(&[Entry], &str); 14] = [
        (&[], "00000000#"),
        (&[("data", b"\xc4\x01\xaa"), ("is_extended_id", b"\xc2")], "000#AA"),
        // Integers of every width, signed ones too.
        (&[("arbitration_id", b"\x7f")], "0000007F#"),
        (&[("arbitration_id", b"\xcc\xff")], "000000FF#"),
        (&[("arbitration_id", b"\xce\x1f\xff\xff\xff")], "1FFFFFFF#"),
        (&[("arbitration_id", b"\xcf\0\0\0\0\0\0\0\x05")], "00000005#"),
        (&[("arbitration_id", b"\xd0\x05")], "00000005#"),
        (&[("arbitration_id", b"\xd1\x01\x05")], "00000105#"),
        (&[("arbitration_id", b"\xd2\0\x01\0\x05")], "00010005#"),
        (&[("arbitration_id", b"\xd3\0\0\0\0\0\0\0\x05")], "00000005#"),
        // Old versions wrote bytes as text; numbers stand for truth; the last of equal keys.
        (&[("data", b"\xa1x"), ("data", b"\xd9\x02xy"), ("is_extended_id", b"\0")], "000#7879"),
        (&[("is_remote_frame", b"\xc3"), ("dlc", b"\x04"), ("data", b"\xc0")], "00000000#R4"),
        (
            &[("is_fd", b"\xc3"), ("bitrate_switch", b"\xc3"), ("data", b"\xc5\0\x01\xaa")],
            "00000000##1AA",
        ),
        (
            &[("is_error_frame", b"\xc3"), ("arbitration_id", b"\x04"), ("dlc", b"\xc0")],
            "A0000004#",
        ),
    ];
    for (entries, text) in cases {
        let read = Datagram::decode(&map(entries)).map(|datagram| datagram.frame);
        let expected = match text.strip_prefix('A') {
            // Extended and an error report, for which there is no notation.
            Some(_) => Frame::from_parts(EFF_FLAG | ERR_FLAG | 4, &[], None).unwrap(),
            None => frame(text),
        };
        assert_eq!(read, Ok(expected), "{entries:?}");
    }
}

#[test]
fn unknown_keys_are_passed_over() {
    let values: [&[u8]; 15] = [
        b"\xc0",
        b"\xc3",
        b"\xe0",
        b"\xca\0\0\0\0",
        b"\xa2hi",
        b"\xda\0\x02hi",
        b"\x92\x91\x90\x81\xa1x\xc0",
        b"\xdc\0\x02\x01\x02",
        b"\xde\0\x01\x01\x02",
        b"\xdf\0\0\0\x01\x01\x02",
        b"\xd4\x01\x02",
        b"\xd8\x01................",
        b"\xc7\x02\x05xy",
        b"\xc8\0\x01\x05x",
        b"\xc9\0\0\0\x01\x05x",
    ];
    for value in values {
        for key in ["is_rx", "channel"] {
            let bytes = map(&[(key, value), ("arbitration_id", b"\x05")]);
            let read = Datagram::decode(&bytes).map(|datagram| datagram.frame);
            assert_eq!(read, Ok(frame("00000005#")), "{key} {value:02x?}");
        }
    }
    // Keys that are no text.
    let read = Datagram::decode(b"\x82\x92\x01\x02\x03\xa3dlc\0").map(|read| read.frame);
    assert_eq!(read, Ok(frame("00000000#")));
}

#[test]
fn times_are_read_as_python_writes_them() {
    let float = |seconds: f64| {
        let mut value = Vec::from([0xCB]);
        value.extend(seconds.to_be_bytes());
        value
    };
    let cases: [(Vec<u8>, Option<u64>); 6] = [
        (float(0.0), None),
        (float(1.5), Some(1_500_000_000)),
        (float(1e300), Some(u64::MAX)),
        (b"\xca\x3f\xc0\0\0".to_vec(), Some(1_500_000_000)),
        (b"\x02".to_vec(), Some(2_000_000_000)),
        (b"\xc0".to_vec(), None),
    ];
    for (value, time_ns) in cases {
        let read = Datagram::decode(&map(&[("timestamp", &value)])).unwrap();
        assert_eq!(read.time_ns, time_ns, "{value:02x?}");
    }
    for seconds in [-1.0, f64::NAN, f64::INFINITY] {
        let read = Datagram::decode(&map(&[("timestamp", &float(seconds))]));
        assert_eq!(read, Err(Malformed::new(11, Reason::Number("timestamp"))), "{seconds}");
    }
}

#[test]
fn what_is_not_right_is_refused_with_the_place() {
    let at = Malformed::new;
    let illegal = |offset, error| Malformed::new(offset, Reason::Frame(error));
    let cases: [(&[u8], Malformed); 21] = [
        (b"", at(0, Reason::Cut(1))),
        (b"\x02\0\0\0\0", at(0, Reason::NoMap)),
        (b"\xc1", at(0, Reason::Marker(0xC1))),
        (b"\x80\0", at(1, Reason::Surplus(1))),
        (b"\x81", at(1, Reason::Cut(1))),
        (b"\x81\xa3dl", at(4, Reason::Cut(1))),
        (b"\x81\xa3dlc", at(5, Reason::Cut(1))),
        (b"\x81\xa3dlc\xcd\0", at(7, Reason::Cut(1))),
        (b"\x81\xa3dlc\xa1x", at(5, Reason::Kind("dlc"))),
        (b"\x81\xa3dlc\xff", at(5, Reason::Number("dlc"))),
        (b"\x81\xa3dlc\x01", at(5, Reason::Length(1, 0))),
        (b"\x81\xa4data\x05", at(6, Reason::Kind("data"))),
        (b"\x81\xa4data\xc6\xff\xff\xff\xff", at(11, Reason::Cut(u32::MAX as usize))),
        (b"\x81\xa5is_fd\xa0", at(7, Reason::Kind("is_fd"))),
        (b"\x81\xaearbitration_id\xce\x20\0\0\0", at(16, Reason::Number("arbitration_id"))),
        // Maps that promise more than there is, and deep nesting.
        (b"\xdf\xff\xff\xff\xff", at(5, Reason::Cut(1))),
        (b"\x81\xa1x\xdd\xff\xff\xff\xff", at(8, Reason::Cut(1))),
        (b"\x81\xa1x\x91\x91\x91\x91\x91\x91\x91\x91", at(11, Reason::Cut(1))),
        (b"\x82\xa3dlc\x09\xa4data\xa9.........", illegal(5, FrameError::ClassicalTooLong(9))),
        (
            b"\x83\xa5is_fd\xc3\xa3dlc\x09\xa4data\xa9.........",
            illegal(12, FrameError::FdLength(9)),
        ),
        (b"\x82\xafis_remote_frame\xc3\xa3dlc\x09", at(22, Reason::Number("dlc"))),
    ];
    for (bytes, error) in cases {
        assert_eq!(Datagram::decode(bytes), Err(error), "{bytes:02x?}");
    }
    let yes: &[u8] = b"\xc3";
    let both = map(&[("is_remote_frame", yes), ("is_error_frame", yes)]);
    let error = Datagram::decode(&both).unwrap_err();
    assert_eq!(error.reason, Reason::RemoteErrorReport);
    let remote_fd = map(&[("is_remote_frame", yes), ("is_fd", yes)]);
    let error = Datagram::decode(&remote_fd).unwrap_err();
    assert_eq!(error.reason, Reason::Frame(FrameError::RemoteFd));
    let with_data = map(&[("is_remote_frame", yes), ("data", b"\xa1x"), ("dlc", b"\x01")]);
    let error = Datagram::decode(&with_data).unwrap_err();
    assert_eq!(error.reason, Reason::Length(1, 1));
    let standard = map(&[("is_extended_id", b"\xc2"), ("arbitration_id", b"\xcd\x08\0")]);
    let error = Datagram::decode(&standard).unwrap_err();
    assert_eq!(error.reason, Reason::Number("arbitration_id"));
}

#[test]
fn the_groups_are_those_of_python_can() {
    let group: core::net::Ipv6Addr = GROUP_V6.into();
    assert_eq!(Ok(group), "ff15:7079:7468:6f6e:6465:6d6f:6d63:6173".parse());
    let group: core::net::Ipv4Addr = GROUP_V4.into();
    assert_eq!(group, core::net::Ipv4Addr::new(239, 74, 163, 2));
}

proptest! {
    #[test]
    fn what_is_written_is_read(frame in testing::frame(), time in 0..1_u64 << 61) {
        let datagram = Datagram { frame, time_ns: Some(time) };
        let mut out = [0; MAX_LEN];
        let len = datagram.encode(&mut out).unwrap();
        let read = Datagram::decode(&out[..len]).unwrap();
        prop_assert_eq!(read.frame, testing::without_raw_dlc(&frame));
        // As exact as a float is at this time.
        prop_assert!(read.time_ns.unwrap_or(0).abs_diff(time) <= 2 + (time >> 52));
        for end in 0..len {
            prop_assert!(Datagram::decode(&out[..end]).is_err());
        }
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut message = Vec::from(SENT);
        let _ = Datagram::decode(&bytes);
        // Within a message, too.
        let at = bytes.len().min(message.len() - 1);
        message.splice(at..at + 1, bytes);
        let _ = Datagram::decode(&message);
    }
}
