//! A small client of rtnetlink: links, addresses, queues and can-gw jobs of a network namespace.
//!
//! ```text
//!  links, set_up, create_vcan ...  -- link.rs --+
//!  add_address, queue -- here ------------------+--> message.rs --> kernel
//!  add_job, jobs (payload of route::netlink) ---+      |
//!                              a dump, or an acknowledgement with the kernel's own words
//! ```
//!
//! Answers are untrusted bytes: whatever they are, they are decoded within their bounds.

mod link;
mod message;
mod monitor;

pub use link::{CanSettings, CanState, Condition, Link, Statistics, decode_link};
pub use monitor::{Event, Monitor};

use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use message::{
    HEADER_LEN, Message, Request, acknowledgement, attributes, end_of_dump, messages, u32_at,
};

use candor_time::{Monotonic, Nanos};

use crate::clock;
use crate::namespace::Namespace;
use crate::poll::{self, Interest};
use crate::socket::{self, retry};
use crate::{Errno, Error};

// `linux/netlink.h`, `linux/rtnetlink.h`
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const DUMP: u16 = 0x300;
const CREATE_NEW: u16 = 0x600;
const DUMP_INTERRUPTED: u16 = 0x10;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_QUEUE: u16 = 36;
const GET_QUEUE: u16 = 38;

/// The most that the kernel puts into one datagram of an answer is 32 KiB.
const BUFFER_LEN: usize = 64 << 10;
/// How often a dump is begun anew if something changed meanwhile.
const ATTEMPTS: usize = 8;

/// A connection to the kernel's rtnetlink, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

/// What waits in front of an interface (its queueing disciplines, together).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Frames that wait now.
    pub length: u64,
    /// Frames refused since the interface came up.
    pub drops: u64,
}

impl Netlink {
    /// Connects.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self, Error> {
        Self::open_for(0)
    }

    /// Connects, and asks for messages about what changes (`nl_groups`).
    fn open_for(groups: u32) -> Result<Self, Error> {
        let fail = |errno| Error::new("open", "a netlink socket", errno);
        let fd =
            socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map_err(fail)?;
        // SAFETY: zeroes are a valid `sockaddr_nl`; they let the kernel choose the port.
        let mut address: libc::sockaddr_nl = unsafe { MaybeUninit::zeroed().assume_init() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        socket::bind(fd.as_fd(), &address).map_err(fail)?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            // Kernels before 4.12 have no words of their own; they are not missed.
            let _ = socket::set_option(fd.as_fd(), libc::SOL_NETLINK, option, &1_i32);
        }
        Ok(Self { fd, sequence: 0, buffer: vec![0; BUFFER_LEN].into() })
    }

    /// Sends a request and hands what comes back to `take`, until the kernel is done.
    fn transact(
        &mut self,
        request: Request,
        mut take: impl FnMut(&Message<'_>),
    ) -> Result<(), Refusal> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        retry(|| {
            // SAFETY: `bytes.len()` bytes can be read from it.
            unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }
        })?;
        let mut is_interrupted = false;
        loop {
            let count = self.receive()?.ok_or(Errno(libc::EAGAIN))?;
            for message in messages(self.buffer.get(..count).unwrap_or_default()) {
                if message.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= message.flags & DUMP_INTERRUPTED != 0;
                match end(&message) {
                    None => take(&message),
                    Some(Ok(())) if is_interrupted => return Err(Refusal::interrupted()),
                    Some(outcome) => return outcome,
                }
            }
        }
    }

    /// Receives a datagram of the kernel into the buffer; `None` if there is none and the socket
    /// does not block.
    fn receive(&mut self) -> Result<Option<usize>, Refusal> {
        loop {
            // SAFETY: zeroes are a valid `sockaddr_nl`.
            let mut sender: libc::sockaddr_nl = unsafe { MaybeUninit::zeroed().assume_init() };
            let sender_place: *mut libc::sockaddr_nl = &mut sender;
            let count = retry(|| {
                let (bytes, room) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
                let mut len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                // SAFETY: `room` bytes can be written from `bytes`, and an address of `len` bytes.
                unsafe {
                    libc::recvfrom(
                        self.fd.as_raw_fd(),
                        bytes,
                        room,
                        libc::MSG_TRUNC,
                        sender_place.cast(),
                        &mut len,
                    )
                }
            })?;
            let Some(count) = count else { return Ok(None) };
            match count {
                // Other processes may write to this socket; only the kernel is believed.
                _ if sender.nl_pid != 0 => {}
                count if count > self.buffer.len() => return Err(Errno(libc::EMSGSIZE).into()),
                // Nothing that is a message would be waited for again, for ever.
                count if count < HEADER_LEN => return Err(Errno(libc::EBADMSG).into()),
                count => return Ok(Some(count)),
            }
        }
    }

    /// A request that the kernel only acknowledges.
    fn request(
        &mut self,
        attempt: &'static str,
        subject: &str,
        request: Request,
    ) -> Result<(), Error> {
        self.transact(request, |_| {}).map_err(|refusal| refusal.error(attempt, subject))
    }

    /// A dump, begun anew if something changed meanwhile.
    fn dump<T>(
        &mut self,
        attempt: &'static str,
        request: &Request,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let mut left = ATTEMPTS;
        loop {
            let mut items = Vec::new();
            left -= 1;
            match self.transact(request.clone(), |message| items.extend(decode(message))) {
                Ok(()) => return Ok(items),
                Err(refusal) if refusal.is_interrupted() && left > 0 => {}
                Err(refusal) => return Err(refusal.error(attempt, "")),
            }
        }
    }

    /// All links, by index.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let request = Request::new(GET_LINK, REQUEST | DUMP).with(&link::information(0, 0, 0));
        let mut links = self.dump("list the links", &request, |message| {
            (message.kind == NEW_LINK).then(|| decode_link(message.payload))?
        })?;
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The link of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn link(&mut self, name: &str) -> Result<Link, Error> {
        let request = Request::new(GET_LINK, REQUEST | ACKNOWLEDGE)
            .with(&link::information(0, 0, 0))
            .text(link::NAME, name);
        self.one_link(name, request)
    }

    /// The link with that index.
    ///
    /// # Errors
    /// There is none.
    pub fn link_at(&mut self, index: u32) -> Result<Link, Error> {
        let request =
            Request::new(GET_LINK, REQUEST | ACKNOWLEDGE).with(&link::information(index, 0, 0));
        self.one_link(&format!("interface {index}"), request)
    }

    fn one_link(&mut self, subject: &str, request: Request) -> Result<Link, Error> {
        let attempt = "read the link";
        let mut found = None;
        self.transact(request, |message| {
            if message.kind == NEW_LINK {
                found = decode_link(message.payload);
            }
        })
        .map_err(|refusal| refusal.error(attempt, subject))?;
        found.ok_or_else(|| Error::new(attempt, subject, Errno(libc::EBADMSG)))
    }

    /// Switches a link on or off. The first one of a pair works only once the other one is on, and
    /// a while later: see [`Netlink::wait_until_running`].
    ///
    /// # Errors
    /// A CAN controller without a bit rate, no permission.
    pub fn set_up(&mut self, name: &str, is_up: bool) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let flags = if is_up { link::UP } else { 0 };
        let request = link::change(index, flags, link::UP);
        self.request(if is_up { "start" } else { "stop" }, name, request).map_err(|error| {
            error.remedy_if(libc::EINVAL, "a CAN controller needs a bit rate first")
        })
    }

    /// Waits until a link works, at most `timeout`.
    ///
    /// When the second one of a veth or vxcan pair is switched on, the kernel puts the queue of the
    /// first one into place only some time later. Until then it drops what is sent there, and says
    /// that it was taken.
    ///
    /// # Errors
    /// It does not work by then.
    pub fn wait_until_running(&mut self, name: &str, timeout: Nanos) -> Result<(), Error> {
        let mut changes = Self::open_for(libc::RTMGRP_LINK as u32)?;
        let index = self.link(name)?.index;
        let deadline = clock::now::<Monotonic>() + timeout;
        // The kernel tells changes of a link behind those of its queue.
        while !self.link_at(index)?.is_running {
            let left = deadline - clock::now::<Monotonic>();
            if !poll::wait(&changes.fd, Interest::Read, Some(left))? {
                return Err(Error::other(
                    "use",
                    name,
                    format!("it is not running after {timeout}"),
                )
                .with_remedy("the other end of the pair must also be up"));
            }
            match changes.receive() {
                // More has changed than was looked at, or something was.
                Err(Refusal { errno: Errno(libc::ENOBUFS), .. }) | Ok(_) => {}
                Err(refusal) => return Err(refusal.error("watch the link", name)),
            }
        }
        Ok(())
    }

    /// Gives a link, which must be down, another name.
    ///
    /// # Errors
    /// It is up, or the name is already used.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).text(link::NAME, new);
        self.request("rename", name, request).map_err(|error| {
            error
                .remedy_if(libc::EBUSY, "stop the interface first")
                .remedy_if(libc::EEXIST, "an interface with this name already exists")
                .remedy_if(libc::EINVAL, "names have 1 to 15 characters")
                .remedy_if(libc::ERANGE, "names have 1 to 15 characters")
        })
    }

    /// Sets how many frames may wait in front of an interface (`txqueuelen`).
    ///
    /// # Errors
    /// No permission.
    pub fn set_queue_length(&mut self, name: &str, frames: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).number(link::QUEUE_LENGTH, frames);
        self.request("set the queue length of", name, request)
    }

    /// Sets the size of the largest frame; 72 makes a vcan interface take CAN FD, 16 not.
    ///
    /// # Errors
    /// The interface does not have that size, or is up.
    pub fn set_mtu(&mut self, name: &str, bytes: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).number(link::MTU, bytes);
        self.request("set the MTU of", name, request)
            .map_err(|error| error.remedy_if(libc::EBUSY, "stop the interface first"))
    }

    /// Sets up a CAN controller, which must be down.
    ///
    /// # Errors
    /// It is up, cannot do this, or is no controller (a vcan interface has no bit rate).
    pub fn set_can(&mut self, name: &str, settings: &CanSettings) -> Result<(), Error> {
        let link = self.link(name)?;
        let request = settings.request(&link);
        self.request("set up the CAN controller", name, request).map_err(|error| {
            error
                .remedy_if(libc::EBUSY, "stop the interface first")
                .remedy_if(
                    libc::EOPNOTSUPP,
                    "the controller does not support this, or it is not \
                                              a CAN controller",
                )
                .remedy_if(libc::EDOM, "the controller's clock cannot produce this bit rate")
        })
    }

    /// Makes a virtual CAN interface, which is down at first.
    ///
    /// # Errors
    /// The name is taken, or the module vcan is not loaded.
    pub fn create_vcan(&mut self, name: &str) -> Result<(), Error> {
        self.create(name, "vcan", None)
    }

    /// Makes a pair of virtual CAN interfaces: what is sent to one is received at the other, once
    /// both run, see [`Netlink::wait_until_running`].
    ///
    /// # Errors
    /// A name is taken, or the module vxcan is not loaded.
    pub fn create_vxcan(&mut self, name: &str, peer: &str) -> Result<(), Error> {
        self.create(name, "vxcan", Some(peer))
    }

    /// Makes a pair of virtual CAN interfaces, the peer in another network namespace, both with the
    /// same index there: a frame keeps the index of the interface that it was first sent on, so the
    /// kernel takes a frame of the peer for one that came in from outside.
    ///
    /// # Errors
    /// A name or the index is already used, or the module vxcan is not loaded.
    pub fn create_vxcan_across(
        &mut self,
        name: &str,
        peer: &str,
        index: u32,
        namespace: &Namespace,
    ) -> Result<(), Error> {
        let fd = namespace.as_fd().as_raw_fd().unsigned_abs();
        let request = link::create_across(name, peer, index, fd);
        self.request("create the pair", name, request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, "load the module vxcan")
                .remedy_if(libc::EEXIST, "the name is already used")
                .remedy_if(libc::EBUSY, "the index is already used")
        })
    }

    /// Makes a pair of virtual Ethernet interfaces.
    ///
    /// # Errors
    /// A name is taken, or the module veth is not loaded.
    pub fn create_veth(&mut self, name: &str, peer: &str) -> Result<(), Error> {
        self.create(name, "veth", Some(peer))
    }

    fn create(&mut self, name: &str, kind: &str, peer: Option<&str>) -> Result<(), Error> {
        let request = link::create(name, kind, peer);
        self.request("create the interface", name, request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, "load its module: vcan, vxcan or veth")
                .remedy_if(libc::EEXIST, "an interface with this name already exists")
                .remedy_if(libc::EINVAL, "names have 1 to 15 characters")
                .remedy_if(libc::ERANGE, "names have 1 to 15 characters")
        })
    }

    /// Deletes a virtual interface, and its peer if it has one.
    ///
    /// # Errors
    /// It is not virtual.
    pub fn delete(&mut self, name: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request =
            Request::new(DELETE_LINK, REQUEST | ACKNOWLEDGE).with(&link::information(index, 0, 0));
        self.request("delete the interface", name, request).map_err(|error| {
            error.remedy_if(libc::EOPNOTSUPP, "only virtual interfaces can be deleted")
        })
    }

    /// Moves an interface to another network namespace, where it is down and without addresses.
    ///
    /// # Errors
    /// It cannot be moved, or one of its name is there.
    pub fn move_to(&mut self, name: &str, namespace: &Namespace) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let fd = namespace.as_fd().as_raw_fd().unsigned_abs();
        let request = link::change(index, 0, 0).number(link::NAMESPACE_FD, fd);
        self.request("move to another namespace", name, request).map_err(|error| {
            error.remedy_if(
                libc::EEXIST,
                "an interface with this name exists \
                                                            there",
            )
        })
    }

    /// Gives an interface an address: `10.0.0.1/24` is `(Ipv4Addr::new(10, 0, 0, 1), 24)`.
    ///
    /// # Errors
    /// It has the address already.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let [i0, i1, i2, i3] = index.to_ne_bytes();
        // struct ifaddrmsg: family, prefix, flags, scope, index.
        let request = Request::new(NEW_ADDRESS, REQUEST | ACKNOWLEDGE | CREATE_NEW)
            .with(&[libc::AF_INET as u8, prefix, 0, 0, i0, i1, i2, i3])
            .attribute(libc::IFA_LOCAL, &address.octets())
            .attribute(libc::IFA_ADDRESS, &address.octets());
        self.request("add an address to", name, request)
            .map_err(|error| error.remedy_if(libc::EEXIST, "it already has this address"))
    }

    /// What waits in front of an interface, and what was refused there.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn queue(&mut self, name: &str) -> Result<Queue, Error> {
        let index = self.link(name)?.index;
        let request = Request::new(GET_QUEUE, REQUEST | DUMP).with(&queue_information(index));
        let found = self.dump("list the queues", &request, |message| {
            (message.kind == NEW_QUEUE).then(|| decode_queue(message.payload))?
        })?;
        // The root counts what its children refuse too.
        let own = found.iter().filter(|(of, _)| *of == index);
        Ok(own.map(|(_, queue)| *queue).max_by_key(|queue| queue.drops).unwrap_or_default())
    }

    /// Adds a can-gw job; `payload` is `struct rtcanmsg` and attributes, as `route::netlink` makes
    /// them.
    ///
    /// # Errors
    /// can-gw is not loaded, or refuses the job.
    pub fn add_job(&mut self, payload: &[u8]) -> Result<(), Error> {
        let request = Request::new(NEW_ROUTE, REQUEST | ACKNOWLEDGE).with(payload);
        self.job_request("add", request).map_err(|error| {
            let remedy = "the kernel gives no reason; common ones are limit_hops above the module \
                          parameter max_hops, the same interface on both sides without \
                          allow_return, and a uid that another rule has";
            error.remedy_if(libc::EINVAL, remedy)
        })
    }

    /// Deletes the first can-gw job that is equal to `payload`; one with both interfaces 0 deletes
    /// all.
    ///
    /// # Errors
    /// can-gw is not loaded, or has no such job.
    pub fn delete_job(&mut self, payload: &[u8]) -> Result<(), Error> {
        let request = Request::new(DELETE_ROUTE, REQUEST | ACKNOWLEDGE).with(payload);
        self.job_request("delete", request)
            .map_err(|error| error.remedy_if(libc::EINVAL, "the job does not exist"))
    }

    fn job_request(&mut self, attempt: &'static str, request: Request) -> Result<(), Error> {
        let no_gateway = "load the module can-gw: `modprobe can-gw`";
        self.request(attempt, "a can-gw job", request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, no_gateway)
                .remedy_if(libc::EAFNOSUPPORT, no_gateway)
                .remedy_if(libc::EPERM, "this needs root or CAP_NET_ADMIN")
                .remedy_if(libc::ENODEV, "both interfaces must exist and be CAN interfaces")
        })
    }

    /// The payloads of all can-gw jobs, the one that was added last first, for `route::netlink` to
    /// decode.
    ///
    /// # Errors
    /// can-gw is not loaded.
    pub fn jobs(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let request = Request::new(GET_ROUTE, REQUEST | DUMP).with(&[libc::AF_CAN as u8, 0, 0, 0]);
        self.dump("list the can-gw jobs", &request, |message| {
            let is_job =
                message.kind == NEW_ROUTE && message.payload.first() == Some(&(libc::AF_CAN as u8));
            is_job.then(|| message.payload.to_vec())
        })
        .map_err(|error| error.remedy_if(libc::EOPNOTSUPP, "load the module can-gw"))
    }
}

/// `struct tcmsg`: family, padding, interface, handle, parent, information.
fn queue_information(index: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes
}

/// Reads `struct tcmsg` and its statistics: the interface and its queue. `None` if it is cut.
#[must_use]
pub fn decode_queue(payload: &[u8]) -> Option<(u32, Queue)> {
    /// `TCA_STATS2`, and in it `TCA_STATS_QUEUE`: `struct gnet_stats_queue`.
    const STATISTICS: u16 = 7;
    const OF_QUEUE: u16 = 3;
    let index = u32_at(payload, 4)?;
    let mut queue = Queue::default();
    let statistics = attributes(payload.get(20..)?).filter(|found| found.kind == STATISTICS);
    for found in statistics.flat_map(|found| found.nested()) {
        if found.kind == OF_QUEUE {
            queue.length = u64::from(u32_at(found.value, 0)?);
            queue.drops = u64::from(u32_at(found.value, 8)?);
        }
    }
    Some((index, queue))
}

/// The messages of a datagram of the kernel, each decoded as what it may be: how many were
/// understood. For tests with untrusted bytes.
#[must_use]
pub fn decode_datagram(bytes: &[u8]) -> usize {
    let understood = |message: Message<'_>| match message.kind {
        ERROR => acknowledgement(&message).is_some(),
        DONE => end_of_dump(&message).is_some(),
        NEW_QUEUE => decode_queue(message.payload).is_some(),
        _ => decode_link(message.payload).is_some(),
    };
    messages(bytes).filter(|message| understood(*message)).count()
}

/// How a request ended; `None` if there is more to come.
fn end(message: &Message<'_>) -> Option<Result<(), Refusal>> {
    let reported = match message.kind {
        ERROR => acknowledgement(message),
        DONE => end_of_dump(message),
        _ => return None,
    };
    Some(match reported {
        Some((0, _)) => Ok(()),
        Some((errno, words)) => Err(Refusal { errno: Errno(errno), words }),
        None => Err(Errno(libc::EBADMSG).into()),
    })
}

/// Why the kernel refused.
#[derive(Debug)]
struct Refusal {
    errno: Errno,
    words: Option<String>,
}

impl Refusal {
    /// A dump that is not of one moment.
    fn interrupted() -> Self {
        Errno(libc::EINTR).into()
    }

    fn is_interrupted(&self) -> bool {
        self.errno == Errno(libc::EINTR)
    }

    fn error(self, attempt: &'static str, subject: &str) -> Error {
        Error::new(attempt, subject, self.errno)
            .with_detail(self.words)
            .remedy_if(libc::EPERM, "this needs root or CAP_NET_ADMIN")
            .remedy_if(libc::ENODEV, "list the interfaces with `ip link`")
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { errno, words: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_the_kernels_words() {
        const WITH_WORDS: u16 = 0x202;
        let mut payload = (-libc::EINVAL).to_ne_bytes().to_vec();
        let at_once = Request::new(0, 0).attribute(1, b"no such dump").finish(0);
        payload.extend(&at_once[HEADER_LEN..]);
        let message =
            |kind, flags| Message { kind, flags, sequence: 1, payload: payload.as_slice() };
        let refusal = end(&message(DONE, WITH_WORDS)).unwrap().unwrap_err();
        assert_eq!(refusal.errno, Errno(libc::EINVAL));
        let error = refusal.error("list", "links").to_string();
        assert_eq!(error, "cannot list links: EINVAL (Invalid argument): no such dump");
        let refusal = end(&message(ERROR, 0)).unwrap().unwrap_err();
        assert_eq!((refusal.errno, refusal.words), (Errno(libc::EINVAL), None));
        assert!(end(&message(NEW_LINK, 0)).is_none());
        let success = Message { kind: DONE, flags: 2, sequence: 1, payload: &[0; 4] };
        assert!(end(&success).unwrap().is_ok());
    }
}
