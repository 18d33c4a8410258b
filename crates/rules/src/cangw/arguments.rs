//! The arguments of options: numbers, operations on frames, checksums.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::pattern::hex;
use candor_engine::edit::{Crc8, Crc8Profile, Operands, Operator, Range, XorChecksum};

fn hex_byte(text: &str) -> Option<u8> {
    hex(text, 2).and_then(|value| u8::try_from(value).ok())
}

/// Bytes of two hex digits each, `count` of them.
fn hex_bytes(text: &str, count: usize) -> Option<Vec<u8>> {
    if text.len() != count * 2 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..count).map(|index| hex_byte(text.get(index * 2..index * 2 + 2)?)).collect()
}

/// `SET:ILD:333.4.1122334455667788`, for CAN FD `SET:IFLD:333.1.8.` and 128 digits.
pub(super) fn modification(text: &str, is_fd: bool) -> Option<(Operator, Operands)> {
    let mut parts = text.splitn(3, ':');
    let operator = match parts.next()? {
        "AND" => Operator::And,
        "OR" => Operator::Or,
        "XOR" => Operator::Xor,
        "SET" => Operator::Set,
        _ => return None,
    };
    let elements = parts.next()?;
    let known = if is_fd { "IFLD" } else { "ILD" };
    if elements.is_empty() || !elements.chars().all(|element| known.contains(element)) {
        return None;
    }
    let values: Vec<_> = parts.next()?.split('.').collect();
    let (can_id, flags, len, data) = match values[..] {
        [can_id, len, data] if !is_fd => (can_id, "0", len, data),
        [can_id, flags, len, data] if is_fd => (can_id, flags, len, data),
        _ => return None,
    };
    let (can_id, flags, len) = (hex(can_id, 8)?, hex_byte(flags)?, hex_byte(len)?);
    let data = hex_bytes(data, if is_fd { 64 } else { 8 })?;
    let has = |element: char| elements.contains(element);
    let operands = Operands {
        can_id: has('I').then_some(can_id),
        len: has('L').then_some(len),
        flags: has('F').then_some(flags),
        data: has('D').then(|| operator.operand(&data)),
    };
    Some((operator, operands))
}

/// The three indices at the beginning of a checksum.
fn range<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<Range> {
    let mut index = || parts.next()?.parse().ok();
    Some(Range { from: index()?, to: index()?, result: index()? })
}

pub(super) fn xor_checksum(text: &str) -> Option<XorChecksum> {
    let mut parts = text.split(':');
    let range = range(&mut parts)?;
    let init = hex_byte(parts.next()?)?;
    parts.next().is_none().then_some(XorChecksum { range, init })
}

pub(super) fn crc8(text: &str) -> Option<Crc8> {
    let mut parts = text.split(':');
    let range = range(&mut parts)?;
    let (init, final_xor) = (hex_byte(parts.next()?)?, hex_byte(parts.next()?)?);
    let table = Box::new(hex_bytes(parts.next()?, 256)?.try_into().ok()?);
    let crc8 = Crc8 { range, init, final_xor, table, profile: Crc8Profile::Plain };
    parts.next().is_none().then_some(crc8)
}

pub(super) fn profile(text: &str) -> Option<Crc8Profile> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("1", byte) => Some(Crc8Profile::OneByte(hex_byte(byte)?)),
        ("2", bytes) => Some(Crc8Profile::ByCounter(hex_bytes(bytes, 16)?.try_into().ok()?)),
        ("3", "") => Some(Crc8Profile::IdXor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_hex_digits_and_nothing_else() {
        for (id, value) in [("123", Some(0x123)), ("0x12", Some(0x12)), ("1FFFFFFFF", None)] {
            assert_eq!(hex(id, 8), value, "{id}");
        }
        for text in ["", "0x", "+1", "-1", "1 ", "12G"] {
            assert_eq!(hex(text, 8), None, "{text}");
        }
        assert_eq!((hex_byte("FF"), hex_byte("100"), hex_byte("+F")), (Some(255), None, None));
    }
}
