//! The machine that an experiment says: `[vm]`, and how much of a load.
//!
//! ```toml
//! [vm]
//! kernel               = "6.12"       # "6.12-rt", "debian:VERSION", { image = "...", modules = "..." }
//! mips                 = 500          # an instruction lasts 2 ns
//! parameters           = "threadirqs" # for the kernel's command line
//! boots                = 5            # the run with seed 1 starts from the first, that with seed 6 again
//! controller           = "sja1000"    # or "ctucanfd"
//! interrupt_priority   = 50           # of the interrupt threads of the gateway's controllers
//! napi_thread_priority = 50           # NAPI in threads
//! backlog_priority     = 50           # of the threads that pass on received frames
//! netdev_budget        = 300
//! driver               = "kernel"     # or "candor_can", the driver in the folder kernel/candor_can
//! handler              = "hard"       # where candor_can reads: "hard", "thread", "forced", "softirq"
//! driver_sources       = "kernel/candor_can"
//! tester               = "inside"     # or "outside", on buses that take their time
//! ```

use std::path::PathBuf;

use candor_config::{Data, Section, Value};
use candor_protocol::order::{
    self, Controller, Datagrams, EthernetLoad, Handler, Settings, Tester,
};
use candor_time::Nanos;
use candor_vm::{Boot, Spec, Speed};

use super::reader::Reader;
use crate::experiment::{Driver, KernelChoice, Load, MachineChoice};
use crate::locate::{locate, locate_above};

/// The kernel unless the file says otherwise.
const DEFAULT_KERNEL: &str = "6.12";
/// What findings about a kernel of the command line name as their place.
pub(crate) const KERNEL_OPTION: &str = "--kernel";

/// Boots of a machine, unless the file says otherwise: as many as `lab compare` needs on each side.
pub(crate) const BOOTS: u32 = 5;

/// Where a tester can be.
pub(crate) const TESTERS: [(&str, Tester); 2] =
    [("inside", Tester::Inside), ("outside", Tester::Outside)];

/// The folder with the sources of `candor_can`, below that of the file or of the shell.
const DRIVER_SOURCES: &str = "kernel/candor_can";

/// The speeds of links, in bit/s.
const LINKS: [(&str, u64); 3] = [("10M", 10_000_000), ("100M", 100_000_000), ("1G", 1_000_000_000)];

#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadSize {
    pub(crate) groups: u32,
    pub(crate) ethernet: EthernetLoad,
}

impl Default for LoadSize {
    /// As the papers.
    fn default() -> Self {
        Self { groups: 2, ethernet: EthernetLoad::ping(60_000) }
    }
}

impl LoadSize {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        // Without a period, as many as the link carries.
        let period_ns = section.nanos("period").map_or(0, Nanos::as_nanos);
        let kinds = [
            ("ping", Datagrams::Ping),
            ("echo", Datagrams::Echo { period_ns }),
            ("udp", Datagrams::Udp { period_ns }),
        ];
        let ethernet = EthernetLoad {
            datagrams: section.one_of("datagrams", &kinds).unwrap_or(default.ethernet.datagrams),
            // The longest datagram of IPv4 without its headers.
            data_bytes: section
                .integer("ping_bytes", 16..=65_507)
                .unwrap_or(default.ethernet.data_bytes),
            link_bits_per_second: section
                .one_of("link", &LINKS)
                .unwrap_or(default.ethernet.link_bits_per_second),
        };
        Self { groups: section.integer("groups", 1..=50).unwrap_or(default.groups), ethernet }
    }

    /// What a guest is told of a load of this size.
    pub(crate) fn order(self, load: Load) -> order::Load {
        order::Load {
            hackbench_groups: load.cpu.then_some(self.groups),
            ethernet: load.ethernet.then_some(self.ethernet),
        }
    }
}

/// What a file says about the machine, not yet needed.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) kernel: Option<KernelChoice>,
    pub(crate) mips: Option<u32>,
    pub(crate) parameters: Option<String>,
    pub(crate) boots: Option<u32>,
    pub(crate) controller: Option<Controller>,
    pub(crate) driver: Driver,
    pub(crate) interrupt_priority: Option<u8>,
    pub(crate) napi_thread_priority: Option<u8>,
    pub(crate) backlog_priority: Option<u8>,
    pub(crate) netdev_budget: Option<u32>,
    pub(crate) tester: Option<Tester>,
}

impl Said {
    /// The machine with a tester there, for a run with this seed; what the file does not say is as usual.
    pub(crate) fn choice(&self, tester: Tester, seed: u64) -> MachineChoice {
        let usual = || KernelChoice::Named(DEFAULT_KERNEL.into());
        MachineChoice {
            kernel: self.kernel.clone().unwrap_or_else(usual),
            mips: self.mips.unwrap_or(Speed::default().mips()),
            parameters: self.parameters.clone().unwrap_or_default(),
            tester,
            boot: Boot::of_seed(seed, self.boots.unwrap_or(BOOTS)),
        }
    }

    /// How the kernel is set up; what is said of a gateway is not in here.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            interrupt_priority: self.interrupt_priority,
            napi_thread_priority: self.napi_thread_priority,
            backlog_priority: self.backlog_priority,
            netdev_budget: self.netdev_budget,
            ..Settings::default()
        }
    }
}

/// World and conditions of a guest, for people, before it has run.
pub(crate) fn conditions(machine: &MachineChoice, description: &str) -> String {
    let speed = Speed::from_mips(machine.mips).unwrap_or_default();
    format!(
        "Linux {} in QEMU, {speed}: path lengths, not a forecast for a board; {description}",
        machine.kernel
    )
}

impl Reader<'_> {
    /// Reads `[vm]`.
    pub(crate) fn machine(&mut self, section: Option<Section<'_>>) -> Said {
        let Some(mut section) = section else { return Said::default() };
        let controllers = [("sja1000", Controller::Sja1000), ("ctucanfd", Controller::CtuCanFd)];
        let parameters = section.string("parameters").map(str::trim);
        if parameters.is_some_and(|text| text.contains(|c: char| c.is_control() || c == '"')) {
            let message = "`parameters` must be one line of words without quotes";
            self.findings.error(section.origin_of("parameters"), message);
        }
        let said = Said {
            kernel: section.value("kernel").and_then(|value| self.kernel(value)),
            mips: self.mips(&mut section),
            parameters: parameters.map(str::to_owned),
            boots: section.integer("boots", 1..=Boot::MOST),
            controller: section.one_of("controller", &controllers),
            driver: self.driver(&mut section),
            interrupt_priority: section.integer("interrupt_priority", 1..=99),
            napi_thread_priority: section.integer("napi_thread_priority", 0..=99),
            backlog_priority: section.integer("backlog_priority", 0..=99),
            netdev_budget: section.integer("netdev_budget", 1..=1_000_000),
            tester: section.one_of("tester", &TESTERS),
        };
        section.finish();
        said
    }

    fn driver(&mut self, section: &mut Section<'_>) -> Driver {
        let is_own = section.one_of("driver", &[("kernel", false), ("candor_can", true)]);
        let handler = section.one_of("handler", &Handler::ALL);
        let named = section.string("driver_sources");
        if is_own != Some(true) {
            if handler.is_some() || named.is_some() {
                let message = "`handler` and `driver_sources` are those of candor_can";
                let hint = "write driver = \"candor_can\", or remove them";
                self.findings.error_with_hint(section.origin(), message, hint);
            }
            return Driver::Kernel;
        }
        let sources = match named {
            Some(named) => locate(self.base, named),
            None => locate_above(self.base, DRIVER_SOURCES),
        };
        let named = named.unwrap_or(DRIVER_SOURCES);
        match candor_vm::kernel::driver::files(&sources) {
            Ok(files) => {
                for file in files.keys() {
                    self.input(&format!("{named}/{file}"), &sources.join(file));
                }
            }
            Err(error) => {
                let hint = "name the folder with driver_sources = \"...\"";
                let origin = section.origin_of("driver_sources");
                self.findings.error_with_hint(origin, error.to_string(), hint);
            }
        }
        Driver::CandorCan { handler: handler.unwrap_or(Handler::Hard), sources }
    }

    fn kernel(&self, value: &Value) -> Option<KernelChoice> {
        match &value.data {
            Data::String(name) => match name.parse::<Spec>() {
                Ok(_) => Some(KernelChoice::Named(name.clone())),
                Err(reason) => {
                    self.findings.error(&value.origin, format!("`kernel` is \"{name}\": {reason}"));
                    None
                }
            },
            Data::Table(table) => {
                let mut section = Section::new(table, self.findings);
                section.require(&["image", "modules"]);
                // On the command line a path is what it is for a shell.
                let is_typed = value.origin.source().name().starts_with(KERNEL_OPTION);
                let place = |path: &str| match is_typed {
                    true => PathBuf::from(path),
                    false => locate(self.base, path),
                };
                let mut file = |key| section.string(key).map(place);
                let (image, modules) = (file("image"), file("modules"));
                section.finish();
                Some(KernelChoice::Files { image: image?, modules: modules? })
            }
            Data::Float(_) => {
                // 6.10 and 6.1 would be the same number.
                let hint = "write kernel = \"6.12\", or --kernel 6.12";
                let message = "`kernel` is a number, expected text in quotes";
                self.findings.error_with_hint(&value.origin, message, hint);
                None
            }
            _ => {
                value.wrong_type("kernel", "text in quotes, or a table of files", self.findings);
                None
            }
        }
    }

    fn mips(&self, section: &mut Section<'_>) -> Option<u32> {
        let mips = section.integer("mips", 1..=1_000)?;
        match Speed::from_mips(mips) {
            Ok(_) => Some(mips),
            Err(reason) => {
                self.findings.error(section.origin_of("mips"), reason);
                None
            }
        }
    }
}
