//! The messages of AGL's WebSocket protocol `x-afb-ws-json1`, as text. Each is a JSON array.
//!
//! | message | shape |
//! |---|---|
//! | call | `[2, "ID", "API/VERB", ARGUMENTS]`, perhaps with a token behind |
//! | reply | `[3, "ID", REPLY]`; an error is 4 |
//! | event | `[5, "API/NAME", EVENT]` |
//!
//! Source: protocol-x-afb-ws-json1.md of redpesk-core/afb-libafb 5.7, and the verbs of redpesk-common/canbus-binding. Events of
//! signals have `name` and `value` as older clients want them, and the value under the name of the signal as newer ones
//! do. Raw events have the shape of the AGL report of 2016.

use std::io::Write as _;

use candor_wire::can::frame::{EFF_MASK, id_word};
use candor_wire::can::{ExtendedId, Frame, Id, StandardId};
use serde_json::{Map, Value};

use crate::filter::Filter;
use crate::pattern::Pattern;
use crate::topic::Topic;

/// The name of the protocol, as `Sec-WebSocket-Protocol` has it.
pub const PROTOCOL: &str = "x-afb-ws-json1";
/// The most patterns that one call may have.
const MOST_PATTERNS: usize = 1_000;

/// A name under which the service is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `low-can`, of AGL.
    LowCan,
    /// `canbus`, of redpesk.
    Canbus,
}

impl Api {
    pub const ALL: [Self; 2] = [Self::LowCan, Self::Canbus];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowCan => "low-can",
            Self::Canbus => "canbus",
        }
    }
}

/// A call of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What its reply is to be called.
    pub id: String,
    /// The name before the `/`.
    pub api: String,
    /// The name behind it.
    pub verb: String,
    pub arguments: Value,
}

/// Why a message of a client ends the connection, as AGL's binder does it: with code 1008 and this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It is none of the protocol.
    InvalidFrame,
    /// It replies to a call that was never made: this service calls nobody.
    UnboundCallId,
}

impl Violation {
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::InvalidFrame => "invalid-frame",
            Self::UnboundCallId => "unbound-call-id",
        }
    }
}

/// Reads a message of a client. Events of clients are of interest to nobody: `None`.
///
/// # Errors
/// It breaks the protocol.
pub fn parse(text: &str) -> Result<Option<Call>, Violation> {
    let Ok(Value::Array(items)) = serde_json::from_str(text) else {
        return Err(Violation::InvalidFrame);
    };
    let kind = items.first().and_then(Value::as_u64);
    let name = |index: usize| items.get(index).and_then(Value::as_str);
    match (kind, items.len()) {
        // Arguments that are left out are null.
        (Some(2), 3..=5) => {
            let (Some(id), Some((api, verb))) =
                (name(1), name(2).and_then(|name| name.split_once('/')))
            else {
                return Err(Violation::InvalidFrame);
            };
            let arguments = items.get(3).cloned().unwrap_or_default();
            Ok(Some(Call { id: id.into(), api: api.into(), verb: verb.into(), arguments }))
        }
        (Some(3 | 4), 3 | 4) => Err(Violation::UnboundCallId),
        (Some(5), 3) if name(1).is_some() => Ok(None),
        _ => Err(Violation::InvalidFrame),
    }
}

/// Appends a reply: an error has its reason, a success perhaps data.
pub fn reply(id: &str, outcome: Result<Value, &str>, out: &mut Vec<u8>) {
    let (kind, status, rest) = match outcome {
        Ok(response) => (3, "success", ("response", response)),
        Err(reason) => (4, "failed", ("info", reason.into())),
    };
    let mut reply = Map::new();
    reply.insert("jtype".into(), "afb-reply".into());
    let mut request = Map::new();
    request.insert("status".into(), status.into());
    match rest {
        ("response", Value::Null) => {}
        ("response", response) => drop(reply.insert("response".into(), response)),
        (key, value) => drop(request.insert(key.into(), value)),
    }
    reply.insert("request".into(), request.into());
    // Not `json!`, which copies what it is given.
    let reply = (kind, id, reply);
    // A Vec takes everything.
    let _ = serde_json::to_writer(out, &reply);
}

/// What the call `subscribe` or `unsubscribe` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The topics.
    pub patterns: Vec<Pattern>,
    pub filter: Filter,
    /// Only the newest event of each topic.
    pub is_latest: bool,
    /// Whether several events may come in one message.
    pub is_batched: bool,
}

/// Reads the arguments of `subscribe` and `unsubscribe`: `{"event": "glob" or [..], "id": 1568 or "*", "pgn": 61442,
/// "filter": {"frequency", "min", "max", "hysteresis", "every", "change"}, "latest": true,
/// "batch": true}`. A bare string is an event.
///
/// # Errors
/// What is wrong with them, in one sentence.
pub fn wanted(arguments: &Value) -> Result<Wanted, String> {
    let named =
        |value: &Value| Value::Object(Map::from_iter([("event".to_owned(), value.clone())]));
    let arguments = if arguments.is_object() { arguments.clone() } else { named(arguments) };
    let object = arguments.as_object().cloned().unwrap_or_default();
    let mut wanted = Wanted {
        patterns: Vec::new(),
        filter: Filter::default(),
        is_latest: false,
        is_batched: false,
    };
    for (key, value) in &object {
        let pattern: fn(&Value) -> Option<Pattern> = match key.as_str() {
            "event" => |value| value.as_str().map(|name| Pattern::Name(name.into())),
            "id" => |value| match value {
                Value::String(any) if any == "*" => Some(Pattern::Raw),
                Value::String(id) => id_of(parse_number(id)?).map(Pattern::Id),
                value => id_of(value.as_u64()?).map(Pattern::Id),
            },
            "pgn" => |value| match value.as_u64() {
                Some(group) if group <= 0x3_FFFF => Some(Pattern::Group(group as u32)),
                _ => None,
            },
            "filter" => {
                wanted.filter = filter(value)?;
                continue;
            }
            "latest" | "batch" => {
                let is_wanted = value.as_bool().ok_or_else(|| {
                    format!("`{key}` must be true or false, such as {{\"{key}\": true}}")
                })?;
                match key.as_str() {
                    "latest" => wanted.is_latest = is_wanted,
                    _ => wanted.is_batched = is_wanted,
                }
                continue;
            }
            _ => {
                return Err(format!(
                    "`{key}` is unknown; there are event, id, pgn, filter, latest and batch"
                ));
            }
        };
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let pattern = pattern(value).ok_or_else(|| {
                format!(
                    "{value} is no `{key}`; use such as \"VehicleSpeed.*\", an identifier, or a PGN"
                )
            })?;
            wanted.patterns.push(pattern);
        }
    }
    match wanted.patterns.len() {
        0 => Err("nothing to subscribe to; name an `event`, `id` or `pgn`".into()),
        count if count > MOST_PATTERNS => {
            Err(format!("{count} topics in one call; {MOST_PATTERNS} are the limit"))
        }
        _ => Ok(wanted),
    }
}

/// A number as people write it: `1568`, or `0x620`.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// An identifier by its number: those of 11 bits are standard ones.
fn id_of(number: u64) -> Option<Id> {
    match number {
        0..=0x7FF => StandardId::new(number as u16).map(Id::Standard),
        _ => ExtendedId::new(u32::try_from(number).ok()?).map(Id::Extended),
    }
}

pub(crate) fn id_number(id: Id) -> u32 {
    id_word(id) & EFF_MASK
}

fn filter(value: &Value) -> Result<Filter, String> {
    let object =
        value.as_object().ok_or("`filter` must be an object, such as {\"frequency\": 3}")?;
    let mut filter = Filter::default();
    for (key, value) in object {
        let number = value.as_f64().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| format!("`{key}` of the filter must be a number"))?;
        match key.as_str() {
            "frequency" if number > 0.0 => filter.interval_ns = (1e9 / number).min(1e18) as u64,
            "min" => filter.min = Some(number),
            "max" => filter.max = Some(number),
            "every" if number > f64::from(u32::MAX) || number.fract() != 0.0 => {
                return Err(format!(
                    "`every` of the filter is {value}; it must be a whole number of at most {}",
                    u32::MAX
                ));
            }
            "every" if number >= 1.0 => filter.every = number as u32,
            "change" if number >= 0.0 => filter.change = Some(number),
            "hysteresis" if number >= 0.0 => filter.hysteresis = number,
            "frequency" | "every" | "change" | "hysteresis" => {
                return Err(format!("`{key}` of the filter is {number}, which is too small"));
            }
            _ => {
                return Err(format!(
                    "`{key}` is unknown in a filter; there are frequency (per second), min, max, hysteresis, every and change"
                ));
            }
        }
    }
    match (filter.min, filter.max) {
        (None, None) if filter.hysteresis > 0.0 => {
            Err("`hysteresis` of the filter needs `min` or `max`".to_owned())
        }
        (Some(min), Some(max)) if min > max => {
            Err(format!("`min` of the filter, {min}, is above its `max`, {max}: no value passes"))
        }
        _ => Ok(filter),
    }
}

pub(crate) fn signal_event(
    api: Api,
    topic: &Topic,
    time_ns: u64,
    value: f64,
    text: Option<&str>,
    out: &mut Vec<u8>,
) {
    let (api, name) = (api.name(), topic.escaped.as_str());
    for part in [
        "[5,\"",
        api,
        "/",
        name,
        "\",{\"event\":\"",
        api,
        "/",
        name,
        "\",\"data\":{\"name\":\"",
        name,
    ] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\",\"value\":");
    number(value, out);
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    number(value, out);
    if let Some(text) = text {
        out.extend_from_slice(b",\"text\":");
        // A Vec takes everything.
        let _ = serde_json::to_writer(&mut *out, text);
    }
    out.extend_from_slice(b",\"timestamp\":");
    whole(time_ns / 1_000, out);
    out.extend_from_slice(b"},\"jtype\":\"afb-event\"}]");
}

pub(crate) fn raw_event(topic: &Topic, frame: &Frame, out: &mut Vec<u8>) {
    let name = topic.escaped.as_str();
    for part in ["[5,\"", name, "\",{\"event\":\"", name, "\",\"data\":{"] {
        out.extend_from_slice(part.as_bytes());
    }
    raw_data(frame, out);
    out.extend_from_slice(b"},\"jtype\":\"afb-event\"}]");
}

/// Identifier and data of a frame, as members of an object.
pub(crate) fn raw_data(frame: &Frame, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"id\":");
    whole(id_number(frame.id()), out);
    out.extend_from_slice(b",\"data\":[");
    for (index, &byte) in frame.data().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        whole(byte, out);
    }
    out.push(b']');
}

/// A whole number of JSON.
pub(crate) fn whole(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The event that says how many events a subscriber has missed since the last one, and in all.
pub(crate) fn missed_event(missed: u64, total: u64, out: &mut Vec<u8>) {
    let _ = write!(
        out,
        "[5,\"candor/missed\",{{\"event\":\"candor/missed\",\"data\":{{\"missed\":{missed},\"total\":{total}}},\
         \"jtype\":\"afb-event\"}}]"
    );
}

/// A number of JSON; what is none is null.
pub(crate) fn number(value: f64, out: &mut Vec<u8>) {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        whole(value as i64, out);
    } else if value.is_finite() {
        // A Vec takes everything.
        let _ = write!(out, "{value}");
    } else {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_clients_are_calls_or_end_the_connection() {
        let call = parse(r#"[2,"17","low-can/subscribe",{"event":"a"},"token"]"#).unwrap().unwrap();
        assert_eq!(
            (call.id.as_str(), call.api.as_str(), call.verb.as_str()),
            ("17", "low-can", "subscribe")
        );
        let call = parse(r#"[2,"17","low-can/stats"]"#).unwrap().unwrap();
        assert_eq!((call.verb.as_str(), call.arguments), ("stats", Value::Null));
        assert_eq!(parse(r#"[5,"a/b",{}]"#), Ok(None));
        for text in [
            "",
            "{}",
            "[]",
            "[2]",
            "[2,17,\"a/b\",{}]",
            "[2,\"17\",\"ab\",{}]",
            "[2,\"17\"]",
            "[6,\"a\",{}]",
            "[2,\"1\",\"a/b\",1,2,3]",
            "[2.5,\"1\",\"a/b\",1]",
            "[5,\"a\"]",
            "\u{1F697}",
        ] {
            assert_eq!(parse(text), Err(Violation::InvalidFrame), "{text}");
        }
        assert_eq!(parse(r#"[3,"17",{}]"#), Err(Violation::UnboundCallId));
    }

    #[test]
    fn what_is_wanted_is_read_and_what_is_wrong_is_named() {
        let read = |text: &str| wanted(&serde_json::from_str(text).unwrap());
        let id = |number| Pattern::Id(id_of(number).unwrap());
        for (text, patterns) in [
            (r#"{"event":"Speed*"}"#, vec![Pattern::Name("Speed*".into())]),
            (r#""Speed""#, vec![Pattern::Name("Speed".into())]),
            (r#"["a","b"]"#, vec![Pattern::Name("a".into()), Pattern::Name("b".into())]),
            (r#"{"id":1568}"#, vec![id(1568)]),
            (r#"{"id":["0x620",2049]}"#, vec![id(0x620), id(2049)]),
            (r#"{"id":"*"}"#, vec![Pattern::Raw]),
            (r#"{"pgn":61442}"#, vec![Pattern::Group(61442)]),
        ] {
            assert_eq!(read(text).unwrap().patterns, patterns, "{text}");
        }
        let all = read(
            r#"{"event":"a","latest":true,"filter":{"frequency":4,"min":1,"max":2,"hysteresis":0.1,"every":3,"change":0.5}}"#,
        );
        let filter = Filter {
            interval_ns: 250_000_000,
            every: 3,
            change: Some(0.5),
            hysteresis: 0.1,
            min: Some(1.0),
            max: Some(2.0),
        };
        assert_eq!(
            all.unwrap(),
            Wanted {
                patterns: vec![Pattern::Name("a".into())],
                filter,
                is_latest: true,
                is_batched: false
            }
        );
        for (text, reason) in [
            ("{}", "nothing to subscribe to"),
            ("7", "7 is no `event`"),
            (r#"{"id":-1}"#, "-1 is no `id`"),
            (r#"{"id":536870912}"#, "536870912 is no `id`"),
            (r#"{"pgn":262144}"#, "262144 is no `pgn`"),
            (r#"{"evnt":"a"}"#, "`evnt` is unknown"),
            (r#"{"event":"a","latest":1}"#, "`latest` must be"),
            (r#"{"event":"a","filter":3}"#, "`filter` must be an object"),
            (r#"{"event":"a","filter":{"frequency":0}}"#, "too small"),
            (r#"{"event":"a","filter":{"every":0}}"#, "too small"),
            (
                r#"{"event":"a","filter":{"every":1.5}}"#,
                "`every` of the filter is 1.5; it must be a whole",
            ),
            (
                r#"{"event":"a","filter":{"every":4294967296}}"#,
                "it must be a whole number of at most 4294967295",
            ),
            (
                r#"{"event":"a","filter":{"every":1180591620717411303424}}"#,
                "it must be a whole number",
            ),
            (r#"{"event":"a","filter":{"min":5,"max":1}}"#, "no value passes"),
            (r#"{"event":"a","filter":{"fast":1}}"#, "`fast` is unknown in a filter"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn replies_have_the_shape_of_the_protocol() {
        let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let written = |outcome: Result<Value, &str>| {
            let mut out = Vec::new();
            reply("9", outcome, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            parse(written(Ok(json!([1])))),
            json!([3, "9", {"jtype": "afb-reply", "request": {"status": "success"}, "response": [1]}])
        );
        assert_eq!(
            parse(written(Err("no"))),
            json!([4, "9", {"jtype": "afb-reply", "request": {"status": "failed", "info": "no"}}])
        );
        assert!(!written(Ok(Value::Null)).contains("response"));
    }

    fn written(value: f64) -> String {
        let mut out = Vec::new();
        number(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_no_number_is_null() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(written(value), "null");
        }
        assert_eq!((written(50.0), written(-0.0)), ("50".to_owned(), "0".to_owned()));
    }

    /// By the library of the language, and by that of JSON.
    fn assert_survives(value: f64) {
        let text = written(value);
        let by_json: Value = serde_json::from_str(&text).unwrap();
        let read = [text.parse().ok(), by_json.as_f64()];
        assert_eq!(read.map(|read| read.map(f64::to_bits)), [Some(value.to_bits()); 2], "{text}");
    }

    #[test]
    fn the_ends_of_numbers_survive() {
        for value in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 9e15, 1.8e19, 1e300] {
            assert_survives(value);
        }
    }

    proptest::proptest! {
        /// Each number is written so that its bits are read.
        #[test]
        fn numbers_survive(bits: u64, single: u32) {
            for value in [f64::from_bits(bits), f32::from_bits(single).into()] {
                if value.is_finite() && value != 0.0 {
                    assert_survives(value);
                }
            }
        }
    }
}
