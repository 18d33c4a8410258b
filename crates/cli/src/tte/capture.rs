//! `candor tte capture`: the frames of a simulated network, as a capture file.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use candor_diagnostics::{counted, did_you_mean, list_of_names};
use candor_output::say;
use candor_recording::{
    AnyRecord, Direction, InterfaceIndex, Packet, Record, RecordingError, Writer, create,
};
use candor_sim::Time;
use candor_sim::tte::{Observer, Record as Ended, Transmission, World};
use candor_tte::Network;
use candor_tte::frames::PCF_ID;
use candor_wire::eth::Address;
use candor_wire::eth::tte::Measurement;
use clap::Args;

use super::live;
use crate::Answer;
use crate::bus::live::catch_signals;
use crate::overwrite::{Overwriting, refusal};

#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// The network file
    file: PathBuf,
    /// The capture, whose name ends in .pcapng: an interface for each direction of a link
    capture: PathBuf,
    /// How many cycles of the network
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cycles: u64,
    /// The frames of this link only
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// The random numbers for jitter, drift and best-effort frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    overwriting: Overwriting,
}

pub(super) fn run(args: &CaptureArgs) -> Answer {
    let network = live::network(&args.file)?;
    let link = args.link.as_deref().map(|name| link(&network, &args.file, name)).transpose()?;
    let writer = create(&args.capture, None, args.overwriting.existing());
    let writer = writer.map_err(|error| match error.is_existing() {
        true => refusal(&args.capture),
        false => error.to_string(),
    })?;
    if !writer.format().keeps_ethernet {
        return Err(format!(
            "{}: a {} has no Ethernet frames; choose a name that ends in .pcapng",
            args.capture.display(),
            writer.format().title
        ));
    }
    let mut world = World::new(network.clone(), args.seed);
    let mut capture = Capture { network: &network, link, writer, frames: 0, failure: None };
    let stop = catch_signals();
    // Time-triggered frames begin with the second cycle.
    for cycle in 1..=args.cycles + 1 {
        let end_ns = network.cycle.as_nanos().saturating_mul(cycle);
        world.run_until(Time::from_nanos(end_ns), &mut capture);
        if stop.load(Ordering::Relaxed) {
            return Err(format!("{}: interrupted, and not written", args.capture.display()));
        }
        if capture.failure.is_some() {
            break;
        }
    }
    let Capture { writer, frames, failure, .. } = capture;
    failure.map_or(Ok(()), Err).and_then(|()| writer.finish()).map_err(|it| it.to_string())?;
    let critical = network.frames.critical;
    say!(
        "{}: {} of {}; Wireshark knows them with these preferences of TTEthernet:",
        args.capture.display(),
        counted(frames, "frame"),
        counted(args.cycles, "cycle")
    );
    say!(
        "  -o tte.ct_marker_value:{:#010x} -o tte.ct_mask_value:{:#010x}",
        critical.marker(),
        critical.mask()
    );
    Ok(true)
}

/// The link of a name.
fn link(network: &Network, path: &Path, name: &str) -> Result<usize, String> {
    let names = || network.links.iter().map(|link| link.name.as_str());
    network.links.iter().position(|link| link.name == name).ok_or_else(|| {
        let remedy = match did_you_mean(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("its links are {}", list_of_names(names(), "and")),
        };
        format!("{}: there is no link `{name}`; {remedy}", path.display())
    })
}

/// Writes frames as they go over links.
struct Capture<'a> {
    network: &'a Network,
    link: Option<usize>,
    writer: Writer,
    frames: u64,
    failure: Option<RecordingError>,
}

impl Capture<'_> {
    fn write(&mut self, transmission: &Transmission) -> Result<(), RecordingError> {
        let Transmission { flow, number, link, from, source, at, due, started, ref pcf } =
            *transmission;
        let source = address(source);
        let mut bytes = [0; 1_514];
        let bytes = match pcf {
            Some(pcf) => {
                let frame = self.network.frames.pcf(source, PCF_ID, pcf);
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
                let len = self.network.write_frame(source, &measurement, &mut bytes);
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
        let interface =
            format!("{}/{}", self.network.links[link].name, self.network.nodes[from].name);
        self.writer.write_any(&AnyRecord::Ethernet(record), &interface)
    }
}

impl Observer for Capture<'_> {
    fn record(&mut self, _: &Ended) {}

    fn transmits(&mut self, transmission: &Transmission) {
        if self.failure.is_some() || self.link.is_some_and(|link| link != transmission.link) {
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
