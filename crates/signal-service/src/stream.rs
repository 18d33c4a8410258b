//! Server-Sent Events: a request whose answer is events without an end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use candor_events::afb::{Wanted, wanted};
use candor_events::{Filter, Format};
use candor_time::Nanos;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::Shared;
use crate::connection::MOST_BYTES;
use crate::session::Session;
use crate::verbs::{has_signals, subscribe};

/// The body of an answer.
pub(crate) enum Content {
    /// All of it is known.
    Whole(Full<Bytes>),
    /// Events as they come.
    Pieces(mpsc::Receiver<Bytes>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Pieces(pieces) => {
                Poll::Ready(ready!(pieces.poll_recv(context)).map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

/// What a query asks for: `name=GLOB`, `id=0x123`, `pgn=61442` and `raw`, each as often as wanted, and the filter.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub(crate) fn read(query: &[(String, String)], has_signals: bool) -> Result<Wanted, String> {
    let mut arguments = Map::new();
    let mut filter = Map::new();
    let mut interval_ns = None;
    let mut add = |key: &str, value: Value| {
        let list = arguments.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
    };
    let mut is_latest = false;
    for (key, value) in query {
        let text = || Value::from(value.as_str());
        match key.as_str() {
            "name" => add("event", text()),
            "id" => add("id", text()),
            "pgn" => add("pgn", value.parse::<u64>().map_or_else(|_| text(), Value::from)),
            "raw" | "latest" => {
                let is_wanted = match value.as_str() {
                    "" | "1" | "true" => true,
                    "0" | "false" => false,
                    _ => return Err(format!("`{key}={value}` must be {key}=1 or {key}=0")),
                };
                match key.as_str() {
                    "latest" => is_latest = is_wanted,
                    _ if is_wanted => add("id", "*".into()),
                    _ => {}
                }
            }
            "interval" => {
                let interval = value.parse::<Nanos>();
                let interval = interval.map_err(|_| {
                    format!("`interval={value}` is no time; use such as interval=100ms")
                })?;
                interval_ns = Some(interval.as_nanos());
            }
            "frequency" | "min" | "max" | "hysteresis" | "every" | "change" => {
                let number: f64 = value
                    .parse()
                    .map_err(|_| format!("`{key}={value}` is no number; use such as {key}=5"))?;
                filter.insert(key.clone(), number.into());
            }
            _ => {
                return Err(format!(
                    "`{key}` is unknown; there are name, id, pgn, raw, latest, interval, frequency, min, max, hysteresis, every and change"
                ));
            }
        }
    }
    if interval_ns.is_some() && filter.contains_key("frequency") {
        return Err("`interval` and `frequency` say the same; use one of them".to_owned());
    }
    if arguments.is_empty() {
        let (key, value) = if has_signals { ("event", "*") } else { ("id", "*") };
        arguments.insert(key.into(), value.into());
    }
    arguments.insert("filter".into(), filter.into());
    let wanted = wanted(&arguments.into())?;
    let filter =
        Filter { interval_ns: interval_ns.unwrap_or(wanted.filter.interval_ns), ..wanted.filter };
    Ok(Wanted { filter, is_latest, ..wanted })
}

/// Begins to send the events that a query asks for.
///
/// # Errors
/// What is wrong with the query, in one sentence.
pub(crate) async fn open(
    query: &[(String, String)],
    shared: &Arc<Shared>,
) -> Result<Content, String> {
    let wanted = read(query, has_signals(&shared.hub()))?;
    let session = Session::enter(shared, Format::Sse.name());
    subscribe(&session, Format::Sse, wanted).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move { send(&session, &sender).await });
    Ok(Content::Pieces(receiver))
}

/// Sends until nobody wants it any more. Events are taken when there is room for them, so the log is the queue.
async fn send(session: &Session, sender: &mpsc::Sender<Bytes>) {
    let mut stop = session.shared().stop.subscribe();
    while let Ok(room) = sender.reserve().await {
        let mut bytes = Vec::new();
        let mut has_more = false;
        {
            let hub = session.shared().hub();
            let mut subscriptions = session.subscriptions();
            for subscriber in subscriptions.all() {
                has_more |= subscriber.deliver(&hub, MOST_BYTES, &mut bytes).has_more;
            }
            session.note(&subscriptions, &hub);
        }
        if !bytes.is_empty() {
            room.send(bytes.into());
        }
        if has_more {
            yield_now().await;
            continue;
        }
        let is_over = tokio::select! {
            () = session.due() => false,
            () = sender.closed() => true,
            _ = stop.wait_for(|is_over| *is_over) => true,
        };
        if is_over {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_events::Pattern;

    use super::*;

    #[test]
    fn a_query_is_read_and_what_is_wrong_is_named() {
        let read = |text: &str, has_signals| {
            let parts = text.split('&').filter(|part| !part.is_empty());
            let parts = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
            let query: Vec<_> =
                parts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            read(&query, has_signals)
        };
        let name = |name: &str| Pattern::Name(name.to_owned());
        assert_eq!(read("", true).unwrap().patterns, [name("*")]);
        assert_eq!(read("", false).unwrap().patterns, [Pattern::Raw]);
        assert_eq!(read("raw", true).unwrap().patterns, [Pattern::Raw]);
        assert_eq!(read("name=a&name=b&raw=0", true).unwrap().patterns, [name("a"), name("b")]);
        assert_eq!(read("pgn=61442", true).unwrap().patterns, [Pattern::Group(61_442)]);
        let wanted = read("id=0x123&latest=1&interval=100ms&min=1&max=2.5&every=3&change=0", true);
        let wanted = wanted.unwrap();
        let filter = Filter {
            interval_ns: 100_000_000,
            every: 3,
            change: Some(0.0),
            min: Some(1.0),
            max: Some(2.5),
            ..Filter::default()
        };
        assert_eq!((wanted.filter, wanted.is_latest), (filter, true));
        for (text, reason) in [
            ("nam=a", "`nam` is unknown; there are name, id,"),
            ("id=x", "\"x\" is no `id`"),
            ("pgn=-1", "\"-1\" is no `pgn`"),
            ("interval=5", "`interval=5` is no time; use such as interval=100ms"),
            ("interval=5ms&frequency=3", "use one of them"),
            ("min=low", "`min=low` is no number; use such as min=5"),
            ("min=NaN", "must be a number"),
            ("frequency=0", "too small"),
            ("latest=maybe", "must be latest=1 or latest=0"),
        ] {
            let error = read(text, true).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
