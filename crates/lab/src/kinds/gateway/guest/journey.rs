//! The ways of the frames through a test bed, put together from the stamps of its controllers.
//!
//! Frames are paired by the number in their first two bytes, never by their order.

use std::collections::BTreeMap;

use candor_diagnostics::{by_count, counted};
use candor_lat::pairing::{Limits, Outcome, Pairing};
use candor_lat::{Tap, TapPath, Taps};
use candor_protocol::report::{Stamp, Wire};

/// Numbers come back after so many frames.
const NUMBERS: u64 = 1 << 16;

/// The way of one frame, as far as it was seen.
pub(super) struct Journey {
    /// Counted from 0, without an end.
    pub(super) number: u64,
    queued_ns: u64,
    /// When it began on the source bus, if that was seen.
    started_ns: Option<u64>,
    /// When the monitor on the source bus saw it.
    pub(super) monitored: Option<u64>,
    /// Places in the list of received frames; further ones are copies.
    pub(super) arrivals: Vec<usize>,
}

impl Journey {
    pub(super) fn taps(&self) -> Taps {
        let taps = Taps::new(TapPath::CAN_GATEWAY).with(Tap::Queued, self.queued_ns);
        let taps = self.started_ns.map_or(taps, |at| taps.with(Tap::SourceStart, at));
        self.monitored.map_or(taps, |at| taps.with(Tap::SourceEnd, at))
    }
}

/// The frames that were to be sent, in order.
pub(super) struct Journeys(pub(super) Vec<Journey>);

impl Journeys {
    /// A frame is queued when it is due: a sender on a machine of its own would have sent it then.
    pub(super) fn new(sent: &[Stamp], due: &[u64]) -> Result<Self, String> {
        if !due.is_empty() && due.len() != sent.len() {
            return Err(format!(
                "the guest sent {}, but {} {} due",
                counted(sent.len(), "frame"),
                due.len(),
                by_count(due.len(), "was", "were")
            ));
        }
        let mut due = due.iter();
        let mut journey = |(number, stamp): (u64, &Stamp)| {
            if stamp.number != number as u16 {
                return Err(format!("the guest sent number {} as frame {number}", stamp.number));
            }
            let queued_ns = due.next().map_or(stamp.time_ns, |&due| due.min(stamp.time_ns));
            Ok(Journey {
                number,
                queued_ns,
                started_ns: None,
                monitored: None,
                arrivals: Vec::new(),
            })
        };
        Ok(Self((0..).zip(sent).map(&mut journey).collect::<Result<_, _>>()?))
    }

    /// Notes what the monitor saw. A stamp belongs to the latest frame of its number that had been
    /// sent by then.
    pub(super) fn watch(&mut self, monitored: &[Stamp]) -> Result<(), String> {
        let mut by_number: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, journey) in self.0.iter().enumerate() {
            by_number.entry((journey.number % NUMBERS) as u16).or_default().push(index);
        }
        for stamp in monitored {
            let bearers = by_number.get(&stamp.number).map_or(&[][..], Vec::as_slice);
            let until = bearers.partition_point(|&index| self.0[index].queued_ns <= stamp.time_ns);
            let Some(&index) = until.checked_sub(1).and_then(|last| bearers.get(last)) else {
                return Err(format!(
                    "the monitor saw a frame with the number {} that was not sent",
                    stamp.number
                ));
            };
            self.0[index].monitored = Some(stamp.time_ns);
        }
        Ok(())
    }

    /// Notes when frames began on the source bus.
    pub(super) fn begin(&mut self, wire: &Wire) {
        let seen = self.0.iter_mut().filter(|journey| journey.monitored.is_some());
        for (journey, on_wire) in seen.zip(&wire.source) {
            journey.started_ns = Some(on_wire.started_ns);
        }
    }

    /// How many frames the monitor did not see. They never left, usually because the sender's queue was
    /// full.
    pub(super) fn unmonitored(&self) -> u64 {
        self.0.iter().filter(|journey| journey.monitored.is_none()).count() as u64
    }

    /// Pairs what the monitor saw with what was received. How many were received that nobody had sent.
    pub(super) fn pair(&mut self, monitored: &[Stamp], received: &[Stamp]) -> u64 {
        let bearers: BTreeMap<(u64, u16), usize> = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(index, journey)| {
                Some(((journey.monitored?, (journey.number % NUMBERS) as u16), index))
            })
            .collect();
        let places: BTreeMap<(u64, u16), usize> = received
            .iter()
            .enumerate()
            .map(|(index, stamp)| ((stamp.time_ns, stamp.number), index))
            .collect();
        let mut latest: BTreeMap<u16, usize> = BTreeMap::new();
        let mut note = |outcome| match outcome {
            Outcome::Paired(pair) => {
                let bearer = bearers.get(&(pair.sent_ns, pair.number));
                let place = places.get(&(pair.received_ns, pair.number));
                if let (Some(&bearer), Some(&place)) = (bearer, place) {
                    self.0[bearer].arrivals.push(place);
                    latest.insert(pair.number, bearer);
                }
            }
            Outcome::Duplicated { number, received_ns } => {
                let place = places.get(&(received_ns, number));
                if let (Some(&bearer), Some(&place)) = (latest.get(&number), place) {
                    self.0[bearer].arrivals.push(place);
                }
            }
            Outcome::Lost { .. } | Outcome::Unknown { .. } => {}
        };
        let mut events: Vec<_> = monitored.iter().map(|stamp| (stamp, true)).collect();
        events.extend(received.iter().map(|stamp| (stamp, false)));
        // Of equal times the monitor comes first; the sort keeps the order of equals.
        events.sort_by_key(|(stamp, is_monitor)| (stamp.time_ns, !is_monitor));
        let mut pairing = Pairing::new(limits(monitored));
        for (stamp, is_monitor) in events {
            if is_monitor {
                pairing.sent(stamp.number, stamp.time_ns, &mut note);
            } else {
                pairing.received(stamp.number, stamp.time_ns, &mut note);
            }
        }
        pairing.finish(&mut note);
        pairing.counts().unknown
    }
}

/// Late is late: what is lost decides the end of the run. But a number that comes back belongs to another frame, also if that one's arrival is
/// stamped a little before its sending; so nothing is taken for a frame later than the shortest time between two bearers of a number, less that.
fn limits(monitored: &[Stamp]) -> Limits {
    let mut former_ns = vec![None; NUMBERS as usize];
    let mut shortest_ns = u64::MAX;
    for &Stamp { number, time_ns } in monitored {
        if let Some(former_ns) = former_ns[usize::from(number)].replace(time_ns) {
            shortest_ns = shortest_ns.min(time_ns.saturating_sub(former_ns));
        }
    }
    let Limits { slack_ns, .. } = Limits::default();
    Limits { timeout_ns: shortest_ns.saturating_sub(slack_ns), slack_ns }
}
