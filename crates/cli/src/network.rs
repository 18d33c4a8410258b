//! `candor network`: the description of a network.

pub(crate) mod json;
mod show;

use clap::Subcommand;

use crate::Answer;
use crate::output::print;

#[derive(Subcommand)]
pub(crate) enum NetworkCommand {
    /// Check a network file and show its buses, nodes and messages, and where gateways forward them
    ///
    /// Example: candor network show examples/small-car.network.toml
    Show(show::Show),
    /// Print the JSON Schema of network files, for editors
    ///
    /// Example: candor network schema > network.schema.json
    Schema,
}

/// What may be in a network file.
const SCHEMA: &str = include_str!("../../../schemas/network.schema.json");

pub(crate) fn run(command: &NetworkCommand) -> Answer {
    match command {
        NetworkCommand::Show(arguments) => show::run(arguments),
        NetworkCommand::Schema => print(SCHEMA).map(|()| true),
    }
}
