//! What the packets of a capture are, by its link type (the list of LINKTYPE_ values of tcpdump.org).
//!
//! | link type | packets |
//! |--:|---|
//! | 1 | Ethernet |
//! | 113 | Linux cooked (`tcpdump -i any`): kind of packet u16 at 0, protocol u16 at 14, payload from 16 on |
//! | 227 | SocketCAN |
//! | 276 | Linux cooked, version 2: protocol u16 at 0, number of the interface u32 at 4, kind of packet u8 at 10, payload from 20 on |
//!
//! Protocols 12 and 13 are CAN and CAN FD (`pcap/sll.h` of libpcap). The numbers of a cooked header are big-endian. The identifier of
//! its frame is in the order of the machine that captured, which is that of the file (`swap_linux_sll_header` of libpcap's
//! `pcap-util.c`); that of link type 227 is always big-endian. A packet of kind 4 was sent by the machine.

use candor_wire::can::socketcan::{self, CANFD_MTU, FDF, IdOrder};
use candor_wire::can::{Frame, FrameError};

use super::order::Order;
use crate::decode::Reason;
use crate::record::Direction;

/// A packet of which more is there than there was: one of its two lengths is wrong. Wireshark refuses such a block of
/// pcapng. A length of 0 is none: some recorders leave it so, and all was captured that there was.
pub(super) const MORE_THAN_THERE_WAS: Reason =
    Reason::Text("more bytes of the packet are there than it had; the capture is damaged there");

/// The length that a packet had, of which so many bytes are there.
pub(super) const fn original_len(said: u32, captured: u32) -> u32 {
    if said == 0 { captured } else { said }
}

const CAN_PROTOCOL: u16 = 12;
const CANFD_PROTOCOL: u16 = 13;
const OUTGOING: u16 = 4;

/// A link type that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Can,
    Ethernet,
    Cooked,
    Cooked2,
}

/// A frame, and what its packet says about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of the interface on the machine that captured.
    pub(super) interface: Option<u32>,
    pub(super) direction: Option<Direction>,
    pub(super) frame: Frame,
}

impl Link {
    pub(super) const CAN_TYPE: u16 = 227;
    pub(super) const ETHERNET_TYPE: u16 = 1;

    pub(super) fn new(link_type: u16) -> Option<Self> {
        match link_type {
            Self::CAN_TYPE => Some(Self::Can),
            Self::ETHERNET_TYPE => Some(Self::Ethernet),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }

    /// Whether packets may be longer than any frame of CAN.
    pub(super) fn has_long_packets(self) -> bool {
        self != Self::Can
    }

    /// Reads the frame of a packet of any interface, of which the recorder may have kept only the start; `None` if it is of another
    /// protocol or link type.
    pub(super) fn read_cooked(
        self,
        order: Order,
        packet: &[u8],
        original_len: u32,
    ) -> Result<Option<Found>, Reason> {
        let (protocol_at, kind, interface, payload_at) = match self {
            Self::Ethernet | Self::Can => return Ok(None),
            Self::Cooked => (14, Order::Big.u16(packet, 0), None, 16),
            Self::Cooked2 => {
                let kind = packet.get(10).copied().unwrap_or_default();
                (0, u16::from(kind), Some(Order::Big.u32(packet, 4)), 20)
            }
        };
        let Some(payload) = packet.get(payload_at..) else {
            return Err(Reason::Number(
                "the packet has ",
                packet.len() as u64,
                " bytes, fewer than its header; the capture is damaged",
            ));
        };
        let id_order = match order {
            Order::Big => IdOrder::BigEndian,
            Order::Little => IdOrder::LittleEndian,
        };
        let frame = match Order::Big.u16(packet, protocol_at) {
            CAN_PROTOCOL => frame(payload, id_order, packet.len(), original_len)?,
            CANFD_PROTOCOL => {
                // The protocol says what the flag need not.
                let mut bytes = [0; CANFD_MTU];
                let len = payload.len().min(CANFD_MTU);
                bytes[..len].copy_from_slice(&payload[..len]);
                bytes[5] |= FDF;
                frame(&bytes[..len], id_order, packet.len(), original_len)?
            }
            _ => return Ok(None),
        };
        let direction = match kind {
            OUTGOING => Direction::Transmitted,
            _ => Direction::Received,
        };
        Ok(Some(Found { interface, direction: Some(direction), frame }))
    }
}

/// Reads the packet of one frame of SocketCAN, of which the recorder may have kept only the start.
pub(super) fn read_can(packet: &[u8], original_len: u32) -> Result<Frame, Reason> {
    frame(packet, IdOrder::BigEndian, packet.len(), original_len)
}

/// The frame in `bytes`, of a packet of which so many bytes were kept and so many there were.
#[inline]
fn frame(bytes: &[u8], order: IdOrder, kept: usize, original_len: u32) -> Result<Frame, Reason> {
    socketcan::decode(bytes, order).map_err(|error| match error {
        FrameError::Short(..) if original_len as usize > kept => Reason::Number(
            "the capture keeps only ",
            kept as u64,
            " bytes of the frame; capture again with a snap length of at least 92 \
             (`tcpdump -s 92`)",
        ),
        error => Reason::Frame(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooked_packets_are_frames_of_both_directions() {
        let classical = |order: Order| {
            let id = match order {
                Order::Big => 0x9234_5678_u32.to_be_bytes(),
                Order::Little => 0x9234_5678_u32.to_le_bytes(),
            };
            [&id[..], &[2, 0, 0, 0, 0xAA, 0xBB, 0, 0, 0, 0, 0, 0]].concat()
        };
        let mut fd = vec![0; 72];
        fd[..6].copy_from_slice(&[0x23, 0x01, 0, 0, 3, 0]);
        let first =
            |kind: u8, protocol: u8| [0, kind, 1, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, protocol];
        let second = |kind: u8, protocol: u8| {
            [0, protocol, 0, 0, 0, 0, 1, 2, 1, 24, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        for (order, kind, direction) in
            [(Order::Little, 1, Direction::Received), (Order::Big, 4, Direction::Transmitted)]
        {
            let payload = classical(order);
            let frame: Frame = "12345678#AABB".parse().unwrap();
            let direction = Some(direction);
            for (link, interface, header) in [
                (Link::Cooked, None, first(kind, 12).to_vec()),
                (Link::Cooked2, Some(0x102), second(kind, 12).to_vec()),
            ] {
                let packet = [header, payload.clone()].concat();
                let found = link.read_cooked(order, &packet, packet.len() as u32);
                assert_eq!(found, Ok(Some(Found { interface, direction, frame })), "{link:?}");
                for len in 0..packet.len() - 6 {
                    let cut = link.read_cooked(order, &packet[..len], packet.len() as u32);
                    assert!(cut.is_err(), "{link:?} {len}");
                }
            }
        }
        let packet = [&first(0, 13)[..], &fd].concat();
        let found = Link::Cooked.read_cooked(Order::Little, &packet, 88).unwrap().unwrap();
        assert_eq!(found.frame.to_string(), "123##0000000");
        // Short, as a recorder that keeps only the data leaves it.
        let found =
            Link::Cooked.read_cooked(Order::Little, &packet[..16 + 11], 88).unwrap().unwrap();
        assert_eq!(found.frame.to_string(), "123##0000000");
        for protocol in [0, 8, 14] {
            let packet = [&first(0, protocol)[..], &fd].concat();
            assert_eq!(
                Link::Cooked.read_cooked(Order::Little, &packet, 88),
                Ok(None),
                "{protocol}"
            );
        }
    }
}
