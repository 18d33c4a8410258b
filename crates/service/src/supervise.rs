//! The loop of a program that runs until it is asked to end, and what its service manager hears of it.
//!
//! ```text
//!  signals, files of the program, ticks --> Supervision --> the program: reload, came, tick
//!                                                |
//!                                                +--> service manager: ready, reloading, alive, stopping
//! ```

use std::os::fd::AsFd;

use candor_linux::notify::{self, Notifier, State};
use candor_linux::poll::{Interest, Poll};
use candor_linux::signal::{Signal, Signals};
use candor_linux::{Error, clock};
use candor_time::{Monotonic, Nanos};

/// The number of signals among sources.
const SIGNALS: u64 = u64::MAX;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Wait,
    /// Read the configuration anew.
    Reload,
    /// End.
    End,
}

/// A program that is supervised.
pub trait Supervised {
    /// What ends it before its time.
    type Error: From<Error>;

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

    /// Reads the configuration anew. Returns how it is, in a line for people.
    fn reload(&mut self) -> String;

    /// Whether somebody else asked it to end.
    fn is_over(&self) -> bool;
}

/// What a program waits for.
#[derive(Debug)]
pub struct Supervision<'a> {
    poll: Poll,
    signals: Option<&'a Signals>,
    notifier: Notifier,
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
        Ok(Self { poll, signals, notifier })
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
        let mut is_ending = false;
        self.tell(&[State::Ready, State::Status(state)]);
        while !is_ending && !program.is_over() {
            let sources: Vec<u64> = self.poll.wait(Some(wait))?.collect();
            for source in sources {
                let next = match source {
                    SIGNALS => self.signalled()?,
                    source => program.came(source)?,
                };
                is_ending |= self.follow(next, program);
            }
            let now = clock::now::<Monotonic>();
            if now >= next_tick {
                next_tick = now + period;
                let next = program.tick()?;
                is_ending |= self.follow(next, program);
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
            Some(Signal::Interrupt | Signal::Terminate) => Next::End,
            None => Next::Wait,
        })
    }

    /// Does what is to be done; tells whether it is to end.
    fn follow(&self, next: Next, program: &mut impl Supervised) -> bool {
        if next == Next::Reload {
            self.tell(&[State::Reloading]);
            let state = program.reload();
            self.tell(&[State::Ready, State::Status(&state)]);
        }
        next == Next::End
    }

    /// A manager that does not listen stops nobody.
    fn tell(&self, states: &[State<'_>]) {
        let _ = self.notifier.tell(states);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Notes what it is told to do, and ends with the third tick.
    #[derive(Default)]
    struct Program {
        done: Vec<&'static str>,
        ticks: u32,
    }

    impl Supervised for Program {
        type Error = Error;

        fn came(&mut self, source: u64) -> Result<Next, Error> {
            assert_eq!(source, 7);
            // It is there until it is read; once is enough.
            let is_first = !self.done.contains(&"came");
            self.done.extend(is_first.then_some("came"));
            Ok(if is_first { Next::Reload } else { Next::Wait })
        }

        fn tick(&mut self) -> Result<Next, Error> {
            self.ticks += 1;
            Ok(if self.ticks == 3 { Next::End } else { Next::Wait })
        }

        fn reload(&mut self) -> String {
            self.done.push("reload");
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
        let mut program = Program::default();
        supervision.run(&mut program, "at work", Nanos::from_millis(5)).unwrap();
        assert_eq!((program.done, program.ticks), (vec!["came", "reload"], 3));
    }
}
