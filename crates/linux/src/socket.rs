//! What all sockets have in common.

use std::ffi::CString;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, socklen_t};

use crate::error::check;
use crate::{Errno, Error};

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

/// The index of an interface of this network namespace.
///
/// # Errors
/// There is none of that name.
pub fn interface_index(name: &str) -> Result<u32, Error> {
    let fail = |errno| {
        Error::new("find the interface", name, errno)
            .with_remedy("list the interfaces with `ip link`; CAN drivers may need to be loaded")
    };
    let text = CString::new(name).map_err(|_| fail(Errno(libc::EINVAL)))?;
    // SAFETY: `text` is a C string that lives until the call returns.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(fail(Errno::last())),
        index => Ok(index),
    }
}

/// A new socket, closed on exec.
pub(crate) fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel just opened it and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an address, one of the `sockaddr` structures.
pub(crate) fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T) -> Result<(), Errno> {
    let address: *const T = address;
    let len = size_of::<T>() as socklen_t;
    // SAFETY: `address` points to `len` readable bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.cast(), len) }).map(drop)
}

/// Sets an option to a plain value.
pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &T,
) -> Result<(), Errno> {
    set_option_list(fd, level, option, std::slice::from_ref(value))
}

/// Sets an option to a list of plain values.
pub(crate) fn set_option_list<T: Copy>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    values: &[T],
) -> Result<(), Errno> {
    let len = size_of_val(values) as socklen_t;
    let values = values.as_ptr().cast();
    // SAFETY: `values` points to `len` readable bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, values, len) }).map(drop)
}

/// Reads an option that is a number.
pub(crate) fn number_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
) -> Result<c_int, Errno> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    let place: *mut c_int = &mut value;
    // SAFETY: `place` points to `len` writable bytes.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, place.cast(), &mut len) })?;
    Ok(value)
}

/// Sets the receive buffer, beyond the limit for ordinary users if permitted; returns the bytes
/// that the kernel granted (it doubles what is asked for, to account for its own).
pub(crate) fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: u32) -> Result<u32, Errno> {
    set_buffer(fd, bytes, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
}

/// As [`set_receive_buffer`].
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u32) -> Result<u32, Errno> {
    set_buffer(fd, bytes, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

fn set_buffer(fd: BorrowedFd<'_>, bytes: u32, force: c_int, plain: c_int) -> Result<u32, Errno> {
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    if set_option(fd, libc::SOL_SOCKET, force, &wanted).is_err() {
        set_option(fd, libc::SOL_SOCKET, plain, &wanted)?;
    }
    Ok(number_option(fd, libc::SOL_SOCKET, plain)?.unsigned_abs())
}

/// Marks what is sent, for rules and filters of this machine; the mark is not sent along.
pub(crate) fn set_mark(fd: BorrowedFd<'_>, mark: u32) -> Result<(), Errno> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Whether calls wait.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>, is_blocking: bool) -> Result<(), Errno> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    let flags = if is_blocking { flags & !libc::O_NONBLOCK } else { flags | libc::O_NONBLOCK };
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
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
    use super::*;

    #[test]
    fn the_loopback_interface_has_an_index() {
        assert_eq!(interface_index("lo").ok(), Some(1));
        let error = interface_index("no-such-if").unwrap_err();
        assert!(error.is(libc::ENODEV) && error.to_string().contains("ip link"), "{error}");
        assert!(interface_index("a\0b").unwrap_err().is(libc::EINVAL));
    }
}
