//! One `[[rule]]`: its buses, what it takes, its settings.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use candor_config::{Data, Section, Value};
use candor_diagnostics::meant_or;

use super::edit::{edit, hex};
use super::extension::{self, Files, RuleContext};
use crate::pattern;
use candor_engine::table::HOPS_LIMIT;
use candor_engine::{Bus, BusIndex, Filter, Gate, Rule};

/// Reads one `[[rule]]`.
pub(super) struct RuleReader<'a> {
    pub(super) section: Section<'a>,
    pub(super) buses: &'a [Bus],
    pub(super) by_name: &'a BTreeMap<String, BusIndex>,
    pub(super) files: &'a Files<'a>,
}

impl RuleReader<'_> {
    pub(super) fn read(mut self, index: usize) -> Rule {
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
        let edit = edit(&mut self.section, gate);
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
        meant_or(name, names(), || "add it to [bus]".to_string())
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

fn takes_errors(filters: &[Filter]) -> bool {
    filters.iter().any(|filter| filter.list() == candor_engine::table::List::Error)
}
