//! QEMU as it is on this machine: the program, its version, and a sum over the files of QEMU that can
//! change what a guest does.
//!
//! A version text says too little: a patched QEMU keeps it, and BIOS files come from other packages.
//! So a machine is known by the contents of
//!
//! | file | how it is found |
//! |---|---|
//! | the program that is started, which may be a script | `PATH` |
//! | the program that runs then | `/proc/PID/exe` of a stopped machine |
//! | modules of QEMU, such as the accelerator `accel-tcg-x86_64.so` | `/proc/PID/maps` of the same |
//! | BIOS and option ROMs | the folders that `-L help` lists, by the names in [`FIRMWARE`] |
//!
//! Libraries of the system (`lib*.so`) are left out: they emulate nothing.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use candor_protocol::Tester;
use object::{Object, ObjectSymbol};
use sha2::{Digest, Sha256};

use crate::boot::Boot;
use crate::digest::hex;
use crate::error::Error;
use crate::options::devices;
use crate::plugin;
use crate::qmp::Process;
use crate::speed::Speed;
use crate::watch::Unwatched;

/// What QEMU may load into this machine: the BIOS of a Q35, and the option ROMs of its interrupt
/// controller, of `-kernel`, and of the graphics and network cards, in all versions from 7.2 on.
pub const FIRMWARE: [&str; 11] = [
    "bios-256k.bin",
    "bios.bin",
    "kvmvapic.bin",
    "linuxboot.bin",
    "linuxboot_dma.bin",
    "multiboot.bin",
    "multiboot_dma.bin",
    "pvh.bin",
    "vgabios.bin",
    "vgabios-stdvga.bin",
    "efi-e1000.rom",
];

/// QEMU, as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    pub program: PathBuf,
    /// What it says about its version, such as `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)`.
    pub version: String,
    /// SHA-256 over the contents of its files that can change what a guest does, in hexadecimal.
    pub sha256: String,
}

impl Qemu {
    /// Looks for `qemu-system-x86_64`.
    ///
    /// # Errors
    /// It is not there, or cannot be run.
    pub fn find() -> Result<Self, Error> {
        Self::at(Path::new("qemu-system-x86_64"))
    }

    /// The QEMU with this path, or with this name in one of the folders of `PATH`.
    ///
    /// # Errors
    /// It is not there, or cannot be run.
    pub fn at(program: &Path) -> Result<Self, Error> {
        let program = resolved(program).ok_or_else(|| Error::NoProgram {
            program: program.display().to_string(),
            purpose: "runs the kernels",
            remedy: "install it: sudo apt-get install --no-install-recommends qemu-system-x86"
                .into(),
        })?;
        let said = output(&program, &["--version"])?;
        let text = String::from_utf8_lossy(&said.stdout);
        let version = text.lines().next().and_then(|line| line.split_once(" version "));
        let Some((_, version)) = version else {
            return Err(Error::Other(format!(
                "{} --version prints no version; is it QEMU?",
                program.display()
            )));
        };
        let mut parts = running_parts(&program)?;
        parts.extend(firmware(&output(&program, &["-L", "help"])?));
        let sha256 = sum(&program, &parts)?;
        Ok(Self { program, version: version.into(), sha256 })
    }

    /// What `library` needs of QEMU and this one does not have.
    ///
    /// # Errors
    /// Its program cannot be read.
    pub(crate) fn missing_symbols(&self, library: &[u8]) -> Result<Vec<String>, Error> {
        let running = running_parts(&self.program)?;
        let program = running.first().map_or(&self.program, |part| &part.path);
        let bytes = fs::read(program).map_err(|error| Error::read(program, error))?;
        let Ok(file) = object::File::parse(&*bytes) else {
            return Err(Error::Other(format!("{} is no program of Linux", program.display())));
        };
        let there: BTreeSet<_> = file
            .dynamic_symbols()
            .filter(|symbol| !symbol.is_undefined())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        let mut missing = plugin::symbols_of_qemu(library);
        missing.retain(|name| !there.contains(name.as_str()));
        Ok(missing)
    }
}

/// The absolute path of a program, found as a shell finds it.
fn resolved(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return std::path::absolute(program).ok().filter(|path| path.is_file());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut paths = env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.is_file()).and_then(|path| std::path::absolute(path).ok())
}

fn output(program: &Path, arguments: &[&str]) -> Result<Output, Error> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).current_dir("/").output();
    output.map_err(|error| Error::Other(format!("{} cannot be run: {error}", program.display())))
}

/// A file that takes part: the name by which it is known, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    path: PathBuf,
}

/// The program that runs if `program` is started with the devices of the machine, and its modules.
fn running_parts(program: &Path) -> Result<Vec<Part>, Error> {
    let mut command = Command::new(program);
    command
        .args(devices(Speed::default(), Tester::Inside, Boot::FIRST))
        .args(["-S", "-qmp", "stdio"])
        .current_dir("/");
    let process = Process::start(&mut command, &Unwatched)?;
    let folder = PathBuf::from(format!("/proc/{}", process.id()));
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| Error::read(&path, error))
    };
    let maps = read("maps")?;
    let link = folder.join("exe");
    let program = fs::read_link(&link).map_err(|error| Error::read(&link, error))?;
    let mut parts = vec![Part { name: "qemu".into(), path: program }];
    parts.extend(modules(&maps));
    Ok(parts)
}

/// The shared objects in a table of mappings that are no libraries.
fn modules(maps: &str) -> Vec<Part> {
    let path = |line: &str| line.find('/').map(|at| PathBuf::from(&line[at..]));
    let module = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let is_library = name.starts_with("lib") || name.starts_with("ld-");
        (name.ends_with(".so") && !is_library).then_some(Part { name, path })
    };
    let mut modules: Vec<_> = maps.lines().filter_map(path).filter_map(module).collect();
    modules.sort_by(|a, b| a.path.cmp(&b.path));
    modules.dedup();
    modules
}

/// BIOS and option ROMs: QEMU takes each from the first folder that has it.
fn firmware(folders: &Output) -> Vec<Part> {
    let text = String::from_utf8_lossy(&folders.stdout);
    let folders: Vec<_> = text.lines().map(Path::new).collect();
    let part = |name: &&str| {
        let mut paths = folders.iter().map(|folder| folder.join(name));
        paths.find(|path| path.is_file()).map(|path| Part { name: (*name).into(), path })
    };
    FIRMWARE.iter().filter_map(part).collect()
}

/// The sum over names and contents; where the files are does not count.
fn sum(program: &Path, parts: &[Part]) -> Result<String, Error> {
    let contents = |path: &Path| {
        let bytes = fs::read(path).map_err(|error| Error::read(path, error))?;
        Ok(hex(&Sha256::digest(bytes)))
    };
    let started = contents(program)?;
    let mut lines = Vec::new();
    for part in parts {
        let of = contents(&part.path)?;
        lines.push(format!("{of}  {}\n", part.name));
    }
    // A script that starts QEMU is a part of its own.
    if lines.first().is_none_or(|first| !first.starts_with(&started)) {
        lines.push(format!("{started}  program\n"));
    }
    Ok(hex(&Sha256::digest(lines.concat())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_is_no_qemu_is_named() {
        let reason = Qemu::at(Path::new("no-such-qemu")).unwrap_err().to_string();
        assert!(reason.contains("install it"), "{reason}");
        let reason = Qemu::at(Path::new("true")).unwrap_err().to_string();
        assert!(reason.contains("is it QEMU?"), "{reason}");
    }

    /// A script that answers as QEMU does, with its ROMs in `share`.
    fn script(folder: &Path, version: &str) -> PathBuf {
        let path = folder.join("qemu");
        let share = folder.join("share").display().to_string();
        let text = format!(
            r#"#!/bin/sh
case "$1" in
--version) echo 'QEMU emulator version {version}'; exit;;
-L) echo /no-such-folder; echo '{share}'; exit;;
esac
echo '{{"QMP": {{}}}}'
while read -r line; do
    case "$line" in
    *query-cpus-fast*) echo '{{"return": [{{"thread-id": '$$'}}]}}';;
    *) echo '{{"return": {{}}}}';;
    esac
done
"#
        );
        install(&path, text.as_bytes());
        path
    }

    /// A program must not be open for writing while it is started, not even in another process that
    /// some other test starts at that moment. So another process writes it.
    fn install(path: &Path, bytes: &[u8]) {
        let text = path.with_extension("text");
        fs::write(&text, bytes).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new("cp").arg("-p").args([&text, path]).status().unwrap().success());
    }

    #[test]
    fn another_program_or_rom_is_another_qemu() {
        let _cpus = crate::reserved_cpu::tests::CPUS.lock();
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "7.2.22");
        let share = folder.path().join("share");
        fs::create_dir(&share).unwrap();
        fs::write(share.join("bios-256k.bin"), "bios").unwrap();
        let first = Qemu::at(&program).unwrap();
        assert_eq!((first.version.as_str(), first.sha256.len()), ("7.2.22", 64));
        assert_eq!(Qemu::at(&program).unwrap(), first);

        // What the machine does not load does not count.
        fs::write(share.join("openbios-ppc"), "bios").unwrap();
        assert_eq!(Qemu::at(&program).unwrap(), first);
        fs::write(share.join("bios-256k.bin"), "bias").unwrap();
        let other_bios = Qemu::at(&program).unwrap();
        assert_ne!(other_bios.sha256, first.sha256);
        fs::write(share.join("kvmvapic.bin"), "rom").unwrap();
        let more_roms = Qemu::at(&program).unwrap();
        assert_ne!(more_roms.sha256, other_bios.sha256);

        // One byte more at its end, the same version.
        let mut bytes = fs::read(&program).unwrap();
        bytes.push(b'\n');
        install(&program, &bytes);
        let patched = Qemu::at(&program).unwrap();
        assert_eq!(patched.version, first.version);
        assert_ne!(patched.sha256, more_roms.sha256);
    }

    #[test]
    fn modules_are_known_from_libraries() {
        let maps = "\
55d0-55d1 r-xp 00000000 fe:01 1 /usr/bin/qemu-system-x86_64
7f10-7f11 r--p 00000000 fe:01 2 /usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so
7f11-7f12 r-xp 00001000 fe:01 2 /usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so
7f20-7f21 r-xp 00000000 fe:01 3 /usr/lib/x86_64-linux-gnu/libglib-2.0.so.0.7400.6
7f22-7f23 r-xp 00000000 fe:01 4 /usr/lib/x86_64-linux-gnu/libslirp.so
7f24-7f25 r-xp 00000000 fe:01 5 /lib64/ld-linux-x86-64.so
7ffd-7ffe r-xp 00000000 00:00 0 [vdso]
";
        let names: Vec<_> = modules(maps).into_iter().map(|part| part.name).collect();
        assert_eq!(names, ["accel-tcg-x86_64.so"]);
    }
}
