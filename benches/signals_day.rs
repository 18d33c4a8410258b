//! A day of the signal service without its network, in virtual time: 12,586 events/s of 340 identifiers for 24 hours.
//!
//!     cargo bench -p candor-events --bench signals_day -- HOURS
//!
//! Subscribers: one for each of JSON, CBOR and events in the process, which read all; one that looks once a minute, and
//! misses what was overwritten meanwhile; one that never reads. Every hour it prints the memory of the process and
//! the counts. It fails when the memory after the first hour grows, or a sum is wrong.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fs;
use std::time::Instant;

use candor_events::afb::Api;
use candor_events::binary::Encoding;
use candor_events::{Batch, Bus, Filter, Format, Hub, Pattern, Subscriber};
use candor_wire::can::{Frame, StandardId};

const RATE: u64 = 12_586;
const IDS: u64 = 340;
const HOUR_S: u64 = 3_600;
/// Events of one tick of 1.5 ms.
const TICK: u64 = 19;
/// What may be more than after the first hour: pages that the allocator had not touched.
const SLACK_KB: u64 = 2_048;

/// Resident memory of this process in KB.
fn memory_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
}

fn header(len: usize, out: &mut Vec<u8>) {
    out.extend((len as u32).to_be_bytes());
}

fn subscriber(hub: &mut Hub, format: Format) -> Subscriber {
    hub.open(format, header);
    let mut subscriber = Subscriber::new(hub, format);
    subscriber.subscribe(hub, Pattern::Raw, Filter::default(), false);
    subscriber
}

/// Reads what is there, in parts, as a connection does.
fn read_all(subscriber: &mut Subscriber, hub: &Hub, out: &mut Vec<u8>) {
    loop {
        out.clear();
        if !subscriber.deliver(hub, 1 << 16, out).has_more {
            break;
        }
    }
}

fn main() {
    let hours: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(24);
    let mut hub = Hub::new(vec![Bus { name: "car".into(), database: None }]);
    let formats = [Format::Afb(Api::LowCan), Format::Binary(Encoding::Cbor)];
    let mut readers = formats.map(|format| subscriber(&mut hub, format));
    let mut inside = subscriber(&mut hub, Format::Plain);
    let mut slow = subscriber(&mut hub, formats[0]);
    let mut asleep = subscriber(&mut hub, formats[0]);
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    let mut first_kb = None;
    let (mut number, mut ticks) = (0_u64, 0_u64);
    println!("| hour | events | memory | slow: delivered, missed | took |");
    println!("|---|---|---|---|---|");
    for hour in 1..=hours {
        let start = Instant::now();
        let end = hour * HOUR_S * RATE;
        while number < end {
            for _ in 0..TICK.min(end - number) {
                let id = StandardId::new((number % IDS) as u16).expect("11 bits");
                let frame = Frame::new(id, &number.to_le_bytes()).expect("8 bytes");
                hub.publish(0, number * 1_000_000_000 / RATE, &frame);
                number += 1;
            }
            ticks += 1;
            for reader in &mut readers {
                out.clear();
                reader.deliver(&hub, usize::MAX, &mut out);
            }
            inside.gather(&hub, usize::MAX, &mut batch);
            // Once a minute.
            if ticks.is_multiple_of(40_000) {
                read_all(&mut slow, &hub, &mut out);
            }
        }
        for reader in readers.iter().chain([&inside]) {
            let counts = reader.counts();
            assert_eq!((counts.delivered, counts.missed), (number, 0), "somebody missed events");
        }
        read_all(&mut slow, &hub, &mut out);
        let counts = slow.counts();
        assert_eq!(counts.delivered + counts.missed, number, "an event is unaccounted for");
        let kb = memory_kb();
        let first = *first_kb.get_or_insert(kb);
        println!(
            "| {hour} | {number} | {:.1} MB | {}, {} | {:.0} s |",
            kb as f64 / 1_024.0,
            counts.delivered,
            counts.missed,
            start.elapsed().as_secs_f64()
        );
        assert!(kb <= first + SLACK_KB, "the memory grows: {first} KB after an hour, now {kb} KB");
    }
    read_all(&mut asleep, &hub, &mut out);
    let counts = asleep.counts();
    assert_eq!(counts.delivered + counts.missed, number, "who slept a day is told all of it");
}
