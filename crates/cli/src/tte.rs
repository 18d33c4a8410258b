//! `candor tte`: time-triggered Ethernet.

mod analyze;
#[cfg(feature = "lab")]
mod capture;
mod check;
mod gantt;
mod generate;
pub(crate) mod json;
mod live;
mod model;
mod switch;

use clap::Subcommand;

use crate::Answer;
use crate::output::print;

#[derive(Subcommand)]
pub(crate) enum TteCommand {
    /// Run the experiments of a file and print measured, published and calculated latencies
    ///
    /// Like `candor lab run`, followed by the claims of the file. Exits with 1 if a claim does not hold.
    ///
    /// Example: candor tte run campaigns/tte-paper.toml
    #[cfg(feature = "lab")]
    Run(crate::lab::TimeTriggeredRun),
    /// Report everything that is wrong with a schedule, and show what it makes of each link
    ///
    /// Exits with 1 if there are errors.
    ///
    /// Example: candor tte check examples/one-switch.tte.toml --gantt
    Check(check::Check),
    /// Print the latency that follows from the schedule, for each flow and size
    ///
    /// Example: candor tte model examples/one-switch.tte.toml
    Model(model::Model),
    /// Simulate the network and write its frames to a file for Wireshark
    ///
    /// Example: candor tte capture examples/one-switch.tte.toml bed.pcapng --cycles 100
    #[cfg(feature = "lab")]
    Capture(capture::CaptureArgs),
    /// Relay between interfaces of this machine, as a switch of the network
    ///
    /// It also sends a protocol control frame at the begin of each cycle, by which generators synchronise. Ctrl-C ends it.
    ///
    /// Example: candor tte switch car.tte.toml --node backbone --port left=eth1 --port right=eth2
    Switch(switch::SwitchArgs),
    /// Send the frames of an end system of the network, in schedule
    ///
    /// Cycles begin when the protocol control frames of a switch say. Exits with 1 if frames were not sent that should
    /// have been.
    ///
    /// Example: candor tte generate car.tte.toml --node camera --interface eth1 --count 1000
    Generate(generate::GenerateArgs),
    /// Receive the frames of the network, or read them from a capture, and measure their latencies
    ///
    /// With one port, against the instants of the schedule; with two, from the port before the network to that behind
    /// it. Exits with 1 if frames were lost; of a capture, also if some are not as the schedule says.
    ///
    /// Examples:
    ///   candor tte analyze car.tte.toml --interface eth2 --from eth1 --count 1000
    ///   candor tte analyze examples/one-switch.tte.toml bed.pcapng --interface out/switch
    #[command(verbatim_doc_comment)]
    Analyze(analyze::AnalyzeArgs),
    /// Print the JSON Schema of network files, for editors
    ///
    /// Example: candor tte schema > tte.schema.json
    Schema,
}

/// What may be in a network file.
const SCHEMA: &str = include_str!("../../../schemas/tte.schema.json");

pub(crate) fn run(command: &TteCommand) -> Answer {
    match command {
        #[cfg(feature = "lab")]
        TteCommand::Run(arguments) => crate::lab::run_time_triggered(arguments),
        TteCommand::Check(arguments) => check::run(arguments),
        TteCommand::Model(arguments) => model::run(arguments),
        #[cfg(feature = "lab")]
        TteCommand::Capture(arguments) => capture::run(arguments),
        TteCommand::Switch(arguments) => switch::run(arguments),
        TteCommand::Generate(arguments) => generate::run(arguments),
        TteCommand::Analyze(arguments) => analyze::run(arguments),
        TteCommand::Schema => print(SCHEMA).map(|()| true),
    }
}
