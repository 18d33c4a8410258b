//! Machines of `candor-vm` as this testbed wants them.

use std::path::Path;

use candor_protocol::{Order, Report};
use candor_time::Nanos;
use candor_vm::{Cache, Kernel, Qemu, Setup, Spec, Speed, kernel};

use super::{Machine, Machines, Store, Supply};
use crate::error::Error;
use crate::experiment::{KernelChoice, MachineChoice};
use crate::result;
use crate::runner::Watch;

/// QEMU and the kernels that are here.
pub struct Emulator {
    cache: Cache,
    qemu: Qemu,
    init: &'static [u8],
}

impl Emulator {
    /// What is on this computer. `init` is the program of the guests. With `keeps`, reports are kept
    /// in the cache and used again.
    ///
    /// # Errors
    /// There is no QEMU, or no place for a cache.
    pub fn machines(init: &'static [u8], keeps: bool) -> Result<Machines, Error> {
        let cache = Cache::open(None).map_err(Error::from)?;
        let store = keeps.then(|| Store::new(cache.reports()));
        let qemu = Qemu::find().map_err(Error::from)?;
        Ok(Machines::new(Box::new(Self { cache, qemu, init }), store))
    }

    fn kernel(&self, choice: &MachineChoice) -> Result<Kernel, Error> {
        let spec = match &choice.kernel {
            KernelChoice::Named(name) => {
                name.parse().map_err(|reason| Error::Other(format!("kernel {name}: {reason}")))?
            }
            KernelChoice::Files { image, modules } => {
                Spec::Files { image: image.clone(), modules: modules.clone() }
            }
        };
        Ok(kernel::find(&self.cache, &spec)?)
    }
}

impl Supply for Emulator {
    fn machine(&self, choice: &MachineChoice) -> Result<Box<dyn Machine>, Error> {
        let speed = Speed::from_mips(choice.mips).map_err(Error::Other)?;
        let kernel = self.kernel(choice)?;
        let MachineChoice { parameters, tester, boot, .. } = choice;
        let setup = Setup { speed, parameters, tester: *tester, boot: *boot };
        let (cache, qemu, init) = (&self.cache, &self.qemu, self.init);
        let machine = candor_vm::Machine::new(cache, qemu, &kernel, init, setup)?;
        Ok(Box::new(machine))
    }

    fn driver(&self, choice: &MachineChoice, sources: &Path) -> Result<Vec<u8>, Error> {
        Ok(kernel::driver::build(&self.cache, &self.kernel(choice)?, sources, "candor_can")?)
    }
}

/// Passes the wish to stop on.
struct Watching<'a>(&'a dyn Watch);

impl candor_vm::Watch for Watching<'_> {
    fn proceed(&self) -> bool {
        self.0.proceed(Nanos::ZERO, 0)
    }

    fn note(&self, text: &str) {
        self.0.note(text);
    }
}

impl Machine for candor_vm::Machine {
    fn describe(&self) -> result::Machine {
        self.identity().clone()
    }

    fn hash(&self) -> &str {
        self.hash()
    }

    fn ready(&self, watch: &dyn Watch) -> Result<(), Error> {
        Ok(self.ready(&Watching(watch))?)
    }

    fn run(&self, order: &Order, watch: &dyn Watch) -> Result<Report, Error> {
        Ok(self.run(order, &Watching(watch))?)
    }

    fn profile(
        &self,
        order: &Order,
        watch: &dyn Watch,
    ) -> Result<(Report, candor_vm::Profile), Error> {
        Ok(self.profile(order, &Watching(watch))?)
    }
}

impl From<candor_vm::Error> for Error {
    fn from(error: candor_vm::Error) -> Self {
        match error {
            candor_vm::Error::Interrupted => Self::Interrupted,
            error => Self::Other(error.to_string()),
        }
    }
}
