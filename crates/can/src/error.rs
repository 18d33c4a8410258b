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
    /// How many bits directly before it have its opposite level, at most 5 of them: as many equal bits as the bus
    /// has seen if the bit is inverted.
    pub(crate) opposite_before: u32,
}

/// Bit `at` of a frame on the wire, from 0, stuff bits counted; `None` behind its end.
pub(crate) fn bit(frame: &Frame, at: u32) -> Option<Seen> {
    let (mut index, mut before, mut run, mut last) = (0, 0, 0, true);
    let (mut place, mut found) = (0, None);
    let mut tail = 0;
    // Error reports never get onto a bus.
    let _ = stream::encode(frame, |bit| {
        let is_tail = matches!(bit.field, Field::Ack | Field::Eof | Field::Intermission);
        if index == at {
            let opposite_before = if last == bit.value { 0 } else { before };
            found = Some(Seen {
                value: bit.value,
                segment: if is_tail {
                    segment_of_tail(tail)
                } else {
                    segment(frame, place, bit.field)
                },
                is_stuffed: !is_tail,
                opposite_before,
            });
        }
        run = if last == bit.value { run + 1 } else { 1 };
        (last, before) = (bit.value, run);
        tail += u32::from(is_tail);
        place += u32::from(!bit.is_stuff && !is_tail);
        index += 1;
    });
    found
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
    fn an_inverted_bit_continues_the_run_before_it() {
        // 000: SOF and four dominant bits, then a recessive stuff bit.
        let frame: Frame = "000#".parse().unwrap();
        let stuff = bit(&frame, 5).unwrap();
        assert!(stuff.value && stuff.opposite_before == 5 && stuff.is_stuffed);
        let first = bit(&frame, 0).unwrap();
        assert!(!first.value && first.opposite_before == 0);
        assert_eq!(bit(&frame, 3).unwrap().opposite_before, 0);
    }
}
