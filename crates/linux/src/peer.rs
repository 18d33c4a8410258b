//! Who is at the other end of a Unix socket, and connecting to one without waiting.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Error;
use crate::error::check;

/// The process that connected, or the one that listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number; 0 if it is not of this process namespace.
    pub process: u32,
    /// The user it ran as.
    pub user: u32,
}

/// The user this process runs as.
#[must_use]
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The group this process runs as.
#[must_use]
pub fn own_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Who is at the other end of a connected Unix socket (`SO_PEERCRED`).
///
/// # Errors
/// It is no Unix socket, or is not connected.
pub fn peer_of(socket: &impl AsFd) -> Result<Peer, Error> {
    // Not with rustix: there, no process has the number 0.
    let mut peer = MaybeUninit::<libc::ucred>::zeroed();
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, place) = (socket.as_fd().as_raw_fd(), peer.as_mut_ptr().cast());
    // SAFETY: `place` points to `len` writable bytes.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut len) })
        .map_err(|errno| Error::new("ask who is at the other end of", "a socket", errno))?;
    // SAFETY: zeroes are valid, and the kernel has written it.
    let peer = unsafe { peer.assume_init() };
    Ok(Peer { process: peer.pid.unsigned_abs(), user: peer.uid })
}

/// Connects to the Unix socket of an abstract name; the stream blocks. Unlike [`UnixStream::connect_addr`] it does not wait for whoever
/// listens and lets nobody in: that is [`WouldBlock`](std::io::ErrorKind::WouldBlock).
///
/// # Errors
/// Nobody listens, or too many wait to be let in.
pub fn connect_abstract(name: &str) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &address)?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn who_lets_nobody_in_is_not_waited_for() {
        let name = format!("candor.test.peer.{}", std::process::id());
        assert_eq!(connect_abstract(&name).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        // SAFETY: no memory is involved.
        check(unsafe { libc::listen(listener.as_raw_fd(), 1) }).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_abstract(&name) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!((waiting.len(), refused.kind()), (2, ErrorKind::WouldBlock));
        assert_eq!(peer_of(&listener.accept().unwrap().0).unwrap().process, std::process::id());
        assert!(connect_abstract(&name).is_ok());
    }

    #[test]
    fn both_ends_of_a_pair_are_here() {
        let (left, _right) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(&left), Ok(Peer { process: std::process::id(), user: own_user() }));
    }
}
