//! Messages in CBOR (RFC 8949) or MessagePack, for the WebSocket sub-protocols `candor.cbor` and `candor.msgpack`. Each is
//! an array whose first item says what it is; the other items are known by their places.
//!
//! | message | shape |
//! |---|---|
//! | call | `[2, ID, "VERB", ARGUMENTS]`; the id is a number or text, and arguments may be left out |
//! | reply | `[3, ID, RESPONSE]`; an error is `[4, ID, "REASON"]` |
//! | event | `[5, TOPIC, TIME, ORDINAL, VALUE]` or `[5, TOPIC, TIME, ORDINAL, VALUE, "TEXT"]`; of frames, the value is bytes |
//! | batch | `[6, MESSAGE, ...]`: messages of the kinds 5, 7, 8 and 9 |
//! | name | `[7, TOPIC, "NAME"]` |
//! | missed | `[8, MISSED, TOTAL]` |
//! | time base | `[9, BASE]`, in us since 1970 |
//!
//! An event is encoded once for all subscribers, so what it says must mean the same to each of them. A topic is a
//! number whose name comes before its first event. The time is in us since the time base, which is a multiple of 2^32
//! and comes before the first event that counts from it. The ordinal is the last eight bits of which event of its
//! topic it is.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::afb::Violation;
use crate::log::Mark;

/// How deep lists and maps of a call may be nested.
const MOST_DEPTH: usize = 32;

/// How messages become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// CBOR, RFC 8949.
    Cbor,
    MessagePack,
}

impl Encoding {
    pub const ALL: [Self; 2] = [Self::Cbor, Self::MessagePack];

    /// Its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cbor => "cbor",
            Self::MessagePack => "msgpack",
        }
    }

    /// The name of the protocol, as `Sec-WebSocket-Protocol` has it.
    #[must_use]
    pub const fn protocol(self) -> &'static str {
        match self {
            Self::Cbor => "candor.cbor",
            Self::MessagePack => "candor.msgpack",
        }
    }

    /// The value that the bytes are.
    fn decode<T: DeserializeOwned>(self, mut bytes: &[u8]) -> Option<T> {
        let value = match self {
            Self::Cbor => {
                ciborium::de::from_reader_with_recursion_limit(&mut bytes, MOST_DEPTH).ok()
            }
            Self::MessagePack => {
                let mut reader = rmp_serde::Deserializer::new(&mut bytes);
                reader.set_max_depth(MOST_DEPTH);
                T::deserialize(&mut reader).ok()
            }
        };
        value.filter(|_| bytes.is_empty())
    }

    fn encode(self, value: &impl Serialize) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(value, &mut out);
        out
    }

    fn write(self, value: &impl Serialize, out: &mut Vec<u8>) {
        // A Vec takes everything, and JSON has nothing that these do not have.
        match self {
            Self::Cbor => drop(ciborium::into_writer(value, out)),
            Self::MessagePack => drop(rmp_serde::encode::write(out, value)),
        }
    }
}

/// A call of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What its reply is to be called: a number or text.
    pub id: Value,
    /// What is to be done.
    pub verb: String,
    pub arguments: Value,
}

/// Reads a message of a client, which must be a call.
///
/// # Errors
/// It breaks the protocol.
pub fn parse(encoding: Encoding, bytes: &[u8]) -> Result<Call, Violation> {
    let items: Vec<Value> = encoding.decode(bytes).ok_or(Violation::InvalidFrame)?;
    let mut items = items.into_iter();
    let (kind, id, verb) = (items.next(), items.next(), items.next());
    let arguments = items.next();
    match (kind.as_ref().and_then(Value::as_u64), id, verb) {
        (Some(2), Some(id), Some(Value::String(verb)))
            if items.next().is_none() && (id.is_u64() || id.is_string()) =>
        {
            Ok(Call { id, verb, arguments: arguments.unwrap_or_default() })
        }
        (Some(3 | 4), Some(_), Some(_)) => Err(Violation::UnboundCallId),
        _ => Err(Violation::InvalidFrame),
    }
}

/// A call, for clients.
#[must_use]
pub fn call(encoding: Encoding, id: u64, verb: &str, arguments: &Value) -> Vec<u8> {
    encoding.encode(&(2, id, verb, arguments))
}

/// Appends a reply: a success has a response, an error its reason.
pub fn reply(encoding: Encoding, id: &Value, outcome: Result<&Value, &str>, out: &mut Vec<u8>) {
    match outcome {
        Ok(response) => encoding.write(&(3, id, response), out),
        Err(reason) => encoding.write(&(4, id, reason), out),
    }
}

/// The time base of an event at a time in ns, in us since 1970.
pub(crate) const fn time_base(time_ns: u64) -> u64 {
    (time_ns / 1_000) >> 32 << 32
}

/// The part of an event that is the same for frames and signals.
fn begin(encoding: Encoding, items: usize, mark: Mark, out: &mut Vec<u8>) {
    array(encoding, items, out);
    unsigned(encoding, 5, out);
    unsigned(encoding, mark.number.into(), out);
    unsigned(encoding, (mark.time_ns / 1_000) & 0xFFFF_FFFF, out);
    unsigned(encoding, mark.ordinal & 0xFF, out);
}

pub(crate) fn signal_event(
    encoding: Encoding,
    mark: Mark,
    value: f64,
    name: Option<&str>,
    out: &mut Vec<u8>,
) {
    begin(encoding, if name.is_some() { 6 } else { 5 }, mark, out);
    number(encoding, value, out);
    if let Some(name) = name {
        text(encoding, name, out);
    }
}

/// The event of a frame.
pub(crate) fn raw_event(encoding: Encoding, mark: Mark, data: &[u8], out: &mut Vec<u8>) {
    begin(encoding, 5, mark, out);
    match encoding {
        Encoding::Cbor => head(0x40, data.len() as u64, out),
        // A frame has 64 bytes at most.
        Encoding::MessagePack => out.extend([0xC4, data.len() as u8]),
    }
    out.extend_from_slice(data);
}

pub(crate) fn name_message(encoding: Encoding, topic: u32, name: &str, out: &mut Vec<u8>) {
    array(encoding, 3, out);
    unsigned(encoding, 7, out);
    unsigned(encoding, topic.into(), out);
    text(encoding, name, out);
}

/// How many events were missed since the last one, and in all.
pub(crate) fn missed_message(encoding: Encoding, missed: u64, total: u64, out: &mut Vec<u8>) {
    array(encoding, 3, out);
    for number in [8, missed, total] {
        unsigned(encoding, number, out);
    }
}

/// What times count from, in us since 1970.
pub(crate) fn base_message(encoding: Encoding, base_us: u64, out: &mut Vec<u8>) {
    array(encoding, 2, out);
    unsigned(encoding, 9, out);
    unsigned(encoding, base_us, out);
}

/// What stands in front of so many messages that are sent as one.
pub(crate) fn begin_batch(encoding: Encoding, messages: usize, out: &mut Vec<u8>) {
    array(encoding, messages + 1, out);
    unsigned(encoding, 6, out);
}

/// The head of a CBOR item: its kind in the upper three bits, and its number or length as short as it can be.
fn head(kind: u8, number: u64, out: &mut Vec<u8>) {
    match number {
        0..=23 => out.push(kind | number as u8),
        _ => coded([24, 25, 26, 27].map(|code| kind | code), number, out),
    }
}

/// An item behind a code for one, two, four or eight bytes.
fn coded(codes: [u8; 4], number: u64, out: &mut Vec<u8>) {
    match number {
        0..=0xFF => out.extend([codes[0], number as u8]),
        0x100..=0xFFFF => {
            out.push(codes[1]);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xFFFF_FFFF => {
            out.push(codes[2]);
            out.extend((number as u32).to_be_bytes());
        }
        _ => {
            out.push(codes[3]);
            out.extend(number.to_be_bytes());
        }
    }
}

fn array(encoding: Encoding, items: usize, out: &mut Vec<u8>) {
    match (encoding, items) {
        (Encoding::Cbor, items) => head(0x80, items as u64, out),
        (Encoding::MessagePack, 0..=15) => out.push(0x90 | items as u8),
        (Encoding::MessagePack, 16..=0xFFFF) => {
            out.push(0xDC);
            out.extend((items as u16).to_be_bytes());
        }
        // Messages are far shorter than 4 GB.
        (Encoding::MessagePack, items) => {
            out.push(0xDD);
            out.extend((items as u32).to_be_bytes());
        }
    }
}

fn text(encoding: Encoding, text: &str, out: &mut Vec<u8>) {
    match (encoding, text.len()) {
        (Encoding::Cbor, len) => head(0x60, len as u64, out),
        (Encoding::MessagePack, len @ 0..=31) => out.push(0xA0 | len as u8),
        // No name is as long as 4 GB, so the last code is not used.
        (Encoding::MessagePack, len) => coded([0xD9, 0xDA, 0xDB, 0xDB], len as u64, out),
    }
    out.extend_from_slice(text.as_bytes());
}

fn unsigned(encoding: Encoding, number: u64, out: &mut Vec<u8>) {
    match (encoding, number) {
        (Encoding::Cbor, number) => head(0x00, number, out),
        (Encoding::MessagePack, 0..=0x7F) => out.push(number as u8),
        (Encoding::MessagePack, number) => coded([0xCC, 0xCD, 0xCE, 0xCF], number, out),
    }
}

/// A number as short as it can be without a loss: whole, or of four or eight bytes.
fn number(encoding: Encoding, value: f64, out: &mut Vec<u8>) {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        let whole = value as i64;
        match (encoding, whole) {
            (_, 0..) => unsigned(encoding, whole as u64, out),
            (Encoding::Cbor, _) => head(0x20, !whole as u64, out),
            (Encoding::MessagePack, -32..) => out.push(whole as u8),
            (Encoding::MessagePack, -0x80..) => out.extend([0xD0, whole as u8]),
            (Encoding::MessagePack, -0x8000..) => {
                out.push(0xD1);
                out.extend((whole as i16).to_be_bytes());
            }
            (Encoding::MessagePack, -0x8000_0000..) => {
                out.push(0xD2);
                out.extend((whole as i32).to_be_bytes());
            }
            (Encoding::MessagePack, _) => {
                out.push(0xD3);
                out.extend(whole.to_be_bytes());
            }
        }
        return;
    }
    let (short, long) = match encoding {
        Encoding::Cbor => (0xFA, 0xFB),
        Encoding::MessagePack => (0xCA, 0xCB),
    };
    let single = value as f32;
    if f64::from(single) == value || value.is_nan() {
        out.push(short);
        out.extend(single.to_be_bytes());
    } else {
        out.push(long);
        out.extend(value.to_be_bytes());
    }
}

/// A message of the service, for clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A reply to the call with this id: its response, or the reason of the refusal.
    Reply(u64, Result<Value, String>),
    Event {
        /// The number of its topic.
        topic: u32,
        /// Its time in us since the time base.
        time_us: u32,
        /// The last eight bits of its ordinal.
        ordinal: u8,
        content: Content,
    },
    /// Several messages.
    Batch(Vec<Message>),
    /// A topic has a name.
    Name(u32, String),
    /// Events missed since the last one, and in all.
    Missed(u64, u64),
    /// What times count from, in us since 1970.
    Base(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The value of a signal, and what that is called.
    Value(f64, Option<String>),
    /// The data of a frame.
    Data(Vec<u8>),
}

/// An item of a message, in either encoding.
enum Item {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Item>),
    Other(Value),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an item of a message")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Item, E> {
        Ok(Item::Unsigned(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Item, E> {
        Ok(u64::try_from(number).map_or(Item::Signed(number), Item::Unsigned))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Item, E> {
        Ok(Item::Float(number))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Item, E> {
        Ok(Item::Bytes(bytes.to_vec()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Item, E> {
        Ok(Item::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Item, E> {
        Ok(Item::Other(is_true.into()))
    }

    fn visit_unit<E>(self) -> Result<Item, E> {
        Ok(Item::Other(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Item, E> {
        Ok(Item::Other(Value::Null))
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, from: D) -> Result<Item, D::Error> {
        Item::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Item, A::Error> {
        // What a message says about its length is not believed.
        let mut list = Vec::with_capacity(items.size_hint().unwrap_or(0).min(64));
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Item::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Item::Other)
    }
}

impl Item {
    fn into_value(self) -> Value {
        match self {
            Self::Unsigned(number) => number.into(),
            Self::Signed(number) => number.into(),
            Self::Float(number) => number.into(),
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => bytes.into(),
            Self::List(items) => items.into_iter().map(Self::into_value).collect::<Vec<_>>().into(),
            Self::Other(value) => value,
        }
    }
}

/// Reads a message as it comes, without lists of items in between.
#[derive(Clone, Copy)]
struct MessageVisitor {
    /// Within a batch, there is no further one.
    is_alone: bool,
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(MessageVisitor { is_alone: true })
    }
}

/// A message in a batch.
struct Inner(Message);

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(MessageVisitor { is_alone: false }).map(Self)
    }
}

/// The next item of a message, which must be there.
fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(items: &mut A) -> Result<T, A::Error> {
    items.next_element()?.ok_or_else(|| A::Error::custom("cut off"))
}

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Message, A::Error> {
        let message = match next::<u8, _>(&mut items)? {
            3 => Message::Reply(next(&mut items)?, Ok(next::<Item, _>(&mut items)?.into_value())),
            4 => Message::Reply(next(&mut items)?, Err(next(&mut items)?)),
            5 => {
                let (topic, time_us) = (next(&mut items)?, next(&mut items)?);
                let ordinal = next(&mut items)?;
                let content = match next(&mut items)? {
                    Item::Bytes(data) => Content::Data(data),
                    Item::Unsigned(value) => Content::Value(value as f64, items.next_element()?),
                    Item::Signed(value) => Content::Value(value as f64, items.next_element()?),
                    Item::Float(value) => Content::Value(value, items.next_element()?),
                    _ => return Err(A::Error::custom("no value")),
                };
                Message::Event { topic, time_us, ordinal, content }
            }
            6 if self.is_alone => {
                let mut messages = Vec::new();
                while let Some(Inner(message)) = items.next_element()? {
                    messages.push(message);
                }
                Message::Batch(messages)
            }
            7 => Message::Name(next(&mut items)?, next(&mut items)?),
            8 => Message::Missed(next(&mut items)?, next(&mut items)?),
            9 => Message::Base(next(&mut items)?),
            _ => return Err(A::Error::custom("no such message")),
        };
        // What later services may add is passed over.
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(message)
    }
}

/// Reads a message of the service; `None` if it is none.
#[must_use]
pub fn read(encoding: Encoding, bytes: &[u8]) -> Option<Message> {
    encoding.decode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_clients_are_calls_or_end_the_connection() {
        for encoding in Encoding::ALL {
            let parse = |value: Value| parse(encoding, &encoding.encode(&value));
            let call =
                parse(json!([2, 7, "subscribe", {"event": "a", "filter": {"min": -1.5}}])).unwrap();
            assert_eq!((call.id, call.verb.as_str()), (json!(7), "subscribe"));
            assert_eq!(call.arguments, json!({"event": "a", "filter": {"min": -1.5}}));
            assert_eq!(parse(json!([2, "x", "list"])).unwrap().arguments, Value::Null);
            for value in [
                json!({}),
                json!([]),
                json!([2]),
                json!([2, 1]),
                json!([2, 1, 1]),
                json!([2, -1, "list"]),
                json!([2, null, "list"]),
                json!([2, 1, "list", null, null]),
                json!([5, 1, 1, 1, 1]),
            ] {
                assert_eq!(parse(value.clone()), Err(Violation::InvalidFrame), "{value}");
            }
            assert_eq!(parse(json!([3, 1, null])), Err(Violation::UnboundCallId));
            // Nested too deep, cut off, and with something behind.
            let deep = (0..MOST_DEPTH).fold(Value::Null, |inner, _| json!([inner]));
            assert_eq!(parse(json!([2, 1, "list", deep])), Err(Violation::InvalidFrame));
            let whole = super::call(encoding, 1, "list", &Value::Null);
            assert!(super::parse(encoding, &whole).is_ok());
            for len in 0..whole.len() {
                assert!(super::parse(encoding, &whole[..len]).is_err());
            }
            assert!(super::parse(encoding, &[&whole[..], &[0]].concat()).is_err());
        }
    }

    proptest! {
        /// What another program decodes is what was encoded, in no more bytes than it takes.
        #[test]
        fn numbers_are_what_they_were(whole in any::<i64>(), bits in any::<u64>(), shift in 0..64_u32) {
            let whole = whole >> shift;
            for value in [whole as f64, whole as f64 / 8.0, f64::from_bits(bits), f64::INFINITY, -0.5] {
                for encoding in Encoding::ALL {
                    let mut out = Vec::new();
                    number(encoding, value, &mut out);
                    let decoded = match encoding.decode::<ciborium::Value>(&out).unwrap() {
                        ciborium::Value::Integer(whole) => i128::from(whole) as f64,
                        decoded => decoded.as_float().unwrap(),
                    };
                    prop_assert!(decoded == value || value.is_nan() && decoded.is_nan());
                    prop_assert!(out.len() <= 9);
                }
            }
            let number = bits >> shift;
            for encoding in Encoding::ALL {
                let mut out = Vec::new();
                unsigned(encoding, number, &mut out);
                prop_assert_eq!(encoding.decode::<u64>(&out), Some(number));
                prop_assert_eq!(out, encoding.encode(&number));
            }
        }

        #[test]
        fn texts_and_arrays_are_what_the_libraries_write(len in 0..70_000_usize) {
            for encoding in Encoding::ALL {
                for len in [len, len % 300, len % 40] {
                    let (word, mut out) = ("x".repeat(len), Vec::new());
                    text(encoding, &word, &mut out);
                    prop_assert_eq!(out, encoding.encode(&word));
                    let mut out = Vec::new();
                    array(encoding, len, &mut out);
                    out.extend(std::iter::repeat_n(0, len));
                    prop_assert_eq!(out, encoding.encode(&vec![0_u8; len]));
                }
            }
        }
    }
}
