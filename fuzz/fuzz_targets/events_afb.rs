//! What clients of the WebSocket say: a call whose arguments are taken subscribes to what it says, and frames come
//! out as events that are JSON; nothing else happens.
#![no_main]

use candor_events::afb::{Api, parse, reply, wanted};
use candor_events::{Bus, Format, Hub, Subscriber};
use serde_json::Value;

const FORMAT: Format = Format::Afb(Api::Canbus);

fn line_feed(_: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Ok(Some(call)) = parse(&text) else { return };
    let mut refused = Vec::new();
    reply(&call.id, Err(&call.verb), &mut refused);
    serde_json::from_slice::<Value>(&refused).unwrap();
    let Ok(wanted) = wanted(&call.arguments) else { return };
    let mut hub = Hub::new(vec![Bus { name: call.api, database: None }]);
    hub.open(FORMAT, line_feed);
    let mut subscriber = Subscriber::new(&hub, FORMAT);
    for pattern in wanted.patterns {
        subscriber.subscribe(&mut hub, pattern, wanted.filter.clone(), wanted.is_latest);
    }
    for frame in ["620#0102", "18FEF100#FF", "620#0103"] {
        hub.publish(0, 1_000, &frame.parse().unwrap());
    }
    let mut out = Vec::new();
    subscriber.deliver(&hub, usize::MAX, &mut out);
    let events = String::from_utf8(out).unwrap();
    for event in events.lines().skip(1) {
        serde_json::from_str::<Value>(event).unwrap();
    }
    let counts = subscriber.counts();
    assert_eq!(counts.missed, 0);
    assert_eq!(counts.delivered, events.lines().skip(1).count() as u64);
    subscriber.leave(&mut hub);
});
