//! The slave of round trips: answers each request, as `candor pong` does, on a controller of its own.

use std::cell::Cell;

use candor_linux::clock;
use candor_ping::Pair;
use candor_ping::run::{self, Answered};
use candor_protocol::order::Measurement;

use super::Tally;
use super::apart::{self, LoopMeter};
use crate::failure::Failure;
use crate::tester::{pair, port};

pub(super) fn start(order: &Measurement) -> Result<apart::Running, Failure> {
    apart::Running::start(order, |order, ready| apart::perform(order, ready, work))
}

fn work(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let pairs: [Pair; 1] = [pair(&order.traffic)?];
    let (mut receiver, mut transmitter) = port("gateway", &order.round_trip_ports()[1])?;
    ready();
    let meter = LoopMeter::start();
    let dropped = Cell::new(0);
    let mut goes_on = |counts: Answered| {
        dropped.set(counts.dropped);
        true
    };
    // An error is its end: the interface was stopped.
    let _ = run::slave(&pairs, &mut *receiver, &mut *transmitter, &clock::now, &mut goes_on);
    Ok(meter.finish(receiver.counters().overflow.get(), dropped.get()))
}
