//! The steps of an ordered edit.

mod place;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use candor_config::{Data, Section, Value};
use candor_diagnostics::{Findings, meant_or};
use candor_signals::Message as DbcMessage;

use crate::file::edit::{array, crc8, data_size, id_word, operands, xor_checksum};
use candor_engine::Gate;
use candor_engine::edit::Operator;
use candor_engine::extension::Conversion;
use candor_engine::extension::action::{Action, Copy, Counter, Inexact, Remap, Signal};
use candor_engine::extension::e2e::{E2e, Inclusion, Profile1};

use self::place::Side;
use super::files::{MOST_PAIRS, Pairs, show};
use super::{RuleContext, filter_of};

const MOST_STEPS: usize = 256;

pub(super) fn actions(
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
    Received,
    /// Those of another message.
    Message(Box<DbcMessage>),
    /// Those of a message of which only identifier and length are reported.
    Unknown,
}

/// What steps an edit may have, by their keys.
pub const STEPS: [&str; 12] = [
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
                    let hint = meant_or(&entry.key, STEPS, || {
                        format!("the steps are `{}`", STEPS.join("`, `"))
                    });
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
