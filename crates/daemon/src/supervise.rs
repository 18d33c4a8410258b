//! The loop of a program that runs until it is asked to end, and what its service manager hears of it.
//!
//! ```text
//!  signals, files of the program, ticks --> Supervision --> the program: reload, came, tick
//!                                           |     ^ |
//!                     a thread: what takes time --+ +--> service manager: ready, reloading, alive, stopping
//! ```
//!
//! The loop itself waits for nothing else, so the service manager hears that the program is alive, whatever is being read.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use candor_linux::event::Event;
use candor_linux::notify::{self, Notifier, State};
use candor_linux::poll::{Interest, Poll};
use candor_linux::signal::{Signal, Signals};
use candor_linux::{Error, clock};
use candor_time::{Monotonic, Nanos};

/// The number of signals among sources.
const SIGNALS: u64 = u64::MAX;
/// That of what was read anew.
const LOADED: u64 = u64::MAX - 1;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Wait,
    /// Read the configuration anew.
    Reload,
    End,
}

/// Work for a thread of its own.
pub type Load<T> = Box<dyn FnOnce() -> T + Send>;

/// A program that is supervised.
pub trait Supervised {
    /// What ends it before its time.
    type Error: From<Error>;
    /// The configuration, read anew.
    type Loaded: Send + 'static;

    /// There is something at a source.
    ///
    /// # Errors
    /// It cannot go on.
    fn came(&mut self, source: u64) -> Result<Next, Self::Error>;

    /// Time is over.
    ///
    /// # Errors
    /// It cannot go on.
    fn tick(&mut self) -> Result<Next, Self::Error>;

    /// How to read the configuration anew: everything that takes time. It runs in a thread of its own.
    fn reload(&mut self) -> Load<Self::Loaded>;

    /// It was read. Returns how it is, in a line for people. Does not wait.
    fn loaded(&mut self, loaded: Self::Loaded) -> String;

    /// What does not work now and is waited for, each with the reason.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether somebody else asked it to end.
    fn is_over(&self) -> bool;
}

/// What a program waits for.
#[derive(Debug)]
pub struct Supervision<'a> {
    poll: Poll,
    signals: Option<&'a Signals>,
    notifier: Notifier,
    /// What was begun in a thread is done. It is made before anybody is served: clients may take all descriptors.
    done: Arc<Event>,
}

impl<'a> Supervision<'a> {
    /// For a program that lives with these signals: SIGHUP reloads, others end it.
    ///
    /// # Errors
    /// Too many files are open, or the address of the service manager is none.
    pub fn new(signals: Option<&'a Signals>) -> Result<Self, Error> {
        let notifier = Notifier::from_environment()?;
        let mut poll = Poll::new()?;
        if let Some(signals) = signals {
            poll.add(signals, Interest::Read, SIGNALS)?;
        }
        let done = Arc::new(Event::new()?);
        poll.add(&*done, Interest::Read, LOADED)?;
        Ok(Self { poll, signals, notifier, done })
    }

    /// Adds a source, by a number of its own.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn add(&mut self, source: &impl AsFd, number: u64) -> Result<(), Error> {
        self.poll.add(source, Interest::Read, number)
    }

    /// Runs the program, with a tick after each `period`, until it is to end. It is ready now, in this state.
    ///
    /// # Errors
    /// Those of the program.
    pub fn run<P: Supervised>(
        mut self,
        program: &mut P,
        state: &str,
        period: Nanos,
    ) -> Result<(), P::Error> {
        let alive_every = notify::watchdog().map(|period| Nanos::from_nanos(period.as_nanos() / 3));
        let wait = alive_every.map_or(period, |every| every.min(period));
        let mut next_tick = clock::now::<Monotonic>() + period;
        let mut loading = Loading::new(Arc::clone(&self.done));
        let mut is_ending = false;
        let mut status = ServiceStatus { state: state.to_owned(), told: String::new() };
        self.tell(&[State::Ready, State::Status(status.with(&program.troubles()))]);
        while !is_ending && !program.is_over() {
            let sources: Vec<u64> = self.poll.wait(Some(wait))?.collect();
            for source in sources {
                let next = match source {
                    SIGNALS => self.signalled()?,
                    LOADED => {
                        self.end_loading(&mut loading, program, &mut status);
                        Next::Wait
                    }
                    source => program.came(source)?,
                };
                is_ending |= self.follow(next, &mut loading, program);
            }
            let now = clock::now::<Monotonic>();
            if now >= next_tick {
                next_tick = now + period;
                let next = program.tick()?;
                is_ending |= self.follow(next, &mut loading, program);
                if let Some(status) = status.news(&program.troubles()) {
                    self.tell(&[State::Status(status)]);
                }
            }
            if alive_every.is_some() {
                self.tell(&[State::Alive]);
            }
        }
        self.tell(&[State::Stopping]);
        Ok(())
    }

    fn signalled(&self) -> Result<Next, Error> {
        Ok(match self.signals.map(Signals::take).transpose()?.flatten() {
            Some(Signal::Hangup) => Next::Reload,
            Some(_) => Next::End,
            None => Next::Wait,
        })
    }

    /// Does what is to be done; tells whether it is to end.
    fn follow<P: Supervised>(
        &self,
        next: Next,
        loading: &mut Loading<P::Loaded>,
        program: &mut P,
    ) -> bool {
        match next {
            // What is being read may be the earlier contents.
            Next::Reload if loading.is_under_way() => loading.is_again = true,
            Next::Reload => {
                self.tell(&[State::Reloading]);
                loading.begin(program.reload());
            }
            Next::Wait | Next::End => {}
        }
        next == Next::End
    }

    fn end_loading<P: Supervised>(
        &self,
        loading: &mut Loading<P::Loaded>,
        program: &mut P,
        status: &mut ServiceStatus,
    ) {
        let Some(loaded) = loading.end() else { return };
        status.state = program.loaded(loaded);
        if std::mem::take(&mut loading.is_again) {
            loading.begin(program.reload());
        } else {
            self.tell(&[State::Ready, State::Status(status.with(&program.troubles()))]);
        }
    }

    /// A manager that does not listen stops nobody.
    fn tell(&self, states: &[State<'_>]) {
        let _ = self.notifier.tell(states);
    }
}

/// So many troubles stand in the status; of others their number.
const MOST_TROUBLES: usize = 5;

/// What the service manager is told of how a program is.
struct ServiceStatus {
    state: String,
    told: String,
}

impl ServiceStatus {
    /// The status with what does not work.
    fn with(&mut self, troubles: &[String]) -> &str {
        self.told.clone_from(&self.state);
        for trouble in troubles.iter().take(MOST_TROUBLES) {
            self.told += "; ";
            self.told += trouble;
        }
        if let Some(more @ 1..) = troubles.len().checked_sub(MOST_TROUBLES) {
            self.told += &format!("; and {more} more");
        }
        &self.told
    }

    /// The same, if it differs from what was told.
    fn news(&mut self, troubles: &[String]) -> Option<&str> {
        let before = self.told.clone();
        let is_new = self.with(troubles) != before;
        is_new.then_some(self.told.as_str())
    }
}

/// The configuration, while it is read anew.
struct Loading<T> {
    thread: Option<JoinHandle<Option<T>>>,
    read_here: Option<T>,
    done: Arc<Event>,
    /// It has changed since that began.
    is_again: bool,
}

impl<T: Send + 'static> Loading<T> {
    const fn new(done: Arc<Event>) -> Self {
        Self { thread: None, read_here: None, done, is_again: false }
    }

    const fn is_under_way(&self) -> bool {
        self.thread.is_some() || self.read_here.is_some()
    }

    fn begin(&mut self, load: Load<T>) {
        let done = Arc::clone(&self.done);
        let load = Arc::new(Mutex::new(Some(load)));
        let take = |load: &Mutex<Option<Load<T>>>| {
            load.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let shared = Arc::clone(&load);
        let started = thread::Builder::new().name("candor-load".to_owned()).spawn(move || {
            // Also if it panics.
            let _set = SetOnDrop(done);
            take(&shared).map(|load| load())
        });
        match started {
            Ok(thread) => self.thread = Some(thread),
            // There can be no thread more: then it is read here.
            Err(_) => {
                self.read_here = take(&load).map(|load| load());
                self.done.set();
            }
        }
    }

    /// What was read, if that is over.
    fn end(&mut self) -> Option<T> {
        self.done.take();
        if let Some(loaded) = self.read_here.take() {
            return Some(loaded);
        }
        let loaded = self.thread.take()?.join();
        loaded.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct SetOnDrop(Arc<Event>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    /// Notes what it is told to do, and ends when it has loaded.
    #[derive(Default)]
    struct Program {
        done: Vec<&'static str>,
        ticks: u32,
        /// What the first reading waits for, and how that comes.
        begun: Option<mpsc::Receiver<()>>,
        end: Option<mpsc::Sender<()>>,
    }

    impl Supervised for Program {
        type Error = Error;
        type Loaded = ();

        fn came(&mut self, source: u64) -> Result<Next, Error> {
            assert_eq!(source, 7);
            // It is there until it is read; once is enough.
            let is_first = !self.done.contains(&"came");
            self.done.extend(is_first.then_some("came"));
            Ok(if is_first { Next::Reload } else { Next::Wait })
        }

        fn tick(&mut self) -> Result<Next, Error> {
            self.ticks += 1;
            if self.ticks == 3 {
                // Reading takes no end, and it changes once more meanwhile.
                self.end.take();
                return Ok(Next::Reload);
            }
            let is_over = self.done.iter().filter(|done| **done == "loaded").count() == 2;
            Ok(if is_over { Next::End } else { Next::Wait })
        }

        fn reload(&mut self) -> Load<()> {
            self.done.push("reload");
            let begun = self.begun.take();
            Box::new(move || {
                // As long as the ticks go on.
                begun.into_iter().for_each(|until| assert!(until.recv().is_err()));
            })
        }

        fn loaded(&mut self, (): ()) -> String {
            self.done.push("loaded");
            String::new()
        }

        fn is_over(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_comes_is_followed_until_the_end() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        writer.write_all(b"x").unwrap();
        let mut supervision = Supervision::new(None).unwrap();
        supervision.add(&reader, 7).unwrap();
        let (end, begun) = mpsc::channel();
        let mut program = Program { begun: Some(begun), end: Some(end), ..Program::default() };
        supervision.run(&mut program, "at work", Nanos::from_millis(5)).unwrap();
        assert!(program.ticks > 3, "ticks come while it is read");
        assert_eq!(program.done, ["came", "reload", "loaded", "reload", "loaded"]);
    }
}
