//! What `--json` prints: one file per object, with a description of each of its fields.
//!
//! Commands print JSON only through [`line()`] and [`write()`]. [`OBJECTS`] lists the objects; from it and from those of
//! [`lab`] come `candor help json` and the JSON Schema of all lines.

pub(crate) mod answered;
pub(crate) mod bus_frame;
pub(crate) mod check;
pub(crate) mod check_summary;
pub(crate) mod delivery;
pub(crate) mod doctor_verdict;
pub(crate) mod driver;
pub(crate) mod explain_rule;
pub(crate) mod explain_verdict;
pub(crate) mod finding;
pub(crate) mod frame;
pub(crate) mod id;
pub(crate) mod image;
pub(crate) mod image_bus;
pub(crate) mod image_rule;
pub(crate) mod image_section;
pub(crate) mod interface;
pub(crate) mod interval;
#[cfg(feature = "lab")]
pub(crate) mod lab;
pub(crate) mod latency;
pub(crate) mod loaded;
pub(crate) mod log;
pub(crate) mod log_frame;
pub(crate) mod network_bus;
pub(crate) mod network_message;
pub(crate) mod network_node;
pub(crate) mod network_summary;
pub(crate) mod ping_interval;
pub(crate) mod plan;
pub(crate) mod port_totals;
pub(crate) mod recording;
pub(crate) mod rejected;
pub(crate) mod round_trips;
mod schema;
pub(crate) mod signal;
pub(crate) mod stats_port;
pub(crate) mod stats_rule;
pub(crate) mod stats_summary;
pub(crate) mod stream;
pub(crate) mod total;
pub(crate) mod tte_check_summary;
pub(crate) mod tte_direction;
pub(crate) mod tte_instant;
pub(crate) mod tte_interval;
pub(crate) mod tte_latency;
pub(crate) mod tte_measured;
pub(crate) mod watched_frame;
pub(crate) mod watched_signal;
pub(crate) mod words;

use std::io::Write;

use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// An object that a command prints as one line.
pub(crate) trait Object: Serialize + JsonSchema {
    /// Its name, which stands under `type`.
    const TYPE: &'static str;
    /// The commands that print it, without the word `candor`. No two objects share both a command
    /// and a type.
    const COMMANDS: &'static [&'static str];
    /// Whether the line is the object itself, and not `{"type": ..., "data": {...}}`.
    const IS_PLAIN: bool = false;
}

/// Every object but those of the laboratory.
static OBJECTS: &[Entry] = &[
    Entry::new::<bus_frame::BusFrame<'_>>(),
    Entry::new::<port_totals::PortTotals<'_>>(),
    Entry::new::<delivery::Delivery<'_>>(),
    Entry::new::<interface::Interface<'_>>(),
    Entry::new::<driver::Driver>(),
    Entry::new::<interval::Interval<'_>>(),
    Entry::new::<total::Total<'_>>(),
    Entry::new::<ping_interval::PingInterval>(),
    Entry::new::<round_trips::RoundTrips>(),
    Entry::new::<answered::Answered<'_>>(),
    Entry::new::<recording::Recording>(),
    Entry::new::<check::Check<'_>>(),
    Entry::new::<doctor_verdict::DoctorVerdict>(),
    Entry::new::<frame::WireFrame>(),
    Entry::new::<log_frame::LogFrame<'_>>(),
    Entry::new::<log::Log<'_>>(),
    Entry::new::<id::LogId<'_>>(),
    Entry::new::<stream::LogStream<'_>>(),
    Entry::new::<network_summary::NetworkSummary<'_>>(),
    Entry::new::<network_bus::NetworkBus<'_>>(),
    Entry::new::<network_node::NetworkNode<'_>>(),
    Entry::new::<network_message::NetworkMessage<'_>>(),
    Entry::new::<finding::Finding<'_>>(),
    Entry::new::<plan::Plan<'_>>(),
    Entry::new::<check_summary::CheckSummary<'_>>(),
    Entry::new::<explain_verdict::ExplainVerdict<'_>>(),
    Entry::new::<explain_rule::ExplainRule<'_>>(),
    Entry::new::<image::Image<'_>>(),
    Entry::new::<image_section::ImageSection>(),
    Entry::new::<image_bus::ImageBus<'_>>(),
    Entry::new::<image_rule::ImageRule<'_>>(),
    Entry::new::<loaded::Loaded>(),
    Entry::new::<rejected::Rejected<'_>>(),
    Entry::new::<stats_port::StatsPort<'_>>(),
    Entry::new::<stats_rule::StatsRule<'_>>(),
    Entry::new::<latency::Latency<'_>>(),
    Entry::new::<stats_summary::StatsSummary<'_>>(),
    Entry::new::<tte_direction::TteDirection<'_>>(),
    Entry::new::<tte_instant::TteInstant<'_>>(),
    Entry::new::<tte_check_summary::TteCheckSummary<'_>>(),
    Entry::new::<tte_latency::TteLatency<'_>>(),
    Entry::new::<tte_interval::TteInterval>(),
    Entry::new::<tte_measured::TteMeasured<'_>>(),
    Entry::new::<watched_signal::WatchedSignal<'_>>(),
    Entry::new::<watched_frame::WatchedFrame<'_>>(),
];

/// What is known about an object.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name under `type`.
    pub(crate) name: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) is_plain: bool,
    fields: fn() -> Value,
}

impl Entry {
    const fn new<T: Object>() -> Self {
        let fields = schema::fields::<T>;
        Self { name: T::TYPE, commands: T::COMMANDS, is_plain: T::IS_PLAIN, fields }
    }

    /// The JSON Schema of what stands under `data`.
    pub(crate) fn fields(&self) -> Value {
        (self.fields)()
    }
}

/// Every object, sorted by command.
pub(crate) fn objects() -> impl Iterator<Item = Entry> {
    #[cfg(feature = "lab")]
    let objects = [OBJECTS, lab::OBJECTS].concat();
    #[cfg(not(feature = "lab"))]
    let objects = OBJECTS.to_vec();
    let mut objects = objects;
    // Those of a command stay in their order.
    objects.sort_by_key(|object| object.commands.first().copied());
    objects.into_iter()
}

/// The JSON Schema of the lines of these objects, as one document.
pub(crate) fn schema(objects: &[Entry]) -> Value {
    schema::document(objects)
}

/// `object` as one line.
pub(crate) fn line(object: &impl Object) -> Result<String, String> {
    let mut line = serde_json::to_string(&Line(object)).map_err(|error| error.to_string())?;
    line.push('\n');
    Ok(line)
}

/// A reference to an object is printed as the object.
impl<T: Object> Object for &T {
    const TYPE: &'static str = T::TYPE;
    const COMMANDS: &'static [&'static str] = T::COMMANDS;
    const IS_PLAIN: bool = T::IS_PLAIN;
}

/// Several objects, one per line.
pub(crate) fn lines<T: Object>(objects: impl IntoIterator<Item = T>) -> Result<String, String> {
    objects.into_iter().map(|object| line(&object)).collect()
}

/// Writes `object` as one line.
pub(crate) fn write(object: &impl Object, out: &mut impl Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, &Line(object))?;
    out.write_all(b"\n")
}

struct Line<'a, T>(&'a T);

impl<T: Object> Serialize for Line<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if T::IS_PLAIN {
            return self.0.serialize(serializer);
        }
        let mut line = serializer.serialize_struct("Line", 2)?;
        line.serialize_field("type", T::TYPE)?;
        line.serialize_field("data", self.0)?;
        line.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Calls `see` with the path of every field below a schema, and its own schema.
    fn fields(path: &str, schema: &Value, see: &mut impl FnMut(&str, &Value)) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            see(&path, field);
            fields(&path, field, see);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                fields(path, &schema[below], see);
            }
        }
        for choice in schema["anyOf"].as_array().into_iter().flatten() {
            fields(path, choice, see);
        }
    }

    #[test]
    fn every_object_and_every_field_is_described() {
        for object in objects() {
            let schema = object.fields();
            let summary = schema["description"].as_str().unwrap_or_default();
            let name = object.name;
            assert!(summary.ends_with('.'), "{name}: {summary:?} is not a sentence");
            assert!(schema["properties"].is_object(), "{name} has no fields");
            fields(name, &schema, &mut |path, field| {
                let words = field["description"].as_str().unwrap_or_default();
                assert!(!words.is_empty(), "{path} has no description");
                assert!(!words.ends_with('.'), "{path}: {words:?} ends with a full stop");
            });
        }
    }

    #[test]
    fn command_and_type_name_one_object() {
        let mut names = BTreeSet::new();
        for object in objects() {
            assert!(!object.commands.is_empty(), "{}", object.name);
            for command in object.commands {
                let is_new = names.insert((*command, object.name));
                assert!(is_new, "candor {command} prints two objects of type {}", object.name);
            }
        }
        let commands: Vec<_> = objects().map(|object| object.commands[0]).collect();
        assert!(commands.is_sorted(), "{commands:?}");
    }

    #[test]
    fn a_line_names_its_type_first() {
        let driver = driver::Driver { name: "n", summary: "s", example: "e", options: Vec::new() };
        let data = "{\"name\":\"n\",\"summary\":\"s\",\"example\":\"e\",\"options\":[]}";
        let expected = format!("{{\"type\":\"driver\",\"data\":{data}}}\n");
        assert_eq!(line(&driver).unwrap(), expected);
        let mut written = Vec::new();
        write(&driver, &mut written).unwrap();
        assert_eq!(written, expected.as_bytes());
    }
}
