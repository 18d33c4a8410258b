//! [`Messages`]: what became of each message of periodic traffic.

use std::collections::BTreeMap;

use candor_causes::Ending;
use candor_lat::{Histogram, Metric};
use candor_network::show_id;
use candor_sim::Record;

use crate::experiment::Experiment;
use crate::result::{Figures, MessageFigures};

/// The metrics that messages have: from their queue to the end on their own bus, and to the end of their
/// way.
const METRICS: [Metric; 2] = [Metric::ResponseTime, Metric::EndToEnd];

/// The messages of an experiment, by sender and identifier.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    places: BTreeMap<(u32, u32), usize>,
    messages: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    figures: MessageFigures,
    histograms: [Histogram; METRICS.len()],
}

impl Messages {
    /// Of an experiment whose senders are its nodes, in their order.
    pub(crate) fn new(experiment: &Experiment) -> Self {
        let mut all = Self::default();
        for (sender, node) in (0_u32..).zip(&experiment.network.nodes) {
            let bus = experiment.network.buses.get(node.bus).map_or("", |bus| bus.name.as_str());
            for message in &node.messages {
                // Of two entries with one identifier, nobody can tell the frames apart.
                all.places.entry((sender, message.can_id)).or_insert(all.messages.len());
                all.messages.push(Counted {
                    figures: MessageFigures {
                        name: message.name.clone(),
                        node: node.name.clone(),
                        bus: bus.to_owned(),
                        id: show_id(message.can_id),
                        sent: 0,
                        received: 0,
                        metrics: BTreeMap::new(),
                    },
                    histograms: METRICS.map(|_| Histogram::new()),
                });
            }
        }
        all
    }

    /// A copy of a frame has ended: how the frame had ended before, if a copy had, and how it has now.
    pub(crate) fn note(
        &mut self,
        record: &Record<'_>,
        before: Option<Ending>,
        now: Option<Ending>,
    ) {
        let place = self.places.get(&(record.sender, record.sent.can_id()));
        let Some(message) = place.and_then(|place| self.messages.get_mut(*place)) else { return };
        let received = Some(Ending::Received);
        message.figures.sent += u64::from(before.is_none());
        message.figures.received += u64::from(now == received && before != received);
        for (metric, histogram) in METRICS.into_iter().zip(&mut message.histograms) {
            // All copies of a frame have the same response time.
            let counts = before.is_none() || metric != Metric::ResponseTime;
            if counts && let Some(value) = metric.value(record.taps, record.transmission_ns) {
                histogram.record(value);
            }
        }
    }

    /// What they counted, also of messages that were never sent.
    pub(crate) fn figures(self) -> Vec<MessageFigures> {
        let figures = |message: Counted| {
            let metrics =
                METRICS.iter().zip(&message.histograms).filter_map(|(metric, histogram)| {
                    let figures =
                        Figures { profile: Vec::new(), ..Figures::from_histogram(histogram)? };
                    Some((metric.key().to_owned(), figures))
                });
            MessageFigures { metrics: metrics.collect(), ..message.figures }
        };
        self.messages.into_iter().map(figures).collect()
    }
}
