//! A gateway allocates when it starts and when it is asked something, but not while frames flow.
//!
//! There is one test here: what it counts are the allocations of the whole process.

use std::net::UdpSocket;
use std::time::Duration;

use candor_gateway::{Config, Gateway, Rules};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Frames of a datagram.
const BATCH: u16 = 10;
/// Of these, the rules forward so many: those below 0x104, each once.
const FORWARDED: u16 = 4;
const DATAGRAMS: u32 = 500;
/// The supervisor looks at its ports now and then. A gateway that allocated for each frame would need
/// 5,000 and more.
const MOST_ALLOCATIONS: u64 = 200;

/// A datagram of cannelloni with the identifiers from 0x100 on, and data that differ by `number`.
fn datagram(number: u32) -> Vec<u8> {
    let mut bytes = vec![2, 0, number as u8];
    bytes.extend(BATCH.to_be_bytes());
    for id in 0..u32::from(BATCH) {
        bytes.extend((0x100 + id).to_be_bytes());
        bytes.push(8);
        bytes.extend(u64::from(number).to_be_bytes());
    }
    bytes
}

#[test]
fn frames_that_flow_allocate_nothing() {
    let sockets: [UdpSocket; 4] =
        std::array::from_fn(|_| UdpSocket::bind(("127.0.0.1", 0)).unwrap());
    let ports = sockets.each_ref().map(|socket| socket.local_addr().unwrap().port());
    let ([near, a, b, far], [sender, own, other, receiver]) = (ports, sockets);
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    drop((own, other));
    sender.connect(("127.0.0.1", a)).unwrap();
    let rules = format!(
        r#"default = "refuse"
[bus]
a = "cannelloni:udp://127.0.0.1:{near}?listen={a}&any_peer=true&flush=0"
b = "cannelloni:udp://127.0.0.1:{far}?listen={b}&any_peer=true&flush=0"

[[rule]]
name = "as it is"
from = "a"
to = "b"
match = ["0x100"]

[[rule]]
name = "edited"
from = "a"
to = "b"
match = ["0x101"]
set = {{ id = "0x201" }}
xor_checksum = {{ from = 0, to = -2, into = -1 }}

[[rule]]
name = "counted"
from = "a"
to = "b"
match = ["0x102"]
on_change = true
deadline = "1s"
edit = [{{ counter = {{ bit = 0, bits = 8 }} }}]

[[rule]]
name = "another format"
from = "a"
to = "b"
match = ["0x103"]
convert = "fd"

[[rule]]
name = "seldom"
from = "a"
to = "b"
match = ["0x104-0x106"]
min_interval = "1h"
"#
    );
    let (table, findings) = candor_rules::file::parse("rules.toml", &rules);
    let rules = Rules { table: table.unwrap_or_else(|| panic!("{findings}")), ..Rules::default() };
    let config = Config { measures: true, ..Config::default() };
    let gateway = Gateway::start(config, rules).unwrap_or_else(|error| panic!("{error}"));

    let datagrams: Vec<_> = (0..2 * DATAGRAMS).map(datagram).collect();
    let mut answer = [0; 2_048];
    let mut pass = |datagrams: &[Vec<u8>], seldom: u16| {
        let mut awaited = u64::from(seldom);
        let mut received = 0;
        for datagram in datagrams {
            sender.send(datagram).unwrap();
            awaited += u64::from(FORWARDED);
            while received < awaited {
                let len = receiver.recv(&mut answer).unwrap();
                assert!(len > 5);
                received += u64::from(u16::from_be_bytes([answer[3], answer[4]]));
            }
        }
        assert_eq!(received, awaited);
    };
    let (first, second) = datagrams.split_at(DATAGRAMS as usize);
    // The first frame of each identifier that may pass seldom passes.
    pass(first, 3);
    let profiler = dhat::Profiler::builder().testing().build();
    pass(second, 0);
    let counted = dhat::HeapStats::get().total_blocks;
    drop(profiler);
    assert!(counted < MOST_ALLOCATIONS, "{counted} allocations");
    println!("{counted} allocations while {} frames came", DATAGRAMS * u32::from(BATCH));

    let snapshot = gateway.snapshot();
    let port = snapshot.ports.iter().find(|port| port.bus == "a").unwrap();
    assert_eq!(port.received, u64::from(2 * DATAGRAMS) * u64::from(BATCH));
}
