//! The other end of the control socket.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use candor_time::Nanos;

use super::{Answer, PROTOCOL, Rejected, Request, Version};
use candor_daemon::lines::Lines;

/// The longest answer that is read: a snapshot of 10,000 rules takes about 3 MB.
const MAX_LINE: usize = 64 << 20;
/// How long to wait for an answer.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(10);
/// How long reading and checking rules may take: large ones take a while.
const LOAD_TIMEOUT: Nanos = Nanos::from_secs(120);

/// Why a gateway could not be asked.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody listens there.
    NotRunning(PathBuf),
    /// It is another user's.
    Denied(PathBuf),
    /// It speaks another version of the protocol.
    OtherProtocol(PathBuf, Version),
    /// It did not answer in time.
    Silent(PathBuf, Nanos),
    /// It ended the connection.
    Ended(PathBuf),
    /// What it said is no answer, or none to what was asked.
    Garbled(PathBuf, String),
    /// It says no.
    Refused(Rejected),
    /// The request cannot be sent, or the answer not be received.
    Io(PathBuf, io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning(path) => write!(
                f,
                "{}: no gateway runs with this control socket; start one with: candor route run \
                 FILE --control {0}",
                path.display()
            ),
            Self::Denied(path) => {
                write!(f, "{}: this gateway belongs to another user; try sudo", path.display())
            }
            Self::OtherProtocol(path, version) => write!(
                f,
                "{}: the gateway is candor {} with protocol version {}, this is candor {} with \
                 protocol version {PROTOCOL}; use the same candor for both",
                path.display(),
                version.candor,
                version.protocol,
                env!("CARGO_PKG_VERSION"),
            ),
            Self::Silent(path, time) => write!(
                f,
                "{}: the gateway did not answer within {} s; check that it still runs",
                path.display(),
                time.as_secs_f64()
            ),
            Self::Ended(path) => write!(
                f,
                "{}: the gateway closed the connection; check that it still runs",
                path.display()
            ),
            Self::Garbled(path, reason) => {
                write!(f, "{}: this is not a candor gateway: {reason}", path.display())
            }
            Self::Refused(rejected) => f.write_str(&rejected.message),
            Self::Io(path, error) => {
                write!(f, "{}: cannot send the request to the gateway: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for ClientError {}

/// A connection to a running gateway.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    lines: Lines,
    path: PathBuf,
    version: Version,
    timeout: Nanos,
}

impl Client {
    /// Connects, and asks who is there.
    ///
    /// # Errors
    /// No gateway is running there, it is another user's, or it speaks another protocol.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                ClientError::NotRunning(path.to_owned())
            }
            ErrorKind::PermissionDenied => ClientError::Denied(path.to_owned()),
            _ => ClientError::Io(path.to_owned(), error),
        })?;
        let mut client = Self {
            stream,
            lines: Lines::new(MAX_LINE),
            path: path.to_owned(),
            version: Version::default(),
            timeout: ANSWER_TIMEOUT,
        };
        client.version = match client.request(&Request::Version)? {
            Answer::Version(version) => version,
            other => return Err(client.unexpected(&other)),
        };
        if client.version.protocol != PROTOCOL {
            return Err(ClientError::OtherProtocol(client.path, client.version));
        }
        Ok(client)
    }

    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// There is none, or it is no.
    pub fn request(&mut self, request: &Request) -> Result<Answer, ClientError> {
        self.timeout = match request {
            Request::Load { .. } => LOAD_TIMEOUT,
            _ => ANSWER_TIMEOUT,
        };
        self.send(request)?;
        match self.receive()? {
            Some(Answer::Error(rejected)) => Err(ClientError::Refused(rejected)),
            Some(answer) => Ok(answer),
            None => Err(ClientError::Ended(self.path.clone())),
        }
    }

    /// Asks for the same again and again: snapshots, until the gateway ends the connection or an
    /// error comes.
    ///
    /// # Errors
    /// The gateway cannot be asked.
    pub fn watch(mut self, interval: Nanos) -> Result<Snapshots, ClientError> {
        let interval_ms = interval.as_nanos() / 1_000_000;
        self.timeout = ANSWER_TIMEOUT + interval;
        self.send(&Request::Watch { interval_ms })?;
        Ok(Snapshots { client: self, is_over: false })
    }

    /// That an answer does not answer what was asked.
    #[must_use]
    pub fn unexpected(&self, answer: &Answer) -> ClientError {
        let mut shown = String::from_utf8_lossy(&answer.encode()).into_owned();
        shown.truncate(shown.floor_char_boundary(100));
        ClientError::Garbled(self.path.clone(), format!("unexpected answer {}", shown.trim_end()))
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let line = request
            .encode()
            .map_err(|reason| self.io(io::Error::new(ErrorKind::InvalidInput, reason)))?;
        let timeout = Some(Duration::from_nanos(self.timeout.as_nanos()));
        let sent = self
            .stream
            .set_write_timeout(timeout)
            .and_then(|()| self.stream.set_read_timeout(timeout))
            .and_then(|()| self.stream.write_all(&line));
        match sent {
            // What it said before it ended the connection is of more use.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(|error| self.io(error)),
        }
    }

    /// The next answer; `None` if the gateway ended the connection.
    fn receive(&mut self) -> Result<Option<Answer>, ClientError> {
        let mut piece = [0; 16 << 10];
        loop {
            match self.lines.next_line() {
                Some(Ok(line)) => {
                    let garbled = |reason| ClientError::Garbled(self.path.clone(), reason);
                    return Answer::decode(line).map(Some).map_err(garbled);
                }
                Some(Err(_)) => {
                    let reason = format!("a line is longer than {MAX_LINE} bytes");
                    return Err(ClientError::Garbled(self.path.clone(), reason));
                }
                None => {}
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.lines.push(piece.get(..count).unwrap_or_default()),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => return Ok(None),
                    _ => return Err(self.io(error)),
                },
            }
        }
    }

    fn io(&self, error: io::Error) -> ClientError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ClientError::Silent(self.path.clone(), self.timeout)
            }
            _ => ClientError::Io(self.path.clone(), error),
        }
    }
}

/// Snapshots of a watch, as they come.
#[derive(Debug)]
pub struct Snapshots {
    client: Client,
    is_over: bool,
}

impl Iterator for Snapshots {
    type Item = Result<crate::Snapshot, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let snapshot = match self.client.receive() {
            Ok(Some(Answer::Snapshot(snapshot))) => return Some(Ok(*snapshot)),
            Ok(Some(Answer::Error(rejected))) => Some(Err(ClientError::Refused(rejected))),
            Ok(Some(other)) => Some(Err(self.client.unexpected(&other))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        self.is_over = true;
        snapshot
    }
}
