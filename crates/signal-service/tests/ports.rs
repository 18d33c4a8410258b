//! Ports that are not used any more are closed. The only test of its process: it counts descriptors.

use std::net::UdpSocket;

use candor_signal_service::{ClientTimeouts, Config, Naming, Pace, Service, Source};
use candor_time::Nanos;

fn source(name: &str, port: &str) -> Source {
    Source {
        name: name.into(),
        address: port.parse().unwrap(),
        database: None,
        pace: Pace::Received,
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_port_that_is_removed_is_closed_and_can_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    std::fs::write(&log, "(1000.0) can0 123#01\n").unwrap();
    let config = Config {
        sources: vec![source("stays", &format!("file:{}", log.display()))],
        listen: Vec::new(),
        dbus: Vec::new(),
        coalesce: Nanos::from_micros(1_500),
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts::default(),
    };
    let stays = || source("stays", &format!("file:{}", log.display()));
    let mut service = Service::start_with(config, Naming::Always).unwrap();
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for of_port in [
        |port: u16| format!("can2udp:127.0.0.1:{port}"),
        |port| format!("can2udp:0.0.0.0:{port}"),
        |port| format!("can2udp:127.0.0.1:{port}?peer=127.0.0.1"),
        |port| format!("cannelloni:udp://127.0.0.1:9?listen={port}"),
        |port| format!("cannelloni:udp://127.0.0.1:9?listen={port}&any_peer=true"),
    ] {
        let (number, mut before) = (free(), None);
        let port = of_port(number);
        for _ in 0..25 {
            service.change(vec![stays(), source("comes", &port)]).expect(&port);
            service.change(vec![stays()]).unwrap();
            // Nobody has it.
            drop(UdpSocket::bind(("0.0.0.0", number)).expect(&port));
            assert_eq!(descriptors(), *before.get_or_insert(descriptors()), "{port}");
        }
    }
}
