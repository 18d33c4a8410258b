//! What a flood leaves behind: memory.

use std::fs;

use crate::bench::{
    Capture, Gateway, Sender, assert_balanced, numbered, port, rule, virtual_buses,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 2] = [
    ("a_flood_leaves_no_memory_behind", Need::Guest, memory),
    ("locked_memory_is_no_more_than_that", Need::Guest, locked),
];

/// The most that a gateway may have resident besides the pages of its program, in KiB: 12 MB. With locked memory all of
/// the program is resident too, and here it is the one with these tests, not optimised.
const MOST_KIB: u64 = 12_000_000 / 1024;
/// What it may have more after another flood: allocators keep what they once had, in pages.
const MORE_KIB: u64 = 256;

/// Resident memory in KiB.
/// What a process has in memory that is of no file: `RssAnon` of proc_pid_status(5), in KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn memory() {
    floods(&["--plane", "user"]);
}

fn locked() {
    floods(&["--lock-memory"]);
}

fn floods(arguments: &[&str]) {
    const FRAMES: u64 = 15_000;
    const AT_ONCE: u64 = 250;
    let _netlink = virtual_buses(&["vcan0", "vcan1"]);
    let rules = "[bus]\na = \"vcan0\"\nb = \"vcan1\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\necho = true\non_change = true\nrate = \"1000000/s\"\nburst = 1000000\n";
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(rules, arguments);
    let id = gateway.process().id();
    let mut after = Vec::new();
    for flood in 1..=3 {
        let sent = flood * FRAMES;
        // As many identifiers as there are, so that whatever is remembered of each is.
        for number in sent - FRAMES..sent {
            sender.send(&numbered((number % 0x7FF) as u16, number));
            // No more at once than its socket holds, however the processor is shared.
            if number % AT_ONCE == AT_ONCE - 1 {
                gateway.settled("a", number + 1);
            }
        }
        let snapshot = gateway.settled("a", sent);
        assert_balanced(&snapshot, "a", sent);
        assert_eq!(
            (port(&snapshot, "a").overflow_frames, rule(&snapshot, "all").handled),
            (0, sent)
        );
        capture.exactly(sent);
        after.push(resident(id));
    }
    println!("resident after {FRAMES} frames each: {after:?} KiB");
    assert!(after.iter().all(|kib| *kib < MOST_KIB), "{after:?}");
    // The first flood touches what was never used; from then on nothing is added.
    assert!(after[2] <= after[1] + MORE_KIB, "{after:?}");
    gateway.end();
}
