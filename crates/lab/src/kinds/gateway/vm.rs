//! What the `vm` testbed takes from an experiment: the machine with its kernel, the gateway in it,
//! and how both are set up.

use std::fs;
use std::path::Path;

use candor_diagnostics::Origin;
use candor_protocol::order::{self, Controller, File};
use candor_time::Nanos;
use candor_vm::python;

use super::keys::{self, Kind};
use super::said::{Hosted, Said};
use super::settings::{Pace, Traffic, World};
use super::traffic;
use crate::experiment::{Driver, Vm};
use crate::locate::locate;
use crate::reading::Common;
use crate::reading::machine::conditions;
use crate::reading::reader::Reader;

/// The largest file that is handed to a guest.
const MAX_FILE_LEN: u64 = 64 << 20;

/// So many frames come before those that count, unless a file says otherwise.
const WARM_UP: u64 = 64;
/// How long each of these is waited for where the traffic waits for none: longer than a task may have to wait behind those of real-time
/// priority (`sched_rt_runtime_us`: 50 ms).
const WARM_UP_TIMEOUT: Nanos = Nanos::from_millis(100);

/// The frames before those that count: one at a time, as the traffic itself if it is so.
fn warm_up(frames: u64, traffic: &Traffic, turnaround: (Nanos, Nanos)) -> order::WarmUp {
    let ((shortest, longest), timeout) = match *traffic {
        Traffic::Numbered { pace: Pace::OneAtATime { turnaround }, timeout, .. } => {
            (turnaround, timeout)
        }
        _ => (turnaround, WARM_UP_TIMEOUT),
    };
    order::WarmUp {
        frames,
        shortest_ns: shortest.as_nanos(),
        longest_ns: longest.max(shortest).as_nanos(),
        timeout_ns: timeout.as_nanos(),
    }
}

impl Reader<'_> {
    /// The virtual machine for what a file says.
    pub(super) fn vm(&mut self, said: Said<'_>, common: &Common<'_>) -> Option<Hosted> {
        let is_fine = self.vm_hosts(&said, common.count);
        let gateway = said.gateway;
        let mut description = describe(gateway.as_ref());
        if said.machine.driver != Driver::Kernel {
            description += &format!(" on {}", said.machine.driver.describe());
        }
        description += &format!("; {}", said.load.describe());
        let (bed_gateway, files) = match &gateway {
            None => (order::Gateway::None, Vec::new()),
            Some(gateway) => self.bed_gateway(gateway)?,
        };
        let mut settings = said.machine.settings();
        if let Some(gateway) = &gateway {
            settings.gateway_priority = gateway.priority.unwrap_or(settings.gateway_priority);
            settings.tx_queue = gateway.depth.map_or(settings.tx_queue, |depth| depth as u32);
            settings.receive_buffer = gateway.receive_buffer;
        }
        let machine = said.machine.choice(said.tester, common.seed);
        let has_fd = self.network.buses.iter().any(|bus| bus.is_fd);
        let own = if has_fd { Controller::CtuCanFd } else { Controller::Sja1000 };
        let rules = match gateway {
            Some(gateway) if gateway.kind.passes_on() => Some(gateway.rules?),
            _ => None,
        };
        if !is_fine {
            return None;
        }
        let conditions = conditions(&machine, &description);
        let traffic = said.traffic?;
        let frames = said.warm_up.unwrap_or(WARM_UP);
        let turnaround = traffic::turnaround_outside(said.load, said.load_size);
        let warm_up = (frames > 0).then(|| warm_up(frames, &traffic, turnaround));
        let vm = Vm {
            machine,
            faults: self.faults.clone(),
            controller: said.machine.controller.unwrap_or(own),
            driver: said.machine.driver,
            gateway: bed_gateway,
            load: said.load_size.order(said.load),
            settings,
            files,
            warm_up,
            description,
        };
        let world = World::Vm(Box::new(vm));
        Some(Hosted { world, traffic, rules, conditions })
    }

    /// The gateway as the guest knows it, with the files that it needs.
    fn bed_gateway(&mut self, said: &keys::Said<'_>) -> Option<(order::Gateway, Vec<File>)> {
        let plain = |gateway| Some((gateway, Vec::new()));
        match said.kind {
            Kind::None => plain(order::Gateway::None),
            Kind::Kernel => plain(order::Gateway::Kernel),
            Kind::User => plain(order::Gateway::ReadWrite),
            Kind::Live => {
                plain(order::Gateway::Live { measures: said.measures, port: said.port.clone() })
            }
            Kind::CandorCan => plain(order::Gateway::CandorCan),
            Kind::Reader => plain(order::Gateway::Reader),
            Kind::Command => self.command(said),
        }
    }

    fn command(&mut self, said: &keys::Said<'_>) -> Option<(order::Gateway, Vec<File>)> {
        let Some(((program, origin), arguments)) = said.command.split_first() else {
            let hint = "command = [\"./my-gateway\", \"{in}\", \"{out}\"]";
            let message = "a gateway of kind `command` needs a `command`";
            self.findings.error_with_hint(said.origin, message, hint);
            return None;
        };
        let path = locate(self.base, program);
        self.input(program, &path);
        let arguments: Vec<_> = arguments.iter().map(|(argument, _)| *argument).collect();
        let (argv, mut files) = match self.program(&path, &arguments) {
            Ok(found) => found?,
            Err(error) => {
                self.findings.error(origin, error.to_string());
                return None;
            }
        };
        for &(from, to, origin) in &said.files {
            files.push(self.file(from, to, origin)?);
        }
        Some((order::Gateway::Command(argv), files))
    }

    /// A program with its arguments in the guest, and the files that it needs: of a Python script those of its interpreter, too.
    fn program(
        &mut self,
        path: &Path,
        arguments: &[&str],
    ) -> Result<Option<InGuest>, candor_vm::Error> {
        let base = self.base;
        if let Some(python) = python::script(path, arguments, |name| locate(base, name))? {
            if python.script != path {
                self.input(&python.script.display().to_string(), &python.script);
            }
            return Ok(Some((python.argv, python.files)));
        }
        let mut files = candor_vm::program::files(path)?;
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let argv = at_the_root(&mut files)
            .map(|in_guest| std::iter::once(in_guest).chain(arguments).collect());
        Ok(argv.map(|argv| (argv, files)))
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

/// A command line, and the files that it needs.
type InGuest = (Vec<String>, Vec<File>);

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
fn describe(said: Option<&keys::Said<'_>>) -> String {
    let Some(said) = said else { return "no gateway".into() };
    match said.kind {
        Kind::None => "no gateway".into(),
        Kind::Kernel => "kernel gateway".into(),
        Kind::User => "user-space gateway, read and write".into(),
        Kind::Live => {
            let port = said.port.iter().map(|port| format!(" on {port}")).collect::<String>();
            format!("live gateway{port}{}", if said.measures { ", measuring" } else { "" })
        }
        Kind::CandorCan => "gateway in the interrupt handler".into(),
        Kind::Reader => "a program that reads".into(),
        Kind::Command => {
            format!("command {}", said.command.first().map_or("", |(program, _)| program))
        }
    }
}
