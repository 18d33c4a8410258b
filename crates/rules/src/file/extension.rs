//! Reading what goes beyond the kernel's gateway: payloads, paces, ordered edits, names of DBC
//! files.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use candor_config::{Data, Section, Value, quoted};
use candor_diagnostics::{Findings, counted, did_you_mean};
use candor_signals::{Database, Message as DbcMessage, Signal as DbcSignal, ValueType};
use candor_time::Nanos;
use candor_wire::frame::{EFF_FLAG, FD_LENGTHS, RTR_FLAG, fd_dlc};
use candor_wire::{ByteOrder, Field, Id};

use super::{array, crc8, data_size, hex_bytes, id_word, operands, xor_checksum};
use candor_engine::edit::Operator;
use candor_engine::extension::action::{
    Action, Copy, Counter, Inexact, Message, Place, Remap, Signal,
};
use candor_engine::extension::e2e::{E2e, Inclusion, Profile1};
use candor_engine::extension::pace::{DEFAULT_IDS, OnChange, Pace, Per};
use candor_engine::extension::payload::{Bytes, Payload};
use candor_engine::extension::{Conversion, Extension};
use candor_engine::{BusIndex, Filter, Gate};

/// Reads files that a rule file names, by the names that it uses; an error is a reason.
pub type Include<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// How many files a rule file may name.
const MOST_FILES: usize = 64;
/// How long each of them may be.
const MOST_BYTES: usize = 8 << 20;
/// How many identifiers all tables of a rule file may have together.
const MOST_PAIRS: usize = 1 << 20;

/// The files that a rule file names; each is read once.
pub(super) struct Files<'a> {
    include: Include<'a>,
    /// By bus.
    databases: BTreeMap<BusIndex, Rc<Database>>,
    by_name: BTreeMap<String, Option<Rc<Database>>>,
    /// Tables of identifiers, by name.
    tables: RefCell<BTreeMap<String, Option<Rc<Pairs>>>>,
    /// How many files have been read.
    count: Cell<usize>,
    /// How many identifiers the tables of all rules have.
    pair_count: Cell<usize>,
}

/// Identifier words before and after.
type Pairs = BTreeMap<u32, u32>;

impl<'a> Files<'a> {
    pub(super) fn new(include: Include<'a>) -> Self {
        Self {
            include,
            databases: BTreeMap::new(),
            by_name: BTreeMap::new(),
            tables: RefCell::new(BTreeMap::new()),
            count: Cell::new(0),
            pair_count: Cell::new(0),
        }
    }

    fn read(&self, value: &Value, findings: &Findings) -> Option<(String, Vec<u8>)> {
        let name = value.as_str()?;
        self.count.set(self.count.get() + 1);
        if self.count.get() > MOST_FILES {
            let message = format!("more than {MOST_FILES} other files are named");
            findings.error_with_hint(&value.origin, message, "merge tables into one file");
            return None;
        }
        match (self.include)(name) {
            Ok(bytes) if bytes.len() > MOST_BYTES => {
                let message = format!("{} is longer than {MOST_BYTES} bytes", quoted(name));
                findings.error_with_hint(
                    &value.origin,
                    message,
                    "remove what the rules do not \
                                                                  use",
                );
                None
            }
            Ok(bytes) => Some((name.to_owned(), bytes)),
            Err(reason) => {
                let message = format!("{}: {reason}", quoted(name));
                let hint = "paths are relative to the rule file";
                findings.error_with_hint(&value.origin, message, hint);
                None
            }
        }
    }

    /// Reads a table of identifiers.
    fn table(&self, value: &Value, findings: &Findings) -> Option<Rc<Pairs>> {
        let known = self.tables.borrow().get(value.as_str()?).cloned();
        known.unwrap_or_else(|| {
            let (name, bytes) = self.read(value, findings)?;
            let pairs = id_pairs(&bytes).map(Rc::new).map_err(|reason| {
                let hint = "each line is two identifiers: 0x123, 0x321";
                findings.error_with_hint(&value.origin, format!("{name}:{reason}"), hint);
            });
            self.tables.borrow_mut().insert(name, pairs.clone().ok());
            pairs.ok()
        })
    }

    /// Reads the DBC file of a bus.
    pub(super) fn add_database(&mut self, bus: BusIndex, value: &Value, findings: &Findings) {
        let Some(name) = value.as_str() else {
            value.wrong_type("dbc", "the name of a DBC file in quotes", findings);
            return;
        };
        if !self.by_name.contains_key(name) {
            let database = self.read(value, findings).and_then(|(name, bytes)| {
                let of_file = Findings::new();
                let database = Database::parse(&name, &bytes, &of_file);
                if database.is_none() {
                    let reason = of_file.sorted().into_iter().next().map_or_else(
                        || format!("{} is not a DBC file", quoted(&name)),
                        |first| format!("{}: {}", first.origin, first.message),
                    );
                    findings.error_with_hint(&value.origin, reason, "name a DBC file");
                }
                database.map(Rc::new)
            });
            self.by_name.insert(name.to_owned(), database);
        }
        if let Some(Some(database)) = self.by_name.get(name) {
            self.databases.insert(bus, Rc::clone(database));
        }
    }

    pub(super) fn into_databases(self) -> BTreeMap<BusIndex, Rc<Database>> {
        self.databases
    }

    pub(super) fn database(&self, bus: BusIndex) -> Option<&Database> {
        self.databases.get(&bus).map(|database| &**database)
    }

    /// The DBC files of these buses, each once.
    fn databases(&self, buses: &[BusIndex]) -> Vec<&Rc<Database>> {
        let mut found: Vec<&Rc<Database>> = Vec::new();
        for database in buses.iter().filter_map(|bus| self.databases.get(bus)) {
            if !found.iter().any(|other| Rc::ptr_eq(other, database)) {
                found.push(database);
            }
        }
        found
    }
}

/// The filter that takes a message of a DBC file.
pub(super) fn filter_of(message: &DbcMessage) -> Filter {
    match message.id {
        Id::Standard(id) => Filter::standard(id.as_raw()),
        Id::Extended(id) if message.is_j1939 => {
            // Whoever sends it and how urgent it is: the group counts, and for groups below 0xF000
            // not the address that it is sent to (SAE J1939-21, 5.2).
            let group = if id.as_raw() >> 16 & 0xFF < 0xF0 { 0x03FF_0000 } else { 0x03FF_FF00 };
            let mask = EFF_FLAG | RTR_FLAG | group;
            Filter { can_id: (id.as_raw() | EFF_FLAG) & mask, mask, inverted: false }
        }
        Id::Extended(id) => Filter::extended(id.as_raw()),
    }
}

/// How long its frames are; longer than any frame if the message is.
fn length_of(message: &DbcMessage) -> u8 {
    let longer = |length: &&u8| usize::from(**length) >= message.length;
    match FD_LENGTHS.iter().find(longer) {
        Some(&length) => length,
        None => u8::try_from(message.length).unwrap_or(u8::MAX),
    }
}

fn word_of(message: &DbcMessage) -> u32 {
    match message.id {
        Id::Standard(id) => u32::from(id.as_raw()),
        Id::Extended(id) => id.as_raw() | EFF_FLAG,
    }
}

/// What the steps of a rule are read with.
pub(super) struct RuleContext<'a> {
    pub(super) files: &'a Files<'a>,
    pub(super) from: BusIndex,
    pub(super) to: &'a [BusIndex],
    pub(super) gate: Gate,
    pub(super) filters: &'a [Filter],
}

/// Reads the keys of a rule that go beyond the kernel.
pub(super) fn read(section: &mut Section<'_>, context: &RuleContext<'_>) -> Extension {
    let payload = payload(section, context.gate);
    let pace = pace(section, context.gate);
    let conversion = convert(section, context.gate);
    let actions = actions(section, context, conversion);
    let deadline_ns = positive(section, "deadline").map_or(0, Nanos::as_nanos);
    Extension { payload, pace, actions, convert: conversion, deadline_ns }
}

/// A time that is not zero.
fn positive(section: &mut Section<'_>, key: &'static str) -> Option<Nanos> {
    let time = section.nanos(key)?;
    if time == Nanos::ZERO {
        let origin = section.origin_of(key);
        let hint = format!("remove `{key}`, or write a duration such as \"5ms\"");
        section.findings().error_with_hint(origin, format!("`{key}` is zero"), hint);
        return None;
    }
    Some(time)
}

// ---- Payload --------------------------------------------------------------------------------

fn payload(section: &mut Section<'_>, gate: Gate) -> Payload {
    let mut payload = Payload::default();
    let size = data_size(gate);
    for key in ["data", "length"] {
        section.refuse_empty(key, format!("remove `{key}` to take every frame"));
    }
    for value in section.values("data") {
        let Some(text) = value.as_str() else {
            value.wrong_type("data", "bytes such as \"11 ?? 4?\"", section.findings());
            continue;
        };
        let (excludes, rest) = match text.trim_start().strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        match bytes(rest) {
            Ok(bytes) if usize::from(bytes.len) > size => {
                let message =
                    format!("{} bytes, but a frame of this rule has at most {size}", bytes.len);
                let hint = "add frames = \"fd\" for CAN FD";
                section.findings().error_with_hint(&value.origin, message, hint);
            }
            Ok(bytes) if excludes => payload.not_data.push(bytes),
            Ok(bytes) => payload.data.push(bytes),
            Err(reason) => {
                let hint = "a byte is two hex digits; ? stands for any digit; 10/F0 compares only \
                            the bits of the mask: \"11 ?? 4? 10/F0\"";
                section.findings().error_with_hint(&value.origin, reason, hint);
            }
        }
    }
    for value in section.values("length") {
        match length(value) {
            Some((first, last)) if !has_length(gate, first, last) => {
                let message = if first == last {
                    format!("no frame of this rule can have {first} bytes")
                } else {
                    format!("no frame of this rule can have {first} to {last} bytes")
                };
                let hint = "classical frames have 0 to 8 bytes; CAN FD frames also 12, 16, 20, \
                            24, 32, 48 or 64";
                section.findings().error_with_hint(&value.origin, message, hint);
            }
            Some(range) => payload.lengths.push(range),
            None => section.findings().error_with_hint(
                &value.origin,
                "`length` must be 0 to 64 bytes, or a range",
                "such as 8 or \"2-8\"",
            ),
        }
    }
    payload
}

/// Whether frames of that kind have such a length.
fn has_length(gate: Gate, first: u8, last: u8) -> bool {
    let longest = data_size(gate) as u8;
    FD_LENGTHS.iter().any(|length| (first..=last.min(longest)).contains(length))
}

/// `11 ?? 4? 10/F0`.
fn bytes(text: &str) -> Result<Bytes, String> {
    let mut pairs = Vec::new();
    for word in text.split_ascii_whitespace() {
        let pair = match word.split_once('/') {
            Some((value, mask)) => hex_pair(value).zip(hex_pair(mask)).and_then(|(value, mask)| {
                // Digits that are given as `?` do not count.
                (mask.1 == 0xFF).then_some((value.0, value.1 & mask.0))
            }),
            None => hex_pair(word),
        };
        pairs.push(pair.ok_or_else(|| format!("`{word}` is not a byte"))?);
    }
    if pairs.is_empty() || pairs.len() > 64 {
        return Err(format!("{} bytes, but a pattern has 1 to 64", pairs.len()));
    }
    if pairs.iter().all(|(_, mask)| *mask == 0) {
        return Err("the pattern compares no bit".into());
    }
    Ok(Bytes::new(&pairs))
}

/// Two hex digits or question marks: value and mask.
fn hex_pair(text: &str) -> Option<(u8, u8)> {
    let mut digits = text.chars();
    let mut digit = || match digits.next()? {
        '?' => Some((0, 0)),
        c => Some((c.to_digit(16)? as u8, 0xF)),
    };
    let (high, low) = (digit()?, digit()?);
    digits.next().is_none().then_some((high.0 << 4 | low.0, high.1 << 4 | low.1))
}

fn length(value: &Value) -> Option<(u8, u8)> {
    let number = |text: &str| text.trim().parse::<u8>().ok().filter(|&length| length <= 64);
    if let Some(length) = value.as_integer() {
        let length = u8::try_from(length).ok().filter(|&length| length <= 64)?;
        return Some((length, length));
    }
    let text = value.as_str()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

// ---- Pace -----------------------------------------------------------------------------------

fn pace(section: &mut Section<'_>, gate: Gate) -> Pace {
    let mut pace = Pace::default();
    let rate = section.string("rate").and_then(|text| {
        let interval = interval_of(text);
        if interval.is_none() {
            let origin = section.origin_of("rate");
            let message = format!("{} is not a rate", quoted(text));
            let hint = "write frames per time, such as \"100/s\" or \"6/min\"";
            section.findings().error_with_hint(origin, message, hint);
        }
        interval
    });
    let least = positive(section, "min_interval");
    if section.has("rate") && section.has("min_interval") {
        let origin = section.origin_of("min_interval");
        let hint = "both limit the rate: remove one of them";
        let message = "`min_interval` and `rate` in one rule";
        section.findings().error_with_hint(origin, message, hint);
    }
    pace.interval_ns = rate.or(least).map_or(0, Nanos::as_nanos);
    if let Some(burst) = section.integer("burst", 1..=1_000_000) {
        pace.burst = burst;
        needs(section, "burst", &["rate", "min_interval"]);
    }
    pace.every = section.integer("every", 2..=1_000_000_000).unwrap_or(0);
    pace.on_change = on_change(section, gate);
    let per = section.one_of("per", &[("id", Per::Id), ("rule", Per::Rule)]);
    pace.per = per.unwrap_or_default();
    pace.ids = section.integer("ids", 1..=u16::MAX / 2).unwrap_or(DEFAULT_IDS);
    for key in ["per", "ids"] {
        needs(section, key, &["rate", "min_interval", "every", "on_change", "edit"]);
    }
    pace
}

/// A key that does nothing without any of the others.
fn needs(section: &mut Section<'_>, key: &'static str, others: &[&'static str]) {
    let has_one = others.iter().fold(false, |any, other| any | section.has(other));
    if section.has(key) && !has_one {
        let message = format!("`{key}` has no effect here");
        let hint = format!("it only works together with `{}`", others.join("`, `"));
        section.findings().error_with_hint(section.origin_of(key), message, hint);
    }
}

/// The time from frame to frame of `100/s`.
fn interval_of(text: &str) -> Option<Nanos> {
    let (count, unit) = text.split_once('/')?;
    let count = count.trim().parse::<u64>().ok().filter(|&count| count > 0)?;
    let unit = match unit.trim() {
        "s" => Nanos::from_secs(1),
        "min" => Nanos::from_secs(60),
        "h" => Nanos::from_secs(3_600),
        _ => return None,
    };
    let interval_ns = unit.as_nanos() / count;
    (interval_ns > 0).then(|| Nanos::from_nanos(interval_ns))
}

fn on_change(section: &mut Section<'_>, gate: Gate) -> Option<OnChange> {
    let at_least_every = positive(section, "at_least_every");
    needs(section, "at_least_every", &["on_change"]);
    let value = section.value("on_change")?;
    let mask = match &value.data {
        Data::Boolean(true) => Box::new([0xFF; 64]),
        Data::Boolean(false) => return None,
        _ => {
            let bytes = hex_bytes(value, "on_change", section.findings())?;
            if bytes.is_empty() || bytes.len() > data_size(gate) {
                let message = format!("{} bytes, expected 1 to {}", bytes.len(), data_size(gate));
                section.findings().error(&value.origin, message);
                return None;
            }
            let mut mask = Box::new([0; 64]);
            mask[..bytes.len()].copy_from_slice(&bytes);
            mask
        }
    };
    Some(OnChange { mask, at_least_every_ns: at_least_every.map_or(0, Nanos::as_nanos) })
}

// ---- Conversion -----------------------------------------------------------------------------

fn convert(section: &mut Section<'_>, gate: Gate) -> Option<Conversion> {
    let all = [Conversion::Fd, Conversion::FdWithSwitch, Conversion::Classical];
    let choices = all.map(|conversion| (conversion.name(), conversion));
    let conversion = section.one_of("convert", &choices)?;
    let is_idle = match gate {
        Gate::Classical => !conversion.is_fd(),
        Gate::Fd => conversion.is_fd(),
        Gate::Any => false,
    };
    if is_idle {
        let message = "`convert` has no effect: all frames of this rule have that format already";
        let hint = "set `frames` to the frames that the rule takes";
        section.findings().error_with_hint(section.origin_of("convert"), message, hint);
    }
    Some(conversion)
}

// ---- Ordered edits --------------------------------------------------------------------------

/// The most steps of a rule.
const MOST_STEPS: usize = 256;

fn actions(
    section: &mut Section<'_>,
    context: &RuleContext<'_>,
    conversion: Option<Conversion>,
) -> Vec<Action> {
    let steps = section.sections("edit");
    let findings = section.findings();
    let origin = section.origin_of("edit");
    if steps.is_empty() {
        if section.has("edit")
            && section.value("edit").is_some_and(|value| value.as_table().is_none())
        {
            let hint = "remove `edit`, or list steps: edit = [{ set = ... }, { crc8 = ... }]";
            findings.error_with_hint(origin, "`edit` has no steps", hint);
        }
        return Vec::new();
    }
    if steps.len() > MOST_STEPS {
        findings.error(origin, format!("more than {MOST_STEPS} steps"));
        return Vec::new();
    }
    for key in ["and", "or", "xor", "set", "crc8", "xor_checksum"] {
        if section.has(key) {
            let message = format!("`{key}` and `edit` in one rule");
            let hint = format!("write it as a step of `edit`: {{ {key} = ... }}");
            findings.error_with_hint(section.origin_of(key), message, hint);
        }
    }
    if context.gate == Gate::Any {
        let hint = "write one rule with frames = \"classical\" and one with \"fd\"";
        findings.error_with_hint(origin, "`edit` in a rule for frames of both formats", hint);
        return Vec::new();
    }
    let mut reader = StepReader { context, findings, layout: Layout::Received };
    let mut actions = Vec::new();
    for step in steps {
        actions.extend(reader.step(step, conversion));
    }
    actions
}

struct StepReader<'a> {
    context: &'a RuleContext<'a>,
    findings: &'a Findings,
    layout: Layout,
}

/// What the data of the frame are, as far as the steps so far have gone.
enum Layout {
    /// What was received.
    Received,
    /// Those of another message.
    Message(Box<DbcMessage>),
    /// Those of a message of which only identifier and length are reported.
    Unknown,
}

/// What steps there are.
const STEPS: [&str; 12] = [
    "and",
    "or",
    "xor",
    "set",
    "crc8",
    "xor_checksum",
    "copy",
    "signal",
    "message",
    "counter",
    "e2e",
    "remap",
];

impl StepReader<'_> {
    fn step(&mut self, mut step: Section<'_>, conversion: Option<Conversion>) -> Option<Action> {
        let findings = self.findings;
        let gate = self.context.gate;
        let keys: Vec<_> = STEPS.into_iter().filter(|key| step.has(key)).collect();
        let [key] = keys[..] else {
            let entries = step.table().entries();
            let (message, hint) = match (&keys[..], entries.first()) {
                ([], Some(entry)) => {
                    let hint = match did_you_mean(&entry.key, STEPS) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("the steps are `{}`", STEPS.join("`, `")),
                    };
                    (format!("`{}` is not a step", entry.key), hint)
                }
                ([], None) => {
                    let hint = format!("the steps are `{}`", STEPS.join("`, `"));
                    ("this step is empty".into(), hint)
                }
                _ => {
                    let message = format!("one step with several keys: `{}`", keys.join("`, `"));
                    let hint = "each step is one table: edit = [{ set = ... }, { crc8 = ... }]";
                    (message, hint.into())
                }
            };
            findings.error_with_hint(step.origin(), message, hint);
            return None;
        };
        let operator = Operator::ALL.into_iter().find(|operator| operator.name() == key);
        let action = if let Some(operator) = operator {
            let section = step.section(key)?;
            Some(Action::Operate(operator, operands(section, operator, gate)))
        } else {
            match key {
                "crc8" => step.section(key).and_then(|it| crc8(it, gate)).map(Action::Crc8),
                "xor_checksum" => {
                    step.section(key).and_then(|it| xor_checksum(it, gate)).map(Action::XorChecksum)
                }
                "copy" => step.section(key).and_then(|it| self.copy(it)),
                "signal" => self.signal(&mut step),
                "message" => self.message(&mut step, conversion),
                "counter" => step.section(key).and_then(|it| self.counter(it)),
                "e2e" => step.section(key).and_then(|it| self.e2e(it)),
                _ => self.remap(&mut step),
            }
        };
        step.finish();
        action
    }

    /// The longest data there are.
    fn size(&self) -> u8 {
        data_size(self.context.gate) as u8
    }

    fn copy(&self, mut section: Section<'_>) -> Option<Action> {
        let size = self.size();
        section.require(&["from", "to"]);
        let from = section.integer("from", 0..=size - 1);
        let to = section.integer("to", 0..=size - 1);
        let count = section.integer("count", 1..=size).unwrap_or(1);
        let origin = section.origin().clone();
        section.finish();
        let (from, to) = (from?, to?);
        if from.max(to) + count > size {
            let message =
                format!("byte {} is after the end of the frame", from.max(to) + count - 1);
            self.findings.error_with_hint(&origin, message, format!("the frame has {size} bytes"));
            return None;
        }
        Some(Action::Copy(Copy { from, to, count }))
    }

    /// The messages that the rule takes, as far as its patterns name single ones.
    fn taken(&self) -> Vec<&DbcMessage> {
        let Some(database) = self.context.files.database(self.context.from) else {
            return Vec::new();
        };
        let messages = database.messages().iter();
        let is_taken = |message: &&DbcMessage| self.context.filters.contains(&filter_of(message));
        messages.filter(is_taken).collect()
    }

    fn signal(&self, step: &mut Section<'_>) -> Option<Action> {
        if step.value("signal").is_some_and(|value| value.as_str().is_some()) {
            // In short: the name beside what is done with it.
            return self.computed(step, "signal");
        }
        let mut section = step.section("signal")?;
        section.require(&["from"]);
        let action = self.computed(&mut section, "from");
        section.finish();
        action
    }

    /// What is done with the signal that `key` names.
    fn computed(&self, section: &mut Section<'_>, key: &'static str) -> Option<Action> {
        let into = section.value("into");
        let side = if into.is_some() { Side::Received } else { Side::Sent };
        let from = section.value(key).and_then(|value| self.place(value, side));
        let (factor, addend) = (finite(section, "scale"), finite(section, "offset"));
        let clamp = self.clamp(section)?;
        let (from, factor, addend) = (from?, factor?.unwrap_or(1.0), addend?.unwrap_or(0.0));
        let to = match into {
            Some(value) => self.place(value, Side::Sent)?,
            None => from.clone(),
        };
        if into.is_none() && factor == 1.0 && addend == 0.0 && clamp.is_none() {
            let hint = "add `scale`, `offset`, `clamp` or `into`";
            let message = "this step does not change the signal";
            self.findings.error_with_hint(section.origin(), message, hint);
            return None;
        }
        let name = from.name.clone();
        match Signal::new(from, into.is_some(), factor, addend, clamp, to) {
            Ok(signal) => Some(Action::Signal(Box::new(signal))),
            Err(Inexact) => {
                let message = format!(
                    "`{name}` has more than 53 bits, and these scales and offsets have too many \
                     digits to compute it exactly"
                );
                let hint = "use fewer digits, or copy its bytes with `copy`";
                self.findings.error_with_hint(section.origin(), message, hint);
                None
            }
        }
    }

    /// `[least, most]`; nothing if it cannot be read.
    fn clamp(&self, section: &mut Section<'_>) -> Option<Option<(f64, f64)>> {
        let values = section.values("clamp");
        if values.is_empty() && !section.has("clamp") {
            return Some(None);
        }
        let numbers: Vec<_> = values.iter().filter_map(|value| number(value)).collect();
        match numbers[..] {
            [least, most] if least <= most && values.len() == 2 => Some(Some((least, most))),
            _ => {
                let hint = "write the least and the greatest value: clamp = [0, 250]";
                let origin = section.origin_of("clamp");
                self.findings.error_with_hint(origin, "`clamp` must be two numbers", hint);
                None
            }
        }
    }

    /// A signal by name, or by its bits.
    fn place(&self, value: &Value, side: Side) -> Option<Place> {
        match &value.data {
            Data::String(name) => self.named(name, value, side),
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                let name = section.string("name").unwrap_or("signal").to_owned();
                let field = self.field(&mut section);
                let (scale, offset) =
                    (finite(&mut section, "scale"), finite(&mut section, "offset"));
                let (least, most) = (finite(&mut section, "min"), finite(&mut section, "max"));
                section.finish();
                let (scale, offset) = (scale?.unwrap_or(1.0), offset?.unwrap_or(0.0));
                if scale == 0.0 {
                    let message = "`scale` is zero, so all values are the same";
                    self.findings.error(&value.origin, message);
                    return None;
                }
                let (least, most) = (least?, most?);
                if least.zip(most).is_some_and(|(least, most)| least > most) {
                    let message = "`min` is greater than `max`";
                    self.findings.error(&value.origin, message);
                    return None;
                }
                let range = match (least, most) {
                    (None, None) => None,
                    (least, most) => Some((least.unwrap_or(f64::MIN), most.unwrap_or(f64::MAX))),
                };
                Some(Place { name, field: field?, scale, offset, range })
            }
            _ => {
                let expected = "the name of a signal, or { bit = 0, bits = 8, ... }";
                value.wrong_type("signal", expected, self.findings);
                None
            }
        }
    }

    fn named(&self, name: &str, value: &Value, side: Side) -> Option<Place> {
        let fail = |message: String, hint: String| {
            self.findings.error_with_hint(&value.origin, message, hint);
            None
        };
        if side == Side::Sent && !name.contains('.') {
            match &self.layout {
                Layout::Received => {}
                Layout::Message(message) => {
                    return match message.signal_named(name) {
                        Ok(signal) => self.place_of(signal, value),
                        Err(error) => fail(
                            error.to_string(),
                            format!(
                                "after the step `message`, the frame \
                                                             is a {}",
                                message.name
                            ),
                        ),
                    };
                }
                Layout::Unknown => {
                    let message =
                        format!("the place of the signal `{name}` in the new frame is not known");
                    let hint = "add a step { message = \"EngineData\" } before this one, or write \
                                Message.Signal, or { bit = 0, bits = 8 }";
                    return fail(message, hint.into());
                }
            }
        }
        if name.contains('.') {
            return self.of_message(name, value, side);
        }
        if self.context.files.database(self.context.from).is_none() {
            return self.no_database(name, value);
        }
        let taken = self.taken();
        let mut found: Vec<&DbcSignal> = Vec::new();
        for message in &taken {
            match message.signal_named(name) {
                Ok(signal) => found.push(signal),
                Err(error) => {
                    let hint = "let `match` take only messages that have this signal";
                    return fail(error.to_string(), hint.into());
                }
            }
        }
        let Some(&signal) = found.first() else {
            let message = format!("`match` names no message that has the signal `{name}`");
            let hint = "match messages by name: match = [\"message EngineData\"]; or write \
                        Message.Signal";
            return fail(message, hint.into());
        };
        let of = |signal: &DbcSignal| (signal.field, signal.scale, signal.offset);
        if found.iter().any(|other| of(other) != of(signal)) {
            let message = format!("signal `{name}` differs between the messages of this rule");
            return fail(message, "write a rule for each".into());
        }
        self.place_of(signal, value)
    }

    fn no_database(&self, name: &str, value: &Value) -> Option<Place> {
        let message = format!("no DBC file describes the signal `{name}`");
        let hint = "add a DBC file to its bus: [bus] name = { port = \"can0\", dbc = \"car.dbc\" \
                    }; or write { bit = 0, bits = 8 }";
        self.findings.error_with_hint(&value.origin, message, hint);
        None
    }

    /// The signal `Message.Signal`: of the bus that the frame comes from, or of those that it goes
    /// to, if they tell.
    fn of_message(&self, name: &str, value: &Value, side: Side) -> Option<Place> {
        let RuleContext { from, to, files, .. } = *self.context;
        let received = files.database(from).into_iter();
        let databases: Vec<_> = match side {
            Side::Received => received.collect(),
            Side::Sent => {
                let sent = files.databases(to).into_iter().map(|database| &**database);
                let sent: Vec<_> = sent.collect();
                if sent.is_empty() { received.collect() } else { sent }
            }
        };
        let Some(first) = databases.first() else { return self.no_database(name, value) };
        let place = match first.signal_named(name) {
            Ok((_, signal)) => self.place_of(signal, value)?,
            Err(error) => {
                let hint = "write the signal as Message.Signal";
                self.findings.error_with_hint(&value.origin, error.to_string(), hint);
                return None;
            }
        };
        let others = databases.iter().skip(1).filter_map(|other| other.signal_named(name).ok());
        let is_same = |signal: &DbcSignal| {
            (signal.field, signal.scale, signal.offset) == (place.field, place.scale, place.offset)
        };
        if others.into_iter().any(|(_, signal)| !is_same(signal)) {
            let message = format!("signal `{name}` differs between the destinations");
            let hint = "write a rule for each";
            self.findings.error_with_hint(&value.origin, message, hint);
            return None;
        }
        Some(place)
    }

    fn place_of(&self, signal: &DbcSignal, value: &Value) -> Option<Place> {
        let refuse = |reason: &str| {
            let message = format!("signal `{}` {reason}", signal.name);
            self.findings.error(&value.origin, message);
            None
        };
        if signal.value_type != ValueType::Integer {
            return refuse("is a floating point number, and rules cannot compute with those");
        }
        if signal.selection.is_some() {
            return refuse("is multiplexed, and rules cannot compute with those");
        }
        if signal.scale == 0.0 {
            return refuse("has the scale 0, so all its values are the same");
        }
        Some(Place {
            name: signal.name.clone(),
            field: signal.field,
            scale: signal.scale,
            offset: signal.offset,
            range: signal.limits.as_ref().map(|limits| (*limits.start(), *limits.end())),
        })
    }

    /// `bit`, `bits`, `order`, `signed`.
    fn field(&self, section: &mut Section<'_>) -> Option<Field> {
        section.require(&["bit", "bits"]);
        let bit = section.integer("bit", 0..=511_u16);
        let bits = section.integer("bits", 1..=64_u8);
        let orders = [("intel", ByteOrder::Intel), ("motorola", ByteOrder::Motorola)];
        let order = section.one_of("order", &orders).unwrap_or(ByteOrder::Intel);
        let is_signed = section.boolean("signed").unwrap_or(false);
        let field = Field::new(bit?, bits?, order, is_signed)
            .and_then(|field| field.within(usize::from(self.size())));
        field.map_err(|error| self.findings.error(section.origin(), error.to_string())).ok()
    }

    fn message(
        &mut self,
        step: &mut Section<'_>,
        conversion: Option<Conversion>,
    ) -> Option<Action> {
        let value = step.value("message")?;
        let fail = |message: String, hint: &str| {
            self.findings.error_with_hint(&value.origin, message, hint);
            None
        };
        let message = match &value.data {
            Data::String(name) => {
                let databases = self.context.files.databases(self.context.to);
                let Some((first, others)) = databases.split_first() else {
                    let message = format!(
                        "no DBC file of the destination describes message \
                                           `{name}`"
                    );
                    return fail(
                        message,
                        "add a DBC file to the destination's bus, or write { id \
                                          = ... }",
                    );
                };
                match first.message_named(name) {
                    Ok(message) => {
                        let others = others.iter().filter_map(|it| it.message_named(name).ok());
                        let of = |it: &DbcMessage| (it.id, it.length);
                        if others.into_iter().any(|other| of(other) != of(message)) {
                            let message =
                                format!("message `{name}` differs between the destinations");
                            return fail(message, "write a rule for each");
                        }
                        self.layout = Layout::Message(Box::new(message.clone()));
                        Message {
                            name: message.name.clone(),
                            can_id: word_of(message),
                            len: length_of(message),
                        }
                    }
                    Err(error) => return fail(error.to_string(), "check the DBC file"),
                }
            }
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                section.require(&["id", "length"]);
                let name = section.string("name").unwrap_or("message").to_owned();
                let id = section.value("id").and_then(|value| id_word(value, self.findings));
                let len = section.integer("length", 0..=64_u8);
                section.finish();
                self.layout = Layout::Unknown;
                Message { name, can_id: id?, len: len? }
            }
            _ => {
                let expected = "the name of a message, or { id = \"0x123\", length = 8 }";
                value.wrong_type("message", expected, self.findings);
                return None;
            }
        };
        let is_fd = match conversion {
            Some(conversion) => conversion.is_fd(),
            None => self.context.gate == Gate::Fd,
        };
        let len = usize::from(message.len);
        let size = data_size(self.context.gate);
        if !is_fd && len > 8 || len > size || fd_dlc(len).is_none() {
            let text = format!("message `{}` has {len} bytes", message.name);
            let hint = match (is_fd, len > size) {
                (false, _) if self.context.gate == Gate::Fd => "classical frames have at most 8",
                (false, _) => "classical frames have at most 8; add frames = \"fd\"",
                (true, true) => "a frame that is converted to classical has at most 8",
                (true, false) => "CAN FD frames have 0 to 8, 12, 16, 20, 24, 32, 48 or 64",
            };
            return fail(text, hint);
        }
        Some(Action::Message(message))
    }

    fn counter(&self, mut section: Section<'_>) -> Option<Action> {
        let field = self.field(&mut section);
        let modulus = section.integer("modulus", 2..=1_u64 << 32);
        let origin = section.origin().clone();
        section.finish();
        let field = field?;
        let most = (*field.range().end()).min(i128::from(u32::MAX)) as u64;
        if most == 0 {
            let message = "a signed field of one bit cannot hold a counter";
            self.findings.error_with_hint(&origin, message, "remove `signed`");
            return None;
        }
        let modulus = modulus.unwrap_or(most + 1);
        if modulus - 1 > most {
            let message = format!("{} does not fit into {} bits", modulus - 1, field.bits());
            self.findings.error_with_hint(
                &origin,
                message,
                "the counter counts up to `modulus` - \
                                                             1",
            );
            return None;
        }
        Some(Action::Counter(Counter { field, modulus }))
    }

    fn e2e(&self, mut section: Section<'_>) -> Option<Action> {
        section.require(&["profile"]);
        let profile = section.integer("profile", 1..=2_u8);
        let action = match profile {
            Some(1) => {
                section.require(&["data_id"]);
                let size = self.size();
                let data_id = section.integer("data_id", 0..=u16::MAX);
                let inclusion = section.one_of("inclusion", &Inclusion::ALL).unwrap_or_default();
                let crc_byte = section.integer("crc_byte", 0..=size - 1).unwrap_or(0);
                let nibbles = 0..=size * 2 - 1;
                let counter_nibble = section.integer("counter_nibble", nibbles.clone());
                let id_nibble = section.integer("id_nibble", nibbles);
                let counter_nibble = counter_nibble.unwrap_or(2);
                if id_nibble.is_some() && inclusion != Inclusion::Nibble {
                    let message = "`id_nibble` has no effect here";
                    let hint = "it only works together with inclusion = \"nibble\"";
                    self.findings.error_with_hint(section.origin_of("id_nibble"), message, hint);
                }
                let profile = Profile1 {
                    data_id: data_id?,
                    inclusion,
                    crc_byte,
                    counter_nibble,
                    id_nibble: id_nibble.unwrap_or(3),
                };
                let is_nibble = inclusion == Inclusion::Nibble;
                let (counter, id) = (profile.counter_nibble, profile.id_nibble);
                let message = if counter / 2 == crc_byte {
                    Some("the counter lies in the byte of the CRC")
                } else if is_nibble && id / 2 == crc_byte {
                    Some("the nibble of the data ID lies in the byte of the CRC")
                } else if is_nibble && id == counter {
                    Some("the nibble of the data ID is that of the counter")
                } else {
                    None
                };
                if let Some(message) = message {
                    let hint = "the usual values are crc_byte = 0, counter_nibble = 2 (low nibble \
                                of byte 1) and id_nibble = 3 (high nibble)";
                    self.findings.error_with_hint(section.origin(), message, hint);
                    return None;
                }
                Some(E2e::Profile1(profile))
            }
            Some(_) => {
                section.require(&["data_ids"]);
                let ids = section.value("data_ids");
                let ids = ids.and_then(|value| array(value, "data_ids", self.findings));
                ids.map(|ids| E2e::Profile2(*ids))
            }
            None => None,
        };
        section.finish();
        action.map(Action::E2e)
    }

    fn remap(&self, step: &mut Section<'_>) -> Option<Action> {
        let value = step.value("remap")?;
        let others = step.one_of("others", &[("refuse", false), ("keep", true)]);
        let pairs = match &value.data {
            Data::Table(table) => Rc::new(self.inline_pairs(table)?),
            Data::String(_) => self.context.files.table(value, self.findings)?,
            _ => {
                let expected = "the name of a file, or { \"0x123\" = \"0x321\" }";
                value.wrong_type("remap", expected, self.findings);
                return None;
            }
        };
        if pairs.is_empty() {
            self.findings.error(&value.origin, "the table of identifiers is empty");
            return None;
        }
        let count = &self.context.files.pair_count;
        count.set(count.get() + pairs.len());
        if count.get() > MOST_PAIRS {
            let message = format!("the tables have more than {MOST_PAIRS} identifiers together");
            self.findings.error_with_hint(&value.origin, message, "use tables in fewer rules");
            return None;
        }
        let pairs = pairs.iter().map(|(from, to)| (*from, *to)).collect();
        Some(Action::Remap(Remap::new(pairs, others.unwrap_or(false))))
    }

    /// `{ "0x123" = "0x321" }`; nothing if a part cannot be read.
    fn inline_pairs(&self, table: &candor_config::Table) -> Option<Pairs> {
        let mut pairs = BTreeMap::new();
        let mut is_complete = true;
        for entry in table.entries() {
            let to = id_word(&entry.value, self.findings);
            let from = crate::pattern::identifier(entry.key.trim()).map_err(|error| {
                self.findings.error_with_hint(&entry.origin, error.message, error.hint);
            });
            let (Ok(from), Some(to)) = (from, to) else {
                is_complete = false;
                continue;
            };
            if pairs.insert(from, to).is_some_and(|other| other != to) {
                let message = format!("{} is listed twice", show(from));
                self.findings.error_with_hint(&entry.origin, message, "remove one of them");
                is_complete = false;
            }
        }
        is_complete.then_some(pairs)
    }
}

/// Where a signal is: in the frame that was received, or in the one that is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Received,
    Sent,
}

/// A number that is not infinite; nothing if there is something else.
fn finite(section: &mut Section<'_>, key: &'static str) -> Option<Option<f64>> {
    let number = section.float(key, f64::NEG_INFINITY..=f64::INFINITY);
    match number {
        Some(number) if number.is_infinite() => {
            let message = format!("`{key}` is infinite");
            section.findings().error_with_hint(section.origin_of(key), message, "such as 2.5");
            None
        }
        None if section.has(key) => None,
        _ => Some(number),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value.data {
        Data::Integer(number) => Some(number as f64),
        Data::Float(number) if number.is_finite() => Some(number),
        _ => None,
    }
}

/// A table of identifiers: two per line, separated by a comma or blanks; `#` begins a comment.
fn id_pairs(bytes: &[u8]) -> Result<Pairs, String> {
    let text = core::str::from_utf8(bytes)
        .map_err(|error| format!("1: byte {} is not UTF-8", error.valid_up_to()))?;
    let mut pairs = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line
            .split(|c: char| c == ',' || c == ';' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect();
        let [from, to] = words[..] else {
            if words.is_empty() {
                continue;
            }
            let count = counted(words.len(), "identifier");
            return Err(format!("{number}: {count}, expected two"));
        };
        let read = |word: &str| {
            crate::pattern::identifier(word).map_err(|error| format!("{number}: {}", error.message))
        };
        let (from, to) = (read(from)?, read(to)?);
        if let Some(other) = pairs.insert(from, to)
            && other != to
        {
            return Err(format!("{number}: {} is listed twice", show(from)));
        }
    }
    Ok(pairs)
}

/// An identifier out of a table, which always is one.
fn show(word: u32) -> String {
    crate::pattern::show_identifier(word).unwrap_or_default()
}
