//! Ethernet sockets (`AF_PACKET`): whole frames in and out, each with the time at which the kernel passed it on.
//!
//! ```text
//!  send --> | queue | driver --> cable --> driver | socket | --> receive
//!                   ^ transmit_stamps             ^ Received::stamp
//! ```
//!
//! Both stamps are made by the kernel in software (`SO_TIMESTAMPING`): of a sent frame immediately before the driver has
//! it, of a received one as soon as the driver has handed it over. They are of the real-time clock, so the difference
//! of those of two interfaces of one machine is how long a frame took from one to the other, without the programs at its
//! ends. Whether a driver stamps what it transmits is in [`Stamping::transmit_software`].
//!
//! Nothing here waits but [`EthernetSocket::wait`]; a program that must not lose time calls
//! [`EthernetSocket::receive`] again and again.
//!
//! ```no_run
//! use candor_linux::Sent;
//! use candor_linux::ethernet::{EthernetSocket, Options};
//!
//! let socket = EthernetSocket::open("eth0", Options::default())?;
//! let id = socket.next_id();
//! if socket.send(&[0xFF; 60])? == Sent::Taken {
//!     println!("frame {id} is sent");
//! }
//! socket.transmit_stamps(&mut |id, stamp| println!("frame {id} left at {stamp:?}"))?;
//! # Ok::<(), candor_linux::Error>(())
//! ```
//!
//! [`Stamping::transmit_software`]: crate::ethtool::Stamping::transmit_software

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use candor_time::{Instant, Realtime};
use candor_wire::eth::{Address, HEADER_LEN, TAG_LEN};
use libc::{c_int, c_uint};
use rustix::net::SendFlags;

use crate::clock::{self, KernelClock};
use crate::control::{self, CONTROL_WORDS, Control};
use crate::error::check;
use crate::packet::{self, ALL_PROTOCOLS, fail};
use crate::poll::{self, Interest};
use crate::socket::{self, retried, sent};
use crate::{Errno, Error, Sent, interface_index};

/// `ETH_P_802_2` of `linux/if_ether.h`: frames with a length in place of a type.
const LENGTH_PROTOCOL: u16 = libc::ETH_P_802_2 as u16;
/// What stamps frames in both directions: by software, reported in software, for sent ones with their number
/// (`OPT_ID`) and without their bytes (`OPT_TSONLY`). Documentation/networking/timestamping.rst of Linux.
const RECEIVE_STAMPS: c_uint = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
const TRANSMIT_STAMPS: c_uint = libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// `SCM_TSTAMP_SND` of `linux/errqueue.h`: the stamp is of when the driver had the frame.
const STAMP_OF_SENDING: u32 = 0;

/// Which frames a socket receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    All,
    /// Those of an EtherType, 0x0600 or more.
    EtherType(u16),
    /// Those with a length in place of a type (IEEE 802.3, clause 3.2.6), but for those whose payload begins with
    /// FF FF, which Linux keeps apart.
    Length,
}

impl Protocol {
    fn number(self) -> Option<u16> {
        match self {
            Self::All => Some(ALL_PROTOCOLS),
            Self::EtherType(ether_type) => {
                (ether_type >= candor_wire::eth::ether_type::FIRST).then_some(ether_type)
            }
            Self::Length => Some(LENGTH_PROTOCOL),
        }
    }
}

/// How a socket is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which frames it receives.
    pub protocol: Protocol,
    /// Whether the interface takes frames for all addresses while the socket is open (`PACKET_MR_PROMISC`). Without
    /// it, a network card leaves out groups that nobody has joined.
    pub is_promiscuous: bool,
    /// Whether sent frames are stamped. The stamps must be fetched: they wait in the receive buffer, and take the room
    /// of frames there.
    pub has_transmit_stamps: bool,
    /// Whether it also receives what others on this machine send on the interface, but for frames that go past its queue.
    /// Their stamp is of immediately before the driver has them. Only a socket for all protocols does.
    pub hears_outgoing: bool,
    /// Whether sent frames go past the queue of the interface straight to the driver (`PACKET_QDISC_BYPASS`): if it has
    /// no room, they are refused.
    pub is_past_queue: bool,
    /// Bytes of the receive buffer, above the limit for ordinary users if permitted, or what the system gives. A frame
    /// costs its length, rounded up to a power of two or to a page, and some hundred bytes.
    pub receive_buffer: Option<u32>,
}

impl Default for Options {
    /// All frames for all addresses, stamps of both kinds, by the queue, and the receive buffer of the system.
    fn default() -> Self {
        Self {
            protocol: Protocol::All,
            is_promiscuous: true,
            has_transmit_stamps: true,
            hears_outgoing: false,
            is_past_queue: false,
            receive_buffer: None,
        }
    }
}

/// A received frame, whose bytes are in the buffer of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes of it are in the buffer. There is no frame check sequence. There is no VLAN tag either: the kernel
    /// takes it out.
    pub len: usize,
    /// Whether the frame is longer than the buffer; the rest is lost.
    pub is_truncated: bool,
    /// When the driver handed it to the kernel. The kernel begins to stamp some time after the first socket of the
    /// machine asks for it (it rewrites its own code in a worker); frames that come before have no stamp.
    pub stamp: Option<Instant<Realtime>>,
}

/// A socket that sends and receives whole Ethernet frames on one interface. It does not see what this machine sends on
/// that interface, unless it is asked to ([`Options::hears_outgoing`]).
///
/// On the loopback interface, whose frames have headers of Ethernet too, what is sent comes back.
#[derive(Debug)]
pub struct EthernetSocket {
    fd: OwnedFd,
    interface: Box<str>,
    address: Address,
    next_id: AtomicU32,
}

impl EthernetSocket {
    /// Opens one on an interface of this network namespace.
    ///
    /// # Errors
    /// No permission; the interface is not there, is down, or is none of Ethernet; the protocol is a length.
    pub fn open(interface: &str, options: Options) -> Result<Self, Error> {
        let attempt = "open an Ethernet socket on";
        let fail = |attempt| move |errno| fail(attempt, interface, errno);
        let protocol = options.protocol.number().ok_or_else(|| {
            Error::other(attempt, interface, "the EtherType is below 0x0600 and thus a length")
                .with_remedy("choose an EtherType of 0x0600 or more, or all lengths")
        })?;
        // First of all, so that the permission is asked for, whatever the name is.
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(fail(attempt))?;
        let index = interface_index(interface)?;
        let set = |level, option, value: c_int| {
            socket::set_option(fd.as_fd(), level, option, value)
                .map_err(fail("set up an Ethernet socket on"))
        };
        let ignores_outgoing = c_int::from(!options.hears_outgoing);
        set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, ignores_outgoing)?;
        set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, c_int::from(options.is_past_queue))?;
        let transmit = if options.has_transmit_stamps { TRANSMIT_STAMPS } else { 0 };
        let stamps = RECEIVE_STAMPS | transmit;
        set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps.cast_signed())?;
        if let Some(bytes) = options.receive_buffer {
            socket::set_receive_buffer(fd.as_fd(), bytes)
                .map_err(fail("set the receive buffer of an Ethernet socket on"))?;
        }
        // Of protocol 0 until now, it has received nothing of other interfaces.
        socket::bind(fd.as_fd(), &packet::address(index, protocol)).map_err(fail(attempt))?;
        // To bind to an interface that is down is no error, but leaves one.
        if let Ok(Err(errno)) = rustix::net::sockopt::socket_error(&fd) {
            return Err(fail(attempt)(errno.into()));
        }
        let address = own_address(fd.as_fd()).map_err(fail(attempt))?;
        if ![libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&address.sll_hatype) {
            let reason = format!("it is not an Ethernet interface (ARPHRD {})", address.sll_hatype);
            return Err(Error::other(attempt, interface, reason)
                .with_remedy("list those of Ethernet with `ip -brief link`"));
        }
        if options.is_promiscuous {
            let membership = libc::packet_mreq {
                mr_ifindex: index.cast_signed(),
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            socket::set_structures(fd.as_fd(), &[membership])
                .map_err(fail("receive the frames for all addresses on"))?;
        }
        let [a, b, c, d, e, f, _, _] = address.sll_addr;
        let address = Address([a, b, c, d, e, f]);
        Ok(Self { fd, interface: interface.into(), address, next_id: AtomicU32::new(0) })
    }

    /// The name of its interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The address of its interface when the socket was opened.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    fn error(&self, attempt: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| fail(attempt, &self.interface, errno)
    }

    /// The number of the next frame in [`EthernetSocket::transmit_stamps`]. It begins at 0, and at 0 again behind the
    /// largest.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        self.next_id.load(Ordering::Relaxed)
    }

    /// Sends a frame, without its frame check sequence; does not wait for room in the send buffer. The kernel does not
    /// pad short frames. Frames are numbered by the kernel in the order in which they are sent: only one thread at a time
    /// may send.
    ///
    /// A frame that is not [`Sent::Taken`] has no stamp, but one that found the queue full has a number, so ask
    /// [`EthernetSocket::next_id`] before each frame. One that is taken has no stamp if the kernel drops it later, such
    /// as when the cable is unplugged, or if there was no room for the stamp.
    ///
    /// # Errors
    /// The interface is down or gone, or the frame is too short or too long for it. That it went down is told once after
    /// it is up again, here or by [`EthernetSocket::receive`].
    pub fn send(&self, frame: &[u8]) -> Result<Sent, Error> {
        let flags = SendFlags::DONTWAIT;
        let outcome = sent(retried(|| rustix::net::send(&self.fd, frame, flags)));
        let is_numbered = match outcome {
            Ok(Sent::Taken | Sent::QueueFull) => true,
            Ok(Sent::WouldBlock) => false,
            Err(Errno(libc::EMSGSIZE)) => self.is_numbered_if_too_long(frame.len()),
            Err(_) => false,
        };
        if is_numbered {
            self.next_id.store(self.next_id().wrapping_add(1), Ordering::Relaxed);
        }
        outcome.map_err(|errno| {
            self.error("send on")(errno)
                .remedy_if(libc::EINVAL, "a frame has at least 14 bytes")
                .remedy_if(
                    libc::EMSGSIZE,
                    "a frame has at most the MTU and 14 bytes: `ip link set NAME mtu BYTES`",
                )
        })
    }

    /// Whether a frame that is too long has been numbered all the same. `packet_snd` of Linux (`net/packet/af_packet.c`)
    /// allows for a VLAN tag first, numbers the frame, and refuses it then if there is no tag.
    fn is_numbered_if_too_long(&self, len: usize) -> bool {
        mtu(self.as_fd(), &self.interface).is_ok_and(|mtu| len <= mtu + HEADER_LEN + TAG_LEN)
    }

    /// Takes all stamps of sent frames that are there: the number of the frame, see [`EthernetSocket::next_id`], and when
    /// the driver got it. Returns how many there were; does not wait. Another thread than that which sends may call it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn transmit_stamps(
        &self,
        take: &mut dyn FnMut(u32, Instant<Realtime>),
    ) -> Result<usize, Error> {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let mut control: Control = [0; CONTROL_WORDS];
        let mut count = 0;
        loop {
            let message = socket::receive_message(self.as_fd(), &mut [], &mut control, flags)
                .map_err(self.error("read the stamps of frames sent on"))?;
            let Some(message) = message else { return Ok(count) };
            if let Some((id, stamp)) = transmit_stamp(message.control) {
                take(id, stamp);
                count += 1;
            }
        }
    }

    /// Receives a frame; `None` if there is none. Does not wait.
    ///
    /// # Errors
    /// The interface went down or away; this is told once.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>, Error> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let mut control: Control = [0; CONTROL_WORDS];
        let message = socket::receive_message(self.as_fd(), buffer, &mut control, flags)
            .map_err(self.error("receive from"))?;
        let Some(message) = message else { return Ok(None) };
        let len = message.count.min(buffer.len());
        let is_truncated = message.count > buffer.len();
        let stamp = stamp(message.control);
        Ok(Some(Received { len, is_truncated, stamp }))
    }

    /// Waits until a frame or the stamp of a sent one can be fetched, or the clock says `until`. False if there is
    /// neither. As long as there are stamps it does not wait: fetch them all first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait<C: KernelClock>(&self, until: Instant<C>) -> Result<bool, Error> {
        poll::wait(self, Interest::Read, Some(until - clock::now::<C>()))
    }

    /// Looks whether the interface is still there. [`EthernetSocket::receive`] does not tell it from one that is down.
    ///
    /// # Errors
    /// It is gone.
    pub fn check_interface(&self) -> Result<(), Error> {
        // `packet_notifier` of Linux (`net/packet/af_packet.c`) sets the index to -1 when the interface goes.
        match own_address(self.as_fd()) {
            Ok(address) if address.sll_ifindex < 0 => Err(Errno(libc::ENODEV)),
            outcome => outcome.map(drop),
        }
        .map_err(self.error("use"))
    }

    /// Frames that found no room in the receive buffer since this was last asked.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn drops(&self) -> Result<u32, Error> {
        packet::drops(self.as_fd()).map_err(self.error("read the statistics of"))
    }
}

impl AsFd for EthernetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The address that a socket is bound to, with the kind and the address of the interface.
fn own_address(fd: BorrowedFd<'_>) -> Result<libc::sockaddr_ll, Errno> {
    // SAFETY: zeroes are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    let place: *mut libc::sockaddr_ll = &mut address;
    // SAFETY: `place` points to `len` writable bytes.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), place.cast(), &mut len) })?;
    Ok(address)
}

/// Bytes of payload that an interface takes.
fn mtu(fd: BorrowedFd<'_>, interface: &str) -> Result<usize, Errno> {
    let mut request = socket::interface_request(interface)?;
    // SAFETY: the request is an `ifreq` with a name that ends with a zero; the kernel writes no more than that.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) })?;
    // SAFETY: this is what the kernel has written.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// The software stamp among control messages.
fn stamp(messages: &[u8]) -> Option<Instant<Realtime>> {
    control::messages(messages).find_map(|(level, kind, data)| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => control::instant(data, 0),
        _ => None,
    })
}

/// The number and the stamp of a sent frame among the control messages of an error queue: next to the stamp there is a
/// `struct sock_extended_err` (`linux/errqueue.h`).
fn transmit_stamp(messages: &[u8]) -> Option<(u32, Instant<Realtime>)> {
    let id = control::messages(messages).find_map(|(level, kind, data)| match (level, kind) {
        (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
            // errno 4, origin, type, code, padding, info 4, data 4
            let [_, _, _, _, origin, _, _, _, i0, i1, i2, i3, d0, d1, d2, d3] =
                *data.first_chunk()?;
            let info = u32::from_ne_bytes([i0, i1, i2, i3]);
            (origin == libc::SO_EE_ORIGIN_TIMESTAMPING && info == STAMP_OF_SENDING)
                .then_some(u32::from_ne_bytes([d0, d1, d2, d3]))
        }
        _ => None,
    });
    Some((id?, stamp(messages)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A control message as the kernel would write it.
    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let len = size_of::<usize>() + 8 + data.len();
        let mut bytes = Vec::from(len.to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    /// The three times of `SCM_TIMESTAMPING`, of which the first is 5.000000007 s.
    fn times() -> Vec<u8> {
        let data: Vec<u8> =
            [5_usize, 7, 0, 0, 0, 0].iter().flat_map(|it| it.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    fn number(origin: u8, info: u32, id: u32) -> Vec<u8> {
        let mut data = Vec::from(libc::ENOMSG.to_ne_bytes());
        data.extend([origin, 0, 0, 0]);
        data.extend(info.to_ne_bytes());
        data.extend(id.to_ne_bytes());
        message(libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP, &data)
    }

    #[test]
    fn stamps_of_sent_frames_have_a_number() {
        let stamp = Instant::from_nanos(5_000_000_007);
        for (messages, expected) in [
            ([times(), number(4, 0, 0xABCD_EF01)], Some((0xABCD_EF01, stamp))),
            ([number(4, 0, 0), times()], Some((0, stamp))),
            // No stamp, no number, an error of something else, a stamp of the queue.
            ([number(4, 0, 1), vec![]], None),
            ([times(), vec![]], None),
            ([times(), number(1, 0, 1)], None),
            ([times(), number(4, 1, 1)], None),
        ] {
            assert_eq!(transmit_stamp(&messages.concat()), expected);
        }
        assert_eq!(super::stamp(&times()), Some(stamp));
        assert_eq!(super::stamp(&number(4, 0, 1)), None);
    }

    #[test]
    fn lengths_are_no_ether_types() {
        for (protocol, number) in [
            (Protocol::All, Some(3)),
            (Protocol::Length, Some(4)),
            (Protocol::EtherType(0x88D7), Some(0x88D7)),
            (Protocol::EtherType(0x600), Some(0x600)),
            (Protocol::EtherType(0x5FF), None),
            (Protocol::EtherType(3), None),
        ] {
            assert_eq!(protocol.number(), number, "{protocol:?}");
        }
        let options = Options { protocol: Protocol::EtherType(46), ..Options::default() };
        let error = EthernetSocket::open("lo", options).unwrap_err();
        assert!(error.to_string().contains("0x0600") && error.remedy().is_some(), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0..200_usize) {
            let mut messages = [times(), number(4, 0, 7), bytes].concat();
            messages.truncate(cut);
            let found = transmit_stamp(&messages);
            prop_assert!(found.is_none_or(|(id, _)| id == 7));
            let _ = super::stamp(&messages);
        }
    }
}
