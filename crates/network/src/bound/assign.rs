//! Identifiers in an order in which all deadlines hold.
//!
//! From the least urgent identifier to the most urgent one: whichever message meets its deadline with this one, while all that
//! have none yet are more urgent, gets it. How late a message is depends on which messages are more urgent, and on the longest
//! of the others, and not on the order within; so it does not matter which of several gets it, and if none does, there is no order. (N. Audsley,
//! "Optimal priority assignment and feasibility of static priority tasks with arbitrary start times", University of York, 1991; for CAN:
//! R. Davis et al., Real-Time Systems 35, 2007.) That holds for one bus with queues of priorities, and if all messages may move and are
//! of one group. Else which of several gets it does matter for those that stand between, and what is found is an order, but none may be
//! found where there is one.

use super::bus::{Stream, response};

/// A message that gets an identifier.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its key is the one that it has.
    pub stream: Stream,
    /// In ns.
    pub deadline_ns: u64,
    /// Messages of one group exchange their identifiers; `None` if it keeps its own.
    pub group: Option<u32>,
}

/// For each message of a bus with queues of priorities the message whose identifier it gets, so that all deadlines hold. `None` if
/// there is no such order; unless all messages are of one group, if none was found.
#[must_use]
pub fn assign(candidates: &[Candidate], bit_ns: u64) -> Option<Vec<usize>> {
    let mut streams: Vec<_> = candidates.iter().map(|it| it.stream.clone()).collect();
    let mut places: Vec<_> =
        (0..candidates.len()).filter(|&it| candidates[it].group.is_some()).collect();
    places.sort_by_key(|&it| candidates[it].stream.key);
    let mut open = places.clone();
    let mut owners: Vec<_> = (0..candidates.len()).collect();
    let meets = |streams: &[Stream], of: usize| {
        let response = response(streams, of, bit_ns);
        response.is_ok_and(|it| it.response_ns <= candidates[of].deadline_ns)
    };
    // All that have no place yet are more urgent than any place that is looked at.
    for &index in &open {
        streams[index].key = 0;
    }
    while let Some(place) = places.pop() {
        let key = candidates[place].stream.key;
        // Its own identifier first: what need not move stays.
        let order = open.iter().position(|&it| it == place).into_iter();
        let order = order.chain((0..open.len()).rev());
        let is_of_group = |&at: &usize| candidates[open[at]].group == candidates[place].group;
        let mut fitting = order.filter(is_of_group).filter(|&at| {
            let of = open[at];
            streams[of].key = key;
            let meets = meets(&streams, of);
            streams[of].key = 0;
            meets
        });
        let found = fitting.next()?;
        let of = open.remove(found);
        streams[of].key = key;
        owners[of] = place;
    }
    let holds = (0..streams.len()).all(|of| meets(&streams, of));
    holds.then_some(owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Arrivals;
    use crate::bound::bus::responses;
    use proptest::prelude::*;

    fn candidates(of: &[(u64, u64, u64)]) -> Vec<Candidate> {
        let candidate =
            |(key, &(transmission_ns, period_ns, deadline_ns)): (u32, &(u64, u64, u64))| {
                Candidate {
                    stream: Stream {
                        key,
                        transmission_ns,
                        arrivals: Some(Arrivals::new(period_ns, 0)),
                        held_ns: Some(0),
                        fifo: None,
                    },
                    deadline_ns,
                    group: Some(0),
                }
            };
        (1..).zip(of).map(candidate).collect()
    }

    fn holds(candidates: &[Candidate], owners: &[usize]) -> bool {
        let stream = |(it, &owner): (&Candidate, &usize)| Stream {
            key: candidates[owner].stream.key,
            ..it.stream.clone()
        };
        let streams: Vec<_> = candidates.iter().zip(owners).map(stream).collect();
        let found = responses(&streams, 1);
        candidates
            .iter()
            .zip(found)
            .all(|(it, found)| found.is_ok_and(|found| found.response_ns <= it.deadline_ns))
    }

    /// All orders of so many.
    fn orders(count: usize) -> Vec<Vec<usize>> {
        if count == 0 {
            return vec![Vec::new()];
        }
        let shorter = orders(count - 1);
        let with = |at: usize| {
            shorter.iter().map(move |order| {
                let mut order = order.clone();
                order.insert(at, count - 1);
                order
            })
        };
        (0..count).flat_map(with).collect()
    }

    #[test]
    fn the_urgent_message_gets_the_urgent_identifier() {
        let set = candidates(&[(100, 1_000, 1_000), (100, 1_000, 350), (100, 1_000, 250)]);
        assert_eq!(assign(&set, 1), Some(vec![1, 2, 0]));
        let mut fixed = set.clone();
        fixed[0].group = None;
        assert_eq!(assign(&fixed, 1), None);
        // Each among its own.
        let mut two = candidates(&[
            (100, 1_000, 400),
            (100, 1_000, 1_000),
            (100, 1_000, 250),
            (100, 1_000, 350),
        ]);
        (two[1].group, two[3].group) = (Some(1), Some(1));
        assert_eq!(assign(&two, 1), Some(vec![2, 3, 0, 1]));
        // What holds as it is stays.
        let holds = candidates(&[(100, 1_000, 250), (100, 1_000, 1_000), (100, 1_000, 1_000)]);
        assert_eq!(assign(&holds, 1), Some(vec![0, 1, 2]));
    }

    proptest! {
        /// An order is found if and only if one of all orders holds.
        #[test]
        fn what_is_found_is_what_there_is(
            set in prop::collection::vec((1_u64..20, 10_u64..150, 5_u64..120), 1..5),
        ) {
            let set = candidates(&set);
            let there_is = orders(set.len()).iter().any(|owners| holds(&set, owners));
            let found = assign(&set, 1);
            prop_assert_eq!(found.is_some(), there_is);
            prop_assert!(found.is_none_or(|owners| holds(&set, &owners)));
        }
    }
}
