//! A subscriber as a process: it decodes every event, and writes down when it had it.

use std::path::Path;

use candor_events::binary::{self, Content, Encoding, Message};
use candor_linux::clock;
use candor_signal_service::client::{Client, Error};
use candor_time::Monotonic;
use serde::Deserialize;
use serde_json::json;

use super::SubscriberKind;
use super::times::{self, NEVER};
use super::worker::{Report, answer};

/// An event as a program would have it.
#[derive(Deserialize)]
struct Event<'a>(u8, &'a str, Envelope);

#[derive(Deserialize)]
struct Envelope {
    data: Data,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    Frame { data: [u8; 8] },
    Missed { missed: u64 },
}

/// Subscribes to all frames until the service ends.
pub(super) fn subscribe(
    url: &str,
    kind: SubscriberKind,
    events: u64,
    arrivals: &Path,
) -> Result<Report, String> {
    let mut times_ns = vec![NEVER; usize::try_from(events).unwrap_or(0)];
    let mut report = Report::default();
    match kind {
        // These are no processes.
        SubscriberKind::None | SubscriberKind::InProcess => {}
        SubscriberKind::Json => json(url, &mut times_ns, &mut report)?,
        SubscriberKind::Cbor => binary(url, Encoding::Cbor, &mut times_ns, &mut report)?,
        SubscriberKind::MessagePack => {
            binary(url, Encoding::MessagePack, &mut times_ns, &mut report)?;
        }
        SubscriberKind::Dbus => dbus(url, &mut times_ns, &mut report)?,
    }
    times::write(arrivals, &times_ns).map_err(|error| error.to_string())?;
    Ok(report)
}

fn json(url: &str, times_ns: &mut [u64], report: &mut Report) -> Result<(), String> {
    let mut client = Client::connect(url).map_err(|error| error.to_string())?;
    let subscribed = client.call("subscribe", &json!({ "id": "*" }));
    subscribed.map_err(|error| error.to_string())?;
    answer(&"ready")?;
    loop {
        let bytes = match client.next_bytes() {
            Ok(bytes) => bytes,
            Err(Error::Ended(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let event = serde_json::from_slice(&bytes);
        let Event(5, name, Envelope { data }) = event.map_err(|error| error.to_string())? else {
            return Err("a message is no event".into());
        };
        match data {
            Data::Missed { missed } => report.lost += missed,
            Data::Frame { data } => {
                arrived(&data, times_ns).map_err(|why| format!("{name}: {why}"))?;
                report.events += 1;
            }
        }
        report.bytes += framed_len(bytes.len());
    }
}

fn binary(
    url: &str,
    encoding: Encoding,
    times_ns: &mut [u64],
    report: &mut Report,
) -> Result<(), String> {
    let mut client =
        Client::connect_with(url, Some(encoding)).map_err(|error| error.to_string())?;
    let subscribed = client.call("subscribe", &json!({ "id": "*", "batch": true }));
    subscribed.map_err(|error| error.to_string())?;
    answer(&"ready")?;
    loop {
        let bytes = match client.next_bytes() {
            Ok(bytes) => bytes,
            Err(Error::Ended(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let message = binary::read(encoding, &bytes);
        let messages = match message.ok_or("a message is none of the protocol")? {
            Message::Batch(messages) => messages,
            one => vec![one],
        };
        for message in messages {
            match message {
                Message::Event { content: Content::Data(data), .. } => {
                    arrived(&data, times_ns)?;
                    report.events += 1;
                }
                Message::Missed(missed, _) => report.lost += missed,
                _ => {}
            }
        }
        report.bytes += framed_len(bytes.len());
    }
}

/// The service may need a moment until it is on its bus.
#[cfg(feature = "dbus")]
const ATTEMPTS: u32 = 50;

#[cfg(feature = "dbus")]
fn dbus(address: &str, times_ns: &mut [u64], report: &mut Report) -> Result<(), String> {
    use candor_signal_service::dbus::client::{Client, Content, Options};
    use candor_time::Nanos;

    let address: candor_signal_service::BusAddress = address.parse()?;
    let mut attempts = 0;
    let mut client = loop {
        attempts += 1;
        match Client::connect(&address) {
            Ok(client) => break client,
            Err(error) if attempts == ATTEMPTS => return Err(error.to_string()),
            Err(_) => {
                let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(100));
            }
        }
    };
    let options = Options { ids: vec!["*".into()], ..Options::default() };
    client.subscribe(&[], &options).map_err(|error| error.to_string())?;
    answer(&"ready")?;
    loop {
        match client.next_batch().map(|batch| batch.content) {
            Ok(Content::Frames(frames)) => {
                for (_, _, _, data) in &frames {
                    arrived(data, times_ns)?;
                }
                report.events += frames.len() as u64;
            }
            Ok(Content::Missed { missed, .. }) => report.lost += missed,
            Ok(Content::Values(_)) => {}
            Ok(Content::Ended(_)) | Err(_) => return Ok(()),
        }
    }
}

#[cfg(not(feature = "dbus"))]
fn dbus(_: &str, _: &mut [u64], _: &mut Report) -> Result<(), String> {
    Err(candor_signal_service::dbus::ABSENT.into())
}

/// Writes down that the event with this data is there.
pub(super) fn arrived(data: &[u8], times_ns: &mut [u64]) -> Result<(), String> {
    let [low, middle, high, ..] = *data else { return Err("an event has no number".into()) };
    let number = u32::from_le_bytes([low, middle, high, 0]);
    let place = times_ns.get_mut(number as usize);
    let time_ns = place.ok_or_else(|| format!("no event has number {number}"))?;
    *time_ns = clock::now::<Monotonic>().as_nanos();
    Ok(())
}

/// Bytes of a message with the header of its frame: RFC 6455, 5.2.
const fn framed_len(len: usize) -> u64 {
    let header = match len {
        0..126 => 2,
        126..65_536 => 4,
        _ => 10,
    };
    len as u64 + header
}
