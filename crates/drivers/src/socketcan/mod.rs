//! `can0`, `socketcan:can0`: an interface of Linux, by CAN sockets.
//!
//! ```text
//!  wanted            receives by             transmits by
//!  nothing besides   recv, one at a time     one socket without echo; with echo, that of the receiver
//!  some stamps       recv, one at a time     the same
//!  stamps            recvmmsg, in batches    the same
//!  own frames        recvmmsg, in batches    that of the receiver, always with echo
//! ```
//!
//! - Without stamps and own frames a wake-up costs as little as it can: one system call per frame,
//!   which tells nothing but the frame. All frames count as those of the bus ([`Origin::Bus`](candor_port::Origin::Bus)), also
//!   what other programs of this machine transmit there.
//! - What a port transmits with echo is seen by all programs but not by its own receiver, unless own
//!   frames are wanted: if both halves were opened together, they share that socket. With own
//!   frames, every frame is transmitted with echo: the kernel returns nothing else.
//! - A controller takes frames from a first-in-first-out queue of the kernel. What waits there
//!   cannot be overtaken: with a small `send_buffer` only a few frames do, and the others wait with
//!   whoever transmits, who may know which is the most urgent. The kernel grants 4,608 bytes at
//!   least, which are about six frames.
//! - A receiver that cannot go on says why. It may be used further: once the interface is up again,
//!   frames come again. If it went away, the port has to be opened anew. The kernel tells each
//!   socket once: of two halves that share one, perhaps the transmitter is the one that learns it.

mod receiver;
mod transmitter;

use std::sync::Arc;

use candor_linux as linux;
use candor_linux::can::{Filter, Socket, Stamps};
use candor_linux::netlink::{Condition, Netlink};
use candor_linux::{Errno, ethtool, state};
use candor_wire::can::Frame;
use candor_wire::can::socketcan::{self, CAN_MTU, CANFD_MTU, IdOrder};

use self::receiver::{BatchReceiver, OneByOne};
pub(super) use self::transmitter::{Outlets, Sockets};
use crate::drops::Drops;
use crate::kernel;
use crate::wait::Wait;
use candor_port::{
    Address, Capabilities, Control, Driver, Endpoint, Error, Handover, Medium, Message, Port,
    State, Status, Wanted,
};

pub(crate) static DRIVER: Driver = Driver {
    name: "socketcan",
    summary: "a Linux interface, through a CAN socket",
    medium: Medium::Interface,
    example: "can0",
    options: &[
        ("buffer", "the receive buffer in bytes, about 800 per frame"),
        ("send_buffer", "the send buffer in bytes, about 800 per frame"),
    ],
    check: |address, _| buffers(address).map(drop),
    names: |_| Vec::new(),
    open,
};

/// Every class of error reports.
const ALL_ERRORS: u32 = 0x1FFF_FFFF;

/// What the kernel takes at most for a socket (`CAN_RAW_FILTER_MAX`).
const MOST_FILTERS: usize = 512;

/// The bytes of both buffers, where they are given.
fn buffers(address: &Address) -> Result<(Option<u32>, Option<u32>), Error> {
    Ok((address.parsed("buffer", "1048576")?, address.parsed("send_buffer", "8192")?))
}

/// What a port leaves to the one that replaces it: the socket that receives on an interface.
struct Receives {
    interface: Box<str>,
    socket: Arc<Socket>,
    drops: Arc<Drops>,
}

fn open(address: &Address, wanted: Wanted, handover: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let interface = address.place();
    let (buffer, send_buffer) = buffers(address)?;
    let fail = |error| failure(&name, interface, &error);

    let mut port = Port {
        capabilities: capabilities(interface),
        receiver: None,
        transmitter: None,
        endpoint: None,
        control: Some(Arc::new(Link { name: name.as_str().into(), interface: interface.into() })),
    };
    // What a socket transmits does not come back to it, but to all others.
    let mut shared = None;
    if wanted.receiver {
        let left = handover.take(|left: &Receives| *left.interface == *interface);
        let (socket, drops) = match left {
            Some(left) => {
                left.socket.set_filters(&[Filter::ANY]).map_err(fail)?;
                (Arc::clone(&left.socket), Arc::clone(&left.drops))
            }
            None => (Arc::new(Socket::open(interface).map_err(fail)?), Arc::default()),
        };
        let granted = set_up(&socket, buffer, wanted).map_err(fail)?;
        let receives = Receives {
            interface: interface.into(),
            socket: Arc::clone(&socket),
            drops: Arc::clone(&drops),
        };
        port.endpoint = Some(Endpoint::new(Arc::new(receives)));
        if wanted.transmitter {
            if let Some(bytes) = send_buffer {
                socket.set_send_buffer(bytes).map_err(fail)?;
            }
            shared = Some(Arc::clone(&socket));
        }
        let is_sparse = wanted.stamps && wanted.sparse_stamps;
        let wait = Wait::new(&name, wanted)?;
        port.receiver = Some(if wanted.stamps && !is_sparse || wanted.own_frames {
            Box::new(BatchReceiver::open(&name, interface, socket, drops, wait).map_err(fail)?)
        } else {
            let receiver = OneByOne::new(&name, interface, socket, drops, granted, is_sparse, wait);
            Box::new(receiver.map_err(fail)?)
        });
    }
    if wanted.transmitter {
        let outlets = match shared {
            Some(socket) if wanted.own_frames => Outlets::Shared(socket),
            shared => Outlets::pair(interface, send_buffer, shared).map_err(fail)?,
        };
        port.transmitter = Some(Box::new(Sockets::new(outlets)));
    }
    Ok(port)
}

/// Lets a socket receive what is wanted. The bytes of its buffer.
fn set_up(socket: &Socket, buffer: Option<u32>, wanted: Wanted) -> Result<u32, linux::Error> {
    socket.accept_fd()?;
    socket.set_error_mask(if wanted.error_reports { ALL_ERRORS } else { 0 })?;
    let granted = match buffer {
        Some(bytes) => socket.set_receive_buffer(bytes)?,
        None => state::receive_buffer(socket)?,
    };
    if wanted.stamps && !wanted.sparse_stamps {
        socket.set_stamps(Stamps::Hardware)?;
    }
    socket.set_receive_own(wanted.own_frames)?;
    Ok(granted)
}

/// An interface, which netlink tells about.
pub(super) struct Link {
    pub(super) name: Box<str>,
    pub(super) interface: Box<str>,
}

impl Control for Link {
    fn status(&self) -> Result<Status, Error> {
        let link = Netlink::open()
            .and_then(|mut netlink| netlink.link(&self.interface))
            .map_err(|error| kernel::while_open(failure(&self.name, &self.interface, &error)))?;
        let Some(can) = link.can else {
            // A virtual one has no errors.
            let state = if link.is_up { State::Active } else { State::Stopped };
            return Ok(Status { state, ..Status::default() });
        };
        let rate = |rate: u32| (rate > 0).then_some(rate);
        let state = match can.condition() {
            _ if !link.is_up => State::Stopped,
            Some(Condition::ErrorActive) => State::Active,
            Some(Condition::ErrorWarning) => State::Warning,
            Some(Condition::ErrorPassive) => State::Passive,
            Some(Condition::BusOff) => State::BusOff,
            Some(Condition::Stopped | Condition::Sleeping) => State::Stopped,
            None => State::Unknown,
        };
        Ok(Status {
            state,
            receive_errors: can.error_counters.map(|counters| u32::from(counters.receive)),
            transmit_errors: can.error_counters.map(|counters| u32::from(counters.transmit)),
            bitrate: rate(can.bitrate),
            data_bitrate: rate(can.data_bitrate),
        })
    }
}

/// Lets a socket receive only what passes; false if the kernel cannot do that with so many.
fn set_filters(
    socket: &Socket,
    filters: Option<&[candor_port::Filter]>,
) -> Result<bool, linux::Error> {
    let Some(filters) = filters.filter(|filters| filters.len() <= MOST_FILTERS) else {
        return socket.set_filters(&[Filter::ANY]).map(|()| filters.is_none());
    };
    let word = |filter: &candor_port::Filter| {
        let candor_port::Filter { id, mask } = filter.normalized();
        Filter { can_id: id, mask }
    };
    socket.set_filters(&filters.iter().map(word).collect::<Vec<_>>()).map(|()| true)
}

/// What the interface says of itself. An interface that cannot be asked is taken for a plain one.
pub(super) fn capabilities(interface: &str) -> Capabilities {
    let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
    let has_clock = ethtool::stamping(interface).is_ok_and(|stamping| stamping.hardware);
    Capabilities {
        fd: link.is_ok_and(|link| link.mtu >= CANFD_MTU as u32),
        remote: true,
        error_reports: true,
        own_frames: true,
        stamps: true,
        hardware_stamps: has_clock,
        ordered: true,
        reliable: true,
        message: Message::Frame,
    }
}

/// What the kernel says about an interface.
#[cold]
pub(super) fn failure(name: &str, interface: &str, error: &linux::Error) -> Error {
    let failure = kernel::failure(name, error);
    let is_down = error.errno().and_then(Errno::name) == Some("ENETDOWN");
    match error.remedy() {
        None if is_down => {
            failure.with_remedy(format!("the interface is down: `ip link set {interface} up`"))
        }
        _ => failure,
    }
}

/// The frame that a socket passed, if it is a legal one.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Option<Frame> {
    if let Ok(classical) = <&[u8; CAN_MTU]>::try_from(bytes)
        && let Some(frame) = socketcan::decode_tidy(classical, IdOrder::NATIVE)
    {
        return Some(frame);
    }
    decode_untidy(bytes)
}

#[inline(never)]
fn decode_untidy(bytes: &[u8]) -> Option<Frame> {
    socketcan::decode(bytes, IdOrder::NATIVE).ok()
}
