//! What the machine was, and what it had to do besides.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// The machine that processes ran on: a row of [`HOST`](crate::sections::HOST).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct HostMachine {
    /// The model of its processors.
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    /// The release of its kernel.
    pub(crate) kernel: String,
    /// The source of its clock.
    pub(crate) clock: String,
    /// Time that the hypervisor gave to others, in percent of all processors.
    pub(crate) stolen_percent: f64,
    /// Time that all processes used, those of the experiment included, in percent of all processors.
    pub(crate) busy_percent: f64,
}

/// The machine is too busy to believe its figures when so much was taken from it.
const MUCH_STOLEN_PERCENT: f64 = 2.0;

impl HostMachine {
    /// What makes figures of this machine doubtful.
    pub(crate) fn doubt(&self) -> Option<String> {
        let Self { stolen_percent, .. } = self;
        (*stolen_percent > MUCH_STOLEN_PERCENT).then(|| {
            format!(
                "the hypervisor gave {stolen_percent} % of the processors to others; run it again on a quiet machine"
            )
        })
    }
}

/// What a result says whose threads could not get their priority.
pub(crate) const NO_REAL_TIME: &str =
    "the threads have no real-time priority; it needs root or CAP_SYS_NICE";

/// Ends all threads that look at it.
pub(crate) struct Stopping<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The machine while an experiment runs.
pub(crate) struct Watched(Ticks);

impl Watched {
    pub(crate) fn begin() -> Self {
        Self(Ticks::now())
    }

    pub(crate) fn end(self) -> HostMachine {
        let (before, after) = (self.0, Ticks::now());
        let total = after.total.saturating_sub(before.total).max(1) as f64;
        let percent = |before: u64, after: u64| {
            (after.saturating_sub(before) as f64 / total * 1_000.0).round() / 10.0
        };
        HostMachine {
            cpu: cpu().unwrap_or_else(|| "unknown".into()),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            kernel: line("/proc/sys/kernel/osrelease"),
            clock: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            stolen_percent: percent(before.stolen, after.stolen),
            busy_percent: percent(before.busy, after.busy),
        }
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

/// `model name : ...` of x86; other machines say less.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(name.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The first line of `/proc/stat`, proc_stat(5), in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    total: u64,
    busy: u64,
    stolen: u64,
}

impl Ticks {
    fn now() -> Self {
        fs::read_to_string("/proc/stat").map_or_else(|_| Self::default(), |text| Self::parse(&text))
    }

    /// `cpu user nice system idle iowait irq softirq steal guest guest_nice`; the last two are in the first two.
    fn parse(text: &str) -> Self {
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            first.split_ascii_whitespace().skip(1).filter_map(|it| it.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = ticks[..] else {
            return Self::default();
        };
        let busy = user + nice + system + irq + softirq;
        Self { total: busy + idle + iowait + stolen, busy, stolen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_busy_idle_or_stolen() {
        let text = "cpu  10 2 30 400 50 6 7 8 3 1\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(Ticks::parse(text), Ticks { total: 513, busy: 55, stolen: 8 });
        assert_eq!(Ticks::parse("cpu 1 2"), Ticks::default());
    }
}
