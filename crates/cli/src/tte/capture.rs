//! `candor tte capture`: the frames of a simulated network, as a capture file.

use std::path::{Path, PathBuf};

use candor_diagnostics::{counted, list_of_names, meant_or};
use candor_lab::capture::Capture;
use candor_output::say;
use candor_recording::create;
use candor_tte::Network;
use clap::Args;

use super::live;
use crate::Answer;
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
    let mut writer = writer.map_err(|error| match error.is_existing() {
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
    let capture = Capture { network: &network, link, cycles: args.cycles, seed: args.seed };
    let frames = capture.write(&mut writer).map_err(|it| it.to_string())?;
    writer.finish().map_err(|it| it.to_string())?;
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
        let remedy =
            meant_or(name, names(), || format!("its links are {}", list_of_names(names(), "and")));
        format!("{}: there is no link `{name}`; {remedy}", path.display())
    })
}
