//! [`Netlink`]: a connection that sends requests and receives what the kernel answers.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::message::{
    DONE, DUMP_INTERRUPTED, ERROR, HEADER_LEN, Message, Request, acknowledgement, end_of_dump,
    messages,
};
use crate::socket::{self, retry};
use crate::{Errno, Error};

/// The most that the kernel puts into one datagram of an answer is 32 KiB.
const BUFFER_LEN: usize = 64 << 10;

/// How often a dump is begun anew if something changed meanwhile.
const ATTEMPTS: usize = 8;

/// A connection to the kernel's rtnetlink, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    pub(super) fd: OwnedFd,
    sequence: u32,
    pub(super) buffer: Box<[u8]>,
}

impl Netlink {
    /// Connects.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self, Error> {
        Self::open_for(0)
    }

    /// Connects, and asks for messages about what changes (`nl_groups`).
    pub(super) fn open_for(groups: u32) -> Result<Self, Error> {
        let fail = |errno| Error::new("open", "a netlink socket", errno);
        let fd =
            socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map_err(fail)?;
        // SAFETY: zeroes are a valid `sockaddr_nl`; they let the kernel choose the port.
        let mut address: libc::sockaddr_nl = unsafe { MaybeUninit::zeroed().assume_init() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        socket::bind(fd.as_fd(), &address).map_err(fail)?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            // Kernels before 4.12 have no words of their own; they are not missed.
            let _ = socket::set_option(fd.as_fd(), libc::SOL_NETLINK, option, 1);
        }
        Ok(Self { fd, sequence: 0, buffer: vec![0; BUFFER_LEN].into() })
    }

    /// Sends a request and hands what comes back to `take`, until the kernel is done.
    pub(super) fn transact(
        &mut self,
        request: Request,
        mut take: impl FnMut(&Message<'_>),
    ) -> Result<(), Refusal> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        retry(|| {
            // SAFETY: `bytes.len()` bytes can be read from it.
            unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }
        })?;
        let mut is_interrupted = false;
        loop {
            let count = self.receive()?.ok_or(Errno(libc::EAGAIN))?;
            for message in messages(self.buffer.get(..count).unwrap_or_default()) {
                if message.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= message.flags & DUMP_INTERRUPTED != 0;
                match end(&message) {
                    None => take(&message),
                    Some(Ok(())) if is_interrupted => return Err(Refusal::interrupted()),
                    Some(outcome) => return outcome,
                }
            }
        }
    }

    /// Receives a datagram of the kernel into the buffer; `None` if there is none and the socket
    /// does not block.
    pub(super) fn receive(&mut self) -> Result<Option<usize>, Refusal> {
        loop {
            // SAFETY: zeroes are a valid `sockaddr_nl`.
            let mut sender: libc::sockaddr_nl = unsafe { MaybeUninit::zeroed().assume_init() };
            let sender_place: *mut libc::sockaddr_nl = &mut sender;
            let count = retry(|| {
                let (bytes, room) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
                let mut len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                // SAFETY: `room` bytes can be written from `bytes`, and an address of `len` bytes.
                unsafe {
                    libc::recvfrom(
                        self.fd.as_raw_fd(),
                        bytes,
                        room,
                        libc::MSG_TRUNC,
                        sender_place.cast(),
                        &mut len,
                    )
                }
            })?;
            let Some(count) = count else { return Ok(None) };
            match count {
                // Other processes may write to this socket; only the kernel is believed.
                _ if sender.nl_pid != 0 => {}
                count if count > self.buffer.len() => return Err(Errno(libc::EMSGSIZE).into()),
                // Nothing that is a message would be waited for again, for ever.
                count if count < HEADER_LEN => return Err(Errno(libc::EBADMSG).into()),
                count => return Ok(Some(count)),
            }
        }
    }

    /// A request that the kernel only acknowledges.
    pub(super) fn request(
        &mut self,
        attempt: &'static str,
        subject: &str,
        request: Request,
    ) -> Result<(), Error> {
        self.transact(request, |_| {}).map_err(|refusal| refusal.error(attempt, subject))
    }

    /// A dump, begun anew if something changed meanwhile.
    pub(super) fn dump<T>(
        &mut self,
        attempt: &'static str,
        request: &Request,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let mut left = ATTEMPTS;
        loop {
            let mut items = Vec::new();
            left -= 1;
            match self.transact(request.clone(), |message| items.extend(decode(message))) {
                Ok(()) => return Ok(items),
                Err(refusal) if refusal.is_interrupted() && left > 0 => {}
                Err(refusal) => return Err(refusal.error(attempt, "")),
            }
        }
    }
}

/// How a request ended; `None` if there is more to come.
fn end(message: &Message<'_>) -> Option<Result<(), Refusal>> {
    let reported = match message.kind {
        ERROR => acknowledgement(message),
        DONE => end_of_dump(message),
        _ => return None,
    };
    Some(match reported {
        Some((0, _)) => Ok(()),
        Some((errno, words)) => Err(Refusal { errno: Errno(errno), words }),
        None => Err(Errno(libc::EBADMSG).into()),
    })
}

/// Why the kernel refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    words: Option<String>,
}

impl Refusal {
    /// A dump that is not of one moment.
    fn interrupted() -> Self {
        Errno(libc::EINTR).into()
    }

    fn is_interrupted(&self) -> bool {
        self.errno == Errno(libc::EINTR)
    }

    pub(super) fn error(self, attempt: &'static str, subject: &str) -> Error {
        Error::new(attempt, subject, self.errno)
            .with_detail(self.words)
            .remedy_if(libc::EPERM, "this needs root or CAP_NET_ADMIN")
            .remedy_if(libc::ENODEV, "list the interfaces with `ip link`")
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { errno, words: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::NEW_LINK;
    use super::*;

    #[test]
    fn a_request_ends_with_the_kernels_words() {
        const WITH_WORDS: u16 = 0x202;
        let mut payload = (-libc::EINVAL).to_ne_bytes().to_vec();
        let at_once = Request::new(0, 0).attribute(1, b"no such dump").finish(0);
        payload.extend(&at_once[HEADER_LEN..]);
        let message =
            |kind, flags| Message { kind, flags, sequence: 1, payload: payload.as_slice() };
        let refusal = end(&message(DONE, WITH_WORDS)).unwrap().unwrap_err();
        assert_eq!(refusal.errno, Errno(libc::EINVAL));
        let error = refusal.error("list", "links").to_string();
        assert_eq!(error, "cannot list links: EINVAL (Invalid argument): no such dump");
        let refusal = end(&message(ERROR, 0)).unwrap().unwrap_err();
        assert_eq!((refusal.errno, refusal.words), (Errno(libc::EINVAL), None));
        assert!(end(&message(NEW_LINK, 0)).is_none());
        let success = Message { kind: DONE, flags: 2, sequence: 1, payload: &[0; 4] };
        assert!(end(&success).unwrap().is_ok());
    }
}
