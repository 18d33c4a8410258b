//! The suite on the ports that need nothing but this machine; `machine` has those that need CAN.

mod suite;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use candor_drivers::REGISTRY;
use candor_linux::wake::Wake;
use candor_port::{Progress, Until, Wanted};
use suite::Bench;

/// A name that no other test has, nor another run of this one.
fn unique(name: &str) -> String {
    format!("test-{name}-{}", std::process::id())
}

#[test]
fn sim() {
    let name = format!("sim:{}?bitrate=20M&data_bitrate=20M", unique("conformance"));
    suite::run(&Bench { is_full: true, ..Bench::new(&name, &name) });
    let name = format!("{name}&queue=1");
    suite::run(&Bench { is_full: true, ..Bench::new(&name, &name) });
}

#[test]
fn file() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["log", "pcap", "pcapng"] {
        let path = folder.path().join("drive").with_extension(ending);
        let path = path.display();
        suite::run(&Bench {
            is_recording: true,
            ..Bench::new(format!("file:{path}?replace=true"), format!("file:{path}?speed=max"))
        });
    }
}

/// Numbers of ports that nobody has at the moment.
fn free_ports() -> [u16; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

#[test]
fn cannelloni_udp() {
    let [here, there] = free_ports();
    suite::run(&Bench {
        carries_raw_dlc: false,
        ..Bench::new(
            format!("cannelloni:udp://127.0.0.1:{there}?listen={here}"),
            format!("cannelloni:udp://127.0.0.1:{here}?listen={there}&flush=1ms"),
        )
    });
}

#[test]
fn cannelloni_tcp() {
    let [place, _] = free_ports();
    suite::run(&Bench {
        carries_raw_dlc: false,
        ..Bench::new(
            format!("cannelloni:tcp://127.0.0.1:{place}"),
            format!("cannelloni:tcp://127.0.0.1:{place}?role=server"),
        )
    });
}

#[test]
fn can2udp() {
    let [here, there] = free_ports();
    for version in [1, 2] {
        let name =
            |from, to| format!("can2udp:127.0.0.1:{from}?peer=127.0.0.1:{to}&version={version}");
        suite::run(&Bench {
            carries_raw_dlc: false,
            ..Bench::new(name(here, there), name(there, here))
        });
    }
}

#[test]
fn multicast() {
    let [port, _] = free_ports();
    let name = format!("multicast:239.74.163.2?interface=127.0.0.1&port={port}");
    suite::run(&Bench { carries_raw_dlc: false, ..Bench::new(&name, &name) });
}

#[test]
fn a_signal_ends_the_wait_for_a_recorded_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.log");
    std::fs::write(&path, "(1.0) can0 123#11\n(9999.0) can0 123#22\n").unwrap();
    let mut port = suite::open(REGISTRY, &format!("file:{}", path.display()), Wanted::RECEIVER);
    let receiver = port.receiver.as_mut().unwrap();
    assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Frames(1)));
    let sleeper = Wake::new().unwrap().thread();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| sleeper.interrupt_until(|| is_done.load(Ordering::Relaxed)).unwrap());
        assert_eq!(receiver.receive(Until::Woken, &mut |_| {}), Ok(Progress::Nothing));
        is_done.store(true, Ordering::Relaxed);
    });
}
