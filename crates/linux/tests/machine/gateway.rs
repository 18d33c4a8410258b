//! can-gw: jobs that `candor_rules::netlink` encodes, sent, listed, deleted, and at work.

use candor_engine::edit::{Crc8, Crc8Profile, Operands, Range, XorChecksum};
use candor_engine::{Bus, BusIndex, Edit, Filter, Gate, Rule, Table};
use candor_linux::Sent;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::netlink::Netlink;
use candor_rules::netlink::{self, Counters, Request};
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 4] = [
    ("jobs_are_listed_as_they_were_added", Need::Can, listed),
    ("frames_are_forwarded_in_the_order_of_the_rules", Need::Can, forwarded),
    ("jobs_are_deleted", Need::Can, deleted),
    ("refusals_name_the_remedy", Need::Can, refusals),
];

const BUSES: [&str; 3] = ["gw0", "gw1", "gw2"];

fn buses(netlink: &mut Netlink) -> Table {
    for (bus, peer) in BUSES.into_iter().zip(["x0", "x1", "x2"]) {
        netlink.create_vxcan(bus, peer).unwrap();
        netlink.set_up(bus, true).unwrap();
        netlink.set_up(peer, true).unwrap();
        netlink.wait_until_running(bus, Nanos::from_secs(5)).unwrap();
    }
    let bus = |name: &&str| Bus { name: (*name).into(), port: (*name).into(), is_virtual: false };
    Table { buses: BUSES.iter().map(bus).collect(), ..Table::default() }
}

fn requests(table: &Table) -> Vec<Request> {
    let index = |bus: BusIndex| {
        let name = &table.buses[usize::from(bus.0)].port;
        candor_linux::interface_index(name).unwrap()
    };
    netlink::requests(table, index).unwrap()
}

fn add(netlink: &mut Netlink, requests: &[Request]) {
    for request in requests {
        netlink.add_job(&request.payload).unwrap_or_else(|error| panic!("{error}: {request:?}"));
    }
}

fn frame(text: &str) -> RawFrame {
    RawFrame::from(text.parse::<Frame>().unwrap())
}

fn identity() -> Operands {
    Operands { can_id: Some(0), ..Operands::default() }
}

/// Rules with everything there is.
fn every_kind() -> Vec<Rule> {
    let rule = || Rule::new("", BusIndex(0), BusIndex(1));
    let data = |byte: u8| Some(Box::new([byte; 64]));
    let crc8 = |profile, range| Crc8 {
        range,
        init: 0xFF,
        final_xor: 0xFE,
        table: Box::new(Crc8::table_of(0x1D)),
        profile,
    };
    let checksum = |range| XorChecksum { range, init: 0xA5 };
    let absolute = Range { from: 0, to: 6, result: 7 };
    let all = |operator: u8, flags: Option<u8>| Operands {
        can_id: Some(0x100 + u32::from(operator)),
        len: Some(operator),
        flags,
        data: data(operator),
    };
    let mut rules = vec![
        rule(),
        Rule { gate: Gate::Any, filters: vec![Filter::standard(0x100)], ..rule() },
        Rule { filters: vec![Filter::extended(0x1234_5678)], echo: true, ..rule() },
        Rule { except: vec![Filter::standard(0x100)], keep_timestamp: true, ..rule() },
        Rule { to: vec![BusIndex(1), BusIndex(2)], limit_hops: Some(2), ..rule() },
        Rule { filters: vec![Filter { can_id: 0, mask: 0x2000_0007, inverted: false }], ..rule() },
        Rule { from: BusIndex(1), to: vec![BusIndex(1)], allow_return: true, ..rule() },
        Rule { uid: 0xFFFF_0001, edit: Edit { or: identity(), ..Edit::default() }, ..rule() },
    ];
    for (gate, flags) in [(Gate::Classical, None), (Gate::Fd, Some(1))] {
        let edit = Edit {
            and: all(1, flags),
            or: all(2, flags),
            xor: all(3, flags),
            set: all(4, flags),
            crc8: Some(crc8(Crc8Profile::ByCounter([7; 16]), absolute)),
            xor_checksum: Some(checksum(Range { from: -3, to: -2, result: -1 })),
        };
        rules.push(Rule { gate, edit, ..rule() });
    }
    for profile in [Crc8Profile::Plain, Crc8Profile::OneByte(9), Crc8Profile::IdXor] {
        let edit = Edit { or: identity(), crc8: Some(crc8(profile, absolute)), ..Edit::default() };
        rules.push(Rule { edit, ..rule() });
    }
    rules
}

fn listed() {
    let mut netlink = Netlink::open().unwrap();
    let table = Table { rules: every_kind(), max_hops: 3, ..buses(&mut netlink) };
    let requests = requests(&table);
    assert_eq!(requests.len(), 15);
    assert_eq!(netlink.jobs(), Ok(Vec::new()));
    add(&mut netlink, &requests);
    let listed = netlink.jobs().unwrap();
    assert_eq!(listed.len(), requests.len());
    for (payload, request) in listed.iter().zip(requests.iter().rev()) {
        assert_eq!(netlink::decode(payload), Ok((request.job.clone(), Counters::default())));
    }
}

fn forwarded() {
    let mut netlink = Netlink::open().unwrap();
    let set =
        |id| Edit { set: Operands { can_id: Some(id), ..Operands::default() }, ..Edit::default() };
    let rule = || Rule {
        filters: vec![Filter::standard(0x123)],
        ..Rule::new("", BusIndex(0), BusIndex(1))
    };
    let rules = vec![
        Rule { edit: set(0x1), to: vec![BusIndex(1), BusIndex(2)], ..rule() },
        Rule { edit: set(0x2), ..rule() },
        Rule { edit: set(0x3), ..rule() },
    ];
    let table = Table { rules, ..buses(&mut netlink) };
    let requests = requests(&table);
    add(&mut netlink, &requests);
    let socket = |name| {
        let socket = Socket::open(name).unwrap();
        socket.set_blocking(false).unwrap();
        socket
    };
    let [sender, one, two] = ["x0", "x1", "x2"].map(socket);
    for text in ["123#AA", "124#BB", "123#CC"] {
        assert_eq!(sender.send(&frame(text)), Ok(Sent::Taken));
    }
    let texts = |socket: &Socket| {
        let mut texts = Vec::new();
        while let Some(frame) = socket.receive().unwrap() {
            texts.push(frame.frame().unwrap().to_string());
        }
        texts
    };
    assert_eq!(texts(&one), ["001#AA", "002#AA", "003#AA", "001#CC", "002#CC", "003#CC"]);
    assert_eq!(texts(&two), ["001#AA", "001#CC"]);
    let counters: Vec<_> = netlink.jobs().unwrap();
    let counters = counters.iter().map(|payload| netlink::decode(payload).unwrap().1);
    assert_eq!(counters.collect::<Vec<_>>(), [Counters { handled: 2, ..Counters::default() }; 4]);
    // The destination is down: dropped.
    netlink.set_up("gw2", false).unwrap();
    assert_eq!(sender.send(&frame("123#DD")), Ok(Sent::Taken));
    let jobs = netlink.jobs().unwrap();
    let counted = |index: usize| netlink::decode(&jobs[index]).unwrap().1;
    assert_eq!(counted(0), Counters { handled: 3, ..Counters::default() });
    assert_eq!(counted(1), Counters { handled: 2, dropped: 1, deleted: 0 });
}

fn deleted() {
    let mut netlink = Netlink::open().unwrap();
    let table = Table { rules: every_kind(), max_hops: 3, ..buses(&mut netlink) };
    let requests = requests(&table);
    add(&mut netlink, &requests);
    for (index, request) in requests.iter().enumerate() {
        netlink.delete_job(&request.payload).unwrap_or_else(|error| panic!("{error}: {request:?}"));
        assert_eq!(netlink.jobs().unwrap().len(), requests.len() - index - 1);
    }
    let error = netlink.delete_job(&requests[0].payload).unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
    add(&mut netlink, &requests);
    netlink.delete_job(&netlink::delete_all()).unwrap();
    assert_eq!(netlink.jobs(), Ok(Vec::new()));
}

fn refusals() {
    let mut netlink = Netlink::open().unwrap();
    let table = buses(&mut netlink);
    let rule = || Rule::new("", BusIndex(0), BusIndex(1));
    let mut refused = |rule: Rule| {
        let requests = requests(&Table { rules: vec![rule], ..table.clone() });
        netlink.add_job(&requests[0].payload).unwrap_err()
    };
    let error = refused(Rule { limit_hops: Some(7), ..rule() });
    assert!(error.is(libc::EINVAL) && error.to_string().contains("max_hops"), "{error}");
    let requests = requests(&Table { rules: vec![rule()], ..table.clone() });
    let foreign = requests[0].job.clone().with_interfaces(|_| 1);
    let error = netlink.add_job(&netlink::encode(&foreign)).unwrap_err();
    assert!(error.is(libc::ENODEV) && error.remedy().is_some(), "{error}");
    assert!(netlink.add_job(&[29, 1, 0]).is_err(), "cut");
}
