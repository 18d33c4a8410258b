//! [`ReadAhead`]: reads a recording in a thread of its own.
//!
//! ```text
//!  file -> reader, a thread -> batches of records -> who replays
//!             ^------------------- empty ---------------+
//! ```
//!
//! A disk may take for ever, and so may whoever writes into a pipe: then the thread waits, and nobody else. A
//! thread that hangs in the kernel when the replay is over is left behind: it ends with the process.

use std::fs;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

use candor_linux::clock;
use candor_linux::event::Event;
use candor_linux::file;
use candor_port::{Error, ReceiverCounters};
use candor_recording::{CanUdp, Record, Recording};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::Kind;

use super::{OPENING, failure, lock};
use crate::kernel;

/// Records of a batch, and batches that go round. What a pipe brings comes record by record.
const MOST_RECORDS: usize = 256;
const BATCHES: usize = 4;
/// How often a recording that is to begin again, and cannot be read now, is looked for.
const LOOK: Nanos = Nanos::from_millis(200);
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
    /// Whether it begins again when it ends.
    pub(super) is_loop: bool,
    /// Where CAN frames are in a capture of Ethernet.
    pub(super) can_udp: CanUdp,
}

/// What the thread tells.
enum Message {
    /// With the lock of the recording, if it is a file.
    Opened(Option<File>),
    Records(Vec<Record>),
    Ended(Result<(), Error>),
}

/// The next record of a recording.
pub(super) enum Next<'a> {
    Record(&'a Record),
    /// It has not been read yet.
    Later,
    /// There is none.
    Ended,
}

/// A recording that is being read.
pub(super) struct ReadAhead {
    /// Kept as long as the replay is: the recording may have been read long before.
    locked: Option<File>,
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
            .map_err(|error| {
                let failure = Error::new(&*name, format!("no thread can be started: {error}"));
                kernel::with_number(failure, &error)
            })?;
        let mut locked = None;
        match messages.recv_timeout(patience) {
            Ok(Message::Ended(Err(error))) => return Err(error),
            Err(RecvTimeoutError::Timeout) => counters.trouble.set(OPENING),
            // It tells that it is open first of all.
            Ok(Message::Opened(opened)) => locked = opened,
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {}
        }
        Ok(Self { locked, messages, empty, came, batch: Vec::new(), done: 0, end: None, counters })
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
                Ok(Message::Opened(opened)) => {
                    self.locked = opened;
                    self.counters.trouble.clear();
                }
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
        let mut rounds = Rounds::default();
        loop {
            let before = rounds.records;
            match self.read_once(&mut rounds) {
                Ok(false) => return Ok(()),
                Ok(true) if !self.request.is_loop => return Ok(()),
                Ok(true) if rounds.records > before => {}
                // It was there before: somebody may be about to replace it.
                outcome if !rounds.is_first() => {
                    let why = outcome.err().map_or_else(
                        || {
                            format!(
                                "{} has no frame of a recording now",
                                self.request.path.display()
                            )
                        },
                        |error| error.to_string(),
                    );
                    self.counters.trouble.set(format!("{why}; it is looked for again"));
                    if !self.pause() {
                        return Ok(());
                    }
                }
                // Nothing would be read for ever.
                outcome => return outcome.map(drop),
            }
            rounds.begin_next();
        }
    }

    /// Waits a little. False if nobody takes what is read any more.
    fn pause(&self) -> bool {
        // It is shorter when the kernel does not let it wait.
        let _ = clock::sleep_until(clock::now::<Monotonic>() + LOOK);
        self.batches.recv().is_ok_and(|batch| self.tell(Message::Records(batch)))
    }

    /// Opens what is to be read. Of what begins again only a file can be read: what a pipe brought is gone. A pipe is not opened
    /// to find out, since its writer would notice; nor is one waited for that comes into place meanwhile.
    fn open(&self) -> Result<Recording, Error> {
        let Request { name, path, is_loop, .. } = &self.request;
        let opened = match is_loop {
            false => candor_recording::open(path, None),
            true => {
                let refuse = || {
                    Error::new(&**name, "only a file can begin again, not a pipe or a device")
                        .with_remedy("write it to a file first, or remove loop=true")
                };
                let is_one = |found: &Metadata| found.is_file() || found.is_dir();
                if path.as_os_str() == "-" || fs::metadata(path).is_ok_and(|found| !is_one(&found))
                {
                    return Err(refuse());
                }
                match file::open_at_once(path) {
                    Ok(file) if file.metadata().is_ok_and(|found| !is_one(&found)) => {
                        return Err(refuse());
                    }
                    file => candor_recording::open_file(path, file, None),
                }
            }
        };
        opened.map_err(|error| failure(name, &error))
    }

    /// Reads the recording from its beginning to its end. False if nobody takes it any more.
    fn read_once(&self, rounds: &mut Rounds) -> Result<bool, Error> {
        let Request { name, path, .. } = &self.request;
        let locked = lock::for_reading(path).map_err(|reason| {
            Error::new(&**name, reason).with_remedy("read and write different recordings")
        })?;
        let mut recording = self.open()?.skip_malformed(true).can_udp(self.request.can_udp);
        // Of a pipe it is not known when more comes.
        let most = if recording.len_bytes().is_some() { MOST_RECORDS } else { 1 };
        if rounds.is_first() && !self.tell(Message::Opened(locked)) {
            return Ok(false);
        }
        // Those of each round are counted anew.
        let malformed = self.counters.malformed.get();
        loop {
            let Ok(mut batch) = self.batches.recv() else { return Ok(false) };
            let outcome = self.fill(&mut recording, &mut batch, most, malformed);
            if !batch.is_empty() && !rounds.is_first() {
                self.counters.trouble.clear();
            }
            for record in &mut batch {
                record.time_ns = rounds.place(record.time_ns);
            }
            // An empty one, too, so that it comes back.
            if !self.tell(Message::Records(batch)) {
                return Ok(false);
            }
            if !outcome? {
                return if rounds.records > 0 { Ok(true) } else { self.found(&recording) };
            }
        }
    }

    /// Reads as many records as go into a batch. False at the end of the recording.
    fn fill(
        &self,
        recording: &mut Recording,
        batch: &mut Vec<Record>,
        most: usize,
        malformed: u64,
    ) -> Result<bool, Error> {
        let Request { name, interface, wants_reports, .. } = &self.request;
        while batch.len() < most {
            let next = recording.next();
            let cut = u64::from(recording.cut().is_some());
            let is_broken = u64::from(matches!(next, Some(Err(_))));
            let count = recording.skipped().count + cut + is_broken;
            self.counters.malformed.set(malformed + count);
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
    fn found(&self, recording: &Recording) -> Result<bool, Error> {
        let Some(interface) = &self.request.interface else { return Ok(true) };
        let seen: Vec<_> = recording.interfaces().iter().map(|(_, name)| name).collect();
        let reason = format!("it contains no frames of interface `{interface}`");
        Err(Error::new(&*self.request.name, reason)
            .with_remedy(format!("its interfaces are {}", seen.join(", "))))
    }
}

/// The times of a recording that begins again and again: each round begins one usual gap behind
/// the latest record of the round before.
///
/// The usual gap is the mean one between the records of the first round, at least 1 ns. A single
/// record has no gap; it comes once a second.
#[derive(Debug, Default)]
struct Rounds {
    records: u64,
    /// The first and the earliest time of the first round: records may be out of order.
    first: u64,
    earliest: u64,
    /// The latest time that was given out.
    latest: u64,
    /// After the first round.
    later: Option<Later>,
}

/// What places the records of a round behind the first one.
#[derive(Clone, Copy, Debug)]
struct Later {
    gap: u64,
    /// No record of this round is placed before it.
    start: u64,
    /// What the first record of this round was recorded at.
    origin: Option<u64>,
}

impl Rounds {
    /// For a recording of a single record.
    const ONLY_GAP: u64 = 1_000_000_000;

    fn is_first(&self) -> bool {
        self.later.is_none()
    }

    /// When a record of this round comes, by the clock of the first one.
    fn place(&mut self, time: u64) -> u64 {
        if self.records == 0 {
            (self.first, self.earliest) = (time, time);
        }
        self.records += 1;
        let placed = match &mut self.later {
            None => {
                self.earliest = self.earliest.min(time);
                time
            }
            Some(later) => {
                // As far behind the start as the first record of the first round was behind its
                // earliest one. Another file may be there by now, hence the bounds.
                let begin = later.start.saturating_add(self.first - self.earliest);
                let origin = *later.origin.get_or_insert(time);
                let placed = i128::from(begin) + i128::from(time) - i128::from(origin);
                u64::try_from(placed.max(later.start.into())).unwrap_or(u64::MAX)
            }
        };
        self.latest = self.latest.max(placed);
        placed
    }

    /// After the last record of a round.
    fn begin_next(&mut self) {
        let gap = match self.later {
            Some(later) => later.gap,
            None if self.records < 2 => Self::ONLY_GAP,
            None => ((self.latest - self.earliest) / (self.records - 1)).max(1),
        };
        let start = self.latest.saturating_add(gap);
        self.later = Some(Later { gap, start, origin: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_each_other_by_the_usual_gap() {
        for (times, rounds) in [
            (&[100, 110, 120][..], [[100, 110, 120], [130, 140, 150], [160, 170, 180]]),
            (&[100, 101, 120], [[100, 101, 120], [130, 131, 150], [160, 161, 180]]),
            // Out of order: no round begins before the one before it has ended.
            (&[110, 100, 120], [[110, 100, 120], [140, 130, 150], [170, 160, 180]]),
            (&[100, 120, 90], [[100, 120, 90], [145, 165, 135], [190, 210, 180]]),
            // All at once.
            (&[5, 5, 5], [[5, 5, 5], [6, 6, 6], [7, 7, 7]]),
            (
                &[u64::MAX - 2, u64::MAX, 0],
                [[u64::MAX - 2, u64::MAX, 0], [u64::MAX; 3], [u64::MAX; 3]],
            ),
        ] {
            let mut placed = Rounds::default();
            for (number, round) in rounds.into_iter().enumerate() {
                if number > 0 {
                    placed.begin_next();
                }
                let found: Vec<_> = times.iter().map(|time| placed.place(*time)).collect();
                assert_eq!(found, round, "round {number} of {times:?}");
            }
        }
    }

    #[test]
    fn a_single_record_comes_once_a_second() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.place(7), 7);
        rounds.begin_next();
        assert_eq!(rounds.place(7), 1_000_000_007);
    }

    #[test]
    fn a_file_that_changed_does_not_go_back_in_time() {
        let mut rounds = Rounds::default();
        for time in [100, 110, 120] {
            rounds.place(time);
        }
        rounds.begin_next();
        let placed: Vec<_> = [1_000, 1_030, 900].map(|time| rounds.place(time)).into();
        assert_eq!(placed, [130, 160, 130]);
        rounds.begin_next();
        assert_eq!(rounds.place(5), 170);
    }
}
