//! ICMP echo: the requests of `ping`.
//!
//! | bytes | of an echo message |
//! |---|---|
//! | 0 | 8 request, 0 reply |
//! | 1 | 0 |
//! | 2..4 | checksum over everything, RFC 1071 |
//! | 4..6 | identifier |
//! | 6..8 | sequence number |
//! | 8.. | data |

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};

use crate::socket::{self, retried, sent};
use crate::{Error, Sent};

/// Bytes before the data of an echo message.
pub const HEADER_LEN: usize = 8;
const REQUEST: u8 = 8;
const REPLY: u8 = 0;

/// A raw ICMP socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// A reply to an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The identifier of the request.
    pub identifier: u16,
    /// The number of the request.
    pub sequence: u16,
    /// Bytes of data.
    pub data_len: usize,
}

impl Socket {
    /// Opens one in the network namespace of this thread.
    ///
    /// # Errors
    /// No permission.
    pub fn open() -> Result<Self, Error> {
        socket::open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
            .map(|fd| Self { fd })
            .map_err(|errno| {
                Error::new("open", "an ICMP socket", errno)
                    .remedy_if(libc::EPERM, "this needs root or CAP_NET_RAW")
            })
    }

    /// Whether calls wait; they do at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_blocking(&self, is_blocking: bool) -> Result<(), Error> {
        socket::set_blocking(self.as_fd(), is_blocking)
            .map_err(|errno| Error::new("set up", "an ICMP socket", errno))
    }

    /// Sets the send and the receive buffer; a datagram must fit in.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_buffers(&self, bytes: u32) -> Result<(), Error> {
        socket::set_receive_buffer(self.as_fd(), bytes)
            .and_then(|_| socket::set_send_buffer(self.as_fd(), bytes))
            .map(drop)
            .map_err(|errno| Error::new("set the buffers of", "an ICMP socket", errno))
    }

    /// Sends a message made by [`request`].
    ///
    /// # Errors
    /// No way to `address`.
    pub fn send(&self, address: Ipv4Addr, message: &[u8]) -> Result<Sent, Error> {
        let to = SocketAddrV4::new(address, 0);
        let send = || rustix::net::sendto(&self.fd, message, SendFlags::empty(), &to);
        sent(retried(send)).map_err(|errno| {
            Error::new("send an echo request to", address.to_string(), errno)
                .remedy_if(libc::ENETUNREACH, "add an address of this network to an interface")
        })
    }

    /// Receives the next ICMP message into `buffer`; `None` if there is none and the socket does
    /// not block, `Some(None)` if it is no reply to an echo request.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Option<Reply>>, Error> {
        let received = retried(|| rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()))
            .map_err(|errno| Error::new("receive from", "an ICMP socket", errno))?;
        Ok(received.map(|(count, _)| reply(buffer.get(..count).unwrap_or_default())))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An echo request with so many bytes of data, each the low byte of its index.
#[must_use]
pub fn request(identifier: u16, sequence: u16, data_len: usize) -> Vec<u8> {
    let mut message = vec![REQUEST, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend((0..data_len).map(|index| index as u8));
    let sum = checksum(&message);
    if let Some(place) = message.get_mut(2..4) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Reads an IPv4 datagram as a raw socket gives it; `None` if it is no sound echo reply.
#[must_use]
pub fn reply(datagram: &[u8]) -> Option<Reply> {
    let header_len = usize::from(datagram.first()? & 0xF) * 4;
    let message = datagram.get(header_len.max(20)..)?;
    let (&[kind, _, _, _, i0, i1, s0, s1], data) = message.split_first_chunk::<HEADER_LEN>()?;
    (kind == REPLY && checksum(message) == 0).then_some(Reply {
        identifier: u16::from_be_bytes([i0, i1]),
        sequence: u16::from_be_bytes([s0, s1]),
        data_len: data.len(),
    })
}

/// The Internet checksum; zero over a message that contains its own.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => 0,
    });
    let sum: u64 = words.map(u64::from).sum();
    let mut folded = sum;
    while folded > 0xFFFF {
        folded = (folded & 0xFFFF) + (folded >> 16);
    }
    !(folded as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_checksum_of_rfc_1071() {
        // 0x0800 + 0x1234 + 0x0001 + 0x0001 + 0x0200 = 0x1C36, complement 0xE3C9.
        assert_eq!(request(0x1234, 1, 3), [8, 0, 0xE3, 0xC9, 0x12, 0x34, 0, 1, 0, 1, 2]);
        for len in [0, 1, 2, 1_000, 60_000] {
            assert_eq!(checksum(&request(0xFFFF, 0xFFFF, len)), 0, "{len}");
        }
    }

    #[test]
    fn replies_are_distinguished_from_everything_else() {
        let datagram = |kind: u8| {
            let mut bytes = vec![0x45];
            bytes.resize(20, 0);
            let mut message = request(7, 9, 4);
            message[0] = kind;
            message[2..4].fill(0);
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            bytes.extend(message);
            bytes
        };
        let good = datagram(REPLY);
        assert_eq!(reply(&good), Some(Reply { identifier: 7, sequence: 9, data_len: 4 }));
        assert_eq!(reply(&datagram(REQUEST)), None);
        for cut in 0..good.len() {
            let _ = reply(&good[..cut]);
        }
        let mut damaged = good;
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(reply(&damaged), None);
        assert_eq!(reply(&[0x4F; 20]), None);
    }
}
