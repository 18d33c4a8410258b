//! The papers' user-space gateway: read a frame, write it, nothing else. No rules, no time stamps,
//! default sockets.

use candor_linux::can::Socket;
use candor_linux::{Errno, Sent, state};
use candor_protocol::interface;
use candor_protocol::order::Measurement;

use super::Tally;
use super::apart::{self, Meter};
use crate::failure::{Context, Failure};

const PLACE: &str = "gateway";
const REMEDY: &str = "see the console";

pub(super) fn start(order: &Measurement) -> Result<apart::Running, Failure> {
    apart::Running::start(order, |order, ready| apart::perform(order, ready, work))
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
    let meter = Meter::start();
    loop {
        match input.receive() {
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
