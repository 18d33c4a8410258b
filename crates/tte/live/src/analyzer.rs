//! [`analyze`]: receives measurement frames, each with the stamp of the kernel.

use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::ethernet::EthernetSocket;
use candor_linux::{Error, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::Network;
use candor_wire::eth::tte::Measurement;

use candor_wire::eth::{Address, FCS_LEN, Frame, ether_type};

use crate::unless_down;
use candor_tte::frames::Destinations;

/// How often it is looked for frames. Whoever waits for them is woken by the thread that sends, behind its stamp, which costs
/// that thread 20 us and more on a virtual machine.
pub const GLANCE: Nanos = Nanos::from_millis(10);

/// Sleeps until the next look. Woken late or not: stamps are of the kernel.
fn glance() {
    let _ = clock::sleep_until(clock::now::<Realtime>() + GLANCE);
}

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
/// The interface is gone.
pub fn analyze(socket: &EthernetSocket, run: u32, stop: &AtomicBool) -> Result<Arrivals, Error> {
    let mut arrivals = Arrivals::default();
    let mut bytes = [0; 2_048];
    loop {
        while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
            let frame = Frame::parse(&bytes[..received.len]).ok();
            let measurement = frame.and_then(|frame| Measurement::parse(frame.payload).ok());
            match measurement.filter(|measurement| measurement.run == run) {
                Some(measurement) => {
                    let size = received.len + FCS_LEN;
                    arrivals.frames.push(Arrival { measurement, stamp: received.stamp, size });
                }
                None => arrivals.strangers += 1,
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        glance();
    }
    arrivals.dropped = socket.drops()?;
    Ok(arrivals)
}

/// What a port has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A frame of a flow.
    Frame {
        /// The flow.
        flow: usize,
        /// The frame.
        arrival: Arrival,
        /// Who sent it.
        source: Address,
    },
    /// A protocol control frame.
    Pcf,
    /// A frame of another program or protocol, or one that is not as its flow says.
    Stranger,
    /// All that came before this instant was told.
    Looked(Instant<Realtime>),
}

/// Tells what a port sees until `stop`, or until `tell` says that it is enough. How many frames found no room.
///
/// It looks every [`GLANCE`].
///
/// # Errors
/// The interface is gone.
pub fn listen(
    socket: &EthernetSocket,
    network: &Network,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Heard) -> bool,
) -> Result<u32, Error> {
    let destinations = Destinations::new(network);
    let mut bytes = [0; 2_048];
    loop {
        let now = clock::now::<Realtime>();
        while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
            let bytes = &bytes[..received.len];
            let found = destinations.flow_of(bytes);
            let frame = Frame::parse(bytes).ok();
            let is_pcf = |frame: &Frame<'_>| frame.header.ether_type == ether_type::TTETHERNET_PCF;
            let other =
                if frame.is_some_and(|it| is_pcf(&it)) { Heard::Pcf } else { Heard::Stranger };
            let heard = found.and_then(|(flow, measurement)| {
                let measurement = measurement?;
                let size = received.len + FCS_LEN;
                let is_as_its_flow_says = usize::from(measurement.stream) == flow
                    && usize::from(network.flows[flow].size) == size;
                let source = frame?.header.source;
                let arrival = Arrival { measurement, stamp: received.stamp, size };
                is_as_its_flow_says.then_some(Heard::Frame { flow, arrival, source })
            });
            if !tell(heard.unwrap_or(other)) || stop.load(Ordering::Relaxed) {
                return socket.drops();
            }
        }
        if !tell(Heard::Looked(now)) || stop.load(Ordering::Relaxed) {
            return socket.drops();
        }
        socket.check_interface()?;
        glance();
    }
}
