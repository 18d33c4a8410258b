//! [`Datagram`]: UDP over IPv4 (RFC 768, RFC 791) in one Ethernet frame.
//!
//! Check sums are written and not verified: where a network card computes them, a capture on the sending machine
//! has the frames without them.

use core::fmt;

use super::{Frame, ether_type};

/// Bytes of the header of IPv4 without options.
const IP_LEN: usize = 20;
/// Bytes of the header of UDP.
const UDP_LEN: usize = 8;
/// Bytes of both headers that a frame must have for its ports to be known.
const PORTS_LEN: usize = 4;
/// The protocol number of UDP.
const UDP: u8 = 17;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1FFF;
/// How many networks a datagram may cross.
const HOPS: u8 = 64;
/// Bytes that [`Datagram::write`] puts before the data.
pub const HEADERS_LEN: usize = IP_LEN + UDP_LEN;

/// Where a datagram comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The IPv4 address.
    pub address: [u8; 4],
    /// The UDP port.
    pub port: u16,
}

/// A UDP datagram over IPv4: a view of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: Endpoint,
    /// Who is to receive it.
    pub destination: Endpoint,
    /// Its data, or why they are not in this frame.
    pub data: Result<&'a [u8], Incomplete>,
}

/// Why the data of a datagram are not in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// The frame is the first of several fragments.
    Fragment,
    /// The frame ends too early; how many bytes are missing at least.
    Cut(usize),
    /// The length in the header of UDP contradicts that in the header of IPv4; the length of UDP.
    Length(u16),
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fragment => f.write_str("the datagram is cut into IP fragments"),
            Self::Cut(missing) => {
                write!(
                    f,
                    "the frame ends before its datagram, of which {missing} bytes are missing"
                )
            }
            Self::Length(len) => {
                write!(f, "the UDP length {len} contradicts the length of the IP packet")
            }
        }
    }
}
impl core::error::Error for Incomplete {}

impl<'a> Datagram<'a> {
    /// The datagram in a frame. `None` if the frame is of something else, has a later fragment, or ends before the
    /// ports do.
    #[must_use]
    pub fn parse(frame: &Frame<'a>) -> Option<Self> {
        let ip = frame.payload;
        if frame.header.ether_type != ether_type::IPV4 {
            return None;
        }
        let header = ip.first_chunk::<IP_LEN>()?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let header_len = usize::from(header[0] & 0xF) * 4;
        let fragment = half(6);
        let is_udp = header[0] >> 4 == 4 && header_len >= IP_LEN && header[9] == UDP;
        if !is_udp || fragment & FRAGMENT_OFFSET != 0 {
            return None;
        }
        // What is behind the packet pads the frame.
        let total = usize::from(half(2));
        let packet = ip.get(..total).unwrap_or(ip);
        let udp = packet.get(header_len..)?;
        let [s0, s1, d0, d1] = *udp.first_chunk::<PORTS_LEN>()?;
        let data = match udp.first_chunk::<UDP_LEN>() {
            _ if fragment & MORE_FRAGMENTS != 0 => Err(Incomplete::Fragment),
            None if packet.len() < total => Err(Incomplete::Cut(total - packet.len())),
            None => Err(Incomplete::Cut(UDP_LEN - udp.len())),
            Some(&[.., l0, l1, _, _]) => {
                let len = u16::from_be_bytes([l0, l1]);
                let is_right = (UDP_LEN..=total - header_len).contains(&usize::from(len));
                match udp.get(UDP_LEN..usize::from(len)) {
                    _ if !is_right => Err(Incomplete::Length(len)),
                    None => Err(Incomplete::Cut(usize::from(len) - udp.len())),
                    Some(data) => Ok(data),
                }
            }
        };
        let [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = *header;
        Some(Self {
            source: Endpoint { address: [a, b, c, d], port: u16::from_be_bytes([s0, s1]) },
            destination: Endpoint { address: [e, f, g, h], port: u16::from_be_bytes([d0, d1]) },
            data,
        })
    }

    /// Writes the headers and the data to the start of `payload`, that of a frame, and returns how many bytes they
    /// have; `None` if they do not fit or are not there. There is no check sum of UDP, which is optional.
    #[must_use]
    pub fn write(&self, payload: &mut [u8]) -> Option<usize> {
        let data = self.data.ok()?;
        let len = HEADERS_LEN + data.len();
        let (header, rest) = payload.get_mut(..len)?.split_first_chunk_mut::<HEADERS_LEN>()?;
        let ([l0, l1], [u0, u1]) = (
            u16::try_from(len).ok()?.to_be_bytes(),
            u16::try_from(UDP_LEN + data.len()).ok()?.to_be_bytes(),
        );
        let ([a, b, c, d], [e, f, g, h]) = (self.source.address, self.destination.address);
        let ([s0, s1], [d0, d1]) =
            (self.source.port.to_be_bytes(), self.destination.port.to_be_bytes());
        #[rustfmt::skip]
        let bytes = [
            0x45, 0, l0, l1, 0, 0, 0, 0, HOPS, UDP, 0, 0, a, b, c, d, e, f, g, h,
            s0, s1, d0, d1, u0, u1, 0, 0,
        ];
        *header = bytes;
        let [c0, c1] = check_sum(&bytes[..IP_LEN]).to_be_bytes();
        [header[10], header[11]] = [c0, c1];
        rest.copy_from_slice(data);
        Some(len)
    }
}

/// The check sum of RFC 1071 of the header of IPv4, an even number of bytes.
fn check_sum(bytes: &[u8]) -> u16 {
    let halves = bytes.as_chunks::<2>().0.iter();
    let mut sum: u32 = halves.map(|half| u32::from(u16::from_be_bytes(*half))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::eth::{Address, Header};

    const HEADER: Header = Header {
        destination: Address([0xFF; 6]),
        source: Address([2, 0, 0, 0, 0, 1]),
        tag: None,
        ether_type: ether_type::IPV4,
    };

    const SOURCE: Endpoint = Endpoint { address: [10, 47, 0, 2], port: 9 };
    const DESTINATION: Endpoint = Endpoint { address: [10, 47, 0, 1], port: 4858 };

    /// A packet with three bytes of data, and its check sum.
    #[rustfmt::skip]
    const PACKET: [u8; 31] = [
        0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0x66, 0x6E, 10, 47, 0, 2, 10, 47, 0, 1,
        0, 9, 0x12, 0xFA, 0, 11, 0, 0, 1, 2, 3,
    ];

    fn parse(payload: &[u8]) -> Option<Datagram<'_>> {
        Datagram::parse(&Frame { header: HEADER, payload })
    }

    #[test]
    fn a_datagram_is_read_and_written() {
        let datagram =
            Datagram { source: SOURCE, destination: DESTINATION, data: Ok(&[1, 2, 3][..]) };
        assert_eq!(parse(&PACKET), Some(datagram));
        let mut out = [0xEE; 40];
        assert_eq!(datagram.write(&mut out), Some(31));
        assert_eq!((&out[..31], &out[31..]), (&PACKET[..], &[0xEE; 9][..]));
        assert_eq!(datagram.write(&mut out[..30]), None);
        let incomplete = Datagram { data: Err(Incomplete::Fragment), ..datagram };
        assert_eq!(incomplete.write(&mut out), None);

        // Padding does not count, nor do options.
        assert_eq!(parse(&[&PACKET[..], &[0; 15]].concat()), Some(datagram));
        let mut options = [&PACKET[..20], &[1; 4], &PACKET[20..]].concat();
        (options[0], options[3]) = (0x46, 35);
        assert_eq!(parse(&options), Some(datagram));
    }

    #[test]
    fn what_is_no_datagram_is_none() {
        for len in 0..24 {
            assert_eq!(parse(&PACKET[..len]), None, "{len}");
        }
        // IPv6, a header too short, a later fragment, TCP, a length without the ports.
        for (at, byte) in [(0, 0x65), (0, 0x44), (0, 0x4F), (7, 1), (6, 0x01), (9, 6), (3, 23)] {
            let mut packet = PACKET;
            packet[at] = byte;
            assert_eq!(parse(&packet), None, "{at}");
        }
        let header = Header { ether_type: ether_type::IPV6, ..HEADER };
        assert_eq!(Datagram::parse(&Frame { header, payload: &PACKET }), None);
    }

    #[test]
    fn what_is_not_there_says_why() {
        let data = |packet: &[u8]| {
            let datagram = parse(packet).unwrap();
            assert_eq!((datagram.source, datagram.destination), (SOURCE, DESTINATION));
            datagram.data.unwrap_err()
        };
        for len in 24..31 {
            assert_eq!(data(&PACKET[..len]), Incomplete::Cut(31 - len));
        }
        let with = |at: usize, byte| {
            let mut packet = PACKET;
            packet[at] = byte;
            data(&packet)
        };
        assert_eq!(with(6, 0x20), Incomplete::Fragment);
        assert_eq!(with(25, 12), Incomplete::Length(12));
        assert_eq!(with(25, 7), Incomplete::Length(7));
        assert_eq!(with(3, 26), Incomplete::Cut(2));
        assert_eq!(with(3, 28), Incomplete::Length(11));
        for (reason, words) in [
            (Incomplete::Fragment, "IP fragments"),
            (Incomplete::Cut(2), "2 bytes are missing"),
            (Incomplete::Length(7), "UDP length 7"),
        ] {
            assert!(alloc::format!("{reason}").contains(words));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            source: ([u8; 4], u16),
            destination: ([u8; 4], u16),
            data in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let endpoint = |(address, port)| Endpoint { address, port };
            let (source, destination) = (endpoint(source), endpoint(destination));
            let datagram = Datagram { source, destination, data: Ok(&data[..]) };
            let mut out = [0; 100];
            let len = datagram.write(&mut out).unwrap();
            prop_assert_eq!(parse(&out[..len]), Some(datagram));
            prop_assert_eq!(check_sum(&out[..IP_LEN]), 0);
        }

        #[test]
        fn any_bytes_end(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            first in prop::sample::select(Vec::from([0x45_u8, 0x46, 0x4F])),
            total in 0..64_u8,
        ) {
            let mut bytes = bytes;
            for (at, byte) in [(0, first), (2, 0), (3, total), (6, 0), (7, 0), (9, UDP)] {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            if let Some(Datagram { data: Ok(data), .. }) = parse(&bytes) {
                prop_assert!(data.len() + HEADERS_LEN <= bytes.len());
            }
        }
    }
}
