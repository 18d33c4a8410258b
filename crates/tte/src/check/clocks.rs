//! Rules about clocks: they run no further apart than the precision, and the frames that correct them count.
//!
//! # How far clocks differ
//!
//! Symbols: `P` integration cycle, `Π` precision, `mtd` maximum transmission delay, `cmd` compression master delay,
//! `X` from the instant at which the compressed frame is due to the correction ([`Timing::correction_at`]: `2 Π + 1`,
//! with two faults `3 Π + 1`), `ρ` by how much a clock is fast, between `ρ-` of the slowest and `ρ+` of the fastest,
//! `Δ = ρ+ - ρ-`. `l` is what a control frame needs for the links of its way. Links keep the right time; what a frame waits
//! in a node is measured by the clock of that node, which shows `(1 + ρ) w` for `w`.
//!
//! 1. *A correction.* The compression master dispatches the frame of cycle `k` at `S`. Let `R` be a clock without drift that
//!    shows `k P + mtd + cmd` then. At a node the frame is permanent when links, waits and permanence delay amount to `mtd` by
//!    the clocks that measure them, and the node corrects its clock as if it had shown `k P + 2 mtd + cmd` at that instant.
//!    What each clock measured wrong is its own drift times the time that it measured. So, with `t` from `S` on, a corrected clock
//!    is ahead of `R` by `ρ (t - l)` for some `ρ` in `[ρ-, ρ+]`. The compression master itself is by `ρ t`.
//! 2. *The next dispatch.* A master dispatches when its clock shows `(k + 1) P`; its frame becomes permanent at the compression
//!    master, the instants are compressed to one among them, and the frame leaves `cmd` behind that. Only links kept the
//!    right time, so the next `R` is ahead of this one by `ρ (P - l)`, `l` being both ways of a master. It does not matter how
//!    many masters there are, which of them are fast, or where among the instants the compression function finds
//!    the middle: all of them are between those of the slowest and of the fastest.
//! 3. *Both.* Clocks that were corrected by the next frame are ahead of `R` by `ρ (t - l)` again, so 1 holds for all clocks until
//!    the last one is corrected by the next frame. That is the slowest, when it shows `(k + 1) P + 2 mtd + cmd + X`: by its own
//!    clock `P + mtd + X` behind `S`. With `l` of the shortest way, clocks differ by
//!
//!    ```text
//!    Δ (P + mtd + X - l) / (1 + ρ-)
//!    ```
//!
//!    at most (the divisor is 1 if no clock is slow). If all are fast or all are slow, links alone keep the right
//!    time: then the least drift counts for what the ways differ.
//! 4. *Acceptance.* A frame counts if it is permanent within `Π` of its instant ([`Timing::clock_correction`]), and masters' frames
//!    are compressed together if they are permanent within one observation window, which is `Π`. Both distances are less than 3.
//!    If 3 is more than `Π`, neither is certain: a frame that does not count corrects nothing, the clock runs on, and the next one
//!    counts even less.
//! 5. *The start.* Clocks begin within `Π / 2`, and are first corrected when they show `2 mtd + cmd + X`:
//!
//!    ```text
//!    Π / 2 + Δ (2 mtd + cmd + X) / (1 + ρ-)
//!    ```
//! 6. *Ordinary switches* count nothing. A frame that they delay by `u` is permanent late by `u`: the clock that it corrects falls
//!    back by that, and so do all by the frames of masters. To 3 and 5 come the longest such delay to a node, and the longest
//!    both ways of a master.
//! 7. *Whole nanoseconds.* For each hop: the wait is rounded, and the transmission twice. For each way: when the frame is
//!    dispatched, and what the clock shows when it comes. Once: the compression, and the clocks that are compared.
//!
//! The precision must not be less than 3 and 5 with 6 and 7. Both contain it, with a factor below 1, so there is a least one.

use candor_diagnostics::Findings;
use candor_time::Nanos;

use super::nanos;
use crate::file::Places;
use crate::file::synchronisation::{delay_over, longest_delay};
use crate::schedule::ns;
use crate::sync::Timing;
use crate::{Flow, Network, Role, Synchronisation};

/// Parts per million of one.
const PPM: i128 = 1_000_000;
/// By how much a hop of a control frame is wrong at most, in nanoseconds: item 7.
const ROUNDING_OF_HOP_NS: i128 = 3;
/// The same for all that is rounded once on the way there and back.
const ROUNDING_NS: i128 = 6;
/// No precision or period is longer, in nanoseconds: an hour.
const MOST_NS: i128 = 3_600_000_000_000;

pub(super) fn check(network: &Network, places: &Places, findings: &Findings) {
    apart(network, places, findings);
    delay(network, places, findings);
}

/// The drifts of clocks by which something is sent, relayed or corrected, in parts per million.
struct Drifts {
    /// Of the slowest.
    least: i128,
    /// Of the fastest.
    most: i128,
    /// The node that is furthest from the right time.
    worst: usize,
}

impl Drifts {
    fn of(network: &Network) -> Self {
        let scheduled = || (0..network.nodes.len()).filter(|&node| network.has_schedule(node));
        let bounds = |node: usize| {
            let oscillator = network.nodes[node].oscillator;
            let most = i128::from(oscillator.most_ppm());
            match oscillator.drift_change_ppm {
                0 => [i128::from(oscillator.drift_ppm); 2],
                _ => [-most, most],
            }
        };
        let least = scheduled().map(|node| bounds(node)[0]).min().unwrap_or(0);
        let most = scheduled().map(|node| bounds(node)[1]).max().unwrap_or(0);
        let worst = scheduled().max_by_key(|&node| network.nodes[node].oscillator.most_ppm());
        Self { least, most, worst: worst.unwrap_or(0) }
    }

    const fn spread(&self) -> i128 {
        self.most - self.least
    }
}

/// The way of a control frame to a receiver.
#[derive(Clone, Copy, Default)]
struct ControlFrameWay {
    /// What links take that is counted, in nanoseconds.
    links: i128,
    /// What no transparent clock counts, at most, in nanoseconds.
    uncounted: i128,
    hops: i128,
}

/// The ways of a flow of control frames to its receivers.
fn ways<'a>(
    network: &'a Network,
    synchronisation: &'a Synchronisation,
    flow: &'a Flow,
) -> impl Iterator<Item = (usize, ControlFrameWay)> + 'a {
    let mut ways: Vec<ControlFrameWay> = Vec::new();
    for hop in &flow.hops {
        let before = hop.before.map_or(ControlFrameWay::default(), |before| ways[before]);
        let link = &network.links[hop.link];
        let on_link = ns(link.preamble() + link.transmission(flow.size) + link.delay);
        let mut way = ControlFrameWay { hops: before.hops + 1, ..before };
        match network.nodes[hop.from].role {
            Role::Switch(switch) if !network.has_schedule(hop.from) => {
                // Its port has one queue. Control frames come once in an integration cycle, the others whenever they do.
                let over = |it: &&Flow| {
                    it.hops.iter().any(|it| (it.from, it.link) == (hop.from, hop.link))
                };
                let occupation = |it: &Flow| ns(link.occupation(it.size));
                let control: i128 = synchronisation.flows.iter().filter(over).map(occupation).sum();
                let others = network.flows.iter().filter(over).map(occupation).max().unwrap_or(0);
                let waits = control + others * switch.depth as i128;
                way.uncounted += ns(switch.processing) + waits + on_link;
            }
            _ => way.links += on_link,
        }
        ways.push(way);
    }
    flow.hops
        .iter()
        .zip(ways)
        .map(|(hop, way)| (hop.to, way))
        .filter(|(to, _)| flow.to.contains(to))
}

/// What the largest difference of clocks follows from: the derivation is that of the module.
struct PrecisionBound {
    timing: Timing,
    drifts: Drifts,
    /// From the compression master to the nearest node.
    nearest: i128,
    /// Items 6 and 7, and what is left of the drift if all clocks are fast or all are slow.
    more: i128,
    /// Of that, item 6.
    uncounted: i128,
}

impl PrecisionBound {
    fn of(network: &Network, synchronisation: &Synchronisation) -> Self {
        let drifts = Drifts::of(network);
        let of_flow = |flow| ways(network, synchronisation, flow);
        let masters = synchronisation.masters.len();
        let (up, down) = synchronisation.flows.split_at(masters);
        let down: Vec<(usize, ControlFrameWay)> = down.iter().flat_map(of_flow).collect();
        let up: Vec<ControlFrameWay> = up.iter().flat_map(of_flow).map(|(_, way)| way).collect();
        let back = |master: usize| {
            let node = synchronisation.masters[master];
            down.iter()
                .find(|(to, _)| *to == node)
                .map_or(ControlFrameWay::default(), |&(_, way)| way)
        };
        let most = |of: fn(&ControlFrameWay) -> i128| {
            let there = down.iter().map(|(_, way)| of(way)).max().unwrap_or(0);
            let both = up.iter().enumerate().map(|(master, way)| of(way) + of(&back(master)));
            there + both.max().unwrap_or(0)
        };
        let nearest = down.iter().map(|(_, way)| way.links).min().unwrap_or(0);
        let uncounted = most(|way| way.uncounted);
        let common_ppm = drifts.least.max(-drifts.most).max(0);
        let common = common_ppm * (most(|way| way.links) + uncounted - nearest);
        let rounding = most(|way| way.hops) * ROUNDING_OF_HOP_NS + ROUNDING_NS;
        let more = uncounted + rounding + div_up(common.max(0), PPM);
        Self { timing: synchronisation.timing, drifts, nearest, more, uncounted }
    }

    /// What clocks with this drift are apart behind `span` by the slowest of them.
    fn drift(&self, span: i128) -> i128 {
        let slowest = PPM + self.drifts.least.min(0);
        div_up(self.drifts.spread() * (span + self.more), slowest)
    }

    /// For how long clocks run apart, from one frame to the correction by the next: by the slowest of them.
    fn span(&self, precision: i128, period: i128) -> i128 {
        let timing = self.with(precision);
        let corrected = timing.correction_at(timing.scheduled_receive(0));
        let dispatched = timing.max_transmission_delay + timing.compression_master_delay();
        period + i128::from(corrected - dispatched) - self.nearest
    }

    /// The largest difference of clocks, item 3.
    fn corrected(&self, precision: i128, period: i128) -> i128 {
        self.drift(self.span(precision, period)) + self.more
    }

    /// The largest difference of clocks until they are first corrected, item 5.
    fn first(&self, precision: i128) -> i128 {
        let timing = self.with(precision);
        let half = div_up(precision, 2);
        let corrected = i128::from(timing.correction_at(timing.scheduled_receive(0)));
        half + self.drift(corrected) + self.more
    }

    fn with(&self, precision: i128) -> Timing {
        Timing { precision: precision as u64, ..self.timing }
    }

    fn holds(&self, precision: i128, period: i128) -> bool {
        self.corrected(precision, period).max(self.first(precision)) <= precision
    }
}

fn div_up(value: i128, by: i128) -> i128 {
    -(-value).div_euclid(by)
}

/// The least of the values up to [`MOST_NS`] for which `holds`, which does for all that are larger; `None` if it does for none.
fn least(holds: impl Fn(i128) -> bool) -> Option<i128> {
    let (mut no, mut yes) = (-1, MOST_NS);
    if !holds(yes) {
        return None;
    }
    while yes - no > 1 {
        let middle = i128::midpoint(no, yes);
        match holds(middle) {
            true => yes = middle,
            false => no = middle,
        }
    }
    Some(yes)
}

/// Clocks that nothing corrects run apart without end; corrected ones until the next correction.
fn apart(network: &Network, places: &Places, findings: &Findings) {
    match &network.synchronisation {
        Some(synchronisation) => corrected(network, synchronisation, places, findings),
        None => free_running(network, places, findings),
    }
}

fn free_running(network: &Network, places: &Places, findings: &Findings) {
    let drifts = Drifts::of(network);
    let is_relayed = |flow: &Flow| {
        let mut relays = flow.hops.iter().filter(|hop| hop.before.is_some());
        flow.is_time_triggered() && relays.any(|hop| network.has_schedule(hop.from))
    };
    let spread_ppm = drifts.spread();
    if spread_ppm == 0 || !network.flows.iter().any(is_relayed) {
        return;
    }
    let precision = network.precision;
    // In this time they run apart by the precision.
    let lasts = nanos(ns(precision) * PPM / spread_ppm);
    let message = format!(
        "clocks run up to {spread_ppm} ppm apart and nothing corrects them: after {lasts} they differ by more than \
         the precision of {precision}, and frames miss their instants",
    );
    let hint = "add a table `synchronisation`, or remove `drift` and `drift_change`";
    findings.error_with_hint(places.nodes[drifts.worst].of("drift"), message, hint);
}

/// The precision must be one that synchronisation can hold.
fn corrected(
    network: &Network,
    synchronisation: &Synchronisation,
    places: &Places,
    findings: &Findings,
) {
    let apart = PrecisionBound::of(network, synchronisation);
    let (precision, period) = (ns(network.precision), ns(synchronisation.period));
    if apart.holds(precision, period) {
        return;
    }
    let place = places.synchronisation.as_ref().map(|place| place.of("period"));
    let place = place.unwrap_or(&places.nodes[apart.drifts.worst].whole);
    let (steady, first) = (apart.corrected(precision, period), apart.first(precision));
    let spread_ppm = apart.drifts.spread();
    let mut message = if steady > precision {
        let span = nanos(apart.span(precision, period));
        format!(
            "clocks may differ by {}, but `precision` is {}: they run up to {spread_ppm} ppm apart for {span} from one \
             protocol control frame to the correction by the next, and a frame that is further from its instant does not \
             correct a clock",
            nanos(steady),
            network.precision
        )
    } else {
        format!(
            "clocks may differ by {} until they are first corrected, but `precision` is {}: they begin up to half of it apart, \
             and run up to {spread_ppm} ppm apart",
            nanos(first),
            network.precision
        )
    };
    if apart.uncounted > 0 {
        let uncounted = nanos(apart.uncounted);
        message += &format!(
            "; ordinary switches delay these frames by up to {uncounted}, which no transparent clock counts"
        );
    }
    // What is needed until all clocks are corrected has to fit into the period.
    let shortest = |precision: i128| {
        let timing = apart.with(precision);
        i128::from(timing.correction_at(timing.scheduled_receive(0))) + precision
    };
    let needed = least(|precision| apart.holds(precision, period));
    let needed = needed.filter(|&it| shortest(it) < period);
    // What holds for a period holds for all that are shorter.
    let longest = least(|shorter| apart.holds(precision, MOST_NS - shorter)).map(|it| MOST_NS - it);
    let longest = longest.filter(|&it| it > shortest(precision));
    let mut remedies = Vec::new();
    remedies.extend(needed.map(|it| format!("precision = \"{}\"", nanos(it))));
    remedies.extend(longest.map(|it| format!("a period of at most {}", nanos(it))));
    if apart.uncounted > 0 {
        remedies.push("relaying = \"time-triggered\" for each switch on their way".into());
    }
    if remedies.is_empty() {
        remedies.push("clocks that drift less".into());
    }
    findings.error_with_hint(place, message, remedies.join(", or "));
}

/// Protocol control frames that take longer than is possible do not count.
fn delay(network: &Network, places: &Places, findings: &Findings) {
    let Some(synchronisation) = &network.synchronisation else { return };
    let Some(place) = &places.synchronisation else { return };
    let most = Nanos::from_nanos(synchronisation.timing.max_transmission_delay);
    // If no other frame is in the way.
    let shortest = synchronisation.flows.iter().map(|flow| {
        delay_over(network, flow, |hop| {
            let link = &network.links[hop.link];
            link.preamble() + link.transmission(flow.size) + link.delay
        })
    });
    let shortest = shortest.max().unwrap_or_default();
    let longest = longest_delay(network, &synchronisation.flows);
    let origin = place.of("max_transmission_delay");
    if most < shortest {
        let message = format!(
            "`max_transmission_delay` is {most}, but some protocol control frames take {shortest} at least, so they do not count"
        );
        let hint = format!("remove it, or max_transmission_delay = \"{longest}\"");
        findings.error_with_hint(origin, message, hint);
    } else if most < longest {
        let message = format!(
            "`max_transmission_delay` is {most}, but a protocol control frame may take {longest} behind other frames, and does \
             not count then"
        );
        findings.warning(origin, message, "remove it, and the longest delay is computed");
    }
}
