//! `candor tte`: time-triggered Ethernet.

mod check;
mod gantt;
mod model;

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
        TteCommand::Schema => print(SCHEMA).map(|()| true),
    }
}
