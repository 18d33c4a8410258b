//! The processes of the testbed: each gets an order in the first line of its standard input, answers in lines of
//! JSON, and ends when its input does.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use candor_linux::{clock, process};
use candor_time::Nanos;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SubscriberKind;
use crate::error::Error;

/// How long a process may take to begin, to report and to end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(super) enum Order {
    /// To serve the frames of a port; subscribers in the process write when each event arrived.
    Server {
        port: String,
        coalesce_ns: u64,
        events: u64,
        dbus: Option<String>,
        in_process: Vec<PathBuf>,
    },
    /// To send a trace at the times in it, and to write when each frame left.
    Injector { trace: PathBuf, port: String, events: u64, departures: PathBuf },
    /// To subscribe to all frames, and to write when each event arrived.
    Subscriber { url: String, kind: SubscriberKind, events: u64, arrivals: PathBuf },
}

/// What a process says last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Frames sent, frames that became events, or events that arrived.
    pub(super) events: u64,
    /// Frames that the port refused, frames that the socket of the service dropped, or events that a subscriber missed.
    pub(super) lost: u64,
    /// Bytes that a subscriber got, with the headers of their frames.
    pub(super) bytes: u64,
    /// How late a frame left at most, in ns.
    pub(super) latest_ns: u64,
}

/// Tells the parent something.
pub(super) fn answer(what: &impl Serialize) -> Result<(), String> {
    let mut line = serde_json::to_string(what).map_err(|error| error.to_string())?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

/// A process at work. Dropping it ends it.
pub(super) struct Worker {
    role: &'static str,
    child: Child,
    orders: Option<BufWriter<ChildStdin>>,
    answers: Receiver<String>,
    early: Option<String>,
}

impl Worker {
    pub(super) fn start(program: &Path, role: &'static str, order: &Order) -> Result<Self, Error> {
        let fail = |error: io::Error| {
            Error::Other(format!("{}: the {role} cannot be started: {error}", program.display()))
        };
        let mut command = Command::new(program);
        command.args(["lab", "worker"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        process::ends_with_parent(&mut command);
        let mut child = command.spawn().map_err(fail)?;
        let orders = child.stdin.take().map(BufWriter::new);
        let (sender, answers) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            let read = move || {
                BufReader::new(out)
                    .lines()
                    .map_while(Result::ok)
                    .all(|line| sender.send(line).is_ok())
            };
            std::thread::Builder::new().name(role.into()).spawn(read).map_err(fail)?;
        }
        let mut worker = Self { role, child, orders, answers, early: None };
        let order = serde_json::to_string(order)
            .map_err(|error| Error::Other(format!("the order of the {role}: {error}")))?;
        worker.tell(&order)?;
        Ok(worker)
    }

    pub(super) fn tell(&mut self, line: &str) -> Result<(), Error> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        let told = writeln!(orders, "{line}").and_then(|()| orders.flush());
        told.map_err(|_| self.gone())
    }

    pub(super) fn ready(&mut self) -> Result<String, Error> {
        self.answer()
    }

    /// Whether it has answered by then.
    pub(super) fn has_answered(&mut self, within: Nanos) -> Result<bool, Error> {
        if self.early.is_some() {
            return Ok(true);
        }
        match self.answers.recv_timeout(Duration::from_nanos(within.as_nanos())) {
            Ok(line) => {
                self.early = Some(line);
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    pub(super) fn report(&mut self) -> Result<Report, Error> {
        self.answer()
    }

    pub(super) fn end(mut self) -> Result<Report, Error> {
        self.orders = None;
        self.answer()
    }

    /// CPU time so far.
    pub(super) fn cpu_time(&self) -> Result<Nanos, Error> {
        clock::cpu_time_of(self.child.id()).map_err(|error| Error::Other(error.to_string()))
    }

    fn answer<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let line = match self.early.take() {
            Some(line) => line,
            None => self.answers.recv_timeout(ANSWER_TIMEOUT).map_err(|error| match error {
                RecvTimeoutError::Timeout => Error::Other(format!(
                    "the {} says nothing for {} s; the machine may be overloaded",
                    self.role,
                    ANSWER_TIMEOUT.as_secs()
                )),
                RecvTimeoutError::Disconnected => self.gone(),
            })?,
        };
        serde_json::from_str(&line)
            .map_err(|error| Error::Other(format!("the {} says `{line}`: {error}", self.role)))
    }

    fn gone(&mut self) -> Error {
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Error::Other(format!("the {} has ended early ({how}); its message is above", self.role))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        // Whoever is not ready by itself is made to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
