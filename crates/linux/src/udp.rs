//! UDP that `std` does not have: datagrams in batches with what the kernel says about each, and sending without
//! waiting.
//!
//! A batch takes one system call and no allocation. What the kernel dropped because the buffer was
//! full is reported with the next datagram that was not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use candor_time::{Instant, Realtime};
use libc::{c_int, c_uint};
use rustix::io::Errno as RawErrno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::control::{self, CONTROL_WORDS};
use crate::error::check;
use crate::mapping::Mapping;
use crate::socket::{self, retry, sent, set_option};
use crate::{Errno, Error, Sent};

/// Datagrams that are received at once.
const BATCH: usize = 32;
/// Room for the longest datagram.
const ROOM: usize = 65_536;

// ---- Addresses ----------------------------------------------------------------------------------

/// A `struct sockaddr_in` or `sockaddr_in6`.
///
/// ```text
///  IPv4 | family 2 | port 2 | address 4 | zeros 8
///  IPv6 | family 2 | port 2 | flow 4 | address 16 | scope 4
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct RawSocketAddress([u8; RawSocketAddress::LEN]);

impl RawSocketAddress {
    const LEN: usize = 28;
    const LEN_V4: usize = 16;

    /// The bytes, and how many of them count.
    fn new(address: SocketAddr) -> (Self, usize) {
        let mut bytes = [0; Self::LEN];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, Self::LEN_V4)
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, Self::LEN)
            }
        };
        bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        (Self(bytes), len)
    }

    /// Where the bytes are.
    const fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// The address, if it is one of these.
    fn address(&self) -> Option<SocketAddr> {
        let [f0, f1, p0, p1, rest @ ..] = self.0;
        let port = u16::from_be_bytes([p0, p1]);
        match c_int::from(libc::sa_family_t::from_ne_bytes([f0, f1])) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
                Some(SocketAddrV4::new(ip, port).into())
            }
            libc::AF_INET6 => {
                let (flow, rest) = rest.split_first_chunk::<4>()?;
                let (ip, rest) = rest.split_first_chunk::<16>()?;
                let scope = u32::from_ne_bytes(*rest.first_chunk()?);
                let flow = u32::from_be_bytes(*flow);
                Some(SocketAddrV6::new((*ip).into(), port, flow, scope).into())
            }
            _ => None,
        }
    }
}

/// Where datagrams are sent to.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    raw: RawSocketAddress,
    len: usize,
}

impl Destination {
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let (raw, len) = RawSocketAddress::new(address);
        Self { raw, len }
    }
}

/// Sends a datagram if there is room; does not wait.
///
/// # Errors
/// There is no way to the destination, or the datagram is too large.
pub fn send(socket: &UdpSocket, bytes: &[u8], to: &Destination) -> Result<Sent, Error> {
    let fd = socket.as_raw_fd();
    let (place, len) = (bytes.as_ptr().cast(), bytes.len());
    let (to, to_len) = (to.raw.as_ptr().cast(), to.len as libc::socklen_t);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `len` bytes can be read from `place`, `to_len` from `to`.
    sent(retry(|| unsafe { libc::sendto(fd, place, len, flags, to, to_len) }))
        .map_err(|errno| Error::new("send", "a datagram", errno))
}

/// The most datagrams that [`send_segments`] takes: `UDP_MAX_SEGMENTS` of Linux before 6.9 (include/linux/udp.h).
pub const MAX_SEGMENTS: usize = 64;

/// A control message with the length of a segment: `struct cmsghdr`, a number of 16 bits, padding.
#[repr(C, align(8))]
struct SegmentControl {
    header: libc::cmsghdr,
    len: u16,
    padding: [u16; 3],
}

/// Sends several datagrams of `segment_len` bytes each, the last of which may be shorter, with one call (`UDP_SEGMENT`,
/// Linux 4.18): the kernel handles them as one until they part. All or none of them leave. They have 65,487 bytes at
/// most.
///
/// # Errors
/// As [`send`]; or the kernel cannot do it here, such as because a segment does not fit into a packet.
pub fn send_segments(
    socket: &UdpSocket,
    bytes: &[u8],
    segment_len: u16,
    to: &Destination,
) -> Result<Sent, Error> {
    const LEN: usize = size_of::<libc::cmsghdr>() + size_of::<u16>();
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros are a message without anything.
    let mut control: SegmentControl = unsafe { std::mem::zeroed() };
    control.header.cmsg_len = LEN as _;
    control.header.cmsg_level = libc::SOL_UDP;
    control.header.cmsg_type = libc::UDP_SEGMENT;
    control.len = segment_len;
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.raw.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<SegmentControl>() as _;
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
    // SAFETY: address, bytes and control message can be read as long as the call takes; it writes none of them.
    sent(retry(|| unsafe { libc::sendmsg(fd, &raw const message, flags) }))
        .map_err(|errno| Error::new("send", "datagrams", errno))
}

// ---- Receiving ----------------------------------------------------------------------------------

/// What the kernel said about a datagram.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    len: usize,
    flags: c_int,
    control_len: usize,
    source_len: usize,
}

/// Room for datagrams, made once. Of the memory, only what was needed ever is resident.
pub struct Inbox {
    /// [`ROOM`] bytes for each datagram.
    memory: Mapping,
    controls: Box<[[u64; CONTROL_WORDS]; BATCH]>,
    sources: Box<[RawSocketAddress; BATCH]>,
    arrivals: [Arrival; BATCH],
    filled: usize,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox ({} of {BATCH})", self.filled)
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its contents.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub source: Option<SocketAddr>,
    /// When the kernel had it, after [`crate::state::set_stamps`].
    pub stamp: Option<Instant<Realtime>>,
    /// How many datagrams the kernel has dropped before it (modulo 2^32), after
    /// [`count_overflow`]; `None` if none.
    pub dropped: Option<u32>,
    /// The end is missing.
    pub is_cut: bool,
}

impl Inbox {
    /// For a batch of datagrams of any size.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, Error> {
        let arrival = Arrival { len: 0, flags: 0, control_len: 0, source_len: 0 };
        let fail = |errno| Error::new("make room for", "datagrams", errno);
        Ok(Self {
            memory: Mapping::zeros(BATCH * ROOM).map_err(fail)?,
            controls: Box::new([[0; CONTROL_WORDS]; BATCH]),
            sources: Box::new([RawSocketAddress([0; RawSocketAddress::LEN]); BATCH]),
            arrivals: [arrival; BATCH],
            filled: 0,
        })
    }

    /// Waits for a datagram and takes what has arrived; returns how many. A signal whose handler
    /// asks for that ends it too (see [`wake`](crate::wake)): then there are none. Without `can_wait`, and
    /// from a socket that does not block, it takes what is there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn receive(&mut self, socket: &UdpSocket, can_wait: bool) -> Result<usize, Error> {
        self.filled = 0;
        let bytes = self.memory.start().as_ptr();
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            // The pointer stays within the mapping: it is `BATCH` times as large.
            iov_base: bytes.wrapping_add(index * ROOM).cast(),
            iov_len: ROOM,
        });
        let vectors = vectors.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        let sources = self.sources.as_mut_ptr();
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|index| {
            // SAFETY: zeroes are a valid `mmsghdr`.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vectors.wrapping_add(index);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = controls.wrapping_add(index).cast();
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
            header.msg_hdr.msg_name = sources.wrapping_add(index).cast();
            header.msg_hdr.msg_namelen = RawSocketAddress::LEN as _;
            header
        });
        let flags = if can_wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let fd = socket.as_raw_fd();
        let room = BATCH as c_uint;
        // SAFETY: each of the `room` headers points to a vector, a control buffer and an address of
        // its own, each vector to `ROOM` bytes of its own; all of them live, and are not used
        // otherwise, until the call returns. No timeout.
        let count = check(unsafe {
            libc::recvmmsg(fd, headers.as_mut_ptr(), room, flags as _, std::ptr::null_mut())
        });
        self.filled = match count {
            Ok(count) => usize::try_from(count).unwrap_or(0).min(BATCH),
            // The answer to something that was sent earlier: nobody is there yet.
            Err(Errno(libc::EINTR | libc::EAGAIN | libc::ECONNREFUSED)) => 0,
            Err(errno) => return Err(Error::new("receive", "datagrams", errno)),
        };
        for (arrival, header) in self.arrivals.iter_mut().zip(&headers).take(self.filled) {
            *arrival = Arrival {
                len: header.msg_len as usize,
                flags: header.msg_hdr.msg_flags,
                control_len: header.msg_hdr.msg_controllen as _,
                source_len: header.msg_hdr.msg_namelen as usize,
            };
        }
        Ok(self.filled)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: all of the mapping can be read, and nobody writes to it while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr(), self.memory.len()) }
    }

    /// A datagram of the batch that was received last.
    #[must_use]
    pub fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        if index >= self.filled {
            return None;
        }
        let (arrival, source) = (self.arrivals.get(index)?, self.sources.get(index)?);
        let bytes = self.bytes().chunks_exact(ROOM).nth(index)?.get(..arrival.len)?;
        let words = self.controls.get(index)?;
        let len = arrival.control_len.min(size_of_val(words));
        // SAFETY: words can be read as bytes, and `len` does not exceed them.
        let bytes_of_control = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) };
        let (mut stamp, mut dropped) = (None, None);
        for (level, kind, data) in control::messages(bytes_of_control) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => stamp = control::instant(data, 0),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    dropped = data.first_chunk().copied().map(u32::from_ne_bytes);
                }
                _ => {}
            }
        }
        Some(Datagram {
            bytes,
            source: source.address().filter(|_| arrival.source_len > 0),
            stamp,
            dropped,
            is_cut: arrival.flags & libc::MSG_TRUNC != 0,
        })
    }
}

// ---- Setting up ---------------------------------------------------------------------------------

/// Lets the kernel report [`Datagram::dropped`] (`SO_RXQ_OVFL`).
///
/// # Errors
/// The kernel refuses.
pub fn count_overflow(socket: &UdpSocket) -> Result<(), Error> {
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
        .map_err(|errno| Error::new("count what is dropped by", "a socket", errno))
}

/// Sets the receive buffer, above the limit for ordinary users if permitted; returns the bytes that
/// the kernel granted, twice what was asked for at most.
///
/// # Errors
/// The kernel refuses.
pub fn set_receive_buffer(socket: &UdpSocket, bytes: u32) -> Result<u32, Error> {
    socket::set_receive_buffer(socket.as_fd(), bytes)
        .map_err(|errno| Error::new("set the receive buffer of", "a socket", errno))
}

/// A socket at an address of its own.
///
/// # Errors
/// Somebody has it, or it is not of this machine.
pub fn bind(address: SocketAddr) -> Result<UdpSocket, Error> {
    bind_with(address, false)
}

/// A socket at an address that other sockets of this machine may use as well: what is sent to a
/// group, or to all, comes to each of them.
///
/// # Errors
/// Somebody has it who does not share it, or it is not of this machine.
pub fn bind_shared(address: SocketAddr) -> Result<UdpSocket, Error> {
    bind_with(address, true)
}

fn bind_with(address: SocketAddr, is_shared: bool) -> Result<UdpSocket, Error> {
    let fail = |errno: RawErrno| {
        Error::new("bind to", address.to_string(), errno.into())
            .remedy_if(libc::EADDRINUSE, "another program uses this port; choose another one")
            .remedy_if(libc::EADDRNOTAVAIL, "list the addresses of this machine with `ip address`")
    };
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let fd = rustix::net::socket_with(domain, kind, flags, None).map_err(fail)?;
    if is_shared {
        sockopt::set_socket_reuseaddr(&fd, true).map_err(fail)?;
        sockopt::set_socket_reuseport(&fd, true).map_err(fail)?;
    }
    rustix::net::bind(&fd, &address).map_err(fail)?;
    Ok(UdpSocket::from(fd))
}

/// By which interface datagrams of a group come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Routes,
    /// The one with this index.
    Interface(u32),
    Address(Ipv4Addr),
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes => f.write_str("the interface that the routes say"),
            Self::Interface(index) => write!(f, "interface number {index}"),
            Self::Address(address) => write!(f, "the interface with the address {address}"),
        }
    }
}

/// Receives what is sent to a group.
///
/// # Errors
/// There is no such interface, no route to the group, or it is no group.
pub fn join(socket: &UdpSocket, group: IpAddr, via: Via) -> Result<(), Error> {
    let outcome = match group {
        IpAddr::V4(group) => {
            let (address, index) = interface(via);
            sockopt::set_ip_add_membership_with_ifindex(socket, &group, &address, index)
        }
        IpAddr::V6(group) => sockopt::set_ipv6_add_membership(socket, &group, interface(via).1),
    };
    outcome.map_err(|errno| {
        Error::new("join the group", group.to_string(), errno.into())
            .remedy_if(libc::ENODEV, "name the interface, or add a route to the group")
            .remedy_if(libc::EINVAL, "groups are 224.0.0.0/4 and ff00::/8")
    })
}

/// Says by which interface, and how far, datagrams to groups go; `hops` 1 stays in the network.
/// Other sockets of this machine that joined receive them too.
///
/// # Errors
/// There is no such interface.
pub fn set_multicast(socket: &UdpSocket, group: IpAddr, via: Via, hops: u8) -> Result<(), Error> {
    let (address, index) = interface(via);
    let outcome = match group {
        IpAddr::V4(_) => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &address, index)
                .and_then(|()| sockopt::set_ip_multicast_ttl(socket, hops.into()))
                .and_then(|()| sockopt::set_ip_multicast_loop(socket, true))
        }
        IpAddr::V6(_) => sockopt::set_ipv6_multicast_if(socket, index)
            .and_then(|()| sockopt::set_ipv6_multicast_hops(socket, hops.into()))
            .and_then(|()| sockopt::set_ipv6_multicast_loop(socket, true)),
    };
    outcome.map_err(|errno| {
        Error::new("send multicast through", via.to_string(), errno.into())
            .remedy_if(libc::EADDRNOTAVAIL, "list the addresses of this machine with `ip address`")
            .remedy_if(libc::ENODEV, "list the interfaces with `ip link`")
    })
}

/// The address and the index of an interface. One of them is zero; if both are, the routes decide.
fn interface(via: Via) -> (Ipv4Addr, u32) {
    match via {
        Via::Routes => (Ipv4Addr::UNSPECIFIED, 0),
        Via::Interface(index) => (Ipv4Addr::UNSPECIFIED, index),
        Via::Address(address) => (address, 0),
    }
}

/// No address in particular, of the same kind as another one, with no port in particular.
#[must_use]
pub const fn any(like: IpAddr) -> SocketAddr {
    let ip = match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(ip, 0)
}

/// The address that datagrams to `to` leave from as the network is now; unspecified if the interface
/// has none. `via` counts for groups.
///
/// # Errors
/// There is no way to it.
pub fn source(to: SocketAddr, via: Via) -> Result<IpAddr, Error> {
    let fail = |error: std::io::Error| {
        let errno = Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
        Error::new("find a route to", to.to_string(), errno)
            .with_remedy("check `ip route` and `ip link`")
    };
    let socket = bind(any(to.ip()))?;
    if to.ip().is_multicast() {
        set_multicast(&socket, to.ip(), via, 1)?;
    }
    socket.set_broadcast(true).map_err(fail)?;
    socket.connect(to).map_err(fail)?;
    Ok(socket.local_addr().map_err(fail)?.ip())
}

/// Whether datagrams from `address` are sent by this machine.
///
/// # Errors
/// The kernel does not say: too many files are open, or there is no memory.
pub fn is_local(address: SocketAddr) -> Result<bool, Error> {
    let mut address = address;
    address.set_port(0);
    if address.ip().is_unspecified() {
        return Ok(false);
    }
    // Only an address of this machine can be bound to.
    match bind(address) {
        Ok(_) => Ok(true),
        Err(error) if error.is(libc::EADDRNOTAVAIL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether what is sent to `address` reaches many: a group, or all of a network that this machine is
/// part of.
///
/// # Errors
/// The kernel does not say.
pub fn reaches_many(address: SocketAddr) -> Result<bool, Error> {
    let ip = address.ip();
    if ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
        return Ok(true);
    }
    // A socket that was not allowed to send to all is not connected to such an address (ip(7)).
    match bind(any(ip))?.connect(address) {
        Ok(()) => Ok(false),
        Err(error) => match error.raw_os_error() {
            Some(libc::EACCES) => Ok(true),
            // It is not of a network of this machine.
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL) => Ok(false),
            number => {
                let errno = Errno(number.unwrap_or(libc::EINVAL));
                Err(Error::new("find a route to", address.to_string(), errno))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state;
    use crate::wake::Wake;

    fn pair(ip: &str) -> (UdpSocket, UdpSocket) {
        let ip: IpAddr = ip.parse().unwrap();
        (UdpSocket::bind((ip, 0)).unwrap(), UdpSocket::bind((ip, 0)).unwrap())
    }

    #[test]
    fn addresses_become_bytes_and_addresses_again() {
        for text in ["127.0.0.1:20000", "[::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawSocketAddress::new(address).0.address(), Some(address));
        }
        assert_eq!(RawSocketAddress([0; RawSocketAddress::LEN]).address(), None);
        let (raw, len) = RawSocketAddress::new("1.2.3.4:258".parse().unwrap());
        assert_eq!((&raw.0[2..8], len), (&[1, 2, 1, 2, 3, 4][..], 16));
    }

    #[test]
    fn a_batch_tells_contents_source_and_stamp() {
        for ip in ["127.0.0.1", "::1"] {
            let (sender, receiver) = pair(ip);
            state::set_stamps(&receiver, true).unwrap();
            let to = Destination::new(receiver.local_addr().unwrap());
            for len in [0, 3, 60_000] {
                assert_eq!(send(&sender, &vec![7; len], &to), Ok(Sent::Taken));
            }
            let mut inbox = Inbox::new().unwrap();
            assert_eq!(inbox.receive(&receiver, true), Ok(3));
            for (index, len) in [0, 3, 60_000].into_iter().enumerate() {
                let datagram = inbox.datagram(index).unwrap();
                assert_eq!(datagram.bytes, vec![7; len]);
                assert_eq!(datagram.source, sender.local_addr().ok());
                assert!(datagram.stamp.is_some() && !datagram.is_cut);
                assert_eq!(datagram.dropped, None);
            }
            assert!(inbox.datagram(3).is_none());
            assert_eq!(inbox.receive(&receiver, false), Ok(0));
            receiver.set_nonblocking(true).unwrap();
            assert_eq!(inbox.receive(&receiver, true), Ok(0));
            assert!(inbox.datagram(0).is_none());
        }
    }

    /// Bytes of an inbox that are resident, as `mincore(2)` says.
    fn resident_bytes(inbox: &Inbox) -> usize {
        let page = rustix::param::page_size();
        let mut pages = vec![0_u8; inbox.memory.len() / page];
        let start = inbox.memory.start().as_ptr();
        // SAFETY: the mapping is there, and `pages` has a byte for each page of it.
        check(unsafe { libc::mincore(start.cast(), inbox.memory.len(), pages.as_mut_ptr()) })
            .unwrap();
        pages.iter().filter(|&page| page & 1 != 0).count() * page
    }

    #[test]
    fn only_what_datagrams_needed_is_resident() {
        // The heap has a large piece to give again, as in a program that has worked for a while.
        for _ in 0..3 {
            drop(std::hint::black_box(vec![1_u8; 4 << 20]));
        }
        let page = rustix::param::page_size();
        let (sender, receiver) = pair("127.0.0.1");
        let to = Destination::new(receiver.local_addr().unwrap());
        let mut inbox = Inbox::new().unwrap();
        assert_eq!(resident_bytes(&inbox), 0);
        for lens in [&[100_usize, 8][..], &[8, 8, 60_000]] {
            for &len in lens {
                assert_eq!(send(&sender, &vec![7; len], &to), Ok(Sent::Taken));
            }
            assert_eq!(inbox.receive(&receiver, true), Ok(lens.len()));
            let needed: usize = lens.iter().map(|len| len.next_multiple_of(page)).sum();
            assert_eq!(resident_bytes(&inbox), needed, "{lens:?}");
        }
    }

    #[test]
    fn what_the_kernel_dropped_is_reported() {
        let (sender, receiver) = pair("127.0.0.1");
        count_overflow(&receiver).unwrap();
        set_receive_buffer(&receiver, 1).unwrap();
        let to = Destination::new(receiver.local_addr().unwrap());
        let mut inbox = Inbox::new().unwrap();
        let mut received = 0;
        // The least buffer holds a few datagrams of this size; the last one is behind all drops.
        for _ in 0..20 {
            assert_eq!(send(&sender, &[0; 1024], &to), Ok(Sent::Taken));
        }
        received += inbox.receive(&receiver, true).unwrap();
        assert_eq!(send(&sender, &[1], &to), Ok(Sent::Taken));
        assert_eq!(inbox.receive(&receiver, true), Ok(1));
        let dropped = inbox.datagram(0).unwrap().dropped.unwrap();
        assert_eq!(dropped as usize, 20 - received);
        assert_eq!(state::memory(&receiver).unwrap().dropped, dropped);
    }

    #[test]
    fn a_signal_ends_waiting() {
        let (_sender, receiver) = pair("127.0.0.1");
        let wake = Wake::new().unwrap();
        let (tell, reported) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(wake.thread()).unwrap();
            let count = Inbox::new().unwrap().receive(&receiver, true);
            done.send(()).unwrap();
            count
        });
        let sleeper = reported.recv().unwrap();
        // A signal may come before it waits.
        while is_done.recv_timeout(std::time::Duration::from_millis(1)).is_err() {
            sleeper.interrupt().unwrap();
        }
        assert_eq!(thread.join().unwrap(), Ok(0));
    }

    #[test]
    fn groups_are_joined_and_sent_to() {
        let loopback = Via::Interface(crate::interface_index("lo").unwrap());
        for via in [Via::Address(Ipv4Addr::LOCALHOST), loopback] {
            let group: IpAddr = "239.74.163.2".parse().unwrap();
            let first = bind_shared(SocketAddr::new(group, 0)).unwrap();
            let address = SocketAddr::new(group, first.local_addr().unwrap().port());
            let second = bind_shared(address).unwrap();
            let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
            join(&first, group, via).unwrap();
            join(&second, group, via).unwrap();
            set_multicast(&sender, group, via, 1).unwrap();
            assert_eq!(send(&sender, b"all", &Destination::new(address)), Ok(Sent::Taken));
            for socket in [first, second] {
                let mut inbox = Inbox::new().unwrap();
                assert_eq!(inbox.receive(&socket, true), Ok(1));
                let datagram = inbox.datagram(0).unwrap();
                assert_eq!(datagram.bytes, b"all");
                let source = datagram.source.unwrap();
                assert_eq!(source.port(), sender.local_addr().unwrap().port());
                assert_eq!(is_local(source), Ok(true), "{source}");
            }
        }
        // The loopback interface has no route to groups of IPv6, so that nothing is sent.
        let group: IpAddr = "ff15::1".parse().unwrap();
        let socket = bind_shared(SocketAddr::new(group, 0)).unwrap();
        join(&socket, group, loopback).unwrap();
        set_multicast(&socket, group, loopback, 1).unwrap();
        let nowhere = Via::Interface(c_int::MAX as u32);
        assert!(set_multicast(&socket, group, nowhere, 1).unwrap_err().is(libc::ENODEV));

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = join(&socket, "192.0.2.1".parse().unwrap(), Via::Routes).unwrap_err();
        assert!(error.to_string().contains("224.0.0.0/4"), "{error}");
    }

    #[test]
    fn addresses_of_others_are_not_local() {
        assert_eq!(is_local("127.0.0.1:9".parse().unwrap()), Ok(true));
        for address in ["198.51.100.9:9", "0.0.0.0:9", "[::]:9"] {
            assert_eq!(is_local(address.parse().unwrap()), Ok(false), "{address}");
        }
    }

    #[test]
    fn addresses_of_many_are_known() {
        for (address, is_many) in [
            ("255.255.255.255:9", true),
            ("127.255.255.255:9", true),
            ("239.74.163.2:9", true),
            ("[ff02::1]:9", true),
            ("127.0.0.1:9", false),
            ("127.255.255.254:9", false),
            ("[::1]:9", false),
            ("0.0.0.0:9", false),
        ] {
            assert_eq!(reaches_many(address.parse().unwrap()), Ok(is_many), "{address}");
        }
    }
}
