//! Packet sockets: on a pair of virtual Ethernet interfaces, and on CAN.

use candor_linux::Sent;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::clock;
use candor_linux::netlink::Netlink;
use candor_linux::packet::{Ring, Sender};
use candor_linux::poll::{self, Interest};
use candor_time::{Nanos, Realtime};
use candor_wire::can::Frame;

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 4] = [
    ("a_ring_keeps_frames_in_order", Need::Veth, in_order),
    ("a_full_ring_counts_what_it_loses", Need::Veth, overflow),
    ("frames_of_can_sockets_come_in", Need::Can, vcan),
    ("frames_cross_a_pair", Need::Can, vxcan),
];

const SECONDS: Nanos = Nanos::from_secs(5);
const SECOND: Option<Nanos> = Some(Nanos::from_secs(1));

/// An Ethernet frame of a protocol that nobody has, with a number.
fn ethernet(number: u32) -> Vec<u8> {
    let mut frame = vec![0xFF; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xB5]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// The numbers of the frames that [`ethernet`] made; those of the kernel itself do not count.
fn numbers(ring: &mut Ring) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(packet) = ring.receive() {
        let bytes = packet.bytes();
        if bytes.get(12..14) == Some(&[0x88, 0xB5]) {
            numbers.push(u32::from_be_bytes(*bytes[14..].first_chunk().unwrap()));
        }
    }
    numbers
}

fn pair() -> (Ring, Sender) {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("left", "right").unwrap();
    netlink.set_up("left", true).unwrap();
    netlink.set_up("right", true).unwrap();
    netlink.wait_until_running("left", SECONDS).unwrap();
    (Ring::open("right", 256).unwrap(), Sender::open("left", true).unwrap())
}

fn in_order() {
    let (mut ring, sender) = pair();
    let start = clock::now::<Realtime>();
    // More than the ring holds, so that it wraps around.
    for round in 0..4 {
        for number in 0..100 {
            assert_eq!(sender.send(&ethernet(round * 100 + number)), Ok(Sent::Taken));
        }
        assert_eq!(ring.wait(SECOND), Ok(true));
        let expected: Vec<_> = (round * 100..round * 100 + 100).collect();
        assert_eq!(numbers(&mut ring), expected);
    }
    assert_eq!(sender.send(&ethernet(7)), Ok(Sent::Taken));
    while let Some(packet) = ring.receive() {
        assert!((start..=clock::now::<Realtime>()).contains(&packet.stamp()));
    }
    assert_eq!(ring.overflow(), Ok(0));
    // What this interface sends itself is not seen.
    let own = Sender::open("right", false).unwrap();
    assert_eq!(own.send(&ethernet(8)), Ok(Sent::Taken));
    assert_eq!(numbers(&mut ring), []);
    let error = Ring::open("missing", 1).unwrap_err();
    assert!(error.is(libc::ENODEV) && error.to_string().contains("missing"), "{error}");
}

fn overflow() {
    let (mut ring, sender) = pair();
    numbers(&mut ring);
    assert_eq!(ring.overflow(), Ok(0));
    for number in 0..300 {
        assert_eq!(sender.send(&ethernet(number)), Ok(Sent::Taken));
    }
    let kept = numbers(&mut ring);
    // The kernel's own frames may take a slot each.
    assert!((240..=256).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().copied().eq(0..kept.len() as u32), "the newest ones are lost");
    assert!(ring.overflow().unwrap() as usize >= 300 - kept.len());
    assert_eq!(ring.overflow(), Ok(0), "asking resets it");
    assert_eq!(sender.send(&ethernet(1_000)), Ok(Sent::Taken));
    assert_eq!(numbers(&mut ring), [1_000], "room again");
}

fn frame(text: &str) -> RawFrame {
    RawFrame::from(text.parse::<Frame>().unwrap())
}

fn vcan() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vcan("vcan0").unwrap();
    netlink.set_up("vcan0", true).unwrap();
    let mut ring = Ring::open("vcan0", 16).unwrap();
    let socket = Socket::open("vcan0").unwrap();
    socket.accept_fd().unwrap();
    let frames = ["123#DEADBEEF", "12345678##1AABB", "7FF#R3"].map(frame);
    let start = clock::now::<Realtime>();
    for frame in &frames {
        assert_eq!(socket.send(frame), Ok(Sent::Taken));
    }
    assert_eq!(ring.wait(SECOND), Ok(true));
    for frame in &frames {
        let packet = ring.receive().unwrap();
        assert_eq!(packet.bytes(), frame.as_bytes());
        assert!((start..=clock::now::<Realtime>()).contains(&packet.stamp()));
    }
    assert!(ring.receive().is_none());
    assert_eq!(ring.wait(Some(Nanos::ZERO)), Ok(false));
    // Frames of a packet socket reach nobody here.
    let other = Socket::open("vcan0").unwrap();
    let sender = Sender::open("vcan0", false).unwrap();
    assert_eq!(sender.send(frames[0].as_bytes()), Ok(Sent::Taken));
    assert_eq!(poll::wait(&other, Interest::Read, Some(Nanos::from_millis(10))), Ok(false));
    assert!(ring.receive().is_none());
    netlink.set_up("vcan0", false).unwrap();
    let error = ring.wait(SECOND).unwrap_err();
    assert!(error.is(libc::ENETDOWN) && error.remedy().is_some(), "{error}");
}

fn vxcan() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vxcan("near", "far").unwrap();
    netlink.set_up("near", true).unwrap();
    netlink.set_up("far", true).unwrap();
    netlink.wait_until_running("near", SECONDS).unwrap();
    let mut ring = Ring::open("far", 16).unwrap();
    let socket = Socket::open("far").unwrap();
    socket.accept_fd().unwrap();
    socket.set_blocking(false).unwrap();
    for past_queue in [false, true] {
        let sender = Sender::open("near", past_queue).unwrap();
        for frame in ["123#DEADBEEF", "12345678##1AABB"].map(frame) {
            assert_eq!(sender.send(frame.as_bytes()), Ok(Sent::Taken));
            assert_eq!(ring.wait(SECOND), Ok(true));
            assert_eq!(ring.receive().unwrap().bytes(), frame.as_bytes());
            assert_eq!(poll::wait(&socket, Interest::Read, SECOND), Ok(true));
            assert_eq!(socket.receive(), Ok(Some(frame)));
        }
        assert!(ring.receive().is_none());
    }
    netlink.set_up("near", false).unwrap();
    let error = Sender::open("near", true).unwrap().send(&[0; 16]).unwrap_err();
    assert!(error.is(libc::ENETDOWN), "{error}");
}
