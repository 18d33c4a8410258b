//! What else the machine has to do while it is measured.

mod hackbench;
mod ping;
mod station;

use std::net::Ipv4Addr;

use candor_linux::netlink::Netlink;
use candor_time::Nanos;

use crate::failure::{Context, Failure};

pub(crate) use hackbench::Hackbench;
pub(crate) use ping::FloodPing;
pub(crate) use station::set_up_link;

/// A cable is there after a second or two.
const LINK_TIMEOUT: Nanos = Nanos::from_secs(20);
const PREFIX: u8 = 24;

/// Gives a network card its address, and switches it on.
fn configure(netlink: &mut Netlink, (name, address): (&str, Ipv4Addr)) -> Result<(), Failure> {
    let remedy = "check the network cards of the machine";
    netlink.add_address(name, address, PREFIX).at(name, remedy)?;
    netlink.set_up(name, true).at(name, remedy)
}
