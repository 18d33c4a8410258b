//! TCP that `std` does not have: connecting and sending without waiting, and noticing that the other end is
//! gone.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use candor_time::Nanos;
use libc::c_int;
use rustix::io::Errno as RawErrno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use crate::Error;
use crate::error::check;
use crate::socket::{retried, set_option};

/// Begins to connect; does not wait. When the stream can be written, [`TcpStream::take_error`] says
/// what came of it. The stream does not block.
///
/// # Errors
/// There is no way to the address, or this machine refuses at once.
pub fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let fail = |errno: RawErrno| Error::new("connect to", address.to_string(), errno.into());
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(domain, SocketType::STREAM, flags, None).map_err(fail)?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) | Err(RawErrno::INPROGRESS | RawErrno::INTR) => Ok(TcpStream::from(fd)),
        Err(errno) => Err(fail(errno)),
    }
}

/// Takes an address that no interface of this machine has yet (`IP_FREEBIND`, `IPV6_FREEBIND`): who connects is taken as soon as
/// one has it.
///
/// # Errors
/// The kernel refuses.
pub fn listen_early(address: SocketAddr) -> std::io::Result<TcpListener> {
    let domain = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = rustix::net::socket_with(domain, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    match address {
        SocketAddr::V4(_) => sockopt::set_ip_freebind(&fd, true)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_freebind(&fd, true)?,
    }
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, 128)?;
    Ok(TcpListener::from(fd))
}

/// Sends as many of the bytes as there is room for; does not wait. `None` if there is none.
///
/// # Errors
/// The other end closed the connection, or is gone.
pub fn send(stream: &TcpStream, bytes: &[u8]) -> Result<Option<usize>, Error> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retried(|| rustix::net::send(stream, bytes, flags))
        .map_err(|errno| Error::new("send on", "a connection", errno))
}

/// Bytes that were sent and that the other end has not said it has (`SIOCOUTQ`). Of a Unix socket, the memory of what
/// the other end has not read, which is more than its bytes.
///
/// # Errors
/// The kernel refuses.
pub fn unsent(stream: impl AsFd) -> Result<u32, Error> {
    let mut count: c_int = 0;
    let place: *mut c_int = &mut count;
    // SAFETY: the request writes a number to `place`.
    check(unsafe { libc::ioctl(stream.as_fd().as_raw_fd(), libc::TIOCOUTQ, place) })
        .map_err(|errno| Error::new("read the unsent bytes of", "a connection", errno))?;
    Ok(count.unsigned_abs())
}

/// How many connections may wait to be accepted; std says 128, and the kernel has a limit for all
/// (`net.core.somaxconn`).
///
/// # Errors
/// The kernel refuses.
pub fn set_backlog(listener: &TcpListener, connections: i32) -> Result<(), Error> {
    rustix::net::listen(listener, connections)
        .map_err(|errno| Error::new("lengthen the queue of", "a listener", errno.into()))
}

/// Bounds what the kernel takes before it has sent what it took earlier (`TCP_NOTSENT_LOWAT`). Its
/// own bound is some megabytes, and what waits there cannot be overtaken.
///
/// # Errors
/// The kernel refuses.
pub fn set_unsent_bound(stream: impl AsFd, bytes: u32) -> Result<(), Error> {
    set_option(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes.cast_signed())
        .map_err(|errno| Error::new("limit the unsent bytes of", "a connection", errno))
}

/// Bounds what the kernel keeps until the other end has said that it has it (`SO_SNDBUF`). The kernel
/// takes twice as much, as it counts its own administration too. Sockets that are files have it as well.
///
/// # Errors
/// The kernel refuses.
pub fn set_send_buffer(stream: impl AsFd, bytes: u32) -> Result<(), Error> {
    sockopt::set_socket_send_buffer_size(stream, bytes as usize)
        .map_err(|errno| Error::new("limit the bytes in flight on", "a connection", errno.into()))
}

/// Gives a connection up after `timeout` without an answer, whether something was sent
/// (`TCP_USER_TIMEOUT`) or not (`SO_KEEPALIVE`, asks three times).
///
/// # Errors
/// The kernel refuses.
pub fn set_user_timeout(stream: &TcpStream, timeout: Nanos) -> Result<(), Error> {
    // The kernel takes more for a negative number.
    let millis = (timeout.as_nanos() / 1_000_000).min(c_int::MAX.unsigned_abs().into()) as u32;
    // Quiet for a half of it, and then three questions.
    let seconds = |millis: u32| Duration::from_secs((millis / 1_000).max(1).into());
    sockopt::set_tcp_user_timeout(stream, millis)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, seconds(millis / 2)))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, seconds(millis / 6)))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 3))
        .and_then(|()| sockopt::set_socket_keepalive(stream, true))
        .map_err(|errno| Error::new("set the timeout of", "a connection", errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{self, Interest};
    use std::io::Read;

    #[test]
    fn connecting_and_sending_do_not_wait() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(ip).unwrap();
            let stream = connect(listener.local_addr().unwrap()).unwrap();
            assert_eq!(poll::wait(&stream, Interest::Write, None), Ok(true));
            assert!(stream.take_error().unwrap().is_none());
            set_user_timeout(&stream, Nanos::from_secs(10)).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            // Until nothing fits in any more.
            let mut sent = 0;
            while let Some(count) = send(&stream, &[7; 65_536]).unwrap() {
                sent += count;
            }
            assert!(sent > 65_536 && unsent(&stream).unwrap() > 0);
            drop(stream);
            let mut bytes = Vec::new();
            accepted.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), sent);
        }
    }

    /// How many bytes are taken that the other end does not read.
    fn taken(bound: Option<u32>) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(poll::wait(&stream, Interest::Write, None), Ok(true));
        if let Some(bytes) = bound {
            set_unsent_bound(&stream, bytes).unwrap();
        }
        let _unread = listener.accept().unwrap();
        let mut taken = 0;
        while let Some(count) = send(&stream, &[7; 1_024]).unwrap() {
            taken += count;
        }
        taken
    }

    #[test]
    fn little_waits_where_that_is_asked_for() {
        let (bounded, unbounded) = (taken(Some(16_384)), taken(None));
        assert!(bounded + 1_000_000 < unbounded, "{bounded} of {unbounded}");
    }

    #[test]
    fn a_refusal_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let stream = connect(address).unwrap();
        assert_eq!(poll::wait(&stream, Interest::Write, None), Ok(true));
        let error = stream.take_error().unwrap().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
    }
}
