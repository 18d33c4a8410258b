//! [`Recorded`]: the frames of a capture, as an analyzer hears them.

use std::collections::BTreeMap;

use candor_time::{Instant, Nanos, Realtime};
use candor_tte::Network;
use candor_tte::frames::Destinations;
use candor_wire::eth::tte::Measurement;
use candor_wire::eth::{FCS_LEN, Frame};

use crate::analysis::{Place, Stand};
use crate::analyzer::{Arrival, Heard, other, shaped};

/// Tells what the frames of a capture are.
///
/// Frames of `candor` say which ones they are. Time-triggered frames of others do not: they are numbered by their periods. The
/// capture does not say when cycles begin, so they begin where the first of these frames is at its instant.
pub struct Recorded<'a> {
    network: &'a Network,
    destinations: Destinations,
    /// Where the ports before and behind the network are.
    stands: [Stand; 2],
    /// The begin of a period of all flows, in ns since 1970, which may be before that.
    epoch_ns: Option<i128>,
    /// The latest frame of a flow at a port: its period, counted from the epoch, and its stamp.
    latest: BTreeMap<(usize, bool), (i128, i128)>,
}

impl<'a> Recorded<'a> {
    /// With ports there, before and behind the network.
    #[must_use]
    pub fn new(network: &'a Network, before: Stand, behind: Stand) -> Self {
        let destinations = Destinations::new(network);
        let stands = [before, behind];
        Self { network, destinations, stands, epoch_ns: None, latest: BTreeMap::new() }
    }

    /// What a frame is, of which `bytes` were kept and `len` were there, without the check sequence.
    pub fn heard(
        &mut self,
        place: Place,
        (bytes, len): (&[u8], usize),
        stamp: Instant<Realtime>,
        is_outgoing: bool,
    ) -> Heard {
        let Ok(frame) = Frame::parse(bytes) else { return Heard::Stranger };
        let Some((flow, said)) = self.destinations.flow_of(bytes) else {
            return other(&self.destinations, &frame);
        };
        let said = said.filter(|it| usize::from(it.stream) == flow);
        let measurement = said.or_else(|| self.numbered(place, flow, stamp, is_outgoing));
        let Some(measurement) = measurement else { return Heard::Stranger };
        let arrival = Arrival { measurement, stamp: Some(stamp), size: len + FCS_LEN };
        shaped(self.network, flow, &frame, arrival, is_outgoing)
    }

    /// What a time-triggered frame would say that came in its period.
    fn numbered(
        &mut self,
        place: Place,
        flow: usize,
        stamp: Instant<Realtime>,
        is_outgoing: bool,
    ) -> Option<Measurement> {
        let due = |stand: Stand| {
            let due: Nanos = stand.due(self.network, flow, is_outgoing)?;
            Some(i128::from(due.as_nanos()))
        };
        let due_ns = due(self.stands[place as usize])?;
        let send_ns =
            due(Stand::FirstLink).filter(|_| is_outgoing).or_else(|| self.send_ns(flow))?;
        let period_ns = i128::from(self.network.flows[flow].period()?.as_nanos().max(1));
        let stamp_ns = i128::from(stamp.as_nanos());
        let epoch_ns = *self.epoch_ns.get_or_insert(stamp_ns - due_ns);
        // The nearest period, counted on from the frame before: clocks run apart over a long capture.
        let nearest = |distance_ns: i128| (distance_ns + period_ns / 2).div_euclid(period_ns);
        let period = match self.latest.get(&(flow, place == Place::Behind)) {
            Some((period, at_ns)) => period + nearest(stamp_ns - at_ns),
            None => nearest(stamp_ns - epoch_ns - due_ns),
        };
        self.latest.insert((flow, place == Place::Behind), (period, stamp_ns));
        let scheduled_ns = epoch_ns + period * period_ns + send_ns;
        Some(Measurement {
            run: 0,
            stream: flow as u16,
            sequence: period as u32,
            scheduled_ns: u64::try_from(scheduled_ns).unwrap_or(0),
            sent_ns: 0,
        })
    }

    fn send_ns(&self, flow: usize) -> Option<i128> {
        let send = Stand::FirstLink.due(self.network, flow, true)?;
        Some(i128::from(send.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use candor_wire::eth::Address;
    use candor_wire::eth::tte::Layout;

    use super::*;
    use crate::analysis::{Analysis, Totals};

    const NETWORK: &str = r#"
cycle = "2ms"
end_system = { a = {}, b = {} }
switch.s = {}
link = { a = { between = ["a", "s"] }, b = { between = ["s", "b"] } }
[flow]
fast = { class = "tt", id = 1, from = "a", to = "b", period = "1ms", send = "100us", relay_delay = "40us", window = "20us" }
slow = { class = "tt", id = 2, from = "a", to = "b", send = "300us", relay_delay = "40us" }
"#;

    fn network() -> Network {
        let (network, findings) = candor_tte::file::parse("network", NETWORK);
        network.unwrap_or_else(|| panic!("{findings}"))
    }

    /// A frame of a virtual link that does not say which one it is.
    fn frame(network: &Network, id: u16, size: usize) -> Vec<u8> {
        let layout = Layout {
            destination: network.frames.critical.address(id),
            source: Address([2, 0, 0, 0, 0, 1]),
            type_field: network.frames.type_field,
            size,
        };
        let mut bytes = vec![0; size - FCS_LEN];
        let len = layout.write(&[0; 46], &mut bytes).unwrap();
        assert_eq!(len, bytes.len());
        bytes
    }

    /// What an analysis makes of frames at the receiver: microseconds and bytes.
    fn analyze<'a>(network: &'a Network, frames: &[(u64, Vec<u8>)]) -> Analysis<'a> {
        let behind = Stand::Receiver(None);
        let mut recorded = Recorded::new(network, Stand::FirstLink, behind);
        let mut analysis = Analysis::new(network, None, behind, None);
        for (at_us, bytes) in frames {
            let stamp = Instant::from_nanos(at_us * 1_000);
            let heard = recorded.heard(Place::Behind, (bytes, bytes.len()), stamp, false);
            analysis.take(Place::Behind, heard, &mut |_| {});
        }
        analysis.finish(&mut |_| {});
        analysis
    }

    #[test]
    fn an_instant_is_that_of_the_bit_at_the_place() {
        let network = network();
        let (link, from) = (1, network.node("s").unwrap());
        let b = network.node("b").unwrap();
        // A frame of 64 bytes takes 5.12 us at 100 Mbit/s.
        for (stand, is_outgoing, due_ns) in [
            (Stand::FirstLink, true, Some(100_000)),
            (Stand::FirstLink, false, Some(105_120)),
            (Stand::Sender { link, from }, true, Some(140_000)),
            (Stand::Receiver(None), false, Some(145_120)),
            (Stand::Receiver(Some(b)), false, Some(145_120)),
            (Stand::Receiver(Some(from)), false, Some(105_120)),
            (Stand::Sender { link, from: b }, true, None),
        ] {
            let due = stand.due(&network, 0, is_outgoing).map(Nanos::as_nanos);
            assert_eq!(due, due_ns, "{stand:?}");
        }
    }

    #[test]
    fn frames_that_do_not_say_which_they_are_are_numbered_by_their_periods() {
        let network = network();
        let fast = |at_us| (at_us, frame(&network, 1, 64));
        let mut tagged = frame(&network, 1, 64);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let frames = [
            fast(1_000_000),
            fast(1_000_995),
            (1_000_300, frame(&network, 2, 64)),
            // One is missing, this one is 11 us late, and one comes twice in its period.
            fast(1_003_011),
            fast(1_004_000),
            fast(1_004_300),
            (1_005_000, tagged),
            (1_006_000, frame(&network, 1, 65)),
            (1_006_000, frame(&network, 3, 64)),
            (1_006_000, vec![0; 60]),
            fast(1_007_000),
            fast(1_008_000),
        ];
        let analysis = analyze(&network, &frames);
        let flows: Vec<_> = analysis.flows().collect();
        let [(0, fast), (1, slow)] = flows[..] else { panic!("{} flows", flows.len()) };
        let Totals { received, lost, duplicated, reordered } = fast.totals();
        assert_eq!([received, lost, duplicated, reordered], [6, 3, 1, 0]);
        assert_eq!((fast.outside, fast.misshapen), (1, 2));
        let residual = &fast.metrics(0)["residual"];
        assert_eq!((residual.min_ns, residual.p50_ns, residual.max_ns), (-5_000, 0, 11_000));
        // 145.12 us from the begin of the period on.
        let position = fast.positions().unwrap();
        assert_eq!((position.min_ns, position.max_ns), (140_120, 156_120));
        // Against the epoch of the first frame: 345.12 us less 145.12 us behind that, and 100 us more.
        assert_eq!(slow.metrics(0)["residual"].p50_ns, 100_000);
        assert_eq!((analysis.unplanned, analysis.strangers), (1, 1));
    }

    #[test]
    fn clocks_that_run_apart_lose_no_period() {
        let network = network();
        // 1 part in 1000 too slow: after 1000 frames that is a period.
        let frames: Vec<_> =
            (0..2_000).map(|n| (1_000_000 + n * 1_001, frame(&network, 1, 64))).collect();
        let analysis = analyze(&network, &frames);
        let Totals { received, lost, duplicated, .. } = analysis.totals();
        assert_eq!([received, lost, duplicated], [2_000, 0, 0]);
    }
}
