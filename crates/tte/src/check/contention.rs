//! The rule about contention: on no link do two time-triggered frames meet.
//!
//! Frames of two flows come with their periods `p` and `q`, so they come at every distance that is a multiple of
//! the greatest common divisor of both, from where they begin. Two flows meet somewhere in the cycle exactly if they
//! meet within that divisor: no frame of the cycle has to be looked at, however many there are.

use std::collections::{BTreeMap, BTreeSet};

use candor_diagnostics::{Findings, MAX_FINDINGS};

use super::nanos;
use crate::Network;
use crate::file::Places;
use crate::schedule::{Direction, Slot, ns};

/// A frame of each of two flows that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meeting {
    /// The begin of the occupation of the earlier frame, in the cycle.
    begin: i128,
    /// How much later the other one begins.
    distance: i128,
    /// How long both occupy the link.
    overlap: i128,
    /// Whether it is the second flow whose frame begins later.
    is_second_later: bool,
}

pub(super) fn check(
    network: &Network,
    places: &Places,
    directions: &[Direction],
    findings: &Findings,
) {
    for direction in directions {
        for slot in direction.slots.iter().filter(|slot| slot.width > slot.period) {
            with_itself(network, places, direction, slot, findings);
        }
        for (first, second) in meeting_pairs(&direction.slots) {
            let pair = [first, second].map(|index| &direction.slots[index]);
            if findings.is_full() {
                return;
            }
            // What meets itself was reported.
            if pair.into_iter().all(|slot| slot.width <= slot.period)
                && let Some(meeting) = meeting(pair[0], pair[1], ns(network.cycle))
            {
                report(network, places, direction, pair, meeting, findings);
            }
        }
    }
}

/// The slots that meet, by their indices, the smaller first. If there are too many to report, some are left out.
///
/// For each two periods, all slots with one of them are laid on a circle as long as the common divisor: there, whoever
/// meets another one begins within it, or the other way round.
fn meeting_pairs(slots: &[Slot]) -> BTreeSet<(usize, usize)> {
    let mut by_period: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, slot) in slots.iter().enumerate() {
        by_period.entry(slot.period.as_nanos()).or_default().push(index);
    }
    let mut pairs = BTreeSet::new();
    for (p, with_p) in &by_period {
        for (q, with_q) in by_period.range(p..) {
            let common = common_divisor(i128::from(*p), i128::from(*q));
            let others = if p == q { &[][..] } else { with_q };
            let place = |&index: &usize| (ns(slots[index].begin()).rem_euclid(common), index);
            let mut circle: Vec<_> = with_p.iter().chain(others).map(place).collect();
            circle.sort_unstable();
            for (number, &(begin, index)) in circle.iter().enumerate() {
                let around = circle[number + 1..].iter().chain(&circle[..number]);
                for &(other_begin, other) in around {
                    if (other_begin - begin).rem_euclid(common) >= ns(slots[index].width) {
                        break;
                    }
                    if p == q || slots[index].period != slots[other].period {
                        pairs.insert((index.min(other), index.max(other)));
                    }
                    if pairs.len() > MAX_FINDINGS {
                        return pairs;
                    }
                }
            }
        }
    }
    pairs
}

/// Where frames of two flows meet, if they do.
fn meeting(first: &Slot, second: &Slot, cycle: i128) -> Option<Meeting> {
    let [p, q] = [first, second].map(|slot| ns(slot.period));
    let [a, b] = [first, second].map(|slot| ns(slot.begin()));
    let [first_width, second_width] = [first, second].map(|slot| ns(slot.width));
    let common = common_divisor(p, q);
    let behind = (b - a).rem_euclid(common);
    let ahead = common - behind;
    let (later, distance, overlap) = if behind < first_width {
        (true, behind, second_width.min(first_width - behind))
    } else if ahead < second_width {
        (false, -ahead, first_width.min(second_width - ahead))
    } else {
        return None;
    };
    // a + i p + distance = b + j q, modulo the cycle: which frame of the first flow it is.
    let steps = (b - a - distance) / common;
    let [p_part, q_part] = [p, q].map(|period| period / common);
    let i = (steps.rem_euclid(q_part) * inverse(p_part, q_part)).rem_euclid(q_part);
    let begin_of_first = a + i * p;
    let begin = (begin_of_first + distance.min(0)).rem_euclid(cycle);
    Some(Meeting { begin, distance: distance.abs(), overlap, is_second_later: later })
}

fn common_divisor(one: i128, other: i128) -> i128 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// What multiplied with `number` is 1, modulo `modulus`; both have no common divisor.
fn inverse(number: i128, modulus: i128) -> i128 {
    let (mut rest, mut next) = (modulus, number.rem_euclid(modulus));
    let (mut factor, mut next_factor) = (0, 1);
    while next != 0 {
        let quotient = rest / next;
        (rest, next) = (next, rest - quotient * next);
        (factor, next_factor) = (next_factor, factor - quotient * next_factor);
    }
    factor.rem_euclid(modulus)
}

fn report(
    network: &Network,
    places: &Places,
    direction: &Direction,
    [first, second]: [&Slot; 2],
    meeting: Meeting,
    findings: &Findings,
) {
    let Meeting { begin, distance, overlap, is_second_later } = meeting;
    let (earlier, later) = if is_second_later { (first, second) } else { (second, first) };
    let cycle = ns(network.cycle);
    let name = |slot: &Slot| &network.flows[slot.flow].name;
    let instant = |slot: &Slot, begin: i128| nanos((begin + ns(slot.lead)).rem_euclid(cycle));
    let link = &network.links[direction.link].name;
    let from = &network.nodes[direction.from].name;
    let message = format!(
        "on link `{link}` from `{from}`, frames of `{}` and `{}` overlap by {}: the first bits leave at {} and {} of the cycle",
        name(earlier),
        name(later),
        nanos(overlap),
        instant(earlier, begin),
        instant(later, begin + distance),
    );
    let hint = format!(
        "let `{}` leave {} later; `{}` takes {} with preamble, gap and jitter",
        name(later),
        nanos(ns(earlier.width) - distance),
        name(earlier),
        earlier.width
    );
    findings.error_with_hint(&places.flows[second.flow].whole, message, hint);
}

/// The frames of one flow meet.
fn with_itself(
    network: &Network,
    places: &Places,
    direction: &Direction,
    slot: &Slot,
    findings: &Findings,
) {
    let flow = &network.flows[slot.flow];
    let link = &network.links[direction.link].name;
    let from = &network.nodes[direction.from].name;
    let message = format!(
        "on link `{link}` from `{from}`, a frame of `{}` takes {} with preamble, gap and jitter, and the next one \
         comes {} behind it",
        flow.name, slot.width, slot.period
    );
    let hint = "a longer period, smaller frames, or a faster link";
    findings.error_with_hint(places.flows[slot.flow].of("period"), message, hint);
}

#[cfg(test)]
mod tests {
    use candor_time::Nanos;

    use super::*;

    fn slot(period: u64, at: u64, width: u64) -> Slot {
        let nanos = Nanos::from_nanos;
        Slot {
            flow: 0,
            period: nanos(period),
            at: nanos(at),
            lead: Nanos::ZERO,
            width: nanos(width),
        }
    }

    /// The same by looking at every frame of the cycle.
    fn meets(first: &Slot, second: &Slot, cycle: u64) -> bool {
        let frames = |slot: &Slot| {
            let (at, width, period) = (ns(slot.at), ns(slot.width), ns(slot.period));
            (0..i128::from(cycle) / period).map(move |number| (at + number * period, width))
        };
        frames(first).any(|(a, a_width)| {
            frames(second).any(|(b, b_width)| {
                [-1, 0, 1].into_iter().any(|around| {
                    let b = b + around * i128::from(cycle);
                    a < b + b_width && b < a + a_width
                })
            })
        })
    }

    #[test]
    fn two_flows_meet_as_often_as_their_frames_do() {
        let cycle = 60;
        for (p, q) in [(60, 60), (30, 20), (12, 10), (20, 15), (60, 4), (6, 6)] {
            for at in 0..q {
                for (first_width, second_width) in [(1, 1), (3, 1), (1, 3), (4, 2)] {
                    let (first, second) = (slot(p, 2, first_width), slot(q, at, second_width));
                    let found = meeting(&first, &second, cycle);
                    assert_eq!(found.is_some(), meets(&first, &second, 60), "{first:?} {second:?}");
                    let pairs = meeting_pairs(&[first, second]);
                    assert_eq!(!pairs.is_empty(), found.is_some(), "{first:?} {second:?}");
                    let Some(found) = found else { continue };
                    // Both frames exist.
                    let (earlier, later) =
                        if found.is_second_later { (first, second) } else { (second, first) };
                    let is_one =
                        |slot: &Slot, begin: i128| (begin - ns(slot.at)) % ns(slot.period) == 0;
                    assert!(is_one(&earlier, found.begin), "{found:?} {first:?} {second:?}");
                    assert!(
                        is_one(&later, found.begin + found.distance),
                        "{found:?} {first:?} {second:?}"
                    );
                    let ends = [
                        found.begin + ns(earlier.width),
                        found.begin + found.distance + ns(later.width),
                    ];
                    let overlap = ends[0].min(ends[1]) - found.begin - found.distance;
                    assert_eq!(overlap, found.overlap);
                    assert!(overlap > 0);
                }
            }
        }
    }
}
