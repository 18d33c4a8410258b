//! What clients of the WebSocket may call: the verbs of AGL's `low-can` and of redpesk's `canbus`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use candor_events::afb::{self, Api, Wanted, wanted};
use candor_events::binary::{self, Encoding};
use candor_events::{Format, Hub, Kind, Pattern, Topic, TopicId};
use candor_linux::clock;
use candor_time::Monotonic;
use candor_wire::can::frame::{EFF_MASK, id_word};
use candor_wire::can::{Frame, Id};
use serde_json::{Map, Value, json};

use crate::Shared;
use crate::ingest::Totals;
use crate::session::Session;

/// The most patterns that a connection may subscribe to.
const MOST_PATTERNS: usize = 1_000;

/// An answer of up to so many entries is made at once; a longer one, which takes some milliseconds, by another thread.
const FEW_ENTRIES: usize = 64;

/// What is answered.
pub(crate) enum Response {
    /// This.
    Plain(Value),
    /// What is there when the answer is made.
    Asked(Question),
}

impl From<Value> for Response {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

impl Response {
    /// Encodes it, and does not hold up the event loop with that. `None` while the service ends.
    pub(crate) async fn encode<T: Send + 'static>(
        shared: &Arc<Shared>,
        outcome: Result<Self, String>,
        encode: impl FnOnce(Result<Value, String>) -> T + Send + 'static,
    ) -> Option<T> {
        let question = match outcome {
            Ok(Self::Asked(question)) => question,
            Ok(Self::Plain(value)) => return Some(encode(Ok(value))),
            Err(reason) => return Some(encode(Err(reason))),
        };
        let is_short = question.is_short(&shared.hub());
        match is_short {
            Ok(true) => Some(encode(question.answer(shared))),
            Ok(false) => {
                let shared = Arc::clone(shared);
                let encode = move || encode(question.answer(&shared));
                tokio::task::spawn_blocking(encode).await.ok()
            }
            Err(reason) => Some(encode(Err(reason))),
        }
    }
}

/// What a client wants to know. Nothing is gathered for it before its turn, so clients that wait take no memory.
pub(crate) enum Question {
    /// All signals, and the identifiers seen so far.
    List,
    /// The names of the topics that one of the patterns takes.
    Names(Vec<Pattern>),
    /// Newest values.
    Values(Vec<Pattern>),
}

impl Question {
    /// Whether the answer is made in no time.
    ///
    /// # Errors
    /// A name that is none, in one sentence.
    pub(crate) fn is_short(&self, hub: &Hub) -> Result<bool, String> {
        let entries = match self {
            Self::List => hub.topics().len(),
            Self::Names(patterns) | Self::Values(patterns) => taken_by(hub, patterns)?.len(),
        };
        Ok(entries <= FEW_ENTRIES)
    }

    /// The answer. The hub is not locked while that is made of what was gathered there.
    ///
    /// # Errors
    /// A name that is none, in one sentence.
    pub(crate) fn answer(self, shared: &Shared) -> Result<Value, String> {
        Ok(match self {
            Self::List => {
                let entries = list(&shared.hub());
                listing(entries)
            }
            Self::Names(patterns) => names(&shared.hub(), &patterns)?.into(),
            Self::Values(patterns) => {
                let entries = values(&shared.hub(), &patterns)?;
                entries.into_iter().map(Newest::into_value).collect::<Vec<_>>().into()
            }
        })
    }
}

/// Answers a call of AGL's protocol. `None` while the service ends.
pub(crate) async fn answer(session: &Session, call: afb::Call) -> Option<String> {
    let api = Api::ALL.into_iter().find(|api| api.name() == call.api);
    let outcome = match api {
        Some(api) => perform(session, Format::Afb(api), &call.verb, &call.arguments),
        None => {
            Err(format!("`{}` is no api of this service; there are low-can and canbus", call.api))
        }
    };
    let encode = move |outcome: Result<_, String>| {
        afb::reply(&call.id, outcome.as_ref().map_err(String::as_str).cloned())
    };
    Response::encode(session.shared(), outcome, encode).await
}

/// Answers a call in CBOR or MessagePack. `None` while the service ends.
pub(crate) async fn answer_binary(
    session: &Session,
    encoding: Encoding,
    call: binary::Call,
) -> Option<Vec<u8>> {
    let format = Format::Binary(encoding);
    let outcome = perform(session, format, &call.verb, &call.arguments);
    let encode = move |outcome: Result<_, String>| {
        binary::reply(encoding, &call.id, outcome.as_ref().map_err(String::as_str))
    };
    Response::encode(session.shared(), outcome, encode).await
}

fn perform(
    session: &Session,
    format: Format,
    verb: &str,
    arguments: &Value,
) -> Result<Response, String> {
    let shared = session.shared();
    match verb {
        "subscribe" => subscribe(session, format, wanted(arguments)?).map(Response::from),
        "unsubscribe" => {
            let Wanted { patterns, .. } = wanted(arguments)?;
            let mut hub = shared.hub();
            let mut subscriptions = session.subscriptions();
            match subscriptions.of(format, &mut hub).unsubscribe(&mut hub, &patterns) {
                true => {
                    session.note_change(&subscriptions, &hub);
                    Ok(Value::Null.into())
                }
                false => Err("there is no such subscription; name it as it was made".to_owned()),
            }
        }
        "list" if !arguments.is_null() => {
            Ok(Response::Asked(Question::Names(wanted(arguments)?.patterns)))
        }
        "list" => Ok(Response::Asked(Question::List)),
        "get" => {
            let patterns = match arguments {
                Value::Null => vec![everything(&shared.hub())],
                arguments => wanted(arguments)?.patterns,
            };
            Ok(Response::Asked(Question::Values(patterns)))
        }
        "stats" => Ok(stats(shared).into()),
        // There is nothing to be authorised for.
        "auth" => Ok(Value::Null.into()),
        verb => Err(format!(
            "`{verb}` is no verb; there are subscribe, unsubscribe, list, get, stats and auth"
        )),
    }
}

/// Makes a subscription.
///
/// # Errors
/// A name that is none, or too much of it, in one sentence.
pub(crate) fn subscribe(
    session: &Session,
    format: Format,
    wanted: Wanted,
) -> Result<Value, String> {
    let Wanted { patterns, filter, is_latest, is_batched } = wanted;
    if is_batched && !matches!(format, Format::Binary(_)) {
        return Err("`batch` needs the sub-protocol candor.cbor or candor.msgpack".to_owned());
    }
    let mut hub = session.shared().hub();
    let mut subscriptions = session.subscriptions();
    if subscriptions.patterns_with(format, &patterns) > MOST_PATTERNS {
        return Err(format!(
            "a connection may subscribe to {MOST_PATTERNS} patterns; use globs, or another one"
        ));
    }
    taken_by(&hub, &patterns)?;
    let subscriber = subscriptions.of(format, &mut hub);
    let topics: usize = patterns
        .into_iter()
        .map(|pattern| subscriber.subscribe(&mut hub, pattern, filter.clone(), is_latest))
        .sum();
    subscriber.set_batched(is_batched);
    let mut response = json!({ "topics": topics });
    if let Format::Binary(_) = format {
        let names = subscriber.name_topics(&hub);
        let names = names.into_iter().map(|(number, name)| json!([number, name]));
        response["names"] = names.collect::<Vec<_>>().into();
    }
    session.note_change(&subscriptions, &hub);
    Ok(response)
}

/// An identifier as a number, and whether it is an extended one.
fn number(id: Id) -> (u32, bool) {
    (id_word(id) & EFF_MASK, matches!(id, Id::Extended(_)))
}

/// A signal, or an identifier that was seen.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bus: String,
    pub(crate) id: u32,
    pub(crate) is_extended: bool,
    /// Of a signal: its unit, and what its values are called.
    pub(crate) signal: Option<(String, Vec<(i128, String)>)>,
}

impl Listed {
    fn new(hub: &Hub, topic: &Topic) -> Self {
        let bus = hub.buses().get(topic.bus);
        let (id, is_extended) = number(topic.id());
        let signal = match &topic.kind {
            Kind::Raw { .. } => None,
            Kind::Signal { unit, message, signal, .. } => {
                let database = bus.and_then(|bus| bus.database.as_ref());
                let signal = database
                    .and_then(|database| database.messages().get(*message))
                    .and_then(|message| message.signals.get(*signal));
                let names = signal.iter().flat_map(|signal| signal.value_names.iter());
                let names = names.map(|(raw, name)| (raw, name.to_owned())).collect();
                Some((unit.clone(), names))
            }
        };
        let bus = bus.map_or_else(String::new, |bus| bus.name.clone());
        Self { name: topic.name.clone(), bus, id, is_extended, signal }
    }
}

/// All signals, and the identifiers seen so far.
pub(crate) fn list(hub: &Hub) -> Vec<Listed> {
    let topics = hub.topics().iter().filter(|topic| !topic.is_gone);
    topics.map(|topic| Listed::new(hub, topic)).collect()
}

/// The same as it is answered.
fn listing(entries: Vec<Listed>) -> Value {
    let mut signals = Vec::new();
    let mut frames = Vec::new();
    for Listed { name, bus, id, is_extended, signal } in entries {
        let Some((unit, names)) = signal else {
            frames.push(json!({ "name": name, "bus": bus, "id": id, "extended": is_extended }));
            continue;
        };
        let mut entry = json!({ "name": name, "bus": bus, "unit": unit, "id": id });
        if !names.is_empty() {
            let names: Map<_, _> =
                names.into_iter().map(|(raw, name)| (raw.to_string(), name.into())).collect();
            entry["values"] = names.into();
        }
        signals.push(entry);
    }
    json!({ "signals": signals, "frames": frames })
}

/// The names of the topics that patterns take, as redpesk's canbus-binding lists them.
///
/// # Errors
/// As [`taken_by`].
fn names(hub: &Hub, patterns: &[Pattern]) -> Result<Vec<Value>, String> {
    let taken = taken_by(hub, patterns)?.into_iter().filter_map(|id| hub.topic(id));
    let topics = taken.filter(|topic| !topic.is_gone);
    Ok(topics.map(|topic| topic.name.as_str().into()).collect())
}

/// All signals, or all frames if there are none.
fn everything(hub: &Hub) -> Pattern {
    match has_signals(hub) {
        true => Pattern::Name("*".into()),
        false => Pattern::Raw,
    }
}

/// Whether there are signals.
pub(crate) fn has_signals(hub: &Hub) -> bool {
    hub.topics().iter().any(|topic| !topic.is_raw() && !topic.is_gone)
}

/// Whether a topic is not gone.
fn is_there(hub: &Hub, id: TopicId) -> bool {
    hub.topic(id).is_some_and(|topic| !topic.is_gone)
}

/// The topics that one of the patterns takes, each once. A name that no signal has can only be a mistake; identifiers may
/// still come up.
fn taken_by(hub: &Hub, patterns: &[Pattern]) -> Result<Vec<TopicId>, String> {
    let mut all = Vec::new();
    for pattern in patterns {
        let taken = hub.taken_by(pattern);
        if let Pattern::Name(name) = pattern
            && !taken.iter().any(|id| is_there(hub, *id))
        {
            return Err(format!("no signal is called `{name}`; the verb `list` shows all names"));
        }
        all.extend(taken);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The newest value of a signal, or the newest frame of an identifier.
struct Newest {
    name: String,
    time_us: u64,
    content: Content,
}

enum Content {
    Value(f64, Option<String>),
    Frame(u32, Frame),
}

impl Newest {
    fn into_value(self) -> Value {
        let Self { name, time_us, content } = self;
        match content {
            // Clients of redpesk's canbus-binding look for `event`.
            Content::Value(value, text) => {
                let mut entry =
                    json!({ "event": name, "name": name, "value": value, "timestamp": time_us });
                if let Some(text) = text {
                    entry["text"] = text.into();
                }
                entry
            }
            Content::Frame(id, frame) => {
                json!({ "name": name, "id": id, "data": frame.data(), "timestamp": time_us })
            }
        }
    }
}

/// The newest values of the signals that one of the patterns takes, and the newest frames of the identifiers.
///
/// # Errors
/// A name that is none, in one sentence.
fn values(hub: &Hub, patterns: &[Pattern]) -> Result<Vec<Newest>, String> {
    let taken = taken_by(hub, patterns)?.into_iter().filter_map(|id| Some((id, hub.topic(id)?)));
    let taken = taken.filter(|(_, topic)| !topic.is_gone);
    let (mut frames, signals): (Vec<_>, Vec<_>) = taken.partition(|(_, topic)| topic.is_raw());
    let signals = signals.into_iter().filter_map(|(_, topic)| {
        let latest = hub.latest(topic)?;
        let content = Content::Value(latest.value, latest.text.map(str::to_owned));
        Some(Newest { name: topic.name.clone(), time_us: latest.time_ns / 1_000, content })
    });
    frames.sort_by_key(|(_, topic)| (topic.bus, number(topic.id())));
    let frames = frames.into_iter().filter_map(|(id, topic)| {
        let (time_ns, frame) = hub.newest_frame(id)?;
        let content = Content::Frame(number(topic.id()).0, *frame);
        Some(Newest { name: topic.name.clone(), time_us: time_ns / 1_000, content })
    });
    Ok(signals.chain(frames).collect())
}

/// What the service has done so far.
fn stats(shared: &Shared) -> Value {
    let hub = shared.hub();
    let intakes = shared.intakes();
    let buses = intakes.iter().map(|intake| {
        let Totals { frames, lost, malformed, foreign } = intake.totals();
        json!({
            "name": hub.buses().get(intake.bus()).map_or("", |bus| &bus.name),
            "port": intake.port,
            "frames": frames,
            "lost": lost,
            "malformed": malformed,
            "foreign": foreign,
            "unlisted": hub.unlisted(intake.bus()),
            "displaced": hub.displaced(intake.bus()),
            "batches": intake.batches.load(Ordering::Relaxed),
            "trouble": intake.trouble(),
        })
    });
    let buses: Vec<_> = buses.collect();
    let uptime = clock::now::<Monotonic>() - shared.started;
    json!({
        "buses": buses,
        "changes": shared.changes.load(Ordering::Relaxed),
        "subscribers": shared.sessions.stats(&hub),
        "uptime_ns": uptime.as_nanos(),
    })
}
