//! [`CanUdp`]: the UDP port whose datagrams in a capture of Ethernet are CAN frames of can2udp.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use candor_wire::can::Frame;
use candor_wire::can::tunnel::can2udp;
use candor_wire::eth::udp;

use crate::decode::Reason;
use crate::record::{InterfaceIndex, Interfaces, Packet};

/// The UDP port whose datagrams in Ethernet frames are CAN frames of can2udp, which is 4858 by default; or none, and
/// Ethernet frames stay what they are.
///
/// The interface of such a CAN frame is called `udp4858.0`: by the UDP port, and by the number that can2udp gives the
/// interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanUdp(Option<NonZeroU16>);

impl CanUdp {
    /// Ethernet frames stay what they are.
    pub const NONE: Self = Self(None);
}

impl Default for CanUdp {
    fn default() -> Self {
        Self(NonZeroU16::new(can2udp::PORT))
    }
}

impl FromStr for CanUdp {
    type Err = NoPort;

    fn from_str(text: &str) -> Result<Self, NoPort> {
        match text {
            "none" => Ok(Self::NONE),
            _ => text.parse().map(|port| Self(Some(port))).map_err(|_| NoPort),
        }
    }
}

/// A text is no UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPort;

impl fmt::Display for NoPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a UDP port from 1 to 65535, or none")
    }
}
impl std::error::Error for NoPort {}

/// Finds CAN frames in Ethernet frames.
#[derive(Default)]
pub(crate) struct CanUdpReader {
    port: CanUdp,
    /// The number asked for last, and its interface: no name is made for each frame.
    latest: Option<(u16, InterfaceIndex)>,
}

impl CanUdpReader {
    pub(crate) fn new(port: CanUdp) -> Self {
        Self { port, latest: None }
    }

    /// The CAN frame in `packet`, an Ethernet frame, with its interface. `None` if it has none: it is of something
    /// else, or can2udp sent it because no frame came.
    pub(crate) fn read(
        &mut self,
        packet: Packet<'_>,
        interfaces: &mut Interfaces,
    ) -> Result<Option<(InterfaceIndex, Frame)>, Reason> {
        let Some(port) = self.port.0.map(NonZeroU16::get) else { return Ok(None) };
        let datagram = packet.parse().ok().and_then(|frame| udp::Datagram::parse(&frame));
        let Some(datagram) = datagram.filter(|it| it.destination.port == port) else {
            return Ok(None);
        };
        let data = datagram.data.map_err(|error| match error {
            udp::Incomplete::Cut(_) if packet.is_cut() => Reason::Number(
                "the capture keeps only ",
                packet.bytes.len() as u64,
                " bytes of the Ethernet frame; capture again with a snap length of at least 256 (`tcpdump -s 256`)",
            ),
            error => Reason::Udp(port, error),
        })?;
        let datagram =
            can2udp::Datagram::decode(data).map_err(|error| Reason::Can2udp(port, error))?;
        let Some(frame) = datagram.frame else { return Ok(None) };
        let interface = match self.latest {
            Some((number, interface)) if number == datagram.interface => interface,
            _ => {
                let name = format!("udp{port}.{}", datagram.interface);
                interfaces.intern(name.as_bytes()).map_err(Reason::Interface)?
            }
        };
        self.latest = Some((datagram.interface, interface));
        Ok(Some((interface, frame)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use candor_wire::can::tunnel::can2udp::{Datagram, MAX_LEN, Version};
    use candor_wire::eth::{Address, Header, Tag, ether_type};

    use super::*;

    /// An Ethernet frame with a datagram to this port.
    pub(crate) fn ethernet(port: u16, vlan: Option<u16>, data: &[u8]) -> Vec<u8> {
        let tag = vlan.map(|vlan| Tag { priority: 5, drop_eligible: false, vlan });
        let header = Header {
            destination: Address([0xFF; 6]),
            source: Address([2, 0, 0, 0, 0, 1]),
            tag,
            ether_type: ether_type::IPV4,
        };
        let source = udp::Endpoint { address: [192, 0, 2, 1], port: 40_000 };
        let destination = udp::Endpoint { address: [255; 4], port };
        let datagram = udp::Datagram { source, destination, data: Ok(data) };
        let mut bytes = vec![0; 1_514];
        let payload = header.write(&mut bytes).unwrap();
        let len = header.byte_len() + datagram.write(payload).unwrap();
        bytes.truncate(len);
        bytes
    }

    /// A datagram of can2udp; without a frame it says that none came.
    pub(crate) fn can2udp(version: Version, interface: u16, frame: Option<&str>) -> Vec<u8> {
        let frame = frame.map(|frame| frame.parse().unwrap());
        let mut out = [0; MAX_LEN];
        let len = Datagram { version, interface, frame, time_ns: None }.encode(&mut out).unwrap();
        out[..len].to_vec()
    }

    fn read(reader: &mut CanUdpReader, bytes: &[u8]) -> Result<Option<(String, Frame)>, String> {
        let mut interfaces = Interfaces::default();
        let packet = Packet { bytes, original_len: bytes.len() as u32 };
        let read = reader.read(packet, &mut interfaces).map_err(|reason| reason.to_string())?;
        Ok(read.map(|(index, frame)| (interfaces.name(index).to_owned(), frame)))
    }

    #[test]
    fn can_frames_are_found_by_their_port() {
        let first = can2udp(Version::V1, 0, Some("123#AABB"));
        let second = can2udp(Version::V2, 3, Some("12345678##3AABB"));
        let found = |name: &str, frame: &str| Some((name.to_owned(), frame.parse().unwrap()));
        for (can_udp, bytes, expected) in [
            ("4858", ethernet(4858, None, &first), found("udp4858.0", "123#AABB")),
            ("4858", ethernet(4858, Some(7), &first), found("udp4858.0", "123#AABB")),
            ("4858", ethernet(4858, None, &second), found("udp4858.3", "12345678##3AABB")),
            ("5000", ethernet(5000, None, &second), found("udp5000.3", "12345678##3AABB")),
            ("5000", ethernet(4858, None, &first), None),
            ("none", ethernet(4858, None, &first), None),
            ("4858", ethernet(4858, None, &can2udp(Version::V1, 0, None)), None),
            ("4858", vec![], None),
            ("4858", ethernet(4858, None, &first)[..36].to_vec(), None),
        ] {
            let mut reader = CanUdpReader::new(can_udp.parse().unwrap());
            assert_eq!(read(&mut reader, &bytes), Ok(expected), "{can_udp} {bytes:02x?}");
        }
        assert_eq!("4858".parse(), Ok(CanUdp::default()));
        for text in ["", "0", "65536", "None", "4858 "] {
            assert_eq!(text.parse::<CanUdp>(), Err(NoPort), "{text}");
        }
        assert!(NoPort.to_string().starts_with("write a UDP port"));
    }

    #[test]
    fn interfaces_are_kept_apart() {
        let mut interfaces = Interfaces::default();
        let mut reader = CanUdpReader::default();
        let names = [1, 0, 0, 1, 65_535].map(|number| {
            let bytes = ethernet(4858, None, &can2udp(Version::V1, number, Some("001#")));
            let packet = Packet { bytes: &bytes, original_len: bytes.len() as u32 };
            let (index, _) = reader.read(packet, &mut interfaces).unwrap().unwrap();
            interfaces.name(index).to_owned()
        });
        let [zero, one, last] = ["udp4858.0", "udp4858.1", "udp4858.65535"];
        assert_eq!(names, [one, zero, zero, one, last]);
    }

    #[test]
    fn what_is_not_can2udp_says_why() {
        let good = can2udp(Version::V1, 0, Some("123#AABB"));
        let with = |at: usize, byte| {
            let mut bytes = ethernet(4858, None, &good);
            bytes[at] = byte;
            bytes
        };
        let whole = ethernet(4858, None, &good);
        for (bytes, message) in [
            (
                with(42, 9),
                "the datagram to UDP port 4858 is not of can2udp: byte 0: unknown version 9; \
                 set --can-udp (can_udp= of a file port) to the UDP port of the CAN frames, or to none",
            ),
            (
                ethernet(4858, None, &good[..19]),
                "the datagram to UDP port 4858 is not of can2udp: byte 19: the bytes end here, but 1 \
                 more are needed; set --can-udp",
            ),
            (with(20, 0x20), "UDP port 4858: the datagram is cut into IP fragments; set --can-udp"),
            (with(39, 29), "UDP port 4858: the UDP length 29 contradicts"),
            (
                whole[..50].to_vec(),
                "UDP port 4858: the frame ends before its datagram, of which 12",
            ),
        ] {
            let error = read(&mut CanUdpReader::default(), &bytes).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        let cut = Packet { bytes: &whole[..50], original_len: 62 };
        let read = CanUdpReader::default().read(cut, &mut Interfaces::default());
        let error = read.unwrap_err().to_string();
        assert!(
            error.starts_with("the capture keeps only 50 bytes of the Ethernet frame; capture")
        );
    }
}
