//! Ports over UDP and TCP while their interface goes down, gets another name, is deleted and made anew,
//! or loses its address: while a port cannot work it says so, and afterwards it works again.
//!
//! Every driver is in every check, with both of its ends, in two namespaces that a pair of virtual
//! Ethernet interfaces connects. The namespaces end with the check, and the interfaces with them.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use candor_linux::clock;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_port::{Receiver, ReceiverCounters, Transmitter, TransmitterCounters, Until, Wanted};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::Frame;

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 4] = [
    ("ports_work_again_when_their_interface_is_up_again", Need::Veth, down),
    ("ports_work_again_when_their_interface_has_its_name_again", Need::Veth, renamed),
    ("ports_work_again_when_their_interface_is_made_again", Need::Veth, deleted),
    ("ports_work_again_when_their_address_is_back", Need::Veth, address_lost),
];

/// How long anything may take. TCP gives a connection up after 10 s.
const MOST: Nanos = Nanos::from_secs(60);
const HERE: Ipv4Addr = Ipv4Addr::new(192, 44, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 44, 0, 2);
/// So wide that there is a route to groups and to all.
const PREFIX: u8 = 1;

/// What a port needs of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Its IPv4 address.
    Address,
    /// That address, and its name.
    Both,
    /// Its name alone.
    Name,
}

/// The ends of each tunnel.
const TUNNELS: [(Needs, &str, &str); 10] = [
    (
        Needs::Address,
        "can2udp:192.44.0.1:4858?peer=192.44.0.2:4858",
        "can2udp:192.44.0.2:4858?peer=192.44.0.1:4858",
    ),
    (Needs::Address, "can2udp:0.0.0.0:4859", "can2udp:0.0.0.0:4859"),
    (Needs::Address, "multicast:239.74.163.1", "multicast:239.74.163.1"),
    (
        Needs::Both,
        "multicast:239.74.163.2?interface=here&port=43114",
        "multicast:239.74.163.2?interface=there&port=43114",
    ),
    (
        Needs::Address,
        "multicast:239.74.163.3?interface=192.44.0.1&port=43115",
        "multicast:239.74.163.3?interface=192.44.0.2&port=43115",
    ),
    (
        Needs::Name,
        "multicast:[ff15::4a]?interface=here&port=43116",
        "multicast:[ff15::4a]?interface=there&port=43116",
    ),
    (
        Needs::Address,
        "cannelloni:udp://192.44.0.2:20000?listen=192.44.0.1:20000",
        "cannelloni:udp://192.44.0.1:20000?listen=192.44.0.2:20000",
    ),
    (Needs::Address, "cannelloni:udp://192.44.0.2:20001", "cannelloni:udp://192.44.0.1:20001"),
    (
        Needs::Address,
        "cannelloni:tcp://192.44.0.2:20002",
        "cannelloni:tcp://192.44.0.2:20002?role=server",
    ),
    (
        Needs::Address,
        "cannelloni:tcp://192.44.0.1:20003?role=server",
        "cannelloni:tcp://192.44.0.1:20003",
    ),
];

fn now() -> candor_time::Instant<Monotonic> {
    clock::now()
}

/// Waits until it is so of all of them; names those of which it is not.
fn until<'a, T>(
    what: &str,
    all: &'a [T],
    is_so: impl Fn(&T) -> bool,
    name: impl Fn(&'a T) -> String,
) {
    let end = now() + MOST;
    loop {
        let others: Vec<_> = all.iter().filter(|one| !is_so(one)).collect();
        if others.is_empty() {
            return;
        }
        let names: Vec<_> = others.into_iter().map(&name).collect();
        assert!(now() < end, "{what}: not within {MOST}: {names:#?}");
        clock::sleep_until(now() + Nanos::from_millis(10)).unwrap();
    }
}

/// A port that sends all the time, in threads that end with the check.
struct Station {
    name: &'static str,
    needs: Needs,
    received: Arc<AtomicU64>,
    receiver: Arc<ReceiverCounters>,
    transmitter: Arc<TransmitterCounters>,
}

impl Station {
    /// In a namespace, where its threads stay.
    fn new(namespace: &Arc<Namespace>, needs: Needs, name: &'static str) -> Self {
        let received = Arc::<AtomicU64>::default();
        let (tell, told) = mpsc::channel();
        let (there, count) = (Arc::clone(namespace), Arc::clone(&received));
        thread::spawn(move || {
            there.enter().unwrap();
            let port = candor_drivers::open(&name.parse().unwrap(), Wanted::BOTH);
            let port = port.unwrap_or_else(|error| panic!("{error}"));
            let (receiver, transmitter) = (port.receiver.unwrap(), port.transmitter.unwrap());
            tell.send((receiver.counters(), transmitter.counters())).unwrap();
            // Threads begin in the namespace of the one that starts them.
            thread::spawn(move || send(transmitter));
            receive(receiver, &count);
        });
        let (receiver, transmitter) = told.recv().unwrap();
        Self { name, needs, received, receiver, transmitter }
    }

    fn trouble(&self) -> Option<String> {
        self.receiver.trouble.get().or_else(|| self.transmitter.trouble.get())
    }

    fn describe(&self) -> String {
        format!("{}: {:?}", self.name, self.trouble())
    }
}

/// As a gateway receives: in a call that nothing ends but what comes.
fn receive(mut receiver: Box<dyn Receiver>, count: &AtomicU64) {
    loop {
        let progress =
            receiver.receive(Until::Woken, &mut |_| _ = count.fetch_add(1, Ordering::Relaxed));
        progress.unwrap_or_else(|error| panic!("{error}"));
    }
}

fn send(mut transmitter: Box<dyn Transmitter>) {
    let frame: Frame = "123#DEADBEEF".parse().unwrap();
    loop {
        transmitter.transmit(&frame, false);
        transmitter.flush();
        clock::sleep_until(now() + Nanos::from_millis(20)).unwrap();
    }
}

/// Two namespaces, and what connects them.
struct Network {
    here: Arc<Namespace>,
    there: Arc<Namespace>,
    ours: Netlink,
    theirs: Netlink,
    stations: Vec<Station>,
}

impl Network {
    /// With both ends of each tunnel, which work.
    fn new() -> Self {
        let here = Arc::new(Namespace::current().unwrap());
        let ours = Netlink::open().unwrap();
        let there = Arc::new(Namespace::unshare().unwrap());
        let theirs = Netlink::open().unwrap();
        here.enter().unwrap();
        let mut network = Self { here, there, ours, theirs, stations: Vec::new() };
        network.connect();
        for (needs, near, far) in TUNNELS {
            network.stations.push(Station::new(&network.here, needs, near));
            network.stations.push(Station::new(&network.there, needs, far));
        }
        network.works("at first");
        network
    }

    fn connect(&mut self) {
        self.ours.create_veth("here", "there").unwrap();
        self.ours.move_to("there", &self.there).unwrap();
        self.ours.add_address("here", HERE, PREFIX).unwrap();
        self.theirs.add_address("there", THERE, PREFIX).unwrap();
        self.ours.set_up("here", true).unwrap();
        self.theirs.set_up("there", true).unwrap();
    }

    /// Frames arrive at all of these, and none says that it cannot work.
    fn works_of(&self, what: &str, which: impl Fn(&Station) -> bool) {
        let stations: Vec<_> = self.stations.iter().filter(|station| which(station)).collect();
        let count = |station: &Station| station.received.load(Ordering::Relaxed);
        let before: Vec<_> =
            stations.into_iter().map(|station| (station, count(station))).collect();
        until(
            what,
            &before,
            |(station, before)| count(station) > before + 5 && station.trouble().is_none(),
            |(station, _)| station.describe(),
        );
    }

    fn works(&self, what: &str) {
        self.works_of(what, |_| true);
    }

    /// All of these on this side say why they do not work.
    fn fails(&self, what: &str, which: impl Fn(&Station) -> bool) {
        let near = self.stations.iter().step_by(2);
        let near: Vec<_> = near.filter(|station| which(station)).collect();
        until(what, &near, |station| station.trouble().is_some(), |station| station.describe());
        for station in near {
            println!("{what}: {}", station.describe());
        }
    }
}

fn down() {
    let mut network = Network::new();
    for _ in 0..2 {
        network.ours.set_up("here", false).unwrap();
        network.fails("down", |_| true);
        network.ours.set_up("here", true).unwrap();
        network.works("up again");
    }
}

fn renamed() {
    let mut network = Network::new();
    let rename = |network: &mut Network, name: &str, new: &str| {
        // Older kernels refuse it of an interface that is up.
        network.ours.set_up(name, false).unwrap();
        network.ours.rename(name, new).unwrap();
        network.ours.set_up(new, true).unwrap();
    };
    rename(&mut network, "here", "away");
    network.fails("renamed", |station| station.needs != Needs::Address);
    network.works_of("under another name", |station| station.needs == Needs::Address);
    rename(&mut network, "away", "here");
    network.works("named as before");
}

fn deleted() {
    let mut network = Network::new();
    for _ in 0..2 {
        network.ours.delete("here").unwrap();
        network.fails("deleted", |_| true);
        network.connect();
        network.works("made again");
    }
    // So fast that nobody may notice in between.
    network.ours.delete("here").unwrap();
    network.connect();
    network.works("made again at once");
}

fn address_lost() {
    let mut network = Network::new();
    network.ours.delete_address("here", HERE, PREFIX).unwrap();
    network.fails("without an address", |station| station.needs != Needs::Name);
    network.works_of("by IPv6", |station| station.needs == Needs::Name);
    network.ours.add_address("here", HERE, PREFIX).unwrap();
    network.works("with the address again");
}
