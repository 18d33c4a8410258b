//! What a rule changes in a frame, with the operations that the kernel has: operands and checksums.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use candor_config::{Data, Section, Value, quoted};
use candor_diagnostics::Findings;
use candor_wire::can::frame::{BRS, ESI};

use crate::pattern;
use candor_engine::Gate;
use candor_engine::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};

/// Reads the operations of a rule.
pub(super) fn edit(section: &mut Section<'_>, gate: Gate) -> Edit {
    let mut edit = Edit::default();
    for operator in Operator::ALL {
        if let Some(section) = section.section(operator.name()) {
            *edit.operands_mut(operator) = operands(section, operator, gate);
        }
    }
    edit.crc8 = section.section("crc8").and_then(|section| crc8(section, gate));
    edit.xor_checksum =
        section.section("xor_checksum").and_then(|section| xor_checksum(section, gate));
    if gate == Gate::Any {
        for key in ["and", "or", "xor", "set", "crc8", "xor_checksum"] {
            if section.has(key) {
                let message = format!("`{key}` in a rule for frames of both formats");
                let hint = "write one rule with frames = \"classical\" and one with \"fd\"";
                let origin = section.origin_of(key);
                section.findings().error_with_hint(origin, message, hint);
            }
        }
    }
    edit
}

/// How many bytes of data a rule of that kind works on.
pub(super) const fn data_size(gate: Gate) -> usize {
    if let Gate::Classical = gate { 8 } else { 64 }
}

pub(super) fn operands(mut section: Section<'_>, operator: Operator, gate: Gate) -> Operands {
    let can_id = section.value("id").and_then(|value| id_word(value, section.findings()));
    let len = section.integer("length", 0..=u8::MAX);
    let flags = fd_flags(&mut section, gate);
    let data = section.value("data").and_then(|value| {
        let bytes = value.hex_bytes("data", section.findings())?;
        padded(&bytes, operator, gate, value, section.findings())
    });
    let operands = Operands { can_id, len, flags, data };
    let is_empty = section.table().entries().is_empty();
    if is_empty {
        let message = format!("`{}` has no operands", operator.name());
        let hint = "write id, length, flags or data, such as { id = \"0x123\" }";
        section.findings().error_with_hint(section.origin(), message, hint);
    }
    section.finish();
    operands
}

/// The identifier word of an operand: `"0x123"`, `"0x18FEF100x"`, `"word 0xC0000123"`, `0x123`.
pub(super) fn id_word(value: &Value, findings: &Findings) -> Option<u32> {
    let text = match &value.data {
        Data::String(text) => text.clone(),
        Data::Integer(number) => hex(*number),
        _ => {
            value.wrong_type("id", "an identifier such as \"0x123\"", findings);
            return None;
        }
    };
    if let Some(word) = text.trim().strip_prefix("word ") {
        let word = pattern::number(word.trim());
        if word.is_none() {
            let message = format!("{} is not an identifier word", quoted(&text));
            let hint = "write 32 bits in hex, including the flags: \"word 0xC0000123\"";
            findings.error_with_hint(&value.origin, message, hint);
        }
        return word;
    }
    match pattern::identifier(text.trim()) {
        Ok(word) => Some(word),
        Err(error) => {
            findings.error_with_hint(&value.origin, error.message, error.hint);
            None
        }
    }
}

/// An integer as an identifier would be written.
pub(super) fn hex(number: i64) -> String {
    if number < 0 { number.to_string() } else { format!("0x{number:X}") }
}

fn fd_flags(section: &mut Section<'_>, gate: Gate) -> Option<u8> {
    let value = section.value("flags")?;
    if gate == Gate::Classical {
        let hint = "add frames = \"fd\" to the rule, or remove the flags";
        let message = "only CAN FD frames have flags";
        section.findings().error_with_hint(&value.origin, message, hint);
        return None;
    }
    if value.as_integer().is_some() {
        return section.integer("flags", 0..=u8::MAX);
    }
    let mut flags = 0;
    for (name, origin) in section.strings("flags") {
        match name {
            "brs" => flags |= BRS,
            "esi" => flags |= ESI,
            _ => {
                let hint = "the flags are `brs` and `esi`";
                let message = format!("unknown flag `{name}`");
                section.findings().error_with_hint(origin, message, hint);
            }
        }
    }
    Some(flags)
}

/// Operand data for the whole buffer. What is not given does nothing, except to `set`, which
/// replaces everything and must therefore be complete.
fn padded(
    bytes: &[u8],
    operator: Operator,
    gate: Gate,
    value: &Value,
    findings: &Findings,
) -> Option<Box<[u8; 64]>> {
    let size = data_size(gate);
    let count = bytes.len();
    if count > size {
        let message = format!("{count} bytes of data, but the buffer has {size}");
        let hint = if size == 8 { "add frames = \"fd\" for CAN FD" } else { "remove the rest" };
        findings.error_with_hint(&value.origin, message, hint);
        return None;
    }
    if operator == Operator::Set && count < size {
        let message = format!("`set` replaces all {size} bytes, but here are {count}");
        let hint = format!(
            "to change only some bytes, clear them with and = {{ data = ... }} and write them \
             with or = {{ data = ... }}; or add 00 up to {size} bytes"
        );
        findings.error_with_hint(&value.origin, message, hint);
        return None;
    }
    Some(operator.operand(bytes))
}

/// Where a checksum may read and write (`cgw_chk_csum_parms`, `net/can/gw.c`).
pub(crate) const fn index_range(gate: Gate) -> RangeInclusive<i8> {
    if let Gate::Classical = gate { -8..=7 } else { -64..=63 }
}

fn range(section: &mut Section<'_>, gate: Gate) -> Option<Range> {
    section.require(&["from", "to", "into"]);
    let mut index = |key| section.integer(key, index_range(gate));
    let (from, to, result) = (index("from"), index("to"), index("into"));
    Some(Range { from: from?, to: to?, result: result? })
}

pub(super) fn xor_checksum(mut section: Section<'_>, gate: Gate) -> Option<XorChecksum> {
    let range = range(&mut section, gate);
    let init = section.integer("init", 0..=u8::MAX).unwrap_or(0);
    section.finish();
    Some(XorChecksum { range: range?, init })
}

pub(super) fn crc8(mut section: Section<'_>, gate: Gate) -> Option<Crc8> {
    let range = range(&mut section, gate);
    let init = section.integer("init", 0..=u8::MAX).unwrap_or(0);
    let final_xor = section.integer("final_xor", 0..=u8::MAX).unwrap_or(0);
    let polynomial = section.integer("polynomial", 0..=u8::MAX);
    let table = section.value("table").and_then(|value| array(value, "table", section.findings()));
    if section.has("polynomial") == section.has("table") {
        let message = "a CRC8 needs either a `polynomial` or a `table`";
        let hint = "such as polynomial = 0x1D for SAE J1850, or 256 bytes in hex as the table";
        section.findings().error_with_hint(section.origin(), message, hint);
    }
    let profile = profile(&mut section);
    section.finish();
    let table = table.or_else(|| polynomial.map(|p| Box::new(Crc8::table_of(p))));
    Some(Crc8 { range: range?, init, final_xor, table: table?, profile: profile? })
}

/// Exactly `N` bytes in hex.
pub(super) fn array<const N: usize>(
    value: &Value,
    key: &str,
    findings: &Findings,
) -> Option<Box<[u8; N]>> {
    let bytes = value.hex_bytes(key, findings)?;
    let count = bytes.len();
    let array = bytes.try_into().ok();
    if array.is_none() {
        findings.error(&value.origin, format!("`{key}` must be {N} bytes, but has {count}"));
    }
    array.map(Box::new)
}

fn profile(section: &mut Section<'_>) -> Option<Crc8Profile> {
    let Some(value) = section.value("profile") else { return Some(Crc8Profile::Plain) };
    if value.as_table().is_none() {
        let is_id_xor = section.one_of("profile", &[("plain", false), ("id-xor", true)])?;
        return Some(if is_id_xor { Crc8Profile::IdXor } else { Crc8Profile::Plain });
    }
    let mut profile = section.section("profile")?;
    let byte = profile.integer("byte", 0..=u8::MAX).map(Crc8Profile::OneByte);
    let bytes = profile.value("bytes").and_then(|value| array(value, "bytes", profile.findings()));
    if profile.has("byte") == profile.has("bytes") {
        let message = "a profile needs either `byte` or `bytes`";
        let hint = "write { byte = 0x12 }, or { bytes = \"...\" } with 16 bytes in hex";
        profile.findings().error_with_hint(profile.origin(), message, hint);
    }
    profile.finish();
    byte.or_else(|| bytes.map(|bytes| Crc8Profile::ByCounter(*bytes)))
}
