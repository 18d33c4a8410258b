//! What can be done with interfaces: list, switch, set up, create, move and remove them.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use candor_time::{Monotonic, Nanos};

use super::connection::{Netlink, Refusal};
use super::link::{self, CanSettings, Link, decode_link};
use super::message::{
    ACKNOWLEDGE, CREATE_NEW, DELETE_ADDRESS, DELETE_LINK, DUMP, GET_LINK, NEW_ADDRESS, NEW_LINK,
    NEW_NEIGHBOUR, REQUEST, Request,
};
use crate::clock;
use crate::namespace::Namespace;
use crate::poll::{self, Interest};
use crate::{Errno, Error};

impl Netlink {
    /// All links, by index.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let request = Request::new(GET_LINK, REQUEST | DUMP).with(&link::information(0, 0, 0));
        let mut links = self.dump("list the links", &request, |message| {
            (message.kind == NEW_LINK).then(|| decode_link(message.payload))?
        })?;
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The link of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn link(&mut self, name: &str) -> Result<Link, Error> {
        let request = Request::new(GET_LINK, REQUEST | ACKNOWLEDGE)
            .with(&link::information(0, 0, 0))
            .text(link::NAME, name);
        self.one_link(name, request)
    }

    /// The link with that index.
    ///
    /// # Errors
    /// There is none.
    pub fn link_at(&mut self, index: u32) -> Result<Link, Error> {
        let request =
            Request::new(GET_LINK, REQUEST | ACKNOWLEDGE).with(&link::information(index, 0, 0));
        self.one_link(&format!("interface {index}"), request)
    }

    fn one_link(&mut self, subject: &str, request: Request) -> Result<Link, Error> {
        let attempt = "read the link";
        let mut found = None;
        self.transact(request, |message| {
            if message.kind == NEW_LINK {
                found = decode_link(message.payload);
            }
        })
        .map_err(|refusal| refusal.error(attempt, subject))?;
        found.ok_or_else(|| Error::new(attempt, subject, Errno(libc::EBADMSG)))
    }

    /// Switches a link on or off. The first one of a pair works only once the other one is on, and
    /// a while later: see [`Netlink::wait_until_running`].
    ///
    /// # Errors
    /// A CAN controller without a bit rate, no permission.
    pub fn set_up(&mut self, name: &str, is_up: bool) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let flags = if is_up { link::UP } else { 0 };
        let request = link::change(index, flags, link::UP);
        self.request(if is_up { "start" } else { "stop" }, name, request).map_err(|error| {
            error.remedy_if(libc::EINVAL, "a CAN controller needs a bit rate first")
        })
    }

    /// Waits until a link works, at most `timeout`.
    ///
    /// When the second one of a veth or vxcan pair is switched on, the kernel puts the queue of the
    /// first one into place only some time later. Until then it drops what is sent there, and says
    /// that it was taken.
    ///
    /// # Errors
    /// It does not work by then.
    pub fn wait_until_running(&mut self, name: &str, timeout: Nanos) -> Result<(), Error> {
        let mut changes = Self::open_for(libc::RTMGRP_LINK as u32)?;
        let index = self.link(name)?.index;
        let deadline = clock::now::<Monotonic>() + timeout;
        // The kernel tells changes of a link behind those of its queue.
        while !self.link_at(index)?.is_running {
            let left = deadline - clock::now::<Monotonic>();
            if !poll::wait(&changes.fd, Interest::Read, Some(left))? {
                return Err(Error::other(
                    "use",
                    name,
                    format!("it is not running after {timeout}"),
                )
                .with_remedy("the other end of the pair must also be up"));
            }
            match changes.receive() {
                // More has changed than was looked at, or something was.
                Err(Refusal { errno: Errno(libc::ENOBUFS), .. }) | Ok(_) => {}
                Err(refusal) => return Err(refusal.error("watch the link", name)),
            }
        }
        Ok(())
    }

    /// Gives a link, which must be down, another name.
    ///
    /// # Errors
    /// It is up, or the name is already used.
    pub fn rename(&mut self, name: &str, new: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).text(link::NAME, new);
        self.request("rename", name, request).map_err(|error| {
            error
                .remedy_if(libc::EBUSY, "stop the interface first")
                .remedy_if(libc::EEXIST, "an interface with this name already exists")
                .remedy_if(libc::EINVAL, "names have 1 to 15 characters")
                .remedy_if(libc::ERANGE, "names have 1 to 15 characters")
        })
    }

    /// Sets how many frames may wait in front of an interface (`txqueuelen`).
    ///
    /// # Errors
    /// No permission.
    pub fn set_queue_length(&mut self, name: &str, frames: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).number(link::QUEUE_LENGTH, frames);
        self.request("set the queue length of", name, request)
    }

    /// Sets the size of the largest frame; 72 makes a vcan interface take CAN FD, 16 not.
    ///
    /// # Errors
    /// The interface does not have that size, or is up.
    pub fn set_mtu(&mut self, name: &str, bytes: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = link::change(index, 0, 0).number(link::MTU, bytes);
        self.request("set the MTU of", name, request)
            .map_err(|error| error.remedy_if(libc::EBUSY, "stop the interface first"))
    }

    /// Sets up a CAN controller, which must be down.
    ///
    /// # Errors
    /// It is up, cannot do this, or is no controller (a vcan interface has no bit rate).
    pub fn set_can(&mut self, name: &str, settings: &CanSettings) -> Result<(), Error> {
        let link = self.link(name)?;
        let request = settings.request(&link);
        self.request("set up the CAN controller", name, request).map_err(|error| {
            error
                .remedy_if(libc::EBUSY, "stop the interface first")
                .remedy_if(
                    libc::EOPNOTSUPP,
                    "the controller does not support this, or it is not a CAN controller",
                )
                .remedy_if(libc::EDOM, "the controller's clock cannot produce this bit rate")
        })
    }

    /// Makes a virtual CAN interface, which is down at first.
    ///
    /// # Errors
    /// The name is taken, or the module vcan is not loaded.
    pub fn create_vcan(&mut self, name: &str) -> Result<(), Error> {
        self.create(name, "vcan", None)
    }

    /// Makes a pair of virtual CAN interfaces: what is sent to one is received at the other, once
    /// both run, see [`Netlink::wait_until_running`].
    ///
    /// # Errors
    /// A name is taken, or the module vxcan is not loaded.
    pub fn create_vxcan(&mut self, name: &str, peer: &str) -> Result<(), Error> {
        self.create(name, "vxcan", Some(peer))
    }

    /// Makes a pair of virtual CAN interfaces, the peer in another network namespace, both with the
    /// same index there: a frame keeps the index of the interface that it was first sent on, so the
    /// kernel takes a frame of the peer for one that came in from outside.
    ///
    /// # Errors
    /// A name or the index is already used, or the module vxcan is not loaded.
    pub fn create_vxcan_across(
        &mut self,
        name: &str,
        peer: &str,
        index: u32,
        namespace: &Namespace,
    ) -> Result<(), Error> {
        let fd = namespace.as_fd().as_raw_fd().unsigned_abs();
        let request = link::create_across(name, peer, index, fd);
        self.request("create the pair", name, request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, "load the module vxcan")
                .remedy_if(libc::EEXIST, "the name is already used")
                .remedy_if(libc::EBUSY, "the index is already used")
        })
    }

    /// Makes a pair of virtual Ethernet interfaces.
    ///
    /// # Errors
    /// A name is taken, or the module veth is not loaded.
    pub fn create_veth(&mut self, name: &str, peer: &str) -> Result<(), Error> {
        self.create(name, "veth", Some(peer))
    }

    fn create(&mut self, name: &str, kind: &str, peer: Option<&str>) -> Result<(), Error> {
        let request = link::create(name, kind, peer);
        self.request("create the interface", name, request).map_err(|error| {
            error
                .remedy_if(libc::EOPNOTSUPP, "load its module: vcan, vxcan or veth")
                .remedy_if(libc::EEXIST, "an interface with this name already exists")
                .remedy_if(libc::EINVAL, "names have 1 to 15 characters")
                .remedy_if(libc::ERANGE, "names have 1 to 15 characters")
        })
    }

    /// Deletes a virtual interface, and its peer if it has one.
    ///
    /// # Errors
    /// It is not virtual.
    pub fn delete(&mut self, name: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request =
            Request::new(DELETE_LINK, REQUEST | ACKNOWLEDGE).with(&link::information(index, 0, 0));
        self.request("delete the interface", name, request).map_err(|error| {
            error.remedy_if(libc::EOPNOTSUPP, "only virtual interfaces can be deleted")
        })
    }

    /// Moves an interface to another network namespace, where it is down and without addresses.
    ///
    /// # Errors
    /// It cannot be moved, or one of its name is there.
    pub fn move_to(&mut self, name: &str, namespace: &Namespace) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let fd = namespace.as_fd().as_raw_fd().unsigned_abs();
        let request = link::change(index, 0, 0).number(link::NAMESPACE_FD, fd);
        self.request("move to another namespace", name, request).map_err(|error| {
            error.remedy_if(libc::EEXIST, "an interface with this name exists there")
        })
    }

    /// Gives an interface an address: `10.0.0.1/24` is `(Ipv4Addr::new(10, 0, 0, 1), 24)`.
    ///
    /// # Errors
    /// It has the address already.
    pub fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = Request::new(NEW_ADDRESS, REQUEST | ACKNOWLEDGE | CREATE_NEW);
        self.request("add an address to", name, about_address(request, index, address, prefix))
            .map_err(|error| error.remedy_if(libc::EEXIST, "it already has this address"))
    }

    /// Takes an address away from an interface.
    ///
    /// # Errors
    /// It does not have the address.
    pub fn delete_address(
        &mut self,
        name: &str,
        address: Ipv4Addr,
        prefix: u8,
    ) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let request = Request::new(DELETE_ADDRESS, REQUEST | ACKNOWLEDGE);
        self.request("delete an address of", name, about_address(request, index, address, prefix))
            .map_err(|error| {
                error.remedy_if(libc::EADDRNOTAVAIL, "list its addresses with `ip address`")
            })
    }

    /// Says at which card a neighbour of an Ethernet interface is, for good: nobody is asked any more.
    ///
    /// # Errors
    /// There is no such interface, or the neighbour is known.
    pub fn add_neighbour(
        &mut self,
        name: &str,
        address: Ipv4Addr,
        card: [u8; 6],
    ) -> Result<(), Error> {
        // `linux/neighbour.h`
        const PERMANENT: u16 = 0x80;
        const DESTINATION: u16 = 1;
        const LINK_ADDRESS: u16 = 2;
        let index = self.link(name)?.index;
        // struct ndmsg: family, three bytes of padding, index, state, flags, type.
        let [i0, i1, i2, i3] = index.to_ne_bytes();
        let [s0, s1] = PERMANENT.to_ne_bytes();
        let request = Request::new(NEW_NEIGHBOUR, REQUEST | ACKNOWLEDGE | CREATE_NEW)
            .with(&[libc::AF_INET as u8, 0, 0, 0, i0, i1, i2, i3, s0, s1, 0, 0])
            .attribute(DESTINATION, &address.octets())
            .attribute(LINK_ADDRESS, &card);
        self.request("add a neighbour to", name, request)
            .map_err(|error| error.remedy_if(libc::EEXIST, "it already has this neighbour"))
    }
}

fn about_address(request: Request, index: u32, address: Ipv4Addr, prefix: u8) -> Request {
    let [i0, i1, i2, i3] = index.to_ne_bytes();
    // struct ifaddrmsg: family, prefix, flags, scope, index.
    request
        .with(&[libc::AF_INET as u8, prefix, 0, 0, i0, i1, i2, i3])
        .attribute(libc::IFA_LOCAL, &address.octets())
        .attribute(libc::IFA_ADDRESS, &address.octets())
}
