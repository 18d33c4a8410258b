//! The capture file of tcpdump (`pcap-savefile(5)`) of CAN, Ethernet, or any interface (`link.rs`).
//!
//! | bytes | file header | | bytes | record header |
//! |---|---|---|---|---|
//! | 0..4 | `a1b2c3d4`: microseconds; `a1b23c4d`: nanoseconds | | 0..4 | seconds since 1970 |
//! | 4..8 | version 2.4 | | 4..8 | micro- or nanoseconds |
//! | 8..16 | zero | | 8..12 | bytes that follow |
//! | 16..20 | snap length | | 12..16 | bytes there were |
//! | 20..24 | link type | | | |
//!
//! The order of the bytes in the magic number is that of all headers; the identifier of a frame is
//! always big-endian ([`crate::socketcan`]). Written are little-endian nanoseconds, so that no
//! digit of a time is lost.
//!
//! A packet of which more is there than there was is damaged. Which one of its lengths is wrong, the record behind it tells: if one begins
//! where the second length says, reading goes on there, so that a wrong first one swallows no others. If the second one is 0, it is not
//! known.
//!
//! The format has neither interfaces nor directions: what is read is called `can0` or `eth0`, or `if7` where packets have the number
//! of theirs, and a second interface cannot be written. Only CAN is written. CAN frames in datagrams of can2udp have interfaces: see
//! [`CanUdp`](crate::CanUdp).

use super::link::{Found, Link, MORE_THAN_THERE_WAS, original_len, read_can};
use super::order::Order;
use super::{Format, Labels, UNNAMED, UNNAMED_ETHERNET, usual};
use crate::can_udp::CanUdpReader;
use crate::decode::{
    CUT, DecodeError, Decoder, MAX_RECORD_LEN, PassedOver, Position, ReadError, Reason, Step,
};
use crate::encode::{EncodeError, Encoder, NANOS_PER_SECOND};
use crate::input::Input;
use crate::record::{InterfaceIndex, Interfaces, Packet, PacketSpan, Record};
use candor_wire::can::socketcan::{self, IdOrder};

pub(super) static FORMAT: Format = Format {
    name: "pcap",
    title: "pcap capture",
    endings: &["pcap", "cap"],
    labels: Labels::None,
    keeps_directions: false,
    keeps_error_reports: true,
    is_written: true,
    begins: |head| Header::magic(head).is_some(),
    encoder: |out| Box::new(PcapEncoder::new(out)),
    ..usual(|can_udp| {
        Box::new(PcapDecoder { can_udp: CanUdpReader::new(can_udp), ..PcapDecoder::default() })
    })
};

const MAGIC_MICROS: u32 = 0xA1B2_C3D4;
const MAGIC_NANOS: u32 = 0xA1B2_3C4D;
const HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
/// What tcpdump writes by default.
const SNAP_LEN: u32 = 262_144;
const MAX_CAPTURED: u32 = (MAX_RECORD_LEN - RECORD_HEADER_LEN) as u32;
/// How far apart two records are at most, if nothing else tells that the second one is one.
const MAX_APART_S: u32 = 86_400;

#[derive(Clone, Copy)]
struct Header {
    order: Order,
    ticks_per_second: u32,
    link: Link,
}

impl Header {
    /// What the magic number at the start of `bytes` says.
    fn magic(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.first_chunk::<4>()?;
        [Order::Big, Order::Little].into_iter().find_map(|order| {
            let ticks_per_second = match order.u32(magic, 0) {
                MAGIC_MICROS => 1_000_000,
                MAGIC_NANOS => 1_000_000_000,
                _ => return None,
            };
            Some(Self { order, ticks_per_second, link: Link::Can })
        })
    }

    /// Whether the bytes may be the header of a record near another one in time.
    fn may_begin(&self, bytes: &[u8], near_s: u32) -> bool {
        let [seconds, ticks, captured, original] =
            [0, 4, 8, 12].map(|at| self.order.u32(bytes, at));
        bytes.len() >= RECORD_HEADER_LEN
            && ticks < self.ticks_per_second
            && (1..=SNAP_LEN).contains(&captured)
            && captured <= original_len(original, captured)
            && seconds.abs_diff(near_s) <= MAX_APART_S
    }

    /// Checks all of the file header, which is at least [`HEADER_LEN`] long.
    fn parse(bytes: &[u8]) -> Result<Self, Reason> {
        let mut header = Self::magic(bytes)
            .ok_or(Reason::Text("this is not a pcap file; check the file and name its format"))?;
        let major = header.order.u16(bytes, 4);
        if major != 2 {
            return Err(Reason::Number(
                "pcap version ",
                u64::from(major),
                " is not supported, only 2; convert the file with `editcap -F pcap`",
            ));
        }
        // The upper half has other uses.
        let link_type = header.order.u32(bytes, 20) as u16;
        header.link = Link::new(link_type).ok_or(Reason::Number(
            "link type ",
            u64::from(link_type),
            " is none of 227 (SocketCAN), 1 (Ethernet), and 113 and 276 (any interface, `tcpdump -i any`); capture \
             on the interface itself (`tcpdump -i can0`)",
        ))?;
        Ok(header)
    }
}

#[derive(Default)]
struct PcapDecoder {
    header: Option<Header>,
    /// Empty until the first record.
    interfaces: Interfaces,
    can_udp: CanUdpReader,
    /// Records consumed so far.
    records: u64,
    other_packets: u64,
    /// How much of a packet that is too long is still to come.
    skipping: usize,
}

impl Decoder for PcapDecoder {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let Some(header) = self.header else {
            return self.file_header(input);
        };
        if self.skipping > 0 {
            return self.skip(input);
        }
        let window = input.fill(RECORD_HEADER_LEN)?;
        if window.len() < RECORD_HEADER_LEN {
            return if window.is_empty() { Ok(Step::End) } else { Err(self.cut(input)) };
        }
        let [captured, original] = [8, 12].map(|at| header.order.u32(window, at));
        if original > 0 && captured > original {
            return self.two_lengths(header, (captured, original), input);
        }
        if captured > MAX_CAPTURED {
            return self.long_packet(header, captured, input);
        }
        let len = RECORD_HEADER_LEN + captured as usize;
        let window = input.fill(len)?;
        let Some(packet) = window.get(RECORD_HEADER_LEN..len) else {
            return Err(self.cut(input));
        };
        match self.record(header, window, packet) {
            Ok(step) => {
                self.records += 1;
                input.consume(len);
                Ok(step)
            }
            Err(reason) => {
                let error = self.error(input, reason, Some(len));
                self.records += 1;
                Err(error.into())
            }
        }
    }

    fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { other_packets: self.other_packets, ..PassedOver::default() }
    }
}

impl PcapDecoder {
    fn error(&self, input: &Input, reason: Reason, resume: Option<usize>) -> DecodeError {
        let record = if self.header.is_some() { self.records + 1 } else { 0 };
        let position = Position::Binary { offset: input.offset(), record };
        DecodeError { position, reason, resume }
    }

    fn file_header(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let window = input.fill(HEADER_LEN)?;
        let header = match window.len() < HEADER_LEN {
            true => Err(Reason::Text("the file ends inside its header; record it again")),
            false => Header::parse(window),
        };
        self.header = Some(header.map_err(|reason| self.error(input, reason, None))?);
        input.consume(HEADER_LEN);
        Ok(Step::Skip)
    }

    fn cut(&self, input: &Input) -> ReadError {
        self.error(input, CUT, Some(input.window().len())).into()
    }

    /// A record that says that it kept more than there was: the one behind it is looked for where either length says.
    fn two_lengths(
        &mut self,
        header: Header,
        (captured, original): (u32, u32),
        input: &mut Input,
    ) -> Result<Step, ReadError> {
        let next = RECORD_HEADER_LEN + original.min(MAX_CAPTURED) as usize;
        let window = input.fill(next + RECORD_HEADER_LEN)?;
        let is_next = original <= MAX_CAPTURED
            && match window.get(next..) {
                Some([]) => true,
                Some(behind) => header.may_begin(behind, header.order.u32(window, 0)),
                None => false,
            };
        let resume = match is_next {
            true => next,
            false if captured > MAX_CAPTURED => {
                return Err(self.error(input, MORE_THAN_THERE_WAS, None).into());
            }
            false => RECORD_HEADER_LEN + captured as usize,
        };
        if input.fill(resume)?.len() < resume {
            return Err(self.cut(input));
        }
        let error = self.error(input, MORE_THAN_THERE_WAS, Some(resume));
        self.records += 1;
        Err(error.into())
    }

    /// A record that no buffer need hold: no CAN frame is as long. Network cards hand over several Ethernet
    /// frames as one packet of up to 64 KiB, which is none.
    fn long_packet(
        &mut self,
        header: Header,
        captured: u32,
        input: &mut Input,
    ) -> Result<Step, ReadError> {
        let (most, kind) = match header.link.has_long_packets() {
            true => (SNAP_LEN, " bytes, more than any packet; the file is damaged from here on"),
            false => (0, " bytes, more than any CAN frame; the file is damaged from here on"),
        };
        if captured > most {
            let reason = Reason::Number("the record has ", u64::from(captured), kind);
            return Err(self.error(input, reason, None).into());
        }
        self.records += 1;
        self.other_packets += 1;
        self.skipping = RECORD_HEADER_LEN + captured as usize;
        self.skip(input)
    }

    fn skip(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let consumed = self.skipping.min(input.fill(1)?.len());
        if consumed == 0 {
            self.skipping = 0;
            return Err(self.cut(input));
        }
        self.skipping -= consumed;
        input.consume(consumed);
        Ok(Step::Skip)
    }

    /// The record of this header and packet.
    fn record(&mut self, header: Header, head: &[u8], packet: &[u8]) -> Result<Step, Reason> {
        let [seconds, ticks, said_len] = [0, 4, 12].map(|at| header.order.u32(head, at));
        let original_len = original_len(said_len, packet.len() as u32);
        if ticks >= header.ticks_per_second {
            return Err(Reason::Number(
                "the fraction of the time is ",
                u64::from(ticks),
                ", a second or more; the record is damaged",
            ));
        }
        let fraction_ns =
            u64::from(ticks) * (NANOS_PER_SECOND / u64::from(header.ticks_per_second));
        let time_ns = u64::from(seconds) * NANOS_PER_SECOND + fraction_ns;
        let direction = None;
        if header.link == Link::Ethernet {
            let whole = Packet { bytes: packet, original_len };
            if let Some((interface, frame)) = self.can_udp.read(whole, &mut self.interfaces)? {
                let record = Record { time_ns, interface, direction, frame };
                return Ok(Step::Record(record));
            }
            let interface = self.interface(UNNAMED_ETHERNET)?;
            let frame = PacketSpan { start: RECORD_HEADER_LEN, len: packet.len(), original_len };
            let record = Record { time_ns, interface, direction, frame };
            return Ok(Step::Ethernet(record));
        }
        if header.link == Link::Can {
            let frame = read_can(packet, original_len)?;
            let interface = self.interface(UNNAMED)?;
            let record = Record { time_ns, interface, direction, frame };
            return Ok(Step::Record(record));
        }
        let found = header.link.read_cooked(header.order, packet, original_len)?;
        let Some(Found { interface, direction, frame }) = found else {
            self.other_packets += 1;
            return Ok(Step::Skip);
        };
        let interface = match interface {
            Some(number) => self.interface(&format!("if{number}"))?,
            None => self.interface(UNNAMED)?,
        };
        let record = Record { time_ns, interface, direction, frame };
        Ok(Step::Record(record))
    }

    fn interface(&mut self, name: &str) -> Result<InterfaceIndex, Reason> {
        self.interfaces.intern(name.as_bytes()).map_err(Reason::Interface)
    }
}

/// Appends the header of a file whose packets are of this link type.
pub(super) fn put_header(link_type: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC_NANOS.to_le_bytes());
    out.extend_from_slice(&[2, 0, 4, 0]);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&SNAP_LEN.to_le_bytes());
    out.extend_from_slice(&u32::from(link_type).to_le_bytes());
}

/// Appends a whole packet, unless its time is too late.
pub(super) fn put_packet(
    time_ns: u64,
    packet: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let seconds =
        u32::try_from(time_ns / NANOS_PER_SECOND).map_err(|_| EncodeError::TimeTooLate(time_ns))?;
    let nanos = (time_ns % NANOS_PER_SECOND) as u32;
    let len = packet.len() as u32;
    for number in [seconds, nanos, len, len] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(packet);
    Ok(())
}

struct PcapEncoder {
    /// The one interface, once a record named it.
    interface: Option<String>,
}

impl PcapEncoder {
    fn new(out: &mut Vec<u8>) -> Self {
        put_header(Link::CAN_TYPE, out);
        Self { interface: None }
    }
}

impl Encoder for PcapEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if self.interface.get_or_insert_with(|| interface.into()) != interface {
            return Err(EncodeError::SecondInterface);
        }
        let (bytes, len) = socketcan::encode(&record.frame, IdOrder::BigEndian);
        put_packet(record.time_ns, &bytes[..len], out)
    }
}

#[cfg(test)]
mod tests {
    use candor_wire::can::tunnel::can2udp::Version;

    use super::*;
    use crate::can_udp::tests::{can2udp, ethernet};
    use crate::format::tests::{Any, decode, decode_any, error};

    /// A file header, then each record: seconds, ticks, original length, packet.
    fn file(
        order: Order,
        magic: u32,
        link_type: u32,
        records: &[(u32, u32, u32, &[u8])],
    ) -> Vec<u8> {
        let put = |number: u32, out: &mut Vec<u8>| {
            out.extend_from_slice(&match order {
                Order::Big => number.to_be_bytes(),
                Order::Little => number.to_le_bytes(),
            });
        };
        let mut out = Vec::new();
        put(magic, &mut out);
        out.extend_from_slice(if order == Order::Big { &[0, 2, 0, 4] } else { &[2, 0, 4, 0] });
        for number in [0, 0, 65_535, link_type] {
            put(number, &mut out);
        }
        for (seconds, ticks, original_len, packet) in records {
            for number in [*seconds, *ticks, packet.len() as u32, *original_len] {
                put(number, &mut out);
            }
            out.extend_from_slice(packet);
        }
        out
    }

    const PACKET: [u8; 16] = [0x80, 0, 1, 0x23, 3, 0, 0, 0, 0xAA, 0xBB, 0xCC, 0, 0, 0, 0, 0];

    #[test]
    fn both_orders_and_both_resolutions_are_read() {
        for order in [Order::Big, Order::Little] {
            for (magic, time_ns) in [(MAGIC_MICROS, 7_000_005_000), (MAGIC_NANOS, 7_000_000_005)] {
                // The last one is cut behind its data, which harms nobody.
                let bytes = file(
                    order,
                    magic,
                    0x0400_00E3,
                    &[(7, 5, 16, &PACKET), (7, 5, 16, &PACKET[..11])],
                );
                let record =
                    (time_ns, "can0".to_string(), None, "00000123#AABBCC".parse().unwrap());
                assert_eq!(decode(&FORMAT, &bytes), Ok(vec![record; 2]));
                assert!((FORMAT.begins)(&bytes));
            }
        }
    }

    /// Whichever of its two lengths is wrong.
    #[test]
    fn a_wrong_length_costs_its_packet_alone() {
        let frames = |bytes: &[u8]| {
            let source = std::io::Cursor::new(bytes.to_vec());
            let recording = crate::Recording::new("a", source, Some(&FORMAT)).unwrap();
            let mut recording = recording.skip_malformed(true);
            let times: Vec<_> =
                recording.by_ref().map(|it| it.unwrap().time_ns / 1_000_000_000).collect();
            (times, recording.skipped().count, recording.cut().is_some())
        };
        let longer = [&PACKET[..], &[7; 56]].concat();
        for order in [Order::Big, Order::Little] {
            let whole = |packet: &[u8]| {
                let len = packet.len() as u32;
                let records =
                    [1_700_000_000, 1_700_000_001, 1_700_086_000].map(|at| (at, 5, len, packet));
                file(order, MAGIC_MICROS, 227, &records)
            };
            // In the middle: what was captured, and what there was.
            let second = |len: usize| HEADER_LEN + RECORD_HEADER_LEN + len;
            for (packet, place, wrong) in [
                (&PACKET[..], 8, 48),
                (&PACKET, 8, 17),
                (&PACKET, 8, 0x0100_0010),
                (&PACKET, 8, 60_000),
                (&PACKET, 12, 8),
                (&longer, 12, 64),
                (&longer, 12, 1),
            ] {
                let mut bytes = whole(packet);
                let at = second(packet.len()) + place;
                bytes[at..at + 4].copy_from_slice(&match order {
                    Order::Big => u32::to_be_bytes(wrong),
                    Order::Little => u32::to_le_bytes(wrong),
                });
                let expected = (vec![1_700_000_000, 1_700_086_000], 1, false);
                assert_eq!(frames(&bytes), expected, "{place} {wrong}");
            }
            // Some recorders leave 0 there.
            let unknown = file(order, MAGIC_MICROS, 227, &[(1, 5, 0, &PACKET), (2, 5, 0, &PACKET)]);
            assert_eq!(frames(&unknown), (vec![1, 2], 0, false));
        }
        let unknown = file(Order::Big, MAGIC_MICROS, 1, &[(1, 5, 0, &[7; 60])]);
        let whole = (1_000_005_000, "eth0".to_owned(), None, Any::Ethernet(vec![7; 60], 60));
        assert_eq!(decode_any(&FORMAT, &unknown, &[9]), Ok(vec![whole]));
    }

    #[test]
    fn captures_of_any_interface_are_read() {
        use crate::record::Direction::{Received, Transmitted};
        for order in [Order::Big, Order::Little] {
            let mut frame = PACKET;
            if order == Order::Little {
                frame[..4].reverse();
            }
            let cooked = |kind: u8, protocol: u8| {
                let mut packet = vec![0; 16];
                (packet[1], packet[15]) = (kind, protocol);
                [packet, frame.to_vec()].concat()
            };
            let second = |kind: u8, interface: u8| {
                let mut packet = vec![0; 20];
                (packet[1], packet[7], packet[10]) = (12, interface, kind);
                [packet, frame.to_vec()].concat()
            };
            let record = |name: &str, direction| {
                let frame = Any::Can("00000123#AABBCC".parse().unwrap());
                (1_000_000_000, name.to_owned(), Some(direction), frame)
            };
            for (link_type, packets, expected) in [
                (
                    113,
                    [cooked(1, 12), cooked(0, 8), cooked(4, 12)],
                    [record("can0", Received), record("can0", Transmitted)],
                ),
                (
                    276,
                    [second(4, 3), vec![8; 70_000], second(1, 7)],
                    [record("if3", Transmitted), record("if7", Received)],
                ),
            ] {
                let records: Vec<_> =
                    packets.iter().map(|it| (1, 0, it.len() as u32, &it[..])).collect();
                let bytes = file(order, MAGIC_MICROS, link_type, &records);
                assert_eq!(decode_any(&FORMAT, &bytes, &[7, 100]), Ok(expected.to_vec()));
            }
        }
    }

    #[test]
    fn what_is_no_capture_of_can_says_why() {
        let file = |magic, link_type| file(Order::Little, magic, link_type, &[]);
        let mut version_3 = file(MAGIC_NANOS, 227);
        version_3[4] = 3;
        for (bytes, message) in [
            (vec![], "byte 0: the file ends inside its header"),
            (file(MAGIC_NANOS, 227)[..23].to_vec(), "byte 0: the file ends inside its header"),
            (file(0xA1B2_CD34, 227), "byte 0: this is not a pcap file"),
            (
                file(MAGIC_NANOS, 195),
                "byte 0: link type 195 is none of 227 (SocketCAN), 1 (Ethernet)",
            ),
            (version_3, "byte 0: pcap version 3 is not supported"),
        ] {
            let error = decode(&FORMAT, &bytes).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
            assert_eq!(error.resume, None);
        }
    }

    #[test]
    fn malformed_records_say_where_and_why() {
        let file = |ticks, original_len, packet: &[u8]| {
            let records = [(1, 0, 16, &PACKET[..]), (2, ticks, original_len, packet)];
            file(Order::Little, MAGIC_MICROS, 227, &records)
        };
        let mut nine_bytes = [0; 17];
        nine_bytes[4] = 9;
        let mut longest = [0; 65_520];
        longest[4] = 9;
        let mut xl = [0; 100];
        xl[4] = 0x80;
        let whole = file(0, 16, &PACKET);
        let mut huge = whole.clone();
        huge[56 + 11] = 0xFF;
        let mut endless = huge.clone();
        endless[56 + 12] -= 1;
        for (bytes, message, resume) in [
            (file(1_000_000, 16, &PACKET), "the fraction of the time is 1000000", Some(32)),
            (file(0, 16, &PACKET[..10]), "the capture keeps only 10 bytes of the frame", Some(26)),
            (file(0, 10, &PACKET[..10]), "10 bytes, but the layout needs 11", Some(26)),
            (file(0, 15, &PACKET), "more bytes of the packet are there than it had", Some(32)),
            (file(0, 17, &nine_bytes), "9 bytes of data, but a classical", Some(33)),
            (file(0, 100, &xl), "CAN XL frames are not supported", Some(116)),
            (file(0, 20, &xl[..20]), "CAN XL frames are not supported", Some(36)),
            (file(0, 7, &PACKET[..7]), "7 bytes, but the layout needs 8", Some(23)),
            (file(0, 0, &[]), "0 bytes, but the layout needs 8", Some(16)),
            (file(0, 16, &PACKET[..7]), "the capture keeps only 7 bytes of the frame", Some(23)),
            (whole[..whole.len() - 1].to_vec(), "the file ends inside this record", Some(31)),
            (whole[..60].to_vec(), "the file ends inside this record", Some(4)),
            (file(0, 65_520, &longest), "9 bytes of data, but a classical", Some(65_536)),
            (file(0, 65_521, &[0; 65_521]), "the record has 65521 bytes, more than any", None),
            (huge, "more bytes of the packet are there than it had", Some(32)),
            (endless, "more bytes of the packet are there than it had", None),
        ] {
            let error = decode(&FORMAT, &bytes).unwrap_err();
            assert_eq!(error.position, Position::Binary { offset: 56, record: 2 });
            assert!(error.reason.to_string().starts_with(message), "{error}");
            assert_eq!(error.resume, resume);
        }
    }

    #[test]
    fn ethernet_frames_are_read_and_long_packets_passed_over() {
        let frame = [7; 60];
        let long = vec![0; 65_521];
        for (order, magic, ns) in
            [(Order::Little, MAGIC_NANOS, 5), (Order::Big, MAGIC_MICROS, 5_000)]
        {
            let records = [(1, 5, 1_514, &frame[..]), (2, 0, 65_521, &long), (3, 0, 14, &[])];
            let file = file(order, magic, 1, &records);
            let expected = [
                (1_000_000_000 + ns, "eth0".to_string(), None, Any::Ethernet(frame.into(), 1_514)),
                (3_000_000_000, "eth0".to_string(), None, Any::Ethernet(vec![], 14)),
            ];
            for chunk in [1, 7_001, file.len()] {
                assert_eq!(decode_any(&FORMAT, &file, &[chunk]).unwrap(), expected, "{chunk}");
            }
            // The long one misses its end.
            let (mut decoder, mut input) =
                (FORMAT.decoder(), Input::of_head(&file[..40_100], true));
            assert_eq!(decoder.next(&mut input).unwrap(), Step::Skip);
            let step = decoder.next(&mut input).unwrap();
            assert!(matches!(step, Step::Ethernet(_)) && input.offset() == 100, "{step:?}");
            assert_eq!(decoder.passed_over().other_packets, 0);
            assert_eq!(decoder.next(&mut input).unwrap(), Step::Skip);
            assert_eq!(decoder.passed_over().other_packets, 1);
            let error = error(&mut *decoder, &mut input);
            assert!(error.is_cut(), "{error}");
            assert_eq!(error.position, Position::Binary { offset: 40_100, record: 3 });
            assert_eq!(decoder.next(&mut input).unwrap(), Step::End);
        }
        let damaged = file(Order::Little, MAGIC_NANOS, 1, &[(1, 0, 0, &vec![0; 262_145])]);
        let error = decode(&FORMAT, &damaged).unwrap_err();
        assert!(error.to_string().contains("has 262145 bytes, more than any packet"), "{error}");
    }

    #[test]
    fn can_frames_of_can2udp_are_read_in_their_order() {
        let first = ethernet(4858, None, &can2udp(Version::V1, 0, Some("123#AABB")));
        let other = ethernet(4857, None, b"a datagram to another port");
        let second = ethernet(4858, Some(7), &can2udp(Version::V2, 1, Some("12345678##3AABB")));
        let bad = ethernet(4858, None, &[1; 21]);
        let mut records = vec![(1, 5, 62, &first[..]), (2, 6, 68, &other), (3, 7, 130, &second)];
        let can = |time_ns, name: &str, frame: &str| {
            (time_ns, name.to_owned(), None, Any::Can(frame.parse().unwrap()))
        };
        for (order, magic, ns) in
            [(Order::Little, MAGIC_NANOS, 1), (Order::Big, MAGIC_MICROS, 1_000)]
        {
            let file = file(order, magic, 1, &records);
            let expected = [
                can(1_000_000_000 + 5 * ns, "udp4858.0", "123#AABB"),
                (
                    2_000_000_000 + 6 * ns,
                    "eth0".to_owned(),
                    None,
                    Any::Ethernet(other.clone(), other.len() as u32),
                ),
                can(3_000_000_000 + 7 * ns, "udp4858.1", "12345678##3AABB"),
            ];
            for chunk in [1, 50, file.len()] {
                assert_eq!(decode_any(&FORMAT, &file, &[chunk]).unwrap(), expected, "{chunk}");
            }
            let mut decoder = FORMAT.decoder_with("4857".parse().unwrap());
            let mut input = Input::of_head(&file, true);
            decoder.next(&mut input).unwrap();
            let step = decoder.next(&mut input).unwrap();
            assert!(matches!(step, Step::Ethernet(_)) && input.offset() == 24 + 78, "{step:?}");
            let error = error(&mut *decoder, &mut input);
            assert!(
                error.to_string().starts_with(
                    "byte 102 (record 2): the datagram to UDP port 4857 is not of can2udp: byte 0: "
                ),
                "{error}"
            );
        }
        records.insert(1, (1, 6, 63, &bad));
        let error =
            decode_any(&FORMAT, &file(Order::Little, MAGIC_NANOS, 1, &records), &[9]).unwrap_err();
        assert_eq!(error.position, Position::Binary { offset: 24 + 78, record: 2 });
        assert_eq!(error.resume, Some(16 + 63));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_written() {
        let mut out = Vec::new();
        let mut encoder = FORMAT.encoder(&mut out);
        let last = (1 << 32) * NANOS_PER_SECOND - 1;
        let record = |time_ns| Record {
            time_ns,
            interface: InterfaceIndex(0),
            direction: None,
            frame: "123#".parse().unwrap(),
        };
        assert_eq!(encoder.encode(&record(last), "can1", &mut out), Ok(()));
        let written = out.clone();
        assert_eq!(
            encoder.encode(&record(last + 1), "can1", &mut out),
            Err(EncodeError::TimeTooLate(last + 1))
        );
        assert_eq!(encoder.encode(&record(0), "can0", &mut out), Err(EncodeError::SecondInterface));
        assert_eq!(out, written);
    }
}
