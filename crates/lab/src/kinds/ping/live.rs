//! Round trips on this machine: a master and a slave, each a thread with a port of its own, on one bus of the driver `sim:`, which
//! takes its time to the bit.
//!
//! ```text
//!  master (thread) -- sim:lab-... == hub (thread) == sim:lab-... -- slave (thread)
//! ```

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use candor_linux::clock;
use candor_linux::realtime::{self, Policy, Task};
use candor_ping::{Pair, run as programs};
use candor_port::{Receiver, Transmitter, Wanted};

use super::Ping;
use super::trips::{Halves, halves, measure};
use crate::error::Error;
use crate::experiment::Run;
use crate::machine::{HostMachine, NO_REAL_TIME, Stopping, Watched};
use crate::result::{ResultFile, row_of};
use crate::sections::HOST;

/// Runs one experiment.
pub(super) fn run(run: Run<'_>, (ping, priority): (&Ping, u8)) -> Result<ResultFile, Error> {
    let Run { experiment, watch, .. } = run;
    let pair = Pair::DEFAULT;
    // Nobody else is on this bus.
    let bus = RandomState::new().build_hasher().finish();
    let address = format!("sim:lab-{bus:016x}?bitrate={}", ping.bus.timing.nominal);
    let (mut receiver, mut transmitter) = open(&address)?;
    let (mut of_slave, mut to_master) = open(&address)?;
    let is_over = AtomicBool::new(false);
    let watched = Watched::begin();
    let (measured, is_real_time) = thread::scope(|scope| {
        // However the master ends, the slave ends.
        let _guard = Stopping(&is_over);
        let slave = scope.spawn(|| {
            settle(priority);
            let goes_on = &mut |_| !is_over.load(Ordering::Relaxed);
            programs::slave(&[pair], &mut *of_slave, &mut *to_master, &clock::now, goes_on)
        });
        let master = scope.spawn(|| {
            let is_real_time = settle(priority);
            let port: (&mut dyn Receiver, &mut dyn Transmitter) =
                (&mut *receiver, &mut *transmitter);
            let measured = measure(experiment, (ping, pair), port, &clock::now, watch);
            (measured, is_real_time)
        });
        let (measured, is_real_time) = master.join().map_err(|_| panicked())?;
        is_over.store(true, Ordering::Relaxed);
        let answered = slave.join().map_err(|_| panicked())?;
        let measured = measured?;
        answered.map_err(|error| Error::Other(format!("{}: {error}", experiment.name)))?;
        Ok::<_, Error>((measured, is_real_time))
    })?;
    let machine: HostMachine = watched.end();
    let mut result = measured.evaluate(run, ping)?;
    result.notes.extend(machine.doubt());
    if !is_real_time {
        result.notes.push(NO_REAL_TIME.to_owned());
    }
    result.sections = result.sections.with_one(&HOST, row_of(&machine));
    Ok(result)
}

fn panicked() -> Error {
    Error::Other("a thread that measures round trips panicked".into())
}

fn open(address: &str) -> Result<Halves, Error> {
    let failed = |reason: String| Error::Other(format!("{address}: {reason}"));
    let address = address.parse().map_err(|error| failed(format!("{error}")))?;
    let port = candor_drivers::open(&address, Wanted::BOTH);
    halves(port.map_err(|error| Error::Other(error.to_string()))?)
}

/// The calling thread takes its priority. False if that is not permitted.
fn settle(priority: u8) -> bool {
    let policy = if priority == 0 { Policy::Other } else { Policy::Fifo(priority) };
    realtime::set_policy(Task::This, policy).is_ok()
}
