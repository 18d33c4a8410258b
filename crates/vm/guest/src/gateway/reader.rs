//! A program that reads frames, each by a `read()` that waits, and notes the time stamp counter when it is back. The call goes
//! past the C library, with either driver.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::path::Path;

use candor_linux::can::Socket;
use candor_linux::candor_can::Frame;
use candor_linux::clock::time_stamp_counter;
use candor_linux::{quick, state};
use candor_protocol::interface;
use candor_protocol::order::{Driver, Measurement};
use candor_protocol::report::Stamp;
use candor_wire::can::socketcan;

use super::Tally;
use super::apart::{self, LoopMeter};
use crate::candor_can::NAMES;
use crate::failure::{Context, Failure};

const PLACE: &str = "reader";
const REMEDY: &str = "see the console";

pub(super) fn start(order: &Measurement) -> Result<apart::Running, Failure> {
    apart::Running::start(order, |order, ready| apart::perform(order, ready, work))
}

fn work(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    match order.driver {
        Driver::Kernel => {
            let input = Socket::open(interface::SOURCE).at(PLACE, REMEDY)?;
            if let Some(bytes) = order.settings.receive_buffer {
                input.set_receive_buffer(bytes).at(PLACE, REMEDY)?;
            }
            let mut frame = [0; socketcan::CAN_MTU];
            let tally = read_all(&input, &mut frame, socketcan::HEADER_LEN, order, ready)?;
            let overflow = state::memory(&input).at(PLACE, REMEDY)?.dropped.into();
            Ok(Tally { overflow, ..tally })
        }
        Driver::CandorCan(_) => {
            let device = File::open(Path::new("/dev").join(NAMES[0])).at(PLACE, REMEDY)?;
            let mut frame = [0; size_of::<Frame>()];
            read_all(&device, &mut frame, offset_of!(Frame, data), order, ready)
        }
    }
}

/// Reads until the controller is stopped or taken away. The data of a frame begin at `data`.
fn read_all(
    file: &impl AsFd,
    frame: &mut [u8],
    data: usize,
    order: &Measurement,
    ready: &mut dyn FnMut(),
) -> Result<Tally, Failure> {
    // With room for all: none waits for memory.
    let mut delivered = Vec::with_capacity(order.traffic.count as usize);
    ready();
    let mut meter = LoopMeter::start();
    loop {
        let read = quick::read(file, frame);
        let time_ns = time_stamp_counter();
        if meter.counts_anew() {
            delivered.clear();
        }
        match read {
            Ok(_) => {
                let number = frame.get(data..).and_then(<[u8]>::first_chunk);
                delivered
                    .extend(number.map(|it| Stamp { number: u16::from_be_bytes(*it), time_ns }));
            }
            Err(errno) if matches!(errno.name(), Some("ENETDOWN" | "ENODEV")) => break,
            Err(errno) if errno.name() == Some("EINTR") => {}
            Err(errno) => return Err(Failure::new(PLACE, errno.to_string(), REMEDY)),
        }
    }
    Ok(Tally { delivered, ..meter.finish(0, 0) })
}
