//! The reference: a frame as the sequence of its bits, and back.

use core::fmt;

use super::crc::Crc;
use super::{FdFields, HeaderLen, NotOnTheWire, header_bits};
use crate::can::frame::{BRS, EFF_FLAG, ESI, FD_LENGTHS, Frame, FrameError, Kind, RTR_FLAG};

/// The field of the frame that a bit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Start of frame.
    Sof,
    /// Identifier, RTR, SRR, RRS and IDE: what arbitration looks at.
    Arbitration,
    /// Reserved bits, FDF, BRS, ESI and the data length code.
    Control,
    /// The data.
    Data,
    /// The stuff count of CAN FD.
    StuffCount,
    /// The check sequence.
    Crc,
    /// CRC delimiter, acknowledge slot and delimiter.
    Ack,
    /// Seven recessive bits.
    Eof,
    /// Three recessive bits before the next frame may start.
    Intermission,
}

impl Field {
    /// The field's name in a listing.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sof => "SOF",
            Self::Arbitration => "arbitration",
            Self::Control => "control",
            Self::Data => "data",
            Self::StuffCount => "stuff count",
            Self::Crc => "CRC",
            Self::Ack => "ACK",
            Self::Eof => "EOF",
            Self::Intermission => "intermission",
        }
    }
}

/// At which bit rate a bit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// The nominal one.
    Nominal,
    /// The data bit rate of CAN FD.
    Data,
    /// The BRS bit: nominal up to its sample point, at the data bit rate after it.
    ToData,
    /// The CRC delimiter: at the data bit rate up to its sample point, nominal after it.
    ToNominal,
}

/// One bit on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bit {
    /// Recessive (`true`, 1) or dominant (`false`, 0). The acknowledge slot is dominant, as on a
    /// bus with a receiver.
    pub value: bool,
    /// Where it belongs; a stuff bit belongs to the field of the bit before it, a fixed one to the
    /// field it opens or cuts.
    pub field: Field,
    /// Whether it is a stuff bit, dynamic or fixed.
    pub is_stuff: bool,
    /// How long it lasts.
    pub rate: Rate,
}

/// Inserts a complement after five equal bits.
#[derive(Clone, Copy)]
struct Stuffer {
    last: Option<bool>,
    run: u32,
    count: u32,
}

impl Stuffer {
    const NEW: Self = Self { last: None, run: 0, count: 0 };

    /// Takes in a bit of the frame; the stuff bit due after it, if any.
    fn push(&mut self, bit: bool) -> Option<bool> {
        self.run = if self.last == Some(bit) { self.run + 1 } else { 1 };
        self.last = Some(bit);
        if self.run < 5 {
            return None;
        }
        self.last = Some(!bit);
        self.run = 1;
        self.count += 1;
        Some(!bit)
    }
}

/// Gray code of the stuff bits modulo 8, and an even parity bit (ISO 11898-1:2015, table 8).
const fn stuff_count_field(count: u32) -> u32 {
    let gray = (count & 7) ^ (count & 7) >> 1;
    gray << 1 | gray.count_ones() & 1
}

/// Hands every bit of `frame` to `sink`, from SOF to the end of intermission.
///
/// # Errors
/// An error report has no bits.
pub fn encode(frame: &Frame, mut sink: impl FnMut(Bit)) -> Result<(), NotOnTheWire> {
    if frame.kind() == Kind::Error {
        return Err(NotOnTheWire);
    }
    let header = HeaderLen::new(frame);
    let fd = FdFields::new(frame);
    let is_fd = frame.is_fd();
    let in_data = if fd.switches { Rate::Data } else { Rate::Nominal };

    let total = header.total as usize + 8 * frame.data().len();
    let mut stuffer = Stuffer::NEW;
    let mut crc = match (is_fd, frame.len() <= 16) {
        (false, _) => Crc::CLASSICAL,
        (true, true) => Crc::FD_SHORT,
        (true, false) => Crc::FD_LONG,
    };
    let mut put = |value, field, is_stuff, rate| {
        sink(Bit { value, field, is_stuff, rate });
        value
    };

    let mut last = false;
    for (index, (bit, field, rate)) in start_to_data(frame, &header, &fd).enumerate() {
        last = put(bit, field, false, rate);
        crc.push(bit);
        if is_fd && index + 1 == total {
            break; // the fixed stuff bit follows instead
        }
        if let Some(stuff) = stuffer.push(bit) {
            last = put(stuff, field, true, rate);
            if is_fd {
                crc.push(stuff);
            }
        }
    }

    if is_fd {
        let stuff_count = stuff_count_field(stuffer.count);
        let field_bits =
            |value: u32, width: u32| (0..width).rev().map(move |bit| value >> bit & 1 != 0);
        field_bits(stuff_count, FdFields::STUFF_COUNT_BITS).for_each(|bit| crc.push(bit));
        let sequence = field_bits(stuff_count, FdFields::STUFF_COUNT_BITS)
            .map(|bit| (bit, Field::StuffCount))
            .chain(field_bits(crc.value(), crc.width()).map(|bit| (bit, Field::Crc)));
        for (index, (bit, field)) in sequence.enumerate() {
            if index % 4 == 0 {
                put(!last, field, true, in_data);
            }
            last = put(bit, field, false, in_data);
        }
    } else {
        for index in (0..crc.width()).rev() {
            let bit = crc.value() >> index & 1 != 0;
            put(bit, Field::Crc, false, Rate::Nominal);
            if let Some(stuff) = stuffer.push(bit) {
                put(stuff, Field::Crc, true, Rate::Nominal);
            }
        }
    }
    let delimiter = if fd.switches { Rate::ToNominal } else { Rate::Nominal };
    put(true, Field::Ack, false, delimiter);
    for (value, field, count) in TRAILER {
        (0..count).for_each(|_| {
            put(value, field, false, Rate::Nominal);
        });
    }
    Ok(())
}

/// What follows the CRC delimiter: value, field, how many bits.
const TRAILER: [(bool, Field, u32); 4] = [
    (false, Field::Ack, 1),
    (true, Field::Ack, 1),
    (true, Field::Eof, 7),
    (true, Field::Intermission, super::INTERMISSION_BITS),
];

/// The bits from the start of frame to the data, in order, without stuff bits.
fn start_to_data<'a>(
    frame: &'a Frame,
    header: &HeaderLen,
    fd: &FdFields,
) -> impl Iterator<Item = (bool, Field, Rate)> + use<'a> {
    let (total, to_brs, switches) = (header.total, header.to_brs, fd.switches);
    let bits = header_bits(frame);
    let arbitration_end = if frame.is_extended() { 33 } else { 14 };
    let start = (0..total).map(move |index| {
        let field = match index {
            0 => Field::Sof,
            _ if index < arbitration_end => Field::Arbitration,
            _ => Field::Control,
        };
        let rate = match index {
            _ if !switches || index + 1 < to_brs => Rate::Nominal,
            _ if index + 1 == to_brs => Rate::ToData,
            _ => Rate::Data,
        };
        (bits >> (total - 1 - index) & 1 != 0, field, rate)
    });
    let in_data = if switches { Rate::Data } else { Rate::Nominal };
    let data = frame.data().iter().flat_map(move |&byte| {
        (0..8).rev().map(move |bit| (byte >> bit & 1 != 0, Field::Data, in_data))
    });
    start.chain(data)
}

/// Why bits are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bits end within the frame.
    Short,
    /// The first bit is recessive: no start of frame.
    Idle,
    /// Six equal bits, or a fixed stuff bit equal to the bit before it.
    Stuff,
    /// The stuff count does not fit the stuff bits seen.
    StuffCount,
    /// The check sequence is wrong.
    Crc,
    /// A delimiter or a bit of the end of frame is dominant.
    Form,
    /// A combination of bits reserved for later protocols.
    Reserved,
    /// The fields are readable but make no legal frame.
    Frame(FrameError),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the bits end within the frame"),
            Self::Idle => f.write_str("no start of frame"),
            Self::Stuff => f.write_str("stuff error"),
            Self::StuffCount => f.write_str("the stuff count is wrong"),
            Self::Crc => f.write_str("the check sequence is wrong"),
            Self::Form => f.write_str("form error: a fixed recessive bit is dominant"),
            Self::Reserved => f.write_str("a reserved bit is set"),
            Self::Frame(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for DecodeError {}

/// Takes stuff bits out of a stream, as a receiver does.
struct Destuffer<I> {
    bits: I,
    stuffer: Stuffer,
    due: Option<bool>,
    classical: Crc,
    short: Crc,
    long: Crc,
}

impl<I: Iterator<Item = bool>> Destuffer<I> {
    fn raw(&mut self) -> Result<bool, DecodeError> {
        self.bits.next().ok_or(DecodeError::Short)
    }

    fn take_due(&mut self) -> Result<(), DecodeError> {
        if let Some(due) = self.due.take() {
            if self.raw()? != due {
                return Err(DecodeError::Stuff);
            }
            self.short.push(due);
            self.long.push(due);
        }
        Ok(())
    }

    /// The next bit of the frame, behind a stuff bit if one is due.
    fn bit(&mut self) -> Result<bool, DecodeError> {
        self.take_due()?;
        let bit = self.raw()?;
        self.due = self.stuffer.push(bit);
        self.classical.push(bit);
        self.short.push(bit);
        self.long.push(bit);
        Ok(bit)
    }

    fn number(&mut self, width: u32) -> Result<u32, DecodeError> {
        (0..width).try_fold(0, |value, _| Ok(value << 1 | u32::from(self.bit()?)))
    }
}

/// Reads the frame from its bits, up to the end of EOF, and checks everything a receiver checks
/// except the acknowledge slot.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(bits: impl IntoIterator<Item = bool>) -> Result<Frame, DecodeError> {
    let mut wire = Destuffer {
        bits: bits.into_iter(),
        stuffer: Stuffer::NEW,
        due: None,
        classical: Crc::CLASSICAL,
        short: Crc::FD_SHORT,
        long: Crc::FD_LONG,
    };
    if wire.bit()? {
        return Err(DecodeError::Idle);
    }
    let mut can_id = wire.number(11)?;
    let mut remote = wire.bit()?;
    let extended = wire.bit()?;
    if extended {
        can_id = can_id << 18 | wire.number(18)? | EFF_FLAG;
        remote = wire.bit()?;
    }
    // Standard: r0 or FDF. Extended: r1 or FDF.
    let is_fd = wire.bit()?;
    if is_fd {
        return decode_fd(wire, can_id, remote);
    }
    if extended {
        wire.bit()?; // r0: receivers accept either value
    }
    let dlc = wire.number(4)? as u8;
    let len = usize::from(dlc.min(8));
    let mut data = [0; 8];
    if remote {
        can_id |= RTR_FLAG;
    } else {
        for byte in &mut data[..len] {
            *byte = wire.number(8)? as u8;
        }
    }
    let expected = wire.classical.value();
    if wire.number(Crc::CLASSICAL.width())? != expected {
        return Err(DecodeError::Crc);
    }
    wire.take_due()?;
    decode_tail(&mut wire)?;
    let frame = Frame::from_parts(can_id, &data[..len], None).map_err(DecodeError::Frame)?;
    if dlc > 8 { frame.with_raw_dlc(dlc).map_err(DecodeError::Frame) } else { Ok(frame) }
}

fn decode_fd<I: Iterator<Item = bool>>(
    mut wire: Destuffer<I>,
    can_id: u32,
    remote: bool,
) -> Result<Frame, DecodeError> {
    if remote || wire.bit()? {
        return Err(DecodeError::Reserved);
    }
    let brs = if wire.bit()? { BRS } else { 0 };
    let esi = if wire.bit()? { ESI } else { 0 };
    let len = usize::from(FD_LENGTHS[wire.number(4)? as usize & 0xF]);
    let mut data = [0; 64];
    for byte in &mut data[..len] {
        *byte = wire.number(8)? as u8;
    }
    // A stuff bit due now is not sent, nor counted: the fixed one stands in its place.
    let dynamic = wire.stuffer.count - u32::from(wire.due.is_some());
    let mut crc = if len <= 16 { wire.short } else { wire.long };
    let mut last = data[..len].last().map_or_else(
        || FD_LENGTHS.iter().position(|&l| usize::from(l) == len).is_some_and(|dlc| dlc & 1 != 0),
        |byte| byte & 1 != 0,
    );
    let mut index = 0;
    let mut fixed = |wire: &mut Destuffer<I>, width: u32| {
        (0..width).try_fold(0, |value, _| {
            if index % 4 == 0 && wire.raw()? == last {
                return Err(DecodeError::Stuff);
            }
            index += 1;
            last = wire.raw()?;
            Ok(value << 1 | u32::from(last))
        })
    };
    let stuff_count = fixed(&mut wire, FdFields::STUFF_COUNT_BITS)?;
    if stuff_count != stuff_count_field(dynamic) {
        return Err(DecodeError::StuffCount);
    }
    (0..FdFields::STUFF_COUNT_BITS).rev().for_each(|bit| crc.push(stuff_count >> bit & 1 != 0));
    if fixed(&mut wire, crc.width())? != crc.value() {
        return Err(DecodeError::Crc);
    }
    decode_tail(&mut wire)?;
    Frame::from_parts(can_id, &data[..len], Some(brs | esi)).map_err(DecodeError::Frame)
}

/// CRC delimiter, ACK slot (either value), ACK delimiter and end of frame.
fn decode_tail<I: Iterator<Item = bool>>(wire: &mut Destuffer<I>) -> Result<(), DecodeError> {
    let delimiter = wire.raw()?;
    wire.raw()?;
    let recessive = (0..8).try_fold(delimiter, |all, _| Ok(all & wire.raw()?))?;
    if recessive { Ok(()) } else { Err(DecodeError::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn picture(text: &str) -> String {
        let mut out = String::new();
        let mut field = Field::Sof;
        encode(&text.parse().unwrap(), |bit| {
            if bit.field != field {
                out.push(' ');
                field = bit.field;
            }
            out.push(match (bit.is_stuff, bit.value) {
                (false, false) => '0',
                (false, true) => '1',
                (true, false) => 'o',
                (true, true) => 'i',
            });
        })
        .unwrap();
        out
    }

    #[test]
    fn bits_as_drawn() {
        // o and i are stuff bits.
        assert_eq!(picture("000#"), "0 0000i00000i0000 0i0000 0i00000i00000i0000 101 1111111 111");
        // No CRC of this one in the catalogue: only the fields before it are looked at.
        assert!(picture("123#R1").starts_with("0 0010010001110 0000i1 "));
        assert!(picture("123##1FF").starts_with("0 0010010001100 10100001 1111o1111 "));
    }

    /// ISO 11898-1:2015, 11.3.2: the rate changes at the sample points of BRS and of the CRC delimiter.
    #[test]
    fn rates_change_within_two_bits() {
        let rates = |text: &str| {
            let mut rates: alloc::vec::Vec<(Rate, usize)> = alloc::vec::Vec::new();
            let push = |bit: Bit| match rates.last_mut() {
                Some((rate, count)) if *rate == bit.rate => *count += 1,
                _ => rates.push((bit.rate, 1)),
            };
            encode(&text.parse().unwrap(), push).unwrap();
            rates
        };
        // SOF, 11 bits of identifier, RRS, IDE, FDF, res; BRS; ESI, DLC, a byte with a stuff bit, the
        // stuff count, the check sequence and their 6 fixed stuff bits; the delimiter of the check
        // sequence; ACK with its delimiter, end of frame, intermission.
        assert_eq!(
            rates("123##1FF"),
            [
                (Rate::Nominal, 16),
                (Rate::ToData, 1),
                (Rate::Data, 1 + 4 + 8 + 1 + 4 + 17 + 6),
                (Rate::ToNominal, 1),
                (Rate::Nominal, 2 + 7 + 3),
            ]
        );
        assert_eq!(rates("123##0FF").len(), 1);
        assert_eq!(rates("123#FF").len(), 1);
    }

    #[test]
    fn fields_have_names() {
        let mut names: alloc::vec::Vec<&str> = alloc::vec::Vec::new();
        let push = |bit: Bit| {
            if names.last() != Some(&bit.field.name()) {
                names.push(bit.field.name());
            }
        };
        encode(&"123##1FF".parse().unwrap(), push).unwrap();
        let expected = "SOF, arbitration, control, data, stuff count, CRC, ACK, EOF, intermission";
        assert_eq!(names.join(", "), expected);
    }

    #[test]
    fn errors_are_given_in_words() {
        for (error, text) in [
            (DecodeError::Short, "the bits end within the frame"),
            (DecodeError::Idle, "no start of frame"),
            (DecodeError::Stuff, "stuff error"),
            (DecodeError::StuffCount, "the stuff count is wrong"),
            (DecodeError::Crc, "the check sequence is wrong"),
            (DecodeError::Form, "form error: a fixed recessive bit is dominant"),
            (DecodeError::Reserved, "a reserved bit is set"),
            (
                DecodeError::Frame(FrameError::FdLength(9)),
                "9 bytes of data, but a CAN FD frame has",
            ),
        ] {
            let shown = alloc::string::ToString::to_string(&error);
            assert!(shown.starts_with(text), "{shown}");
        }
    }

    #[test]
    fn stuff_count_is_gray_with_parity() {
        // ISO 11898-1:2015, table 8.
        let table = [0b0000, 0b0011, 0b0110, 0b0101, 0b1100, 0b1111, 0b1010, 0b1001];
        for (count, &field) in table.iter().enumerate() {
            assert_eq!(stuff_count_field(count as u32), field, "{count}");
            assert_eq!(stuff_count_field(count as u32 + 8), field);
        }
    }

    #[test]
    fn damage_is_distinguished() {
        let mut bits = alloc::vec::Vec::new();
        encode(&"123#DEADBEEF".parse().unwrap(), |bit| bits.push(bit.value)).unwrap();
        let flipped = |at: usize| {
            let mut bits = bits.clone();
            bits[at] ^= true;
            decode(bits)
        };
        assert_eq!(decode(bits[..60].iter().copied()), Err(DecodeError::Short));
        assert_eq!(flipped(0), Err(DecodeError::Idle));
        assert_eq!(flipped(30), Err(DecodeError::Crc));
        assert_eq!(flipped(bits.len() - 13), Err(DecodeError::Form));
        assert_eq!(decode([false; 20]), Err(DecodeError::Stuff));
        // Every bit of the end counts, but for the ACK slot: also if two are wrong.
        for first in bits.len() - 11..bits.len() - 3 {
            for second in first + 1..bits.len() - 3 {
                let mut bits = bits.clone();
                bits[first] ^= true;
                bits[second] ^= true;
                assert_eq!(decode(bits), Err(DecodeError::Form), "{first} {second}");
            }
        }
    }
}
