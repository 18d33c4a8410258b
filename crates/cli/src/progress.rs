//! Progress of long work, on standard error and only on a terminal; and Ctrl-C.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_lab::experiment::{Testbed, Traffic};
use candor_lab::run::{Ended, Progress};
use candor_lab::{Error, Experiment};
use candor_lat::Metric;
use candor_time::Nanos;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{duration, thousands};

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

/// A bar over all frames of a campaign, with the time left. Where there is no terminal, a line per
/// experiment on a machine, because those take a while.
pub(crate) struct Bar {
    bar: ProgressBar,
    has_terminal: bool,
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
    /// How many of them were known already.
    cached: usize,
}

impl Bar {
    pub(crate) fn new(experiments: &[Experiment]) -> Self {
        let total = experiments.iter().map(expected_frames).sum();
        let has_terminal = std::io::stderr().is_terminal();
        let bar = if has_terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let style = "{bar:30} {percent:>3} %  {msg}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, has_terminal, experiments: experiments.len(), state: Mutex::default() }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        if let Ok(mut state) = self.state.lock() {
            change(&mut state);
            self.bar.set_position(state.running.values().sum::<u64>() + state.finished);
            let cached = match state.cached {
                0 => String::new(),
                cached => format!(", {cached} cached"),
            };
            let (done, all) = (state.done, self.experiments);
            self.bar.set_message(format!("{done} of {all} experiments{cached}"));
        }
    }

    /// How many are finished, and which was the last of them.
    fn tell(&self, experiment: &Experiment, ended: &Ended) {
        let done = self.state.lock().map_or(0, |state| state.done);
        eprintln!("[{done}/{}] {}: {}", self.experiments, experiment.name, in_short(ended));
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

    fn note(&self, experiment: &Experiment, text: &str) {
        self.bar.suspend(|| eprintln!("{}: {text}", experiment.name));
    }

    fn finished(&self, experiment: &Experiment, ended: &Ended) {
        self.update(|state| {
            state.running.remove(&experiment.name);
            state.finished += expected_frames(experiment);
            state.done += 1;
            state.cached +=
                usize::from(matches!(ended, Ended::Finished(finished) if finished.is_cached));
        });
        if !self.has_terminal && experiment.world.testbed() == Testbed::Vm {
            self.tell(experiment, ended);
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
            let p50 = result.metric(Metric::GatewayLatency).map_or(String::new(), |figures| {
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
