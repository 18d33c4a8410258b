//! [`Format`]: what a format is called, what it can hold, and how to read and write it. One file per
//! format, and one registry, [`FORMATS`].
//!
//! | format | file | interfaces | directions | time |
//! |---|---|---|---|---|
//! | candump log | `candump.rs` | by name | ` R`, ` T` at the end of the line | 1 to 9 decimals |
//! | pcap | `pcap.rs` | one, unnamed | - | micro- or nanoseconds, until 2106 |
//! | pcapng | `pcapng.rs` | by name | in the packet flags | any resolution |
//! | pcap of can2udp, only written | `can2udp.rs` | by number | - | nanoseconds, until 2106 |
//!
//! Ethernet frames are read from pcap and pcapng, and written to pcapng. Those with a datagram of can2udp are read as
//! the CAN frame in it ([`CanUdp`]); [`CAN2UDP`] in `can2udp.rs` writes such captures. (The header of a pcap file says which
//! kind its frames are. Here it is written before the first one, for CAN.)

mod can2udp;
mod candump;
mod pcap;
mod pcapng;

use std::fmt;

pub use can2udp::CAN2UDP;

use crate::can_udp::CanUdp;
use crate::decode::Decoder;
use crate::encode::Encoder;

/// Every format there is, in the order in which messages list them.
pub static FORMATS: &[&Format] = &[&candump::FORMAT, &pcap::FORMAT, &pcapng::FORMAT];

/// What the name of an interface is if the recording has none.
const UNNAMED: &str = "can0";
/// As [`UNNAMED`], of an Ethernet interface.
const UNNAMED_ETHERNET: &str = "eth0";

/// `LINKTYPE_ETHERNET` of captures.
const ETHERNET_LINK_TYPE: u16 = 1;
/// `LINKTYPE_CAN_SOCKETCAN` of captures.
const CAN_LINK_TYPE: u16 = 227;

/// A format of recordings: what it is called, what it can hold, and how to read and write it.
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in sentences.
    pub title: &'static str,
    /// Endings of file names without the dot, the usual one first; every format of [`FORMATS`] has one.
    pub endings: &'static [&'static str],
    /// Whether it names the interface of each frame; else a recording has only one.
    pub keeps_interfaces: bool,
    /// Whether it tells received frames from transmitted ones.
    pub keeps_directions: bool,
    /// Whether Ethernet frames can be written, too.
    pub keeps_ethernet: bool,
    begins: fn(&[u8]) -> bool,
    decoder: fn(CanUdp) -> Box<dyn Decoder>,
    encoder: fn(&mut Vec<u8>) -> Box<dyn Encoder>,
}

impl Format {
    /// The format of this [`Format::name`].
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.name == name)
    }

    /// The format with the ending of this file name, in any case.
    #[must_use]
    pub fn by_file_name(file_name: &str) -> Option<&'static Self> {
        let (_, ending) = file_name.rsplit_once('.')?;
        FORMATS
            .iter()
            .copied()
            .find(|format| format.endings.iter().any(|known| known.eq_ignore_ascii_case(ending)))
    }

    /// The format of a recording that begins with `head`; 4 bytes suffice unless a text begins
    /// with comments.
    #[must_use]
    pub fn by_content(head: &[u8]) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| (format.begins)(head))
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

    /// An encoder for one recording; appends the header of the format to `out`.
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

    /// Shows the decoder windows that grow by the given chunks, again and again.
    pub(crate) fn decode_any(
        format: &Format,
        bytes: &[u8],
        chunks: &[usize],
    ) -> Result<Vec<AnyNamed>, DecodeError> {
        let mut decoder = format.decoder();
        let mut chunks = chunks.iter().copied().cycle();
        let (mut start, mut end) = (0, 0);
        let mut records = Vec::new();
        loop {
            match decoder.decode(&bytes[start..end], end == bytes.len())? {
                Step::Record { consumed, record } => {
                    let name = decoder.interfaces().name(record.interface).into();
                    let frame = Any::Can(record.frame);
                    records.push((record.time_ns, name, record.direction, frame));
                    start += consumed;
                }
                Step::Ethernet { consumed, record } => {
                    let name = decoder.interfaces().name(record.interface).into();
                    let packet = record.frame.slice(&bytes[start..end]);
                    let frame = Any::Ethernet(packet.bytes.to_vec(), packet.original_len);
                    records.push((record.time_ns, name, record.direction, frame));
                    start += consumed;
                }
                Step::Skip { consumed } => {
                    assert!(consumed > 0);
                    start += consumed;
                }
                Step::NeedMore => {
                    assert!(end < bytes.len(), "asks for more at the end");
                    end = bytes.len().min(end + chunks.next().unwrap_or(usize::MAX).max(1));
                }
                Step::End => {
                    assert_eq!(start, bytes.len());
                    return Ok(records);
                }
            }
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
        out
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
        let ethernet = (proptest::collection::vec(any::<u8>(), 0..70), any::<u32>())
            .prop_map(|(bytes, original_len)| Any::Ethernet(bytes, original_len));
        let frame = prop_oneof![3 => any_frame().prop_map(Any::Can), 1 => ethernet];
        (time, name.prop_map(String::from), direction, frame)
    }

    /// What is left of records after a stay in `format`.
    pub(crate) fn as_kept_by(format: &Format, records: &[AnyNamed]) -> Vec<AnyNamed> {
        let mut kept = records.to_vec();
        kept.retain(|(.., frame)| format.keeps_ethernet || matches!(frame, Any::Can(_)));
        for (time_ns, name, direction, _) in &mut kept {
            if !format.keeps_interfaces {
                *name = UNNAMED.into();
                *time_ns %= (1 << 32) * NANOS_PER_SECOND;
            }
            if !format.keeps_directions {
                *direction = None;
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
            for format in FORMATS {
                let records = as_kept_by(format, &records);
                let bytes = encode(format, &records);
                prop_assert_eq!(&decode_any(format, &bytes, &chunks).unwrap(), &records);
                prop_assert_eq!(&decode_any(format, &bytes, &[1]).unwrap(), &records);
                if !records.is_empty() || format.name != "candump" {
                    prop_assert_eq!(Format::by_content(&bytes), Some(*format));
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
            for format in FORMATS {
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

    #[test]
    fn formats_are_found_by_name_and_ending() {
        assert_eq!(Format::by_name("pcapng"), Some(&pcapng::FORMAT));
        assert_eq!(Format::by_name("pcapn"), None);
        assert_ne!(Format::by_name("pcap"), Format::by_name("pcapng"));
        assert_eq!(format!("{FORMATS:?}"), "[candump, pcap, pcapng]");
        for (file_name, name) in [
            ("a.log", Some("candump")),
            ("a.b.PCAP", Some("pcap")),
            ("dir.log/a.pcapng", Some("pcapng")),
            ("pcap", None),
            ("a.xlsx", None),
        ] {
            assert_eq!(Format::by_file_name(file_name).map(|format| format.name), name);
        }
    }
}
