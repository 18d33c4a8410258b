//! What is read of an experiment with the signal service.

use std::sync::Arc;

use candor_time::Nanos;

use super::{SignalService, SubscriberKind};
use crate::reading::{Examined, Reading};

/// Events unless a count is given: ten seconds of the trace of 2016.
const DEFAULT_COUNT: u64 = 125_860;
/// The rate of the trace of 2016 (AGL, CAN signaling with AGL framework, 1.1).
const DEFAULT_RATE: u32 = 12_586;
/// The identifiers in that trace.
const DEFAULT_IDS: u16 = 340;
/// What the service gathers unless told otherwise.
const DEFAULT_COALESCE: Nanos = Nanos::from_micros(1_500);

pub(super) fn read(reading: Reading<'_>) -> Option<Examined> {
    let mut file = reading.file;
    file.require(&["testbed"]);
    let (mut rate_hz, mut ids) = (None, None);
    if let Some(mut traffic) = file.section("traffic") {
        rate_hz = traffic.integer("rate", 1..=1_000_000);
        ids = traffic.integer("ids", 1..=2_048);
        traffic.finish();
    }
    let mut coalesce = None;
    if let Some(mut service) = file.section("service") {
        coalesce = service.nanos("coalesce");
        service.finish();
    }
    let (mut kind, mut subscribers) = (None, None);
    if let Some(mut section) = file.section("subscribers") {
        kind = section.one_of("kind", &SubscriberKind::ALL.map(|kind| (kind.name(), kind)));
        subscribers = section.integer("count", 1..=1_000);
        section.finish();
    }
    file.finish();
    let service = SignalService {
        rate_hz: rate_hz.unwrap_or(DEFAULT_RATE),
        ids: ids.unwrap_or(DEFAULT_IDS),
        coalesce: coalesce.unwrap_or(DEFAULT_COALESCE),
        subscriber: kind.unwrap_or_default(),
        subscribers: subscribers.unwrap_or(1),
    };
    let conditions = service.describe();
    let kind = Arc::new(service);
    Some(Examined { kind, conditions, inputs: Vec::new(), count: DEFAULT_COUNT })
}
