//! A pcap capture of Ethernet with datagrams of can2udp, as its sender would have been recorded: it is only written. It is
//! read as any pcap capture, since it is one.
//!
//! Each frame is a UDP datagram over IPv4 to all, of version 1 if it is classical and of version 2 if it is CAN FD. Version
//! 2 has the time of the frame, too. Interfaces are numbered in the order of their first frames.

use super::pcap::{self, put_header, put_packet};
use super::{Format, Labels, usual};
use crate::encode::{EncodeError, Encoder};
use crate::format::link::Link;
use crate::record::{Interfaces, Record};
use candor_wire::can::tunnel::can2udp::{Datagram, MAX_LEN, PORT, Version};
use candor_wire::eth::udp::{self, Endpoint, HEADERS_LEN};
use candor_wire::eth::{Address, HEADER_LEN, Header, ether_type};

/// A pcap capture of Ethernet with datagrams of can2udp. No content and no file name stands for it.
pub static CAN2UDP: &Format = &Format {
    name: "can2udp",
    title: "pcap capture of can2udp",
    endings: &[],
    labels: Labels::None,
    keeps_directions: false,
    keeps_error_reports: true,
    is_written: true,
    encoder: |out| Box::new(Can2udpEncoder::new(out)),
    ..usual(pcap::FORMAT.decoder)
};

/// Bytes of the longest Ethernet frame.
const MAX_FRAME_LEN: usize = HEADER_LEN + HEADERS_LEN + MAX_LEN;

const HEADER: Header = Header {
    destination: Address([0xFF; 6]),
    // An address that nobody has registered.
    source: Address([0x02, 0, 0, 0, 0, 0x01]),
    tag: None,
    ether_type: ether_type::IPV4,
};
/// For documentation (RFC 5737), so of nobody.
const SOURCE: Endpoint = Endpoint { address: [192, 0, 2, 1], port: PORT };
const DESTINATION: Endpoint = Endpoint { address: [255; 4], port: PORT };

struct Can2udpEncoder {
    interfaces: Interfaces,
}

impl Can2udpEncoder {
    fn new(out: &mut Vec<u8>) -> Self {
        put_header(Link::ETHERNET_TYPE, out);
        Self { interfaces: Interfaces::default() }
    }
}

impl Encoder for Can2udpEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let number =
            self.interfaces.intern(interface.as_bytes()).map_err(EncodeError::Interface)?;
        let version = if record.frame.is_fd() { Version::V2 } else { Version::V1 };
        let datagram = Datagram {
            version,
            interface: number.0,
            frame: Some(record.frame),
            time_ns: Some(record.time_ns),
        };
        let mut data = [0; MAX_LEN];
        let mut frame = [0; MAX_FRAME_LEN];
        let len = datagram.encode(&mut data).and_then(|len| {
            let data = Ok(&data[..len]);
            let datagram = udp::Datagram { source: SOURCE, destination: DESTINATION, data };
            datagram.write(HEADER.write(&mut frame)?)
        });
        // There is room for the longest one.
        let len = len.map_or(0, |len| HEADER_LEN + len);
        put_packet(record.time_ns, &frame[..len], out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::tests::{Any, any_record, as_kept_by, decode_any, encode};
    use crate::{Format, InterfaceIndex};

    #[test]
    fn frames_are_written_as_can2udp_sends_them() {
        let record = |time_ns, frame: &str| Record {
            time_ns,
            interface: InterfaceIndex(9),
            direction: None,
            frame: frame.parse().unwrap(),
        };
        let mut out = Vec::new();
        let mut encoder = CAN2UDP.encoder(&mut out);
        assert_eq!(out[20..], [1, 0, 0, 0]);
        encoder.encode(&record(1_000_000_005, "123#AABB"), "b", &mut out).unwrap();
        #[rustfmt::skip]
        assert_eq!(out[24..], [
            1, 0, 0, 0, 5, 0, 0, 0, 62, 0, 0, 0, 62, 0, 0, 0,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 1, 8, 0,
            0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0xB8, 0xBC, 192, 0, 2, 1, 255, 255, 255, 255,
            0x12, 0xFA, 0x12, 0xFA, 0, 28, 0, 0,
            1, 0, 0, 0, 0x23, 1, 0, 0, 2, 0, 0, 0, 0xAA, 0xBB, 0, 0, 0, 0, 0, 0,
        ]);
        let len = out.len();
        encoder.encode(&record(2, "123##1AA"), "a", &mut out).unwrap();
        // Version 2, the second interface; its time at the end.
        let data = &out[len + 16 + 42..];
        assert_eq!(
            (data.len(), &data[..4], &data[76..]),
            (84, &[2, 0, 1, 0][..], &[2, 0, 0, 0, 0, 0, 0, 0][..])
        );
        let late = record(u64::MAX, "123#");
        assert_eq!(encoder.encode(&late, "a", &mut out), Err(EncodeError::TimeTooLate(u64::MAX)));
        assert_eq!(Format::by_content(&out), Format::by_name("pcap"));
        assert_eq!(Format::by_name("can2udp"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in prop::collection::vec(any_record(), 0..20)) {
            let mut records = as_kept_by(CAN2UDP, &records);
            let bytes = encode(CAN2UDP, &records);
            for (_, name, ..) in &mut records {
                *name = "udp4858.0".to_owned();
            }
            prop_assert!(records.iter().all(|(.., frame)| matches!(frame, Any::Can(_))));
            prop_assert_eq!(decode_any(CAN2UDP, &bytes, &[99]).unwrap(), records);
        }
    }
}
