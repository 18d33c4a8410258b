//! Ports that replace others take over what these leave.

use candor_drivers::{open, open_after};
use candor_port::{Handover, Progress, Sent, Until, Wanted};

fn transmit(name: &str, texts: &[&str]) {
    let port = open(&name.parse().unwrap(), Wanted::TRANSMITTER).unwrap();
    let mut transmitter = port.transmitter.unwrap();
    for text in texts {
        assert_eq!(transmitter.transmit(&text.parse().unwrap(), false), Sent::Taken);
    }
    transmitter.flush();
}

#[test]
fn a_port_with_other_options_takes_the_address_over_and_what_waits_there() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let (ip, from) = (format!("127.{high}.{low}.90"), format!("127.{high}.{low}.91"));
    let sender = format!("cannelloni:udp://{ip}:20000?listen={from}:20000");
    for (old, new, sender) in [
        (
            format!("cannelloni:udp://{from}:20000?listen={ip}:20000"),
            format!("cannelloni:udp://{from}:20000?listen={ip}:20000&mtu=1400"),
            sender,
        ),
        (
            format!("can2udp:{ip}:4858?peer={from}:1"),
            format!("can2udp:{ip}:4858?peer={from}:2"),
            format!("can2udp:{from}:4858?peer={ip}:4858"),
        ),
    ] {
        let first = open(&old.parse().unwrap(), Wanted::BOTH).unwrap();
        transmit(&sender, &["123#11", "124#22"]);
        let handover = Handover::new(first.endpoint.iter().cloned().collect());
        let second = open_after(&new.parse().unwrap(), Wanted::BOTH, &handover).unwrap();
        drop(first);
        let mut receiver = second.receiver.unwrap();
        let mut arrived = Vec::new();
        while arrived.len() < 2 {
            let progress = receiver
                .receive(Until::Woken, &mut |it| arrived.push(it.frame.to_string()))
                .unwrap();
            assert!(matches!(progress, Progress::Frames(_)), "{progress:?}");
        }
        assert_eq!(arrived, ["123#11", "124#22"], "{new}");
    }
}

#[test]
fn each_address_goes_to_one_port() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = format!("127.{high}.{low}.92");
    for name in [
        format!("cannelloni:udp://{ip}:20000?listen={ip}:20000"),
        format!("cannelloni:tcp://{ip}:20000?role=server"),
    ] {
        let address = name.parse().unwrap();
        let first = open(&address, Wanted::BOTH).unwrap();
        assert!(open(&address, Wanted::BOTH).is_err(), "it is in use: {name}");
        let handover = Handover::new(first.endpoint.iter().cloned().collect());
        let _second = open_after(&address, Wanted::BOTH, &handover).unwrap();
        assert!(open_after(&address, Wanted::BOTH, &handover).is_err(), "{name}");
    }
}
