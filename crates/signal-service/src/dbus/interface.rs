//! What clients may call.

use std::collections::HashMap;
use std::sync::Arc;

use candor_events::{Format, Hub, Pattern, Selection, Steps, Topic};
use zbus::message::Header;
use zbus::object_server::{ResponseDispatchNotifier, SignalEmitter};
use zbus::{Connection, OwnedVariant, Variant, fdo, interface};

use super::subscription::{Registry, Subscription};
use crate::session::Session;
use crate::verbs::{Listed, gather, has_signals, new_names, subscribe};
use crate::{Shared, stream};

/// Subscriptions at once, and of one client.
const MOST_SUBSCRIPTIONS: usize = 2_048;
const MOST_OF_CLIENT: usize = 64;

/// A number of each topic, and its name.
type Names = Vec<(u32, String)>;
/// Name, bus, identifier, unit, and names of raw values.
type SignalRow = (String, String, u32, String, HashMap<String, String>);
/// Name, bus, identifier, and whether that has 29 bits.
type FrameRow = (String, String, u32, bool);
/// Name, value, time in us since 1970, and what the value is called.
type ValueRow = (String, f64, u64, String);

pub(crate) struct Interface {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
}

impl Interface {
    pub(crate) const fn new(shared: Arc<Shared>, registry: Arc<Registry>) -> Self {
        Self { shared, registry }
    }
}

fn caller(header: &Header<'_>) -> fdo::Result<String> {
    let sender = header.sender().map(ToString::to_string);
    sender.ok_or_else(|| fdo::Error::Failed("a call without a sender; call through a bus".into()))
}

// The signals are here for introspection; `subscription` sends them, several at once.
#[interface(name = "org.candor.Signals1")]
impl Interface {
    /// Subscribes to signals by names in which `*` stands for anything.
    #[zbus(out_args("handle", "names"))]
    async fn subscribe(
        &self,
        names: Vec<String>,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<ResponseDispatchNotifier<(u32, Names)>> {
        let client = caller(&header)?;
        let query = query(names, &options).map_err(fdo::Error::InvalidArgs)?;
        let has_signals = has_signals(&self.shared.hub());
        let wanted = stream::read(&query, has_signals).map_err(fdo::Error::InvalidArgs)?;
        let entered = self.registry.enter(&client, MOST_SUBSCRIPTIONS, MOST_OF_CLIENT);
        let (handle, stop) = entered.ok_or_else(|| {
            fdo::Error::LimitsExceeded(format!(
                "a client may have {MOST_OF_CLIENT} subscriptions, and all together {MOST_SUBSCRIPTIONS}; end some"
            ))
        })?;
        let session = Session::enter(&self.shared, "dbus");
        if let Err(reason) = subscribe(&session, Format::Plain, wanted).await {
            self.registry.leave(handle);
            return Err(fdo::Error::InvalidArgs(reason));
        }
        let names = new_names(&session).await.into_iter();
        let names = names.map(|(number, name)| (number, name.to_string())).collect();
        // Events come after the reply.
        let (reply, replied) = ResponseDispatchNotifier::new((handle, names));
        let subscription = Subscription {
            connection: connection.clone(),
            client,
            handle,
            session,
            registry: Arc::clone(&self.registry),
        };
        tokio::spawn(async move {
            replied.await;
            subscription.serve(stop).await;
        });
        Ok(reply)
    }

    /// Ends a subscription of the caller.
    async fn unsubscribe(
        &self,
        handle: u32,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        match self.registry.end(&caller(&header)?, handle) {
            true => Ok(()),
            false => Err(fdo::Error::InvalidArgs(format!(
                "you have no subscription {handle}; use a handle that Subscribe returned"
            ))),
        }
    }

    /// All signals, and the identifiers seen so far.
    #[zbus(out_args("signals", "frames"))]
    async fn list(&self) -> (Vec<SignalRow>, Vec<FrameRow>) {
        let (mut signals, mut frames) = (Vec::new(), Vec::new());
        let listed = |hub: &Hub, _, topic: &Topic| Some(Listed::new(hub, topic));
        let entries = gather(&self.shared, None, listed).await;
        let buses: Vec<_> = self.shared.hub().buses().iter().map(|bus| bus.name.clone()).collect();
        for entry in entries {
            let bus = buses.get(entry.bus).cloned().unwrap_or_default();
            let name = entry.name.to_string();
            match entry.signal() {
                None => frames.push((name, bus, entry.id, entry.is_extended)),
                Some(signal) => {
                    let named = signal.value_names.iter();
                    let named = named.map(|(raw, name)| (raw.to_string(), name.to_owned()));
                    signals.push((name, bus, entry.id, signal.unit.clone(), named.collect()));
                }
            }
        }
        (signals, frames)
    }

    /// The newest values of signals by names in which `*` stands for anything; of all, without any.
    #[zbus(out_args("values"))]
    async fn get(&self, names: Vec<String>) -> Vec<ValueRow> {
        let names = if names.is_empty() { vec!["*".to_owned()] } else { names };
        let patterns: Vec<_> = names.into_iter().map(Pattern::Name).collect();
        let mut selection = Selection::new(&patterns);
        let go_on = |hub: &mut Hub, steps: &mut Steps| selection.go_on(hub, steps).then_some(());
        self.shared.in_slices(go_on).await;
        let value = |hub: &Hub, id, topic: &Topic| {
            let latest = hub.latest(id)?;
            let text = latest.text.unwrap_or_default().to_owned();
            Some((topic.name.to_string(), latest.value, latest.time_ns / 1_000, text))
        };
        gather(&self.shared, Some(&selection), value).await
    }

    /// What the numbers of topics mean.
    #[zbus(signal)]
    async fn names(
        emitter: &SignalEmitter<'_>,
        handle: u32,
        names: Vec<(u32, &str)>,
    ) -> zbus::Result<()>;

    /// Values of signals: time in us since 1970, topic, ordinal, value.
    #[zbus(signal)]
    async fn values(
        emitter: &SignalEmitter<'_>,
        handle: u32,
        values: Vec<(u64, u32, u32, f64)>,
    ) -> zbus::Result<()>;

    /// Frames: time in us since 1970, topic, ordinal, data.
    #[zbus(signal)]
    async fn frames(
        emitter: &SignalEmitter<'_>,
        handle: u32,
        frames: Vec<(u64, u32, u32, &[u8])>,
    ) -> zbus::Result<()>;

    /// Events that were missed since the last one, and in all.
    #[zbus(signal)]
    async fn missed(
        emitter: &SignalEmitter<'_>,
        handle: u32,
        missed: u64,
        total: u64,
    ) -> zbus::Result<()>;

    /// The service has ended a subscription.
    #[zbus(signal)]
    async fn ended(emitter: &SignalEmitter<'_>, handle: u32, reason: &str) -> zbus::Result<()>;
}

/// Names and options, as the query of an event stream has them.
fn query(
    names: Vec<String>,
    options: &HashMap<String, OwnedVariant>,
) -> Result<Vec<(String, String)>, String> {
    let mut query: Vec<_> = names.into_iter().map(|name| ("name".to_owned(), name)).collect();
    for (key, value) in options {
        let wrong = |what: &str| format!("the option `{key}` must be {what}");
        let mut add = |key: &str, value: String| query.push((key.to_owned(), value));
        match key.as_str() {
            "ids" => {
                let Variant::Array(ids) = &**value else {
                    return Err(wrong("an array of numbers or texts, such as [\"0x123\"]"));
                };
                for id in ids.iter() {
                    let id = match id {
                        Variant::Str(text) => text.to_string(),
                        id => number(id).ok_or_else(|| wrong("numbers or texts"))?.to_string(),
                    };
                    match id.as_str() {
                        "*" => add("raw", "1".to_owned()),
                        _ => add("id", id),
                    }
                }
            }
            "latest" => match &**value {
                Variant::Bool(is_latest) => add("latest", u8::from(*is_latest).to_string()),
                _ => return Err(wrong("true or false")),
            },
            "interval_ms" => match number(value) {
                Some(ms) if (0.0..=1e9).contains(&ms) => {
                    add("interval", format!("{}ns", (ms * 1e6) as u64));
                }
                _ => return Err(wrong("a number of milliseconds, such as 100")),
            },
            "min" | "max" | "every" | "change" => {
                let number = number(value).ok_or_else(|| wrong("a number"))?;
                add(key, number.to_string());
            }
            _ => {
                return Err(format!(
                    "the option `{key}` is unknown; there are ids, latest, interval_ms, min, max, every and change"
                ));
            }
        }
    }
    Ok(query)
}

/// A number, whatever its type.
fn number(value: &Variant<'_>) -> Option<f64> {
    Some(match value {
        Variant::U8(number) => f64::from(*number),
        Variant::I16(number) => f64::from(*number),
        Variant::U16(number) => f64::from(*number),
        Variant::I32(number) => f64::from(*number),
        Variant::U32(number) => f64::from(*number),
        Variant::I64(number) => *number as f64,
        Variant::U64(number) => *number as f64,
        Variant::F64(number) => *number,
        Variant::Variant(inner) => return number_of(inner),
        _ => return None,
    })
}

/// The number in a variant, which is in no other one.
fn number_of(value: &Variant<'_>) -> Option<f64> {
    if let Variant::Variant(_) = value { None } else { number(value) }
}
