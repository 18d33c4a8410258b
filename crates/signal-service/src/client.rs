//! [`Client`]: a subscriber over WebSocket, for programs that may wait.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use candor_events::afb;
use candor_events::binary::{self, Content, Encoding};
use candor_linux::clock;
use candor_time::Monotonic;
use serde::Deserialize;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::HandshakeError;
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::CloseFrame;
use tungstenite::{Message, WebSocket};

/// How long it may take to reach the service, with the look-up of its name, and how long the service may then take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is nothing to read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// Nobody can be reached there: the address, and why.
    Connect(String, String),
    /// What answers at this address serves something else at this path, and how it answers.
    Path(String, String),
    /// The service refused a call, in its words.
    Refused(String),
    /// The connection has ended, and why.
    Ended(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(url, reason) => write!(
                f,
                "{url}: {reason}; start the service with `candor signals serve`, and name it as \
                 ws://127.0.0.1:1234/api, unix:/run/candor/signals.sock or dbus:session"
            ),
            Self::Path(url, answer) => write!(
                f,
                "{url}: there is no signal service at this path ({answer}); name the path /api, such as \
                 ws://127.0.0.1:1234/api"
            ),
            Self::Refused(reason) => write!(f, "the service refused: {reason}"),
            Self::Ended(reason) => write!(f, "the connection has ended: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A signal has a value.
    Signal {
        name: Arc<str>,
        /// Its value, in its unit; `None` if it is no number.
        value: Option<f64>,
        /// What the value is called.
        text: Option<String>,
        /// When the frame was received, in us since 1970.
        timestamp_us: u64,
    },
    /// A frame was received.
    Frame {
        /// Bus and identifier.
        name: Arc<str>,
        data: Vec<u8>,
    },
    /// So many events were missed since the last one.
    Missed(u64),
}

/// The socket under a connection.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// How long to wait for what is read; `None` for as long as it takes.
    fn set_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(time),
            Self::Unix(stream) => stream.set_read_timeout(time),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

/// Connects to `host:port` within this time. Each address of the host has an equal share of what is left of it.
///
/// # Errors
/// Why the last one cannot be reached, as half a sentence.
fn reach(place: &str, timeout: Duration) -> Result<TcpStream, String> {
    let until = clock::now::<Monotonic>().as_nanos() + timeout.as_nanos() as u64;
    let addresses = match place.parse() {
        Ok(address) => vec![address],
        Err(_) => candor_drivers::addresses(place)?,
    };
    let mut reason = "it has no address".to_owned();
    for (address, others) in addresses.iter().zip((1..=addresses.len() as u64).rev()) {
        let left = until.saturating_sub(clock::now::<Monotonic>().as_nanos());
        let share = Duration::from_nanos((left / others).max(1));
        match TcpStream::connect_timeout(address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                reason = format!("{address} does not answer");
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

/// A connection to a signal service.
#[derive(Debug)]
pub struct Client {
    socket: WebSocket<Stream>,
    /// What it speaks; `None` for JSON.
    encoding: Option<Encoding>,
    calls: u64,
    /// The reply to the last call.
    reply: Option<Result<Value, String>>,
    /// Events that have come and were not asked for yet.
    events: VecDeque<Event>,
    /// What topics are called, and what times count from.
    names: HashMap<u32, Arc<str>>,
    base_us: u64,
    /// How long the socket waits for what is read, as it was last told.
    timeout: Option<Duration>,
}

impl Client {
    /// Connects to a service, such as `ws://127.0.0.1:1234/api` or `unix:/run/candor/signals.sock`, and speaks JSON.
    ///
    /// # Errors
    /// The address makes no sense, nobody is there, or what is there is no signal service.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, None)
    }

    /// The same, but may speak CBOR or MessagePack.
    ///
    /// # Errors
    /// As [`Client::connect`], or the service does not know these.
    pub fn connect_with(url: &str, encoding: Option<Encoding>) -> Result<Self, Error> {
        let fail = |reason: String| Error::Connect(url.to_owned(), reason);
        let fails = |error: io::Error| fail(error.to_string());
        let path = url.strip_prefix("unix:");
        let address = path.map_or(url, |_| "ws://localhost/api");
        let mut request = address.into_client_request().map_err(|error| fail(error.to_string()))?;
        let protocol = HeaderValue::from_static(encoding.map_or(afb::PROTOCOL, Encoding::protocol));
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        let stream = if let Some(path) = path {
            Stream::Unix(UnixStream::connect(path).map_err(fails)?)
        } else {
            let uri = request.uri();
            let host = uri.host().ok_or_else(|| fail("there is no host".into()))?;
            if uri.scheme_str() != Some("ws") {
                return Err(fail("the address must begin with ws:// or unix:".into()));
            }
            let place = format!("{host}:{}", uri.port_u16().unwrap_or(80));
            let stream = reach(&place, ANSWER_TIMEOUT).map_err(fail)?;
            let _ = stream.set_nodelay(true);
            Stream::Tcp(stream)
        };
        stream.set_timeout(Some(ANSWER_TIMEOUT)).map_err(fails)?;
        let (socket, _) = tungstenite::client(request, stream).map_err(|error| match error {
            HandshakeError::Failure(tungstenite::Error::Http(answer))
                if matches!(answer.status(), StatusCode::OK | StatusCode::NOT_FOUND) =>
            {
                Error::Path(url.to_owned(), format!("HTTP {}", answer.status()))
            }
            error => fail(error.to_string()),
        })?;
        Ok(Self {
            socket,
            encoding,
            calls: 0,
            reply: None,
            events: VecDeque::new(),
            names: HashMap::new(),
            base_us: 0,
            timeout: Some(ANSWER_TIMEOUT),
        })
    }

    /// Calls a verb, and waits for its reply.
    ///
    /// # Errors
    /// The service refuses, or the connection ends.
    pub fn call(&mut self, verb: &str, arguments: &Value) -> Result<Value, Error> {
        self.calls += 1;
        let call = match self.encoding {
            None => {
                let id = self.calls.to_string();
                Message::text(json!([2, id, format!("low-can/{verb}"), arguments]).to_string())
            }
            Some(encoding) => Message::binary(binary::call(encoding, self.calls, verb, arguments)),
        };
        self.socket.send(call).map_err(ended)?;
        loop {
            self.receive()?;
            if let Some(reply) = self.reply.take() {
                return reply.map_err(Error::Refused);
            }
        }
    }

    /// Subscribes to signals by names in which `*` stands for anything.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn subscribe(&mut self, names: &[String], is_latest: bool) -> Result<(), Error> {
        self.subscribe_to(json!({ "event": names, "latest": is_latest }))
    }

    /// Subscribes to all signals, or to all frames if the service has none.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn subscribe_to_all(&mut self, is_latest: bool) -> Result<(), Error> {
        let list = self.call("list", &Value::Null)?;
        let has_signals = list["signals"].as_array().is_some_and(|signals| !signals.is_empty());
        let key = if has_signals { "event" } else { "id" };
        self.subscribe_to(json!({ key: "*", "latest": is_latest }))
    }

    fn subscribe_to(&mut self, mut arguments: Value) -> Result<(), Error> {
        if self.encoding.is_some() {
            arguments["batch"] = true.into();
        }
        self.call("subscribe", &arguments).map(drop)
    }

    /// The next event. Waits as long as it takes.
    ///
    /// # Errors
    /// The connection ends.
    pub fn next_event(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.wait_for_ever()?;
            self.receive()?;
        }
    }

    /// What is read from now on may take as long as it takes.
    fn wait_for_ever(&mut self) -> Result<(), Error> {
        if self.timeout.take().is_some() {
            let stream = self.socket.get_ref();
            stream.set_timeout(None).map_err(|error| Error::Ended(error.to_string()))?;
        }
        Ok(())
    }

    /// The bytes of the next message, for who decodes it otherwise. Waits as long as it takes. Events that came before
    /// the reply to a call are not among them.
    ///
    /// # Errors
    /// The connection ends.
    pub fn next_bytes(&mut self) -> Result<Bytes, Error> {
        self.wait_for_ever()?;
        loop {
            match self.socket.read().map_err(ended)? {
                Message::Text(text) => return Ok(text.into()),
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(frame) => return Err(closed(frame)),
                _ => {}
            }
        }
    }

    /// Takes the next message.
    fn receive(&mut self) -> Result<(), Error> {
        loop {
            match (self.socket.read().map_err(ended)?, self.encoding) {
                (Message::Text(text), None) => {
                    return self.take_json(&text);
                }
                (Message::Binary(bytes), Some(encoding)) => {
                    let message = binary::read(encoding, &bytes).ok_or_else(|| {
                        Error::Ended(format!("a message is none of {}", encoding.protocol()))
                    })?;
                    self.take_binary(message);
                    return Ok(());
                }
                (Message::Close(frame), _) => return Err(closed(frame)),
                _ => {}
            }
        }
    }

    fn take_json(&mut self, text: &str) -> Result<(), Error> {
        if let Ok(EventMessage(5, name, body)) = serde_json::from_str(text) {
            self.events.extend(event(&name, body.data));
            return Ok(());
        }
        let message: Value = serde_json::from_str(text)
            .map_err(|error| Error::Ended(format!("a message is no JSON: {error}")))?;
        let kind = message.get(0).and_then(Value::as_u64);
        let is_reply = matches!(kind, Some(3 | 4))
            && message.get(1).and_then(Value::as_str) == Some(&*self.calls.to_string());
        if is_reply {
            let reply = message.get(2).cloned().unwrap_or_default();
            let info = || reply.pointer("/request/info").and_then(Value::as_str);
            self.reply = Some(match kind {
                Some(3) => Ok(reply.get("response").cloned().unwrap_or_default()),
                _ => Err(info().unwrap_or("it says no reason").to_owned()),
            });
        }
        Ok(())
    }

    fn take_binary(&mut self, message: binary::Message) {
        match message {
            binary::Message::Reply(id, reply) if id == self.calls => {
                let names = reply.as_ref().ok().and_then(|reply| reply.get("names")?.as_array());
                let names = names.into_iter().flatten().filter_map(|pair| {
                    let number = u32::try_from(pair.get(0)?.as_u64()?).ok()?;
                    Some((number, pair.get(1)?.as_str()?.into()))
                });
                self.names.extend(names);
                self.reply = Some(reply);
            }
            binary::Message::Reply(..) => {}
            binary::Message::Batch(messages) => {
                messages.into_iter().for_each(|message| self.take_binary(message));
            }
            binary::Message::Name(number, name) => drop(self.names.insert(number, name.into())),
            binary::Message::Base(base_us) => self.base_us = base_us,
            binary::Message::Missed(missed, _) => self.events.push_back(Event::Missed(missed)),
            binary::Message::Event { topic, time_us, content, .. } => {
                let name = self.names.get(&topic).cloned().unwrap_or_else(|| "".into());
                self.events.push_back(match content {
                    Content::Data(data) => Event::Frame { name, data },
                    Content::Value(value, text) => Event::Signal {
                        name,
                        value: value.is_finite().then_some(value),
                        text,
                        timestamp_us: self.base_us.saturating_add(time_us.into()),
                    },
                });
            }
        }
    }
}

/// The service closed the connection.
fn closed(frame: Option<CloseFrame>) -> Error {
    Error::Ended(frame.map_or_else(|| "closed".to_owned(), |frame| frame.reason.to_string()))
}

fn ended(error: tungstenite::Error) -> Error {
    Error::Ended(match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            "the service has stopped".to_owned()
        }
        tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => "the service has stopped".to_owned(),
        error => error.to_string(),
    })
}

/// An event of JSON: 5, its name, and what it has. Nothing of it is kept that need not be.
#[derive(Deserialize)]
struct EventMessage<'a>(u64, #[serde(borrow)] Cow<'a, str>, #[serde(borrow)] EventBody<'a>);

#[derive(Deserialize)]
struct EventBody<'a> {
    #[serde(borrow)]
    data: EventData<'a>,
}

#[derive(Deserialize)]
struct EventData<'a> {
    #[serde(borrow)]
    name: Option<Name<'a>>,
    value: Option<Value>,
    text: Option<Value>,
    timestamp: Option<u64>,
    data: Option<Vec<u8>>,
    missed: Option<u64>,
}

/// Of its own, since serde borrows no `Cow` within an `Option`.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

fn event(name: &str, data: EventData<'_>) -> Option<Event> {
    if name == "candor/missed" {
        return Some(Event::Missed(data.missed?));
    }
    Some(match data.name {
        Some(Name(signal)) => Event::Signal {
            name: signal.into(),
            value: data.value.and_then(|value| value.as_f64()),
            text: data.text.and_then(|text| text.as_str().map(str::to_owned)),
            timestamp_us: data.timestamp?,
        },
        None => Event::Frame { name: name.into(), data: data.data? },
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use candor_linux::tcp;

    use super::*;

    #[test]
    fn an_address_that_does_not_answer_takes_no_longer_than_it_may() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The kernel drops what asks for a connection once its queue is full, as a firewall may.
        tcp::set_backlog(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _waits = TcpStream::connect(address).unwrap();
        let (timeout, start) = (Duration::from_millis(200), clock::now::<Monotonic>());
        let error = reach(&address.to_string(), timeout).unwrap_err();
        assert_eq!(error, format!("{address} does not answer"));
        let took = clock::now() - start;
        assert!(took.as_nanos() >= 200_000_000, "{took}");
        // The kernel gives up after 2 minutes.
        assert!(took.as_nanos() < 60_000_000_000, "{took}");
    }

    #[test]
    fn a_name_is_reached_at_one_of_its_addresses() {
        let addresses = candor_drivers::addresses("localhost:1").unwrap();
        for ip in addresses.iter().map(std::net::SocketAddr::ip) {
            let listener = TcpListener::bind((ip, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            reach(&format!("localhost:{port}"), ANSWER_TIMEOUT).unwrap();
        }
    }
}
