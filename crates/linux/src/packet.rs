//! Packet sockets (`AF_PACKET`) on CAN interfaces: frames without the CAN layer in between.
//!
//! ```text
//!  kernel  --> | slot | slot | slot | ... |  memory shared with the kernel (TPACKET_V2)
//!                 ^ Ring::receive: the oldest frame; dropping it gives the slot back
//! ```
//!
//! What arrives are the bytes of a CAN socket, 16 or 72. A [`Ring`] sees what comes from the bus and
//! what programs of this machine have sent there; unlike a CAN socket it cannot tell whose that is.
//! A gateway marks what it sends and leaves it out with [`Ring::ignore_mark`].
//!
//! A [`Sender`] hands frames to the queue of the interface, or past it to the driver. A vcan
//! interface shows such frames to nobody; use a CAN socket there.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use candor_time::{Instant, Nanos, Realtime};
use candor_wire::can::socketcan::CANFD_MTU;
use libc::c_int;

use crate::error::check;
use crate::interface::can_interface_index;
use crate::mapping::Mapping;
use crate::poll::{self, Interest};
use crate::socket::{self, retry, sent};
use crate::{Errno, Error, Sent};

/// `ETH_P_ALL`: every protocol, frames that are sent included.
pub(crate) const ALL_PROTOCOLS: u16 = 0x0003;
/// `ETH_P_CAN` and `ETH_P_CANFD`: drivers refuse what is marked otherwise.
const CAN_PROTOCOL: u16 = 0x000C;
const CANFD_PROTOCOL: u16 = 0x000D;
/// Bytes of a slot: the kernel's header and address in front of a CAN FD frame take 160.
const SLOT_LEN: usize = 256;
/// Bytes of a block, a power of two of pages; slots do not cross its end.
const BLOCK_LEN: usize = 1 << 16;
const SLOTS_PER_BLOCK: usize = BLOCK_LEN / SLOT_LEN;

/// What to do without an interface. Sockets do not come back with it.
const GONE: &str = "the interface is gone: look for it with `ip link`, and start again";

pub(crate) fn fail(attempt: &'static str, interface: &str, errno: Errno) -> Error {
    Error::new(attempt, interface, errno)
        .remedy_if(libc::EPERM, "this needs root or CAP_NET_RAW")
        .remedy_if(libc::EAFNOSUPPORT, "load the module af_packet")
        .remedy_if(libc::ENETDOWN, "the interface is down: `ip link set NAME up`")
        .remedy_if(libc::ENXIO, GONE)
        .remedy_if(libc::ENODEV, GONE)
}

/// The address of an interface for `protocol`.
pub(crate) fn address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: zeroes are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as c_int;
    address
}

/// Frames that a packet socket had no room for since this was last asked (`PACKET_STATISTICS`).
pub(crate) fn drops(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of_val(&statistics) as libc::socklen_t;
    let place: *mut libc::tpacket_stats = &mut statistics;
    // SAFETY: `place` points to `len` writable bytes.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            place.cast(),
            &mut len,
        )
    })?;
    Ok(statistics.tp_drops)
}

/// A ring of received frames, shared with the kernel.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    interface: Box<str>,
    index: u32,
    memory: Mapping,
    slots: usize,
    next: usize,
}

impl Ring {
    /// Opens one on an interface of this network namespace with room for at least `frames` frames.
    ///
    /// # Errors
    /// No permission, no such interface, no memory.
    pub fn open(interface: &str, frames: usize) -> Result<Self, Error> {
        let ring = Self::prepare(interface, frames)?;
        ring.start()?;
        Ok(ring)
    }

    /// The same, but nothing arrives until [`Ring::start`]: until then it costs the kernel nothing.
    ///
    /// # Errors
    /// As [`Ring::open`].
    pub fn prepare(interface: &str, frames: usize) -> Result<Self, Error> {
        let fail = |attempt| move |errno| fail(attempt, interface, errno);
        let index = can_interface_index(interface)?;
        // Protocol 0 receives nothing until it is bound, so that nothing of other interfaces comes.
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
            .map_err(fail("open a packet socket on"))?;
        let attempt = "set up the receive ring of";
        let set = |option, value: c_int| {
            socket::set_option(fd.as_fd(), libc::SOL_PACKET, option, value).map_err(fail(attempt))
        };
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int)?;
        set(libc::PACKET_IGNORE_OUTGOING, 1)?;
        let blocks = frames.clamp(1, 1 << 20).div_ceil(SLOTS_PER_BLOCK);
        let slots = blocks * SLOTS_PER_BLOCK;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_LEN as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: SLOT_LEN as u32,
            tp_frame_nr: slots as u32,
        };
        socket::set_structures(fd.as_fd(), &[request])
            .map_err(fail(attempt))
            .map_err(|error| error.remedy_if(libc::ENOMEM, "ask for fewer frames"))?;
        let memory = Mapping::shared(fd.as_fd(), blocks * BLOCK_LEN).map_err(fail(attempt))?;
        Ok(Self { fd, interface: interface.into(), index, memory, slots, next: 0 })
    }

    /// Starts a ring that was only prepared; does nothing to one that is started.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn start(&self) -> Result<(), Error> {
        socket::bind(self.as_fd(), &address(self.index, ALL_PROTOCOLS))
            .map_err(|errno| fail("bind a packet socket to", &self.interface, errno))
    }

    /// Leaves out frames of this machine with that mark, see [`Sender::set_mark`] and
    /// [`can::Socket::set_mark`](crate::can::Socket::set_mark): the kernel drops them before they
    /// take a slot.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ignore_mark(&self, mark: u32) -> Result<(), Error> {
        // load the mark; if it is this one, keep no byte, else all of them
        let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let program = [
            instruction(
                libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
                0,
                0,
                (libc::SKF_AD_OFF + libc::SKF_AD_MARK).cast_unsigned(),
            ),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, mark),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        ];
        socket::attach_filter(self.as_fd(), &program)
            .map_err(|errno| fail("filter the frames of", &self.interface, errno))
    }

    /// Whether there is a frame.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let status = self.memory.slot(self.next).status().load(Ordering::Acquire);
        status & libc::TP_STATUS_USER != 0
    }

    /// The oldest frame, if there is one. Costs no system call.
    #[inline]
    pub fn receive(&mut self) -> Option<Packet<'_>> {
        let slot = self.memory.slot(self.next);
        if slot.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        Some(Packet { slot })
    }

    /// Waits for a frame, at most `timeout` (`None`: for ever). False if there is none.
    ///
    /// # Errors
    /// The interface went down.
    pub fn wait(&self, timeout: Option<Nanos>) -> Result<bool, Error> {
        Ok(poll::wait(self, Interest::Read, timeout)? && self.is_well()?)
    }

    /// Whether the interface is up. To be asked after waiting: that it went down ends waiting too.
    ///
    /// # Errors
    /// The interface went down.
    pub fn is_well(&self) -> Result<bool, Error> {
        match rustix::net::sockopt::socket_error(self) {
            Ok(Err(errno)) => Err(fail("receive from", &self.interface, errno.into())),
            Ok(Ok(())) | Err(_) => Ok(true),
        }
    }

    /// Frames that found no room in the ring since this was last asked.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn overflow(&self) -> Result<u32, Error> {
        drops(self.as_fd()).map_err(|errno| fail("read the statistics of", &self.interface, errno))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A frame in a [`Ring`]. Dropping it gives its slot back to the kernel.
#[derive(Debug)]
pub struct Packet<'r> {
    slot: Slot<'r>,
}

impl Packet<'_> {
    /// The bytes of the frame: 16, or 72 for CAN FD.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let header = self.slot.header();
        let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        self.slot.bytes(start, len)
    }

    /// When the kernel received the frame from the driver.
    #[must_use]
    pub fn stamp(&self) -> Instant<Realtime> {
        let header = self.slot.header();
        let seconds = u64::from(header.tp_sec).saturating_mul(1_000_000_000);
        Instant::from_nanos(seconds.saturating_add(u64::from(header.tp_nsec)))
    }

    /// Whether frames found no room before this one, since [`Ring::overflow`] was last asked.
    #[inline]
    #[must_use]
    pub fn is_after_loss(&self) -> bool {
        self.slot.status().load(Ordering::Relaxed) & libc::TP_STATUS_LOSING != 0
    }
}

impl Drop for Packet<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Mapping {
    /// A slot of a ring.
    #[inline]
    fn slot(&self, index: usize) -> Slot<'_> {
        let at = index * SLOT_LEN;
        assert!(at + SLOT_LEN <= self.len());
        // SAFETY: within the mapping, as was just seen. Slots follow one another without gaps: the
        // size of a block is a multiple of theirs, and so they are aligned to theirs.
        Slot { start: unsafe { self.start().add(at) }, memory: std::marker::PhantomData }
    }
}

/// A slot of a ring: `SLOT_LEN` bytes, of which the first four are its status.
#[derive(Debug)]
struct Slot<'r> {
    start: NonNull<u8>,
    memory: std::marker::PhantomData<&'r Mapping>,
}

impl<'r> Slot<'r> {
    /// Whose it is: the kernel's, or ours with `TP_STATUS_USER`.
    #[inline]
    fn status(&self) -> &'r AtomicU32 {
        // SAFETY: the slot is aligned, within the mapping and lives as long; both sides access its
        // first four bytes atomically only.
        unsafe { self.start.cast::<AtomicU32>().as_ref() }
    }

    /// The header. Only while the slot is ours.
    #[inline]
    fn header(&self) -> libc::tpacket2_hdr {
        // SAFETY: the header is within the slot and aligned; the kernel does not write while the
        // slot is ours. Any bits are a valid header.
        unsafe { self.start.cast::<libc::tpacket2_hdr>().read() }
    }

    /// Part of the slot, cut at its end. Only while the slot is ours.
    #[inline]
    fn bytes(&self, start: usize, len: usize) -> &[u8] {
        let start = start.clamp(size_of::<libc::tpacket2_hdr>(), SLOT_LEN);
        let len = len.min(SLOT_LEN - start);
        // SAFETY: within the slot and apart from the status word; the kernel does not write while
        // the slot is ours.
        unsafe { std::slice::from_raw_parts(self.start.add(start).as_ptr(), len) }
    }
}

/// A socket that sends frames to an interface without the CAN layer in between.
#[derive(Debug)]
pub struct Sender {
    fd: OwnedFd,
    interface: Box<str>,
    index: u32,
}

impl Sender {
    /// Opens one on an interface of this network namespace. With `past_queue`, frames go straight
    /// to the driver (`PACKET_QDISC_BYPASS`): if it has no room, they are refused.
    ///
    /// # Errors
    /// No permission, no such interface.
    pub fn open(interface: &str, past_queue: bool) -> Result<Self, Error> {
        let fail = |errno| fail("open a packet socket on", interface, errno);
        let index = can_interface_index(interface)?;
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(fail)?;
        let bypass = c_int::from(past_queue);
        socket::set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, bypass)
            .map_err(fail)?;
        // Not bound, and of protocol 0: receives nothing.
        Ok(Self { fd, interface: interface.into(), index })
    }

    /// Marks what is sent here, see [`Ring::ignore_mark`].
    ///
    /// # Errors
    /// No permission.
    pub fn set_mark(&self, mark: u32) -> Result<(), Error> {
        socket::set_mark(self.as_fd(), mark)
            .map_err(|errno| fail("set the mark of", &self.interface, errno))
    }

    /// Whether calls wait for room in the send buffer; they do at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_blocking(&self, is_blocking: bool) -> Result<(), Error> {
        socket::set_blocking(self.as_fd(), is_blocking)
            .map_err(|errno| fail("set the blocking of", &self.interface, errno))
    }

    /// Sends a frame by its bytes: 16, or 72 for CAN FD. The kernel does not check them.
    ///
    /// # Errors
    /// The interface is down or gone, or the frame is too long for it.
    pub fn send(&self, bytes: &[u8]) -> Result<Sent, Error> {
        let protocol = if bytes.len() == CANFD_MTU { CANFD_PROTOCOL } else { CAN_PROTOCOL };
        let to: *const libc::sockaddr_ll = &address(self.index, protocol);
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let outcome = retry(|| {
            let (bytes, count) = (bytes.as_ptr().cast(), bytes.len());
            // SAFETY: `count` bytes can be read from `bytes`, and an address of `len` bytes.
            unsafe { libc::sendto(self.fd.as_raw_fd(), bytes, count, 0, to.cast(), len) }
        });
        sent(outcome).map_err(|errno| {
            fail("send on", &self.interface, errno)
                .remedy_if(libc::EMSGSIZE, "CAN FD needs an MTU of 72")
        })
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

// A slot holds the kernel's header and address, some padding and the largest frame.
const _: () = assert!(
    size_of::<libc::tpacket2_hdr>() + size_of::<libc::sockaddr_ll>() + 64 + CANFD_MTU <= SLOT_LEN
);
