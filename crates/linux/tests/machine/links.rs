//! Links, addresses, queues; echo requests from one namespace to another.

use std::net::Ipv4Addr;

use candor_linux::icmp;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::{Event, Link, Monitor, Netlink};
use candor_linux::poll::{self, Interest};
use candor_linux::{Sent, interface_index};
use candor_time::Nanos;

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 9] = [
    ("a_new_namespace_has_only_its_loopback", Need::Namespace, only_loopback),
    ("links_are_made_changed_and_deleted", Need::Veth, a_pair_of_links),
    ("refusals_carry_the_kernels_words", Need::Veth, refusals),
    ("echo_requests_cross_namespaces", Need::Veth, echo),
    ("changes_of_links_are_told", Need::Veth, changes),
    ("missed_changes_are_told", Need::Veth, missed_changes),
    ("changes_of_can_links_are_told", Need::Can, changes_of_can_links),
    ("can_links_are_made_and_deleted", Need::Can, can_links),
    ("queues_count_what_they_refuse", Need::Can, queues),
];

fn only_loopback() {
    let mut netlink = Netlink::open().unwrap();
    let links = netlink.links().unwrap();
    let [lo] = &links[..] else { panic!("{links:?}") };
    assert_eq!((lo.name.as_str(), lo.index, lo.is_up, lo.is_can), ("lo", 1, false, false));
    assert_eq!(netlink.link("lo").as_ref(), Ok(lo));
    assert_eq!(netlink.link_at(1).as_ref(), Ok(lo));
    netlink.set_up("lo", true).unwrap();
    assert!(netlink.link("lo").unwrap().is_up);
}

fn a_pair_of_links() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("left", "right").unwrap();
    netlink.set_queue_length("left", 77).unwrap();
    netlink.set_mtu("left", 1_234).unwrap();
    netlink.set_up("left", true).unwrap();
    let left = netlink.link("left").unwrap();
    assert_eq!((left.queue_length, left.mtu, left.is_up), (77, 1_234, true));
    assert_eq!(left.kind.as_deref(), Some("veth"));
    assert_eq!(interface_index("left"), Ok(left.index));
    netlink.set_up("left", false).unwrap();
    assert!(!netlink.link("left").unwrap().is_up);
    let error = netlink.rename("left", "right").unwrap_err();
    assert!(error.is(libc::EEXIST) && error.remedy().is_some(), "{error}");
    netlink.rename("left", "middle").unwrap();
    assert!(netlink.link("left").unwrap_err().is(libc::ENODEV));
    assert_eq!(netlink.link("middle").unwrap().index, left.index);
    netlink.delete("middle").unwrap();
    assert!(netlink.link("right").unwrap_err().is(libc::ENODEV));
    // Many links: the dump takes several datagrams.
    for index in 0..60 {
        netlink.create_veth(&format!("a{index}"), &format!("b{index}")).unwrap();
    }
    assert_eq!(netlink.links().unwrap().len(), 121);
}

fn refusals() {
    let mut netlink = Netlink::open().unwrap();
    let error = netlink.set_up("missing", true).unwrap_err();
    assert!(error.is(libc::ENODEV) && error.to_string().contains("missing"), "{error}");
    netlink.create_veth("left", "right").unwrap();
    let error = netlink.create_veth("left", "other").unwrap_err();
    assert!(error.is(libc::EEXIST) && error.remedy().is_some(), "{error}");
    let error = netlink.set_mtu("left", 10_000_000).unwrap_err();
    assert!(error.to_string().contains("mtu greater than device maximum"), "{error}");
    let error = netlink.create_veth("a-name-that-is-too-long", "other").unwrap_err();
    assert!(error.to_string().contains("1 to 15 characters"), "{error}");
    let error = netlink.add_address("left", Ipv4Addr::LOCALHOST, 99).unwrap_err();
    assert!(error.to_string().contains("left"), "{error}");
}

fn echo() {
    const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 1);
    const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 2);
    let here = Namespace::current().unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("ours", "theirs").unwrap();
    let there = Namespace::unshare().unwrap();
    let mut netlink_there = Netlink::open().unwrap();
    here.enter().unwrap();
    netlink.move_to("theirs", &there).unwrap();
    assert!(netlink.link("theirs").unwrap_err().is(libc::ENODEV));
    netlink.add_address("ours", OURS, 24).unwrap();
    netlink.set_up("ours", true).unwrap();
    netlink_there.add_address("theirs", THEIRS, 24).unwrap();
    let error = netlink.wait_until_running("ours", Nanos::from_millis(5)).unwrap_err();
    assert!(error.to_string().contains("the other end"), "{error}");
    netlink_there.set_up("theirs", true).unwrap();
    netlink.wait_until_running("ours", Nanos::from_secs(5)).unwrap();
    let error = netlink.add_address("ours", OURS, 24).unwrap_err();
    assert!(error.is(libc::EEXIST), "{error}");
    let absent = Ipv4Addr::new(10, 9, 8, 3);
    netlink.add_neighbour("ours", absent, [2, 0, 0, 0, 0, 3]).unwrap();
    let known = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap();
    let line = known.lines().find(|line| line.starts_with("10.9.8.3 ")).unwrap();
    // ATF_PERM and ATF_COM of `linux/if_arp.h`.
    assert!(line.contains("0x6") && line.contains("02:00:00:00:00:03"), "{line}");
    let error = netlink.add_neighbour("ours", absent, [2, 0, 0, 0, 0, 4]).unwrap_err();
    assert!(error.is(libc::EEXIST) && error.to_string().contains("already"), "{error}");

    let socket = icmp::Socket::open().unwrap();
    socket.set_buffers(1 << 20).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for (sequence, data_len) in [(1, 56), (2, 1_400), (3, 60_000)] {
        let request = icmp::request(0xCA9, sequence, data_len);
        assert_eq!(socket.send(THEIRS, &request), Ok(Sent::Taken));
        let reply = loop {
            assert!(poll::wait(&socket, Interest::Read, Some(Nanos::from_secs(5))).unwrap());
            if let Some(Some(reply)) = socket.receive(&mut buffer).unwrap() {
                break reply;
            }
        };
        assert_eq!(reply, icmp::Reply { identifier: 0xCA9, sequence, data_len });
    }
    socket.set_blocking(false).unwrap();
    assert_eq!(socket.receive(&mut buffer), Ok(None));
    let error = socket.send(Ipv4Addr::new(192, 0, 2, 1), &[0; 8]).unwrap_err();
    assert!(error.is(libc::ENETUNREACH), "{error}");
    let statistics = netlink.link("ours").unwrap().statistics;
    assert!(statistics.rx_bytes > 61_456 && statistics.tx_packets > 40, "{statistics:?}");
}

/// Waits for an event that `is_it`, at most a few seconds.
fn wait_for(monitor: &mut Monitor, is_it: impl Fn(&Event) -> bool) -> Event {
    loop {
        match monitor.next_event().unwrap() {
            Some(event) if is_it(&event) => return event,
            Some(_) => {}
            None => {
                let limit = Some(Nanos::from_secs(5));
                assert!(poll::wait(monitor, Interest::Read, limit).unwrap(), "nothing is reported");
            }
        }
    }
}

/// Waits until a link is reported that `is_it`.
fn wait_for_link(monitor: &mut Monitor, name: &str, is_it: impl Fn(&Link) -> bool) -> Link {
    let event = wait_for(
        monitor,
        |event| matches!(event, Event::Changed(link) if link.name == name && is_it(link)),
    );
    let Event::Changed(link) = event else { unreachable!() };
    *link
}

fn changes() {
    let mut monitor = Monitor::open().unwrap();
    let mut netlink = Netlink::open().unwrap();
    assert_eq!(monitor.next_event(), Ok(None));
    netlink.create_veth("left", "right").unwrap();
    // What has been reported by now is in the list, and not reported again.
    let links = monitor.links().unwrap();
    assert_eq!(links.len(), 3, "{links:?}");
    assert_eq!(monitor.next_event(), Ok(None));
    let index = netlink.link("left").unwrap().index;

    netlink.set_up("left", true).unwrap();
    let left = wait_for_link(&mut monitor, "left", |link| link.is_up);
    assert_eq!((left.index, left.has_carrier), (index, false), "the other end is down");
    netlink.set_up("right", true).unwrap();
    wait_for_link(&mut monitor, "left", |link| link.has_carrier && link.is_running);
    netlink.set_up("right", false).unwrap();
    let left = wait_for_link(&mut monitor, "left", |link| !link.has_carrier);
    assert!(left.is_up);
    netlink.set_mtu("left", 1_234).unwrap();
    wait_for_link(&mut monitor, "left", |link| link.mtu == 1_234);
    netlink.set_up("left", false).unwrap();
    wait_for_link(&mut monitor, "left", |link| !link.is_up);
    netlink.rename("left", "middle").unwrap();
    assert_eq!(wait_for_link(&mut monitor, "middle", |_| true).index, index);
    netlink.delete("middle").unwrap();
    let gone = wait_for(
        &mut monitor,
        |event| matches!(event, Event::Removed { name, .. } if name == "middle"),
    );
    assert_eq!(gone, Event::Removed { index, name: "middle".into() });
    assert_eq!(monitor.links().unwrap().len(), 1);
}

fn missed_changes() {
    let mut monitor = Monitor::open().unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.create_veth("left", "right").unwrap();
    // Each change takes more than a kilobyte of a buffer of some hundred.
    for round in 0..2_000 {
        netlink.set_mtu("left", 1_000 + round % 2).unwrap();
    }
    let mut reported = 0;
    while monitor.next_event().unwrap().expect("something was missed") != Event::Missed {
        reported += 1;
        assert!(reported < 2_000);
    }
    let links = monitor.links().unwrap();
    let left = links.iter().find(|link| link.name == "left").unwrap();
    assert_eq!(left.mtu, 1_001);
    assert_eq!(monitor.next_event(), Ok(None));
    netlink.set_mtu("left", 1_002).unwrap();
    wait_for_link(&mut monitor, "left", |link| link.mtu == 1_002);
}

fn changes_of_can_links() {
    let mut monitor = Monitor::open().unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vxcan("near", "far").unwrap();
    let near = wait_for_link(&mut monitor, "near", |_| true);
    assert_eq!((near.is_can, near.is_up, near.mtu), (true, false, 72));
    netlink.set_up("near", true).unwrap();
    wait_for_link(&mut monitor, "near", |link| link.is_up && !link.has_carrier);
    netlink.set_up("far", true).unwrap();
    wait_for_link(&mut monitor, "near", |link| link.is_up && link.is_running);
    netlink.delete("near").unwrap();
    wait_for(
        &mut monitor,
        |event| matches!(event, Event::Removed { index, .. } if *index == near.index),
    );
}

fn can_links() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vcan("vcan0").unwrap();
    netlink.create_vxcan("near", "far").unwrap();
    for (name, kind) in [("vcan0", "vcan"), ("near", "vxcan"), ("far", "vxcan")] {
        let link = netlink.link(name).unwrap();
        assert!(link.is_can && !link.is_up, "{link:?}");
        assert_eq!((link.kind.as_deref(), link.can), (Some(kind), None));
        assert!(!link.has_echo, "{link:?}");
        netlink.set_up(name, true).unwrap();
        netlink.set_queue_length(name, 200).unwrap();
        assert_eq!(netlink.link(name).unwrap().queue_length, 200);
    }
    netlink.set_up("vcan0", false).unwrap();
    for mtu in [16, 72] {
        netlink.set_mtu("vcan0", mtu).unwrap();
        assert_eq!(netlink.link("vcan0").unwrap().mtu, mtu);
    }
    assert!(netlink.set_mtu("vcan0", 17).unwrap_err().is(libc::EINVAL));
    let settings = candor_linux::netlink::CanSettings { bitrate: 500_000, ..Default::default() };
    let error = netlink.set_can("vcan0", &settings).unwrap_err();
    assert!(error.to_string().contains("vcan0") && error.remedy().is_some(), "{error}");
    netlink.delete("near").unwrap();
    assert!(netlink.link("far").unwrap_err().is(libc::ENODEV));
    netlink.delete("vcan0").unwrap();
}

/// A vcan interface has no queue: nothing waits, nothing is refused.
fn queues() {
    let mut netlink = Netlink::open().unwrap();
    netlink.create_vcan("vcan0").unwrap();
    netlink.set_up("vcan0", true).unwrap();
    assert_eq!(netlink.queue("vcan0"), Ok(candor_linux::netlink::Queue::default()));
    assert!(netlink.queue("vcan1").unwrap_err().is(libc::ENODEV));
}
