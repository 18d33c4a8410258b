//! cannelloni 2.1.2 at the other end of the tunnel.

use candor_wire::can::Frame;

use crate::bench::{
    Capture, Gateway, Process, Sender, argument, frame, port, texts, until, virtual_buses,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 2] = [
    ("cannelloni_understands_by_udp", Need::Guest, udp),
    ("cannelloni_understands_by_tcp", Need::Guest, tcp),
];

/// Every kind, and every length that has a meaning of its own.
fn frames() -> Vec<Frame> {
    let bytes = |len: usize| "5A".repeat(len);
    let mut texts: Vec<String> = [
        "000#",
        "7FF#0102030405060708",
        "123#R",
        "123#R3",
        "00000000#",
        "1FFFFFFF#FF",
        "1FFFFFFF#R",
        "123##0",
        "123##1AA",
        "123##2AABB",
        "123##3AABBCC",
        "12345678##0",
    ]
    .map(str::to_owned)
    .into();
    texts.extend((0..=8).map(|len| format!("124#{}", bytes(len))));
    for len in [0, 1, 7, 8, 12, 16, 20, 24, 32, 48, 64] {
        texts.push(format!("125##1{}", bytes(len)));
        texts.push(format!("12345678##0{}", bytes(len)));
    }
    texts.iter().map(|text| frame(text)).collect()
}

/// Frames from one virtual bus through candor, the tunnel and cannelloni to the other, and back.
fn both_ways(bus: &str, peer: &[&str], keeps_remote_len: bool) {
    let mut netlink = virtual_buses(&["vcan0", "vcan1"]);
    netlink.set_up("lo", true).unwrap();
    let rules = format!(
        "[bus]\nhere = \"vcan0\"\ntunnel = \"{bus}\"\n\
         [[rule]]\nname = \"out\"\nfrom = \"here\"\nto = \"tunnel\"\nframes = \"any\"\n\
         [[rule]]\nname = \"in\"\nfrom = \"tunnel\"\nto = \"here\"\nframes = \"any\"\necho = true\n"
    );
    let [here, there] = ["vcan0", "vcan1"].map(Capture::new);
    let mut gateway = Gateway::start(&rules, &[]);
    let program = argument("cannelloni").expect("--cannelloni=FILE is missing");
    let peer =
        Process::start(&program, "cannelloni", &[&["-I", "vcan1", "-t", "1000"], peer].concat());
    let (mut at_here, mut at_there) = (Sender::new("vcan0"), Sender::new("vcan1"));
    // Until both ends are there frames get lost: as they may with UDP, and while TCP connects.
    let knock = frame("7FF#4B");
    until(
        || {
            at_here.send(&knock);
            candor_linux::clock::sleep_until(
                crate::bench::now() + candor_time::Nanos::from_millis(5),
            )
            .unwrap();
            there.count() > 0
        },
        || format!("cannelloni does not answer: {}", peer.said()),
    );
    candor_linux::clock::sleep_until(crate::bench::now() + candor_time::Nanos::from_millis(300))
        .unwrap();
    let (before_here, before_there) = (here.count(), there.count());
    let frames = frames();
    frames.iter().for_each(|frame| at_here.send(frame));
    let count = frames.len() as u64;
    // What is sent here is received here too.
    let received = there.exactly(before_there + count);
    let expected = texts(&frames).into_iter().map(|text| match text.as_str() {
        "123#R3" if !keeps_remote_len => "123#R".to_owned(),
        _ => text,
    });
    assert_eq!(texts(&received[before_there as usize..]), expected.collect::<Vec<_>>());
    here.exactly(before_here + count);

    frames.iter().for_each(|frame| at_there.send(frame));
    let received = here.exactly(before_here + 2 * count);
    assert_eq!(texts(&received[(before_here + count) as usize..]), texts(&frames));
    let snapshot = gateway.once("all of them counted", |it| port(it, "tunnel").received >= count);
    let tunnel = port(&snapshot, "tunnel");
    assert_eq!(
        (
            tunnel.received,
            tunnel.malformed_frames + tunnel.malformed_datagrams,
            tunnel.missing_datagrams,
            tunnel.out_of_order_datagrams,
        ),
        (count, 0, 0, 0),
        "{tunnel:?}"
    );
    gateway.end();
    drop(peer);
}

fn udp() {
    both_ways(
        "cannelloni:udp://127.0.0.1:20001?listen=20000",
        &["-R", "127.0.0.1", "-r", "20000", "-l", "20001"],
        true,
    );
}

fn tcp() {
    // What cannelloni 2.1.2 reads from a stream has no length if it is a remote frame (decoder.cpp).
    both_ways("cannelloni:tcp://127.0.0.1:20001", &["-C", "s", "-l", "20001", "-p"], false);
}
