//! [`Recorder`]: writes what is transmitted.
//!
//! ```text
//!  transmit -> batch being filled -- full, or half a second old --> writer, a thread -> file
//!                 ^-------------------- empty -----------------------+
//! ```
//!
//! A disk may take seconds, so who transmits never waits for it: three batches of [`MOST_BYTES`] go
//! round, and while none is free the port is [`Sent::Full`].
//!
//! While the file is not open yet (a disk that is busy, a pipe without a reader) frames are taken as long as
//! batches are free, and are written once it is.
//!
//! What cannot be written (a full disk) is reported as the trouble of the port, frames are refused as
//! [`Sent::Down`], and the writer tries again every second with what it has. Meanwhile the file ends
//! with its last whole record. Nothing that was taken is lost, unless the end comes first: then it is
//! counted.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use candor_linux::clock;
use candor_recording::{Direction, Encoder, InterfaceIndex, MAX_RECORD_LEN, Record};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::Frame;

use super::lock::{self, Claim};
use super::{OPEN_TIMEOUT, OPENING, failure};
use crate::kernel;
use candor_port::{
    Address, Error, ErrorKind as PortErrorKind, Sent, Transmitter, TransmitterCounters,
};
use candor_recording::RecordingError;

/// How long records are kept back, to be written together.
const KEPT_BACK: Nanos = Nanos::from_millis(500);
/// A batch of so many bytes is handed over without being asked for.
const ENOUGH: usize = MAX_RECORD_LEN;
/// So many bytes a batch holds at most.
const MOST_BYTES: usize = 8 * MAX_RECORD_LEN;
/// Batches that go round.
const BATCHES: usize = 3;
/// How long to wait before what could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the end may take: a disk that is busy may need seconds.
const END_TIMEOUT: Nanos = Nanos::from_secs(4);
/// The same while the file is not open yet: nobody may ever read the pipe.
const OPENING_END_TIMEOUT: Nanos = Nanos::from_secs(1);

/// Records that are written together.
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn new() -> Self {
        // The shortest record has 16 bytes.
        Self { bytes: Vec::with_capacity(MOST_BYTES), ends: Vec::with_capacity(MOST_BYTES / 16) }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// What both threads know.
#[derive(Default)]
struct Shared {
    /// The file is not open yet, and that is the trouble of the port.
    is_opening: AtomicBool,
    /// The file cannot be written at present.
    is_failing: AtomicBool,
    /// And that does not pass by itself.
    has_failed: AtomicBool,
    is_ending: AtomicBool,
    /// Frames that were taken and are not in the file.
    unwritten: AtomicU64,
}

impl Shared {
    /// The file can be written again.
    fn works(&self, counters: &TransmitterCounters) {
        self.has_failed.store(false, Ordering::Relaxed);
        let was_opening = self.is_opening.swap(false, Ordering::Relaxed);
        if self.is_failing.swap(false, Ordering::Relaxed) || was_opening {
            counters.trouble.clear();
        }
    }
}

/// The half that transmits.
pub(super) struct Recorder {
    encoder: Box<dyn Encoder>,
    interface: Box<str>,
    /// The file was not there before.
    is_new: bool,
    filling: Batch,
    /// To the writer, and back from it.
    full: Option<SyncSender<Batch>>,
    empty: mpsc::Receiver<Batch>,
    /// An empty one that was waited for.
    spare: Option<Batch>,
    flush_due: Option<Instant<Monotonic>>,
    writer: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    counters: Arc<TransmitterCounters>,
}

impl Recorder {
    pub(super) fn create(
        name: &str,
        path: &Path,
        may_replace: bool,
        address: &Address,
    ) -> Result<Self, Error> {
        let file_name = path.display().to_string();
        let format = candor_recording::growing_format_of_name(&file_name)
            .map_err(|error| failure(name, &error))?;
        let mut filling = Batch::new();
        let encoder = format.encoder(&mut filling.bytes);
        let (full, to_write) = mpsc::sync_channel(BATCHES);
        let (written, empty) = mpsc::sync_channel(BATCHES);
        for _ in 1..BATCHES {
            // There is room for all of them.
            let _ = written.try_send(Batch::new());
        }
        let (shared, counters) = (Arc::<Shared>::default(), Arc::<TransmitterCounters>::default());
        let opening = Opening {
            name: file_name.clone(),
            path: path.to_owned(),
            may_replace,
            shared: Arc::clone(&shared),
            counters: Arc::clone(&counters),
        };
        let (opened, outcome) = mpsc::sync_channel(1);
        let writer = thread::Builder::new()
            .name("candor-file".into())
            .spawn(move || {
                if let Some(writer) = opening.open(&opened) {
                    writer.work(&to_write, &written);
                }
            })
            .map_err(|error| {
                let failure = Error::new(name, format!("no thread can be started: {error}"));
                kernel::with_number(failure, &error)
            })?;
        let outcome = outcome.recv_timeout(OPEN_TIMEOUT).or_else(|_| {
            counters.trouble.set(OPENING);
            shared.is_opening.store(true, Ordering::Relaxed);
            // The thread clears this after it has told, so it is told here or cleared later.
            let late = outcome.try_recv();
            if let Ok(Ok(())) = late {
                shared.works(&counters);
            }
            late
        });
        if let Ok(Err((kind, error))) = outcome {
            shared.is_ending.store(true, Ordering::Relaxed);
            writer.thread().unpark();
            return Err(match kind {
                ErrorKind::AlreadyExists => Error::new(name, "the file already exists")
                    .with_remedy("choose another name, or add replace=true")
                    .of_kind(PortErrorKind::Busy),
                ErrorKind::ResourceBusy => {
                    Error::new(name, "another port or process uses this recording")
                        .with_remedy("end that process, or choose another name")
                        .of_kind(PortErrorKind::Busy)
                }
                _ => failure(name, &error),
            });
        }
        Ok(Self {
            encoder,
            interface: address.option("interface").unwrap_or("can0").into(),
            is_new: !may_replace,
            filling,
            full: Some(full),
            empty,
            spare: None,
            flush_due: None,
            writer: Some(writer),
            shared,
            counters,
        })
    }

    /// Gives the writer what there is, if an empty batch is there in exchange.
    fn hand_over(&mut self) {
        let (false, Some(full)) = (self.filling.bytes.is_empty(), &self.full) else { return };
        let Some(empty) = self.spare.take().or_else(|| self.empty.try_recv().ok()) else { return };
        let batch = std::mem::replace(&mut self.filling, empty);
        // There is room for all batches, and the writer does not end before.
        match full.try_send(batch) {
            Ok(()) => self.flush_due = None,
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.spare = Some(std::mem::replace(&mut self.filling, batch));
            }
        }
    }
}

/// Opens a file to be written. What is in it stays there until something is written.
fn open(path: &Path, may_replace: bool) -> io::Result<(File, Option<Claim>)> {
    // A named pipe or a device is there, and is written to.
    let is_special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    let mut options = OpenOptions::new();
    options.write(true);
    match (is_special, may_replace) {
        (true, _) => {}
        (false, true) => drop(options.create(true).truncate(false)),
        (false, false) => drop(options.create_new(true)),
    }
    let file = options.open(path)?;
    let claim = (!is_special).then(|| Claim::take(&file, may_replace)).transpose()?;
    Ok((file, claim))
}

impl Transmitter for Recorder {
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        if self.shared.is_failing.load(Ordering::Relaxed) {
            return Sent::Down;
        }
        if self.filling.bytes.len() + MAX_RECORD_LEN > MOST_BYTES {
            self.hand_over();
            if self.filling.bytes.len() + MAX_RECORD_LEN > MOST_BYTES {
                self.counters.full.add(1);
                return Sent::Full;
            }
        }
        let record = Record {
            time_ns: clock::now::<Realtime>().as_nanos(),
            interface: InterfaceIndex(0),
            direction: Some(Direction::Transmitted),
            frame: *frame,
        };
        if self.encoder.encode(&record, &self.interface, &mut self.filling.bytes).is_err() {
            return Sent::Unsupported;
        }
        self.filling.ends.push(self.filling.bytes.len());
        self.shared.unwritten.fetch_add(1, Ordering::Relaxed);
        self.counters.frames.add(1);
        if self.flush_due.is_none() {
            self.flush_due = Some(clock::now::<Monotonic>() + KEPT_BACK);
        }
        if self.filling.bytes.len() >= ENOUGH {
            self.hand_over();
        }
        Sent::Taken
    }

    fn flush_due(&self) -> Option<Instant<Monotonic>> {
        self.flush_due
    }

    fn flush(&mut self) -> Sent {
        self.hand_over();
        if self.flush_due.is_some() {
            // The writer is busy; there is still room, so nobody has to wait.
            self.flush_due = Some(clock::now::<Monotonic>() + KEPT_BACK);
        }
        match self.shared.is_failing.load(Ordering::Relaxed) {
            true => Sent::Down,
            false => Sent::Taken,
        }
    }

    fn wait(&mut self, most: Nanos) {
        self.hand_over();
        if self.spare.is_none() && !self.is_drained() {
            self.spare = self.empty.recv_timeout(Duration::from_nanos(most.as_nanos())).ok();
        }
    }

    fn is_drained(&mut self) -> bool {
        self.shared.unwritten.load(Ordering::Relaxed) == 0
    }

    fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        // A writer that cannot write tries once more, and then gives up.
        self.shared.is_ending.store(true, Ordering::Relaxed);
        writer.thread().unpark();
        let most = match self.shared.is_opening.load(Ordering::Relaxed) {
            true => OPENING_END_TIMEOUT,
            false => END_TIMEOUT,
        };
        let end = clock::now::<Monotonic>() + most;
        // A port that was opened and never used leaves what is there as it is.
        if self.is_new || self.counters.frames.get() > 0 {
            // An empty batch comes soon, or the disk is stuck.
            if self.spare.is_none() {
                let most = Duration::from_nanos(most.as_nanos());
                self.spare = self.empty.recv_timeout(most).ok();
            }
            self.hand_over();
        }
        self.full = None;
        // The writer gives its last batch back, and the channel ends with it.
        while !writer.is_finished() && clock::now::<Monotonic>() < end {
            let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1));
        }
        // One that hangs in the kernel is left behind: it ends with the process.
        self.counters.lost.add(self.shared.unwritten.load(Ordering::Relaxed));
    }
}

/// Why a file cannot be opened.
type Refused = (ErrorKind, RecordingError);

/// A file to be written, which nobody but the thread that writes waits for.
struct Opening {
    name: String,
    path: PathBuf,
    may_replace: bool,
    shared: Arc<Shared>,
    counters: Arc<TransmitterCounters>,
}

impl Opening {
    /// Opens it. The first outcome is told to whoever opens the port; later ones are the trouble of the
    /// port, and it is tried again. `None` if there is nothing to write any more.
    fn open(self, first: &SyncSender<Result<(), Refused>>) -> Option<Writer> {
        let Self { name, path, may_replace, shared, counters } = self;
        let (file, claim) = loop {
            let error = match open(&path, may_replace) {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            let kind = error.kind();
            let error = RecordingError::unwritable(&name, error);
            counters.trouble.set(error.to_string());
            shared.is_failing.store(true, Ordering::Relaxed);
            // Nobody may listen any more.
            let _ = first.try_send(Err((kind, error)));
            if shared.is_ending.load(Ordering::Relaxed) {
                return None;
            }
            thread::park_timeout(RETRY);
        };
        let _ = first.try_send(Ok(()));
        shared.works(&counters);
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Some(Writer { name, is_file, file, claim, len: None, shared, counters })
    }
}

/// The thread that waits for the disk.
struct Writer {
    name: String,
    file: File,
    claim: Option<Claim>,
    is_file: bool,
    /// The bytes written, once something was: all of them whole records.
    len: Option<u64>,
    shared: Arc<Shared>,
    counters: Arc<TransmitterCounters>,
}

impl Writer {
    fn work(mut self, full: &mpsc::Receiver<Batch>, empty: &SyncSender<Batch>) {
        while let Ok(mut batch) = full.recv() {
            if !self.write(&batch) {
                return;
            }
            self.counters.datagrams.add(1);
            batch.clear();
            // Nobody takes it any more at the end.
            let _ = empty.try_send(batch);
        }
    }

    /// Writes a batch, however often that has to be tried. False at the end.
    fn write(&mut self, batch: &Batch) -> bool {
        let mut done = 0;
        loop {
            match self.write_from(batch, &mut done) {
                Ok(()) => break,
                Err(error) => {
                    // Another process may give the file back, or begin to read the pipe.
                    let passes =
                        matches!(error.kind(), ErrorKind::ResourceBusy | ErrorKind::BrokenPipe);
                    let error = RecordingError::unwritable(&self.name, error).to_string();
                    self.counters.trouble.set(error);
                    self.shared.has_failed.store(!passes, Ordering::Relaxed);
                    self.shared.is_failing.store(true, Ordering::Relaxed);
                }
            }
            if self.shared.is_ending.load(Ordering::Relaxed) {
                return false;
            }
            thread::park_timeout(RETRY);
        }
        self.shared.works(&self.counters);
        true
    }

    /// Writes what comes behind the first `done` bytes of a batch.
    fn write_from(&mut self, batch: &Batch, done: &mut usize) -> io::Result<()> {
        if self.len.is_none() {
            if self.is_file {
                lock::for_writing(&self.file)?;
                // Now what was there is replaced.
                self.file.set_len(0)?;
                if let Some(claim) = &mut self.claim {
                    claim.replaced();
                }
            }
            self.len = Some(0);
        }
        while let Some(rest) = batch.bytes.get(*done..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(batch, done, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.cut_back(batch, done);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// So many bytes more are in the file.
    fn advance(&mut self, batch: &Batch, done: &mut usize, count: usize) {
        let before = records_within(batch, *done);
        *done += count;
        self.len = self.len.map(|len| len + count as u64);
        let written = records_within(batch, *done) - before;
        self.shared.unwritten.fetch_sub(written as u64, Ordering::Relaxed);
    }

    /// Takes a part of a record off the end of the file, so that it can be read.
    fn cut_back(&mut self, batch: &Batch, done: &mut usize) {
        let whole = records_within(batch, *done).checked_sub(1);
        let end = whole.and_then(|last| batch.ends.get(last)).copied().unwrap_or(0);
        let (true, Some(len)) = (self.is_file, self.len) else { return };
        let len = len - (*done - end) as u64;
        if self.file.set_len(len).is_ok() && self.file.seek(SeekFrom::Start(len)).is_ok() {
            (*done, self.len) = (end, Some(len));
        }
    }
}

/// How many records end within the first so many bytes of a batch.
fn records_within(batch: &Batch, bytes: usize) -> usize {
    batch.ends.partition_point(|&end| end <= bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{port, recording};
    use super::*;
    use candor_port::{Transmitter, Wanted};

    const LOG: &str = "(1000.000000) can0 123#11\n";

    /// Waits until everything that was taken is written.
    fn drain(transmitter: &mut dyn Transmitter) {
        transmitter.flush();
        while !transmitter.is_drained() {
            transmitter.wait(Nanos::from_millis(1));
            transmitter.flush();
        }
    }

    fn transmit(transmitter: &mut dyn Transmitter, frame: &str) -> Sent {
        transmitter.transmit(&frame.parse().unwrap(), false)
    }

    #[test]
    fn what_is_transmitted_is_written() {
        let folder = tempfile::tempdir().unwrap();
        for ending in ["log", "pcap", "pcapng"] {
            let path = folder.path().join("out").with_extension(ending);
            let name = format!("file:{}?interface=vehicle", path.display());
            let mut port = port(&name, Wanted::TRANSMITTER).unwrap();
            let transmitter = port.transmitter.as_mut().unwrap();
            let begin = clock::now::<Realtime>();
            let texts = ["123#11", "12345678##1AABB", "126#R4", "7FF#1122334455667788_C"];
            for text in texts {
                assert_eq!(transmit(&mut **transmitter, text), Sent::Taken);
            }
            assert!(transmitter.flush_due().is_some() && !transmitter.is_drained());
            drain(&mut **transmitter);
            assert_eq!(transmitter.flush_due(), None);
            // And what is not flushed is written in the end.
            assert_eq!(transmitter.transmit(&"127#".parse().unwrap(), true), Sent::Taken);
            drop(port);
            let recording = candor_recording::open(&path, None).unwrap();
            let records: Vec<_> = recording.map(Result::unwrap).collect();
            let shown: Vec<_> = records.iter().map(|record| record.frame.to_string()).collect();
            assert_eq!(shown, [&texts[..], &["127#"]].concat(), "{ending}");
            let times = begin.as_nanos() / 1_000 * 1_000..=clock::now::<Realtime>().as_nanos();
            assert!(records.iter().all(|record| times.contains(&record.time_ns)), "{ending}");
        }
        let text = fs::read_to_string(folder.path().join("out.log")).unwrap();
        assert!(text.lines().all(|line| line.contains(" vehicle ")), "{text}");
    }

    #[test]
    fn frames_before_the_file_is_open_are_kept_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut port = port(&format!("file:{}", path.display()), Wanted::TRANSMITTER).unwrap();
        let transmitter = port.transmitter.as_mut().unwrap();
        let counters = transmitter.counters();
        assert_eq!(counters.trouble.get().as_deref(), Some(OPENING));
        let mut taken = 0;
        while transmit(&mut **transmitter, "123#11") == Sent::Taken {
            taken += 1;
        }
        assert_eq!(transmit(&mut **transmitter, "123#11"), Sent::Full);
        assert!(taken > 10_000 && !transmitter.is_drained(), "{taken}");
        let reader = thread::spawn(move || fs::read_to_string(path).unwrap().lines().count());
        drain(&mut **transmitter);
        assert_eq!(counters.trouble.get(), None);
        drop(port);
        assert_eq!((reader.join().unwrap(), counters.lost.get()), (taken, 0));
    }

    #[test]
    fn a_good_file_is_not_replaced_unasked() {
        let (_folder, name) = recording(LOG);
        let path = name.strip_prefix("file:").unwrap();
        let error = port(&name, Wanted::TRANSMITTER).err().unwrap().to_string();
        assert!(error.ends_with("already exists; choose another name, or add replace=true"));
        assert_eq!(fs::read_to_string(path).unwrap(), LOG);
        let error = port("file:a.xyz", Wanted::TRANSMITTER).err().unwrap().to_string();
        assert!(error.contains("unknown file extension"), "{error}");
        let error = port("file:a.blf", Wanted::TRANSMITTER).err().unwrap().to_string();
        assert!(error.contains("a.blf: a BLF recording is compressed piece by piece"), "{error}");
        assert!(port(&name, Wanted::BOTH).is_err());
    }

    #[test]
    fn what_is_there_is_replaced_by_the_first_write() {
        let (_folder, name) = recording(LOG);
        let path = name.strip_prefix("file:").unwrap();
        let mut port = port(&format!("{name}?replace=true"), Wanted::TRANSMITTER).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), LOG, "opening is no reason");
        let transmitter = port.transmitter.as_mut().unwrap();
        assert_eq!(transmit(&mut **transmitter, "7FF#"), Sent::Taken);
        drain(&mut **transmitter);
        let text = fs::read_to_string(path).unwrap();
        assert!(text.ends_with(" can0 7FF# T\n") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn what_another_process_writes_is_not_replaced() {
        let (_folder, name) = recording(LOG);
        let path = name.strip_prefix("file:").unwrap();
        let name = format!("{name}?replace=true");
        let mut other = std::process::Command::new("flock")
            .args([path, "sh", "-c", "echo locked; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut locked = [0; 7];
        io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut locked).unwrap();
        let error = port(&name, Wanted::TRANSMITTER).err().unwrap().to_string();
        assert!(error.contains("another port or process uses this recording; end that"), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), LOG);
        drop(other.stdin.take());
        other.wait().unwrap();
        // One port replaces another one, and writes when that one has ended.
        let mut first = port(&name, Wanted::TRANSMITTER).unwrap();
        let mut second = port(&name, Wanted::TRANSMITTER).unwrap();
        let (first, second_half) = (first.transmitter.take(), second.transmitter.as_mut().unwrap());
        let counters = second_half.counters();
        let frame = "123#".parse().unwrap();
        assert_eq!(second_half.transmit(&frame, false), Sent::Taken);
        second_half.flush();
        while counters.trouble.get().is_none_or(|trouble| !trouble.contains("another port")) {
            second_half.wait(Nanos::from_millis(1));
        }
        assert_eq!(fs::read_to_string(path).unwrap(), LOG);
        drop(first);
        drain(&mut **second_half);
        assert!(fs::read_to_string(path).unwrap().ends_with(" can0 123# T\n"));
    }

    #[test]
    fn a_full_disk_is_reported_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.log");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let mut port = port(&format!("file:{}", path.display()), Wanted::TRANSMITTER).unwrap();
        let transmitter = port.transmitter.as_mut().unwrap();
        let counters = transmitter.counters();
        let frame = "123#".parse().unwrap();
        let mut taken = 0;
        // Whoever transmits learns of it once the writer has tried.
        loop {
            match transmitter.transmit(&frame, false) {
                Sent::Taken => taken += 1,
                Sent::Full => transmitter.wait(Nanos::from_millis(1)),
                other => break assert_eq!(other, Sent::Down),
            }
            transmitter.flush();
        }
        let trouble = counters.trouble.get().unwrap();
        assert!(trouble.contains("out.log: cannot be written: No space left"), "{trouble}");
        assert_eq!(transmitter.transmit(&frame, false), Sent::Down);
        assert_eq!((transmitter.flush(), transmitter.is_drained()), (Sent::Down, false));
        assert!(transmitter.has_failed());
        assert_eq!((counters.frames.get(), counters.lost.get()), (taken, 0));
        drop(port);
        assert_eq!(counters.lost.get(), taken, "at the end");
    }

    #[test]
    fn a_file_ends_with_a_whole_record_and_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.log");
        let mut batch = Batch::new();
        for number in 0..10 {
            batch.bytes.extend(format!("record {number}\n").bytes());
            batch.ends.push(batch.bytes.len());
        }
        let shared = Arc::new(Shared::default());
        shared.unwritten.store(10, Ordering::Relaxed);
        let mut writer = Writer {
            name: "out.log".into(),
            file: File::create(&path).unwrap(),
            claim: None,
            is_file: true,
            len: Some(0),
            shared: Arc::clone(&shared),
            counters: Arc::default(),
        };
        // The disk takes 33 of 90 bytes, three records of 9 bytes and a part of the fourth.
        let mut done = 0;
        writer.file.write_all(&batch.bytes[..33]).unwrap();
        writer.advance(&batch, &mut done, 33);
        writer.cut_back(&batch, &mut done);
        assert_eq!((done, writer.len), (27, Some(27)));
        assert_eq!(shared.unwritten.load(Ordering::Relaxed), 7);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
        writer.write_from(&batch, &mut done).unwrap();
        assert_eq!(fs::read(&path).unwrap(), batch.bytes);
        assert_eq!(shared.unwritten.load(Ordering::Relaxed), 0);
    }
}
