//! A subscriber as a process: it decodes every event, and writes down when it had it.

use std::path::Path;

use candor_linux::clock;
use candor_serve::client::{Client, Error};
use candor_time::Monotonic;
use serde::Deserialize;
use serde_json::json;

use super::times::{self, NEVER};
use super::worker::{Report, answer};
use crate::experiment::SubscriberKind;

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
        SubscriberKind::None => {}
        SubscriberKind::Json => json(url, &mut times_ns, &mut report)?,
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
        let text = match client.next_text() {
            Ok(text) => text,
            Err(Error::Ended(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let event = serde_json::from_str(&text);
        let Event(5, name, Envelope { data }) =
            event.map_err(|error| format!("{text}: {error}"))?
        else {
            return Err(format!("`{text}` is no event"));
        };
        match data {
            Data::Missed { missed } => report.lost += missed,
            Data::Frame { data: [low, middle, high, ..] } => {
                let number = u32::from_le_bytes([low, middle, high, 0]);
                let place = times_ns.get_mut(number as usize);
                let time_ns =
                    place.ok_or_else(|| format!("{name}: no event has number {number}"))?;
                *time_ns = clock::now::<Monotonic>().as_nanos();
                report.events += 1;
                // RFC 6455, 5.2: a length from 126 on takes two bytes more.
                report.bytes += text.len() as u64 + if text.len() < 126 { 2 } else { 4 };
            }
        }
    }
}
