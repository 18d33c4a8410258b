//! [`Client`]: a subscriber over WebSocket, for programs that may wait.

use std::fmt;
use std::net::TcpStream;
use std::time::Duration;

use candor_events::afb;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, Utf8Bytes, WebSocket};

/// How long the service may take to answer when a connection is made.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is nothing to read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// Nobody can be reached there: the address, and why.
    Connect(String, String),
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
                "{url}: {reason}; start the service with `candor signals serve`, and name it as ws://127.0.0.1:1234/api"
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
        /// Its name.
        name: String,
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
        name: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// So many events were missed since the last one.
    Missed(u64),
}

/// A connection to a signal service.
#[derive(Debug)]
pub struct Client {
    socket: WebSocket<TcpStream>,
    calls: u32,
    /// Events that came before the reply to a call.
    early: Vec<Event>,
}

impl Client {
    /// Connects to a service, such as `ws://127.0.0.1:1234/api`.
    ///
    /// # Errors
    /// The address makes no sense, nobody is there, or what is there is no signal service.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let fail = |reason: String| Error::Connect(url.to_owned(), reason);
        let mut request = url.into_client_request().map_err(|error| fail(error.to_string()))?;
        let host = request.uri().host().ok_or_else(|| fail("there is no host".into()))?.to_owned();
        if request.uri().scheme_str() != Some("ws") {
            return Err(fail("the address must begin with ws://".into()));
        }
        let port = request.uri().port_u16().unwrap_or(80);
        let protocol = HeaderValue::from_static(afb::PROTOCOL);
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        let host = host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, port)).map_err(|error| fail(error.to_string()))?;
        let _ = stream.set_nodelay(true);
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| fail(error.to_string()))?;
        let (socket, _) =
            tungstenite::client(request, stream).map_err(|error| fail(error.to_string()))?;
        Ok(Self { socket, calls: 0, early: Vec::new() })
    }

    /// Calls a verb, and waits for its reply.
    ///
    /// # Errors
    /// The service refuses, or the connection ends.
    pub fn call(&mut self, verb: &str, arguments: &Value) -> Result<Value, Error> {
        self.calls += 1;
        let id = self.calls.to_string();
        let call = json!([2, id, format!("low-can/{verb}"), arguments]).to_string();
        self.socket.send(Message::text(call)).map_err(ended)?;
        loop {
            let message = self.read()?;
            let kind = message.get(0).and_then(Value::as_u64);
            if message.get(1).and_then(Value::as_str) != Some(&id) || !matches!(kind, Some(3 | 4)) {
                self.early.extend(event(&message));
                continue;
            }
            let reply = message.get(2).cloned().unwrap_or_default();
            if kind == Some(3) {
                return Ok(reply.get("response").cloned().unwrap_or_default());
            }
            let info = reply
                .pointer("/request/info")
                .and_then(Value::as_str)
                .unwrap_or("it says no reason");
            return Err(Error::Refused(info.to_owned()));
        }
    }

    /// Subscribes to signals by names in which `*` stands for anything.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn subscribe(&mut self, names: &[String], is_latest: bool) -> Result<(), Error> {
        self.call("subscribe", &json!({ "event": names, "latest": is_latest })).map(drop)
    }

    /// The next event. Waits as long as it takes.
    ///
    /// # Errors
    /// The connection ends.
    pub fn next_event(&mut self) -> Result<Event, Error> {
        if !self.early.is_empty() {
            return Ok(self.early.remove(0));
        }
        let stream = self.socket.get_ref();
        stream.set_read_timeout(None).map_err(|error| Error::Ended(error.to_string()))?;
        loop {
            let message = self.read()?;
            if let Some(event) = event(&message) {
                return Ok(event);
            }
        }
    }

    /// The text of the next event, for who decodes it otherwise. Waits as long as it takes. Events that came before
    /// the reply to a call are not among them.
    ///
    /// # Errors
    /// The connection ends.
    pub fn next_text(&mut self) -> Result<Utf8Bytes, Error> {
        let stream = self.socket.get_ref();
        stream.set_read_timeout(None).map_err(|error| Error::Ended(error.to_string()))?;
        self.read_text()
    }

    fn read(&mut self) -> Result<Value, Error> {
        let message = serde_json::from_str(&self.read_text()?);
        message.map_err(|error| Error::Ended(format!("a message is no JSON: {error}")))
    }

    fn read_text(&mut self) -> Result<Utf8Bytes, Error> {
        loop {
            match self.socket.read().map_err(ended)? {
                Message::Text(text) => return Ok(text),
                Message::Close(frame) => {
                    let reason =
                        frame.map_or_else(|| "closed".to_owned(), |frame| frame.reason.to_string());
                    return Err(Error::Ended(reason));
                }
                _ => {}
            }
        }
    }
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

/// An event, if the message is one.
fn event(message: &Value) -> Option<Event> {
    if message.get(0)?.as_u64()? != 5 {
        return None;
    }
    let name = message.get(1)?.as_str()?;
    let data = message.get(2)?.get("data")?;
    if name == "candor/missed" {
        return Some(Event::Missed(data.get("missed")?.as_u64()?));
    }
    let number = |key: &str| data.get(key).and_then(Value::as_u64);
    match data.get("name") {
        Some(signal) => Some(Event::Signal {
            name: signal.as_str()?.to_owned(),
            value: data.get("value").and_then(Value::as_f64),
            text: data.get("text").and_then(Value::as_str).map(str::to_owned),
            timestamp_us: number("timestamp")?,
        }),
        None => {
            let bytes = data.get("data")?.as_array()?.iter();
            let data = bytes.filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
            Some(Event::Frame { name: name.to_owned(), data })
        }
    }
}
