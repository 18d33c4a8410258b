//! The trace: what is sent, out of a seed, with the numbers of the report of 2016.
//!
//! | of the report (AGL, CAN signaling with AGL framework, 1.1) | here |
//! |---|---|
//! | 9,971,538 events in 792 s, 340 identifiers | so many per second, with periods from 5 ms to 1 s, each with a random phase and a jitter of up to a tenth of the period |
//! | 20 bytes of UDP each | can2udp version 1, 8 bytes of data |
//! | 112.35 bytes on the WebSocket for each (1,120,331,014 in all) | digits of identifiers and data are chosen so that the report's own JSON has this length on average |
//!
//! It is a capture of CAN, UDP, IPv4 and Ethernet in pcap, as that of the report.
//!
//! The first three bytes of the data are the number of the event, low byte first, so that a subscriber knows it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::path::Path;

use candor_recording::{InterfaceIndex, Record};
use candor_sim::Random;
use candor_time::Nanos;
use candor_wire::can::{Frame, Id, StandardId};

use super::SignalService;
use crate::error::Error;
use crate::experiment::Experiment;

/// Events that can be numbered.
pub(super) const MOST_EVENTS: u64 = 1 << 24;
const INTERFACE: &str = "udpcan";
/// Bytes on the WebSocket for each event, as published.
const PUBLISHED_BYTES: f64 = 1_120_331_014.0 / 9_971_538.0;
/// What the report's event has besides digits: `[5,"udpcan\/",{"event":"udpcan\/",...}]`, and a header of 2 bytes.
const FIXED_BYTES: usize = FIXED.len() + 2;
const FIXED: &str =
    r#"[5,"udpcan\/",{"event":"udpcan\/","data":{"id":,"data":[,,,,,,,]},"jtype":"afb-event"}]"#;
/// When the trace begins, in ns since 1970; any time will do.
const BEGIN_NS: u64 = 1_474_000_000_000_000_000;
/// Periods of messages before they are scaled to the rate, in ms.
const PERIODS_MS: [u64; 8] = [5, 10, 20, 25, 50, 100, 200, 1_000];

/// A message: when it is due next without its jitter.
struct Message {
    id: StandardId,
    period: Nanos,
    due: Nanos,
}

/// Writes the trace of an experiment. How many bytes of UDP it has.
pub(super) fn write(
    path: &Path,
    experiment: &Experiment,
    service: &SignalService,
) -> Result<u64, Error> {
    if experiment.count > MOST_EVENTS {
        return Err(Error::Other(format!(
            "{}: {} events cannot be numbered; set count to {MOST_EVENTS} or less",
            experiment.name, experiment.count
        )));
    }
    let fail = |error: candor_recording::RecordingError| Error::Other(error.to_string());
    let existing = candor_output::Existing::Replace;
    let format = candor_recording::Format::by_name("can2udp");
    let mut writer = candor_recording::create(path, format, existing).map_err(fail)?;
    let mut trace = Trace::new(experiment.seed, service);
    for number in 0..experiment.count {
        let (at, frame) = trace.next(number);
        let record = Record {
            time_ns: BEGIN_NS + at.as_nanos(),
            interface: InterfaceIndex(0),
            direction: None,
            frame,
        };
        writer.write(&record, INTERFACE).map_err(fail)?;
    }
    writer.finish().map_err(fail)?;
    Ok(20 * experiment.count)
}

/// The events, one after the other.
struct Trace {
    random: Random,
    messages: Vec<Message>,
    /// The next event of each message, the earliest on top.
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Bytes of the report's JSON so far.
    published_bytes: usize,
}

impl Trace {
    fn new(seed: u64, service: &SignalService) -> Self {
        let mut random = Random::new(seed, 0);
        let mut ids = BTreeSet::new();
        while ids.len() < usize::from(service.ids) {
            ids.insert(below(&mut random, 0x800) as u16);
        }
        let mut messages: Vec<_> = ids
            .into_iter()
            .filter_map(StandardId::new)
            .map(|id| {
                let period = PERIODS_MS[below(&mut random, PERIODS_MS.len() as u64) as usize];
                Message { id, period: Nanos::from_millis(period), due: Nanos::ZERO }
            })
            .collect();
        // All periods are scaled so that the sum of the rates is the one wanted.
        let rate: f64 = messages.iter().map(|message| 1e9 / message.period.as_nanos() as f64).sum();
        let scale = rate / f64::from(service.rate_hz);
        let mut next = BinaryHeap::new();
        for (index, message) in messages.iter_mut().enumerate() {
            let scaled = message.period.as_nanos() as f64 * scale;
            message.period = Nanos::from_nanos((scaled as u64).max(1));
            message.due = random.nanos(Nanos::ZERO, message.period);
            next.push(Reverse((message.due, index)));
        }
        Self { random, messages, next, published_bytes: 0 }
    }

    fn next(&mut self, number: u64) -> (Nanos, Frame) {
        let Some(Reverse((at, index))) = self.next.pop() else {
            unreachable!("there is a message")
        };
        let message = &mut self.messages[index];
        message.due += message.period;
        let jitter = Nanos::from_nanos(message.period.as_nanos() / 10);
        let due = message.due + self.random.nanos(Nanos::ZERO, jitter);
        let id = message.id;
        self.next.push(Reverse((due, index)));
        let [low, middle, high, ..] = (number as u32).to_le_bytes();
        let mut data = [low, middle, high, 0, 0, 0, 0, 0];
        // As many bytes with three digits as bring the average where it was.
        let mut bytes = self.published_bytes + FIXED_BYTES + id_digits(id);
        bytes += data.iter().map(|byte| digits(u32::from(*byte))).sum::<usize>();
        let wanted = PUBLISHED_BYTES * (number + 1) as f64;
        for byte in &mut data[3..] {
            let is_long = bytes as f64 + 1.0 < wanted;
            let (from, to) = if is_long { (100, 256) } else { (0, 10) };
            *byte = (from + below(&mut self.random, to - from)) as u8;
            bytes += if is_long { 2 } else { 0 };
        }
        self.published_bytes = bytes;
        let frame = Frame::new(Id::Standard(id), &data);
        let Ok(frame) = frame else { unreachable!("8 bytes fit") };
        (at, frame)
    }
}

/// A whole number below `limit`.
fn below(random: &mut Random, limit: u64) -> u64 {
    ((random.unit() * limit as f64) as u64).min(limit - 1)
}

/// The digits of an identifier: three times in the report's JSON, twice of them one greater.
fn id_digits(id: StandardId) -> usize {
    let id = u32::from(id.as_raw());
    2 * digits(id + 1) + digits(id)
}

const fn digits(number: u32) -> usize {
    match number.checked_ilog10() {
        None => 1,
        Some(log) => log as usize + 1,
    }
}
