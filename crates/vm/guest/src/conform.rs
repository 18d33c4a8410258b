//! The kernel's can-gw as the oracle: trial by trial, its rules, the frames, and what comes out.
//!
//! ```text
//!  network namespace of the tester          that of the gateway
//!  t0 ============== vxcan pair ============== gw0 --+
//!  t1 ============== vxcan pair ============== gw1 --+-- can-gw
//!  t2 ============== vxcan pair ============== gw2 --+
//!  vcan0: markers
//! ```
//!
//! - Both ends of a pair have the same interface index, each in its namespace: a frame keeps the
//!   index of the interface that it was first sent on, and that is what can-gw takes for the
//!   interface that it came in on.
//! - The ends of the tester listen below the CAN layer, which shows nobody an error report without a
//!   class: what a rule can make of a frame.
//! - All that a frame sets off goes through the receive queue of the only processor, a copy of a copy
//!   behind the copy. A marker that is sent into the same queue after the frame comes out behind it.
//!   So many markers one after the other as a frame may pass the gateway, and some more, come out
//!   behind everything: there is no time to wait for, on no kernel.

use candor_linux::Sent;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::module;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::packet::Ring;
use candor_linux::state;
use candor_protocol::order::Trial;
use candor_protocol::report::TrialOutcome;
use candor_protocol::{Message, Order};
use candor_time::Nanos;

use crate::failure::{Context, FAULT, Failure};
use crate::kernel::{Jobs, delete_jobs};
use crate::modules::Modules;
use crate::watchdog;

const PLACE: &str = "conformance";
/// The index of `gw0` and `t0`; the other pairs follow. Beyond those of the machine.
const FIRST_INDEX: u32 = 1_000;
/// The interface of the markers.
const MARKER: &str = "vcan0";
/// Markers beyond the passes of a frame: one for its way in, one for its way out.
const MORE_MARKERS: u8 = 2;
/// A marker is there at once; without it the guest is out of order.
const MARKER_TIMEOUT: Nanos = Nanos::from_secs(1);
/// Room for the copies of a frame.
const RING_LEN: usize = 4_096;

pub(crate) fn conform(
    trials: &[Trial],
    order: &Order,
    hello: &Message,
    messages: &mut Vec<Message>,
) -> Result<(), Failure> {
    watchdog::start(order, hello).at("watchdog", FAULT)?;
    let buses = trials.iter().map(|trial| trial.rules.buses.len()).max().unwrap_or(0);
    let mut oracle = Oracle::new(buses)?;
    for trial in trials {
        messages.push(Message::Trial(oracle.perform(trial)?));
    }
    Ok(())
}

/// A can-gw with interfaces of both namespaces.
struct Oracle {
    modules: Modules,
    /// The hop limit that can-gw is loaded with.
    max_hops: Option<u8>,
    gateway: Netlink,
    /// The ends of the tester, by bus: what sends there, and what listens.
    ends: Vec<(Socket, Ring)>,
    marker_out: Socket,
    marker_in: Socket,
    marker: RawFrame,
}

impl Oracle {
    fn new(buses: usize) -> Result<Self, Failure> {
        let remedy = "use a kernel with vxcan and vcan";
        let modules = Modules::read()?;
        let mut gateway = Netlink::open().at(PLACE, "use a kernel with rtnetlink")?;
        // From here on this thread, and its new sockets, are the tester's.
        let here = Namespace::unshare().at(PLACE, "use a kernel with network namespaces")?;
        let mut tester = Netlink::open().at(PLACE, FAULT)?;
        let mut ends = Vec::new();
        for (index, bus) in (FIRST_INDEX..).zip(0..buses) {
            let (near, far) = (format!("gw{bus}"), format!("t{bus}"));
            gateway.create_vxcan_across(&near, &far, index, &here).at(PLACE, remedy)?;
            gateway.set_up(&near, true).at(PLACE, remedy)?;
            tester.set_up(&far, true).at(PLACE, remedy)?;
            ends.push(end(&far).at(PLACE, FAULT)?);
        }
        tester.create_vcan(MARKER).at(PLACE, remedy)?;
        tester.set_up(MARKER, true).at(PLACE, remedy)?;
        let marker_out = Socket::open_for_sending(MARKER).at(PLACE, FAULT)?;
        let marker_in = Socket::open(MARKER).at(PLACE, FAULT)?;
        state::set_receive_timeout(&marker_in, Some(MARKER_TIMEOUT)).at(PLACE, FAULT)?;
        let marker = candor_wire::can::Frame::from_parts(0, &[], None).at(PLACE, FAULT)?.into();
        Ok(Self { modules, max_hops: None, gateway, ends, marker_out, marker_in, marker })
    }

    /// Performs a trial and tidies up after it.
    fn perform(&mut self, trial: &Trial) -> Result<TrialOutcome, Failure> {
        let max_hops = trial.rules.effective_max_hops();
        self.load(max_hops)?;
        let jobs = Jobs::add(&mut self.gateway, &trial.rules)?;
        let mut copies = Vec::with_capacity(trial.frames.len());
        for (bus, bytes) in &trial.frames {
            self.send(*bus, bytes)?;
            for _ in 0..max_hops + MORE_MARKERS {
                self.pass_marker()?;
            }
            copies.push(self.collect()?);
        }
        let counts = jobs.counts(&mut self.gateway)?;
        delete_jobs(&mut self.gateway)?;
        Ok(TrialOutcome { copies, jobs: counts, refused: jobs.refused })
    }

    /// Loads can-gw with that hop limit, which cannot be changed while it is loaded.
    fn load(&mut self, max_hops: u8) -> Result<(), Failure> {
        if self.max_hops == Some(max_hops) {
            return Ok(());
        }
        if self.max_hops.is_some() {
            let remedy = "use the same max_hops for all trials: this can-gw cannot be unloaded";
            module::unload("can_gw").at(PLACE, remedy)?;
        }
        self.modules.load_with("can_gw", &format!("max_hops={max_hops}"))?;
        self.max_hops = Some(max_hops);
        Ok(())
    }

    fn send(&self, bus: u16, bytes: &[u8]) -> Result<(), Failure> {
        let Some((socket, _)) = self.ends.get(usize::from(bus)) else {
            return Err(Failure::new(PLACE, "a frame for no bus", "name one of the table"));
        };
        match socket.send_bytes(bytes).at(PLACE, "send only frames that a socket accepts")? {
            Sent::Taken => Ok(()),
            Sent::QueueFull | Sent::WouldBlock => {
                Err(Failure::new(PLACE, "the queue of an interface is full", FAULT))
            }
        }
    }

    /// Sends a marker and waits until it comes out.
    fn pass_marker(&self) -> Result<(), Failure> {
        let taken = self.marker_out.send(&self.marker).at(PLACE, FAULT)?;
        match self.marker_in.receive().at(PLACE, FAULT)? {
            Some(_) if taken == Sent::Taken => Ok(()),
            _ => Err(Failure::new(PLACE, "a marker was lost", FAULT)),
        }
    }

    /// What has arrived at the ends of the tester.
    fn collect(&mut self) -> Result<Vec<(u16, Vec<u8>)>, Failure> {
        let mut copies = Vec::new();
        for (bus, (_, ring)) in (0..).zip(&mut self.ends) {
            while let Some(packet) = ring.receive() {
                copies.push((bus, packet.bytes().to_vec()));
            }
            if ring.overflow().at(PLACE, FAULT)? > 0 {
                let reason = "a frame made too many copies";
                return Err(Failure::new(PLACE, reason, "split the rules over several trials"));
            }
        }
        Ok(copies)
    }
}

/// What sends on an end of the tester, and what listens there.
fn end(interface: &str) -> Result<(Socket, Ring), candor_linux::Error> {
    let socket = Socket::open_for_sending(interface)?;
    socket.accept_fd()?;
    socket.set_loopback(false)?;
    Ok((socket, Ring::open(interface, RING_LEN)?))
}
