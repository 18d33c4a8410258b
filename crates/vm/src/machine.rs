//! The machine: which devices, how fast, and what all of it is called.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use candor_bed::meeting;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::counting;
use crate::error::Error;
use crate::initramfs;
use crate::kernel::Kernel;
use crate::qemu::Qemu;

/// Asked now and then whether to go on.
pub trait Watch: Sync {
    /// `false` interrupts.
    fn proceed(&self) -> bool;
    /// Something that people should know.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// Always goes on.
pub struct Unwatched;
impl Watch for Unwatched {
    fn proceed(&self) -> bool {
        true
    }
}

/// How long an instruction lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    shift: u8,
}

impl Default for Speed {
    /// 500 MIPS: about the speed of the papers' board of 400 MHz.
    fn default() -> Self {
        Self { shift: 1 }
    }
}

impl Speed {
    /// What can be chosen, in million instructions per second.
    pub const MIPS: [u32; 7] = [1000, 500, 250, 125, 62, 31, 15];

    /// So many million instructions per second: an instruction lasts a power of two of nanoseconds.
    ///
    /// # Errors
    /// There is no such speed.
    pub fn from_mips(mips: u32) -> Result<Self, String> {
        match Self::MIPS.iter().position(|&known| known == mips) {
            Some(shift) => Ok(Self { shift: shift as u8 }),
            None => {
                let known = Self::MIPS.map(|mips| mips.to_string()).join(", ");
                Err(format!(
                    "{mips} MIPS is not possible: an instruction takes 1, 2, 4, ... ns, so use \
                     {known}"
                ))
            }
        }
    }

    /// An instruction lasts 2 to the power of this, in nanoseconds.
    #[must_use]
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Million instructions per second, rounded down.
    #[must_use]
    pub const fn mips(self) -> u32 {
        1000 >> self.shift
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction time, shift {} ({} MIPS)", self.shift, self.mips())
    }
}

/// Everything that can influence a run on a machine, besides the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel as it was asked for, such as `6.12-rt`.
    pub kernel: String,
    /// `uname -r`.
    pub release: String,
    /// The package it is from, with its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub package: Option<String>,
    /// Of the kernel and its modules.
    pub kernel_sha256: String,
    /// Of the program that is `/init`.
    pub guest_sha256: String,
    /// Version of QEMU.
    pub qemu: String,
    /// Of QEMU's program, modules, BIOS and option ROMs.
    #[serde(default)]
    pub qemu_sha256: String,
    /// Of the plugin that counts instructions.
    #[serde(default)]
    pub plugin_sha256: String,
    /// Every option of QEMU that says what the machine is, and the kernel's command line.
    pub flags: Vec<String>,
    /// An instruction lasts 2 to the power of this, in nanoseconds.
    pub shift: u8,
    /// Million instructions per second.
    pub mips: u32,
}

/// A machine with a kernel, ready to be booted.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) qemu: PathBuf,
    pub(crate) image: PathBuf,
    pub(crate) init: &'static [u8],
    pub(crate) initramfs: Vec<u8>,
    pub(crate) cache: PathBuf,
    identity: Identity,
    hash: String,
}

impl Machine {
    /// Puts a machine together; nothing is booted yet. `init` is the program of the guest, and
    /// `parameters` go to the kernel's command line.
    ///
    /// # Errors
    /// The guest program was not built for this platform, or modules cannot be read.
    pub fn new(
        cache: &Cache,
        qemu: &Qemu,
        kernel: &Kernel,
        init: &'static [u8],
        speed: Speed,
        parameters: &str,
    ) -> Result<Self, Error> {
        if init.is_empty() {
            let reason = "this candor has no guest program: the vm testbed needs Linux on x86-64";
            return Err(Error::Other(reason.into()));
        }
        let identity = Identity {
            kernel: kernel.name.clone(),
            release: kernel.release.clone(),
            package: kernel.package.clone(),
            kernel_sha256: kernel.sha256.clone(),
            guest_sha256: hex(&Sha256::digest(init)),
            qemu: qemu.version.clone(),
            qemu_sha256: qemu.sha256.clone(),
            plugin_sha256: hex(&Sha256::digest(counting::PLUGIN)),
            flags: flags(speed, parameters),
            shift: speed.shift(),
            mips: speed.mips(),
        };
        let initramfs = initramfs::build(init, kernel)?;
        let hash = hash(&identity, &initramfs);
        Ok(Self {
            qemu: qemu.program.clone(),
            image: kernel.image.clone(),
            init,
            initramfs,
            cache: cache.folder().to_owned(),
            identity,
            hash,
        })
    }

    /// What it is made of.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A SHA-256 over everything that can influence a run, besides the order.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// What a kernel is called does not change what it does.
fn hash(identity: &Identity, initramfs: &[u8]) -> String {
    let mut sha256 = Sha256::new();
    let Identity { kernel_sha256, qemu, qemu_sha256, plugin_sha256, flags, .. } = identity;
    for part in [kernel_sha256, qemu, qemu_sha256, plugin_sha256].into_iter().chain(flags) {
        sha256.update(part.as_bytes());
        sha256.update([0]);
    }
    sha256.update(initramfs);
    hex(&sha256.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The options that say what the machine is, and the kernel's command line.
fn flags(speed: Speed, parameters: &str) -> Vec<String> {
    let mut flags = devices(speed);
    flags.push("-append".into());
    let mut line = String::from(
        "console=ttyS0 quiet nokaslr norandmaps random.trust_cpu=off tsc=reliable no_timer_check \
         panic=-1 oops=panic softlockup_panic=1",
    );
    if !parameters.trim().is_empty() {
        line.push(' ');
        line.push_str(parameters.trim());
    }
    flags.push(line);
    flags
}

/// The options that say what the machine is. No host clock, no host CPU features, no random numbers
/// of the host, one processor.
///
/// The PCI slots decide which interrupt line a device has (slot modulo 4 for slots 0 to 24 of the
/// Q35): both controllers of the gateway and the receiver have a line of their own, the sender and
/// the monitor share one, and so do the network cards.
pub(crate) fn devices(speed: Speed) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-no-user-config -nodefaults",
        "-machine q35,usb=off,vmport=off,smm=off",
        "-accel tcg,thread=single -smp 1 -m 256",
        "-cpu qemu64,-rdrand",
        "-rtc base=2026-01-01T00:00:00,clock=vm -seed 1",
        "-vga none -display none -no-reboot",
        "-device pvpanic -action panic=pause",
        // A restored machine tells no switch where it is.
        "-global migration.announce-rounds=0",
        // The five controllers of the bed.
        "-object can-bus,id=source -object can-bus,id=target",
        "-device kvaser_pci,canbus=source,addr=3 -device kvaser_pci,canbus=source,addr=7",
        "-device kvaser_pci,canbus=source,addr=8",
        "-device kvaser_pci,canbus=target,addr=9 -device kvaser_pci,canbus=target,addr=0xa",
        // The same bed once more with CTU CAN FD cores, two on a board; the sixth is alone.
        "-object can-bus,id=fdsource -object can-bus,id=fdtarget -object can-bus,id=fdalone",
        "-device ctucan_pci,canbus0=fdsource,canbus1=fdsource,addr=0xb",
        "-device ctucan_pci,canbus0=fdsource,canbus1=fdtarget,addr=0xc",
        "-device ctucan_pci,canbus0=fdtarget,canbus1=fdalone,addr=0xd",
        // Two network cards and a cable.
        "-netdev hubport,hubid=0,id=cable0 -netdev hubport,hubid=0,id=cable1",
        "-device e1000,netdev=cable0,mac=52:54:00:00:00:01,romfile=,addr=0x19",
        "-device e1000,netdev=cable1,mac=52:54:00:00:00:02,romfile=,addr=0x1a",
    ]
    .iter()
    .flat_map(|line| line.split(' '))
    .map(str::to_owned)
    .collect();
    flags.push("-icount".into());
    flags.push(format!("shift={},sleep=off,align=off", speed.shift()));
    flags
}

/// Files of one process of QEMU.
pub(crate) struct Files<'a> {
    /// What the serial console prints.
    pub(crate) console: &'a Path,
    /// What the guest reports.
    pub(crate) report: &'a Path,
    /// The order.
    pub(crate) order: &'a Path,
}

impl Machine {
    /// The command that starts QEMU with this machine.
    pub(crate) fn command(&self, initramfs: &Path, files: &Files<'_>) -> Command {
        let mut command = Command::new(&self.qemu);
        // Where we are, a file may be called like a BIOS, and QEMU would take it.
        command.current_dir(&self.cache);
        command.args(&self.identity.flags);
        command.arg("-kernel").arg(&self.image).arg("-initrd").arg(initramfs);
        command.args(["-S", "-qmp", "stdio"]);
        let path = |path: &Path| option(&path.display().to_string());
        command.arg("-serial").arg(format!("file:{}", files.console.display()));
        command.arg("-chardev").arg(format!("file,id=report,path={}", path(files.report)));
        command
            .arg("-device")
            .arg(format!("isa-debugcon,iobase={:#x},chardev=report", meeting::REPORT_PORT));
        command
            .arg("-device")
            .arg(format!("isa-debug-exit,iobase={:#x},iosize=1", meeting::EXIT_PORT));
        command.arg("-fw_cfg").arg(format!("name={},file={}", meeting::ORDER, path(files.order)));
        command
    }
}

/// A value within an option of QEMU: commas are doubled.
pub(crate) fn option(value: &str) -> String {
    value.replace(',', ",,")
}

/// A word for `sh`.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_powers_of_two() {
        for (mips, shift) in [(1000, 0), (500, 1), (250, 2), (125, 3), (15, 6)] {
            let speed = Speed::from_mips(mips).unwrap();
            assert_eq!((speed.shift(), speed.mips()), (shift, mips));
        }
        for mips in [0, 1, 400, 501, 2000] {
            let reason = Speed::from_mips(mips).unwrap_err();
            assert!(reason.contains("1000, 500, 250"), "{reason}");
        }
        assert_eq!(Speed::default().to_string(), "instruction time, shift 1 (500 MIPS)");
    }

    #[test]
    fn the_hash_knows_all_but_names() {
        let identity = Identity {
            kernel: "6.12".into(),
            release: "6.12.1".into(),
            package: None,
            kernel_sha256: "k".into(),
            guest_sha256: "g".into(),
            qemu: "7.2".into(),
            qemu_sha256: "q".into(),
            plugin_sha256: "p".into(),
            flags: flags(Speed::default(), ""),
            shift: 1,
            mips: 500,
        };
        let all = |identity: &Identity, initramfs: &[u8]| hash(identity, initramfs);
        let first = all(&identity, b"i");
        assert_eq!(first, all(&Identity { kernel: "own".into(), ..identity.clone() }, b"i"));
        for changed in [
            Identity { kernel_sha256: "l".into(), ..identity.clone() },
            Identity { qemu: "8".into(), ..identity.clone() },
            Identity { qemu_sha256: "r".into(), ..identity.clone() },
            Identity { plugin_sha256: "o".into(), ..identity.clone() },
            Identity { flags: flags(Speed::default(), "threadirqs"), ..identity.clone() },
            Identity { flags: flags(Speed::from_mips(1000).unwrap(), ""), ..identity.clone() },
        ] {
            assert_ne!(first, all(&changed, b"i"), "{changed:?}");
        }
        assert_ne!(first, all(&identity, b"j"));
    }

    #[test]
    fn commas_in_paths_are_no_separators() {
        assert_eq!(option("a,b"), "a,,b");
    }
}
