//! How fast a recording reaches one subscriber that it waits for (`pace = "subscribers"`).
//!
//!     cargo bench -p candor-signal-service --bench signals_pace [-- EVENTS [FORMAT]]
//!
//! A recording of 340 identifiers is played again and again to one client, over WebSocket on the loopback: `cbor` and
//! `msgpack` with batches, `json` with an event per message, or `inside` in the process. The client decodes each event and
//! checks that none is missing. All threads are in one process.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::error::Error;
use std::time::Instant;

use candor_signal_service::client::{Client, Event};
use candor_signal_service::{
    Batch, ClientTimeouts, Config, Content, Encoding, Filter, Pace, Pattern, Place, Service, Source,
};
use serde_json::json;

const FORMATS: [&str; 4] = ["json", "cbor", "msgpack", "inside"];
const IDS: u64 = 340;
/// Frames of the recording; the data of each is its number in it.
const FRAMES: u64 = 340 * 1_000;

/// Checks that frames come one after the other.
#[derive(Default)]
struct Order {
    next: Option<u64>,
}

impl Order {
    fn take(&mut self, data: &[u8]) {
        let number = data.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        if let Some(next) = self.next {
            assert_eq!(number, next, "a frame is missing");
        }
        self.next = Some((number + 1) % FRAMES);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let events: u64 = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let formats: Vec<String> = match arguments.next() {
        Some(format) => vec![format],
        None => FORMATS.map(str::to_owned).into(),
    };
    println!("| to a client, as | events per second, none missing |\n|---|---|");
    for format in formats {
        println!("| {format} | {:.2} M |", rate(events, &format)? / 1e6);
    }
    Ok(())
}

/// Events per second.
fn rate(events: u64, format: &str) -> Result<f64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.log");
    let line = |at: u64| {
        let data: String = at.to_le_bytes().iter().map(|byte| format!("{byte:02X}")).collect();
        format!("({}.{:06}) can0 {:03X}#{data}\n", 1_000 + at / 10_000, at % 10_000 * 100, at % IDS)
    };
    std::fs::write(&path, (0..FRAMES).map(line).collect::<String>())?;
    let source = Source {
        name: "car".into(),
        address: format!("file:{}?loop=true", path.display()).parse()?,
        database: None,
        pace: Pace::Subscribers,
    };
    let service = Service::start(Config {
        sources: vec![source],
        listen: vec!["127.0.0.1:0".parse()?],
        dbus: Vec::new(),
        coalesce: "1.5ms".parse()?,
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts::default(),
    })?;
    let mut order = Order::default();
    let mut count = 0;
    let begin;
    if format == "inside" {
        let mut local = service.local()?;
        local.subscribe(Pattern::Raw, Filter::default(), false);
        let mut batch = Batch::default();
        begin = Instant::now();
        while count < events && local.next_batch(&mut batch) {
            for event in batch.events() {
                let Content::Data(data) = event.content else { continue };
                order.take(data);
                count += 1;
            }
        }
    } else {
        let encoding = match format {
            "cbor" => Some(Encoding::Cbor),
            "msgpack" => Some(Encoding::MessagePack),
            "json" => None,
            _ => return Err(format!("the formats are {}", FORMATS.join(", ")).into()),
        };
        let Some(Place::Tcp(address)) = service.places().first() else {
            return Err("no place".into());
        };
        let mut client = Client::connect_with(&format!("ws://{address}/api"), encoding)?;
        let mut wanted = json!({ "id": "*" });
        if encoding.is_some() {
            wanted["batch"] = true.into();
        }
        client.call("subscribe", &wanted)?;
        begin = Instant::now();
        while count < events {
            if let Event::Frame { data, .. } = client.next_event()? {
                order.take(&data);
                count += 1;
            }
        }
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}
