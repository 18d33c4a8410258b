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
        flow: usize,
        /// The frame.
        arrival: Arrival,
        /// Whether the machine that saw it has sent it, so that the stamp is of its first bit.
        is_outgoing: bool,
    },
    /// A frame of a flow that has another size than the flow, or a VLAN tag.
    Misshapen(usize),
    /// A frame of a virtual link that no flow has.
    Unplanned,
    /// A protocol control frame.
    Pcf,
    /// A frame of another program or protocol.
    Stranger,
    /// All that came before this instant was told.
    Looked(Instant<Realtime>),
}

/// What a frame is that a port with this address has seen.
fn recognise(
    network: &Network,
    destinations: &Destinations,
    own: Address,
    bytes: &[u8],
    stamp: Option<Instant<Realtime>>,
) -> Heard {
    let Ok(frame) = Frame::parse(bytes) else { return Heard::Stranger };
    let size = bytes.len() + FCS_LEN;
    match destinations.flow_of(bytes) {
        Some((flow, Some(measurement))) if usize::from(measurement.stream) == flow => {
            let arrival = Arrival { measurement, stamp, size };
            shaped(network, flow, &frame, arrival, frame.header.source == own)
        }
        _ => other(destinations, &frame),
    }
}

/// A frame of a flow, if it is as the flow says.
pub(crate) fn shaped(
    network: &Network,
    flow: usize,
    frame: &Frame<'_>,
    arrival: Arrival,
    is_outgoing: bool,
) -> Heard {
    let is_misshapen =
        usize::from(network.flows[flow].size) != arrival.size || frame.header.tag.is_some();
    match is_misshapen {
        true => Heard::Misshapen(flow),
        false => Heard::Frame { flow, arrival, is_outgoing },
    }
}

/// What a frame is that is of no flow, or does not say which of its flow it is.
pub(crate) fn other(destinations: &Destinations, frame: &Frame<'_>) -> Heard {
    if frame.header.ether_type == ether_type::TTETHERNET_PCF {
        Heard::Pcf
    } else if destinations.is_unplanned(frame) {
        Heard::Unplanned
    } else {
        Heard::Stranger
    }
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
    let own = socket.address();
    let mut bytes = [0; 2_048];
    loop {
        let now = clock::now::<Realtime>();
        while let Some(received) = unless_down(socket.receive(&mut bytes), None)? {
            let heard =
                recognise(network, &destinations, own, &bytes[..received.len], received.stamp);
            if !tell(heard) || stop.load(Ordering::Relaxed) {
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
