//! What any socket waits for, has lost, and still holds.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use candor_time::{Instant, Nanos, Realtime};
use libc::{c_int, socklen_t};
use rustix::net::sockopt::{self, Timeout};

use crate::error::check;
use crate::socket::set_option;
use crate::{Errno, Error};

/// `asm-generic/socket.h`.
const SO_MEMINFO: c_int = 55;
/// Words of `SO_MEMINFO` (`linux/sock_diag.h`): the first is what is to be received, the third what is
/// to be sent, the last one counts drops.
const MEMINFO_WORDS: usize = 9;

/// How long receiving blocks before it gives up (`SO_RCVTIMEO`), `None` for ever. The kernel rounds
/// up to its tick, usually 4 ms.
///
/// # Errors
/// The kernel refuses.
pub fn set_receive_timeout(socket: &impl AsFd, timeout: Option<Nanos>) -> Result<(), Error> {
    // Zero would stand for ever.
    let timeout = timeout.map(|timeout| Duration::from_nanos(timeout.as_nanos().max(1)));
    sockopt::set_socket_timeout(socket, Timeout::Recv, timeout)
        .map_err(|errno| Error::new("set the timeout of", "a socket", errno.into()))
}

/// Whether what arrives for a socket is stamped when the driver hands it over (`SO_TIMESTAMPNS`). A
/// packet ring has stamps anyway, but those of when the frame was copied there.
///
/// # Errors
/// The kernel refuses.
pub fn set_stamps(socket: &impl AsFd, are_wanted: bool) -> Result<(), Error> {
    let value = c_int::from(are_wanted);
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value)
        .map_err(|errno| Error::new("stamp what arrives for", "a socket", errno))
}

/// The bytes that may wait in a socket to be received, as the kernel accounts them.
///
/// # Errors
/// The kernel refuses.
pub fn receive_buffer(socket: &impl AsFd) -> Result<u32, Error> {
    sockopt::socket_recv_buffer_size(socket)
        .map(|bytes| bytes as u32)
        .map_err(|errno| Error::new("read the receive buffer of", "a socket", errno.into()))
}

/// When the kernel had the frame or datagram that was received last on a socket without stamps of
/// stamps otherwise (`SIOCGSTAMPNS`); `None` if there is none. The first question makes the kernel
/// stamp what arrives, see [`can::Socket::set_stamps`](crate::can::Socket::set_stamps).
///
/// # Errors
/// The kernel refuses.
pub fn last_stamp(socket: &impl AsFd) -> Result<Option<Instant<Realtime>>, Error> {
    /// `asm-generic/sockios.h`, for machines of 64 bits.
    const SIOCGSTAMPNS: libc::c_ulong = 0x8907;
    let mut stamp = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let place: *mut libc::timespec = &mut stamp;
    // SAFETY: a `timespec` can be written to `place`.
    let reported =
        check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCGSTAMPNS as _, place) });
    match reported {
        Ok(_) => {
            let nanos = stamp.tv_sec.unsigned_abs() * 1_000_000_000 + stamp.tv_nsec.unsigned_abs();
            Ok(Some(Instant::from_nanos(nanos)))
        }
        Err(Errno(libc::ENOENT)) => Ok(None),
        Err(errno) => Err(Error::new("read the last stamp of", "a socket", errno)),
    }
}

/// A number that no other socket of its network namespace has or will have (`SO_COOKIE`).
///
/// # Errors
/// Linux is older than 4.12.
pub fn cookie(socket: &impl AsFd) -> Result<u64, Error> {
    sockopt::socket_cookie(socket)
        .map_err(|errno| Error::new("read the cookie of", "a socket", errno.into()))
}

/// What a socket has to do with memory (`SO_MEMINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that arrived and were not received yet, as the kernel accounts them: several hundred
    /// for a CAN frame.
    pub unread: u32,
    /// Bytes that were sent and that the driver has not finished with yet, as the kernel accounts
    /// them: zero if everything has left.
    pub unsent: u32,
    /// How many messages arrived and were dropped, since the socket was opened, because its buffer
    /// was full.
    pub dropped: u32,
}

/// Asks the kernel about the memory of a socket.
///
/// # Errors
/// Linux is older than 4.12.
pub fn memory(socket: &impl AsFd) -> Result<Memory, Error> {
    let mut words = [0_u32; MEMINFO_WORDS];
    let mut len = size_of_val(&words) as socklen_t;
    let (fd, place) = (socket.as_fd().as_raw_fd(), words.as_mut_ptr().cast());
    // SAFETY: `place` points to `len` writable bytes.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, SO_MEMINFO, place, &mut len) })
        .map_err(|errno| Error::new("read the memory of", "a socket", errno))?;
    let [unread, _, unsent, .., dropped] = words;
    Ok(Memory { unread, unsent, dropped })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;
    use crate::clock;
    use candor_time::Monotonic;

    #[test]
    fn receiving_gives_up_after_the_timeout() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        set_receive_timeout(&socket, Some(Nanos::from_millis(2))).unwrap();
        let start = clock::now::<Monotonic>();
        let error = socket.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(clock::now::<Monotonic>() - start >= Nanos::from_millis(2));
    }

    #[test]
    fn drops_are_counted() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        crate::socket::set_receive_buffer(socket.as_fd(), 1).unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(memory(&socket), Ok(Memory::default()));
        // The least buffer holds a few datagrams of this size.
        for _ in 0..20 {
            socket.send_to(&[0; 1024], address).unwrap();
        }
        let mut received = 0;
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 2048]).is_ok() {
            received += 1;
        }
        assert_eq!(memory(&socket), Ok(Memory { dropped: 20 - received, ..Memory::default() }));
        assert!(received < 20);
    }

    #[test]
    fn every_socket_has_a_cookie_of_its_own() {
        let sockets: Vec<_> =
            (0..50).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let cookies: std::collections::BTreeSet<_> =
            sockets.iter().map(|socket| cookie(socket).unwrap()).collect();
        assert_eq!(cookies.len(), sockets.len());
        assert!(cookies.contains(&cookie(&sockets[7]).unwrap()), "it stays");
    }

    #[test]
    fn the_last_stamp_is_that_of_what_was_received_last() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let _ = last_stamp(&receiver).unwrap();
        let mut last = None;
        for _ in 0..3 {
            let before = clock::now::<Realtime>();
            sender.send_to(&[1], receiver.local_addr().unwrap()).unwrap();
            receiver.recv(&mut [0; 8]).unwrap();
            let stamp = last_stamp(&receiver).unwrap();
            let after = clock::now::<Realtime>();
            assert!(stamp.is_some_and(|it| before <= it && it <= after), "{stamp:?}");
            assert_ne!(stamp, last);
            last = stamp;
        }
    }
}
