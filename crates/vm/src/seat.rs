//! A seat: one processor of this machine for all threads of one QEMU.
//!
//! QEMU has a thread for the guest's processor and a main thread. When the guest idles, the main
//! thread skips its time to the next timer. If it does so in the very moment between the last
//! instruction before an idle time and the accounting of that instruction, the skip is some hundred
//! instructions too long, and a run differs from the others. Two threads on one processor of ours
//! cannot do that at the same time, and the main thread waits until the other one gives way.

use std::collections::BTreeMap;
use std::sync::Mutex;

use candor_linux::realtime::{self, Policy, Task};

use crate::error::Error;

/// How many of our guests sit on each processor.
static SEATED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A processor that is used until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    cpu: usize,
}

impl Seat {
    /// Takes the processor with the fewest guests, of those that this process may use.
    pub(crate) fn take() -> Result<Self, Error> {
        let cpus =
            realtime::affinity(Task::This).map_err(|error| Error::Other(error.to_string()))?;
        let mut seated = SEATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let guests = |cpu: &usize| seated.get(cpu).copied().unwrap_or(0);
        // Among equals, processes of ours that run side by side begin with different ones.
        let start = std::process::id() as usize;
        let count = cpus.len().max(1);
        let turn = |&(index, _): &(usize, &usize)| (index + count - start % count) % count;
        let best = cpus.iter().enumerate().min_by_key(|seat| (guests(seat.1), turn(seat)));
        let cpu = best.map_or(0, |(_, &cpu)| cpu);
        *seated.entry(cpu).or_insert(0) += 1;
        Ok(Self { cpu })
    }

    /// Puts all threads of `process` there; `processor` is the one that runs the guest.
    pub(crate) fn seat(&self, process: u32, processor: u32) -> Result<(), Error> {
        let fail = |error: candor_linux::Error| Error::Other(error.to_string());
        for thread in realtime::threads_of(process).map_err(fail)? {
            let task = Task::Id(thread.id);
            realtime::set_affinity(task, &[self.cpu]).map_err(fail)?;
            if thread.id == processor {
                // Where that is not allowed, fair turns are long enough nearly always.
                let _ = realtime::set_policy(task, Policy::Fifo(1));
            } else {
                realtime::set_policy(task, Policy::Batch).map_err(fail)?;
            }
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seated = SEATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(guests) = seated.get_mut(&self.cpu) {
            *guests = guests.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_spread_over_the_processors_and_stay_there() {
        let cpus = realtime::affinity(Task::This).unwrap();
        let seats: Vec<_> = cpus.iter().map(|_| Seat::take().unwrap()).collect();
        let mut taken: Vec<_> = seats.iter().map(|seat| seat.cpu).collect();
        taken.sort_unstable();
        assert_eq!(taken, cpus);
        let shared = Seat::take().unwrap();
        assert!(cpus.contains(&shared.cpu));

        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        shared.seat(child.id(), 0).unwrap();
        let task = Task::Id(child.id());
        assert_eq!(realtime::affinity(task).unwrap(), [shared.cpu]);
        assert_eq!(realtime::policy(task).unwrap(), Policy::Batch);
        child.kill().unwrap();
        child.wait().unwrap();

        drop((seats, shared));
        assert!(SEATED.lock().unwrap().values().all(|&guests| guests == 0));
    }
}
