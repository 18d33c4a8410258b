//! A driver of somebody else is one file, and one line of a registry: this file has both. The suite then
//! tests it as any other.

mod suite;

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use candor_drivers::{Turn, Wait};
use candor_linux::{clock, quick};
use candor_port::{
    Address, Capabilities, Driver, Error, Handover, Medium, Message, Origin, Port, Progress,
    Received, Receiver, ReceiverCounters, Registry, Sent, Stamp, Transmitter, TransmitterCounters,
    Until, Waker, Wanted,
};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::Frame;
use candor_wire::can::socketcan::{self, IdOrder};
use suite::Bench;

/// The line of the registry.
static REGISTRY: Registry = Registry::new(&[&DRIVER]);

/// `mailbox:OWN/PEER`: frames to another program of this machine, as datagrams.
static DRIVER: Driver = Driver {
    name: "mailbox",
    summary: "frames to another program of this machine",
    medium: Medium::Network,
    example: "mailbox:left/right",
    options: &[],
    check: |address, _| names(address).map(|_| ()),
    names: |_| Vec::new(),
    open,
};

/// The names of both ends.
fn names(address: &Address) -> Result<(&str, &str), Error> {
    let is_one = |name: &str| !name.is_empty() && !name.contains('/');
    address.place().split_once('/').filter(|(own, peer)| is_one(own) && is_one(peer)).ok_or_else(
        || {
            Error::new(address.to_string(), "it does not name two ends")
                .with_remedy("write for example mailbox:left/right")
        },
    )
}

fn open(address: &Address, wanted: Wanted, _: &Handover) -> Result<Port, Error> {
    let (own, peer) = names(address)?;
    let fail = |error: io::Error| Error::new(address.to_string(), error.to_string());
    let place = |name: &str| SocketAddr::from_abstract_name(format!("candor-test-{name}"));
    let mut port = Port::new(Capabilities {
        fd: true,
        remote: true,
        ordered: true,
        reliable: true,
        message: Message::Frame,
        ..Capabilities::default()
    });
    if wanted.receiver {
        let socket = UnixDatagram::bind_addr(&place(own).map_err(fail)?).map_err(fail)?;
        let name = address.to_string();
        let (wait, counters) = (Wait::new(&name, wanted)?, Arc::default());
        port.receiver = Some(Box::new(Mailbox { socket, wait, counters, name }));
    }
    if wanted.transmitter {
        let socket = UnixDatagram::unbound().map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        let peer = place(peer).map_err(fail)?;
        port.transmitter = Some(Box::new(Post { socket, peer, counters: Arc::default() }));
    }
    Ok(port)
}

struct Mailbox {
    socket: UnixDatagram,
    wait: Wait,
    counters: Arc<ReceiverCounters>,
    name: String,
}

impl Receiver for Mailbox {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let fail = |error: candor_linux::Error| Error::new(&*self.name, error.to_string());
        let Turn::Read { can_wait } = self.wait.turn(&self.socket, until).map_err(fail)? else {
            return Ok(Progress::Nothing);
        };
        let mut bytes = [0; socketcan::CANFD_MTU + 1];
        let length = quick::receive_once(&self.socket, &mut bytes, can_wait).map_err(fail)?;
        let Some(length) = length else { return Ok(Progress::Nothing) };
        let Ok(frame) = socketcan::decode(&bytes[..length], IdOrder::LittleEndian) else {
            self.counters.malformed.add(1);
            return Ok(Progress::Nothing);
        };
        self.counters.frames.add(1);
        take(&Received { frame, stamp: Stamp::default(), origin: Origin::Bus });
        Ok(Progress::Frames(1))
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

struct Post {
    socket: UnixDatagram,
    peer: SocketAddr,
    counters: Arc<TransmitterCounters>,
}

impl Transmitter for Post {
    fn transmit(&mut self, frame: &Frame, _: bool) -> Sent {
        if frame.kind() == candor_wire::can::Kind::Error {
            return Sent::Unsupported;
        }
        let (bytes, length) = socketcan::encode(frame, IdOrder::LittleEndian);
        match self.socket.send_to_addr(&bytes[..length], &self.peer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.counters.full.add(1);
                return Sent::Full;
            }
            // As on a bus without another node that listens.
            Err(_) => self.counters.lost.add(1),
            Ok(_) => {}
        }
        self.counters.frames.add(1);
        Sent::Taken
    }

    fn wait(&mut self, most: Nanos) {
        let soon = most.min(Nanos::from_micros(100));
        let _ = clock::sleep_until_or_signal(clock::now::<Monotonic>() + soon);
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

#[test]
fn a_driver_of_somebody_else_conforms() {
    let [left, right] = ["left", "right"].map(|end| format!("{end}-{}", std::process::id()));
    suite::run(&Bench {
        world: Arc::new(suite::Machine(REGISTRY)),
        ..Bench::new(format!("mailbox:{left}/{right}"), format!("mailbox:{right}/{left}"))
    });
}

#[test]
fn what_it_does_not_know_is_an_error() {
    for (name, reason) in [
        ("mailbox:left", "it does not name two ends"),
        ("mailbox:left/right?speed=1", "driver `mailbox` has no option `speed`; it has none"),
        ("can0", "unknown driver `socketcan`; the drivers are mailbox"),
    ] {
        let error = REGISTRY.check(&name.parse().unwrap(), Wanted::BOTH).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
