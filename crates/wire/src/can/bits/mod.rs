//! Every bit a frame has on the wire, from start of frame to the third bit of intermission.
//!
//! Two ways to the same length: [`stream`] builds the bits one by one and is the reference;
//! [`length`] counts the stuff bits of eight bits at a time from a table and is what simulations
//! use. A property test holds them together.
//!
//! The rules are those of ISO 11898-1:2015:
//!
//! | | classical | CAN FD |
//! |---|---|---|
//! | stuffed dynamically (a complement after five equal bits) | SOF to last CRC bit, a possible one after it too | SOF to last data bit, none after it |
//! | stuff count | - | 3 bits Gray code of the dynamic stuff bits modulo 8, 1 bit even parity |
//! | CRC | 15 bits over unstuffed SOF to data | 17 bits (up to 16 bytes) or 21 over SOF to stuff count, dynamic stuff bits included |
//! | fixed stuff bits | - | before the stuff count and after every fourth bit of the CRC field |
//! | tail | CRC delimiter, ACK slot and delimiter, 7 EOF, 3 intermission | the same |
//!
//! With BRS, the rate switches **at the sample point** of the BRS bit and back at that of the CRC delimiter
//! (ISO 11898-1:2015, bit rate switching). So each of these two bits begins at one rate and ends at the
//! other, and together they last as long as one bit of each, wherever the sample points lie: BRS counts
//! as a nominal bit and the CRC delimiter as a data bit.

pub mod crc;
pub mod stream;
mod stuff;

use core::fmt;

use crate::can::frame::{BRS, EFF_MASK, Frame, Kind, SFF_MASK};

/// CRC delimiter, ACK slot, ACK delimiter, end of frame and intermission.
pub const TAIL_BITS: u32 = 1 + 2 + 7 + INTERMISSION_BITS;
/// The pause after a frame in which no other may start.
pub const INTERMISSION_BITS: u32 = 3;

/// The length of a frame on the wire in bits, intermission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Length {
    /// Bits at the nominal bit rate, of which the last three are the intermission; with BRS, the BRS
    /// bit is among them.
    pub nominal: u32,
    /// Bits at the data bit rate; 0 unless the frame is CAN FD with BRS. The CRC delimiter is among
    /// them.
    pub data: u32,
    /// How many of all these are stuff bits, dynamic and fixed.
    pub stuff_bits: u32,
}

impl Length {
    /// All bits.
    #[must_use]
    pub const fn total(self) -> u32 {
        self.nominal + self.data
    }

    /// The length without the intermission: up to the instant at which receivers have the frame.
    #[must_use]
    pub const fn without_intermission(self) -> Self {
        Self { nominal: self.nominal - INTERMISSION_BITS, ..self }
    }
}

/// An error report has no bits: it tells of something on the bus, it is never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOnTheWire;

impl fmt::Display for NotOnTheWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an error report (identifier bit 29) is not a frame on the wire, so it has no \
                     length",
        )
    }
}
impl core::error::Error for NotOnTheWire {}

/// The exact length of `frame`.
///
/// # Errors
/// An error report has none.
pub fn length(frame: &Frame) -> Result<Length, NotOnTheWire> {
    match frame.kind() {
        Kind::Data | Kind::Remote => Ok(classical_length(frame)),
        Kind::Fd => Ok(fd_length(frame)),
        Kind::Error => Err(NotOnTheWire),
    }
}

/// The worst length of any frame with this kind, identifier format, data length and BRS: the
/// formulas of Davis, Burns, Bril and Lukkien 2007 for classical frames and of `linux/can/length.h`
/// for CAN FD, split over the two bit rates.
///
/// # Errors
/// An error report has none.
pub fn worst_length(frame: &Frame) -> Result<Length, NotOnTheWire> {
    length_of_kind(frame, |stuffable| (stuffable - 1) / 4)
}

/// A length that no frame with this kind, identifier format, data length and BRS falls below: that without stuff bits, but for the
/// fixed ones of CAN FD.
///
/// # Errors
/// An error report has none.
pub fn least_length(frame: &Frame) -> Result<Length, NotOnTheWire> {
    length_of_kind(frame, |_| 0)
}

/// The length of a frame of which so many bits from its start on are stuffed with so many others.
fn length_of_kind(frame: &Frame, stuffing: fn(u32) -> u32) -> Result<Length, NotOnTheWire> {
    let extended = frame.is_extended();
    let bytes = frame.data().len() as u32;
    let header = HeaderLen::new(frame);
    match frame.kind() {
        Kind::Error => Err(NotOnTheWire),
        Kind::Data | Kind::Remote => {
            let stuffable = if extended { 54 } else { 34 } + 8 * bytes;
            let stuff_bits = stuffing(stuffable);
            Ok(Length { nominal: stuffable + stuff_bits + TAIL_BITS, data: 0, stuff_bits })
        }
        Kind::Fd => {
            let fields = FdFields::new(frame);
            let dynamic = stuffing(header.total + 8 * bytes);
            let arbitration = stuffing(header.to_brs);
            let after_brs = header.total - header.to_brs + 8 * bytes + fields.crc_field_bits();
            let stuff_bits = dynamic + fields.fixed_stuff_bits;
            Ok(fields.split(
                header.to_brs + arbitration,
                after_brs + dynamic - arbitration,
                stuff_bits,
            ))
        }
    }
}

/// Bits of the header before stuffing.
struct HeaderLen {
    /// SOF to DLC.
    total: u32,
    /// SOF to BRS (CAN FD only).
    to_brs: u32,
}

impl HeaderLen {
    const fn new(frame: &Frame) -> Self {
        match (frame.is_fd(), frame.is_extended()) {
            (false, false) => Self { total: 19, to_brs: 0 },
            (false, true) => Self { total: 39, to_brs: 0 },
            (true, false) => Self { total: 22, to_brs: 17 },
            (true, true) => Self { total: 41, to_brs: 36 },
        }
    }
}

/// What the CRC field of a CAN FD frame is made of, and whether the rate switches.
struct FdFields {
    crc_bits: u32,
    fixed_stuff_bits: u32,
    switches: bool,
}

impl FdFields {
    const STUFF_COUNT_BITS: u32 = 4;

    const fn new(frame: &Frame) -> Self {
        let (crc_bits, fixed_stuff_bits) = if frame.len() <= 16 { (17, 6) } else { (21, 7) };
        Self { crc_bits, fixed_stuff_bits, switches: frame.fd_flags() & BRS != 0 }
    }

    /// Stuff count, CRC and fixed stuff bits; without the delimiter.
    const fn crc_field_bits(&self) -> u32 {
        Self::STUFF_COUNT_BITS + self.crc_bits + self.fixed_stuff_bits
    }

    const fn split(&self, to_brs: u32, after_brs: u32, stuff_bits: u32) -> Length {
        if self.switches {
            // The CRC delimiter is the last data bit.
            Length { nominal: to_brs + TAIL_BITS - 1, data: after_brs + 1, stuff_bits }
        } else {
            Length { nominal: to_brs + after_brs + TAIL_BITS, data: 0, stuff_bits }
        }
    }
}

/// The header bits SOF to DLC, right-aligned, as many as [`HeaderLen::total`].
fn header_bits(frame: &Frame) -> u64 {
    let id = u64::from(frame.can_id() & if frame.is_extended() { EFF_MASK } else { SFF_MASK });
    let remote = u64::from(frame.kind() == Kind::Remote);
    let brs = u64::from(frame.fd_flags() & BRS != 0);
    let esi = u64::from(frame.fd_flags() >> 1 & 1);
    let dlc = u64::from(frame.dlc());
    // Standard up to IDE: SOF 0, 11 bits, RTR or RRS, IDE 0.
    // Extended: SOF 0, 11 bits, SRR 1, IDE 1, 18 bits, RTR or RRS.
    let start = if frame.is_extended() {
        (id >> 18) << 21 | 0b11 << 19 | (id & 0x3_FFFF) << 1 | remote
    } else {
        id << 2 | remote << 1
    };
    match (frame.is_fd(), frame.is_extended()) {
        (false, false) => start << 5 | dlc, // r0 0, DLC
        (false, true) => start << 6 | dlc,  // r1 0, r0 0, DLC
        (true, _) => start << 8 | 1 << 7 | brs << 5 | esi << 4 | dlc, // FDF 1, res 0, BRS, ESI, DLC
    }
}

fn classical_length(frame: &Frame) -> Length {
    let mut bits = u128::from(header_bits(frame));
    let mut count = HeaderLen::new(frame).total;
    let data = frame.data();
    if !data.is_empty() {
        // Eight bytes at once: those beyond the length fall off on the right.
        let mut word = [0; 8];
        word.copy_from_slice(&frame.buffer()[..8]);
        let data_bits = 8 * data.len() as u32;
        bits = bits << data_bits | u128::from(u64::from_be_bytes(word) >> (64 - data_bits));
        count += data_bits;
    }
    // Two chains that do not wait for each other: stuff bits before the CRC are counted meanwhile.
    let crc = crc::crc15(bits);
    let mut counter = stuff::StuffCounter::new(bits, count);
    // The 15 bits and the opposite of the last one, which makes no stuff bit.
    counter.add(&(crc << 1 | !crc & 1).to_be_bytes());
    let stuff_bits = counter.closed();
    count += 15;
    Length { nominal: count + stuff_bits + TAIL_BITS, data: 0, stuff_bits }
}

fn fd_length(frame: &Frame) -> Length {
    let header = HeaderLen::new(frame);
    let fields = FdFields::new(frame);
    let bits = header_bits(frame);
    let data = frame.data();
    // No stuff bit can follow BRS: at most res precedes it as an equal bit.
    let to_brs = u128::from(bits >> (header.total - header.to_brs));
    let arbitration = stuff::StuffCounter::new(to_brs, header.to_brs).closed();
    let mut counter = stuff::StuffCounter::new(bits.into(), header.total);
    counter.add(data);
    // The DLC ends the header.
    let dynamic = counter.open(data.last().unwrap_or(&frame.dlc()) & 1 != 0);
    fields.split(
        header.to_brs + arbitration,
        header.total - header.to_brs + 8 * data.len() as u32 + fields.crc_field_bits() + dynamic
            - arbitration,
        dynamic + fields.fixed_stuff_bits,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::can::frame::FD_LENGTHS;
    use crate::can::{ExtendedId, Id, StandardId};
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    #[test]
    fn exact_classical_lengths() {
        // Agreed by can-utils' exact mode and an independent encoder.
        for (text, bits, stuff_bits) in [
            ("123#1122334455667788", 112, 1),
            ("000#0000000000000000", 127, 16),
            ("7FF#FFFFFFFFFFFFFFFF", 126, 15),
            ("12345678#DEADBEEF00000000", 140, 9),
            ("000#", 53, 6),
            ("123#DEADBEEF", 81, 2),
        ] {
            let length = length(&frame(text)).unwrap();
            assert_eq!((length.total(), length.stuff_bits), (bits, stuff_bits), "{text}");
        }
    }

    #[test]
    fn worst_classical_lengths() {
        // (55 + 10 s) and (80 + 10 s) bits, Davis et al. 2007.
        for s in 0..=8 {
            let data = &[0; 8][..s];
            let standard = Frame::new(StandardId::ZERO, data).unwrap();
            let extended = Frame::new(ExtendedId::ZERO, data).unwrap();
            assert_eq!(worst_length(&standard).unwrap().total(), 55 + 10 * s as u32);
            assert_eq!(worst_length(&extended).unwrap().total(), 80 + 10 * s as u32);
        }
        assert_eq!(worst_length(&frame("123#R8")).unwrap().total(), 55);
    }

    #[test]
    fn worst_fd_lengths() {
        // linux/can/length.h: totals 67 + 10 n, 72 + 10 n; 91 + 10 n, 96 + 10 n.
        for &n in &FD_LENGTHS {
            let data = &[0; 64][..usize::from(n)];
            let n = u32::from(n);
            let long = if n <= 16 { 0 } else { 5 };
            for flags in [0, BRS] {
                let standard = Frame::fd(StandardId::ZERO, flags, data).unwrap();
                let extended = Frame::fd(ExtendedId::ZERO, flags, data).unwrap();
                assert_eq!(worst_length(&standard).unwrap().total(), 67 + 10 * n + long);
                assert_eq!(worst_length(&extended).unwrap().total(), 91 + 10 * n + long);
                if flags == BRS {
                    assert_eq!(worst_length(&standard).unwrap().nominal, 33);
                    assert_eq!(worst_length(&extended).unwrap().nominal, 56);
                }
            }
        }
    }

    #[test]
    fn two_rates_take_their_time() {
        let timing =
            crate::can::Timing { nominal: "500k".parse().unwrap(), data: "2M".parse().unwrap() };
        let worst = worst_length(&frame("123##11122334455667788")).unwrap();
        assert_eq!((worst.nominal, worst.data), (33, 114));
        assert_eq!(timing.duration_ns(worst), 123_000);
        let received = worst.without_intermission();
        assert_eq!((received.nominal, received.data), (30, 114));
        assert_eq!(received.stuff_bits, worst.stuff_bits);
        assert_eq!(timing.duration_ns(received), 117_000);
    }

    #[test]
    fn the_rate_switches_at_the_sample_points_of_two_bits() {
        // Adds up the bits one by one, in thousandths of a nanosecond: 500k is 2,000 ns and 2M 500 ns.
        let (nominal, data) = (2_000_000, 500_000);
        let timing =
            crate::can::Timing { nominal: "500k".parse().unwrap(), data: "2M".parse().unwrap() };
        for text in ["123##1", "123##100112233445566778899AABB", "1FFFFFFF##155", "000##100"] {
            let frame = frame(text);
            for (sample, data_sample) in [(800, 800), (875, 700), (500, 900)] {
                let mut taken = 0;
                stream::encode(&frame, |bit| {
                    taken += match bit.rate {
                        stream::Rate::Nominal => nominal,
                        stream::Rate::Data => data,
                        stream::Rate::ToData => {
                            (nominal * sample + data * (1_000 - data_sample)) / 1_000
                        }
                        stream::Rate::ToNominal => {
                            (data * data_sample + nominal * (1_000 - sample)) / 1_000
                        }
                    };
                })
                .unwrap();
                assert_eq!(timing.duration_ns(length(&frame).unwrap()) * 1_000, taken, "{text}");
            }
        }
    }

    #[test]
    fn error_reports_have_no_length() {
        assert_eq!(length(&frame("20000004#00")), Err(NotOnTheWire));
        assert_eq!(worst_length(&frame("20000004#00")), Err(NotOnTheWire));
        assert!(NotOnTheWire.to_string().contains("bit 29"));
    }

    pub(super) fn any_id() -> impl Strategy<Value = Id> {
        prop_oneof![
            (0..=SFF_MASK as u16).prop_map(|raw| StandardId::new(raw).unwrap().into()),
            (0..=EFF_MASK).prop_map(|raw| ExtendedId::new(raw).unwrap().into()),
            // Long runs of equal bits make stuff bits.
            (0..29_u32).prop_map(|n| ExtendedId::new(EFF_MASK >> n).unwrap().into()),
            (0..11_u16).prop_map(|n| StandardId::new(0x7FF >> n).unwrap().into()),
        ]
    }

    pub(super) fn any_byte() -> impl Strategy<Value = u8> {
        prop_oneof![
            Just(0),
            Just(0xFF),
            Just(0x0F),
            Just(0xF0),
            Just(0x1F),
            Just(0x83),
            any::<u8>()
        ]
    }

    pub(super) fn any_frame() -> impl Strategy<Value = Frame> {
        let bytes = |len| proptest::collection::vec(any_byte(), len);
        prop_oneof![
            (any_id(), bytes(0..=8)).prop_map(|(id, data)| Frame::new(id, &data).unwrap()),
            (any_id(), 0..=8_usize).prop_map(|(id, len)| Frame::remote(id, len).unwrap()),
            (any_id(), 9..=15_u8, bytes(8..=8)).prop_map(|(id, dlc, data)| Frame::new(id, &data)
                .unwrap()
                .with_raw_dlc(dlc)
                .unwrap()),
            (any_id(), 0..=3_u8, 0..16_usize, bytes(64..=64)).prop_map(|(id, flags, dlc, data)| {
                Frame::fd(id, flags, &data[..usize::from(FD_LENGTHS[dlc])]).unwrap()
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn counting_agrees_with_building(frame in any_frame()) {
            let counted = length(&frame).unwrap();
            let mut built = Length { nominal: 0, data: 0, stuff_bits: 0 };
            stream::encode(&frame, |bit| {
                match bit.rate {
                    stream::Rate::Nominal | stream::Rate::ToData => built.nominal += 1,
                    stream::Rate::Data | stream::Rate::ToNominal => built.data += 1,
                }
                built.stuff_bits += u32::from(bit.is_stuff);
            }).unwrap();
            prop_assert_eq!(counted, built);
        }

        #[test]
        fn no_frame_is_longer_than_the_worst_or_shorter_than_the_least(frame in any_frame()) {
            let (exact, worst) = (length(&frame).unwrap(), worst_length(&frame).unwrap());
            prop_assert!(exact.nominal <= worst.nominal && exact.data <= worst.data);
            let least = least_length(&frame).unwrap();
            prop_assert!(least.nominal <= exact.nominal && least.data <= exact.data);
            let unstuffed = if frame.is_fd() { worst.total() - worst.stuff_bits + least.stuff_bits } else { exact.total() - exact.stuff_bits };
            prop_assert_eq!(least.total(), unstuffed);
            prop_assert_eq!(exact.total() - exact.stuff_bits, worst.total() - worst.stuff_bits);
        }

        #[test]
        fn bits_decode_to_the_frame(frame in any_frame()) {
            let mut bits = alloc::vec::Vec::new();
            stream::encode(&frame, |bit| bits.push(bit.value)).unwrap();
            prop_assert_eq!(stream::decode(bits.iter().copied()), Ok(frame));
        }

        #[test]
        // Classical CAN has a few double-burst exceptions (a flip that moves stuff bits), too rare
        // for this many cases; the seed is fixed.
        fn a_flipped_bit_is_noticed(frame in any_frame(), at in any::<prop::sample::Index>()) {
            let mut bits = alloc::vec::Vec::new();
            stream::encode(&frame, |bit| bits.push(bit.value)).unwrap();
            // The ACK slot and what follows it carry nothing of the frame.
            let at = at.index(bits.len() - 12);
            bits[at] ^= true;
            prop_assert_ne!(stream::decode(bits.iter().copied()).map(|f| f == frame), Ok(false));
        }
    }
}
