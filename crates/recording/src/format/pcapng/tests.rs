//! Blocks in every order and of every length, and what is written is read.

use candor_wire::can::tunnel::can2udp::Version;

use super::*;
use crate::can_udp::tests::{can2udp, ethernet};
use crate::format::tests::{Any, count, decode, decode_any, error};

/// Builds files in either order, field by field.
#[derive(Clone)]
struct File {
    order: Order,
    bytes: Vec<u8>,
}

impl File {
    fn new(order: Order) -> Self {
        Self { order, bytes: vec![] }.section()
    }
    fn n16(&self, number: u16) -> [u8; 2] {
        if self.order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() }
    }
    fn n32(&self, number: u32) -> [u8; 4] {
        if self.order == Order::Big { number.to_be_bytes() } else { number.to_le_bytes() }
    }
    fn block(mut self, kind: u32, body: &[u8]) -> Self {
        assert!(body.len().is_multiple_of(4));
        let len = self.n32(body.len() as u32 + MIN_BLOCK_LEN);
        let kind = self.n32(kind);
        self.bytes.extend([&kind[..], &len, body, &len].concat());
        self
    }
    fn section(self) -> Self {
        let body =
            [&self.n32(BYTE_ORDER_MAGIC)[..], &self.n16(1), &self.n16(0), &[0xFF; 8]].concat();
        self.block(SECTION_HEADER, &body)
    }
    fn interface(self, link_type: u16, snap_len: u32, options: &[(u16, &[u8])]) -> Self {
        let mut body = [&self.n16(link_type)[..], &self.n16(0), &self.n32(snap_len)].concat();
        for (code, value) in options {
            body.extend([self.n16(*code), self.n16(value.len() as u16)].concat());
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(INTERFACE_DESCRIPTION, &body)
    }
    fn enhanced(self, interface: u32, ticks: u64, packet: &[u8], options: &[u8]) -> Self {
        let len = packet.len() as u32;
        let head = [interface, (ticks >> 32) as u32, ticks as u32, len, len];
        let mut body = head.map(|number| self.n32(number)).concat();
        body.extend_from_slice(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend_from_slice(options);
        self.block(ENHANCED_PACKET, &body)
    }
}

const PACKET: [u8; 16] = [0, 0, 1, 0x23, 3, 0, 0, 0, 0xAA, 0xBB, 0xCC, 0, 0, 0, 0, 0];
/// Bluetooth.
const OTHER: u16 = 187;

fn times_and_names(file: &File) -> Vec<(u64, std::string::String)> {
    let records = decode(&FORMAT, &file.bytes).unwrap();
    records.into_iter().map(|(time_ns, name, ..)| (time_ns, name)).collect()
}

#[test]
fn sections_interfaces_and_both_orders_are_read() {
    for (order, other) in [(Order::Little, Order::Big), (Order::Big, Order::Little)] {
        let mut file = File::new(order)
            .interface(Link::CAN_TYPE, 0, &[(OPTION_IF_NAME, b"body"), (OPTION_IF_TSRESOL, &[9])])
            .interface(Link::CAN_TYPE, 0, &[])
            .block(5, b"statistics..")
            .enhanced(1, 7, &PACKET, &[])
            .enhanced(0, 7, &PACKET, &[]);
        file.order = other;
        let file = file
            .section()
            .interface(Link::CAN_TYPE, 0, &[(OPTION_IF_NAME, b"body")])
            .enhanced(0, 1 << 32, &PACKET[..11], &[]);
        assert_eq!(
            times_and_names(&file),
            [
                (7_000, "can1".to_string()),
                (7, "body".to_string()),
                ((1 << 32) * 1_000, "body".to_string())
            ]
        );
    }
}

#[test]
fn blocks_have_any_length_that_is_allowed() {
    let longest = vec![0; MAX_RECORD_LEN - 32];
    let file = File::new(Order::Little)
        .block(5, &[])
        .interface(Link::CAN_TYPE, 0, &[(OPTION_IF_NAME, b"")])
        .enhanced(0, 1, &longest, &[])
        .block(SIMPLE_PACKET, &[&16_u32.to_le_bytes()[..], &PACKET].concat());
    let frames = ["000#", "123#AABBCC"].map(|text| text.parse().unwrap());
    let expected = frames.map(|frame| (1_000, "can0".to_string(), None, frame));
    assert_eq!(decode(&FORMAT, &file.bytes).unwrap(), expected);
    // The version of a section is in its first 16 bytes.
    let mut decoder = FORMAT.decoder();
    let waits = decoder.next(&mut Input::of_head(&file.bytes[..15], false));
    assert!(matches!(waits, Err(ReadError::Io(_))), "{waits:?}");
    let mut input = Input::of_head(&file.bytes[..16], false);
    assert_eq!(decoder.next(&mut input).unwrap(), Step::Skip);
    assert_eq!(input.offset(), 16);
}

#[test]
fn times_have_any_resolution_and_an_offset() {
    for (resolution, offset_s, ticks, time_ns) in [
        (0, 0, 7, Some(7_000_000_000)),
        (3, 0, 7, Some(7_000_000)),
        (12, 0, 7_999, Some(7)),
        (38, 0, u64::MAX, Some(0)),
        (0x80, 0, 7, Some(7_000_000_000)),
        (0x80 | 10, 0, 1_536, Some(1_500_000_000)),
        (0xFF, 0, u64::MAX, Some(0)),
        (9, 2, 5, Some(2_000_000_005)),
        (9, -2, 2_000_000_005, Some(5)),
        (9, -2, 5, None),
        (9, i64::MAX, 0, None),
        (9, i64::MIN, 0, None),
        (0, 0, u64::MAX, None),
    ] {
        for order in [Order::Big, Order::Little] {
            let offset = match order {
                Order::Big => i64::to_be_bytes(offset_s),
                Order::Little => i64::to_le_bytes(offset_s),
            };
            let options: [(u16, &[u8]); 2] =
                [(OPTION_IF_TSRESOL, &[resolution]), (OPTION_IF_TSOFFSET, &offset)];
            let file = File::new(order).interface(Link::CAN_TYPE, 0, &options).enhanced(
                0,
                ticks,
                &PACKET,
                &[],
            );
            let found = decode(&FORMAT, &file.bytes);
            assert_eq!(found.as_ref().ok().map(|records| records[0].0), time_ns, "{found:?}");
        }
    }
}

#[test]
fn simple_and_obsolete_packets_are_read() {
    let file = File::new(Order::Big).interface(Link::CAN_TYPE, 12, &[]).interface(
        Link::CAN_TYPE,
        12,
        &[(OPTION_IF_NAME, b"vcan1")],
    );
    let simple = [&16_u32.to_be_bytes()[..], &PACKET[..12]].concat();
    let mut obsolete = [0; 20].to_vec();
    obsolete[1] = 1; // interface
    obsolete[3] = 7; // packets that were dropped before, behind the interface
    obsolete[11] = 9; // ticks
    obsolete[15] = 11; // captured
    obsolete[19] = 16; // original
    obsolete.extend_from_slice(&PACKET[..12]);
    obsolete.extend_from_slice(&[0, 2, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0]);
    let file = file.block(OBSOLETE_PACKET, &obsolete).block(SIMPLE_PACKET, &simple);
    let frame = "123#AABBCC".parse().unwrap();
    assert_eq!(
        decode(&FORMAT, &file.bytes).unwrap(),
        [
            (9_000, "vcan1".into(), Some(Direction::Transmitted), frame),
            (9_000, "can0".into(), None, frame),
        ]
    );
}

#[test]
fn packets_of_other_protocols_are_counted_whatever_their_size() {
    let file = File::new(Order::Little)
        .interface(OTHER, 0, &[])
        .interface(Link::CAN_TYPE, 0, &[])
        .enhanced(0, 1, &[0; 2 * MAX_RECORD_LEN], &[])
        .enhanced(1, 2, &PACKET, &[])
        .block(SIMPLE_PACKET, &[0; 4]);
    let mut decoder = FORMAT.decoder();
    let records = count(&mut *decoder, &file.bytes);
    assert_eq!((records, decoder.passed_over().other_packets), (1, 2));
}

#[test]
fn blocks_of_other_kinds_and_packets_with_errors_are_counted() {
    for order in [Order::Little, Order::Big] {
        let flags = |bits: u32| {
            let file = File { order, bytes: vec![] };
            [&file.n16(OPTION_FLAGS)[..], &file.n16(4), &file.n32(bits)].concat()
        };
        let mut file = File::new(order)
            .interface(Link::CAN_TYPE, 0, &[])
            // Names, statistics and secrets, which are no events.
            .block(4, &[0; 4])
            .block(5, b"statistics..")
            .block(10, &[0; 8]);
        let count = |file: &File| {
            let source = std::io::Cursor::new(file.bytes.clone());
            let mut recording = crate::Recording::new("a", source, None).unwrap();
            let frames = recording.by_ref().map(Result::unwrap).count();
            (frames, recording.passed_over().other_packets)
        };
        assert_eq!(count(&file), (0, 0));
        // Times of IRIG, a journal, custom blocks that may be copied or not, and one that nobody knows.
        for (number, kind) in [7, 9, 0xBAD, 0x4000_0BAD, 0x8000_0001].into_iter().enumerate() {
            file = file.block(kind, &[0; 8]);
            assert_eq!(count(&file), (0, number as u64 + 1), "{kind}");
        }
        for bit in 16..32 {
            let file = File::new(order)
                .interface(Link::CAN_TYPE, 0, &[])
                .interface(Link::ETHERNET_TYPE, 0, &[])
                .enhanced(0, 1, &PACKET, &flags(1 << bit | INBOUND))
                .enhanced(1, 1, &PACKET, &flags(1 << bit))
                .enhanced(0, 2, &PACKET, &flags(INBOUND));
            assert_eq!(count(&file), (1, 2), "{bit}");
        }
    }
}

#[test]
fn an_end_inside_a_block_passed_over_is_reported_once() {
    let file = File::new(Order::Little).block(5, &[0; 40]);
    let mut decoder = FORMAT.decoder();
    let mut input = Input::of_head(&file.bytes[..79], true);
    for offset in [24, 28, 76] {
        assert_eq!(decoder.next(&mut input).unwrap(), Step::Skip);
        assert_eq!(input.offset(), offset);
    }
    let error = error(&mut *decoder, &mut input);
    assert!(error.to_string().starts_with("byte 76: the file ends inside"), "{error}");
    assert_eq!(error.resume, Some(3));
    input.consume(3);
    assert_eq!(decoder.next(&mut input).unwrap(), Step::End);
}

#[test]
fn damage_says_where_and_why() {
    let file = || File::new(Order::Little);
    let can = || file().interface(Link::CAN_TYPE, 0, &[]);
    let long_name = [b'c'; 256];
    let mut unequal = can();
    unequal.bytes[28 + 16] ^= 4;
    let mut version_2 = file();
    version_2.bytes[12] = 2;
    let mut cut = can().enhanced(0, 0, &PACKET, &[]);
    cut.bytes.pop();
    let mut beyond = can().enhanced(0, 0, &PACKET, &[]);
    beyond.bytes[48 + 20] = 17;
    let mut more = can().enhanced(0, 0, &PACKET, &[]);
    more.bytes[48 + 24] = 15;
    let mut unknown = more.clone();
    unknown.bytes[48 + 24] = 0;
    assert_eq!(times_and_names(&unknown), [(0, "can0".to_string())], "how long it was");
    // Of a block that is passed over, and of a section header.
    let mut unequal_other = file().block(5, &[0; 8]);
    unequal_other.bytes[28 + 16] ^= 4;
    let mut unequal_section = file();
    unequal_section.bytes[24] ^= 1;
    for (file, message, can_resume) in [
        (
            File { order: Order::Big, bytes: vec![] },
            "byte 0: the file ends inside its header",
            false,
        ),
        (
            File { order: Order::Big, bytes: vec![0; 28] },
            "byte 0: this is not a pcapng file",
            false,
        ),
        (version_2, "byte 0: pcapng version 2 is not supported", false),
        (unequal, "byte 28: the two lengths of the block differ", false),
        (unequal_other, "byte 28: the two lengths of the block differ", false),
        (unequal_section, "byte 0: the two lengths of the block differ", false),
        (more, "byte 48 (record 1): more bytes of the packet are there than it had", true),
        (
            file().interface(Link::CAN_TYPE, 0, &[(2, &long_name)]),
            "byte 28: the name of the interface has 256",
            false,
        ),
        (
            file().interface(Link::CAN_TYPE, 0, &[(9, &[39])]),
            "byte 28: times in units of 10^-39 s",
            false,
        ),
        (
            file().block(INTERFACE_DESCRIPTION, &[227, 0, 0, 0]),
            "byte 28: the block is shorter than its lengths say",
            false,
        ),
        (
            file().enhanced(0, 0, &PACKET, &[]),
            "byte 28 (record 1): the packet is of interface 0, which",
            true,
        ),
        (
            can().enhanced(0, 0, &PACKET[..9], &[]),
            "byte 48 (record 1): 9 bytes, but the layout",
            true,
        ),
        (
            can().block(ENHANCED_PACKET, &[0; 4]),
            "byte 48 (record 1): the block is shorter than its lengths say",
            true,
        ),
        (
            can().enhanced(0, 0, &PACKET, &[2, 0, 5, 0]),
            "byte 48 (record 1): the block is shorter than its lengths say",
            true,
        ),
        (
            can().enhanced(0, 0, &[0; MAX_RECORD_LEN], &[]),
            "byte 48 (record 1): the block has 65568 bytes",
            false,
        ),
        (
            can().enhanced(0, 0, &PACKET, &[]).enhanced(0, 0, &PACKET[..9], &[]),
            "byte 96 (record 2): 9 bytes, but the layout",
            true,
        ),
        (
            file().interface(OTHER, 0, &[]).enhanced(0, 0, &PACKET, &[]).enhanced(
                1,
                0,
                &PACKET,
                &[],
            ),
            "byte 96 (record 2): the packet is of interface 1, which",
            true,
        ),
        (beyond, "byte 48 (record 1): the block is shorter than its lengths say", true),
        (cut, "byte 48 (record 1): the file ends inside this record", true),
    ] {
        let error = decode(&FORMAT, &file.bytes).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(error.resume.is_some(), can_resume, "{error}");
    }
}

#[test]
fn a_bad_length_ends_the_reading() {
    for len in [0, 8, 13] {
        let mut file = File::new(Order::Little).block(5, &[]);
        file.bytes[28 + 4] = len;
        let error = decode(&FORMAT, &file.bytes).unwrap_err();
        assert_eq!(
            (error.position, error.resume),
            (Position::Binary { offset: 28, record: 0 }, None)
        );
    }
}

#[test]
fn ethernet_and_can_of_one_capture_are_read_as_they_come() {
    let file = File::new(Order::Big)
        .interface(Link::ETHERNET_TYPE, 12, &[])
        .interface(Link::CAN_TYPE, 0, &[])
        .interface(Link::ETHERNET_TYPE, 0, &[(OPTION_IF_NAME, b"backbone")])
        .enhanced(2, 5, &[9; 61], &[0, 2, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0])
        .enhanced(1, 6, &PACKET, &[])
        .block(SIMPLE_PACKET, &[&60_u32.to_be_bytes()[..], &[8; 12]].concat())
        .enhanced(0, 7, &vec![0; MAX_RECORD_LEN], &[])
        .enhanced(0, 8, &[], &[]);
    let can = Any::Can("123#AABBCC".parse().unwrap());
    let expected = [
        (
            5_000,
            "backbone".to_string(),
            Some(Direction::Transmitted),
            Any::Ethernet(vec![9; 61], 61),
        ),
        (6_000, "can1".to_string(), None, can),
        (6_000, "eth0".to_string(), None, Any::Ethernet(vec![8; 12], 60)),
        (8_000, "eth0".to_string(), None, Any::Ethernet(vec![], 0)),
    ];
    for chunk in [1, 997, file.bytes.len()] {
        assert_eq!(decode_any(&FORMAT, &file.bytes, &[chunk]).unwrap(), expected, "{chunk}");
    }
}

/// An interface may have one name for both kinds, such as a name that a tester chose twice.
#[test]
fn can_frames_of_can2udp_have_interfaces_of_their_own() {
    let first = ethernet(4858, None, &can2udp(Version::V1, 0, Some("123#AABB")));
    let other = ethernet(4857, None, b"to another port");
    let bad = ethernet(4858, None, &[2; 20]);
    let flags = [&[2, 0, 4, 0][..], &INBOUND.to_le_bytes()].concat();
    let file = File::new(Order::Little)
        .interface(Link::ETHERNET_TYPE, 0, &[(OPTION_IF_NAME, b"lan"), (OPTION_IF_TSRESOL, &[9])])
        .enhanced(0, 7, &first, &flags)
        .enhanced(0, 8, &other, &[]);
    let name = |name: &str| name.to_owned();
    let can = Any::Can("123#AABB".parse().unwrap());
    let expected = [
        (7, name("udp4858.0"), Some(Direction::Received), can),
        (8, name("lan"), None, Any::Ethernet(other.clone(), other.len() as u32)),
    ];
    assert_eq!(decode_any(&FORMAT, &file.bytes, &[1]).unwrap(), expected);
    let len = file.bytes.len();
    let error = decode_any(&FORMAT, &file.enhanced(0, 9, &bad, &[]).bytes, &[99]).unwrap_err();
    assert_eq!(error.position, Position::Binary { offset: len as u64, record: 3 });
    assert!(error.to_string().contains("4858 is not of can2udp: byte 20: "), "{error}");
    assert_eq!(error.resume, Some(96));
}

#[test]
fn each_kind_has_its_own_interface_in_the_file() {
    let mut out = Vec::new();
    let mut encoder = FORMAT.encoder(&mut out);
    let frame = Packet { bytes: &[1, 2, 3], original_len: 60 };
    let record = Record { time_ns: 1, interface: InterfaceIndex(0), direction: None, frame };
    let can = record.map(|_| "123#".parse().unwrap());
    encoder.encode_ethernet(&record, "x", &mut out).unwrap();
    encoder.encode(&can, "x", &mut out).unwrap();
    encoder.encode_ethernet(&record, "x", &mut out).unwrap();
    let mut rest = &out[..];
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        kinds.push(Order::Little.u32(rest, 0));
        rest = &rest[Order::Little.u32(rest, 4) as usize..];
    }
    let (described, packet) = (INTERFACE_DESCRIPTION, ENHANCED_PACKET);
    assert_eq!(kinds, [SECTION_HEADER, described, packet, described, packet, packet]);
    let read = decode_any(&FORMAT, &out, &[out.len()]).unwrap();
    let kinds: Vec<_> = read.iter().map(|(.., frame)| matches!(frame, Any::Can(_))).collect();
    assert_eq!(kinds, [false, true, false]);
}
