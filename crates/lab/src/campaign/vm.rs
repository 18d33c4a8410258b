//! What the `vm` testbed takes from an experiment: the machine with its kernel, the gateway in it,
//! and how both are set up. What a machine cannot host is refused here, before anything boots.
//!
//! ```toml
//! [vm]
//! kernel               = "6.12"       # "6.12-rt", "debian:VERSION", { image = "...", modules = "..." }
//! mips                 = 500          # an instruction lasts 2 ns
//! parameters           = "threadirqs" # for the kernel's command line
//! controller           = "sja1000"    # or "ctucanfd"
//! interrupt_priority   = 50           # of the interrupt threads of the gateway's controllers
//! napi_thread_priority = 50           # NAPI in threads
//! netdev_budget        = 300
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use candor_bed::order::{self, Controller, File, Settings};
use candor_config::{Data, Section, Value};
use candor_diagnostics::Origin;
use candor_engine::Table;
use candor_sim::Discipline;
use candor_time::Nanos;
use candor_vm::{Spec, Speed};

use super::gateway::{self, Kind};
use super::reader::Reader;
use super::{Hosted, KERNEL_OPTION, Said as Whole};
use crate::experiment::{KernelChoice, MachineChoice, Traffic, Vm, World};
use crate::locate::locate;
use crate::traffic::Numbered;

/// The kernel unless the file says otherwise.
const DEFAULT_KERNEL: &str = "6.12";
/// The most frames of one experiment: a guest of 256 MB keeps every stamp until the end.
const MAX_COUNT: u64 = 200_000;
/// The largest file that is handed to a guest.
const MAX_FILE_LEN: u64 = 64 << 20;

/// How much of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadSize {
    groups: u32,
    ping_bytes: u32,
}

impl Default for LoadSize {
    /// As the papers.
    fn default() -> Self {
        Self { groups: 2, ping_bytes: 60_000 }
    }
}

impl LoadSize {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            groups: section.integer("groups", 1..=50).unwrap_or(default.groups),
            // The longest datagram of IPv4 without its headers.
            ping_bytes: section.integer("ping_bytes", 16..=65_507).unwrap_or(default.ping_bytes),
        }
    }
}

/// What a file says about the machine, not yet needed.
#[derive(Default)]
pub(super) struct Said {
    kernel: Option<KernelChoice>,
    mips: Option<u32>,
    parameters: Option<String>,
    controller: Option<Controller>,
    interrupt_priority: Option<u8>,
    napi_thread_priority: Option<u8>,
    netdev_budget: Option<u32>,
}

impl Reader<'_> {
    /// Reads `[vm]`.
    pub(super) fn machine(&self, section: Option<Section<'_>>) -> Said {
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
            controller: section.one_of("controller", &controllers),
            interrupt_priority: section.integer("interrupt_priority", 1..=99),
            napi_thread_priority: section.integer("napi_thread_priority", 0..=99),
            netdev_budget: section.integer("netdev_budget", 1..=1_000_000),
        };
        section.finish();
        said
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

    /// The virtual machine for what a file says.
    pub(super) fn vm(&mut self, said: Whole<'_>) -> Option<Hosted> {
        let is_fine = self.vm_hosts(&said);
        let gateway = said.gateway;
        let description = format!("{}; {}", describe(gateway.as_ref()), said.load.describe());
        let (bed_gateway, files) = match &gateway {
            None => (order::Gateway::None, Vec::new()),
            Some(gateway) => self.bed_gateway(gateway)?,
        };
        let default = Settings::default();
        let settings = Settings {
            gateway_priority: gateway
                .as_ref()
                .and_then(|gateway| gateway.priority)
                .unwrap_or(default.gateway_priority),
            interrupt_priority: said.machine.interrupt_priority,
            napi_thread_priority: said.machine.napi_thread_priority,
            netdev_budget: said.machine.netdev_budget,
            tx_queue: gateway
                .as_ref()
                .and_then(|gateway| gateway.depth)
                .map_or(default.tx_queue, |depth| depth as u32),
            receive_buffer: gateway.as_ref().and_then(|gateway| gateway.receive_buffer),
            gather_ns: gateway
                .as_ref()
                .and_then(|gateway| gateway.gather)
                .map_or(default.gather_ns, Nanos::as_nanos),
        };
        let machine = MachineChoice {
            kernel: said
                .machine
                .kernel
                .unwrap_or_else(|| KernelChoice::Named(DEFAULT_KERNEL.into())),
            mips: said.machine.mips.unwrap_or(Speed::default().mips()),
            parameters: said.machine.parameters.unwrap_or_default(),
        };
        let has_fd = self.buses.iter().any(|bus| bus.is_fd);
        let own = if has_fd { Controller::CtuCanFd } else { Controller::Sja1000 };
        let load = order::Load {
            hackbench_groups: said.load.cpu.then_some(said.load_size.groups),
            ping_bytes: said.load.ethernet.then_some(said.load_size.ping_bytes),
        };
        let rules = match gateway {
            Some(gateway) if gateway.kind != Kind::None => Some(gateway.rules?),
            _ => None,
        };
        if !is_fine {
            return None;
        }
        let conditions = format!(
            "Linux {} in QEMU, {}: path lengths, not a forecast for a board; {description}",
            machine.kernel,
            Speed::from_mips(machine.mips).unwrap_or_default(),
        );
        let vm = Vm {
            machine,
            controller: said.machine.controller.unwrap_or(own),
            gateway: bed_gateway,
            load,
            settings,
            files,
            description,
        };
        Some(Hosted { world: World::Vm(Box::new(vm)), rules, conditions })
    }

    /// Whether a machine can host this; findings tell what not.
    fn vm_hosts(&self, said: &Whole<'_>) -> bool {
        let mut is_fine = true;
        let mut refuse = |origin: &Origin, message: &str, hint: &str| {
            self.findings.error_with_hint(origin, message, hint);
            is_fine = false;
        };
        if self.buses.len() > 2 {
            let message = "the vm testbed needs two buses, a source and a target";
            let hint = "list two under [bus]; rules may use virtual buses between them";
            refuse(said.origin_of(&["bus"]), message, hint);
        }
        match said.traffic {
            Some(Traffic::Periodic { .. } | Traffic::Replay { .. }) => refuse(
                said.origin_of(&["traffic", "kind"]),
                "the vm testbed sends numbered frames only",
                "use traffic.kind = one-at-a-time, half or flood; other kinds run with --testbed \
                 sim",
            ),
            Some(Traffic::Numbered { .. }) | None => {}
        }
        if said.count.is_some_and(|count| count > MAX_COUNT) {
            let message = format!(
                "`count` is more than {MAX_COUNT}; a guest stores all time stamps in memory"
            );
            refuse(said.origin_of(&["count"]), &message, "send fewer frames, with several seeds");
        }
        let has_fd = self.buses.iter().any(|bus| bus.is_fd);
        if has_fd && said.machine.controller == Some(Controller::Sja1000) {
            let message = "a bus has CAN FD, but the SJA1000 does not support it";
            let hint = "use controller = \"ctucanfd\"";
            refuse(said.origin_of(&["vm", "controller"]), message, hint);
        }
        let Some(gateway) = &said.gateway else { return is_fine };
        if gateway.delay.is_some() {
            let message = "a gateway of constant delay exists only in simulation";
            let hint = "use gateway.kind instead of gateway.delay";
            refuse(said.origin_of(&["gateway", "delay"]), message, hint);
        }
        if gateway.discipline == Some(Discipline::Priority) {
            let message = "the queues of Linux interfaces are first in, first out";
            let hint = "remove gateway.egress, or run it with --testbed sim";
            refuse(said.origin_of(&["gateway", "egress"]), message, hint);
        }
        if gateway.has_rules {
            match gateway.kind {
                Kind::User => refuse(
                    gateway.rules_origin,
                    "the read/write loop forwards every frame and ignores rules",
                    "use kind = \"engine\" to run rules in user space",
                ),
                Kind::Command => refuse(
                    gateway.rules_origin,
                    "a command does not read rules",
                    "configure it with gateway.command and gateway.files",
                ),
                _ => {}
            }
        }
        let Some(rules) = &gateway.rules else { return is_fine };
        if gateway.kind == Kind::Kernel {
            let reasons = match gateway::too_few_hops(rules) {
                Some(reason) => vec![reason],
                None => gateway::beyond_can_gw(rules),
            };
            for reason in reasons {
                let hint = "use kind = \"engine\"";
                refuse(gateway.rules_origin, &reason, hint);
            }
        }
        if let Some(Traffic::Numbered { frames, .. }) = said.traffic
            && let Some(rule) = changes_number(rules, frames)
        {
            let message = format!(
                "rule `{rule}` changes the first two data bytes, which contain the number of the \
                 frame"
            );
            refuse(gateway.rules_origin, &message, "let rules change only other bytes");
        }
        is_fine
    }

    /// The gateway as the bed knows it, with the files that it needs.
    fn bed_gateway(&mut self, said: &gateway::Said<'_>) -> Option<(order::Gateway, Vec<File>)> {
        let plain = |gateway| Some((gateway, Vec::new()));
        match said.kind {
            Kind::None => plain(order::Gateway::None),
            Kind::Kernel => plain(order::Gateway::Kernel),
            Kind::User => plain(order::Gateway::ReadWrite),
            Kind::Engine => plain(order::Gateway::Engine),
            Kind::EngineFast => plain(order::Gateway::EngineFast),
            Kind::Live => plain(order::Gateway::Live { measures: said.measures }),
            Kind::Command => self.command(said),
        }
    }

    fn command(&mut self, said: &gateway::Said<'_>) -> Option<(order::Gateway, Vec<File>)> {
        let Some(((program, origin), arguments)) = said.command.split_first() else {
            let hint = "command = [\"./my-gateway\", \"{in}\", \"{out}\"]";
            let message = "a gateway of kind `command` needs a `command`";
            self.findings.error_with_hint(said.origin, message, hint);
            return None;
        };
        let path = locate(self.base, program);
        self.input(program, &path);
        let mut files = match candor_vm::program::files(&path) {
            Ok(files) => files,
            Err(error) => {
                self.findings.error(origin, error.to_string());
                return None;
            }
        };
        let in_guest = at_the_root(&mut files)?;
        for &(from, to, origin) in &said.files {
            files.push(self.file(from, to, origin)?);
        }
        let arguments = arguments.iter().map(|(argument, _)| (*argument).to_owned());
        let argv = std::iter::once(in_guest).chain(arguments).collect();
        Some((order::Gateway::Command(argv), files))
    }

    /// A file for the guest: at the root unless the experiment says where.
    fn file(&mut self, from: &str, to: Option<&str>, origin: &Origin) -> Option<File> {
        let path = locate(self.base, from);
        let read = || {
            let metadata = fs::metadata(&path)?;
            if metadata.len() > MAX_FILE_LEN {
                let reason = format!("it is larger than {} MB", MAX_FILE_LEN >> 20);
                return Err(std::io::Error::other(reason));
            }
            Ok((fs::read(&path)?, is_executable(&metadata)))
        };
        let (contents, is_executable) = match read() {
            Ok(read) => read,
            Err(error) => {
                let hint = "paths are relative to the experiment file or to the current folder";
                let message = format!("{from} cannot be read: {error}");
                self.findings.error_with_hint(origin, message, hint);
                return None;
            }
        };
        self.input(from, &path);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let path = match to {
            Some(to) => to.to_owned(),
            None => format!("/{}", name.unwrap_or_default()),
        };
        Some(File { path, is_executable, contents })
    }
}

/// Puts a program, the first of its files, at the root of the guest, and says where: its place here
/// is no business of a result. One with libraries around it stays, for they are found from there.
fn at_the_root(files: &mut [File]) -> Option<String> {
    let (program, libraries) = files.split_first_mut()?;
    let place = Path::new(&program.path);
    let name = place.file_name()?.to_str()?;
    // $ORIGIN, $ORIGIN/../lib
    let mut folders = place.ancestors().skip(1).take(2).filter(|folder| *folder != Path::new("/"));
    let is_near = |library: &File, folder: &Path| Path::new(&library.path).starts_with(folder);
    let stays = folders.any(|folder| libraries.iter().any(|library| is_near(library, folder)));
    if !stays {
        program.path = format!("/{name}");
    }
    Some(program.path.clone())
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

/// The gateway for people.
fn describe(said: Option<&gateway::Said<'_>>) -> String {
    let Some(said) = said else { return "no gateway".into() };
    match said.kind {
        Kind::None => "no gateway".into(),
        Kind::Kernel => "kernel gateway".into(),
        Kind::User => "user-space gateway, read and write".into(),
        Kind::Engine => "rule engine on ordinary sockets".into(),
        Kind::EngineFast => "rule engine, fast".into(),
        Kind::Live if said.measures => "live gateway, measuring".into(),
        Kind::Live => "live gateway".into(),
        Kind::Command => {
            format!("command {}", said.command.first().map_or("", |(program, _)| program))
        }
    }
}

/// A rule that would change the number of a frame that it may meet.
fn changes_number<'a>(rules: &'a Table, frames: &Numbered) -> Option<&'a str> {
    let is_virtual = |rule: &candor_engine::Rule| {
        rules.buses.get(usize::from(rule.from.0)).is_some_and(|bus| bus.is_virtual)
    };
    let ids = frames.can_ids.len().max(1) as u64;
    // Bits of both values in every place, with each identifier.
    let numbers = [0x0000, 0xFFFF, 0x5A69, 0xA596_u64];
    let samples: Vec<_> = (0..ids)
        .flat_map(|id| numbers.map(|number| (number, frames.with_id(number, id as usize))))
        .filter_map(|(number, frame)| Some((number as u16, frame?)))
        .collect();
    let changes = |rule: &&candor_engine::Rule| {
        rule.edit.modifies()
            && samples.iter().any(|(number, frame)| {
                // On a virtual bus frames have other identifiers than at first.
                (is_virtual(rule) || rule.matches(frame))
                    && rule.edit.apply(frame).is_ok_and(|edited| {
                        candor_lat::pairing::number_of(edited.data()) != Some(*number)
                    })
            })
    };
    rules.rules.iter().find(changes).map(|rule| rule.name.as_str())
}
