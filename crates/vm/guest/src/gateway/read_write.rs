//! The papers' user-space gateway: read a frame, write it, nothing else. No rules, no time stamps,
//! default sockets.

use candor_bed::interface;
use candor_bed::order::Measurement;
use candor_linux::can::Socket;
use candor_linux::{Sent, state};

use super::{Meter, Tally, is_stopped};
use crate::failure::{Context, Failure};

const REMEDY: &str = "see the console";

pub(super) fn run(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let input = Socket::open(interface::SOURCE).at("gateway", REMEDY)?;
    let output = Socket::open(interface::TARGET).at("gateway", REMEDY)?;
    if order.traffic.fd_flags.is_some() {
        input.accept_fd().at("gateway", REMEDY)?;
        output.accept_fd().at("gateway", REMEDY)?;
    }
    if let Some(bytes) = order.settings.receive_buffer {
        input.set_receive_buffer(bytes).at("gateway", REMEDY)?;
    }
    let mut tally = Tally::default();
    ready();
    let meter = Meter::start();
    loop {
        match input.receive() {
            Ok(Some(frame)) => match output.send(&frame).at("gateway", REMEDY)? {
                Sent::Taken => {}
                Sent::QueueFull | Sent::WouldBlock => tally.refused += 1,
            },
            Ok(None) => {}
            Err(error) if is_stopped(&error) => break,
            Err(error) => return Err(error).at("gateway", REMEDY),
        }
    }
    meter.stop(&mut tally);
    tally.overflow = state::memory(&input).at("gateway", REMEDY)?.dropped.into();
    Ok(tally)
}
