//! [`Attempt`]: to open ports that are not there yet, in a thread of its own, since a name server may not answer.

use std::thread::{self, JoinHandle};

use candor_engine::Bus;
use candor_port::{Handover, Wanted};

use super::port::{Halves, Named, OpenPort, PortId, open_port};

/// An attempt to open all ports that are not there yet.
pub(super) struct Attempt {
    thread: JoinHandle<Vec<(PortId, Halves)>>,
}

impl Attempt {
    /// Begins one, if a port is not there.
    pub(super) fn begin(ports: &[OpenPort]) -> Option<Self> {
        let absent = ports.iter().filter(|port| port.is_absent);
        let absent: Vec<(PortId, Bus, Named, Wanted)> =
            absent.map(|it| (it.id, it.bus.clone(), it.named.clone(), it.wanted)).collect();
        if absent.is_empty() {
            return None;
        }
        let work = move || {
            candor_drivers::look_up(absent.iter().map(|(_, _, named, _)| &named.address));
            let open = |(id, bus, named, wanted): (PortId, Bus, Named, Wanted)| {
                let halves = open_port(&bus, &named.address, wanted, &Handover::default());
                Some((id, halves.ok()?))
            };
            absent.into_iter().filter_map(open).collect()
        };
        // If there can be no thread, the next tick tries again.
        let thread = thread::Builder::new().name("candor-absent".to_owned()).spawn(work).ok()?;
        Some(Self { thread })
    }

    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Puts what was opened into the places of ports that still wait for it.
    pub(super) fn end(self, ports: &mut [OpenPort]) {
        for (id, halves) in self.thread.join().unwrap_or_default() {
            let port = ports.iter_mut().find(|port| port.id == id && port.is_absent);
            if let Some(port) = port {
                port.put(halves);
            }
        }
    }
}
