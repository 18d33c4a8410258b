//! `candor signals`: frames as events for applications. One file per command.

mod serve;
mod watch;

use clap::Subcommand;

use crate::Answer;

/// Serve signals and frames to applications, and watch them
#[derive(Subcommand)]
pub(crate) enum SignalsCommand {
    /// Serve what ports receive: a page, WebSocket as AGL has it, CBOR, MessagePack, event streams
    ///
    /// Example: candor signals serve --port can0 --dbc car.dbc, and open http://127.0.0.1:1234/
    Serve(serve::ServeArgs),
    /// Print the values of signals as they come
    ///
    /// Example: candor signals watch ws://127.0.0.1:1234/api 'VehicleSpeed.*'
    Watch(watch::WatchArgs),
}

pub(crate) fn run(command: &SignalsCommand) -> Answer {
    match command {
        SignalsCommand::Serve(arguments) => serve::run(arguments),
        SignalsCommand::Watch(arguments) => watch::run(arguments),
    }
}
