//! The `vm` testbed: an experiment on a real kernel in QEMU.
//!
//! ```text
//!  Experiment -- order --> Order --+--> kept? -- store ----------------> Report -- evaluate --> ResultFile
//!                                  \--> Machine: restored, run -> kept --^                  \-> CSV
//! ```
//!
//! A machine is made ready once, whatever number of jobs wants it. What a machine makes of an order
//! is the same every time, so a report is kept under the hash of both, and not made again.

mod profile;
mod qemu;
pub(crate) mod report;
mod store;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candor_protocol::order::File;
use candor_protocol::{Order, Report, meeting};

pub use self::qemu::Emulator;
pub use self::store::{Found, Store};
use crate::error::Error;
use crate::experiment::{Driver, Experiment, InGuest, MachineChoice, Run, Testbed, Vm};
use crate::result;
use crate::runner::{Ran, Runner, Watch, elsewhere};

/// A machine that performs orders.
pub trait Machine: Send + Sync {
    fn describe(&self) -> result::Machine;
    /// A hash over everything that can influence what it makes of an order.
    fn hash(&self) -> &str;
    /// Boots it and saves that state, unless that is done.
    ///
    /// # Errors
    /// It does not come up.
    fn ready(&self, watch: &dyn Watch) -> Result<(), Error>;
    /// Performs an order, from the saved state.
    ///
    /// # Errors
    /// The guest died or refused.
    fn run(&self, order: &Order, watch: &dyn Watch) -> Result<Report, Error>;
    /// The same, counting instructions.
    ///
    /// # Errors
    /// As [`Machine::run`]; or it cannot count.
    fn profile(
        &self,
        order: &Order,
        watch: &dyn Watch,
    ) -> Result<(Report, candor_vm::Profile), Error>;
}

/// Where machines come from.
pub trait Supply: Sync {
    /// Puts a machine together; nothing is booted yet.
    ///
    /// # Errors
    /// Something for it is missing.
    fn machine(&self, choice: &MachineChoice) -> Result<Box<dyn Machine>, Error>;
    /// The module `candor_can`, built for the kernel of a machine from the sources in a folder.
    ///
    /// # Errors
    /// Something for it is missing, or it does not compile.
    fn driver(&self, choice: &MachineChoice, sources: &Path) -> Result<Vec<u8>, Error>;
}

/// A machine and whether it is ready.
struct Slot {
    machine: Box<dyn Machine>,
    state: Mutex<State>,
}

#[derive(Clone)]
enum State {
    Off,
    Ready,
    /// It did not come up; whoever wants it next gets the same error.
    Broken(String),
}

/// The testbed `vm`.
pub struct Machines {
    supply: Box<dyn Supply + Send>,
    store: Option<Store>,
    slots: Mutex<BTreeMap<MachineChoice, Arc<Slot>>>,
}

impl Machines {
    /// Machines from `supply`; reports are kept in `store`.
    #[must_use]
    pub fn new(supply: Box<dyn Supply + Send>, store: Option<Store>) -> Self {
        Self { supply, store, slots: Mutex::default() }
    }

    fn slot(&self, choice: &MachineChoice) -> Result<Arc<Slot>, Error> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(choice) {
            return Ok(Arc::clone(slot));
        }
        let machine = self.supply.machine(choice)?;
        let slot = Arc::new(Slot { machine, state: Mutex::new(State::Off) });
        slots.insert(choice.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    /// What a guest is to do.
    fn order(&self, experiment: &Experiment) -> Result<Order, Error> {
        let (guest, vm) = guest(experiment)?;
        let mut measurement = guest.order(experiment, vm)?;
        measurement.files.extend(self.driver(vm)?);
        Ok(Order::Measure(Box::new(measurement)))
    }

    /// The driver that the kernel does not have.
    fn driver(&self, settings: &Vm) -> Result<Option<File>, Error> {
        let Driver::CandorCan { sources, .. } = &settings.driver else { return Ok(None) };
        let contents = self.supply.driver(&settings.machine, sources)?;
        Ok(Some(File { path: meeting::DRIVER.into(), is_executable: false, contents }))
    }

    /// The report on an order, and whether it is from an earlier run.
    fn report(
        &self,
        slot: &Slot,
        order: &Order,
        is_fresh: bool,
        watch: &dyn Watch,
    ) -> Result<(Report, bool), Error> {
        let key = store::key(slot.machine.hash(), order);
        if let (Some(store), false) = (&self.store, is_fresh)
            && let Found::Report(report) = store.find(&key)
        {
            return Ok((*report, true));
        }
        slot.ready(watch)?;
        let report = slot.machine.run(order, watch)?;
        if let Some(store) = &self.store {
            store.keep(&key, &slot.machine.describe(), &report)?;
        }
        Ok((report, false))
    }
}

impl Slot {
    /// One boots, the others wait for it.
    fn ready(&self, watch: &dyn Watch) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Ready => return Ok(()),
            State::Broken(reason) => return Err(Error::Other(reason.clone())),
            State::Off => {}
        }
        let readied = self.machine.ready(watch);
        match &readied {
            Ok(()) => *state = State::Ready,
            Err(Error::Interrupted) => {}
            Err(error) => *state = State::Broken(error.to_string()),
        }
        readied
    }
}

impl Runner for Machines {
    fn prepare(&self, experiments: &[&Experiment]) -> Result<(), Error> {
        for experiment in experiments {
            let (_, settings) = guest(experiment)?;
            self.slot(&settings.machine)?;
            self.driver(settings)?;
        }
        Ok(())
    }

    fn run(&self, run: Run<'_>, is_fresh: bool) -> Result<Ran, Error> {
        let experiment = run.experiment;
        let (guest, vm) = guest(experiment)?;
        let slot = self.slot(&vm.machine)?;
        let order = self.order(experiment)?;
        let (report, is_cached) = self.report(&slot, &order, is_fresh, run.watch)?;
        let machine = slot.machine.describe();
        let result = guest.evaluate(run, (vm, machine), &report)?;
        Ok(Ran { result, is_cached })
    }
}

fn guest(experiment: &Experiment) -> Result<(&dyn InGuest, &Vm), Error> {
    experiment.kind.in_guest().ok_or_else(|| elsewhere(experiment, Testbed::Vm))
}
