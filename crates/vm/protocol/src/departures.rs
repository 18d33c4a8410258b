//! [`Departures`]: when frames leave, for a tester in the guest and for one outside of it.

use candor_wire::can::bitrate::{Bitrate, Timing};
use candor_wire::can::bits;

use crate::order::{BusTiming, Pace, Traffic};
use crate::random::Random;

/// The longest timer tick of a kernel (`CONFIG_HZ=250`, as Debian builds most of them). The first frame of
/// paced traffic leaves at an instant within it that the seed chooses: which frames meet a timer
/// interrupt, or a packet of the load, differs from seed to seed.
const TICK_NS: u64 = 4_000_000;

/// Departures, worked out before anything is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departures {
    /// Each so long after the arrival of the one before, in nanoseconds.
    AfterArrival(Vec<u64>),
    /// Each at its time, in nanoseconds since the beginning.
    At(Vec<u64>),
}

impl Departures {
    /// Those of this traffic on this bus.
    ///
    /// # Errors
    /// The traffic has a frame that is not legal, or the bus an impossible bit rate: reason and remedy.
    pub fn new(traffic: &Traffic, bus: BusTiming, seed: u64) -> Result<Self, String> {
        match traffic.pace {
            Pace::OneAtATime { shortest_ns, longest_ns, .. } => {
                let mut random = Random::new(seed);
                let whiles = (0..traffic.count).map(|_| random.between(shortest_ns, longest_ns));
                Ok(Self::AfterArrival(whiles.collect()))
            }
            Pace::Paced { period_percent, gap_ns } => {
                let timing = bus.timing()?;
                let first = Random::new(seed).between(0, TICK_NS - 1);
                // The time of a frame has an intermission.
                let longer_ns =
                    gap_ns.saturating_sub(timing.nominal.duration_ns(bits::INTERMISSION_BITS));
                let mut scaled = 0_u64;
                let mut times = Vec::new();
                for number in 0..traffic.count {
                    times.push(first + scaled / 100 + number.saturating_mul(longer_ns));
                    let frame = frame(traffic, number)?;
                    let length = bits::length(&frame)
                        .map_err(|error| format!("{error}; send data or remote frames"))?;
                    scaled += timing.duration_ns(length) * u64::from(period_percent);
                }
                Ok(Self::At(times))
            }
            Pace::OpenLoop { shortest_ns, longest_ns } => {
                let mut random = Random::new(seed);
                let mut at_ns = 0_u64;
                let times = (0..traffic.count).map(|_| {
                    at_ns = at_ns.saturating_add(random.between(shortest_ns, longest_ns));
                    at_ns
                });
                Ok(Self::At(times.collect()))
            }
            // Their master decides; the offers say it themselves.
            Pace::RoundTrips { .. } | Pace::Offered { .. } => Ok(Self::At(Vec::new())),
        }
    }
}

/// The frame number `number` of `traffic`.
///
/// # Errors
/// It is not legal: reason and remedy.
pub fn frame(traffic: &Traffic, number: u64) -> Result<candor_wire::can::Frame, String> {
    traffic.frame(number).ok_or_else(|| {
        "the identifiers, the length and the flags do not form a legal frame; at least one \
         identifier, and 2 to 8 or 64 bytes"
            .into()
    })
}

impl BusTiming {
    /// The bit rates as the bits of frames need them.
    ///
    /// # Errors
    /// One is impossible: reason and remedy.
    pub fn timing(self) -> Result<Timing, String> {
        let rate = |rate: u32| {
            let error = || format!("{rate} bit/s is not a bit rate; 1 bit/s to 20 Mbit/s are");
            Bitrate::new(rate).ok_or_else(error)
        };
        let data = self.data_bitrate.unwrap_or(self.bitrate);
        Ok(Timing { nominal: rate(self.bitrate)?, data: rate(data)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(pace: Pace, count: u64) -> Traffic {
        Traffic { pace, count, can_ids: vec![0x123], length: 8, fd_flags: None, fill: 0x55 }
    }

    const BUS: BusTiming = BusTiming { bitrate: 1_000_000, data_bitrate: None };

    #[test]
    fn paced_frames_leave_when_the_ones_before_are_over() {
        // A gap of 3 bits is the intermission.
        for (percent, gap_ns, factor, longer_ns) in
            [(100, 0, 1, 0), (200, 0, 2, 0), (100, 3_000, 1, 0), (100, 8_000, 1, 5_000)]
        {
            let traffic = traffic(Pace::Paced { period_percent: percent, gap_ns }, 3);
            let Departures::At(times) = Departures::new(&traffic, BUS, 1).unwrap() else {
                panic!("paced")
            };
            // 111 bits and stuff bits each; the number changes their count.
            let duration = |number| {
                let frame = traffic.frame(number).unwrap();
                u64::from(bits::length(&frame).unwrap().total()) * 1_000
            };
            assert!((111_000..135_000).contains(&duration(0)));
            let first = times[0];
            assert!(first < TICK_NS, "{first}");
            let second = first + duration(0) * factor + longer_ns;
            assert_eq!(times, [first, second, second + duration(1) * factor + longer_ns]);
        }
    }

    #[test]
    fn the_first_paced_frame_leaves_when_the_seed_says() {
        let traffic = traffic(Pace::Paced { period_percent: 100, gap_ns: 0 }, 1);
        let first = |seed| match Departures::new(&traffic, BUS, seed) {
            Ok(Departures::At(times)) => times[0],
            other => panic!("{other:?}"),
        };
        assert_eq!(first(1), first(1));
        let mut firsts: Vec<_> = (1..=5).map(first).collect();
        firsts.dedup();
        assert_eq!(firsts.len(), 5, "{firsts:?}");
    }

    #[test]
    fn whiles_are_drawn_from_the_seed() {
        let pace = Pace::OneAtATime { shortest_ns: 10, longest_ns: 20, timeout_ns: 1 };
        let draw = |seed| Departures::new(&traffic(pace, 50), BUS, seed).unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let Departures::AfterArrival(whiles) = draw(1) else { panic!("one at a time") };
        assert!(whiles.len() == 50 && whiles.iter().all(|wait| (10..=20).contains(wait)));
    }

    #[test]
    fn in_open_loop_times_do_not_wait_for_anything() {
        let pace = Pace::OpenLoop { shortest_ns: 10, longest_ns: 20 };
        let draw = |seed| match Departures::new(&traffic(pace, 500), BUS, seed) {
            Ok(Departures::At(times)) => times,
            other => panic!("{other:?}"),
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let times = draw(1);
        let gaps = times.iter().zip([&0].into_iter().chain(&times)).map(|(at, last)| at - last);
        let mut gaps: Vec<_> = gaps.collect();
        gaps.sort_unstable();
        gaps.dedup();
        assert_eq!(gaps, (10..=20).collect::<Vec<_>>());
    }

    #[test]
    fn what_makes_no_frame_is_refused() {
        let paced = |length, can_ids: &[u32]| Traffic {
            length,
            can_ids: can_ids.into(),
            ..traffic(Pace::Paced { period_percent: 100, gap_ns: 0 }, 2)
        };
        for traffic in [paced(9, &[1]), paced(2, &[]), paced(2, &[0x800])] {
            let failure = Departures::new(&traffic, BUS, 1).unwrap_err();
            assert!(failure.contains("do not form a legal frame"), "{failure}");
        }
        let bus = BusTiming { bitrate: 0, data_bitrate: None };
        let failure = Departures::new(&paced(2, &[1]), bus, 1).unwrap_err();
        assert!(failure.contains("0 bit/s"), "{failure}");
    }
}
