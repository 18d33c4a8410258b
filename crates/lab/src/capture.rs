//! [`Capture`]: the frames of a simulated network of time-triggered Ethernet, as a capture file.

use candor_recording::{
    AnyRecord, Direction, InterfaceIndex, Packet, Record, RecordingError, Writer,
};
use candor_sim::Time;
use candor_sim::tte::{Observer, Record as Ended, Transmission, World};
use candor_tte::Network;
use candor_tte::frames::PCF_ID;
use candor_wire::eth::Address;
use candor_wire::eth::tte::Measurement;

/// What of a network is captured.
pub struct Capture<'a> {
    pub network: &'a Network,
    /// The index of the only link whose frames are wanted.
    pub link: Option<usize>,
    pub cycles: u64,
    /// The seed of jitter, drift and best-effort frames.
    pub seed: u64,
}

impl Capture<'_> {
    /// Simulates the network, and writes frames as they go over links: how many.
    ///
    /// # Errors
    /// A frame cannot be written.
    pub fn write(&self, writer: &mut Writer) -> Result<u64, RecordingError> {
        let mut world = World::new(self.network.clone(), self.seed);
        let mut links = LinkCapture { capture: self, writer, frames: 0, failure: None };
        // Time-triggered frames begin with the second cycle.
        for cycle in 1..=self.cycles + 1 {
            let end_ns = self.network.cycle.as_nanos().saturating_mul(cycle);
            world.run_until(Time::from_nanos(end_ns), &mut links);
            if let Some(error) = links.failure {
                return Err(error);
            }
        }
        Ok(links.frames)
    }
}

/// Writes frames as they go over links.
struct LinkCapture<'a> {
    capture: &'a Capture<'a>,
    writer: &'a mut Writer,
    frames: u64,
    failure: Option<RecordingError>,
}

impl LinkCapture<'_> {
    fn write(&mut self, transmission: &Transmission) -> Result<(), RecordingError> {
        let network = self.capture.network;
        let Transmission { flow, number, link, from, source, at, due, started, ref pcf } =
            *transmission;
        let source = address(source);
        let mut bytes = [0; 1_514];
        let bytes = match pcf {
            Some(pcf) => {
                let frame = network.frames.pcf(source, PCF_ID, pcf);
                bytes[..frame.len()].copy_from_slice(&frame);
                &bytes[..frame.len()]
            }
            None => {
                let measurement = Measurement {
                    run: 0,
                    stream: flow as u16,
                    sequence: number as u32,
                    scheduled_ns: due.as_nanos(),
                    sent_ns: started.as_nanos(),
                };
                let len = network.write_frame(source, &measurement, &mut bytes);
                &bytes[..len]
            }
        };
        let packet = Packet { bytes, original_len: bytes.len() as u32 };
        let record = Record {
            time_ns: at.as_nanos(),
            interface: InterfaceIndex(0),
            direction: Some(Direction::Transmitted),
            frame: packet,
        };
        let interface = format!("{}/{}", network.links[link].name, network.nodes[from].name);
        self.writer.write_any(&AnyRecord::Ethernet(record), &interface)
    }
}

impl Observer for LinkCapture<'_> {
    fn record(&mut self, _: &Ended) {}

    fn transmits(&mut self, transmission: &Transmission) {
        if self.failure.is_some() || self.capture.link.is_some_and(|link| link != transmission.link)
        {
            return;
        }
        match self.write(transmission) {
            Ok(()) => self.frames += 1,
            Err(error) => self.failure = Some(error),
        }
    }
}

/// The address of a node: one that is locally administered, with its place in the file.
fn address(node: usize) -> Address {
    let [high, low] = (node as u16 + 1).to_be_bytes();
    Address([0x02, 0, 0, 0, high, low])
}
