//! What another user of this machine can do to ports over UDP.

use std::net::SocketAddr;

use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::udp;
use candor_port::{Received, Sent, Until, Wanted};
use candor_wire::can::Frame;

use crate::harness::stranger::{Stranger, as_stranger};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 2] = [
    ("frames_of_one_peer_are_not_taken_away", Need::OtherUser, not_taken_away),
    ("a_port_that_a_stranger_has_is_refused", Need::OtherUser, refused),
];

const HERE: &str = "can2udp:0.0.0.0:4858?peer=127.0.0.1:4859";
const THERE: &str = "can2udp:127.0.0.1:4859?peer=127.0.0.1:4858";

/// A network of our own with a loopback interface.
fn network() {
    Namespace::unshare().unwrap();
    Netlink::open().unwrap().set_up("lo", true).unwrap();
}

fn shared_at(address: &str) -> bool {
    udp::bind_shared(address.parse::<SocketAddr>().unwrap()).is_ok()
}

fn not_taken_away() {
    network();
    let here = candor_drivers::open(&HERE.parse().unwrap(), Wanted::BOTH).unwrap();
    let there = candor_drivers::open(&THERE.parse().unwrap(), Wanted::BOTH).unwrap();
    assert!(as_stranger(|| {
        for address in ["0.0.0.0:4858", "127.0.0.1:4858", "127.0.0.1:4859"] {
            assert!(!shared_at(address), "{address} can be taken");
        }
    }));
    let (mut receiver, mut transmitter) = (here.receiver.unwrap(), there.transmitter.unwrap());
    let frames: Vec<Frame> = (0..10).map(|id| format!("{id:03X}#").parse().unwrap()).collect();
    for frame in &frames {
        assert_eq!(transmitter.transmit(frame, false), Sent::Taken);
    }
    assert_eq!(transmitter.flush(), Sent::Taken);
    let mut arrived: Vec<Received> = Vec::new();
    while arrived.len() < frames.len() {
        receiver.receive(Until::Woken, &mut |received| arrived.push(*received)).unwrap();
    }
    assert!(arrived.iter().map(|received| received.frame).eq(frames));
    assert_eq!(receiver.counters().overflow.get(), 0);
}

fn refused() {
    network();
    let stranger = Stranger::that(|| udp::bind_shared("0.0.0.0:4858".parse().unwrap()).unwrap());
    let error =
        candor_drivers::open(&HERE.parse().unwrap(), Wanted::BOTH).err().unwrap().to_string();
    assert!(error.contains("another program uses this port"), "{error}");
    drop(stranger);
    candor_drivers::open(&HERE.parse().unwrap(), Wanted::BOTH).unwrap();
}
