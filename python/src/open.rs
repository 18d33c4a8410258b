//! Files that are read without keeping Ctrl-C waiting, whatever they are.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candor_recording::{Record, Recording, RecordingError as Unread, open_through};
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::errors::{RecordingError, of_recording, os_error};

/// How long a pipe is waited for between two looks at signals.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens a file; a pipe without a writer, too, whose end `open` would wait for.
pub(crate) fn open(path: &Path) -> PyResult<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    file.map_err(|error| os_error(path, &error))
}

/// What Ctrl-C, or a handler of the program, raised while a file was read.
type Raised = Arc<Mutex<Option<PyErr>>>;

fn take(raised: &Raised) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Looks at signals; what one raises is kept.
fn look(raised: &Raised) -> io::Result<()> {
    Python::attach(|py| py.check_signals()).map_err(|error| {
        *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::new(ErrorKind::WouldBlock, "interrupted")
    })
}

/// Reads a file, and looks at signals while it waits for what is no regular one.
pub(crate) struct Interruptible {
    file: File,
    is_regular: bool,
    raised: Raised,
}

impl Interruptible {
    fn new(file: File, raised: Raised) -> Self {
        let is_regular = file.metadata().is_ok_and(|it| it.is_file());
        Self { file, is_regular, raised }
    }
}

impl Read for Interruptible {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            // It is looked before, where reading can go on.
            if self.is_regular {
                return self.file.read(out);
            }
            look(&self.raised)?;
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&WAIT)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Reads a file of text as a whole, at most so many bytes.
pub(crate) fn read(path: &Path, most: u64) -> PyResult<Vec<u8>> {
    let (mut bytes, raised) = (Vec::new(), Raised::default());
    let read = Interruptible::new(open(path)?, raised.clone()).take(most).read_to_end(&mut bytes);
    match (take(&raised), read) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(os_error(path, &error)),
        (None, Ok(_)) => Ok(bytes),
    }
}

/// A recording that is being read.
pub(crate) struct Opened {
    pub(crate) recording: Recording,
    pub(crate) is_regular: bool,
    raised: Raised,
    /// The process that opened it: another one, made by `fork`, shares its place in the file.
    process: u32,
    /// Whether the latest error was a pause, such as Ctrl-C, behind which it goes on.
    pub(crate) is_paused: bool,
    name: String,
}

impl Opened {
    pub(crate) fn new(path: &Path, skips_malformed: bool) -> PyResult<Self> {
        let file = open(path)?;
        let raised = Raised::default();
        let is_regular = file.metadata().is_ok_and(|it| it.is_file());
        let source = |file| Interruptible::new(file, raised.clone());
        let recording = open_through(path, file, None, source);
        let recording = recording.map_err(|error| {
            take(&raised).unwrap_or_else(|| match error.io_error() {
                Some(error) => os_error(path, error),
                None => of_recording(&error),
            })
        })?;
        let told = raised.clone();
        let look = move || look(&told);
        let recording = recording.skip_malformed(skips_malformed).before_reading(look);
        let (process, name) = (std::process::id(), path.display().to_string());
        Ok(Self { recording, is_regular, raised, process, is_paused: false, name })
    }

    /// Refuses another process than the one that opened it.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let text = "it was opened before this process was forked, and both would move its place in the file; open it again in this process";
        Err(RecordingError::new_err(format!("{}: {text}", self.name)))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<PyResult<Record>> {
        match self.recording.next()? {
            Ok(record) => Some(Ok(record)),
            Err(error) => Some(Err(self.raise(&error))),
        }
    }

    #[cold]
    fn raise(&mut self, error: &Unread) -> PyErr {
        self.is_paused = error.is_pause();
        take(&self.raised).unwrap_or_else(|| of_recording(error))
    }
}
