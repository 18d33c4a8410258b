//! The bounds against judges: a library whose theorems are proven in Coq (PROSA), and buses that are played through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use candor_network::bound::Arrivals;
use candor_network::bound::bus::{NoBound, Stream, responses};
use proptest::collection::vec;
use proptest::prelude::*;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::fully_nonpreemptive::{
    TaskUnderAnalysis, dedicated_uniproc_rta,
};
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;

/// A bus of up to eight streams, whose times are small, so that they meet at edges.
fn buses() -> impl Strategy<Value = Vec<Stream>> {
    let stream = (1_u64..20, 5_u64..200, prop_oneof![Just(0), 0_u64..300]);
    vec(stream, 1..8).prop_map(|streams| {
        let stream = |(key, (transmission_ns, period_ns, jitter_ns))| Stream {
            key,
            transmission_ns,
            arrivals: Some(Arrivals::new(period_ns, jitter_ns)),
            held_ns: 0,
            fifo: None,
        };
        (0..).zip(streams).map(stream).collect()
    })
}

/// The bound of the library, which counts from when a frame is queued.
fn of_library(streams: &[Stream], of: usize) -> Option<u64> {
    let arrivals = |stream: &Stream| {
        let arrivals = stream.arrivals.as_ref().unwrap();
        let (period, jitter) = (arrivals.period_ns, arrivals.jitter_ns);
        Sporadic { min_inter_arrival: Duration::from(period), jitter: Duration::from(jitter) }
    };
    let cost = |stream: &Stream| Scalar::new(Service::from(stream.transmission_ns));
    let (urgent, rest) = streams.split_at(of);
    let (own, less_urgent) = rest.split_first().unwrap();
    let curves: Vec<_> = urgent.iter().map(arrivals).collect();
    let demands: Vec<_> =
        curves.iter().zip(urgent).map(|(curve, stream)| RBF::new(curve, cost(stream))).collect();
    let blocking = less_urgent.iter().map(|stream| stream.transmission_ns).max().unwrap_or(0);
    let own_arrivals = arrivals(own);
    let task = TaskUnderAnalysis {
        wcet: cost(own),
        arrivals: &own_arrivals,
        blocking_bound: Service::from(blocking),
    };
    let bound = dedicated_uniproc_rta(&task, &demands, Duration::from(1_000_000)).ok()?;
    Some(u64::from(bound))
}

proptest! {
    /// With the smallest difference of two times, one, as the bit time, both count the same events. A frame that was queued
    /// without jitter has the same response time for both, one that was queued late has the jitter more from its nominal
    /// release; which of them is the latest only the law here knows.
    #[test]
    fn a_proven_library_has_the_same_bounds(streams in buses()) {
        for (of, found) in responses(&streams, 1).into_iter().enumerate() {
            let jitter_ns = streams[of].arrivals.as_ref().unwrap().jitter_ns;
            match found {
                Ok(own) => {
                    let judge = of_library(&streams, of).unwrap();
                    let range = judge..=judge + jitter_ns;
                    prop_assert!(range.contains(&own.response_ns), "{}: {:?}, {}", of, own, judge);
                }
                Err(NoBound::Overloaded(_)) => {}
                Err(error) => prop_assert!(false, "{}: {:?}", of, error),
            }
        }
    }
}
