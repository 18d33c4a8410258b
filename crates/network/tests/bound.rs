//! The bounds against judges: a library whose theorems are proven in Coq (PROSA), and buses that are played through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use candor_network::bound::Arrivals;
use candor_network::bound::bus::{NoBound, Stream, responses};
use candor_network::bound::processor::served_ns;
use proptest::collection::vec;
use proptest::prelude::*;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::{RBF, Slice};
use response_time_analysis::fifo;
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
            held_ns: Some(0),
            fifo: None,
        };
        (0..).zip(streams).map(stream).collect()
    })
}

fn arrivals(stream: &Stream) -> Sporadic {
    let arrivals = stream.arrivals.as_ref().unwrap();
    let (period, jitter) = (arrivals.period_ns, arrivals.jitter_ns);
    Sporadic { min_inter_arrival: Duration::from(period), jitter: Duration::from(jitter) }
}

fn cost(stream: &Stream) -> Scalar {
    Scalar::new(Service::from(stream.transmission_ns))
}

/// The bound of the library for all that is served in the order in which it comes.
fn of_fifo(streams: &[Stream]) -> Option<u64> {
    let curves: Vec<_> = streams.iter().map(arrivals).collect();
    let costs: Vec<_> = streams.iter().map(cost).collect();
    let demands: Vec<_> =
        curves.iter().zip(&costs).map(|(curve, cost)| RBF::new(curve, cost)).collect();
    let bound = fifo::dedicated_uniproc_rta(&Slice::of(&demands), Duration::from(1_000_000));
    bound.ok().map(u64::from)
}

/// The bound of the library, which counts from when a frame is queued.
fn of_library(streams: &[Stream], of: usize) -> Option<u64> {
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

    /// A processor that takes as long for each frame.
    #[test]
    fn a_proven_library_has_the_same_bounds_of_processors(mut streams in buses(), time_ns in 1_u64..12) {
        streams.iter_mut().for_each(|it| it.transmission_ns = time_ns);
        let arrivals: Vec<_> = streams.iter().map(|it| it.arrivals.clone()).collect();
        match served_ns(&arrivals, time_ns) {
            Ok(own) => prop_assert_eq!(Some(own), of_fifo(&streams)),
            Err(NoBound::Overloaded(_)) => {}
            Err(error) => prop_assert!(false, "{:?}", error),
        }
    }

    /// A bus with one node, whose queue is a FIFO: its latest frame, if none is released late.
    #[test]
    fn a_proven_library_has_the_same_bounds_of_a_fifo_queue(mut streams in buses()) {
        for stream in &mut streams {
            stream.fifo = Some(0);
            stream.arrivals.as_mut().unwrap().jitter_ns = 0;
        }
        let found: Result<Vec<_>, _> = responses(&streams, 1).into_iter().collect();
        match found {
            Ok(found) => {
                let latest = found.iter().map(|it| it.response_ns).max();
                prop_assert_eq!(latest, of_fifo(&streams));
            }
            Err(NoBound::Overloaded(_)) => {}
            Err(error) => prop_assert!(false, "{:?}", error),
        }
    }
}
