//! [`Experiment`]: one experiment, ready to run. Plain data; [`campaign`](crate::campaign) reads it from
//! a file.

use std::any::Any;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_config::quoted;
use candor_lat::TapPath;
use candor_lat::result::{InputFile, ResultFile};
use candor_protocol::Report;
use candor_protocol::order::{self, Controller, File, Measurement, Settings};
use candor_vm::{Boot, Identity};

use crate::buses::BusFaults;
use crate::error::Error;
use crate::watch::{Unwatched, Watch};

/// One experiment, ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name, unique in its campaign and fit for a file.
    pub name: String,
    /// The name in the file of experiments: the runs with several seeds share it.
    pub group: String,
    /// What it is about; empty if the file does not say.
    pub title: String,
    /// Its place in the matrix.
    pub axes: Vec<(String, String)>,
    /// Everything that was set, as TOML.
    pub config: String,
    pub seed: u64,
    /// Frames to send at most.
    pub count: u64,
    /// World and conditions, for people, as far as they are known before it runs.
    pub conditions: String,
    /// Files that were read.
    pub inputs: Vec<InputFile>,
    /// Whether a line per frame is written.
    pub per_frame: bool,
    /// What is examined.
    pub kind: Arc<dyn Kind>,
}

impl Experiment {
    /// The taps that its frames pass.
    #[must_use]
    pub fn path(&self) -> &'static TapPath {
        self.kind.path()
    }

    /// The testbed that it runs in.
    #[must_use]
    pub fn testbed(&self) -> Testbed {
        self.kind.testbed()
    }

    /// Its settings, if it is of that kind.
    #[must_use]
    pub fn of<K: Kind>(&self) -> Option<&K> {
        let kind: &dyn Any = &*self.kind;
        kind.downcast_ref()
    }

    /// The virtual machine with its settings, if it runs on one.
    #[must_use]
    pub fn vm(&self) -> Option<&Vm> {
        self.kind.in_guest().map(|(_, vm)| vm)
    }
}

/// What an experiment examines: one of a kind, with its settings. A kind says here what testbeds need of it, and in
/// [`KINDS`](crate::kinds::KINDS) how it is read and shown.
pub trait Kind: Any + fmt::Debug + Send + Sync {
    /// The taps that its frames pass.
    fn path(&self) -> &'static TapPath;

    /// The testbed that it runs in.
    fn testbed(&self) -> Testbed;

    /// How many frames it sends at most, if the file says so many; that of a recording is guessed by its size.
    fn frames_at_most(&self, count: u64) -> u64 {
        count
    }

    /// Runs it in virtual time; `None` if it cannot.
    fn simulate<'a>(&'a self, run: Run<'a>) -> Option<Result<ResultFile, Error>> {
        let _ = run;
        None
    }

    /// Runs it with processes and threads of this machine; `program` is one whose command `lab worker` is
    /// [`work`](crate::kinds::work). `None` if it cannot.
    fn on_host<'a>(&'a self, run: Run<'a>, program: &Path) -> Option<Result<ResultFile, Error>> {
        let _ = (run, program);
        None
    }

    /// What a virtual machine needs of it, and the machine with its settings; `None` if it does not run in one.
    fn in_guest(&self) -> Option<(&dyn InGuest, &Vm)> {
        None
    }
}

/// What runs in a virtual machine.
pub trait InGuest {
    /// What the guest is to do.
    ///
    /// # Errors
    /// A guest cannot do it.
    fn order(&self, experiment: &Experiment, vm: &Vm) -> Result<Measurement, Error>;

    /// The result in what the guest reports; the bed is the machine with its settings, and what it turned out to be.
    ///
    /// # Errors
    /// The report is of no use, or lines cannot be written.
    fn evaluate(
        &self,
        run: Run<'_>,
        bed: (&Vm, Identity),
        report: &Report,
    ) -> Result<ResultFile, Error>;
}

/// An experiment that is being run.
pub struct Run<'a> {
    pub experiment: &'a Experiment,
    /// The command that runs it again, for its result.
    pub command: String,
    /// Takes a line of CSV per frame, if lines are wanted.
    pub lines: Option<&'a mut dyn Write>,
    /// Who looks on.
    pub watch: &'a dyn Watch,
}

impl<'a> Run<'a> {
    /// One that tells nobody, with no command in its result and without lines.
    #[must_use]
    pub fn unwatched(experiment: &'a Experiment) -> Self {
        Self { experiment, command: String::new(), lines: None, watch: &Unwatched }
    }
}

/// The worlds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Testbed {
    /// Simulation.
    Sim,
    /// Virtual machines.
    Vm,
    /// Processes of this machine.
    Host,
}

impl Testbed {
    pub const ALL: [Self; 3] = [Self::Sim, Self::Vm, Self::Host];

    /// The name in files and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Vm => "vm",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What else a host has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) cpu: bool,
    pub(crate) ethernet: bool,
}

impl Load {
    pub(crate) const fn describe(self) -> &'static str {
        match (self.cpu, self.ethernet) {
            (false, false) => "no load",
            (true, false) => "CPU load",
            (false, true) => "Ethernet load",
            (true, true) => "CPU and Ethernet load",
        }
    }
}

/// The settings of an experiment on a virtual machine.
#[derive(Clone, Debug)]
pub struct Vm {
    pub machine: MachineChoice,
    /// What can go wrong, for each bus; nothing does with a tester inside.
    pub faults: Vec<BusFaults>,
    /// The controllers on the two buses.
    pub controller: Controller,
    /// What drives those of the gateway.
    pub driver: Driver,
    /// What passes frames on.
    pub gateway: order::Gateway,
    /// What else the machine has to do.
    pub load: order::Load,
    pub settings: Settings,
    /// Files for the guest.
    pub files: Vec<File>,
    /// What is sent before the frames that count.
    pub warm_up: Option<order::WarmUp>,
    /// Gateway and load, for people.
    pub(crate) description: String,
}

/// What drives the controllers of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The drivers of the kernel, with network interfaces.
    #[default]
    Kernel,
    /// `candor_can`, with character devices.
    CandorCan {
        /// Where it reads a controller.
        handler: order::Handler,
        /// The folder with its sources; it is built for each kernel.
        sources: PathBuf,
    },
}

impl Driver {
    #[must_use]
    pub const fn of_order(&self) -> order::Driver {
        match self {
            Self::Kernel => order::Driver::Kernel,
            Self::CandorCan { handler, .. } => order::Driver::CandorCan(*handler),
        }
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Kernel => "SocketCAN".into(),
            Self::CandorCan { handler, .. } => format!("candor_can, handler {}", handler.name()),
        }
    }
}

/// Which machine an experiment wants. Equal ones are booted once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineChoice {
    pub kernel: KernelChoice,
    /// Million instructions per second.
    pub mips: u32,
    /// What is added to the kernel's command line.
    pub parameters: String,
    pub tester: order::Tester,
    pub boot: Boot,
}

impl fmt::Display for MachineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}, {} MIPS", self.kernel, self.mips)?;
        if !self.parameters.is_empty() {
            write!(f, ", {}", self.parameters)?;
        }
        match self.tester {
            order::Tester::Inside => write!(f, ", tester inside")?,
            order::Tester::Outside => {}
            order::Tester::Master => write!(f, ", round trips")?,
        }
        if self.boot != Boot::FIRST {
            write!(f, ", boot {}", self.boot)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelChoice {
    /// One of Debian's: `6.12`, `6.12-rt`, `debian:VERSION`.
    Named(String),
    /// One's own.
    Files { image: PathBuf, modules: PathBuf },
}

impl KernelChoice {
    /// As files name it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let path = |path: &Path| quoted(&path.display().to_string());
        match self {
            Self::Named(name) => quoted(name),
            Self::Files { image, modules } => {
                format!("{{ image = {}, modules = {} }}", path(image), path(modules))
            }
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Files { image, .. } => write!(f, "{}", image.display()),
        }
    }
}
