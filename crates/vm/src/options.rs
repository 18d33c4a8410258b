//! The options of QEMU that say what a machine is, and how they are written.

use std::path::Path;

use candor_protocol::Tester;

use crate::boot::Boot;
use crate::speed::Speed;

/// The character device behind the guest's second serial port, which says that a tester outside is done.
pub(crate) const TESTER_DONE: &str = "tester-done";

/// The options that say what the machine is, and the kernel's command line.
pub(crate) fn flags(speed: Speed, tester: Tester, boot: Boot, parameters: &str) -> Vec<String> {
    let mut flags = devices(speed, tester, boot);
    flags.push("-append".into());
    let mut line = String::from(
        "console=ttyS0 quiet nokaslr norandmaps random.trust_cpu=off tsc=reliable no_timer_check \
         panic=-1 oops=panic softlockup_panic=1",
    );
    let of_boot = boot.parameter().unwrap_or_default();
    for more in [parameters.trim(), &of_boot].into_iter().filter(|it| !it.is_empty()) {
        line.push(' ');
        line.push_str(more);
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
pub(crate) fn devices(speed: Speed, tester: Tester, boot: Boot) -> Vec<String> {
    let controllers: &[&str] = match tester {
        Tester::Inside => &[
            // The five controllers of the test bed.
            "-device kvaser_pci,canbus=source,addr=3 -device kvaser_pci,canbus=source,addr=7",
            "-device kvaser_pci,canbus=source,addr=8",
            "-device kvaser_pci,canbus=target,addr=9 -device kvaser_pci,canbus=target,addr=0xa",
            // The same test bed once more with CTU CAN FD cores, two on a board; the sixth is alone.
            "-object can-bus,id=fdsource -object can-bus,id=fdtarget -object can-bus,id=fdalone",
            "-device ctucan_pci,canbus0=fdsource,canbus1=fdsource,addr=0xb",
            "-device ctucan_pci,canbus0=fdsource,canbus1=fdtarget,addr=0xc",
            "-device ctucan_pci,canbus0=fdtarget,canbus1=fdalone,addr=0xd",
        ],
        // Those of the gateway, where they are with a tester inside.
        Tester::Outside => {
            &["-device kvaser_pci,canbus=source,addr=8 -device kvaser_pci,canbus=target,addr=9"]
        }
        // The same two, on one bus.
        Tester::Master => {
            &["-device kvaser_pci,canbus=source,addr=8 -device kvaser_pci,canbus=source,addr=9"]
        }
    };
    let buses = ["-object can-bus,id=source -object can-bus,id=target"];
    let cards: &[&str] = match tester {
        // Two network cards and a cable.
        Tester::Inside => &[
            "-netdev hubport,hubid=0,id=cable0 -netdev hubport,hubid=0,id=cable1",
            "-device e1000,netdev=cable0,mac=52:54:00:00:00:01,romfile=,addr=0x19",
            "-device e1000,netdev=cable1,mac=52:54:00:00:00:02,romfile=,addr=0x1a",
        ],
        // The other end of the cable is the library's.
        Tester::Outside | Tester::Master => &[
            "-netdev hubport,hubid=0,id=cable0",
            "-device e1000,netdev=cable0,mac=52:54:00:00:00:01,romfile=,addr=0x19",
        ],
    };
    let base = [
        "-no-user-config -nodefaults",
        "-machine q35,usb=off,vmport=off,smm=off",
        "-accel tcg,thread=single -smp 1 -m 256",
        "-cpu qemu64,-rdrand",
        &format!("-rtc base={},clock=vm -seed 1", boot.started_at()),
        "-vga none -display none -no-reboot",
        "-device pvpanic -action panic=pause",
        // A restored machine tells no switch where it is.
        "-global migration.announce-rounds=0",
    ];
    let lines = base.iter().chain(&buses).chain(controllers).chain(cards);
    let words = lines.flat_map(|line| line.split(' '));
    let mut flags: Vec<String> = words.map(str::to_owned).collect();
    if tester != Tester::Inside {
        // It wakes the guest up when it is done.
        let serial = format!("isa-serial,iobase=0x2f8,irq=3,chardev={TESTER_DONE}");
        flags.extend([
            "-chardev".into(),
            format!("null,id={TESTER_DONE}"),
            "-device".into(),
            serial,
        ]);
    }
    flags.push("-icount".into());
    flags.push(format!("shift={},sleep=off,align=off", speed.shift()));
    flags
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
    fn commas_in_paths_are_no_separators() {
        assert_eq!(option("a,b"), "a,,b");
    }
}
