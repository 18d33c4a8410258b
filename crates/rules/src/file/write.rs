//! Tables as rule files.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Write as _};

use candor_config::{quoted, quoted_key};
use candor_time::Nanos;
use candor_wire::can::frame::{BRS, ERR_FLAG, ESI};
use candor_wire::can::{ByteOrder, Field};

use super::MOST_BURST;
use super::bus::is_virtual_by_name;
use super::edit::data_size;
use crate::pattern;
use candor_engine::edit::{Crc8, Crc8Profile, Operands, Operator, Range, XorChecksum};
use candor_engine::extension::action::{Action, Message, Place, Signal};
use candor_engine::extension::e2e::{E2e, Inclusion};
use candor_engine::extension::pace::{DEFAULT_IDS, Pace, Per};
use candor_engine::extension::payload::Bytes;
use candor_engine::{BusIndex, Filter, Gate, Rule, Table};

/// The table as a rule file. What a file cannot say, such as data of a classical rule after byte
/// 8, which has no effect either, is not written.
#[must_use]
pub fn write(table: &Table) -> String {
    let mut out = String::new();
    if table.max_hops != 0 {
        push(&mut out, format_args!("max_hops = {}\n\n", table.max_hops));
    }
    if table.refuses_others {
        out.push_str("default = \"refuse\"\n\n");
    }
    out.push_str("[bus]\n");
    for bus in &table.buses {
        let port = quoted(&bus.port);
        push(&mut out, format_args!("{} = ", quoted_key(&bus.name)));
        if bus.is_virtual == is_virtual_by_name(bus.interface()) {
            push(&mut out, format_args!("{port}\n"));
        } else {
            let is_virtual = bus.is_virtual;
            push(&mut out, format_args!("{{ port = {port}, virtual = {is_virtual} }}\n"));
        }
    }
    for rule in &table.rules {
        write_rule(&mut out, table, rule);
    }
    out
}

pub(crate) fn push(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

/// Adds a key that has a value.
fn set(out: &mut String, key: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        push(out, format_args!("{key} = {value}\n"));
    }
}

fn write_rule(out: &mut String, table: &Table, rule: &Rule) {
    let bus = |index: BusIndex| {
        quoted(table.buses.get(usize::from(index.0)).map_or("", |bus| bus.name.as_str()))
    };
    push(
        out,
        format_args!("\n[[rule]]\nname = {}\nfrom = {}\n", quoted(&rule.name), bus(rule.from)),
    );
    match &rule.to[..] {
        [only] => push(out, format_args!("to = {}\n", bus(*only))),
        several => write_list(out, "to", several.iter().map(|&to| bus(to)).collect()),
    }
    write_match(out, rule);
    match rule.gate {
        Gate::Classical => {}
        Gate::Fd => out.push_str("frames = \"fd\"\n"),
        Gate::Any => out.push_str("frames = \"any\"\n"),
    }
    write_extension(out, rule);
    write_edit(out, rule);
    set(out, "echo", rule.echo.then_some(true));
    set(out, "keep_timestamp", rule.keep_timestamp.then_some(true));
    set(out, "allow_return", rule.allow_return.then_some(true));
    set(out, "limit_hops", rule.limit_hops);
    set(out, "uid", (rule.uid != 0).then(|| format!("0x{:X}", rule.uid)));
}

/// `key = [...]`, in several lines if it is long.
fn write_list(out: &mut String, key: &str, items: Vec<String>) {
    const PER_LINE: usize = 6;
    if items.len() <= PER_LINE {
        push(out, format_args!("{key} = [{}]\n", items.join(", ")));
        return;
    }
    push(out, format_args!("{key} = [\n"));
    for line in items.chunks(PER_LINE) {
        push(out, format_args!("  {},\n", line.join(", ")));
    }
    out.push_str("]\n");
}

fn write_match(out: &mut String, rule: &Rule) {
    let patterns = match (&rule.filters[..], &rule.except[..]) {
        ([], []) => return,
        ([inverted], []) if inverted.inverted && inverted.mask & ERR_FLAG == 0 => {
            let shown = pattern::show(Filter { inverted: false, ..*inverted });
            Vec::from([quoted(&format!("!{shown}"))])
        }
        (filters, except) => {
            // A single exclusion alone would be an inverted filter.
            let any = filters.is_empty().then_some(Filter::ANY);
            let taken = any.iter().chain(filters).map(|&filter| pattern::show(filter));
            let excluded = except.iter().map(|&filter| format!("!{}", pattern::show(filter)));
            taken.chain(excluded).map(|pattern| quoted(&pattern)).collect()
        }
    };
    write_list(out, "match", patterns);
}

fn write_edit(out: &mut String, rule: &Rule) {
    for operator in Operator::ALL {
        let shown = show_operands(rule.edit.operands(operator), rule.gate);
        set(out, operator.name(), Some(shown).filter(|shown| !shown.is_empty()));
    }
    set(out, "crc8", rule.edit.crc8.as_ref().map(show_crc8));
    set(out, "xor_checksum", rule.edit.xor_checksum.as_ref().map(show_xor_checksum));
}

/// The operands of an operator as a table; nothing if there are none.
fn show_operands(operands: &Operands, gate: Gate) -> String {
    let flags = operands.flags.filter(|_| gate != Gate::Classical);
    let data = operands.data.as_ref().map(|data| data.get(..data_size(gate)).unwrap_or(&[]));
    let fields = [
        operands.can_id.map(|word| format!("id = {}", quoted(&show_word(word)))),
        operands.len.map(|len| format!("length = {len}")),
        flags.map(|flags| format!("flags = {}", show_flags(flags))),
        data.map(|bytes| format!("data = {}", quoted(&show_bytes(bytes, " ")))),
    ];
    let fields: Vec<_> = fields.into_iter().flatten().collect();
    if fields.is_empty() { String::new() } else { format!("{{ {} }}", fields.join(", ")) }
}

fn show_word(word: u32) -> String {
    pattern::show_identifier(word).unwrap_or(format!("word 0x{word:X}"))
}

fn show_xor_checksum(checksum: &XorChecksum) -> String {
    let XorChecksum { range, init } = checksum;
    format!("{{ {}, init = 0x{init:02X} }}", show_range(range))
}

/// What the kernel cannot do.
fn write_extension(out: &mut String, rule: &Rule) {
    let extension = &rule.extension;
    let payload = &extension.payload;
    let wanted = payload.data.iter().map(|bytes| quoted(&show_pattern(bytes)));
    let unwanted =
        payload.not_data.iter().map(|bytes| quoted(&format!("!{}", show_pattern(bytes))));
    let data: Vec<_> = wanted.chain(unwanted).collect();
    if !data.is_empty() {
        write_list(out, "data", data);
    }
    if !payload.lengths.is_empty() {
        let lengths =
            payload.lengths.iter().map(|(first, last)| quoted(&format!("{first}-{last}")));
        write_list(out, "length", lengths.collect());
    }
    let pace = &extension.pace;
    write_rate(out, pace);
    set(out, "every", (pace.every > 1).then_some(pace.every));
    if let Some(on_change) = &pace.on_change {
        let size = data_size(rule.gate);
        let mask = on_change.mask.get(..size).unwrap_or_default();
        let shown = match on_change.mask.iter().all(|&bits| bits == 0xFF) {
            true => "true".to_string(),
            false => quoted(&show_bytes(mask, " ")),
        };
        set(out, "on_change", Some(shown));
        set(out, "at_least_every", nanos(on_change.at_least_every_ns));
    }
    set(out, "per", (pace.per == Per::Rule).then_some("\"rule\""));
    set(out, "ids", (pace.ids != DEFAULT_IDS).then_some(pace.ids));
    set(out, "deadline", nanos(extension.deadline_ns));
    set(out, "convert", extension.convert.map(|conversion| quoted(conversion.name())));
    if !extension.actions.is_empty() {
        out.push_str("edit = [\n");
        for action in &extension.actions {
            push(out, format_args!("  {{ {} }},\n", show_action(action, rule.gate)));
        }
        out.push_str("]\n");
    }
}

/// A duration, unless it is zero.
fn nanos(ns: u64) -> Option<String> {
    (ns != 0).then(|| quoted(&Nanos::from_nanos(ns).to_string()))
}

/// The interval and the tolerance of a rate, in the keys that say it shortest.
fn write_rate(out: &mut String, pace: &Pace) {
    let (interval, tolerance) = (pace.interval_ns, pace.tolerance_ns);
    if interval == 0 {
        return;
    }
    // The tolerance that a rate has by itself. The number of frames is exact if it gives the interval.
    if tolerance == interval {
        let rates = [("s", 1), ("min", 60), ("h", 3_600)]
            .map(|(unit, seconds)| (unit, seconds * 1_000_000_000_u64))
            .map(|(unit, time)| (unit, time, time / interval));
        let is_exact =
            |(_, time, count): &(&str, u64, u64)| time.checked_div(*count) == Some(interval);
        if let Some((unit, _, count)) = rates.into_iter().find(is_exact) {
            push(out, format_args!("rate = \"{count}/{unit}\"\n"));
            return;
        }
    }
    set(out, "min_interval", nanos(interval));
    let burst = (tolerance / interval).saturating_add(1);
    if burst > MOST_BURST.into() || !tolerance.is_multiple_of(interval) {
        set(out, "tolerance", nanos(tolerance));
    } else {
        set(out, "burst", (burst > 1).then_some(burst));
    }
}

/// Bytes of which some bits count.
fn show_pattern(bytes: &Bytes) -> String {
    let pairs = bytes.value.iter().zip(bytes.mask.iter()).take(usize::from(bytes.len));
    let shown = pairs.map(|(value, mask)| match mask {
        0 => "??".to_string(),
        0xFF => format!("{value:02X}"),
        0xF0 => format!("{:X}?", value >> 4),
        0x0F => format!("?{value:X}"),
        _ => format!("{value:02X}/{mask:02X}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn show_action(action: &Action, gate: Gate) -> String {
    let key = action.key();
    match action {
        Action::Operate(_, operands) => format!("{key} = {}", show_operands(operands, gate)),
        Action::Crc8(crc8) => format!("{key} = {}", show_crc8(crc8)),
        Action::XorChecksum(checksum) => format!("{key} = {}", show_xor_checksum(checksum)),
        Action::Copy(copy) => {
            format!("{key} = {{ from = {}, to = {}, count = {} }}", copy.from, copy.to, copy.count)
        }
        Action::Signal(signal) => format!("{key} = {{ {} }}", show_signal(signal)),
        Action::Message(Message { name, can_id, len }) => format!(
            "{key} = {{ name = {}, id = {}, length = {len} }}",
            quoted(name),
            quoted(&show_word(*can_id))
        ),
        Action::Counter(counter) => {
            format!("{key} = {{ {}, modulus = {} }}", show_field(counter.field), counter.modulus)
        }
        Action::E2e(E2e::Profile2(ids)) => {
            let ids = quoted(&show_bytes(ids, " "));
            format!("{key} = {{ profile = 2, data_ids = {ids} }}")
        }
        Action::E2e(E2e::Profile1(profile)) => {
            let nibble = match profile.inclusion {
                Inclusion::Nibble => format!(", id_nibble = {}", profile.id_nibble),
                _ => String::new(),
            };
            format!(
                "{key} = {{ profile = 1, data_id = 0x{:X}, inclusion = {}, crc_byte = {}, \
                 counter_nibble = {}{nibble} }}",
                profile.data_id,
                quoted(profile.inclusion.name()),
                profile.crc_byte,
                profile.counter_nibble
            )
        }
        Action::Remap(remap) => {
            let pair = |&(from, to): &(u32, u32)| {
                format!("{} = {}", quoted(&show_word(from)), quoted(&show_word(to)))
            };
            let pairs: Vec<_> = remap.pairs().iter().map(pair).collect();
            let others = if remap.keeps_others { ", others = \"keep\"" } else { "" };
            format!("{key} = {{ {} }}{others}", pairs.join(", "))
        }
    }
}

fn show_signal(signal: &Signal) -> String {
    let Signal { from, of_received, factor, addend, clamp, to, .. } = signal;
    let parts = [
        Some(format!("from = {{ {} }}", show_place(from))),
        of_received.then(|| format!("into = {{ {} }}", show_place(to))),
        (*factor != 1.0).then(|| format!("scale = {factor:?}")),
        (*addend != 0.0).then(|| format!("offset = {addend:?}")),
        clamp.map(|(least, most)| format!("clamp = [{least:?}, {most:?}]")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn show_place(place: &Place) -> String {
    let Place { name, field, scale, offset, range } = place;
    let (least, most) = range.unwrap_or((f64::MIN, f64::MAX));
    let bound = |key, value: f64, is_bound| {
        if is_bound { format!(", {key} = {value:?}") } else { String::new() }
    };
    let range = bound("min", least, least != f64::MIN) + &bound("max", most, most != f64::MAX);
    let field = show_field(*field);
    format!("name = {}, {field}, scale = {scale:?}, offset = {offset:?}{range}", quoted(name))
}

fn show_field(field: Field) -> String {
    let order = match field.order() {
        ByteOrder::Intel => "intel",
        ByteOrder::Motorola => "motorola",
    };
    let signed = if field.is_signed() { ", signed = true" } else { "" };
    format!("bit = {}, bits = {}, order = \"{order}\"{signed}", field.start_bit(), field.bits())
}

fn show_flags(flags: u8) -> String {
    let names = [(BRS, "\"brs\""), (ESI, "\"esi\"")];
    if flags & !(BRS | ESI) != 0 {
        return format!("0x{flags:02X}");
    }
    let set = names.iter().filter(|(bit, _)| flags & bit != 0).map(|&(_, name)| name);
    format!("[{}]", set.collect::<Vec<_>>().join(", "))
}

/// Bytes in hex.
pub(crate) fn show_bytes(bytes: &[u8], between: &str) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(between)
}

fn show_range(range: &Range) -> String {
    format!("from = {}, to = {}, into = {}", range.from, range.to, range.result)
}

fn show_crc8(crc8: &Crc8) -> String {
    let Crc8 { range, init, final_xor, table, profile } = crc8;
    // The entry of 1 is the polynomial, if there is one.
    let [_, polynomial, ..] = **table;
    let table = if **table == Crc8::table_of(polynomial) {
        format!("polynomial = 0x{polynomial:02X}")
    } else {
        format!("table = {}", quoted(&show_bytes(&table[..], "")))
    };
    let profile = match profile {
        Crc8Profile::Plain => String::new(),
        Crc8Profile::OneByte(byte) => format!(", profile = {{ byte = 0x{byte:02X} }}"),
        Crc8Profile::ByCounter(bytes) => {
            format!(", profile = {{ bytes = {} }}", quoted(&show_bytes(bytes, " ")))
        }
        Crc8Profile::IdXor => ", profile = \"id-xor\"".to_string(),
    };
    let range = show_range(range);
    format!("{{ {range}, {table}, init = 0x{init:02X}, final_xor = 0x{final_xor:02X}{profile} }}")
}
