//! [`Monitor`]: messages about what happens to links.
//!
//! ```text
//!  open -- from here on nothing is missed --> links() -- the state --> next(), next() ... what changed
//!                                                ^                       |
//!                                                +---- Event::Missed ----+
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use super::connection::Netlink;
use super::link::{Link, decode_link};
use super::message::{DELETE_LINK, Message, NEW_LINK, messages};
use crate::socket::set_blocking;
use crate::{Errno, Error};

/// What happened to the links of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link is there, or changed: switched on or off, renamed, connected, bus-off, another MTU.
    /// That a CAN controller becomes error-passive is not reported; it is in [`Link::can`] when
    /// something else is, and the controller's error reports tell it at once.
    ///
    /// The kernel tells some changes twice, and changes that are not in [`Link`] too.
    Changed(Box<Link>),
    /// A link is gone: removed, or moved to another namespace. Its index may come again.
    Removed { index: u32, name: String },
    /// More happened than fits into the socket: what is known is out of date, to be read anew with
    /// [`Monitor::links`].
    Missed,
}

/// A connection to the kernel that reports links, in the network namespace in which it was
/// opened. It is readable when something has happened.
#[derive(Debug)]
pub struct Monitor {
    changes: Netlink,
    questions: Netlink,
    /// The rest of the datagram that was received last.
    waiting: VecDeque<Event>,
}

impl Monitor {
    /// Begins to listen.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self, Error> {
        let changes = Netlink::open_for(libc::RTMGRP_LINK as u32)?;
        set_blocking(changes.fd.as_fd(), false)
            .map_err(|errno| Error::new("listen to", "links", errno))?;
        Ok(Self { changes, questions: Netlink::open()?, waiting: VecDeque::new() })
    }

    /// All links as they are now, by index. What has been reported of them up to now is dropped, since
    /// it is part of that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        // Taken before the question is asked: whatever happens from here on is reported again.
        let mut left = MOST_DROPPED;
        while left > 0 && self.next_event()?.is_some() {
            left -= 1;
        }
        self.questions.links()
    }

    /// What happened next; `None` if nothing more has happened yet. Does not wait.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            match self.changes.receive() {
                Ok(None) => return Ok(None),
                Ok(Some(count)) => {
                    let bytes = self.changes.buffer.get(..count).unwrap_or_default();
                    self.waiting.extend(messages(bytes).filter_map(|message| event(&message)));
                }
                Err(refusal) if refusal.errno == Errno(libc::ENOBUFS) => {
                    return Ok(Some(Event::Missed));
                }
                Err(refusal) => return Err(refusal.error("listen to", "links")),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.fd.as_fd()
    }
}

/// Events that [`Monitor::links`] drops at most, so that it ends under a flood of them.
const MOST_DROPPED: usize = 10_000;

/// What a message tells. Bridges tell of their ports in messages of the same kind but another
/// family, where a removal is one from the bridge.
fn event(message: &Message<'_>) -> Option<Event> {
    let family = *message.payload.first()?;
    if i32::from(family) != libc::AF_UNSPEC {
        return None;
    }
    let link = decode_link(message.payload)?;
    match message.kind {
        NEW_LINK => Some(Event::Changed(Box::new(link))),
        DELETE_LINK => Some(Event::Removed { index: link.index, name: link.name }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::link;
    use super::super::message::Request;
    use super::*;

    /// What a datagram of one message tells.
    fn reported(kind: u16, family: u8, name: &str) -> Vec<Event> {
        let mut information = link::information(7, link::UP, 0);
        information[0] = family;
        let bytes = Request::new(kind, 0).with(&information).text(link::NAME, name).finish(0);
        messages(&bytes).filter_map(|message| event(&message)).collect()
    }

    #[test]
    fn messages_become_events() {
        let link = Link { index: 7, name: "can0".into(), is_up: true, ..Link::default() };
        assert_eq!(reported(NEW_LINK, 0, "can0"), [Event::Changed(Box::new(link))]);
        let removed = Event::Removed { index: 7, name: "can0".into() };
        assert_eq!(reported(DELETE_LINK, 0, "can0"), [removed]);
        assert_eq!(reported(DELETE_LINK, libc::AF_BRIDGE as u8, "can0"), [], "left a bridge");
        assert_eq!(reported(NEW_LINK, 0, ""), [], "nameless");
        assert_eq!(reported(20, 0, "can0"), [], "an address");
    }

    #[test]
    fn the_links_of_this_namespace_are_listed() {
        let mut monitor = Monitor::open().unwrap();
        let links = monitor.links().unwrap();
        assert!(links.iter().any(|link| link.name == "lo" && link.index == 1), "{links:?}");
    }
}
