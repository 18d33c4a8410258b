//! What all sockets have in common.

use std::mem::{MaybeUninit, size_of};
use std::num::NonZero;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, socklen_t};
use rustix::io::Errno as RawErrno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, sockopt};

use crate::Errno;
use crate::control::Control;
use crate::error::check;

/// What became of something that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The kernel has it.
    Taken,
    /// The queue of the interface is full (`ENOBUFS`): it is lost unless it is sent again.
    QueueFull,
    /// The socket does not block and has no room (`EAGAIN`).
    WouldBlock,
}

/// A request about an interface, for `ioctl` (`netdevice(7)`).
///
/// # Errors
/// No interface can have that name.
pub(crate) fn interface_request(name: &str) -> Result<libc::ifreq, Errno> {
    // SAFETY: zeroes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // Its last byte stays the zero that ends it.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room || name.contains('\0') {
        return Err(Errno(libc::ENODEV));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// A new socket, closed on exec.
pub(crate) fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd, Errno> {
    let domain = AddressFamily::from_raw(domain as _);
    let kind = SocketType::from_raw(kind.unsigned_abs());
    let protocol = NonZero::new(protocol.unsigned_abs()).map(Protocol::from_raw);
    Ok(rustix::net::socket_with(domain, kind, SocketFlags::CLOEXEC, protocol)?)
}

/// Binds to an address, one of the `sockaddr` structures. The kernel copies it, and follows no pointer in it.
pub(crate) fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T) -> Result<(), Errno> {
    let address: *const T = address;
    let len = size_of::<T>() as socklen_t;
    // SAFETY: `address` points to `len` readable bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.cast(), len) }).map(drop)
}

/// Sets an option to a number. In four bytes is no pointer: options that take structures refuse them.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> Result<(), Errno> {
    // SAFETY: no structure with a pointer is as short.
    unsafe { set_bytes(fd, level, option, std::slice::from_ref(&value)) }
}

/// A structure that is the value of an option, or one of the values.
///
/// # Safety
/// For this option the kernel reads structures of this type, and there is no pointer in them.
pub(crate) unsafe trait Structure: Copy {
    /// The level of the option.
    const LEVEL: c_int;
    /// Its number.
    const OPTION: c_int;
}

// SAFETY: `packet_set_ring` of net/packet/af_packet.c; four numbers.
unsafe impl Structure for libc::tpacket_req {
    const LEVEL: c_int = libc::SOL_PACKET;
    const OPTION: c_int = libc::PACKET_RX_RING;
}

// SAFETY: `packet_mc_add` of net/packet/af_packet.c; numbers and the bytes of an address.
unsafe impl Structure for libc::packet_mreq {
    const LEVEL: c_int = libc::SOL_PACKET;
    const OPTION: c_int = libc::PACKET_ADD_MEMBERSHIP;
}

/// Sets the option of these structures.
pub(crate) fn set_structures<T: Structure>(fd: BorrowedFd<'_>, values: &[T]) -> Result<(), Errno> {
    // SAFETY: this is what `Structure` means.
    unsafe { set_bytes(fd, T::LEVEL, T::OPTION, values) }
}

/// Receives only what a program of the classic BPF keeps (`SO_ATTACH_FILTER`). The kernel copies it.
pub(crate) fn attach_filter(
    fd: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> Result<(), Errno> {
    let len = u16::try_from(program.len()).map_err(|_| Errno(libc::EINVAL))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let values = std::slice::from_ref(&program);
    // SAFETY: the pointer in it is to `len` instructions, which outlive the call; the kernel only reads them.
    unsafe { set_bytes(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, values) }
}

/// Sets an option to the bytes of values.
///
/// # Safety
/// Pointers that the kernel follows for this option are valid.
unsafe fn set_bytes<T: Copy>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    values: &[T],
) -> Result<(), Errno> {
    let len = size_of_val(values) as socklen_t;
    let values = values.as_ptr().cast();
    // SAFETY: `values` points to `len` readable bytes; the caller knows what is in them.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, values, len) }).map(drop)
}

/// Sets the receive buffer, above the limit for ordinary users if permitted; returns the bytes
/// that the kernel granted (it doubles what is asked for, to account for its own).
pub(crate) fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: u32) -> Result<u32, Errno> {
    let wanted = buffer_size(bytes);
    sockopt::set_socket_recv_buffer_size_force(fd, wanted)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, wanted))?;
    Ok(sockopt::socket_recv_buffer_size(fd)? as u32)
}

/// As [`set_receive_buffer`].
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u32) -> Result<u32, Errno> {
    let wanted = buffer_size(bytes);
    sockopt::set_socket_send_buffer_size_force(fd, wanted)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, wanted))?;
    Ok(sockopt::socket_send_buffer_size(fd)? as u32)
}

/// The kernel takes more for a negative number.
fn buffer_size(bytes: u32) -> usize {
    bytes.min(c_int::MAX.unsigned_abs()) as usize
}

/// Marks what is sent, for rules and filters of this machine; the mark is not sent along.
pub(crate) fn set_mark(fd: BorrowedFd<'_>, mark: u32) -> Result<(), Errno> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// Whether calls wait.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>, is_blocking: bool) -> Result<(), Errno> {
    Ok(rustix::io::ioctl_fionbio(fd, !is_blocking)?)
}

/// What `recvmsg` received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'c> {
    /// How many bytes; with `MSG_TRUNC`, those that there was no room for too.
    pub(crate) count: usize,
    pub(crate) control: &'c [u8],
}

/// Receives into `bytes` with `recvmsg`; `None` if there is nothing and the call does not wait.
#[inline]
pub(crate) fn receive_message<'c>(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &'c mut Control,
    flags: c_int,
) -> Result<Option<Message<'c>>, Errno> {
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeroes are a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    let count = retry(|| {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        // SAFETY: `header` points to one vector, which points to so many writable bytes, and to the
        // control buffer with its length; all of them outlive the call.
        unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) }
    })?;
    let Some(count) = count else { return Ok(None) };
    let place = control.as_ptr().cast();
    // SAFETY: the bytes of `control`.
    let room: &[u8] = unsafe { std::slice::from_raw_parts(place, size_of::<Control>()) };
    let control = room.get(..header.msg_controllen as _).unwrap_or_default();
    Ok(Some(Message { count, control }))
}

/// Calls until a signal does not interrupt. `None` if it would block.
pub(crate) fn retry(mut call: impl FnMut() -> isize) -> Result<Option<usize>, Errno> {
    loop {
        let result = call();
        if let Ok(count) = usize::try_from(result) {
            return Ok(Some(count));
        }
        match Errno::last() {
            Errno(libc::EINTR) => {}
            Errno(libc::EAGAIN) => return Ok(None),
            errno => return Err(errno),
        }
    }
}

pub(crate) fn retried<T>(call: impl FnMut() -> rustix::io::Result<T>) -> Result<Option<T>, Errno> {
    match rustix::io::retry_on_intr(call) {
        Ok(value) => Ok(Some(value)),
        Err(RawErrno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The outcome of a call that sends.
pub(crate) fn sent(outcome: Result<Option<usize>, Errno>) -> Result<Sent, Errno> {
    match outcome {
        Ok(Some(_)) => Ok(Sent::Taken),
        Ok(None) => Ok(Sent::WouldBlock),
        Err(Errno(libc::ENOBUFS)) => Ok(Sent::QueueFull),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_filter_keeps_what_its_program_says_and_numbers_are_no_program() {
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        to.set_nonblocking(true).unwrap();
        let keep = |bytes| libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: bytes,
        };
        for (bytes, expected) in [(u32::MAX, Some(3)), (0, None)] {
            attach_filter(to.as_fd(), &[keep(bytes)]).unwrap();
            from.send_to(b"abc", to.local_addr().unwrap()).unwrap();
            assert_eq!(to.recv(&mut [0; 8]).ok(), expected);
        }
        // More than the length of a program can say, and none.
        let long = vec![keep(0); (1 << 16) + 1];
        assert_eq!(attach_filter(to.as_fd(), &long), Err(Errno(libc::EINVAL)));
        assert_eq!(attach_filter(to.as_fd(), &[]), Err(Errno(libc::EINVAL)));
        for option in [libc::SO_ATTACH_FILTER, libc::SO_ATTACH_REUSEPORT_CBPF] {
            let refused = set_option(to.as_fd(), libc::SOL_SOCKET, option, 1);
            assert_eq!(refused, Err(Errno(libc::EINVAL)), "{option}");
        }
    }
}
