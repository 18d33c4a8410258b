//! `candor signals`: frames as events for applications. One file per command.

mod check;
mod file;
pub(crate) mod json;
mod serve;
mod stats;
mod watch;

use clap::Subcommand;

use crate::Answer;
use crate::output::print;

/// Serve signals and frames to applications, and watch them
#[derive(Subcommand)]
pub(crate) enum SignalsCommand {
    /// Serve what ports receive: a page, WebSocket as AGL has it, CBOR, MessagePack, event streams
    ///
    /// Exits with 1 if frames came and the DBC files describe none of them.
    ///
    /// To change the buses and DBC files of a file while it is served: save the file, or send SIGHUP.
    ///
    /// Examples:
    ///   candor signals serve --port can0 --dbc car.dbc, and open http://127.0.0.1:1234/
    ///   candor signals serve car.signals.toml
    #[command(verbatim_doc_comment)]
    Serve(serve::ServeArgs),
    /// Print the values of signals as they come
    ///
    /// Example: candor signals watch ws://127.0.0.1:1234/api 'VehicleSpeed.*'
    Watch(watch::WatchArgs),
    /// Show what a running service has counted: buses and subscribers
    ///
    /// With --check, says whether the service is well, and exits with 1 if a port or message bus does not
    /// work, if the file on disk was refused, or if a bus is silent for longer than --max-silence.
    ///
    /// Examples:
    ///   candor signals stats
    ///   candor signals stats unix:/run/candor/signals.sock --json
    ///   candor signals stats --check --max-silence 2s
    #[command(verbatim_doc_comment)]
    Stats(stats::StatsArgs),
    /// Report all errors and warnings in a file of the signal service
    ///
    /// Opens no port. Exits with 1 if there are errors, with 0 if there are only warnings or none.
    ///
    /// Example: candor signals check car.signals.toml
    Check(check::CheckArgs),
    /// Print the JSON Schema of such files, for editors
    ///
    /// Example: candor signals schema > signals.schema.json
    Schema,
}

/// What may be in a file of the signal service.
const SCHEMA: &str = include_str!("../../../schemas/signals.schema.json");

pub(crate) fn run(command: &SignalsCommand) -> Answer {
    match command {
        SignalsCommand::Serve(arguments) => serve::run(arguments),
        SignalsCommand::Watch(arguments) => watch::run(arguments),
        SignalsCommand::Stats(arguments) => stats::run(arguments),
        SignalsCommand::Check(arguments) => check::run(arguments),
        SignalsCommand::Schema => print(SCHEMA).map(|()| true),
    }
}
