//! [`Out`]: standard output, whose reader may go away or stand still.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use candor_bus::outlet::Stop;
use candor_linux::clock;
use candor_linux::file::reopen_at_once;
use candor_linux::poll::{self, Interest};
use candor_time::{Instant, Monotonic, Nanos};

use crate::output::unwritable;

/// How much is kept back at most.
const BUFFER_LEN: usize = 64 << 10;
/// What fits into a pipe or a socket that has room at all (`PIPE_BUF`, pipe(7)).
const ROOM_LEN: usize = 4_096;
/// How long to wait for room before looking whether to end.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);
/// How long a reader may stand still once the command is to end,
const STANDSTILL: Nanos = Nanos::from_millis(700);
/// and how long it may take in all for what is left.
const LAST_LINES: Nanos = Nanos::from_secs(3);

/// Standard output. Once its reader went away everything is over. While the reader stands still it is waited for, but not for long
/// once the command is to end: what cannot be written then is counted.
pub(crate) struct Out {
    file: File,
    stop: &'static Stop,
    /// How much is written at once, so that writing does not wait.
    most: usize,
    buffer: Vec<u8>,
    state: State,
    /// When the wish to end was seen.
    stopped: Option<Instant<Monotonic>>,
    /// When something was written last, since then.
    progress: Instant<Monotonic>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nobody reads any more.
    Closed,
    /// Nobody has read in time; so many lines were not written.
    GivenUp(u64),
}

impl Out {
    /// Standard output of a command that ends soon after `stop` is set.
    pub(crate) fn new(stop: &'static Stop) -> Result<Self, String> {
        let (file, most) = open().map_err(|error| unwritable(&error))?;
        let (buffer, state) = (Vec::with_capacity(BUFFER_LEN), State::Open);
        Ok(Self { file, stop, most, buffer, state, stopped: None, progress: Instant::ZERO })
    }

    /// Whether somebody still reads it.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether to go on. What comes is counted still where it cannot be written.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        match self.state {
            State::Closed => ControlFlow::Break(()),
            State::Open | State::GivenUp(_) => ControlFlow::Continue(()),
        }
    }

    /// How many lines could not be written since nobody read, when the command was to end.
    pub(super) const fn unwritten_lines(&self) -> u64 {
        match self.state {
            State::GivenUp(lines) => lines,
            State::Open | State::Closed => 0,
        }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), String> {
        match &mut self.state {
            State::Open => self.buffer.extend_from_slice(text.as_bytes()),
            State::Closed => {}
            State::GivenUp(lines) => *lines += count_lines(text.as_bytes()),
        }
        if self.buffer.len() >= BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<(), String> {
        let mut done = 0;
        while done < self.buffer.len() {
            let is_ready = self.wait_for_room().map_err(|error| unwritable(&error))?;
            let rest = &self.buffer[done..];
            if !is_ready {
                self.state = State::GivenUp(count_lines(rest));
                break;
            }
            match self.file.write(&rest[..rest.len().min(self.most)]) {
                Ok(count) => {
                    done += count;
                    if self.stopped.is_some() {
                        self.progress = clock::now();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // There was room, but not for as much.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let soon = clock::now::<Monotonic>() + Nanos::from_millis(1);
                    clock::sleep_until(soon).map_err(|error| error.to_string())?;
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.state = State::Closed;
                    break;
                }
                Err(error) => {
                    self.buffer.clear();
                    return Err(unwritable(&error));
                }
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// Waits until something can be written; false if that takes too long.
    fn wait_for_room(&mut self) -> io::Result<bool> {
        loop {
            let mut timeout = STOP_CHECK_INTERVAL;
            if self.stop.load(Ordering::Relaxed) {
                let now = clock::now::<Monotonic>();
                let stopped = *self.stopped.get_or_insert(now);
                let latest = (stopped + LAST_LINES).min(self.progress.max(stopped) + STANDSTILL);
                if now >= latest {
                    return Ok(false);
                }
                timeout = timeout.min(latest - now);
            }
            let is_ready = poll::wait_or_signal(&self.file, Interest::Write, Some(timeout));
            if is_ready.map_err(io::Error::other)? {
                return Ok(true);
            }
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Standard output, and how much of it can be written at once without waiting, where there is room.
fn open() -> io::Result<(File, usize)> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if file.metadata()?.is_file() {
        return Ok((file, usize::MAX));
    }
    Ok(reopen_at_once(&file).map_or((file, ROOM_LEN), |anew| (anew, usize::MAX)))
}
