//! Error reports of CAN controllers in words (`linux/can/error.h`).
//!
//! A report is a frame with bit 29 of its identifier word: the other bits are classes, the data
//! says more about some of them.

use candor_wire::can::{Frame, Kind};

// Where the data says more.
const LOST_ARBITRATION_BIT: usize = 0;
const CONTROLLER: usize = 1;
const VIOLATION: usize = 2;
const PLACE: usize = 3;
const TRANSCEIVER: usize = 4;
const SENDING_ERRORS: usize = 6;
const RECEIVING_ERRORS: usize = 7;

const CONTROLLER_TROUBLE: [&str; 7] = [
    "received frames were lost",
    "its transmit buffer overflowed",
    "many errors in receiving (warning)",
    "many errors in sending (warning)",
    "error passive in receiving",
    "error passive in sending",
    "error active again",
];

const VIOLATIONS: [&str; 8] = [
    "a single bit",
    "the form of a frame",
    "bit stuffing",
    "a dominant bit was not sent",
    "a recessive bit was not sent",
    "overload",
    "error active announced",
    "while sending",
];

/// What an error report says; `None` for a frame that is none.
///
/// ```
/// use candor_bus::report;
/// let frame = "20000040#0000000000000000".parse()?;
/// assert_eq!(report::words(&frame).as_deref(), Some("bus off: the controller has left the bus"));
/// # Ok::<(), candor_wire::can::notation::NotationError>(())
/// ```
#[must_use]
pub fn words(frame: &Frame) -> Option<String> {
    if frame.kind() != Kind::Error {
        return None;
    }
    let byte = |index: usize| frame.data().get(index).copied().unwrap_or(0);
    let mut said = Vec::new();
    for bit in 0..29 {
        if frame.can_id() & 1 << bit == 0 {
            continue;
        }
        said.push(match bit {
            0 => "sending took too long (the driver gave up)".to_owned(),
            1 => match byte(LOST_ARBITRATION_BIT) {
                0 => "arbitration lost".to_owned(),
                bit => format!("arbitration lost at bit {bit}"),
            },
            2 => with("controller", &bits(byte(CONTROLLER), &CONTROLLER_TROUBLE)),
            3 => {
                let mut said = with("protocol violated", &bits(byte(VIOLATION), &VIOLATIONS));
                if let Some(place) = place(byte(PLACE)) {
                    said = format!("{said} in the {place}");
                }
                said
            }
            4 => with("transceiver", transceiver(byte(TRANSCEIVER))),
            5 => "no acknowledgement: no other node is active on the bus".to_owned(),
            6 => "bus off: the controller has left the bus".to_owned(),
            7 => "bus error".to_owned(),
            8 => "controller restarted".to_owned(),
            9 => continue, // the counters below are valid
            unknown => format!("class {:#x}", 1_u32 << unknown),
        });
    }
    let (sending, receiving) = (byte(SENDING_ERRORS), byte(RECEIVING_ERRORS));
    if (sending, receiving) != (0, 0) || frame.can_id() & 1 << 9 != 0 {
        said.push(format!("error counters: {sending} sending, {receiving} receiving"));
    }
    if said.is_empty() {
        said.push("an error without a class".to_owned());
    }
    Some(said.join("; "))
}

fn with(what: &str, more: &str) -> String {
    if more.is_empty() { what.to_owned() } else { format!("{what}: {more}") }
}

/// The names of the bits that are set.
fn bits(byte: u8, names: &[&str]) -> String {
    let is_set = |bit: &usize| byte & 1 << bit != 0;
    let names: Vec<_> = (0..8)
        .filter(is_set)
        .map(|bit| match names.get(bit) {
            Some(&name) => name.to_owned(),
            None => format!("bit {bit}"),
        })
        .collect();
    names.join(", ")
}

/// Where in a frame something went wrong.
const fn place(code: u8) -> Option<&'static str> {
    Some(match code {
        0x02 | 0x06 | 0x07 | 0x0E | 0x0F => "identifier",
        0x03 => "start of frame",
        0x04 => "substitute remote request bit",
        0x05 => "identifier extension bit",
        0x08 => "CRC",
        0x09 | 0x0D => "reserved bits",
        0x0A => "data",
        0x0B => "data length code",
        0x0C => "remote request bit",
        0x12 => "intermission",
        0x18 => "CRC delimiter",
        0x19 => "acknowledge slot",
        0x1A => "end of frame",
        0x1B => "acknowledge delimiter",
        0x11 | 0x16 => "error flag",
        0x17 => "error delimiter",
        0x1C => "overload flag",
        _ => return None,
    })
}

/// The state of the two wires.
const fn transceiver(code: u8) -> &'static str {
    match code {
        0x04 => "CAN-H is not connected",
        0x05 => "CAN-H is short to the battery",
        0x06 => "CAN-H is short to the supply",
        0x07 => "CAN-H is short to ground",
        0x40 => "CAN-L is not connected",
        0x50 => "CAN-L is short to the battery",
        0x60 => "CAN-L is short to the supply",
        0x70 => "CAN-L is short to ground",
        0x80 => "CAN-L is short to CAN-H",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_given_in_words() {
        for (frame, expected) in [
            ("20000002#0B00000000000000", "arbitration lost at bit 11"),
            ("20000002#0000000000000000", "arbitration lost"),
            (
                "20000004#0020000000009000",
                "controller: error passive in sending; error counters: 144 sending, 0 receiving",
            ),
            (
                "20000004#000C000000006060",
                "controller: many errors in receiving (warning), many errors in sending (warning); \
                 error counters: 96 sending, 96 receiving",
            ),
            (
                "20000088#0000801900000000",
                "protocol violated: while sending in the acknowledge slot; bus error",
            ),
            ("20000008#0000040000000000", "protocol violated: bit stuffing"),
            ("20000010#0000000007000000", "transceiver: CAN-H is short to ground"),
            ("20000020#0000000000000000", "no acknowledgement: no other node is active on the bus"),
            ("20000100#0000000000000000", "controller restarted"),
            ("20000200#0000000000000001", "error counters: 0 sending, 1 receiving"),
            ("20000400#0000000000000000", "class 0x400"),
            ("20000000#", "an error without a class"),
            ("20000004#00", "controller"),
        ] {
            assert_eq!(words(&frame.parse().unwrap()).as_deref(), Some(expected), "{frame}");
        }
        assert_eq!(words(&"123#00".parse().unwrap()), None);
    }
}
