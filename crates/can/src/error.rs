//! Errors on a bus, as a controller sees them.

use candor_wire::can::Frame;
use candor_wire::can::bits::stream::{self, Field};

/// What a node noticed (ISO 11898-1, error detection). The numbers are those of bits 7 and 6 of the error code
/// capture register of the SJA1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It read another level than it sent.
    Bit = 0,
    /// A bit of fixed form has the wrong level.
    Form = 1,
    /// Six equal bits in a row.
    Stuff = 2,
    /// Anything else; of a transmitter: nobody acknowledged.
    Other = 3,
}

/// Where in a frame an error was noticed: bits 4 to 0 of the error code capture register of the SJA1000 (data
/// sheet, table 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    Id28To21 = 0b00010,
    StartOfFrame = 0b00011,
    Srtr = 0b00100,
    Ide = 0b00101,
    Id20To18 = 0b00110,
    Id17To13 = 0b00111,
    CrcSequence = 0b01000,
    ReservedBit0 = 0b01001,
    DataField = 0b01010,
    DataLengthCode = 0b01011,
    Rtr = 0b01100,
    ReservedBit1 = 0b01101,
    Id4To0 = 0b01110,
    Id12To5 = 0b01111,
    ActiveErrorFlag = 0b10001,
    Intermission = 0b10010,
    PassiveErrorFlag = 0b10110,
    CrcDelimiter = 0b11000,
    AcknowledgeSlot = 0b11001,
    EndOfFrame = 0b11010,
    AcknowledgeDelimiter = 0b11011,
}

/// The bits of a frame that an error needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The level of the bit as it was sent: recessive (`true`) or dominant.
    pub(crate) value: bool,
    /// Where it belongs.
    pub(crate) segment: Segment,
    /// Whether bits around it are stuffed.
    pub(crate) is_stuffed: bool,
    /// Of the arbitration field: how many of its bits come before, stuff bits and the start of frame not counted.
    pub(crate) arbitration: Option<u8>,
}

/// Bit `at` of a frame on the wire, from 0, stuff bits counted; `None` behind its end.
pub(crate) fn bit(frame: &Frame, at: u32) -> Option<Seen> {
    let (mut index, mut place, mut tail) = (0, 0, 0);
    let mut found = None;
    let last_of_arbitration = if frame.is_extended() { 32 } else { 12 };
    // Error reports never get onto a bus.
    let _ = stream::encode(frame, |bit| {
        let is_tail = matches!(bit.field, Field::Ack | Field::Eof | Field::Intermission);
        if index == at {
            found = Some(Seen {
                value: bit.value,
                segment: if is_tail {
                    segment_of_tail(tail)
                } else {
                    segment(frame, place, bit.field)
                },
                is_stuffed: !is_tail,
                arbitration: (!is_tail && place <= last_of_arbitration)
                    .then(|| place.saturating_sub(1) as u8),
            });
        }
        tail += u32::from(is_tail);
        place += u32::from(!bit.is_stuff && !is_tail);
        index += 1;
    });
    found
}

/// How many bits of a sender's error flag receivers see before they notice the error, too, if bit `wrong` of a frame was inverted
/// for all; 0 if they notice it in that bit. `flag` is the level of the flag: that of an error-passive sender is recessive.
///
/// A receiver destuffs what it reads (ISO 11898-1, stuff error: the sixth equal bit). So the inverted bit may move its idea of
/// where the frame is by a bit. Where it expects a delimiter, a dominant bit is a form error; a check sequence that is wrong it
/// tells behind the acknowledge delimiter (CRC error).
pub(crate) fn noticed_after(frame: &Frame, wrong: u32, flag: bool) -> u32 {
    let mut receiver = Receiver::new(frame);
    let (mut index, mut is_noticed) = (0, false);
    let _ = stream::encode(frame, |bit| {
        if index <= wrong && !is_noticed {
            is_noticed = receiver.read(bit.value != (index == wrong));
        }
        index += 1;
    });
    // At the latest behind the fields of fixed form.
    let mut bits = 0;
    while !is_noticed && bits < 64 {
        is_noticed = receiver.read(flag);
        bits += 1;
    }
    bits
}

/// What a receiver checks bit by bit.
struct Receiver {
    level: bool,
    /// Equal bits in a row.
    run: u32,
    /// Bits that are left, stuff bits not counted, of those that are stuffed by need.
    left: u32,
    /// Bits of the check field of CAN FD, which has a stuff bit before each four others, and how many were read.
    check: u32,
    checked: u32,
    /// Bits read behind the check sequence.
    tail: u32,
}

impl Receiver {
    fn new(frame: &Frame) -> Self {
        let (mut left, mut check) = (0, 0);
        let _ = stream::encode(frame, |bit| match bit.field {
            Field::Ack | Field::Eof | Field::Intermission => {}
            Field::StuffCount | Field::Crc if frame.is_fd() => check += 1,
            _ => left += u32::from(!bit.is_stuff),
        });
        Self { level: true, run: 0, left, check, checked: 0, tail: 0 }
    }

    /// Reads a bit; whether it is wrong, or the frame is known to be.
    fn read(&mut self, level: bool) -> bool {
        let is_same = level == self.level && self.run > 0;
        let (before, is_stuff) = (self.run, self.run == 5);
        (self.level, self.run) = (level, if is_same { before + 1 } else { 1 });
        // Behind the last data bit of CAN FD no bit is stuffed by need, behind that of a classical check sequence one is.
        if self.left > 0 || is_stuff && self.check == 0 && self.tail == 0 {
            self.left -= u32::from(!is_stuff);
            return is_stuff && is_same;
        }
        if self.checked < self.check {
            self.checked += 1;
            return self.checked % 5 == 1 && is_same;
        }
        self.tail += 1;
        match self.tail {
            // The CRC delimiter.
            1 => !level,
            // The acknowledge slot.
            2 => false,
            _ => true,
        }
    }
}

/// The field of bit `place` of a classical frame, stuff bits not counted; a stuff bit has the place of the bit
/// behind it. Bits of CAN FD that classical frames do not have count as reserved.
fn segment(frame: &Frame, place: u32, field: Field) -> Segment {
    match field {
        Field::Data => return Segment::DataField,
        Field::Crc | Field::StuffCount => return Segment::CrcSequence,
        _ => {}
    }
    match (place, frame.is_extended()) {
        (0, _) => Segment::StartOfFrame,
        (1..=8, _) => Segment::Id28To21,
        (9..=11, _) => Segment::Id20To18,
        (12, _) => Segment::Srtr,
        (13, _) => Segment::Ide,
        (14, false) => Segment::ReservedBit0,
        (14..=18, true) => Segment::Id17To13,
        (19..=26, true) => Segment::Id12To5,
        (27..=31, true) => Segment::Id4To0,
        (32, true) => Segment::Rtr,
        (33, true) => Segment::ReservedBit1,
        (34, true) => Segment::ReservedBit0,
        _ => Segment::DataLengthCode,
    }
}

/// The field of a bit behind the check sequence.
fn segment_of_tail(place: u32) -> Segment {
    match place {
        0 => Segment::CrcDelimiter,
        1 => Segment::AcknowledgeSlot,
        2 => Segment::AcknowledgeDelimiter,
        3..=9 => Segment::EndOfFrame,
        _ => Segment::Intermission,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_those_of_the_data_sheet() {
        // Identifiers without stuff bits.
        let standard: Frame = "2AA#5A".parse().unwrap();
        for (at, expected) in [
            (0, Segment::StartOfFrame),
            (1, Segment::Id28To21),
            (8, Segment::Id28To21),
            (9, Segment::Id20To18),
            (12, Segment::Srtr),
            (13, Segment::Ide),
            (14, Segment::ReservedBit0),
            (15, Segment::DataLengthCode),
        ] {
            assert_eq!(bit(&standard, at).unwrap().segment, expected, "{at}");
        }
        let length = candor_wire::can::bits::length(&standard).unwrap().total();
        for (back, expected) in [
            (1, Segment::Intermission),
            (3, Segment::Intermission),
            (4, Segment::EndOfFrame),
            (10, Segment::EndOfFrame),
            (11, Segment::AcknowledgeDelimiter),
            (12, Segment::AcknowledgeSlot),
            (13, Segment::CrcDelimiter),
            (14, Segment::CrcSequence),
            (28, Segment::CrcSequence),
        ] {
            assert_eq!(bit(&standard, length - back).unwrap().segment, expected, "{back}");
        }
        assert!(bit(&standard, length).is_none());
        let extended: Frame = "0AAAAAAA#".parse().unwrap();
        for (at, expected) in [
            (13, Segment::Ide),
            (14, Segment::Id17To13),
            (19, Segment::Id12To5),
            (27, Segment::Id4To0),
            (32, Segment::Rtr),
            (33, Segment::ReservedBit1),
            (34, Segment::ReservedBit0),
            (35, Segment::DataLengthCode),
        ] {
            assert_eq!(bit(&extended, at).unwrap().segment, expected, "{at}");
        }
    }

    #[test]
    fn receivers_notice_six_equal_bits_or_a_delimiter_that_is_none() {
        for (frame, wrong, expected) in [
            // SOF and four dominant bits, then a recessive stuff bit, which is the sixth dominant one when it is inverted.
            ("000#", 5, 0),
            // One dominant bit before, and the inverted one: four of the flag are missing.
            ("2AA#", 1, 6),
            ("2AA#", 2, 3),
            // The last bit of the check sequence: the flag begins where the CRC delimiter is.
            ("123#", 34, 1),
        ] {
            let frame = frame.parse().unwrap();
            assert_eq!(noticed_after(&frame, wrong, false), expected, "{frame} {wrong}");
        }
    }
}
