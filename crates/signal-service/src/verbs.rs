//! What clients of the WebSocket may call: the verbs of AGL's `low-can` and of redpesk's `canbus`.

use std::sync::Arc;

use candor_daemon::beside;
use candor_events::afb::{self, Api, Wanted, wanted};
use candor_events::binary::{self, Encoding};
use candor_events::{
    Format, Hub, Kind, Pattern, Selection, Steps, Subscribing, Topic, TopicId, Unsubscribing,
};
use candor_signals::{Database, Signal};
use candor_wire::can::frame::{EFF_MASK, id_word};
use candor_wire::can::{Frame, Id};
use serde_json::{Map, Value, json};

use crate::Shared;
use crate::framing::{self, Framed};
use crate::session::Session;
use crate::stats::Stats;

/// The most patterns that a connection may subscribe to.
const MOST_PATTERNS: usize = 1_000;

/// An answer of up to so many entries is made at once; a longer one, which takes some milliseconds, by another thread.
const FEW_ENTRIES: usize = 64;
/// More patterns than these take a turn to be put in order.
const FEW_PATTERNS: usize = 16;
/// How long it takes to gather an entry.
const ENTRY: u64 = 8;

/// What is answered.
pub(crate) enum VerbResponse {
    Plain(Value),
    /// What takes a while to make.
    Long(Box<dyn FnOnce() -> Value + Send>),
}

impl From<Value> for VerbResponse {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

impl VerbResponse {
    fn of(entries: usize, make: impl FnOnce() -> Value + Send + 'static) -> Self {
        if entries <= FEW_ENTRIES { Self::Plain(make()) } else { Self::Long(Box::new(make)) }
    }

    /// Encodes it, and does not hold up the event loop with that. `None` while the service ends.
    pub(crate) async fn encode<T: Send + 'static>(
        outcome: Result<Self, String>,
        encode: impl FnOnce(Result<Value, String>) -> T + Send + 'static,
    ) -> Option<T> {
        match outcome {
            Ok(Self::Plain(value)) => Some(encode(Ok(value))),
            Err(reason) => Some(encode(Err(reason))),
            Ok(Self::Long(make)) => beside(move || encode(Ok(make()))).await,
        }
    }
}

/// Puts patterns in order, each once.
async fn in_order(shared: &Shared, patterns: &[Pattern]) -> Selection {
    match patterns.len() {
        ..=FEW_PATTERNS => Selection::new(patterns),
        _ => shared.in_turn(|| Selection::new(patterns)).await,
    }
}

/// Looks up the topics that patterns take.
///
/// # Errors
/// A name that no signal has, in one sentence.
async fn select(shared: &Shared, patterns: &[Pattern]) -> Result<Selection, String> {
    look_up(shared, in_order(shared, patterns).await).await
}

/// The same of patterns that are in order.
async fn look_up(shared: &Shared, mut selection: Selection) -> Result<Selection, String> {
    shared.in_slices(|hub, steps| selection.go_on(hub, steps).then_some(())).await;
    match selection.unknown_name() {
        Some(name) => Err(format!("no signal is called `{name}`; the verb `list` shows all names")),
        None => Ok(selection),
    }
}

/// Gathers something of each topic that is there, or of those of a selection.
pub(crate) async fn gather<T>(
    shared: &Shared,
    selection: Option<&Selection>,
    of: impl Fn(&Hub, TopicId, &Topic) -> Option<T>,
) -> Vec<T> {
    let mut gathered = Vec::new();
    let mut next = 0;
    let go_on = |hub: &mut Hub, steps: &mut Steps| {
        let end = selection.map_or(hub.topics().len(), Selection::len);
        while next < end {
            if !steps.spend(ENTRY) {
                return None;
            }
            let found = match selection {
                Some(selection) => selection.topic(hub, next),
                None => {
                    let topic = hub.topics().get(next).filter(|topic| !topic.is_gone);
                    topic.map(|topic| (TopicId(next as u32), topic))
                }
            };
            gathered.extend(found.and_then(|(id, topic)| of(hub, id, topic)));
            next += 1;
        }
        Some(())
    };
    shared.in_slices(go_on).await;
    gathered
}

/// An answer of what is gathered. Only one long answer at once is gathered and made, so clients that wait take no memory.
async fn gathered<T: Send + 'static>(
    shared: &Shared,
    selection: Option<&Selection>,
    of: impl Fn(&Hub, TopicId, &Topic) -> Option<T>,
    make: impl FnOnce(&[String], Vec<T>) -> Value + Send + 'static,
) -> VerbResponse {
    let most = selection.map_or_else(|| shared.hub().topics().len(), Selection::len);
    let turn = if most > FEW_ENTRIES { shared.answer_turn().await } else { None };
    let entries = gather(shared, selection, of).await;
    let buses: Vec<_> = shared.hub().buses().iter().map(|bus| bus.name.clone()).collect();
    VerbResponse::of(entries.len(), move || {
        let value = make(&buses, entries);
        drop(turn);
        value
    })
}

/// Answers a call of AGL's protocol. `None` while the service ends.
pub(crate) async fn answer(session: &Session, call: afb::Call) -> Option<Framed> {
    let api = Api::ALL.into_iter().find(|api| api.name() == call.api);
    let outcome = match api {
        Some(api) => perform(session, Format::Afb(api), &call.verb, &call.arguments).await,
        None => {
            Err(format!("`{}` is no api of this service; there are low-can and canbus", call.api))
        }
    };
    let encode = move |outcome: Result<_, String>| {
        Framed::new(framing::text, |out| match outcome {
            Ok(value) => afb::reply(&call.id, Ok(value), out),
            Err(reason) => afb::reply(&call.id, Err(&reason), out),
        })
    };
    VerbResponse::encode(outcome, encode).await
}

/// Answers a call in CBOR or MessagePack. `None` while the service ends.
pub(crate) async fn answer_binary(
    session: &Session,
    encoding: Encoding,
    call: binary::Call,
) -> Option<Framed> {
    let format = Format::Binary(encoding);
    let outcome = perform(session, format, &call.verb, &call.arguments).await;
    let encode = move |outcome: Result<_, String>| {
        let outcome = outcome.as_ref().map_err(String::as_str);
        Framed::new(framing::binary, |out| binary::reply(encoding, &call.id, outcome, out))
    };
    VerbResponse::encode(outcome, encode).await
}

async fn perform(
    session: &Session,
    format: Format,
    verb: &str,
    arguments: &Value,
) -> Result<VerbResponse, String> {
    let shared = session.shared();
    match verb {
        "subscribe" => subscribe(session, format, wanted(arguments)?).await,
        "unsubscribe" => {
            let Wanted { patterns, .. } = wanted(arguments)?;
            let mut unsubscribing = Unsubscribing::new(patterns);
            let go_on = |hub: &mut Hub, steps: &mut Steps| {
                let mut subscriptions = session.subscriptions();
                let subscriber = subscriptions.of(format, hub);
                let is_over = unsubscribing.go_on(subscriber, hub, steps);
                is_over.then(|| session.note_change(&subscriptions, hub))
            };
            shared.in_slices(go_on).await;
            match unsubscribing.is_changed() {
                true => Ok(Value::Null.into()),
                false => Err("there is no such subscription; name it as it was made".to_owned()),
            }
        }
        "list" if !arguments.is_null() => {
            let selection = select(shared, &wanted(arguments)?.patterns).await?;
            let name = |_: &Hub, _, topic: &Topic| Some(Arc::clone(&topic.name));
            let make = |_: &[String], names: Vec<Arc<str>>| names.iter().map(|it| &**it).collect();
            Ok(gathered(shared, Some(&selection), name, make).await)
        }
        "list" => {
            let listed = |hub: &Hub, _, topic: &Topic| Some(Listed::new(hub, topic));
            Ok(gathered(shared, None, listed, |buses, entries| listing(buses, &entries)).await)
        }
        "get" => {
            let patterns = match arguments {
                Value::Null => vec![everything(&shared.hub())],
                arguments => wanted(arguments)?.patterns,
            };
            values(shared, &patterns).await
        }
        "stats" => {
            let stats = stats(shared).await;
            Ok(VerbResponse::of(stats.buses.len() + stats.subscribers.len(), move || json!(stats)))
        }
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
pub(crate) async fn subscribe(
    session: &Session,
    format: Format,
    wanted: Wanted,
) -> Result<VerbResponse, String> {
    let Wanted { patterns, filter, is_latest, is_batched } = wanted;
    if is_batched && !matches!(format, Format::Binary(_)) {
        return Err("`batch` needs the sub-protocol candor.cbor or candor.msgpack".to_owned());
    }
    let shared = session.shared();
    let selection = in_order(shared, &patterns).await;
    if session.subscriptions().patterns_with(format, selection.patterns()) > MOST_PATTERNS {
        return Err(format!(
            "a connection may subscribe to {MOST_PATTERNS} patterns; use globs, or another one"
        ));
    }
    let selection = look_up(shared, selection).await?;
    let topics = shared.sessions.topics().saturating_add(selection.len());
    let most = shared.most_topics;
    if topics > most {
        return Err(format!(
            "all clients together may subscribe to {most} topics, and this would make it {topics}; name fewer"
        ));
    }
    let announced = session.announce(selection.len());
    let mut subscribing = Subscribing::new(selection, filter, is_latest);
    let go_on = |hub: &mut Hub, steps: &mut Steps| {
        let mut subscriptions = session.subscriptions();
        let subscriber = subscriptions.of(format, hub);
        let is_over = subscribing.go_on(subscriber, hub, steps);
        if is_over {
            subscriber.set_batched(is_batched);
        }
        session.note_change(&subscriptions, hub);
        is_over.then_some(())
    };
    shared.in_slices(go_on).await;
    drop(announced);
    let topics = subscribing.topics();
    let Format::Binary(_) = format else { return Ok(json!({ "topics": topics }).into()) };
    let names = new_names(session).await;
    Ok(VerbResponse::of(names.len(), move || {
        let names: Vec<_> =
            names.into_iter().map(|(number, name)| json!([number, &*name])).collect();
        json!({ "topics": topics, "names": names })
    }))
}

/// The topics that somebody is subscribed to and whose names were not told yet.
pub(crate) async fn new_names(session: &Session) -> Vec<(u32, Arc<str>)> {
    let mut names = Vec::new();
    let mut next = 0;
    let go_on = |hub: &mut Hub, steps: &mut Steps| {
        let mut subscriptions = session.subscriptions();
        let mut is_over = true;
        for subscriber in subscriptions.all() {
            names.extend(subscriber.name_topics(hub, &mut next, steps));
            is_over &= next >= hub.topics().len();
        }
        is_over.then_some(())
    };
    session.shared().in_slices(go_on).await;
    names
}

/// An identifier as a number, and whether it is an extended one.
fn number(id: Id) -> (u32, bool) {
    (id_word(id) & EFF_MASK, matches!(id, Id::Extended(_)))
}

/// A signal, or an identifier that was seen. Nothing of it is copied while the hub is locked.
pub(crate) struct Listed {
    pub(crate) name: Arc<str>,
    /// By its place.
    pub(crate) bus: usize,
    pub(crate) id: u32,
    pub(crate) is_extended: bool,
    signal: Option<InDatabase>,
}

/// Where a database describes a signal.
struct InDatabase {
    database: Arc<Database>,
    message: usize,
    signal: usize,
}

impl InDatabase {
    fn of(hub: &Hub, topic: &Topic) -> Option<Self> {
        let Kind::Signal { message, signal, .. } = topic.kind else { return None };
        let database = hub.buses().get(topic.bus)?.database.as_ref()?;
        Some(Self { database: Arc::clone(database), message, signal })
    }

    fn get(&self) -> Option<&Signal> {
        self.database.messages().get(self.message)?.signals.get(self.signal)
    }
}

impl Listed {
    pub(crate) fn new(hub: &Hub, topic: &Topic) -> Self {
        let (id, is_extended) = number(topic.id());
        let signal = InDatabase::of(hub, topic);
        Self { name: Arc::clone(&topic.name), bus: topic.bus, id, is_extended, signal }
    }

    /// What it is in its database. `None` of frames.
    pub(crate) fn signal(&self) -> Option<&Signal> {
        self.signal.as_ref().and_then(InDatabase::get)
    }
}

/// All signals, and the identifiers seen so far, as they are answered.
fn listing(buses: &[String], entries: &[Listed]) -> Value {
    let mut signals = Vec::new();
    let mut frames = Vec::new();
    for entry in entries {
        let bus = buses.get(entry.bus).map_or("", String::as_str);
        let (name, id) = (&*entry.name, entry.id);
        let Some(signal) = entry.signal() else {
            let is_extended = entry.is_extended;
            frames.push(json!({ "name": name, "bus": bus, "id": id, "extended": is_extended }));
            continue;
        };
        let mut entry = json!({ "name": name, "bus": bus, "unit": signal.unit, "id": id });
        let names = signal.value_names.iter();
        let names: Map<_, _> = names.map(|(raw, name)| (raw.to_string(), name.into())).collect();
        if !names.is_empty() {
            entry["values"] = names.into();
        }
        signals.push(entry);
    }
    json!({ "signals": signals, "frames": frames })
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

/// The newest frame of an identifier, or that of a signal. Nothing of it is copied or decoded while the hub is locked.
struct Newest {
    name: Arc<str>,
    bus: usize,
    id: (u32, bool),
    time_us: u64,
    frame: Frame,
    signal: Option<InDatabase>,
}

impl Newest {
    fn of(hub: &Hub, id: TopicId, topic: &Topic) -> Option<Self> {
        let (time_ns, frame) = hub.newest_frame(id)?;
        Some(Self {
            name: Arc::clone(&topic.name),
            bus: topic.bus,
            id: number(topic.id()),
            time_us: time_ns / 1_000,
            frame: *frame,
            signal: InDatabase::of(hub, topic),
        })
    }

    /// `None` if the frame does not have the signal.
    fn to_value(&self) -> Option<Value> {
        let Self { name, id: (id, _), time_us, frame, .. } = self;
        let name = &**name;
        let Some(InDatabase { database, message, signal }) = &self.signal else {
            return Some(
                json!({ "name": name, "id": id, "data": frame.data(), "timestamp": time_us }),
            );
        };
        let message = database.messages().get(*message)?;
        let decoded = message.read(message.signals.get(*signal)?, frame.data())?;
        let value = decoded.physical;
        // Clients of redpesk's canbus-binding look for `event`.
        let mut entry =
            json!({ "event": name, "name": name, "value": value, "timestamp": time_us });
        if let Some(text) = decoded.value_name() {
            entry["text"] = text.into();
        }
        Some(entry)
    }
}

/// The newest values of the signals that one of the patterns takes, and the newest frames of the identifiers.
///
/// # Errors
/// A name that is none, in one sentence.
pub(crate) async fn values(shared: &Shared, patterns: &[Pattern]) -> Result<VerbResponse, String> {
    let selection = select(shared, patterns).await?;
    let make = |_: &[String], mut entries: Vec<Newest>| {
        // Signals first, and identifiers in their order.
        entries.sort_by_key(|it| it.signal.is_none().then_some((it.bus, it.id)));
        entries.iter().filter_map(Newest::to_value).collect()
    };
    Ok(gathered(shared, Some(&selection), Newest::of, make).await)
}

/// What the service has done so far.
pub(crate) async fn stats(shared: &Shared) -> Stats {
    let sessions = shared.sessions.subscribed();
    let mut subscribers = Vec::new();
    for (id, entry) in &sessions {
        subscribers.push(shared.in_slices(|hub, steps| entry.stats(*id, hub, steps)).await);
    }
    let stats = shared.in_turn(|| Stats::without_subscribers(shared)).await;
    Stats { subscribers, ..stats }
}

#[cfg(test)]
mod tests {
    use candor_events::Bus;

    use super::*;

    #[test]
    fn the_topics_of_all_clients_are_bounded() {
        let mut hub = Hub::new(vec![Bus { name: "car".into(), database: None }]);
        for id in ["123#", "124#", "125#"] {
            hub.publish(0, 0, &id.parse().unwrap());
        }
        let shared = Shared { most_topics: 5, ..Shared::new(hub) };
        let shared = Arc::new(shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let subscribe = |session: &Session| {
            let wanted = wanted(&json!({ "id": "*" })).unwrap();
            runtime.block_on(subscribe(session, Format::Plain, wanted)).map(drop)
        };
        let first = Session::enter(&shared, "plain");
        assert_eq!(subscribe(&first), Ok(()));
        let second = Session::enter(&shared, "plain");
        let refused = subscribe(&second).unwrap_err();
        assert!(refused.contains("5 topics, and this would make it 6"), "{refused}");
        // What others are about to take counts, too.
        drop(first);
        let coming = Session::enter(&shared, "plain");
        let announced = coming.announce(3);
        assert!(subscribe(&second).is_err());
        drop(announced);
        let first = coming;
        // The place of who leaves is free.
        drop(first);
        assert_eq!(subscribe(&second), Ok(()));
    }
}
