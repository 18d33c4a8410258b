//! The checks, one file each, and their registry.

mod buffers;
mod can;
mod clock;
mod container;
mod cpus;
mod governor;
mod interfaces;
mod interrupts;
mod kernel;
mod laboratory;
mod memory;
mod packet;
mod priority;
mod rights;
mod service;
mod slack;
mod smt;
mod throttling;

pub use laboratory::Laboratory;

use crate::{Item, Sources};

/// Something that is looked at.
pub struct Check {
    /// Its name, in the documentation too.
    pub name: &'static str,
    /// What it looks at, in a sentence without a full stop.
    pub summary: &'static str,
    /// Looks and judges.
    pub examine: fn(&Sources) -> Vec<Item>,
}

/// All checks, in the order in which they are reported: what a gateway needs first.
pub static CHECKS: &[Check] = &[
    Check { name: "kernel", summary: "version, PREEMPT_RT", examine: kernel::examine },
    Check { name: "can", summary: "CAN sockets, modules, can-gw", examine: can::examine },
    Check { name: "interfaces", summary: "each CAN interface", examine: interfaces::examine },
    Check { name: "rights", summary: "capabilities of this process", examine: rights::examine },
    Check { name: "packet", summary: "packet and XDP sockets", examine: packet::examine },
    Check { name: "container", summary: "the network namespace", examine: container::examine },
    Check { name: "buffers", summary: "the limit of receive buffers", examine: buffers::examine },
    Check { name: "priority", summary: "real-time priority", examine: priority::examine },
    Check { name: "memory", summary: "the limit of locked memory", examine: memory::examine },
    Check { name: "throttling", summary: "the real-time budget", examine: throttling::examine },
    Check { name: "interrupts", summary: "interrupt threads", examine: interrupts::examine },
    Check { name: "cpus", summary: "isolated CPUs", examine: cpus::examine },
    Check { name: "smt", summary: "CPUs that share a core", examine: smt::examine },
    Check { name: "governor", summary: "CPU frequency", examine: governor::examine },
    Check { name: "clock", summary: "the clock source", examine: clock::examine },
    Check { name: "slack", summary: "timer slack", examine: slack::examine },
    Check { name: "service", summary: "systemd", examine: service::examine },
    Check { name: "laboratory", summary: "QEMU, kernels for it", examine: laboratory::examine },
];
