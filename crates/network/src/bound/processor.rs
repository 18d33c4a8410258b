//! How long a processor takes that serves frames in the order in which they arrive.
//!
//! # The law
//!
//! Say that it serves each frame for at most `c`, and a frame arrives at `A`, counted from when it was idle. Before it, and
//! with it, at most the frames of all messages within `[0, A]` have arrived, and it is done when all of them are: at `c` times
//! their number at the latest. So a frame takes at most the greatest `c N(A) - A`, with `N(A)` the sum of `floor((A + J) / T) + 1`.
//! Between two arrivals that falls, so only those count; and only those within the busy period, the least `t > 0` with `t = c N'(t)`,
//! where `N'` has the frames of a time without its end.
//!
//! It is the library's `fifo::dedicated_uniproc_rta` (proven in Coq), which judges it in tests.

use super::Arrivals;
use super::bus::{FULL, LONGEST_NS, NoBound};

/// The longest time from when a frame arrives until it is served, in ns, if each of these takes up to `time_ns`.
///
/// # Errors
/// There is no bound. [`NoBound::Unknown`] has the index in `arrivals`.
pub fn served_ns(arrivals: &[Option<Arrivals>], time_ns: u64) -> Result<u64, NoBound> {
    let known = arrivals.iter().enumerate();
    let known = known.map(|(index, it)| it.as_ref().ok_or(NoBound::Unknown(index)));
    let arrivals = known.collect::<Result<Vec<_>, _>>()?;
    let share = arrivals.iter().map(|it| it.rate()).sum::<f64>() * time_ns as f64;
    if share >= FULL {
        return Err(NoBound::Overloaded((share * 1e6).round() as u64));
    }
    let work = |within_ns: u64| {
        let frames = arrivals.iter().map(|it| it.within(within_ns));
        frames.fold(0_u64, u64::saturating_add).saturating_mul(time_ns)
    };
    let mut busy_ns = time_ns.max(1);
    while work(busy_ns) > busy_ns {
        busy_ns = work(busy_ns);
        if busy_ns > LONGEST_NS {
            return Err(NoBound::TooLong);
        }
    }
    let times = arrivals.iter().flat_map(|it| {
        (0..).map(|index| it.distance(index)).take_while(|&distance| distance < busy_ns)
    });
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.dedup();
    let delay = |time: u64| work(time + 1).saturating_sub(time);
    Ok(times.into_iter().map(delay).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_wait_for_those_before_them() {
        let of = |period_us: u64, jitter_us: u64| {
            Some(Arrivals::new(period_us * 1_000, jitter_us * 1_000))
        };
        for (arrivals, time_us, expected) in [
            (vec![], 10, Ok(0)),
            (vec![of(100, 0)], 10, Ok(10)),
            (vec![of(100, 0), of(1_000, 0), of(1_000, 0)], 10, Ok(30)),
            // Two at once, and a third one 50 us later.
            (vec![of(100, 150)], 10, Ok(20)),
            (vec![of(100, 150)], 60, Ok(130)),
            (vec![of(100, 0), of(100, 0)], 50, Err(NoBound::Overloaded(1_000_000))),
            (vec![of(100, 0), None], 10, Err(NoBound::Unknown(1))),
        ] {
            let found = served_ns(&arrivals, time_us * 1_000).map(|it| it / 1_000);
            assert_eq!(found, expected, "{arrivals:?} {time_us}");
        }
    }
}
