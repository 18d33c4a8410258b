//! `candor pong`: answers requests.

use std::sync::atomic::Ordering;

use candor_bus::rates::RatedPort;
use candor_diagnostics::counted;
use candor_linux::clock;
use candor_output::say;
use candor_ping::run;
use clap::Args;

use super::{PairArgs, RealTimeArgs, open};
use crate::Answer;
use crate::bus::live::catch_signals;
use crate::json;
use crate::output::print;

#[derive(Args)]
pub(crate) struct PongArgs {
    /// The port to answer on, such as can0
    port: RatedPort,
    #[command(flatten)]
    pairs: PairArgs,
    /// End after so many answers
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    real_time: RealTimeArgs,
    /// Print JSON Lines: an object of type "answered" at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PongArgs) -> Answer {
    let stop = catch_signals();
    let pairs: Vec<_> = args.pairs.pairs()?.into_iter().map(|arg| arg.pair).collect();
    let address = &args.port.port.address;
    let mut port = open(address)?;
    args.real_time.apply()?;
    say!("answering on {address}; Ctrl-C ends it");
    let counts = run::slave(
        &pairs,
        &mut *port.receiver,
        &mut *port.transmitter,
        &clock::now,
        &mut |counts| {
            !stop.load(Ordering::Relaxed) && args.count.is_none_or(|count| counts.answered < count)
        },
    );
    let counts = counts.map_err(|error| error.to_string())?;
    if args.json {
        print(&json::line(&(address.to_string().as_str(), counts))?)?;
    }
    let dropped = match counts.dropped {
        0 => String::new(),
        dropped => format!(", {} dropped without room in the port", counted(dropped, "answer")),
    };
    say!("{address}: {} answered{dropped}", counted(counts.answered, "request"));
    Ok(counts.dropped == 0)
}
