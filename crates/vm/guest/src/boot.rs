//! What a machine needs before it can be saved: file systems and the modules of every order.

use std::fs;

use candor_linux::clock;
use candor_linux::mount::mount;
use candor_time::{Monotonic, Nanos};

use crate::failure::{Context, FAULT, Failure};
use crate::modules::Modules;
use crate::shuffle::shuffle;
use crate::system;

/// Kind, place and options of each file system, and the kernel's option that makes it.
const FILE_SYSTEMS: [(&str, &str, &str, &str); 5] = [
    ("proc", "/proc", "", "CONFIG_PROC_FS"),
    ("sysfs", "/sys", "", "CONFIG_SYSFS"),
    ("devtmpfs", "/dev", "", "CONFIG_DEVTMPFS"),
    ("tmpfs", "/run", "mode=0755", "CONFIG_TMPFS"),
    ("tmpfs", "/tmp", "mode=1777", "CONFIG_TMPFS"),
];

/// The modules that most orders need, if the kernel has them. Loading them here saves every run
/// their time.
const MODULES: [&str; 5] = ["can", "can_raw", "can_dev", "vcan", "vxcan"];

/// A kernel goes on with itself after it has started its first process: it tests its ciphers, for
/// one. The machine is saved when so many seconds have passed without any of that,
const QUIET_S: u32 = 2;
/// of each of which the processor idled for so many hundredths,
const IDLE_HUNDREDTHS: u64 = 98;
/// or after so many seconds at the latest.
const MOST_S: u32 = 120;

pub(crate) fn boot() -> Result<(), Failure> {
    for (kind, place, options, needed) in FILE_SYSTEMS {
        fs::create_dir_all(place).at(place, "check the initramfs")?;
        mount(kind, place, options).at("boot", &format!("use a kernel with {needed}"))?;
    }
    let modules = Modules::read()?;
    let mut present = MODULES.iter().filter(|module| modules.has(module));
    present.try_for_each(|module| modules.load(module))?;
    shuffle();
    wait_until_quiet()
}

/// Waits until the kernel has nothing to do any more.
fn wait_until_quiet() -> Result<(), Failure> {
    let mut quiet_s = 0;
    for _ in 0..MOST_S {
        let before = system::idle_hundredths();
        let next = clock::now::<Monotonic>() + Nanos::from_secs(1);
        clock::sleep_until(next).at("boot", FAULT)?;
        let is_quiet = system::idle_hundredths() - before >= IDLE_HUNDREDTHS;
        quiet_s = if is_quiet { quiet_s + 1 } else { 0 };
        if quiet_s == QUIET_S {
            return Ok(());
        }
    }
    Err(Failure::new(
        "boot",
        format!("the kernel is still busy after {MOST_S} s"),
        "see the last lines of the console",
    ))
}
