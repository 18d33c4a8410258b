//! [`check`]: whether the schedule of a network can work, and if not, where and why.
//!
//! Everything is computed from the description alone, without the simulation and without the latencies of
//! [`model`](mod@crate::model), so that each can be held against the others.
//!
//! | rule | what must hold |
//! |---|---|
//! | way | the hops of a flow are links that follow each other and reach every receiver, at instants that are the sum of what leads there |
//! | contention | on no link do two time-triggered frames follow each other closer than preamble, bits, gap and jitter |
//! | path | when a switch is to relay a frame, the frame is complete and processed |
//! | buffer | no instant of the flow comes before that, at which the frame would leave too soon |
//! | window | frames that come as the schedule says come within their receive windows |
//! | deadline | frames reach each receiver within their deadline |
//! | precision | jitter and relay delays leave room for clocks that differ |
//! | id | critical flows have ids of their own |
//! | policing | the jitter of a rate-constrained flow is less than its gap, and more than waiting on the way moves its frames |
//! | clocks | clocks that drift run no further apart than the precision, and the frames that correct them count |
//! | load | frames fit on the links, and between the time-triggered ones |
//!
//! The margins: jitter counts in full, since end systems make use of it. That clocks differ by up to
//! the precision counts in warnings only: some networks have one clock. On one link
//! all frames are from one clock, so contention has no such margin.
//!
//! A switch *with a schedule* sends at instants. Behind an *ordinary* one ([`Relaying::StoreAndForward`],
//! [`Relaying::CutThrough`]) no instant holds, and only what is certain is said: what comes too late however early
//! it is.
//!
//! [`Relaying::StoreAndForward`]: crate::Relaying::StoreAndForward
//! [`Relaying::CutThrough`]: crate::Relaying::CutThrough

mod clocks;
mod contention;
mod description;
mod load;
#[cfg(test)]
mod tests;
mod way;

use candor_diagnostics::Findings;
use candor_time::Nanos;

use crate::Network;
use crate::file::Places;
use crate::schedule::{Direction, directions};

/// Looks for what is wrong with a network, and returns what occupies each direction of its links.
///
/// An error means that frames are lost, late or early though everything works as described. A warning means that
/// this may be so, or that something has no effect. There are no directions if the description contradicts itself.
pub fn check(network: &Network, places: &Places, findings: &Findings) -> Vec<Direction> {
    if !description::check(network, places, findings) {
        return Vec::new();
    }
    let directions = directions(network);
    contention::check(network, places, &directions, findings);
    way::check(network, places, findings);
    load::check(network, places, &directions, findings);
    clocks::check(network, places, findings);
    directions
}

/// The duration of a sum; zero if it is negative.
fn nanos(ns: i128) -> Nanos {
    Nanos::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}
