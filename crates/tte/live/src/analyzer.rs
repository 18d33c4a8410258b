//! [`analyze`]: receives measurement frames, each with the stamp of the kernel.

use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_wire::eth::Frame;
use candor_wire::eth::tte::Measurement;

/// How often is looked whether it is to stop.
const ATTENTION: Nanos = Nanos::from_millis(50);

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What it says.
    pub measurement: Measurement,
    /// When the kernel had it; `None` if it gave no stamp.
    pub stamp: Option<Instant<Realtime>>,
    /// Its size in bytes, with header and check sequence.
    pub size: usize,
}

/// What an analyzer has seen.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Frames of this run, in the order in which they came.
    pub frames: Vec<Arrival>,
    /// Frames of other runs, of other programs and of other protocols.
    pub strangers: u64,
    /// Frames for which the socket had no room.
    pub dropped: u32,
}

/// Receives until `stop`. Frames whose number of the run is not `run` are strangers.
///
/// # Errors
/// The interface is down or gone.
pub fn analyze(socket: &EthernetSocket, run: u32, stop: &AtomicBool) -> Result<Arrivals, Error> {
    let mut arrivals = Arrivals::default();
    let mut bytes = [0; 2_048];
    loop {
        while let Some(received) = socket.receive(&mut bytes)? {
            let frame = Frame::parse(&bytes[..received.len]).ok();
            let measurement = frame.and_then(|frame| Measurement::parse(frame.payload).ok());
            match measurement.filter(|measurement| measurement.run == run) {
                Some(measurement) => {
                    let size = received.len + candor_wire::eth::FCS_LEN;
                    arrivals.frames.push(Arrival { measurement, stamp: received.stamp, size });
                }
                None => arrivals.strangers += 1,
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        socket.wait(clock::now::<Realtime>() + ATTENTION)?;
    }
    arrivals.dropped = socket.drops()?;
    Ok(arrivals)
}
