//! [`Load`]: how busy the bus of an interface is, by what the kernel counts.

use candor_linux::netlink::Link;
use candor_time::{Instant, Monotonic};

/// How busy the bus of an interface is, and what the kernel lost behind our back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// What the interface had dropped when it was last looked at (`tx_dropped`).
    dropped: Option<u64>,
    /// What it has dropped since the port was opened.
    pub(super) lost: u64,
    /// Bits that were counted last, and when.
    last: Option<(u64, Instant<Monotonic>)>,
    /// How much of the last second the bus was busy at least, if its bit rate is known.
    pub(super) percent: Option<f64>,
}

impl Load {
    /// A second later; `link` is the interface if there is one.
    pub(super) fn tick(&mut self, link: Option<&Link>, now: Instant<Monotonic>) {
        // SOF to the intermission of a frame with a standard identifier, without data and stuff bits
        // (ISO 11898-1). With two bit rates packets and bytes do not tell how long frames take.
        const BITS_PER_FRAME: u64 = 47;
        // An interface that is being taken down still takes frames, and drops them.
        if let Some(now) = link.map(|link| link.statistics.tx_dropped) {
            let before = self.dropped.replace(now).unwrap_or(now);
            // One that was made anew begins at zero.
            self.lost += if now < before { now } else { now - before };
        }
        let can = link.and_then(|link| Some((link.can?, &link.statistics)));
        let Some((can, counted)) = can.filter(|(can, _)| can.bitrate > 0 && can.data_bitrate == 0)
        else {
            (self.last, self.percent) = (None, None);
            return;
        };
        let frames = counted.rx_packets + counted.tx_packets;
        let bits = frames * BITS_PER_FRAME + (counted.rx_bytes + counted.tx_bytes) * 8;
        if let Some((before, then)) = self.last.replace((bits, now)) {
            let seconds = (now - then).as_secs_f64();
            let more = bits.saturating_sub(before) as f64;
            let percent = more / seconds.max(1e-3) / f64::from(can.bitrate) * 100.0;
            self.percent = Some((percent * 100.0).round() / 100.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use candor_linux::netlink::{CanState, Statistics};

    use super::*;

    #[test]
    fn the_load_is_what_the_kernel_counts_by_the_second() {
        let link = |frames: u64, data_bitrate: u32| Link {
            can: Some(CanState { bitrate: 500_000, data_bitrate, ..CanState::default() }),
            statistics: Statistics {
                rx_packets: frames,
                rx_bytes: frames * 8,
                ..Statistics::default()
            },
            ..Link::default()
        };
        let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
        let mut load = Load::default();
        load.tick(Some(&link(0, 0)), at(1));
        assert_eq!(load.percent, None);
        load.tick(Some(&link(1_000, 0)), at(2));
        assert_eq!(load.percent, Some(22.2), "1,000 frames of 111 bits");
        load.tick(Some(&link(1_000, 0)), at(3));
        assert_eq!(load.percent, Some(0.0));
        load.tick(Some(&link(2_000, 2_000_000)), at(4));
        assert_eq!(load.percent, None, "two bit rates");
        load.tick(None, at(5));
        assert_eq!((load.percent, load.lost), (None, 0));
        let dropping = |tx_dropped| {
            let statistics = Statistics { tx_dropped, ..Statistics::default() };
            Link { statistics, ..Link::default() }
        };
        for (dropped, lost) in [(7, 7), (9, 9), (1, 10)] {
            load.tick(Some(&dropping(dropped)), at(6));
            assert_eq!(load.lost, lost);
        }
    }
}
