//! Progress of long work, on standard error; and Ctrl-C.
//!
//! On a terminal it is a bar. Elsewhere it is lines: one per experiment on a machine, and one whenever
//! nothing was said for [`QUIET`], so that a log shows that long experiments are alive.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use candor_diagnostics::counted;
use candor_lab::experiment::Testbed;
use candor_lab::run::{Ended, Progress};
use candor_lab::{Error, Experiment};
use candor_linux::signal::others_as_terminate;
use candor_linux::{clock, unfinished};
use candor_output::say;
use candor_time::{Instant, Monotonic, Nanos};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{duration, thousands};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C end the work in order; a second one ends the program.
pub(crate) fn catch_interrupt() {
    // Where no handler can be set, Ctrl-C simply ends the program.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            unfinished::remove();
            std::process::exit(130);
        }
        // In a thread of its own: a second Ctrl-C must end the program also when nobody reads this.
        std::thread::spawn(|| {
            say!(
                "\ninterrupted: storing the finished results (press Ctrl-C again to stop at once)"
            );
        });
    });
    let _ = others_as_terminate();
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The longest time without a sign of life.
const QUIET: Nanos = Nanos::from_nanos(10_000_000_000);
/// So many experiments that run are named.
const MOST_NAMED: usize = 2;

type Now = Instant<Monotonic>;

/// Says when a sign of life is due: once whenever nothing was said for [`QUIET`].
pub(crate) struct Pulse {
    said: Mutex<Now>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { said: Mutex::new(clock::now()) }
    }

    /// Something was said now.
    fn beat(&self, now: Now) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether something is to be said now; if so, the caller says it.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = now - *said >= QUIET;
        if is_due {
            *said = now;
        }
        is_due
    }
}

/// A bar over all frames of a campaign, with the time left. Where there is no terminal, a line per
/// experiment on a machine, because those take a while.
pub(crate) struct Bar {
    bar: ProgressBar,
    pulse: Pulse,
    has_terminal: bool,
    experiments: usize,
    state: Mutex<State>,
}

/// How far a campaign is.
#[derive(Default)]
struct State {
    /// The experiments that run.
    running: BTreeMap<String, Running>,
    /// Frames that the finished ones were expected to send.
    finished: u64,
    /// How many are finished.
    done: usize,
    /// How many of them were known already.
    cached: usize,
}

/// An experiment that runs.
struct Running {
    /// Frames sent so far.
    sent: u64,
    since: Now,
}

impl State {
    /// What runs, longest first, and for how long: `a for 25 s, b for 3 s and 2 more`.
    fn running(&self, now: Now) -> String {
        let mut running: Vec<_> =
            self.running.iter().map(|(name, running)| (running.since, name)).collect();
        running.sort();
        let one = |(since, name): &(Now, &String)| {
            format!("{name} for {} s", (now - *since).as_nanos() / 1_000_000_000)
        };
        let named: Vec<_> = running.iter().take(MOST_NAMED).map(one).collect();
        let more = match running.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        named.join(", ") + &more
    }
}

impl Bar {
    pub(crate) fn new(experiments: &[Experiment]) -> Self {
        let total = experiments.iter().map(expected_frames).sum();
        let has_terminal = std::io::stderr().is_terminal();
        let bar = if has_terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let style = "{bar:30} {percent:>3} %  {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let (pulse, state) = (Pulse::new(), Mutex::default());
        Self { bar, pulse, has_terminal, experiments: experiments.len(), state }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, now: Now, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let sent = state.running.values().map(|running| running.sent).sum::<u64>();
        self.bar.set_position(sent + state.finished);
        let cached = match state.cached {
            0 => String::new(),
            cached => format!(", {cached} cached"),
        };
        let (done, all, running) = (state.done, self.experiments, state.running(now));
        self.bar
            .set_message(format!("{done} of {}{cached}  {running}", counted(all, "experiment")));
    }

    /// A line, where there is no bar.
    fn say(&self, now: Now, text: impl FnOnce(&State) -> String) {
        if !self.has_terminal {
            self.pulse.beat(now);
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            say!("[{}/{}] {}", state.done, self.experiments, text(&state));
        }
    }
}

/// How many frames it will send, as far as that is known: the length of a recording is a guess for the bar alone.
fn expected_frames(experiment: &Experiment) -> u64 {
    experiment.kind.frames_at_most(experiment.count)
}

impl Progress for Bar {
    fn proceed(&self, experiment: &Experiment, _: Nanos, sent: u64) -> bool {
        let now = clock::now();
        self.update(now, |state| {
            let sent = sent.min(expected_frames(experiment));
            let new = Running { sent, since: now };
            state.running.entry(experiment.name.clone()).or_insert(new).sent = sent;
        });
        if !self.has_terminal && self.pulse.is_due(now) {
            self.say(now, |state| format!("running {}", state.running(now)));
        }
        !is_interrupted()
    }

    fn note(&self, experiment: &Experiment, text: &str) {
        self.bar.suspend(|| say!("{}: {text}", experiment.name));
    }

    fn finished(&self, experiment: &Experiment, ended: &Ended) {
        let now = clock::now();
        self.update(now, |state| {
            state.running.remove(&experiment.name);
            state.finished += expected_frames(experiment);
            state.done += 1;
            state.cached +=
                usize::from(matches!(ended, Ended::Finished(finished) if finished.is_cached));
        });
        if experiment.testbed() != Testbed::Sim {
            self.say(now, |_| format!("{}: {}", experiment.name, in_short(ended)));
        }
    }
}

/// How an experiment ended, in a few words.
fn in_short(ended: &Ended) -> String {
    match ended {
        Ended::Failed(Error::Interrupted) => "interrupted".into(),
        Ended::Failed(_) => "failed".into(),
        Ended::Differs(_) => "two runs differ".into(),
        Ended::Finished(finished) => {
            let result = &finished.result;
            let p50 = result.main_metric().map_or(String::new(), |figures| {
                format!(", p50 {}", duration(figures.p50_ns as f64))
            });
            let cached = if finished.is_cached { ", cached" } else { "" };
            format!(
                "{} sent, {} lost{p50}{cached}",
                thousands(result.counts.sent),
                thousands(result.counts.lost)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_sign_of_life_comes_after_ten_quiet_seconds_and_not_before() {
        let pulse = Pulse { said: Mutex::new(at(100)) };
        let due = |seconds: &[u64]| -> Vec<bool> {
            seconds.iter().map(|&seconds| pulse.is_due(at(seconds))).collect()
        };
        assert_eq!(due(&[100, 109, 110, 110, 119, 120]), [false, false, true, false, false, true]);
        // Whatever else is said counts too.
        pulse.beat(at(129));
        assert_eq!(due(&[130, 138, 139]), [false, false, true]);
    }

    #[test]
    fn what_runs_is_named_longest_first() {
        let mut state = State::default();
        assert_eq!(state.running(at(7)), "");
        for (name, since) in [("a", 5), ("b", 1), ("c", 3)] {
            state.running.insert(name.into(), Running { sent: 0, since: at(since) });
        }
        assert_eq!(state.running(at(26)), "b for 25 s, c for 23 s and 1 more");
        state.running.remove("c");
        assert_eq!(state.running(at(26)), "b for 25 s, a for 21 s");
    }
}
