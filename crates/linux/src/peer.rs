//! Who is at the other end of a Unix socket.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_here() {
        let (left, _right) = UnixStream::pair().unwrap();
        assert_eq!(peer_of(&left), Ok(Peer { process: std::process::id(), user: own_user() }));
    }
}
