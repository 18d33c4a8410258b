//! [`Machine`]: a kernel, a guest program and a QEMU, put together, and what all of it is called.

use std::path::{Path, PathBuf};
use std::process::Command;

use candor_protocol::{Tester, meeting};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::boot::Boot;
use crate::cache::Cache;
use crate::digest::hex;
use crate::error::Error;
use crate::initramfs;
use crate::kernel::Kernel;
use crate::options::{flags, option};
use crate::outside;
use crate::plugin;
use crate::qemu::Qemu;
use crate::scratch::Files;
use crate::speed::Speed;

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
    /// Whether buses take time.
    #[serde(default)]
    pub bus: BusTime,
    /// Of the library with the buses and the tester, if the tester is outside of the guest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timed_bus_sha256: Option<String>,
    #[serde(default)]
    pub boot: Boot,
    /// Every option of QEMU that says what the machine is, and the kernel's command line.
    pub flags: Vec<String>,
    /// An instruction lasts 2 to the power of this, in nanoseconds.
    pub shift: u8,
    /// Million instructions per second.
    pub mips: u32,
}

/// Whether the buses of a machine take time. Latencies of one kind say nothing about those of the other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum BusTime {
    /// A frame arrives when it is sent; the tester is a program of the guest.
    #[default]
    Instant,
    /// A frame takes as long as its bits; the tester is outside of the guest.
    Timed,
}

impl BusTime {
    /// The buses that go with a tester.
    #[must_use]
    pub const fn with(tester: Tester) -> Self {
        match tester {
            Tester::Inside => Self::Instant,
            Tester::Outside | Tester::Master => Self::Timed,
        }
    }

    /// The tester that goes with these buses.
    #[must_use]
    pub const fn tester(self) -> Tester {
        match self {
            Self::Instant => Tester::Inside,
            Self::Timed => Tester::Outside,
        }
    }
}

/// How a machine is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// How long an instruction lasts.
    pub speed: Speed,
    /// What is added to the kernel's command line.
    pub parameters: &'a str,
    pub tester: Tester,
    pub boot: Boot,
}

/// A machine with a kernel, ready to be booted.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) qemu: PathBuf,
    pub(crate) image: PathBuf,
    pub(crate) init: &'static [u8],
    pub(crate) initramfs: Vec<u8>,
    pub(crate) cache: PathBuf,
    /// The library with the tester, if that is outside of the guest.
    pub(crate) timed_bus: Option<Vec<u8>>,
    identity: Identity,
    hash: String,
}

impl Machine {
    /// Puts a machine together; nothing is booted yet. `init` is the program of the guest.
    ///
    /// # Errors
    /// The guest program was not built for this platform, modules cannot be read, or a tester outside does not work
    /// with this QEMU.
    pub fn new(
        cache: &Cache,
        qemu: &Qemu,
        kernel: &Kernel,
        init: &'static [u8],
        setup: Setup<'_>,
    ) -> Result<Self, Error> {
        let Setup { speed, parameters, tester, boot } = setup;
        if init.is_empty() {
            let reason = "this candor has no guest program: the vm testbed needs Linux on x86-64";
            return Err(Error::Other(reason.into()));
        }
        let timed_bus = match tester {
            Tester::Inside => None,
            Tester::Outside | Tester::Master => Some(outside::library(qemu)?),
        };
        let identity = Identity {
            kernel: kernel.name.clone(),
            release: kernel.release.clone(),
            package: kernel.package.clone(),
            kernel_sha256: kernel.sha256.clone(),
            guest_sha256: hex(&Sha256::digest(init)),
            qemu: qemu.version.clone(),
            qemu_sha256: qemu.sha256.clone(),
            plugin_sha256: plugin::COUNT.sha256(),
            bus: BusTime::with(tester),
            timed_bus_sha256: timed_bus.as_ref().map(|_| plugin::TIMED_BUS.sha256()),
            boot,
            flags: flags(speed, tester, boot, parameters),
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
            timed_bus,
            identity,
            hash,
        })
    }

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
    let timed_bus = &identity.timed_bus_sha256;
    for part in
        [kernel_sha256, qemu, qemu_sha256, plugin_sha256].into_iter().chain(timed_bus).chain(flags)
    {
        sha256.update(part.as_bytes());
        sha256.update([0]);
    }
    sha256.update(initramfs);
    hex(&sha256.finalize())
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

#[cfg(test)]
mod tests {
    use super::*;

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
            bus: BusTime::Instant,
            timed_bus_sha256: None,
            boot: Boot::FIRST,
            flags: flags(Speed::default(), Tester::Inside, Boot::FIRST, ""),
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
            Identity { timed_bus_sha256: Some("b".into()), ..identity.clone() },
            Identity {
                flags: flags(Speed::default(), Tester::Inside, Boot::FIRST, "threadirqs"),
                ..identity.clone()
            },
            Identity {
                flags: flags(Speed::from_mips(1000).unwrap(), Tester::Inside, Boot::FIRST, ""),
                ..identity.clone()
            },
            Identity {
                flags: flags(Speed::default(), Tester::Inside, Boot::of_seed(2, 2), ""),
                ..identity.clone()
            },
        ] {
            assert_ne!(first, all(&changed, b"i"), "{changed:?}");
        }
        assert_ne!(first, all(&identity, b"j"));
    }
}
