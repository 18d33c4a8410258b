//! Messages to people: lines on standard error, which nobody has to read.
//!
//! A reader that went away, a full disk and a full pipe are no reason to end: what cannot be written is
//! dropped and counted. Everything that a program says goes through [`say!`](crate::say).
//!
//! Messages are written where they are said, until [`in_background`] is called. From then on a thread
//! writes them, from a bounded queue, so that nobody who says something waits for a reader. Where messages
//! were dropped, the next one that can be written is preceded by their number.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The most messages that wait, and their bytes in all.
const MOST_WAITING: usize = 1_024;
const MOST_WAITING_BYTES: usize = 256 << 10;
/// The stack of the thread that writes: a program may keep all its memory in RAM.
const STACK_BYTES: usize = 64 << 10;

static DROPPED: AtomicU64 = AtomicU64::new(0);
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Says a line to people: on standard error. The arguments are those of [`format!`].
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::messages::line(::std::format!($($argument)*))
    };
}

pub fn line(mut text: String) {
    text.push('\n');
    lines(text);
}

/// Says lines that have their line feeds already.
pub fn lines(text: String) {
    match QUEUE.get() {
        Some(queue) => queue.push(text),
        None => {
            if io::stderr().lock().write_all(text.as_bytes()).is_err() {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// How many messages were dropped, because standard error could not be written or was not read.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// From now on a thread writes what is said. What a panic says goes the same way.
///
/// # Errors
/// There can be no thread.
pub fn in_background() -> io::Result<()> {
    let queue = Queue::start(io::stderr(), &DROPPED)?;
    if QUEUE.set(queue).is_ok() {
        // The hook of std would wait for a reader.
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            line(format!("thread `{}` {panic}", thread.name().unwrap_or("without a name")));
        }));
    }
    Ok(())
}

/// Waits until everything that was said is written, but for a reader not longer than `timeout`. To be called before
/// the program ends.
pub fn finish(timeout: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.finish(timeout);
    }
}

/// Messages that wait, and the thread that writes them.
struct Queue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    dropped: &'static AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Message>,
    bytes: usize,
    is_writing: bool,
    /// How many messages were dropped since the last one that is in the queue.
    missing: u64,
}

enum Message {
    Text(String),
    Missing(u64),
}

impl Queue {
    fn start(sink: impl Write + Send + 'static, dropped: &'static AtomicU64) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), dropped });
        let writer = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("messages".into()).stack_size(STACK_BYTES);
        thread.spawn(move || writer.write(sink))?;
        Ok(Self(shared))
    }

    /// Puts a message behind the others if there is room. Never waits.
    fn push(&self, text: String) {
        let mut state = self.0.state();
        let has_room = state.waiting.len() + 1 < MOST_WAITING
            && state.bytes.saturating_add(text.len()) <= MOST_WAITING_BYTES;
        if !has_room {
            state.missing += 1;
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if state.missing > 0 {
            let missing = std::mem::take(&mut state.missing);
            state.waiting.push_back(Message::Missing(missing));
        }
        state.bytes += text.len();
        state.waiting.push_back(Message::Text(text));
        self.0.changed.notify_all();
    }

    fn finish(&self, timeout: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        // Without any, the thread would not get the lock.
        let timeout = timeout.max(Duration::from_millis(1));
        let mut state = self.0.state();
        loop {
            let waited = self.0.changed.wait_timeout_while(state, timeout, is_busy);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            // On a busy machine the thread may not have begun: that is no fault of a reader.
            if !timeout.timed_out() || now.is_writing {
                return;
            }
            state = now;
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes, as long as the process lives.
    fn write(&self, mut sink: impl Write) {
        let mut state = self.state();
        loop {
            let Some(message) = state.waiting.pop_front() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if let Message::Text(text) = &message {
                state.bytes -= text.len();
            }
            state.is_writing = true;
            drop(state);
            let written = match &message {
                Message::Text(text) => sink.write_all(text.as_bytes()),
                Message::Missing(count) => {
                    let (messages, are) =
                        if *count == 1 { ("message", "is") } else { ("messages", "are") };
                    let note = format!(
                        "candor: {count} {messages} {are} missing here: standard error was full\n"
                    );
                    sink.write_all(note.as_bytes())
                }
            };
            state = self.state();
            state.is_writing = false;
            match message {
                Message::Text(_) if written.is_err() => {
                    state.missing += 1;
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
                Message::Missing(count) if written.is_err() => state.missing += count,
                _ => {}
            }
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A queue of its own, with its own counter.
    fn queue(sink: impl Write + Send + 'static) -> (Queue, &'static AtomicU64) {
        let dropped: &'static AtomicU64 = Box::leak(Box::default());
        (Queue::start(sink, dropped).unwrap(), dropped)
    }

    /// A sink that fails as long as `outcome` says so, one word for each message.
    struct Script(Receiver<bool>, std::io::PipeWriter);

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.recv().unwrap() {
                true => self.1.write(bytes),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_said_is_written_however_late_the_thread_begins() {
        static DROPPED: AtomicU64 = AtomicU64::new(0);
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), dropped: &DROPPED };
        let queue = Queue(Arc::new(shared));
        queue.push("the last words\n".into());
        let (reader, writer) = io::pipe().unwrap();
        std::thread::scope(|scope| {
            let finished = scope.spawn(|| queue.finish(Duration::from_millis(1)));
            // It waits meanwhile, for more than its timeout.
            for _ in 0..200 {
                std::thread::yield_now();
            }
            assert!(!finished.is_finished());
            let late = Arc::clone(&queue.0);
            // It lives as long as the process.
            std::thread::spawn(move || late.write(writer));
        });
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).unwrap();
        assert_eq!(line, "the last words\n");
    }

    #[test]
    fn a_pipe_that_nobody_reads_stops_nobody_and_is_told_when_it_is_read_again() {
        let (reader, writer) = io::pipe().unwrap();
        let (queue, dropped) = queue(writer);
        let count = 100_000_u64;
        for number in 0..count {
            queue.push(format!("{number}\n"));
        }
        let lost = dropped.load(Ordering::Relaxed);
        assert!(lost > 0 && lost < count, "{lost}");
        // It does not wait for ever either.
        queue.finish(Duration::from_millis(1));
        let (mut came, mut missing) = (0, 0);
        let mut said_last = false;
        for line in BufReader::new(reader).lines() {
            let line = line.unwrap();
            match line.strip_prefix("candor: ") {
                Some(note) => missing += note.split(' ').next().unwrap().parse::<u64>().unwrap(),
                None => came += 1,
            }
            if line == "last" {
                break;
            }
            // There is room again once everything that waited was read.
            if came + lost == count && !std::mem::replace(&mut said_last, true) {
                queue.push("last\n".into());
            }
        }
        assert_eq!((came, missing), (count - lost + 1, lost));
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (outcomes, script) = channel();
        let (queue, dropped) = queue(Script(script, writer));
        // A note about those that are missing is a message, too.
        for (text, written) in [
            ("one\n", &[true][..]),
            ("two\n", &[false]),
            ("three\n", &[false, false]),
            ("four\n", &[false, false]),
            ("five\n", &[true, true]),
        ] {
            for &outcome in written {
                outcomes.send(outcome).unwrap();
            }
            queue.push(text.into());
            queue.finish(LONG);
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        let expected = "one\ncandor: 3 messages are missing here: standard error was full\nfive\n";
        let mut text = vec![0; expected.len()];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
