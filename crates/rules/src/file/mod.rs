//! Rule files: TOML to a [`Table`] and back. `docs/rules.md` is their manual.
//!
//! [`parse`] tells everything that is wrong with a file at once, each finding with its place and a
//! remedy, and what is suspicious as warnings ([`crate::check`]). [`write()`] gives a readable file
//! that [`parse`] reads back as the same table.

mod extension;
mod write;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use std::sync::Arc;

use candor_config::{Data, Entry, Section, Value, quoted};
use candor_diagnostics::{Findings, Origin, Severity, Source, did_you_mean};
use candor_signals::Database;
use candor_wire::frame::{BRS, ESI};

use crate::check::{Place, check};
use crate::pattern;
use candor_engine::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use candor_engine::table::HOPS_LIMIT;
use candor_engine::{Bus, BusIndex, Filter, Gate, Rule, Table};

pub use extension::Include;
use extension::{Files, RuleContext};
pub(crate) use write::show_bytes;
pub use write::write;

/// The longest name of a network interface (`IFNAMSIZ` less its zero).
pub(crate) const INTERFACE_LEN: usize = 15;

/// Reads a rule file and checks the rules. `name` is what the file is called in findings.
///
/// There is a table only if there are no errors. Other files that it names cannot be read: see
/// [`parse_with`].
#[must_use]
pub fn parse(name: &str, text: &str) -> (Option<Table>, Findings) {
    parse_with(name, text, &|_| Err("no other files are read here".into()))
}

/// The same with the DBC files and tables of identifiers that it names.
#[must_use]
pub fn parse_with(name: &str, text: &str, include: Include<'_>) -> (Option<Table>, Findings) {
    parse_for(name, text, include, &|_| Vec::new())
}

/// The DBC files that a rule file names for its buses, as far as they can be read. `include` is that of
/// [`parse_with`].
#[must_use]
pub fn databases(name: &str, text: &str, include: Include<'_>) -> BTreeMap<BusIndex, Rc<Database>> {
    let findings = Findings::new();
    let mut files = Files::new(include);
    if let Some(document) = candor_config::parse(&Source::new(name, text), &findings) {
        let mut root = Section::new(&document, &findings);
        buses(root.table_entries("bus"), &findings, &mut files);
    }
    files.into_databases()
}

/// A port that the rules cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPort {
    /// Its bus.
    pub bus: BusIndex,
    /// Why not.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

/// The same for a program that opens the ports: `ports` tells which of them it cannot use for what
/// the rules do. It is asked only if there are no other errors.
#[must_use]
pub fn parse_for(
    name: &str,
    text: &str,
    include: Include<'_>,
    ports: &dyn Fn(&Table) -> Vec<BadPort>,
) -> (Option<Table>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let table = read(&source, &findings, &mut Files::new(include), ports);
    (table.filter(|_| !findings.has_errors()), findings)
}

/// The rules that could be read; whatever else there is becomes findings.
fn read(
    source: &Arc<Source>,
    findings: &Findings,
    files: &mut Files<'_>,
    ports: &dyn Fn(&Table) -> Vec<BadPort>,
) -> Option<Table> {
    let document = candor_config::parse(source, findings)?;
    let mut root = Section::new(&document, findings);
    root.require(&["bus"]);
    let max_hops = root.integer("max_hops", 1..=HOPS_LIMIT).unwrap_or(0);
    let defaults = [("ignore", false), ("refuse", true)];
    let refuses_others = root.one_of("default", &defaults).unwrap_or(false);
    let bus_entries = root.table_entries("bus");
    let buses = buses(bus_entries, findings, files);
    let files = &*files;
    let by_name: BTreeMap<String, BusIndex> =
        buses.iter().map(|bus| bus.name.clone()).zip((0..=u16::MAX).map(BusIndex)).collect();

    let mut rules = Vec::new();
    let mut places = Vec::new();
    let mut names: BTreeMap<String, &Origin> = BTreeMap::new();
    for (index, section) in root.sections("rule").into_iter().enumerate() {
        if findings.is_full() {
            break;
        }
        let errors = findings.count(Severity::Error);
        let (line, column) = section.origin().line_column();
        let place = section.table();
        let rule = RuleReader { section, buses: &buses, by_name: &by_name, files }.read(index);
        let name_origin = place.get("name").map_or(place.origin(), |value| &value.origin);
        if let Some(first) = names.insert(rule.name.clone(), name_origin) {
            let message = format!("a rule is already called {}: {first}", quoted(&rule.name));
            findings.error_with_hint(
                name_origin,
                message,
                "give each rule a different name: \
                                                            reports show it",
            );
        }
        if findings.count(Severity::Error) == errors {
            rules.push(Rule { position: (line, column), ..rule });
            places.push(place);
        }
    }
    root.finish();

    let origin = |place: Place| match place {
        Place::Bus(index) => {
            bus_entries.get(index).map_or_else(|| Origin::whole(source), |bus| bus.origin.clone())
        }
        Place::Rule(index, key) => places.get(index).map_or_else(
            || Origin::whole(source),
            |table| table.get(key).map_or(table.origin(), |value| &value.origin).clone(),
        ),
    };
    let table = Table { buses, rules, max_hops, refuses_others };
    check(&table, &origin, findings);
    if !findings.has_errors() {
        for BadPort { bus, reason, remedy } in ports(&table) {
            let entry = bus_entries.get(usize::from(bus.0));
            let origin = entry.map_or_else(|| Origin::whole(source), port_origin);
            findings.error_with_hint(&origin, reason, remedy);
        }
    }
    Some(table)
}

/// Where the port of a bus stands.
fn port_origin(bus: &Entry) -> Origin {
    let port = bus.value.as_table().and_then(|table| table.get("port")).unwrap_or(&bus.value);
    port.origin.clone()
}

/// The buses; one that cannot be read keeps its name, so that rules may still refer to it.
fn buses(entries: &[Entry], findings: &Findings, files: &mut Files<'_>) -> Vec<Bus> {
    let mut buses: Vec<Bus> = Vec::new();
    let mut by_port: BTreeMap<String, &str> = BTreeMap::new();
    for entry in entries {
        if buses.len() > usize::from(u16::MAX) {
            findings.error(&entry.origin, "more than 65536 buses");
            break;
        }
        let index = BusIndex(buses.len() as u16);
        let bus = bus(entry, index, findings, files);
        if let Some(other) = by_port.insert(bus.interface().to_owned(), &entry.key) {
            let message = format!("port `{}` is already bus `{other}`", bus.interface());
            findings.error_with_hint(&entry.value.origin, message, "give each port one bus");
        }
        buses.push(bus);
    }
    buses
}

/// A bus: `"can0"`, or a table.
fn bus(entry: &Entry, index: BusIndex, findings: &Findings, files: &mut Files<'_>) -> Bus {
    let (value, is_virtual) = match &entry.value.data {
        Data::Table(table) => {
            let mut section = Section::new(table, findings);
            section.require(&["port"]);
            let value = section.value("port");
            let is_virtual = section.boolean("virtual");
            if let Some(dbc) = section.value("dbc") {
                files.add_database(index, dbc, findings);
            }
            section.finish();
            (value, is_virtual)
        }
        _ => (Some(&entry.value), None),
    };
    let unknown = || Bus { name: entry.key.clone(), port: entry.key.clone(), is_virtual: false };
    let Some(value) = value else { return unknown() };
    let Some(port) = value.as_str() else {
        let expected = "a port such as \"can0\", or { port = \"can0\" }";
        value.wrong_type(&entry.key, expected, findings);
        return unknown();
    };
    let bus = Bus { name: entry.key.clone(), port: port.to_owned(), is_virtual: false };
    let interface = bus.interface();
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_name = match interface.split_once(':') {
        Some((driver, place)) => {
            is_word(driver) && !place.is_empty() && !port.chars().any(char::is_control)
        }
        None => is_word(interface) && interface.len() <= INTERFACE_LEN && !interface.contains('/'),
    };
    if !is_name {
        findings.error_with_hint(
            &value.origin,
            format!("{} is not a port", quoted(port)),
            format!(
                "write an interface (at most {INTERFACE_LEN} characters, no spaces, `/` or `:`), \
                 or driver:place, such as \"cannelloni:udp://host:20000\""
            ),
        );
    }
    let is_virtual = is_virtual.unwrap_or_else(|| is_virtual_by_name(interface));
    Bus { is_virtual, ..bus }
}

/// Whether an interface of that name loops frames back unless told otherwise.
pub(crate) fn is_virtual_by_name(interface: &str) -> bool {
    interface.starts_with("vcan")
}

/// Reads one `[[rule]]`.
struct RuleReader<'a> {
    section: Section<'a>,
    buses: &'a [Bus],
    by_name: &'a BTreeMap<String, BusIndex>,
    files: &'a Files<'a>,
}

impl RuleReader<'_> {
    fn read(mut self, index: usize) -> Rule {
        self.section.require(&["from", "to"]);
        let name = self.section.string("name").map(ToOwned::to_owned);
        let froms = self.buses("from");
        if let [_, second, ..] = self.section.values("from")[..] {
            let hint = "write one rule for each source";
            let message = "a rule can have only one source";
            self.section.findings().error_with_hint(&second.origin, message, hint);
        }
        let to = self.buses("to");
        let frames = [("classical", Gate::Classical), ("fd", Gate::Fd), ("any", Gate::Any)];
        let gate = self.section.one_of("frames", &frames).unwrap_or_default();
        let from = froms.first().copied().unwrap_or(BusIndex(0));
        let (filters, except) = self.filters(from, gate);
        let context = RuleContext { files: self.files, from, to: &to, gate, filters: &filters };
        let extension = extension::read(&mut self.section, &context);
        let edit = self.edit(gate);
        let rule = Rule {
            name: name.unwrap_or_else(|| format!("rule {}", index + 1)),
            position: (0, 0),
            from,
            to,
            gate,
            filters,
            except,
            edit,
            echo: self.section.boolean("echo").unwrap_or(false),
            keep_timestamp: self.section.boolean("keep_timestamp").unwrap_or(false),
            allow_return: self.section.boolean("allow_return").unwrap_or(false),
            limit_hops: self.section.integer("limit_hops", 1..=HOPS_LIMIT),
            uid: self.section.integer("uid", 1..=u32::MAX).unwrap_or(0),
            extension,
        };
        self.section.finish();
        rule
    }

    /// One bus or a list of buses, by name.
    fn buses(&mut self, key: &'static str) -> Vec<BusIndex> {
        self.section.refuse_empty(key, "write the name of a bus of [bus]");
        let mut found = Vec::new();
        for (name, origin) in self.section.strings(key) {
            match self.by_name.get(name) {
                Some(&bus) => found.push(bus),
                None => {
                    let hint = self.bus_hint(name);
                    let message = format!("unknown bus `{name}`");
                    self.section.findings().error_with_hint(origin, message, hint);
                }
            }
        }
        found
    }

    fn bus_hint(&self, name: &str) -> String {
        let buses = self.buses;
        if let Some(bus) = buses.iter().find(|bus| bus.interface() == name) {
            return format!(
                "`{name}` is the port of bus `{}`; rules use the names of buses",
                bus.name
            );
        }
        let names = || buses.iter().map(|bus| bus.name.as_str());
        match did_you_mean(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "add it to [bus]".to_string(),
        }
    }

    /// What matches, and what does not although it would.
    fn filters(&mut self, from: BusIndex, gate: Gate) -> (Vec<Filter>, Vec<Filter>) {
        let (mut filters, mut except) = (Vec::new(), Vec::new());
        let mut has_positive = false;
        self.section.refuse_empty("match", "remove `match` to take every frame");
        for value in self.section.values("match") {
            let Some(pattern) = self.pattern(value, from, gate) else { continue };
            has_positive |= !pattern.excludes;
            (if pattern.excludes { &mut except } else { &mut filters }).extend(pattern.filters);
        }
        // Everything but one filter is what the kernel calls an inverted filter.
        if let (false, [only]) = (has_positive, &except[..])
            && !only.inverted
        {
            return (Vec::from([Filter { inverted: true, ..*only }]), Vec::new());
        }
        if filters == [Filter::ANY] {
            filters.clear();
        }
        (filters, except)
    }

    fn pattern(&self, value: &Value, from: BusIndex, gate: Gate) -> Option<pattern::Pattern> {
        let findings = self.section.findings();
        let parsed = match &value.data {
            Data::String(text) => match message_name(text) {
                Some((excludes, name)) => return self.message(value, from, gate, excludes, name),
                None => pattern::parse(text),
            },
            Data::Integer(number) => pattern::parse(&hex(*number)),
            _ => {
                value.wrong_type("match", "a pattern such as \"0x123\"", findings);
                return None;
            }
        };
        match parsed {
            Ok(pattern) if pattern.excludes && takes_errors(&pattern.filters) => {
                let hint = "only the pattern \"error\" takes error reports; remove this exclusion";
                let message = "this excludes error reports, but no pattern takes them";
                findings.error_with_hint(&value.origin, message, hint);
                None
            }
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let origin = value.origin_of_part(error.span);
                findings.error_with_hint(&origin, error.message, error.hint);
                None
            }
        }
    }

    /// The pattern of a message by its name.
    fn message(
        &self,
        value: &Value,
        from: BusIndex,
        gate: Gate,
        excludes: bool,
        name: &str,
    ) -> Option<pattern::Pattern> {
        let findings = self.section.findings();
        let Some(database) = self.files.database(from) else {
            let message = format!("no DBC file describes the message `{name}`");
            let hint =
                "add a DBC file to its bus: [bus] name = { port = \"can0\", dbc = \"car.dbc\" }";
            findings.error_with_hint(&value.origin, message, hint);
            return None;
        };
        match database.message_named(name) {
            Ok(message) if message.is_fd && gate == Gate::Classical => {
                let message = format!("message `{name}` is a CAN FD frame");
                let hint = "add frames = \"fd\"";
                findings.error_with_hint(&value.origin, message, hint);
                None
            }
            Ok(message) => {
                let filters = [extension::filter_of(message)].into();
                Some(pattern::Pattern { excludes, filters })
            }
            Err(error) => {
                findings.error(&value.origin, error.to_string());
                None
            }
        }
    }

    fn edit(&mut self, gate: Gate) -> Edit {
        let mut edit = Edit::default();
        for operator in Operator::ALL {
            if let Some(section) = self.section.section(operator.name()) {
                *edit.operands_mut(operator) = operands(section, operator, gate);
            }
        }
        edit.crc8 = self.section.section("crc8").and_then(|section| crc8(section, gate));
        edit.xor_checksum =
            self.section.section("xor_checksum").and_then(|section| xor_checksum(section, gate));
        if gate == Gate::Any {
            for key in ["and", "or", "xor", "set", "crc8", "xor_checksum"] {
                if self.section.has(key) {
                    let message = format!("`{key}` in a rule for frames of both formats");
                    let hint = "write one rule with frames = \"classical\" and one with \"fd\"";
                    let origin = self.section.origin_of(key);
                    self.section.findings().error_with_hint(origin, message, hint);
                }
            }
        }
        edit
    }
}

/// The name in `message NAME` or `!message NAME`.
fn message_name(text: &str) -> Option<(bool, &str)> {
    let text = text.trim();
    let (excludes, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let name = text.strip_prefix("message")?;
    name.starts_with(char::is_whitespace).then(|| (excludes, name.trim()))
}

/// An integer as an identifier would be written.
fn hex(number: i64) -> String {
    if number < 0 { number.to_string() } else { format!("0x{number:X}") }
}

fn takes_errors(filters: &[Filter]) -> bool {
    filters.iter().any(|filter| filter.list() == candor_engine::table::List::Error)
}

/// How many bytes of data a rule of that kind works on.
const fn data_size(gate: Gate) -> usize {
    if let Gate::Classical = gate { 8 } else { 64 }
}

fn operands(mut section: Section<'_>, operator: Operator, gate: Gate) -> Operands {
    let can_id = section.value("id").and_then(|value| id_word(value, section.findings()));
    let len = section.integer("length", 0..=u8::MAX);
    let flags = fd_flags(&mut section, gate);
    let data = section.value("data").and_then(|value| {
        let bytes = hex_bytes(value, "data", section.findings())?;
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
fn id_word(value: &Value, findings: &Findings) -> Option<u32> {
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

/// Bytes in hex; spaces and dots between them are free.
fn hex_bytes(value: &Value, key: &str, findings: &Findings) -> Option<Vec<u8>> {
    let Some(text) = value.as_str() else {
        value.wrong_type(key, "bytes in hex, such as \"11 22 33\"", findings);
        return None;
    };
    let mut bytes = Vec::new();
    let mut high = None;
    for (at, c) in text.char_indices() {
        let digit = match c.to_digit(16) {
            Some(digit) => digit as u8,
            None if high.is_none() && (c.is_ascii_whitespace() || c == '.') => continue,
            None => {
                let origin = value.origin_of_part(at..at + c.len_utf8());
                let message = format!("each byte of `{key}` must be two hex digits");
                findings.error_with_hint(&origin, message, "such as \"11 22 33\"");
                return None;
            }
        };
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        let message = format!("the last byte of `{key}` has one hex digit, expected two");
        findings.error(&value.origin, message);
        return None;
    }
    Some(bytes)
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

fn xor_checksum(mut section: Section<'_>, gate: Gate) -> Option<XorChecksum> {
    let range = range(&mut section, gate);
    let init = section.integer("init", 0..=u8::MAX).unwrap_or(0);
    section.finish();
    Some(XorChecksum { range: range?, init })
}

fn crc8(mut section: Section<'_>, gate: Gate) -> Option<Crc8> {
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
fn array<const N: usize>(value: &Value, key: &str, findings: &Findings) -> Option<Box<[u8; N]>> {
    let bytes = hex_bytes(value, key, findings)?;
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
