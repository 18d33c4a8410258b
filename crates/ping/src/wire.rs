//! [`Wire`]: round trips against the shortest that the bus allows, and the section of results about both.

use candor_lat::Histogram;
use candor_lat::section::Row;
use candor_lat::sections::PING;
use candor_time::Nanos;
use candor_wire::can::notation::Identifier;

use crate::Master;

/// Round trips compared with the shortest that the bus allows ([`shortest`](crate::shortest)).
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// The shortest and the longest that the bus allows, in ns.
    range: Option<(u64, u64)>,
    /// By how much round trips exceed it, in ns.
    above: Option<Box<Histogram>>,
}

impl Wire {
    /// Takes a round trip, and the shortest that the bus allows for its frames.
    pub fn add(&mut self, round_trip: Nanos, shortest: Nanos) {
        let wire_ns = shortest.as_nanos();
        let signed = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        let (least, most) = self.range.unwrap_or((wire_ns, wire_ns));
        self.range = Some((least.min(wire_ns), most.max(wire_ns)));
        let above_ns = signed(round_trip.as_nanos()).saturating_sub(signed(wire_ns));
        self.above.get_or_insert_default().record(above_ns);
    }
}

/// The row of [`PING`] for a track of a master, by its place in the plan; `None` for all of them, which have no
/// identifiers unless there is only one.
#[must_use]
pub fn section(master: &Master, place: Option<usize>, wire: &Wire) -> Row {
    let counts = master.counts(place);
    let tracks = &master.plan().tracks;
    let only = (tracks.len() == 1).then_some(0);
    let pair = place.or(only).and_then(|place| tracks.get(place)).map(|track| track.pair);
    let id = |word: Option<u32>| word.map(|word| Identifier(word).to_string()).into();
    PING.row([
        id(pair.map(|pair| pair.request())),
        id(pair.map(|pair| pair.answer())),
        counts.waiting().into(),
        counts.strange.into(),
        wire.range.map(|(least, _)| least).into(),
        wire.range.map(|(_, most)| most).into(),
        wire.above.as_ref().and_then(|above| above.figures()).into(),
        master.lateness(place).figures().into(),
    ])
}
