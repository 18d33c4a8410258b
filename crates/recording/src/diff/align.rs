//! Which frames of two recordings with one key are the same.

use std::collections::VecDeque;

use super::{Side, Sighting};

/// So many frames of each recording are looked at to decide on the first ones.
const LOOK_AHEAD: usize = 32;

/// Frames with one key that wait in each recording, in order of time.
pub(super) struct Fronts<'a> {
    pub(super) a: &'a VecDeque<Sighting>,
    pub(super) b: &'a VecDeque<Sighting>,
    /// By how much B's clock is ahead.
    pub(super) offset_ns: i128,
    /// How far the same frame may be apart.
    pub(super) within_ns: i128,
    /// How far both recordings were read, on A's clock.
    pub(super) now: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The first frames of both are the same.
    Both,
    /// The first frame of this one is in no other.
    Only(Side),
    /// It can be told when both recordings were read up to then.
    Wait(i128),
}

impl Fronts<'_> {
    /// The time of the `place`th frame on A's clock.
    fn a(&self, place: usize) -> Option<i128> {
        self.a.get(place).map(|it| it.time_ns.into())
    }

    fn b(&self, place: usize) -> Option<i128> {
        self.b.get(place).map(|it| i128::from(it.time_ns) - self.offset_ns)
    }
}

/// What the first frames are; `None` if one recording has none and it may still come.
///
/// The first frames of both are the same if neither has a nearer one in the other recording: any other choice, in order, makes the
/// sum of the distances larger. Else [`align`] tells.
pub(super) fn decide(fronts: &Fronts<'_>) -> Option<Decision> {
    let within = fronts.within_ns;
    let expired = |side, time: i128| (time + within < fronts.now).then_some(Decision::Only(side));
    let (a, b) = match (fronts.a(0), fronts.b(0)) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) => return expired(Side::A, a),
        (None, Some(b)) => return expired(Side::B, b),
        (None, None) => return None,
    };
    let (distance, latest) = ((a - b).abs(), a.max(b));
    if distance > within {
        return Some(Decision::Only(if a < b { Side::A } else { Side::B }));
    }
    if fronts.now < latest + distance {
        return Some(Decision::Wait(latest + distance));
    }
    let is_near = |other: Option<i128>| other.is_none_or(|other| distance <= other);
    let next_b = fronts.b(1).map(|next| (next - a).abs());
    let next_a = fronts.a(1).map(|next| (next - b).abs());
    if is_near(next_a) && is_near(next_b) {
        return Some(Decision::Both);
    }
    let is_enough = fronts.a.len() >= LOOK_AHEAD && fronts.b.len() >= LOOK_AHEAD;
    if fronts.now < latest + 2 * within && !is_enough {
        return Some(Decision::Wait(latest + 2 * within));
    }
    let times_a: Vec<_> = (0..LOOK_AHEAD).map_while(|place| fronts.a(place)).collect();
    let times_b: Vec<_> = (0..LOOK_AHEAD).map_while(|place| fronts.b(place)).collect();
    // All that may be the same as one of these is known.
    let known = |others: &VecDeque<_>| match others.len() > LOOK_AHEAD {
        true => i128::MIN,
        false => fronts.now.saturating_sub(within),
    };
    let until = [known(fronts.b), known(fronts.a)];
    Some(align([&times_a, &times_b], until, within))
}

/// Aligns the times of frames in order so that the sum of their distances is least; tells what the first ones are. A frame without
/// a partner costs twice the pause behind the earlier of the first ones: more than jitter, which soon ends, gains by leaving frames out, and
/// less than frames that are missing cost if all behind them have the wrong partner. Those at the end cost nothing from `until` on:
/// their partners are perhaps not known yet.
fn align([a, b]: [&[i128]; 2], until: [i128; 2], within: i128) -> Decision {
    let pause = |times: &[i128]| match times {
        [first, second, ..] => (second - first).abs(),
        _ => 0,
    };
    let alone = 2 * pause(if a.first() < b.first() { a } else { b });
    // What it costs if all from one on have no partner.
    let rest = |times: &[i128], until: i128| {
        let mut rest = vec![0_i128; times.len() + 1];
        for place in (0..times.len()).rev() {
            rest[place] = rest[place + 1] + if times[place] < until { alone } else { 0 };
        }
        rest
    };
    let (rest_a, rest_b) = (rest(a, until[0]), rest(b, until[1]));
    let width = b.len() + 1;
    let mut costs = vec![0_i128; (a.len() + 1) * width];
    let mut first = Decision::Both;
    for i in (0..=a.len()).rev() {
        for j in (0..=b.len()).rev() {
            let (Some(time_a), Some(time_b)) = (a.get(i), b.get(j)) else {
                costs[i * width + j] = rest_a[i] + rest_b[j];
                continue;
            };
            let distance = (time_a - time_b).abs();
            let both = costs[(i + 1) * width + j + 1] + distance;
            // To leave out the later one never helps: who is the partner of one behind it could have it nearer.
            let (mut cost, mut decision) = match time_a < time_b {
                true => (costs[(i + 1) * width + j] + alone, Decision::Only(Side::A)),
                false => (costs[i * width + j + 1] + alone, Decision::Only(Side::B)),
            };
            if distance <= within && both <= cost {
                (cost, decision) = (both, Decision::Both);
            }
            costs[i * width + j] = cost;
            first = decision;
        }
    }
    first
}
