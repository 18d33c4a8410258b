//! Progress of long work, on standard error and only on a terminal; and Ctrl-C.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_lab::experiment::Traffic;
use candor_lab::result::ResultFile;
use candor_lab::run::Progress;
use candor_lab::{Error, Experiment};
use candor_time::Nanos;
use indicatif::{ProgressBar, ProgressStyle};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C end the work in order; a second one ends the program.
pub(crate) fn catch_interrupt() {
    // Where no handler can be set, Ctrl-C simply ends the program.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\ninterrupted: keeping what is finished (press again to leave at once)");
    });
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A bar over all frames of a campaign, with the time left.
pub(crate) struct Bar {
    bar: ProgressBar,
    experiments: usize,
    state: Mutex<State>,
}

/// How far a campaign is.
#[derive(Default)]
struct State {
    /// Frames sent so far by each experiment that runs.
    running: BTreeMap<String, u64>,
    /// Frames that the finished ones were expected to send.
    finished: u64,
    /// How many are finished.
    done: usize,
}

impl Bar {
    pub(crate) fn new(experiments: &[Experiment]) -> Self {
        let total = experiments.iter().map(expected_frames).sum();
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(total)
        } else {
            ProgressBar::hidden()
        };
        let style = "{bar:30} {percent:>3} %  {msg}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, experiments: experiments.len(), state: Mutex::default() }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        if let Ok(mut state) = self.state.lock() {
            change(&mut state);
            self.bar.set_position(state.running.values().sum::<u64>() + state.finished);
            self.bar.set_message(format!("{} of {} experiments", state.done, self.experiments));
        }
    }
}

/// How many frames it will send, as far as that is known.
fn expected_frames(experiment: &Experiment) -> u64 {
    match experiment.traffic {
        // The length of a recording is not known before its end: a guess for the bar alone.
        Traffic::Replay { .. } => experiment.count.min(50_000),
        Traffic::Numbered { .. } | Traffic::Periodic { .. } => experiment.count,
    }
}

impl Progress for Bar {
    fn proceed(&self, experiment: &Experiment, _now: Nanos, sent: u64) -> bool {
        self.update(|state| {
            state.running.insert(experiment.name.clone(), sent.min(expected_frames(experiment)));
        });
        !is_interrupted()
    }

    fn finished(&self, experiment: &Experiment, _result: &Result<ResultFile, Error>) {
        self.update(|state| {
            state.running.remove(&experiment.name);
            state.finished += expected_frames(experiment);
            state.done += 1;
        });
    }
}
