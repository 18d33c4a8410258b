//! The papers' user-space gateway: read a frame, write it, nothing else. No rules, no time stamps,
//! default sockets, or the devices of candor_can.

use candor_linux::can::Socket;
use candor_linux::{Errno, Sent, state};
use candor_port::{Received, Until};
use candor_protocol::interface;
use candor_protocol::order::{Driver, Measurement};

use super::Tally;
use super::apart::{self, LoopMeter};
use crate::failure::{Context, Failure};
use crate::tester::port;

const PLACE: &str = "gateway";
const REMEDY: &str = "see the console";

pub(super) fn start(order: &Measurement) -> Result<apart::Running, Failure> {
    match order.driver {
        Driver::Kernel => {
            apart::Running::start(order, |order, ready| apart::perform(order, ready, work))
        }
        Driver::CandorCan(_) => {
            apart::Running::start(order, |order, ready| apart::perform(order, ready, with_ports))
        }
    }
}

fn with_ports(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let (mut receiver, _unused) = port(PLACE, &order.driver.port(interface::SOURCE))?;
    let (_unused, mut transmitter) = port(PLACE, &order.driver.port(interface::TARGET))?;
    let mut refused = 0;
    ready();
    let mut meter = LoopMeter::start();
    let mut pass = |received: &Received| {
        if meter.counts_anew() {
            refused = 0;
        }
        match transmitter.transmit(&received.frame, false) {
            candor_port::Sent::Taken => {}
            _ => refused += 1,
        }
    };
    // An error is its end: the controller was taken away.
    while receiver.receive(Until::Woken, &mut pass).is_ok() {}
    Ok(meter.finish(receiver.counters().overflow.get(), refused))
}

fn work(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let input = Socket::open(interface::SOURCE).at(PLACE, REMEDY)?;
    let output = Socket::open(interface::TARGET).at(PLACE, REMEDY)?;
    if order.traffic.fd_flags.is_some() {
        input.accept_fd().at(PLACE, REMEDY)?;
        output.accept_fd().at(PLACE, REMEDY)?;
    }
    if let Some(bytes) = order.settings.receive_buffer {
        input.set_receive_buffer(bytes).at(PLACE, REMEDY)?;
    }
    let mut refused = 0;
    ready();
    let mut meter = LoopMeter::start();
    loop {
        let received = input.receive();
        if meter.counts_anew() {
            refused = 0;
        }
        match received {
            Ok(Some(frame)) => match output.send(&frame).at(PLACE, REMEDY)? {
                Sent::Taken => {}
                Sent::QueueFull | Sent::WouldBlock => refused += 1,
            },
            Ok(None) => {}
            // The interface was stopped: the way in which a gateway is ended.
            Err(error) if error.errno().and_then(Errno::name) == Some("ENETDOWN") => break,
            Err(error) => return Err(error).at(PLACE, REMEDY),
        }
    }
    Ok(meter.finish(state::memory(&input).at(PLACE, REMEDY)?.dropped.into(), refused))
}
