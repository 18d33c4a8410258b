//! [`Client`]: a subscriber over D-Bus, for programs that may wait.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use zbus::message::Type;
use zbus::{Connection, DBusError, DynamicType, MatchRule, Message, MessageStream, Variant, fdo};

use super::bus::{builder, described, next};
use super::{BusAddress, NAME, PATH};
use crate::client::{Error, Event};

/// How long bus and service may take to answer when a connection is made.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that wait here at most; then no more are read from the socket.
const MOST_QUEUED: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// What is wanted of topics, beside their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Raw frames by identifiers, such as `0x123`, or all by `*`.
    pub ids: Vec<String>,
    /// Only the newest event of each topic, whenever some are sent.
    pub is_latest: bool,
    /// The least time between two events, in ms.
    pub interval_ms: Option<u32>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// Only one of so many events.
    pub every: Option<u32>,
    /// Only values that differ from the last one by more than this.
    pub change: Option<f64>,
}

impl Options {
    fn as_map(&self) -> HashMap<&'static str, Variant<'static>> {
        let mut map = HashMap::new();
        if !self.ids.is_empty() {
            map.insert("ids", Variant::from(self.ids.clone()));
        }
        if self.is_latest {
            map.insert("latest", true.into());
        }
        for (key, number) in [("interval_ms", self.interval_ms), ("every", self.every)] {
            map.extend(number.map(|number| (key, number.into())));
        }
        for (key, number) in [("min", self.min), ("max", self.max), ("change", self.change)] {
            map.extend(number.map(|number| (key, number.into())));
        }
        map
    }
}

/// Time in us since 1970, topic, the last 32 bits of the ordinal, and what the event says.
pub type Entry<T> = (u64, u32, u32, T);

/// What a subscription is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The subscription.
    pub handle: u32,
    pub content: Content,
}

/// What is in a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Values(Vec<Entry<f64>>),
    /// Data of frames.
    Frames(Vec<Entry<Vec<u8>>>),
    /// So many events were missed since the last one.
    Missed {
        /// Since the last event.
        missed: u64,
        total: u64,
    },
    /// The service has ended the subscription, and why.
    Ended(String),
}

/// A connection to the signal service on a bus.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    connection: Connection,
    stream: MessageStream,
    /// The unique name of the service.
    service: String,
    names: HashMap<u32, String>,
    /// Messages that came while something else was awaited, and events that were not asked for yet.
    waiting: VecDeque<Message>,
    events: VecDeque<Event>,
}

fn ended(reason: impl ToString) -> Error {
    Error::Ended(reason.to_string())
}

/// What a service says that refuses, or why it cannot.
fn refused(error: &zbus::Error) -> Error {
    match error {
        zbus::Error::FDO(inner) => Error::Refused(match inner.description() {
            Some(reason) => reason.to_owned(),
            None => inner.to_string(),
        }),
        error => ended(described(error)),
    }
}

impl Client {
    /// Connects to the service on a bus.
    ///
    /// # Errors
    /// The bus cannot be reached, or no service is there.
    pub fn connect(address: &BusAddress) -> Result<Self, Error> {
        let fail = |reason: String| Error::Connect(format!("dbus:{address}"), reason);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error: io::Error| fail(error.to_string()))?;
        let connecting = async {
            let connection = builder(address).max_queued(MOST_QUEUED).build().await?;
            // It answers when the service asks how much has been read.
            let _ = connection.object_server();
            let stream = MessageStream::from(&connection);
            let bus = fdo::DBusProxy::new(&connection).await?;
            let rule = MatchRule::builder()
                .msg_type(Type::Signal)
                .sender("org.freedesktop.DBus")
                .member("NameOwnerChanged")
                .arg(0, NAME)
                .build()?;
            bus.add_match_rule(rule).await?;
            let service = bus.get_name_owner(NAME.try_into()?).await;
            Ok::<_, zbus::Error>((connection, stream, service))
        };
        let connected =
            runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, connecting).await });
        let connected = connected.map_err(|_| fail("the bus does not answer".to_owned()))?;
        let (connection, stream, service) = connected.map_err(|error| fail(described(&error)))?;
        let service = service.map_err(|_| fail(format!("no program is called {NAME} there")))?;
        Ok(Self {
            runtime,
            connection,
            stream,
            service: service.to_string(),
            names: HashMap::new(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// Calls a method of the service, and waits for its reply.
    fn call<T: DeserializeOwned + zbus::Type>(
        &mut self,
        method: &str,
        arguments: &(impl Serialize + DynamicType),
    ) -> Result<T, Error> {
        let Self { runtime, connection, stream, waiting, service, .. } = self;
        let reply = runtime.block_on(async {
            let call =
                connection.call_method(Some(&**service), PATH, Some(NAME), method, arguments);
            let mut call = pin!(call);
            // A queue that is full would keep the reply out.
            loop {
                tokio::select! {
                    reply = &mut call => return reply.map_err(|error| refused(&error)),
                    message = next(stream) => match message {
                        Some(message) => waiting.push_back(message.map_err(ended)?),
                        None => return Err(ended("the bus has gone")),
                    },
                }
            }
        })?;
        reply.body().deserialize().map_err(ended)
    }

    /// Subscribes to signals by names in which `*` stands for anything. The handle of the subscription.
    ///
    /// # Errors
    /// The service refuses, or the connection ends.
    pub fn subscribe(&mut self, names: &[String], options: &Options) -> Result<u32, Error> {
        let (handle, names): (u32, Vec<(u32, String)>) =
            self.call("Subscribe", &(names, options.as_map()))?;
        self.names.extend(names);
        Ok(handle)
    }

    /// Ends a subscription. What is on its way still comes.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn unsubscribe(&mut self, handle: u32) -> Result<(), Error> {
        self.call("Unsubscribe", &handle)
    }

    /// The newest values of signals: name, value, time in us since 1970, and what the value is called.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn values(&mut self, names: &[String]) -> Result<Vec<(String, f64, u64, String)>, Error> {
        self.call("Get", &names)
    }

    #[must_use]
    pub fn name(&self, topic: u32) -> Option<&str> {
        self.names.get(&topic).map(String::as_str)
    }

    /// The next batch. Waits as long as it takes. Between calls nothing is read, so who is slow falls behind in the log of
    /// the service.
    ///
    /// # Errors
    /// The connection ends.
    pub fn next_batch(&mut self) -> Result<Batch, Error> {
        loop {
            let message = match self.waiting.pop_front() {
                Some(message) => message,
                None => {
                    let Self { runtime, stream, .. } = self;
                    let message = runtime.block_on(next(stream));
                    message.ok_or_else(|| ended("the bus has gone"))?.map_err(ended)?
                }
            };
            if let Some(batch) = self.read(&message)? {
                return Ok(batch);
            }
        }
    }

    /// A batch, if the message is one.
    fn read(&mut self, message: &Message) -> Result<Option<Batch>, Error> {
        let header = message.header();
        if header.message_type() != Type::Signal {
            return Ok(None);
        }
        let member = header.member().map_or("", |member| member.as_str());
        let sender = header.sender().map_or("", |sender| sender.as_str());
        if sender == "org.freedesktop.DBus" && member == "NameOwnerChanged" {
            return Err(ended("the service has stopped"));
        }
        if sender != self.service || header.interface().is_none_or(|name| name.as_str() != NAME) {
            return Ok(None);
        }
        let body = message.body();
        let (handle, content) = match member {
            "Names" => {
                let (_, names): (u32, Vec<(u32, String)>) = body.deserialize().map_err(ended)?;
                self.names.extend(names);
                return Ok(None);
            }
            "Values" => {
                let (handle, values) = body.deserialize().map_err(ended)?;
                (handle, Content::Values(values))
            }
            "Frames" => {
                let (handle, frames) = body.deserialize().map_err(ended)?;
                (handle, Content::Frames(frames))
            }
            "Missed" => {
                let (handle, missed, total) = body.deserialize().map_err(ended)?;
                (handle, Content::Missed { missed, total })
            }
            "Ended" => {
                let (handle, reason) = body.deserialize().map_err(ended)?;
                (handle, Content::Ended(reason))
            }
            _ => return Ok(None),
        };
        Ok(Some(Batch { handle, content }))
    }

    /// The next event. Waits as long as it takes. Values have no texts.
    ///
    /// # Errors
    /// The connection ends, or the service ends a subscription.
    pub fn next_event(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let Batch { content, .. } = self.next_batch()?;
            let name = |topic| self.names.get(&topic).map_or("", String::as_str).into();
            match content {
                Content::Values(values) => {
                    self.events.extend(values.into_iter().map(
                        |(timestamp_us, topic, _, value)| {
                            let value = value.is_finite().then_some(value);
                            Event::Signal { name: name(topic), value, text: None, timestamp_us }
                        },
                    ));
                }
                Content::Frames(frames) => {
                    self.events.extend(
                        frames
                            .into_iter()
                            .map(|(_, topic, _, data)| Event::Frame { name: name(topic), data }),
                    );
                }
                Content::Missed { missed, .. } => self.events.push_back(Event::Missed(missed)),
                Content::Ended(reason) => return Err(Error::Ended(reason)),
            }
        }
    }
}
