//! Identifiers in network files and experiment files.

use candor_config::{Data, Value};
use candor_diagnostics::Findings;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, SFF_MASK};

/// The identifier word of a value: text, or a number as far as standard identifiers go. A number does not
/// say how many bits its identifier has.
pub fn identifier(value: &Value, findings: &Findings) -> Option<u32> {
    let read = match &value.data {
        Data::String(text) => {
            parse(text).map_err(|reason| format!("`{text}` is not an identifier: {reason}"))
        }
        Data::Integer(number) => standard(*number),
        _ => {
            value.wrong_type("id", "an identifier such as \"0x123\"", findings);
            return None;
        }
    };
    read.map_err(|message| findings.error(&value.origin, message)).ok()
}

fn standard(number: i64) -> Result<u32, String> {
    match u32::try_from(number) {
        Ok(id @ 0..=SFF_MASK) => Ok(id),
        Ok(id @ 0..=EFF_MASK) => Err(format!(
            "0x{id:X} is not a standard identifier; write an extended one as text with an x at \
             the end: \"0x{id:X}x\", or --set traffic.id=0x{id:X}x"
        )),
        _ => Err(format!("{number} is not an identifier: an identifier is at most 0x1FFFFFFFx")),
    }
}

/// An identifier: `0x123`, or `0x18FEF100x` for an extended one.
fn parse(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "expected 0x123, or 0x18FEF100x for an extended one";
    let digits = text.strip_prefix("0x").ok_or(EXPECTED)?;
    let (digits, is_extended) = match digits.strip_suffix('x') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let id = u32::from_str_radix(digits, 16).map_err(|_| EXPECTED)?;
    match (is_extended, id) {
        (true, 0..=EFF_MASK) => Ok(id | EFF_FLAG),
        (false, 0..=SFF_MASK) => Ok(id),
        (false, 0..=EFF_MASK) => {
            Err("a standard identifier is at most 0x7FF; an extended one ends in x")
        }
        _ => Err("an identifier is at most 0x1FFFFFFFx"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_as_in_rule_files() {
        assert_eq!(parse("0x123"), Ok(0x123));
        assert_eq!(parse("0x18FEF100x"), Ok(0x98FE_F100));
        assert_eq!(standard(0x124), Ok(0x124));
        for number in [-1, 0x800, 0x1FFF_FFFF, 0x2000_0000, i64::MAX] {
            assert!(standard(number).is_err(), "{number}");
        }
        for text in ["123", "0x800", "0x20000000x", "0x", "0xG", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
        for can_id in [0x123, 0x98FE_F100] {
            assert_eq!(parse(&crate::show_id(can_id)), Ok(can_id));
        }
    }
}
