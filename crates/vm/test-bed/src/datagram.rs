//! [`Datagram`]: an IPv4 datagram as another computer sends it, cut into frames; and what of an answer a frame has.
//!
//! The formats are those of RFC 791 (IPv4), RFC 792 (ICMP echo) and RFC 768 (UDP).

use candor_hardware::ethernet::{HEAD_BYTES, Outgoing};
use candor_wire::eth::{Address, Header, MAX_PAYLOAD_LEN, ether_type};

/// Bytes of the longest frame, without its check sequence.
pub const MOST_FRAME_BYTES: usize = ETHERNET_BYTES + MAX_PAYLOAD_LEN;
/// Bytes of the longest data of a datagram: 65,535 with the headers of IPv4 and of ICMP or UDP.
pub const MOST_DATA_BYTES: u16 = 65_535 - IP_BYTES as u16 - UPPER_BYTES as u16;
const ETHERNET_BYTES: usize = candor_wire::eth::HEADER_LEN;
const IP_BYTES: usize = 20;
/// Of ICMP echo and of UDP.
const UPPER_BYTES: usize = 8;
/// What a fragment has at most, a multiple of 8 bytes.
const FRAGMENT_BYTES: usize = (MAX_PAYLOAD_LEN - IP_BYTES) / 8 * 8;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// By which replies are known.
const IDENTIFIER: u16 = 0xCA4D;
/// To discard (RFC 863).
const DISCARD_PORT: u16 = 9;
const MORE_FRAGMENTS: u16 = 0x2000;

/// A computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub card: Address,
    /// Its IPv4 address.
    pub ip: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ICMP echo request, which is answered.
    Echo,
    /// UDP to the port for discarding.
    Udp,
}

/// A datagram. Byte `n` of its data is `n` modulo 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub kind: Kind,
    /// How much data it has: [`MOST_DATA_BYTES`] at most.
    pub data_bytes: u16,
    /// Its number, by which its answer is known.
    pub number: u16,
    /// Who sends it.
    pub from: Endpoint,
    /// Who receives it.
    pub to: Endpoint,
}

impl Datagram {
    /// Bytes behind the header of IPv4.
    const fn bytes(&self) -> usize {
        UPPER_BYTES + self.data_bytes as usize
    }

    /// How many frames it is cut into.
    #[must_use]
    pub const fn frame_count(&self) -> u16 {
        self.bytes().div_ceil(FRAGMENT_BYTES) as u16
    }

    /// Where a fragment begins, and how many bytes it has.
    fn fragment(&self, fragment: u16) -> (usize, usize) {
        let begin = usize::from(fragment) * FRAGMENT_BYTES;
        (begin, self.bytes().saturating_sub(begin).min(FRAGMENT_BYTES))
    }

    /// How many bytes the frame of a fragment has, without padding and check sequence.
    #[must_use]
    pub fn frame_len(&self, fragment: u16) -> usize {
        ETHERNET_BYTES + IP_BYTES + self.fragment(fragment).1
    }

    /// The frame of a fragment; the first `frame_len` bytes of what is returned.
    #[must_use]
    pub fn frame(&self, fragment: u16) -> [u8; MOST_FRAME_BYTES] {
        let (begin, length) = self.fragment(fragment);
        let mut frame = [0; MOST_FRAME_BYTES];
        let header = Header {
            destination: self.to.card,
            source: self.from.card,
            tag: None,
            ether_type: ether_type::IPV4,
        };
        let Some(packet) = header.write(&mut frame) else { return frame };
        let (ip, payload) = packet.split_at_mut(IP_BYTES);
        let more = if begin + length < self.bytes() { MORE_FRAGMENTS } else { 0 };
        let [length_high, length_low] = ((IP_BYTES + length) as u16).to_be_bytes();
        let [number_high, number_low] = self.number.to_be_bytes();
        let [place_high, place_low] = (more | (begin / 8) as u16).to_be_bytes();
        let protocol = match self.kind {
            Kind::Echo => ICMP,
            Kind::Udp => UDP,
        };
        ip[..12].copy_from_slice(&[
            0x45,
            0,
            length_high,
            length_low,
            number_high,
            number_low,
            place_high,
            place_low,
            64,
            protocol,
            0,
            0,
        ]);
        ip[12..16].copy_from_slice(&self.from.ip);
        ip[16..].copy_from_slice(&self.to.ip);
        let checksum = checksum(ip.iter().copied());
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        for (at, byte) in (begin..).zip(&mut payload[..length]) {
            *byte = at.wrapping_sub(UPPER_BYTES) as u8;
        }
        if begin == 0 {
            payload[..UPPER_BYTES].copy_from_slice(&self.upper());
        }
        frame
    }

    /// The header of ICMP or UDP.
    fn upper(&self) -> [u8; UPPER_BYTES] {
        let halves = match self.kind {
            Kind::Echo => [u16::from(ECHO_REQUEST) << 8, 0, IDENTIFIER, self.number],
            // A checksum of 0: there is none.
            Kind::Udp => [DISCARD_PORT, DISCARD_PORT, self.bytes() as u16, 0],
        };
        let mut header = [0; UPPER_BYTES];
        for (place, half) in header.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            *place = half.to_be_bytes();
        }
        if self.kind == Kind::Echo {
            let data = (0..self.data_bytes).map(|at| at as u8);
            let checksum = checksum(header.into_iter().chain(data));
            header[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        header
    }
}

/// The checksum of RFC 1071.
fn checksum(mut bytes: impl Iterator<Item = u8>) -> u16 {
    let mut sum = 0_u64;
    while let Some(high) = bytes.next() {
        sum += u64::from(u16::from_be_bytes([high, bytes.next().unwrap_or(0)]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// A part of an echo reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// By which the fragments of one datagram are known.
    pub(crate) identification: u16,
    /// The number of the request, if this is the first fragment.
    pub(crate) number: Option<u16>,
    /// How many bytes of ICMP it has.
    pub(crate) bytes: u32,
    /// How many bytes there are in all, if this is the last fragment.
    pub(crate) total: Option<u32>,
}

impl Reply {
    /// What of an echo reply the frame has; `None` if it is of something else.
    pub(crate) fn of(frame: &Outgoing) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = &frame.head;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let ip = ETHERNET_BYTES;
        let upper = ip + IP_BYTES;
        if half(ip - 2) != ether_type::IPV4 || head[ip] != 0x45 || head[ip + 9] != ICMP {
            return None;
        }
        let bytes = half(ip + 2).checked_sub(IP_BYTES as u16)?;
        let place = half(ip + 6);
        let begin = u32::from(place & 0x1FFF) * 8;
        let is_ours =
            [head[upper], head[upper + 1]] == [ECHO_REPLY, 0] && half(upper + 4) == IDENTIFIER;
        if begin == 0 && !is_ours {
            return None;
        }
        let total = (place & MORE_FRAGMENTS == 0).then_some(begin + u32::from(bytes));
        Some(Self {
            identification: half(ip + 4),
            number: (begin == 0).then(|| half(upper + 6)),
            bytes: bytes.into(),
            total,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::vec::Vec;

    use super::*;

    pub(crate) const fn endpoint(last: u8) -> Endpoint {
        Endpoint { card: Address([0x52, 0x54, 0, 0, 0, last]), ip: [10, 47, 0, last] }
    }

    pub(crate) fn datagram(kind: Kind, data_bytes: u16) -> Datagram {
        Datagram { kind, data_bytes, number: 0x1234, from: endpoint(2), to: endpoint(1) }
    }

    fn frames(datagram: &Datagram) -> Vec<Vec<u8>> {
        let whole = |at| datagram.frame(at)[..datagram.frame_len(at)].to_vec();
        (0..datagram.frame_count()).map(whole).collect()
    }

    /// The frames as the guest would send them back: request and reply differ in type and addresses only.
    pub(crate) fn reply_to(datagram: &Datagram) -> Vec<Outgoing> {
        let swapped = Datagram { from: datagram.to, to: datagram.from, ..*datagram };
        let frames = frames(&swapped).into_iter();
        frames
            .map(|mut frame| {
                if frame[20..22] == [0x20, 0] || frame[20..22] == [0, 0] {
                    frame[34] = 0;
                }
                let mut head = [0; HEAD_BYTES];
                head.iter_mut().zip(&frame).for_each(|(to, &from)| *to = from);
                Outgoing { next: 0, len: frame.len() as u32, head }
            })
            .collect()
    }

    #[test]
    fn a_short_datagram_is_one_frame() {
        let echo = &frames(&datagram(Kind::Echo, 4))[0];
        #[rustfmt::skip]
        assert_eq!(echo[..], [
            0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 8, 0,
            0x45, 0, 0, 32, 0x12, 0x34, 0, 0, 64, 1, 0x54, 0x49, 10, 47, 0, 2, 10, 47, 0, 1,
            8, 0, 0x19, 0x7A, 0xCA, 0x4D, 0x12, 0x34, 0, 1, 2, 3,
        ]);
        let udp = &frames(&datagram(Kind::Udp, 3))[0];
        #[rustfmt::skip]
        assert_eq!(udp[14..], [
            0x45, 0, 0, 31, 0x12, 0x34, 0, 0, 64, 17, 0x54, 0x3A, 10, 47, 0, 2, 10, 47, 0, 1,
            0, 9, 0, 9, 0, 11, 0, 0, 0, 1, 2,
        ]);
    }

    #[test]
    fn a_long_datagram_is_cut() {
        for (data_bytes, lengths) in [
            (0, (1, 42)),
            (1_472, (1, 1_514)),
            (1_473, (2, 35)),
            (60_000, (41, 842)),
            (MOST_DATA_BYTES, (45, 34 + 65_515 - 44 * 1_480)),
        ] {
            let frames = frames(&datagram(Kind::Echo, data_bytes));
            assert_eq!((frames.len(), frames.last().unwrap().len()), lengths, "{data_bytes}");
            assert!(frames.iter().rev().skip(1).all(|frame| frame.len() == 1_514));
            // Put together again, it is whole.
            let parts = frames.iter().flat_map(|frame| &frame[34..]).copied();
            let all: Vec<u8> = parts.collect();
            assert_eq!(all.len(), 8 + usize::from(data_bytes));
            assert!((0..data_bytes).zip(&all[8..]).all(|(at, &byte)| byte == at as u8));
            // What has its checksum in it has the checksum 0.
            assert_eq!(checksum(all.into_iter()), 0, "{data_bytes}");
            for (at, frame) in frames.iter().enumerate() {
                assert_eq!(checksum(frame[14..34].iter().copied()), 0);
                let place = u16::from_be_bytes([frame[20], frame[21]]);
                assert_eq!(usize::from(place & 0x1FFF) * 8, at * 1_480);
                assert_eq!(place & MORE_FRAGMENTS != 0, at + 1 < frames.len());
            }
        }
    }

    #[test]
    fn replies_are_known() {
        let replies = reply_to(&datagram(Kind::Echo, 3_000));
        let parts: Vec<_> = replies.iter().map(|frame| Reply::of(frame).unwrap()).collect();
        let part = |number, bytes, total| Reply { identification: 0x1234, number, bytes, total };
        let expected =
            [part(Some(0x1234), 1_480, None), part(None, 1_480, None), part(None, 48, Some(3_008))];
        assert_eq!(parts, expected);
        let change = |at: usize, byte| {
            let mut frame = replies[0];
            frame.head[at] = byte;
            Reply::of(&frame)
        };
        // Another type of frame, options, another protocol, a request, another program's, less than a header.
        for (at, byte) in [(12, 9), (14, 0x46), (23, 17), (34, 8), (38, 0), (16, 0)] {
            let (was, is) = (change(0, 0), change(at, byte));
            assert!(was.is_some() && (is.is_none() || at == 16), "{at}");
        }
        let mut short = replies[0];
        short.head[16..18].fill(0);
        assert_eq!(Reply::of(&short), None);
    }
}
