//! Ethernet: headers and addresses as bytes, UDP datagrams and time-triggered traffic in frames, and how long frames
//! take on a link (IEEE 802.3, IEEE 802.1Q).
//!
//! A frame is a view of bytes, since it has up to 1,522 of them: nothing is copied.
//!
//! ```
//! use candor_wire::eth::{Frame, LinkSpeed, wire_len};
//!
//! let mut bytes = [0; 60];
//! bytes[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
//! bytes[12..14].copy_from_slice(&0x88B5_u16.to_be_bytes());
//! let frame = Frame::parse(&bytes)?;
//! assert_eq!((frame.header.destination.to_string().as_str(), frame.header.ether_type), ("02:00:00:00:00:01", 0x88B5));
//!
//! // The shortest frame: 64 bytes with its check sequence, 8 before it and 12 after it.
//! assert_eq!(wire_len(bytes.len()), 84);
//! assert_eq!(LinkSpeed::MBIT_100.duration_ns(wire_len(bytes.len())), 6_720);
//! # Ok::<(), candor_wire::eth::TooShort>(())
//! ```

mod address;
mod fcs;
mod header;
mod link;
pub mod tte;
pub mod udp;

pub use address::{Address, AddressError};
pub use fcs::fcs;
pub use header::{Frame, Header, Tag, TooShort};
pub use link::{LinkSpeed, wire_len};

/// Bytes of a header without a tag: two addresses and the type.
pub const HEADER_LEN: usize = 14;
/// Bytes of a VLAN tag (IEEE 802.1Q, clause 9.4).
pub const TAG_LEN: usize = 4;
/// Bytes of the frame check sequence.
pub const FCS_LEN: usize = 4;
/// Bytes of the shortest frame, with its check sequence; shorter ones are padded (`minFrameSize`, IEEE 802.3,
/// clause 4.4.2).
pub const MIN_LEN: usize = 64;
/// Bytes of payload that a frame has at most (`maxBasicDataSize`, IEEE 802.3, clause 3.2.7).
pub const MAX_PAYLOAD_LEN: usize = 1_500;
/// Bytes of preamble and start of frame delimiter (IEEE 802.3, clause 3.1.1).
pub const PREAMBLE_LEN: usize = 8;
/// Bytes of the gap between frames: 96 bit times (`interPacketGap`, IEEE 802.3, clause 4.4.2).
pub const GAP_LEN: usize = 12;

/// Values of [`Header::ether_type`]. Those below [`FIRST`](ether_type::FIRST) are lengths.
pub mod ether_type {
    /// The first value that is a type (IEEE 802.3, clause 3.2.6).
    pub const FIRST: u16 = 0x0600;
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// A VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86DD;
    /// For local experiments (IEEE 802, clause 9.2.4).
    pub const EXPERIMENTAL: u16 = 0x88B5;
    /// Time-triggered Ethernet (SAE AS6802).
    pub const TTETHERNET: u16 = 0x88D7;
    /// Protocol control frames of time-triggered Ethernet (SAE AS6802).
    pub const TTETHERNET_PCF: u16 = 0x891D;
    /// The Precision Time Protocol (IEEE 1588, annex E).
    pub const PTP: u16 = 0x88F7;
}
