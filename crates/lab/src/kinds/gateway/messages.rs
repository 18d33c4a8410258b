//! [`Messages`]: what became of each message of periodic traffic, and of each identifier of numbered frames.

use std::collections::BTreeMap;

use candor_causes::Ending;
use candor_lat::account::Taken;
use candor_lat::section::Row;
use candor_lat::{Latencies, Metric, Taps};
use candor_network::show_id;
use candor_sim::Record;

use super::settings::{CanGateway, Traffic};
use crate::sections;

/// The metrics that messages have: from their queue to the end on their own bus, and to the end of their
/// way.
const METRICS: [Metric; 2] = [Metric::ResponseTime, Metric::EndToEnd];

/// The sender of numbered frames, which has no node.
const TESTER: &str = "tester";

/// The messages of an experiment, by sender and identifier. Numbered frames have one sender.
#[derive(Debug, Default)]
pub(super) struct Messages {
    places: BTreeMap<(Option<u32>, u32), usize>,
    messages: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    name: String,
    node: String,
    bus: String,
    id: String,
    sent: u64,
    received: u64,
    latencies: [Latencies; METRICS.len()],
}

impl Messages {
    /// Of an experiment whose senders are its nodes, in their order, or that sends numbered frames with several identifiers.
    pub(super) fn new(can: &CanGateway) -> Self {
        let mut all = Self::default();
        if let Traffic::Numbered { frames, .. } = &can.traffic {
            let bus = can.network.buses.first().map_or("", |bus| bus.name.as_str());
            let mut can_ids = frames.can_ids.clone();
            can_ids.sort_unstable();
            can_ids.dedup();
            if can_ids.len() > 1 {
                can_ids
                    .into_iter()
                    .for_each(|can_id| all.add(None, &show_id(can_id), (TESTER, bus), can_id));
            }
            return all;
        }
        for (sender, node) in (0_u32..).zip(&can.network.nodes) {
            let bus = can.network.buses.get(node.bus).map_or("", |bus| bus.name.as_str());
            for message in &node.messages {
                all.add(Some(sender), &message.name, (&node.name, bus), message.can_id);
            }
        }
        all
    }

    fn add(&mut self, sender: Option<u32>, name: &str, (node, bus): (&str, &str), can_id: u32) {
        // Of two entries with one identifier, nobody can tell the frames apart.
        self.places.entry((sender, can_id)).or_insert(self.messages.len());
        self.messages.push(Counted {
            name: name.to_owned(),
            node: node.to_owned(),
            bus: bus.to_owned(),
            id: show_id(can_id),
            sent: 0,
            received: 0,
            latencies: METRICS.map(|_| Latencies::new(false)),
        });
    }

    fn find(&mut self, sender: u32, can_id: u32) -> Option<&mut Counted> {
        let places = &self.places;
        let place = places.get(&(None, can_id)).or_else(|| places.get(&(Some(sender), can_id)));
        self.messages.get_mut(*place?)
    }

    /// A copy of a frame has ended.
    pub(super) fn note(&mut self, record: &Record<'_>, taken: Taken) {
        let Some(message) = self.find(record.sender, record.sent.can_id()) else { return };
        let Taken { before, now, .. } = taken;
        let received = Ending::Received;
        message.sent += u64::from(before.is_none());
        message.received += u64::from(now == received && before != Some(received));
        // All copies of a frame have the same response time.
        let counts = |metric| before.is_none() || metric != Metric::ResponseTime;
        message.record(record.taps, record.transmission_ns, counts);
    }

    /// A frame of this sender with this identifier has ended, with the taps of its first copy that arrived, if one did.
    pub(super) fn note_frame(
        &mut self,
        (sender, can_id): (u32, u32),
        has_arrived: bool,
        taps: &Taps,
        transmission_ns: u64,
    ) {
        let Some(message) = self.find(sender, can_id) else { return };
        message.sent += 1;
        message.received += u64::from(has_arrived);
        message.record(taps, transmission_ns, |_| true);
    }

    /// What they counted, also of messages that were never sent.
    pub(super) fn rows(self) -> Vec<Row> {
        let row = |message: Counted| {
            let Counted { name, id, node, bus, sent, received, latencies } = message;
            let latencies = latencies.map(|latencies| latencies.figures().into());
            sections::message([&name, &id, &node, &bus], [sent, received], latencies)
        };
        self.messages.into_iter().map(row).collect()
    }
}

impl Counted {
    fn record(&mut self, taps: &Taps, transmission_ns: u64, counts: impl Fn(Metric) -> bool) {
        for (metric, latencies) in METRICS.into_iter().zip(&mut self.latencies) {
            if counts(metric)
                && let Some(value) = metric.value(taps, transmission_ns)
            {
                latencies.record(value);
            }
        }
    }
}
