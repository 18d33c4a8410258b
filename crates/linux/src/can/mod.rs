//! CAN sockets (`PF_CAN`, `CAN_RAW`).
//!
//! ```text
//!  one frame                            Socket::receive (read)
//!  many, with stamps and overflow       Socket::receive_batch (recvmmsg) into an Inbox
//!  sending                              Socket::send (write)
//! ```
//!
//! A frame that a socket passes is a [`RawFrame`]: its bytes as the kernel has them.
//! [`RawFrame::frame`] makes a [`Frame`](candor_wire::can::Frame) of it, which is always legal.
//!
//! The receiver of an [`Inbox`] learns when the kernel took the frame from the driver, and how many frames its own socket had to drop since it was opened.

mod batch;
mod raw;
mod received;

pub use batch::Inbox;
pub use raw::RawFrame;
pub use received::Received;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_uint, c_void};

use crate::error::check;
use crate::interface::{self, Use, can_interface_index};
use crate::socket::{self, retry, sent};
use crate::{Errno, Error, Sent};

/// A receive filter: a frame passes if `frame & mask == can_id & mask` (`struct can_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Filter {
    /// The identifier word. Bit 29 (`CAN_INV_FILTER`) takes what does *not* match.
    pub can_id: u32,
    /// The bits of it that count.
    pub mask: u32,
}

// SAFETY: `raw_setsockopt` of net/can/raw.c reads an array of them; two numbers.
unsafe impl socket::Structure for Filter {
    const LEVEL: c_int = libc::SOL_CAN_RAW;
    const OPTION: c_int = libc::CAN_RAW_FILTER;
}

impl Filter {
    /// Every frame but error reports: what a new socket has.
    pub const ANY: Self = Self { can_id: 0, mask: 0 };
}

/// Which time stamps the kernel puts on received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// None.
    #[default]
    None,
    /// When the driver handed the frame over, of the real-time clock (`SO_TIMESTAMPNS`).
    Software,
    /// The same, and the controller's own where it has a clock (`SO_TIMESTAMPING`).
    Hardware,
}

/// A raw CAN socket on one interface. It takes classical frames until [`Socket::accept_fd`], blocks
/// until [`Socket::set_blocking`], and sees what other programs of this machine send on the
/// interface, but not what it sends itself.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    interface: Box<str>,
}

impl Socket {
    /// Opens one in the network namespace of this thread.
    ///
    /// # Errors
    /// There is no such interface, it is no CAN interface, or the kernel knows no CAN.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let socket = Self::unbound(interface)?;
        socket.bind(can_interface_index(interface)?)?;
        Ok(socket)
    }

    /// Opens one on an interface, to send only: no frame is ever put into its receive buffer, which
    /// saves the kernel the work.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub fn open_for_sending(interface: &str) -> Result<Self, Error> {
        let socket = Self::unbound(interface)?;
        socket.set_filters(&[])?;
        socket.bind(can_interface_index(interface)?)?;
        Ok(socket)
    }

    fn unbound(interface: &str) -> Result<Self, Error> {
        let remedy = || interface::remedy(interface, Use::Can);
        socket::open(libc::PF_CAN, libc::SOCK_RAW, libc::CAN_RAW)
            .map(|fd| Self { fd, interface: interface.into() })
            .map_err(|errno| {
                Error::new("open a CAN socket on", interface, errno)
                    .remedy_with(libc::EAFNOSUPPORT, remedy)
                    .remedy_with(libc::EPROTONOSUPPORT, remedy)
            })
    }

    fn bind(&self, index: u32) -> Result<(), Error> {
        // SAFETY: zeroes are a valid `sockaddr_can`.
        let mut address: libc::sockaddr_can = unsafe { MaybeUninit::zeroed().assume_init() };
        address.can_family = libc::AF_CAN as libc::sa_family_t;
        address.can_ifindex = index as c_int;
        socket::bind(self.as_fd(), &address).map_err(|errno| {
            self.error("bind a CAN socket to", errno)
                .remedy_if(libc::ENODEV, "it is not a CAN interface; see `ip link show type can`")
        })
    }

    fn error(&self, attempt: &'static str, errno: Errno) -> Error {
        Error::new(attempt, &*self.interface, errno)
            .remedy_if(libc::ENETDOWN, "the interface is down: `ip link set NAME up`")
    }

    fn set(&self, attempt: &'static str, option: c_int, value: c_int) -> Result<(), Error> {
        socket::set_option(self.as_fd(), libc::SOL_CAN_RAW, option, value)
            .map_err(|errno| self.error(attempt, errno))
    }

    fn set_common(&self, attempt: &'static str, option: c_int, value: c_int) -> Result<(), Error> {
        socket::set_option(self.as_fd(), libc::SOL_SOCKET, option, value)
            .map_err(|errno| self.error(attempt, errno))
    }

    /// The name of its interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Takes and sends CAN FD frames too.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn accept_fd(&self) -> Result<(), Error> {
        self.set("accept CAN FD frames on", libc::CAN_RAW_FD_FRAMES, 1)
    }

    /// Which error reports to take: bits of the error classes, `0x1FFF_FFFF` for all, 0 for none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_error_mask(&self, classes: u32) -> Result<(), Error> {
        self.set("choose the error reports of", libc::CAN_RAW_ERR_FILTER, classes.cast_signed())
    }

    /// Whether other sockets of this machine see what is sent here; they do at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_loopback(&self, is_seen: bool) -> Result<(), Error> {
        self.set("set the loopback of", libc::CAN_RAW_LOOPBACK, is_seen.into())
    }

    /// Whether this socket sees what it sends itself, when it has been sent; not at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_receive_own(&self, is_seen: bool) -> Result<(), Error> {
        self.set("receive own frames of", libc::CAN_RAW_RECV_OWN_MSGS, is_seen.into())
    }

    /// Takes what passes any of these filters; with none of them, nothing.
    ///
    /// # Errors
    /// There are more than the kernel takes, 512.
    pub fn set_filters(&self, filters: &[Filter]) -> Result<(), Error> {
        socket::set_structures(self.as_fd(), filters).map_err(|errno| {
            self.error("set the filters of", errno)
                .remedy_if(libc::EINVAL, "the kernel takes at most 512 filters for a socket")
        })
    }

    /// Sets the receive buffer, above the limit for ordinary users if permitted; returns the bytes
    /// that the kernel granted. Each frame costs several hundred of them, whatever its length.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_receive_buffer(&self, bytes: u32) -> Result<u32, Error> {
        socket::set_receive_buffer(self.as_fd(), bytes)
            .map_err(|errno| self.error("set the receive buffer of", errno))
    }

    /// Sets the send buffer likewise: how many frames of this socket may be in the kernel until
    /// sending blocks. If the queue of the interface is full, sending answers [`Sent::QueueFull`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_send_buffer(&self, bytes: u32) -> Result<u32, Error> {
        socket::set_send_buffer(self.as_fd(), bytes)
            .map_err(|errno| self.error("set the send buffer of", errno))
    }

    /// Chooses the time stamps of received frames.
    ///
    /// The kernel begins to stamp some time after the first socket of the machine asks for it (it
    /// rewrites its own code in a worker). Frames that come before have no stamp, or with
    /// [`Stamps::Software`] that of the moment when they are read.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_stamps(&self, stamps: Stamps) -> Result<(), Error> {
        let hardware = libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let software = (libc::SO_TIMESTAMPNS, c_int::from(stamps == Stamps::Software));
        let is_hardware = stamps == Stamps::Hardware;
        let hardware = (libc::SO_TIMESTAMPING, if is_hardware { hardware as c_int } else { 0 });
        // What is wanted first, so that stamping does not pause in between.
        let options = if is_hardware { [hardware, software] } else { [software, hardware] };
        let attempt = "stamp the frames of";
        options.iter().try_for_each(|&(option, value)| self.set_common(attempt, option, value))
    }

    /// Counts the frames that this socket drops because its buffer is full; the count comes with
    /// the next frame.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn count_overflow(&self) -> Result<(), Error> {
        self.set_common("count the overflow of", libc::SO_RXQ_OVFL, 1)
    }

    /// Marks what is sent here, so that a ring can leave it out, see
    /// [`Ring::ignore_mark`](crate::packet::Ring::ignore_mark).
    ///
    /// # Errors
    /// No permission.
    pub fn set_mark(&self, mark: u32) -> Result<(), Error> {
        socket::set_mark(self.as_fd(), mark).map_err(|errno| {
            self.error("set the mark of", errno)
                .remedy_if(libc::EPERM, "this needs root or CAP_NET_ADMIN")
        })
    }

    /// Whether calls wait.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_blocking(&self, is_blocking: bool) -> Result<(), Error> {
        socket::set_blocking(self.as_fd(), is_blocking)
            .map_err(|errno| self.error("set the blocking of", errno))
    }

    /// Receives a frame; `None` if there is none and the socket does not block.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn receive(&self) -> Result<Option<RawFrame>, Error> {
        let mut frame = RawFrame::empty();
        let bytes = frame.room();
        let (bytes, room): (*mut c_void, usize) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: `room` bytes can be written from `bytes`.
        let count = retry(|| unsafe { libc::read(self.fd.as_raw_fd(), bytes, room) })
            .map_err(|errno| self.error("receive from", errno))?;
        frame.set_len(count.unwrap_or(0));
        Ok(count.is_some().then_some(frame))
    }

    /// Receives as many frames as there are, as far as `inbox` has room (`recvmmsg`), and returns how many. With `can_wait`, and
    /// if the socket blocks, it waits for the first one. A signal ends that if its handler asks for it (no `SA_RESTART`), see
    /// [`wake`](crate::wake): then there are none.
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn receive_batch(&self, inbox: &mut Inbox, can_wait: bool) -> Result<usize, Error> {
        let (headers, room) = inbox.room();
        let count = match check(self.receive_into_slots(headers, room, can_wait)) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(Errno(libc::EINTR | libc::EAGAIN)) => 0,
            Err(errno) => return Err(self.error("receive from", errno)),
        };
        inbox.set_filled(count);
        Ok(count)
    }

    /// `headers` are the `room` headers of an inbox.
    fn receive_into_slots(
        &self,
        headers: *mut libc::mmsghdr,
        room: usize,
        can_wait: bool,
    ) -> isize {
        let flags = if can_wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let (fd, room) = (self.fd.as_raw_fd(), room as c_uint);
        // SAFETY: `headers` are `room` headers that own the buffers they point to, and there is no
        // timeout.
        let count = unsafe { libc::recvmmsg(fd, headers, room, flags as _, std::ptr::null_mut()) };
        count as isize
    }

    /// Sends a frame. To be sent it has only to be legal; the interface may still be too small for
    /// CAN FD.
    ///
    /// # Errors
    /// The interface is down or gone, or takes no CAN FD frames.
    pub fn send(&self, frame: &RawFrame) -> Result<Sent, Error> {
        self.send_bytes(frame.as_bytes())
    }

    /// Sends a frame by its bytes: 16, or 72 for CAN FD.
    ///
    /// # Errors
    /// As [`Socket::send`], and if the bytes are no frame.
    pub fn send_bytes(&self, bytes: &[u8]) -> Result<Sent, Error> {
        // SAFETY: `bytes.len()` bytes can be read from it.
        let outcome = retry(|| unsafe {
            libc::write(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len())
        });
        sent(outcome).map_err(|errno| self.sending(errno))
    }

    fn sending(&self, errno: Errno) -> Error {
        let remedy = "CAN FD needs Socket::accept_fd and an MTU of 72: `ip link set NAME mtu 72` \
                      (vcan), or `fd on` with a data bit rate";
        self.error("send on", errno)
            .remedy_if(libc::EINVAL, remedy)
            .remedy_if(libc::EMSGSIZE, remedy)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_can_the_remedy_is_named() {
        match Socket::open("no-such-can") {
            // The kernel has CAN: then the interface is what is missing.
            Err(error) if error.is(libc::ENODEV) => assert!(error.remedy().is_some()),
            Err(error) => assert!(error.to_string().contains("can-raw"), "{error}"),
            Ok(_) => panic!("there is no such interface"),
        }
    }
}
