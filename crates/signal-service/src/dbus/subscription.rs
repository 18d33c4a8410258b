//! A subscription: events of a tick become messages for one client, when that has read those before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_events::{self as events, Content, Hub, Subscriber};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zbus::{Connection, DynamicType, Message, fdo};

use super::{NAME, PATH, WINDOW};
use crate::session::Session;
use crate::verbs::new_names;

/// The most events of a message: up to 12 kB of values.
const MOST_EVENTS: usize = 512;
/// After so many bytes an answer is asked for.
const STEP: usize = WINDOW / 4;
/// When the daemon has no room for a question: how long to wait before the next one.
const RETRY: Duration = Duration::from_millis(100);

/// The subscriptions of a connection to a bus.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    last: u32,
    /// By handle: whose it is, and what ends it, until it is told to.
    open: BTreeMap<u32, (String, Option<oneshot::Sender<()>>)>,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for a subscription of a client, and what ends when it is to end; `None` if there are too many.
    pub(crate) fn enter(
        &self,
        client: &str,
        most: usize,
        most_of_client: usize,
    ) -> Option<(u32, oneshot::Receiver<()>)> {
        let mut entries = self.entries();
        let of_client = entries.open.values().filter(|(other, _)| other == client).count();
        if entries.open.len() >= most || of_client >= most_of_client {
            return None;
        }
        // Zero is no handle, and none is given twice while it is in use.
        while entries.last == 0 || entries.open.contains_key(&entries.last) {
            entries.last = entries.last.wrapping_add(1);
        }
        let handle = entries.last;
        let (stop, stopped) = oneshot::channel();
        entries.open.insert(handle, (client.to_owned(), Some(stop)));
        entries.last = handle.wrapping_add(1);
        Some((handle, stopped))
    }

    /// Makes a subscription end. False if the client has none of this handle.
    pub(crate) fn end(&self, client: &str, handle: u32) -> bool {
        let mut entries = self.entries();
        let entry = entries.open.get_mut(&handle).filter(|(other, _)| other == client);
        entry.is_some_and(|(_, stop)| stop.take().is_some())
    }

    /// A subscription has ended.
    pub(crate) fn leave(&self, handle: u32) {
        self.entries().open.remove(&handle);
    }

    /// Makes all subscriptions end that are meant, by their clients.
    pub(crate) fn end_all(&self, is_meant: impl Fn(&str) -> bool) {
        for (_, stop) in self.entries().open.values_mut().filter(|(client, _)| is_meant(client)) {
            *stop = None;
        }
    }
}

/// A client that wants events.
pub(crate) struct Subscription {
    pub(crate) connection: Connection,
    pub(crate) client: String,
    pub(crate) handle: u32,
    pub(crate) session: Session,
    pub(crate) registry: Arc<Registry>,
}

/// What a client said when it was asked for an answer.
enum Answer {
    /// Whatever it says: it has read everything before the question.
    Given,
    Gone,
    /// The bus does not let the service ask.
    Denied(String),
}

/// How much is on its way to a client.
#[derive(Default)]
struct Flow {
    question: Option<JoinHandle<Answer>>,
    /// Bytes sent before the question without an answer, and after the last question.
    before: usize,
    after: usize,
    /// Whether the client has ever answered.
    is_proven: bool,
}

impl Flow {
    const fn is_open(&self) -> bool {
        self.before + self.after < WINDOW
    }

    /// Asks for an answer if it is time to.
    fn ask(&mut self, connection: &Connection, client: &str) {
        let is_due = self.after >= STEP || self.after > 0 && !self.is_proven;
        if self.question.is_some() || !is_due {
            return;
        }
        self.before = std::mem::take(&mut self.after);
        // A task of its own: it holds the socket while it writes.
        self.question = Some(tokio::spawn(ask(connection.clone(), client.to_owned())));
    }

    /// The answer to the question.
    async fn answer(&mut self) -> Answer {
        let Some(question) = &mut self.question else { return std::future::pending().await };
        // One that panicked has said so.
        let answer = question.await.unwrap_or(Answer::Gone);
        (self.question, self.before, self.is_proven) = (None, 0, true);
        answer
    }
}

async fn ask(connection: Connection, client: String) -> Answer {
    loop {
        let peer = Some("org.freedesktop.DBus.Peer");
        let outcome = connection.call_method(Some(client.as_str()), "/", peer, "Ping", &()).await;
        let error = match outcome {
            Ok(_) => return Answer::Given,
            Err(zbus::Error::FDO(error)) => error,
            // An error of its own is an answer, too.
            Err(zbus::Error::MethodError(..)) => return Answer::Given,
            Err(_) => return Answer::Gone,
        };
        match *error {
            fdo::Error::ServiceUnknown(_)
            | fdo::Error::NameHasNoOwner(_)
            | fdo::Error::NoReply(_)
            | fdo::Error::Disconnected(_) => return Answer::Gone,
            fdo::Error::AccessDenied(_) => {
                return Answer::Denied(
                    "the policy of the bus does not let the service call Ping of org.freedesktop.DBus.Peer, \
                     which tells it how much you have read; docs/signals.md has a file that does"
                        .to_owned(),
                );
            }
            fdo::Error::LimitsExceeded(_) => tokio::time::sleep(RETRY).await,
            _ => return Answer::Given,
        }
    }
}

/// What is taken from the log at once.
#[derive(Default)]
struct Batch {
    gathered: events::Batch,
    missed: u64,
    total: u64,
    names: Vec<(u32, String)>,
    values: Vec<(u64, u32, u32, f64)>,
    /// Time, topic, ordinal, and where the data is.
    frames: Vec<(u64, u32, u32, Range<usize>)>,
    data: Vec<u8>,
}

impl Batch {
    /// Takes events. True if more wait.
    fn fill(&mut self, subscriber: &mut Subscriber, hub: &Hub) -> bool {
        self.values.clear();
        self.frames.clear();
        self.data.clear();
        let delivery = subscriber.gather(hub, MOST_EVENTS, &mut self.gathered);
        for event in self.gathered.events() {
            let (time_us, topic) = (event.time_ns / 1_000, event.number);
            // The last bits are enough to see a gap.
            let ordinal = event.ordinal as u32;
            match event.content {
                Content::Value(value, _) => self.values.push((time_us, topic, ordinal, value)),
                Content::Data(data) => {
                    let start = self.data.len();
                    self.data.extend_from_slice(data);
                    self.frames.push((time_us, topic, ordinal, start..self.data.len()));
                }
            }
        }
        (self.missed, self.total) = (delivery.missed, subscriber.counts().missed);
        delivery.has_more
    }

    fn messages(&self, to: &Recipient<'_>) -> zbus::Result<Vec<Message>> {
        let handle = to.handle;
        let mut messages = Vec::new();
        if self.missed > 0 {
            messages.push(to.message("Missed", &(handle, self.missed, self.total))?);
        }
        if !self.names.is_empty() {
            messages.push(to.message("Names", &(handle, &self.names))?);
        }
        if !self.values.is_empty() {
            messages.push(to.message("Values", &(handle, &self.values))?);
        }
        if !self.frames.is_empty() {
            let frames = self.frames.iter();
            let frames = frames.map(|(time_us, topic, ordinal, place)| {
                (*time_us, *topic, *ordinal, self.data.get(place.clone()).unwrap_or_default())
            });
            let frames: Vec<(u64, u32, u32, &[u8])> = frames.collect();
            messages.push(to.message("Frames", &(handle, frames))?);
        }
        Ok(messages)
    }
}

/// Whom messages are for.
struct Recipient<'a> {
    connection: &'a Connection,
    client: &'a str,
    handle: u32,
}

impl Recipient<'_> {
    fn message(
        &self,
        member: &str,
        body: &(impl Serialize + DynamicType),
    ) -> zbus::Result<Message> {
        let mut builder = Message::signal(PATH, NAME, member).destination(self.client);
        if let Some(sender) = self.connection.unique_name() {
            builder = builder.sender(sender);
        }
        builder.build(body)
    }
}

impl Subscription {
    /// Sends events until the client or the connection is gone, or the subscription is to end.
    pub(crate) async fn serve(mut self, stop: oneshot::Receiver<()>) {
        // An error is the end of the connection.
        let mut flow = Flow::default();
        let _ = self.work(stop, &mut flow).await;
        let Self { session, registry, handle, .. } = self;
        drop(session);
        // Until then its place is taken: a client that never answers is not asked without an end.
        if flow.question.is_some() {
            flow.answer().await;
        }
        registry.leave(handle);
    }

    async fn work(&mut self, mut stop: oneshot::Receiver<()>, flow: &mut Flow) -> zbus::Result<()> {
        let bus = fdo::DBusProxy::new(&self.connection).await?;
        let client = zbus::names::BusName::try_from(self.client.as_str())?;
        // It may have gone before its going could be noticed.
        if !bus.name_has_owner(client).await? {
            return Ok(());
        }
        let to =
            Recipient { connection: &self.connection, client: &self.client, handle: self.handle };
        let mut batch = Batch::default();
        let mut known = 0;
        loop {
            let mut has_more = false;
            if flow.is_open() {
                let is_new = {
                    let hub = self.session.shared().hub();
                    let mut subscriptions = self.session.subscriptions();
                    for subscriber in subscriptions.all() {
                        has_more |= batch.fill(subscriber, &hub);
                    }
                    self.session.note(&subscriptions, &hub);
                    std::mem::replace(&mut known, hub.changes()) != known
                };
                batch.names.clear();
                if is_new {
                    let names = new_names(&self.session).await.into_iter();
                    batch.names = names.map(|(number, name)| (number, name.to_string())).collect();
                }
                let messages = batch.messages(&to)?;
                self.connection.send_all(&messages).await?;
                flow.after += messages.iter().map(|message| message.data().len()).sum::<usize>();
            }
            // Also when it is full since before the last answer.
            flow.ask(&self.connection, &self.client);
            let is_open = flow.is_open();
            tokio::select! {
                _ = &mut stop => return Ok(()),
                answer = flow.answer() => match answer {
                    Answer::Given => {}
                    Answer::Gone => return Ok(()),
                    Answer::Denied(reason) => {
                        let message = to.message("Ended", &(self.handle, reason))?;
                        return self.connection.send(&message).await;
                    }
                },
                () = self.session.due(), if is_open && !has_more => {}
                () = tokio::task::yield_now(), if is_open && has_more => {}
            }
        }
    }
}
