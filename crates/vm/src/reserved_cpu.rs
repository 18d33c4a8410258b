//! One processor of this machine, reserved for all threads of one QEMU.
//!
//! QEMU has a thread for the guest's processor and a main thread. When the guest idles, the main
//! thread skips its time to the next timer. If it does so in the very moment between the last
//! instruction before an idle time and the accounting of that instruction, the skip is some hundred
//! instructions too long, and a run differs from the others. Two threads on one processor of ours
//! cannot do that at the same time, and the main thread waits until the other one gives way.
//!
//! That it waits takes two real-time priorities. Without the right to them, beside other work, one run
//! in a hundred or so is still taken in the wrong moment. Each of them has a time of its own, so what
//! two runs agree about is right: see [`agreed`].

use std::collections::BTreeMap;
use std::sync::Mutex;

use candor_linux::Errno;
use candor_linux::realtime::{self, Policy, Task};

use crate::error::Error;

/// How the thread of the guest's processor is scheduled.
const GUEST: Policy = Policy::Fifo(2);

/// How the other threads of QEMU are scheduled: below the first, and in the class of the first. Linux
/// takes a share of the time from that class as a whole, for ordinary threads (`sched(7)`,
/// `sched_rt_runtime_us`). An ordinary main thread would get it while the guest's processor could
/// run.
const REST: Policy = Policy::Fifo(1);

/// So often an order is performed at most until two runs agree.
const MOST_RUNS: usize = 10;

/// How many of our guests run on each processor.
static GUESTS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A processor that is used until this is dropped.
#[derive(Debug)]
pub(crate) struct ReservedCpu {
    cpu: usize,
}

impl ReservedCpu {
    /// Takes the processor with the fewest guests, of those that this process may use.
    pub(crate) fn take() -> Result<Self, Error> {
        let cpus =
            realtime::affinity(Task::This).map_err(|error| Error::Other(error.to_string()))?;
        let mut guests = GUESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count_on = |cpu: &usize| guests.get(cpu).copied().unwrap_or(0);
        // Among equals, processes of ours that run side by side begin with different ones.
        let start = std::process::id() as usize;
        let count = cpus.len().max(1);
        let turn = |&(index, _): &(usize, &usize)| (index + count - start % count) % count;
        let best = cpus.iter().enumerate().min_by_key(|it| (count_on(it.1), turn(it)));
        let cpu = best.map_or(0, |(_, &cpu)| cpu);
        *guests.entry(cpu).or_insert(0) += 1;
        Ok(Self { cpu })
    }

    /// Puts all threads of `process` there; `processor` is the one that runs the guest. Returns
    /// whether no other thread of it can run while that one could.
    pub(crate) fn pin(&self, process: u32, processor: u32) -> Result<bool, Error> {
        let is_first = realtime::set_policy(Task::Id(processor), GUEST).is_ok();
        let policy = if is_first { REST } else { Policy::Batch };
        for thread in realtime::threads_of(process).map_err(fail)? {
            let task = Task::Id(thread.id);
            let is_there = if_there(realtime::set_affinity(task, &[self.cpu]))?;
            if is_there && thread.id != processor {
                if_there(realtime::set_policy(task, policy))?;
            }
        }
        Ok(is_first)
    }
}

fn fail(error: candor_linux::Error) -> Error {
    Error::Other(error.to_string())
}

/// Whether a thread was still there: QEMU ends threads of its own whenever it likes.
fn if_there(outcome: Result<(), candor_linux::Error>) -> Result<bool, Error> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.errno().and_then(Errno::name) == Some("ESRCH") => Ok(false),
        Err(error) => Err(fail(error)),
    }
}

/// What `run` returns if it says that nothing could disturb it, or else what two runs agree about.
pub(crate) fn agreed<T: PartialEq>(
    mut run: impl FnMut() -> Result<(T, bool), Error>,
) -> Result<T, Error> {
    let mut before = Vec::new();
    for _ in 0..MOST_RUNS {
        let (outcome, is_undisturbed) = run()?;
        if is_undisturbed || before.contains(&outcome) {
            return Ok(outcome);
        }
        before.push(outcome);
    }
    Err(Error::Other(format!(
        "no two of {MOST_RUNS} runs took the same time; stop other work on this machine, send \
         fewer frames, or allow real-time priorities (`ulimit -r 2`, or the capability SYS_NICE \
         of a container)"
    )))
}

impl Drop for ReservedCpu {
    fn drop(&mut self) {
        let mut guests = GUESTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(count) = guests.get_mut(&self.cpu) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Held by tests that count reserved processors, and by those that take some beside them.
    pub(crate) static CPUS: Mutex<()> = Mutex::new(());

    #[test]
    fn guests_spread_over_the_processors_and_stay_there() {
        let _alone = CPUS.lock();
        let cpus = realtime::affinity(Task::This).unwrap();
        let reserved: Vec<_> = cpus.iter().map(|_| ReservedCpu::take().unwrap()).collect();
        let mut taken: Vec<_> = reserved.iter().map(|it| it.cpu).collect();
        taken.sort_unstable();
        assert_eq!(taken, cpus);
        let shared = ReservedCpu::take().unwrap();
        assert!(cpus.contains(&shared.cpu));

        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!shared.pin(child.id(), 0).unwrap(), "no thread was said to run a guest");
        let task = Task::Id(child.id());
        assert_eq!(realtime::affinity(task).unwrap(), [shared.cpu]);
        assert_eq!(realtime::policy(task).unwrap(), Policy::Batch);
        // Another program stands for the thread of the guest's processor.
        let guest = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_first = shared.pin(child.id(), guest.id()).unwrap();
        let policy_of = |id| realtime::policy(Task::Id(id)).unwrap();
        let expected = if is_first { (GUEST, REST) } else { (Policy::Other, Policy::Batch) };
        assert_eq!((policy_of(guest.id()), policy_of(child.id())), expected);
        let allowed = std::thread::spawn(|| realtime::set_policy(Task::This, GUEST).is_ok());
        assert_eq!(is_first, allowed.join().unwrap());
        for mut child in [child, guest] {
            child.kill().unwrap();
            child.wait().unwrap();
        }

        drop((reserved, shared));
        assert!(GUESTS.lock().unwrap().values().all(|&guests| guests == 0));
    }

    #[test]
    fn a_thread_that_has_just_ended_is_left_out() {
        // Of this process, whose threads are numbered as others are.
        let ended = std::thread::spawn(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            link.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()
        });
        let ended = ended.join().unwrap();
        while std::path::Path::new(&format!("/proc/self/task/{ended}")).exists() {
            std::thread::yield_now();
        }
        let cpus = realtime::affinity(Task::This).unwrap();
        for outcome in [
            realtime::set_affinity(Task::Id(ended), &cpus),
            realtime::set_policy(Task::Id(ended), Policy::Batch),
        ] {
            assert!(outcome.is_err());
            assert!(!if_there(outcome).unwrap());
        }
        assert!(if_there(Ok(())).unwrap());
        let refused = realtime::set_affinity(Task::This, &[]);
        assert!(if_there(refused).unwrap_err().to_string().contains("none of these CPUs"));
    }

    #[test]
    fn a_run_that_may_be_disturbed_needs_another_that_agrees() {
        let outcome = |runs: &[(u32, bool)]| {
            let mut rest = runs.iter();
            let outcome = agreed(|| rest.next().copied().ok_or(Error::Interrupted));
            (outcome.map_err(|error| error.to_string()), rest.len())
        };
        assert_eq!(outcome(&[(7, true), (8, false)]), (Ok(7), 1));
        assert_eq!(outcome(&[(7, false), (7, false), (8, false)]), (Ok(7), 1));
        assert_eq!(outcome(&[(6, false), (7, false), (8, false), (7, false)]), (Ok(7), 0));
        assert_eq!(outcome(&[(7, false)]), (Err("interrupted".into()), 0));
        let different: Vec<_> = (0..20).map(|number| (number, false)).collect();
        let (outcome, left) = outcome(&different);
        assert_eq!(left, 10);
        let reason = outcome.unwrap_err();
        assert!(reason.contains("no two of 10 runs") && reason.contains("ulimit -r 2"), "{reason}");
    }
}
