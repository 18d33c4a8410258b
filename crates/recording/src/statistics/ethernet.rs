//! What a recording says about its Ethernet links.

use std::collections::BTreeMap;

use candor_wire::eth::{Address, ether_type, wire_len};

use super::{PeriodStatistics, Span, rate};
use crate::record::{InterfaceIndex, Packet, Record};

/// How many different streams get statistics of their own; frames of further ones are only counted
/// ([`EthernetStatistics::unlisted_frames`]).
pub const MAX_STREAMS: usize = 65_536;

/// The statistics of the Ethernet frames of a recording. Memory grows with the number of different streams only, up
/// to [`MAX_STREAMS`].
#[derive(Debug, Default)]
pub struct EthernetStatistics {
    /// How many frames there are.
    pub frames: u64,
    /// Of how many frames the recorder kept only the start.
    pub cut_frames: u64,
    /// Of how many frames less than a header was kept. They belong to no stream.
    pub short_frames: u64,
    /// How many frames are of none of the first [`MAX_STREAMS`] streams.
    pub unlisted_frames: u64,
    links: BTreeMap<InterfaceIndex, LinkStatistics>,
    streams: BTreeMap<(InterfaceIndex, Stream), StreamStatistics>,
}

impl EthernetStatistics {
    pub(super) fn add(&mut self, record: &Record<Packet<'_>>) {
        let packet = record.frame;
        self.frames += 1;
        self.cut_frames += u64::from(packet.is_cut());
        // The length that was sent; a damaged capture may give a shorter one than it has bytes.
        let len = packet.bytes.len().max(packet.original_len as usize);
        self.links.entry(record.interface).or_default().add(record.time_ns, len);
        let Ok(frame) = packet.parse() else {
            self.short_frames += 1;
            return;
        };
        let header = frame.header;
        let stream = Stream {
            destination: header.destination,
            vlan: header.tag.map(|tag| tag.vlan),
            ether_type: (header.ether_type >= ether_type::FIRST).then_some(header.ether_type),
        };
        let key = (record.interface, stream);
        if self.streams.len() == MAX_STREAMS && !self.streams.contains_key(&key) {
            self.unlisted_frames += 1;
            return;
        }
        self.streams.entry(key).or_default().add(record.time_ns, len);
    }

    /// The links in the order of their first frames.
    pub fn links(&self) -> impl Iterator<Item = (InterfaceIndex, &LinkStatistics)> {
        self.links.iter().map(|(&interface, link)| (interface, link))
    }

    /// The streams of each link, by destination.
    pub fn streams(&self) -> impl Iterator<Item = (InterfaceIndex, Stream, &StreamStatistics)> {
        self.streams.iter().map(|(&(interface, stream), of_stream)| (interface, stream, of_stream))
    }
}

/// Frames that belong together: one destination, one VLAN (the null stream identification of IEEE 802.1CB, clause
/// 6.4), and one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// Who is to receive them.
    pub destination: Address,
    /// The VLAN of their tag; `None` if they have no tag.
    pub vlan: Option<u16>,
    /// What the payload is; `None` if the header has its length instead (IEEE 802.3, clause 3.2.6).
    pub ether_type: Option<u16>,
}

/// The statistics of one Ethernet link of a recording.
#[derive(Debug, Default)]
pub struct LinkStatistics {
    /// How many frames there are.
    pub frames: u64,
    /// Their bytes, without check sequences.
    pub bytes: u64,
    wire_bytes: u64,
    /// What the first frame took: it ended when the time of the recording begins.
    first_wire_len: u64,
    span: Span,
}

impl LinkStatistics {
    fn add(&mut self, time_ns: u64, len: usize) {
        let wire_len = wire_len(len) as u64;
        if self.frames == 0 {
            self.first_wire_len = wire_len;
        }
        self.frames += 1;
        self.bytes += len as u64;
        self.wire_bytes += wire_len;
        self.span.add(time_ns);
    }

    /// Frames per second, if the recording lasts at all.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        rate(self.frames, self.span.duration_ns())
    }

    /// How much of the link's speed they take on average, in bit/s: with padding, check sequence, preamble and the gap
    /// behind each frame. `None` if the recording does not last at all.
    #[must_use]
    pub fn bits_per_second(&self) -> Option<f64> {
        let duration_ns = self.span.duration_ns();
        let bits = (self.wire_bytes - self.first_wire_len) as f64 * 8.0;
        (duration_ns > 0).then(|| bits * 1e9 / duration_ns as f64)
    }
}

/// The statistics of one stream on one link.
#[derive(Debug, Default)]
pub struct StreamStatistics {
    /// How many frames there are.
    pub frames: u64,
    /// The shortest frame in bytes, without its check sequence.
    pub len_min: usize,
    /// The longest frame in bytes, without its check sequence.
    pub len_max: usize,
    /// The times between one frame and the next.
    pub period: PeriodStatistics,
}

impl StreamStatistics {
    fn add(&mut self, time_ns: u64, len: usize) {
        self.len_min = if self.frames == 0 { len } else { self.len_min.min(len) };
        self.len_max = self.len_max.max(len);
        self.frames += 1;
        self.period.add(time_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROADCAST_IPV4: [u8; 16] =
        [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0];
    /// Tagged for VLAN 5 with priority 7.
    const TIME_TRIGGERED: [u8; 20] =
        [3, 4, 5, 6, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0x00, 0xE0, 5, 0x88, 0xD7, 1, 2];

    fn statistics(packets: &[(u64, u16, &[u8], u32)]) -> EthernetStatistics {
        let mut statistics = EthernetStatistics::default();
        for &(time_ns, interface, bytes, original_len) in packets {
            let frame = Packet { bytes, original_len };
            let interface = InterfaceIndex(interface);
            statistics.add(&Record { time_ns, interface, direction: None, frame });
        }
        statistics
    }

    #[test]
    fn a_stream_is_a_destination_a_vlan_and_a_type() {
        let mut of_length = BROADCAST_IPV4;
        of_length[12..14].copy_from_slice(&[0, 46]);
        let statistics = statistics(&[
            (0, 0, &TIME_TRIGGERED, 64),
            (500, 0, &BROADCAST_IPV4, 16),
            (1_000_000, 0, &TIME_TRIGGERED, 20),
            (1_500_000, 1, &BROADCAST_IPV4, 1_514),
            (2_000_000, 0, &of_length, 60),
            (2_000_100, 0, &BROADCAST_IPV4[..13], 13),
        ]);
        let streams: Vec<_> = statistics
            .streams()
            .map(|(link, stream, of_stream)| {
                let lens = (of_stream.len_min, of_stream.len_max);
                let to = stream.destination.to_string();
                (link.0, to, stream.vlan, stream.ether_type, of_stream.frames, lens)
            })
            .collect();
        let broadcast = "ff:ff:ff:ff:ff:ff".to_owned();
        assert_eq!(
            streams,
            [
                (0, "03:04:05:06:00:01".to_owned(), Some(5), Some(0x88D7), 2, (20, 64)),
                (0, broadcast.clone(), None, None, 1, (60, 60)),
                (0, broadcast.clone(), None, Some(0x0800), 1, (16, 16)),
                (1, broadcast, None, Some(0x0800), 1, (1_514, 1_514)),
            ]
        );
        let (.., time_triggered) = statistics.streams().next().unwrap();
        assert_eq!(time_triggered.period.mean_ns(), Some(1_000_000.0));
        assert_eq!((statistics.frames, statistics.cut_frames, statistics.short_frames), (6, 3, 1));
    }

    #[test]
    fn a_full_link_has_the_speed_of_the_link() {
        // The shortest frames one behind the other at 100 Mbit/s: 84 byte times each.
        let packets: Vec<_> =
            (0..101).map(|number| (number * 6_720, 0, &BROADCAST_IPV4[..], 60)).collect();
        let statistics = statistics(&packets);
        let (_, link) = statistics.links().next().unwrap();
        assert_eq!((link.frames, link.bytes), (101, 6_060));
        assert_eq!(link.bits_per_second(), Some(100e6));
        let rate = link.rate().unwrap();
        assert!((rate - 1e9 / 6_720.0).abs() < 1e-6, "{rate}");
        assert_eq!(self::statistics(&packets[..1]).links().next().unwrap().1.rate(), None);
    }

    #[test]
    fn streams_are_bounded() {
        let mut statistics = EthernetStatistics::default();
        for number in 0..MAX_STREAMS as u32 + 2 {
            let mut bytes = BROADCAST_IPV4;
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            let frame = Packet { bytes: &bytes, original_len: 16 };
            let interface = InterfaceIndex(0);
            statistics.add(&Record { time_ns: 0, interface, direction: None, frame });
        }
        assert_eq!((statistics.streams().count(), statistics.unlisted_frames), (MAX_STREAMS, 2));
    }
}
