//! [`ReadAhead`]: reads a recording in a thread of its own.
//!
//! ```text
//!  file -> reader, a thread -> batches of records -> who replays
//!             ^------------------- empty ---------------+
//! ```
//!
//! A disk may take for ever, and so may whoever writes into a pipe: then the thread waits, and nobody else. A
//! thread that hangs in the kernel when the replay is over is left behind: it ends with the process.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

use candor_linux::event::Event;
use candor_port::{Error, ReceiverCounters};
use candor_recording::{Record, Recording};
use candor_wire::can::Kind;

use super::{OPENING, failure};
use crate::kernel;

/// Records of a batch, and batches that go round. What a pipe brings comes record by record.
const MOST_RECORDS: usize = 256;
const BATCHES: usize = 4;
/// The stack of the thread: a program may keep all its memory in RAM.
const STACK_BYTES: usize = 256 << 10;

/// What is read, and what of it is wanted.
pub(super) struct Request {
    /// The port, as errors call it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The only interface whose frames are wanted.
    pub(super) interface: Option<String>,
    pub(super) wants_reports: bool,
}

/// What the thread tells.
enum Message {
    Opened,
    Records(Vec<Record>),
    Ended(Result<(), Error>),
}

/// The next record of a recording.
pub(super) enum Next<'a> {
    /// It is there.
    Record(&'a Record),
    /// It has not been read yet.
    Later,
    /// There is none.
    Ended,
}

/// A recording that is being read.
pub(super) struct ReadAhead {
    messages: mpsc::Receiver<Message>,
    empty: SyncSender<Vec<Record>>,
    came: Arc<Event>,
    /// The batch at hand, and how many of its records are done with.
    batch: Vec<Record>,
    done: usize,
    end: Option<Result<(), Error>>,
    counters: Arc<ReceiverCounters>,
}

impl ReadAhead {
    /// Opens a recording. If that takes longer than `patience` it goes on in the thread, and is the
    /// trouble of the port.
    ///
    /// # Errors
    /// The recording cannot be read, or there can be no thread.
    pub(super) fn open(
        request: Request,
        counters: Arc<ReceiverCounters>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let name = request.name.clone();
        let came = Event::new().map_err(|error| kernel::failure(&name, &error))?;
        let came = Arc::new(came);
        let (sender, messages) = mpsc::sync_channel(BATCHES);
        let (empty, batches) = mpsc::sync_channel(BATCHES);
        for _ in 0..BATCHES {
            // There is room for all of them.
            let _ = empty.try_send(Vec::with_capacity(MOST_RECORDS));
        }
        let reader = Reader {
            request,
            messages: sender,
            batches,
            came: Arc::clone(&came),
            counters: Arc::clone(&counters),
        };
        thread::Builder::new()
            .name("candor-file".into())
            .stack_size(STACK_BYTES)
            .spawn(move || reader.work())
            .map_err(|error| Error::new(&*name, format!("no thread can be started: {error}")))?;
        match messages.recv_timeout(patience) {
            Ok(Message::Ended(Err(error))) => return Err(error),
            Err(RecvTimeoutError::Timeout) => counters.trouble.set(OPENING),
            // It tells that it is open first of all.
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {}
        }
        Ok(Self { messages, empty, came, batch: Vec::new(), done: 0, end: None, counters })
    }

    /// The next record. It stays the next one until [`ReadAhead::advance`].
    ///
    /// # Errors
    /// The recording cannot be read any further: once, then it has ended.
    pub(super) fn next(&mut self) -> Result<Next<'_>, Error> {
        while self.done == self.batch.len() {
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).map(|()| Next::Ended);
            }
            match self.messages.try_recv() {
                Ok(Message::Opened) => self.counters.trouble.clear(),
                Ok(Message::Records(records)) => {
                    let mut batch = std::mem::replace(&mut self.batch, records);
                    self.done = 0;
                    batch.clear();
                    // The first one was never one of those that go round.
                    let _ = self.empty.try_send(batch);
                }
                Ok(Message::Ended(end)) => {
                    self.counters.trouble.clear();
                    self.end = Some(end);
                }
                Err(TryRecvError::Empty) => return Ok(Next::Later),
                // The thread panicked, and has said so.
                Err(TryRecvError::Disconnected) => self.end = Some(Ok(())),
            }
        }
        Ok(self.batch.get(self.done).map_or(Next::Later, Next::Record))
    }

    /// Goes on behind the next record.
    pub(super) fn advance(&mut self) {
        self.done += 1;
    }

    /// Forgets that something came; to be called after waiting for it, and before asking.
    pub(super) fn look(&self) {
        self.came.take();
    }
}

/// Can be read when there may be more.
impl AsFd for ReadAhead {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}

/// The thread that waits for the disk. What it tells nobody takes any more ends it.
struct Reader {
    request: Request,
    messages: SyncSender<Message>,
    batches: mpsc::Receiver<Vec<Record>>,
    came: Arc<Event>,
    counters: Arc<ReceiverCounters>,
}

impl Reader {
    fn work(self) {
        let outcome = self.read();
        self.tell(Message::Ended(outcome));
    }

    /// Whether somebody takes it.
    fn tell(&self, message: Message) -> bool {
        let is_taken = self.messages.send(message).is_ok();
        self.came.set();
        is_taken
    }

    fn read(&self) -> Result<(), Error> {
        let Request { name, path, .. } = &self.request;
        let recording =
            candor_recording::open(path, None).map_err(|error| failure(name, &error))?;
        let mut recording = recording.skip_malformed(true);
        // Of a pipe it is not known when more comes.
        let most = if recording.len_bytes().is_some() { MOST_RECORDS } else { 1 };
        if !self.tell(Message::Opened) {
            return Ok(());
        }
        let mut has_any = false;
        loop {
            let Ok(mut batch) = self.batches.recv() else { return Ok(()) };
            let outcome = self.fill(&mut recording, &mut batch, most);
            has_any |= !batch.is_empty();
            if !batch.is_empty() && !self.tell(Message::Records(batch)) {
                return Ok(());
            }
            if !outcome? {
                return if has_any { Ok(()) } else { self.found(&recording) };
            }
        }
    }

    /// Reads as many records as go into a batch. False at the end of the recording.
    fn fill(
        &self,
        recording: &mut Recording,
        batch: &mut Vec<Record>,
        most: usize,
    ) -> Result<bool, Error> {
        let Request { name, interface, wants_reports, .. } = &self.request;
        while batch.len() < most {
            let next = recording.next();
            let cut = u64::from(recording.cut().is_some());
            let is_broken = u64::from(matches!(next, Some(Err(_))));
            self.counters.malformed.set(recording.skipped().count + cut + is_broken);
            let record = match next {
                Some(record) => record.map_err(|error| failure(name, &error))?,
                None => return Ok(false),
            };
            let is_of_it = interface
                .as_deref()
                .is_none_or(|wanted| recording.interfaces().name(record.interface) == wanted);
            if is_of_it && (record.frame.kind() != Kind::Error || *wants_reports) {
                batch.push(record);
            }
        }
        Ok(true)
    }

    /// At the end of a recording in which nothing was found, though something should have been.
    fn found(&self, recording: &Recording) -> Result<(), Error> {
        let Some(interface) = &self.request.interface else { return Ok(()) };
        let seen: Vec<_> = recording.interfaces().iter().map(|(_, name)| name).collect();
        let reason = format!("it contains no frames of interface `{interface}`");
        Err(Error::new(&*self.request.name, reason)
            .with_remedy(format!("its interfaces are {}", seen.join(", "))))
    }
}
