//! Gateways and their rule files.

use std::path::Path;
use std::sync::Arc;

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Origin, Source};
use candor_engine::Table as Rules;
use candor_time::Nanos;

use super::listed::{name_of, require};
use super::nodes::queue;
use super::{Context, bus_named};
use crate::{Bus, Delay, Gateway, Queue};

/// Makes the buses of a gateway that are `buses` real, whatever ports its rule file gives them: only their
/// names count.
pub fn place_buses(rules: &mut Rules, buses: &[Bus]) {
    for bus in &mut rules.buses {
        bus.is_virtual &= buses.iter().all(|known| known.name != bus.name);
    }
}

/// A gateway with the rules of its file, and the text of these. What is wrong with the rules is reported at
/// their place.
pub(super) fn gateway(
    name: &str,
    table: &Table,
    usual: Queue,
    context: &Context<'_>,
    findings: &Findings,
) -> Option<(Gateway, Arc<Source>)> {
    let include = context.include;
    let mut section = Section::new(table, findings);
    require(&mut section, &[("rules", "name its rule file, as in rules = \"car.rules.toml\"")]);
    name_of("gateway", name, section.origin(), findings);
    let file = section.string("rules");
    let origin = section.origin_of("rules");
    let delay = delay(&mut section);
    let queue = queue(&mut section, usual);
    section.finish();
    let file = file?;
    let text = include(file).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            format!("byte {byte} is not UTF-8; rule files are text in UTF-8")
        })
    });
    let text = match text {
        Ok(text) => text,
        Err(reason) => {
            let hint = "name a rule file; it is looked for beside the network file";
            findings.error_with_hint(origin, format!("{file}: {reason}"), hint);
            return None;
        }
    };
    // What a rule file names is beside it, as it is beside the network file.
    let folder = |name| Path::new(name).parent().unwrap_or(Path::new(""));
    let beside = |name: &str| include(&folder(file).join(name).to_string_lossy());
    let shown = folder(origin.source().name()).join(file).display().to_string();
    let (rules, found) = candor_rules::file::parse_with(&shown, &text, &beside);
    for finding in found {
        findings.push(finding);
    }
    let mut rules = rules?;
    place_buses(&mut rules, context.buses);
    let source = Source::new(shown, text);
    for bus in rules.buses.iter().filter(|bus| !bus.is_virtual) {
        let origin = bus_in(&source, &bus.name);
        bus_named(context.buses, context.unread, &bus.name, &origin, findings)?;
    }
    Some((Gateway { name: name.into(), delay, queue, rules }, source))
}

/// `delay` or `time_per_frame`: how long the gateway takes.
fn delay(section: &mut Section<'_>) -> Option<Delay> {
    let delay = interval(section, "delay").map(|(least, most)| Delay::Between(least, most));
    let per_frame = interval(section, "time_per_frame");
    if delay.is_some() && per_frame.is_some() {
        let message = "a gateway can have `delay` or `time_per_frame`, not both";
        let hint = "delay: from a frame to its copy, as measured; time_per_frame: of the processor, for each frame";
        section.findings().error_with_hint(section.origin_of("time_per_frame"), message, hint);
    }
    delay.or_else(|| per_frame.map(|(least, most)| Delay::PerFrame(least, most)))
}

/// The least and the greatest of a time: two durations, or the greatest alone.
fn interval(section: &mut Section<'_>, key: &'static str) -> Option<(Nanos, Nanos)> {
    let findings = section.findings();
    let value = section.value(key)?;
    if value.as_str().is_some() {
        return value.nanos(key, findings).map(|most| (Nanos::ZERO, most));
    }
    let Some([least, most]) = value.as_array() else {
        let expected = "the least and the greatest duration, as in [\"20us\", \"200us\"]";
        value.wrong_type(key, expected, findings);
        return None;
    };
    let (least, most) = (least.nanos(key, findings), most.nanos(key, findings));
    let (least, most) = (least?, most?);
    if least > most {
        let message = format!("`{key}` is at least {least}, and at most {most}, which is less");
        findings.error_with_hint(&value.origin, message, "write the least time first");
    }
    Some((least, most))
}

/// Where a rule file defines a bus.
fn bus_in(source: &Arc<Source>, name: &str) -> Origin {
    let document = candor_config::parse(source, &Findings::new());
    let buses = document.as_ref().and_then(|it| it.get("bus")).and_then(Value::as_table);
    let mut entries = buses.into_iter().flat_map(Table::entries);
    let entry = entries.find(|entry| entry.key == name);
    entry.map_or_else(|| Origin::whole(source), |entry| entry.origin.clone())
}
