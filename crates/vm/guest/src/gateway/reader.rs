//! A program that reads frames and notes when it has each: one call for one frame, and the time stamp counter when the call is
//! back. Sockets are read by `read()`, the devices of candor_can by their own call, which waits in the driver as well.

use candor_linux::can::{RawFrame, Socket};
use candor_linux::candor_can::{Device, Filter, Frame, Limit, OVERFLOW};
use candor_linux::clock::time_stamp_counter;
use candor_linux::{Errno, state};
use candor_protocol::interface;
use candor_protocol::order::{Driver, Measurement};
use candor_protocol::report::Stamp;

use super::Tally;
use super::apart::{self, Meter};
use crate::candor_can::NAMES;
use crate::failure::{Context, Failure};

const PLACE: &str = "reader";
const REMEDY: &str = "see the console";

pub(super) fn start(order: &Measurement) -> Result<apart::Running, Failure> {
    match order.driver {
        Driver::Kernel => {
            apart::Running::start(order, |order, ready| apart::perform(order, ready, sockets))
        }
        Driver::CandorCan(_) => {
            apart::Running::start(order, |order, ready| apart::perform(order, ready, devices))
        }
    }
}

/// The frames that were read.
struct Delivered(Vec<Stamp>);

impl Delivered {
    /// With room for all, so that none waits for memory.
    fn new(order: &Measurement) -> Self {
        Self(Vec::with_capacity(order.traffic.count as usize))
    }

    fn note(&mut self, time_ns: u64, data: &[u8]) {
        if let Some(number) = data.first_chunk() {
            self.0.push(Stamp { number: u16::from_be_bytes(*number), time_ns });
        }
    }
}

fn sockets(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let input = Socket::open(interface::SOURCE).at(PLACE, REMEDY)?;
    if let Some(bytes) = order.settings.receive_buffer {
        input.set_receive_buffer(bytes).at(PLACE, REMEDY)?;
    }
    let mut delivered = Delivered::new(order);
    let mut frame = RawFrame::empty();
    ready();
    let meter = Meter::start();
    loop {
        let received = input.receive_into(&mut frame);
        let time_ns = time_stamp_counter();
        match received {
            Ok(true) => delivered.note(time_ns, frame.data()),
            Ok(false) => {}
            // The interface was stopped: the way in which it is ended.
            Err(error) if error.errno().and_then(Errno::name) == Some("ENETDOWN") => break,
            Err(error) => return Err(error).at(PLACE, REMEDY),
        }
    }
    let lost = state::memory(&input).at(PLACE, REMEDY)?.dropped;
    Ok(Tally { delivered: delivered.0, ..meter.finish(lost.into(), 0) })
}

fn devices(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let device = Device::open(NAMES[0]).at(PLACE, REMEDY)?;
    device.set_filters(&[Filter::default()], 0).at(PLACE, REMEDY)?;
    let mut delivered = Delivered::new(order);
    let mut room = [Frame::default()];
    let mut lost = 0;
    ready();
    let meter = Meter::start();
    loop {
        let received = device.read(&mut room, Limit::Never);
        let time_ns = time_stamp_counter();
        match received {
            Ok(0) => {}
            Ok(_) => {
                delivered.note(time_ns, &room[0].data);
                if room[0].flags & OVERFLOW != 0 {
                    lost = device.statistics().at(PLACE, REMEDY)?.handle_lost;
                }
            }
            // The controller was taken away: the way in which it is ended.
            Err(_) => break,
        }
    }
    Ok(Tally { delivered: delivered.0, ..meter.finish(lost, 0) })
}
