//! Ethernet load from outside: the guest has a card and a neighbour, which is no program of the guest.

use std::net::Ipv4Addr;

use candor_linux::clock;
use candor_linux::netlink::Netlink;
use candor_protocol::meeting;
use candor_time::{Monotonic, Nanos};

use super::{LINK_TIMEOUT, configure};
use crate::failure::{Context, FAULT, Failure};
use crate::modules::Modules;

const PLACE: &str = "the link to the station outside";
const REMEDY: &str = "check the network card of the machine";
/// QEMU's card takes no frames for a second after its receiver was set up (`flush_queue_timer` of hw/net/e1000.c), which
/// IPv6 does once more when the cable is there.
const SETTLING: Nanos = Nanos::from_secs(3);

/// Sets the card up; returns when the cable is there.
pub(crate) fn set_up_link(netlink: &mut Netlink) -> Result<(), Failure> {
    Modules::read()?.load("e1000")?;
    let (name, _, address) = meeting::CARD;
    let (card, neighbour) = meeting::STATION;
    configure(netlink, (name, address.into()))?;
    netlink.add_neighbour(name, Ipv4Addr::from(neighbour), card).at(PLACE, REMEDY)?;
    netlink.wait_until_running(name, LINK_TIMEOUT).at(PLACE, REMEDY)?;
    clock::sleep_until(clock::now::<Monotonic>() + SETTLING).at(PLACE, FAULT)
}
