//! `candor bus`: watch buses, send to them, and measure their load.
//!
//! A port is named as everywhere: `can0`, `cannelloni:udp://host:20000`, `file:drive.log` (see
//! `candor bus list`). Logic is in `candor-bus`; the files below read arguments and show results.
//! `Ctrl-C`, SIGTERM and SIGHUP end a command in order; what was counted is reported then.

mod dump;
mod file;
mod generate;
pub(crate) mod json;
mod list;
pub(crate) mod live;
mod load;
pub(crate) mod out;
mod record;
mod replay;
mod send;
mod sending;

pub(crate) use live::view;

use clap::Subcommand;

use crate::Answer;

/// Show, send, record and replay frames, and measure bus load
#[derive(Subcommand)]
pub(crate) enum BusCommand {
    /// List the CAN interfaces of this machine and the kinds of ports
    ///
    /// Example: candor bus list
    List(list::ListArgs),
    /// Show frames as they arrive, in the format of candump
    ///
    /// Exits with 1 if the DBC file describes none of the frames that came.
    ///
    /// Examples:
    ///   candor bus dump can0
    ///   candor bus dump can0 can1 --id 0x120/0x7F0 --id '!0x123' --errors
    ///   candor bus dump can0 --dbc car.dbc --signal EngineSpeed
    ///   candor bus dump 'file:drive.log?speed=max' --stamps zero
    #[command(verbatim_doc_comment)]
    Dump(dump::DumpArgs),
    /// Send frames
    ///
    /// Exits with 1 if a frame could not be sent.
    ///
    /// Examples:
    ///   candor bus send can0 123#DEADBEEF 124#R
    ///   candor bus send can0 --dbc car.dbc EngineData EngineSpeed=1200 Gear=first
    ///   candor bus send can0 123#00 --count 100 --gap 10ms
    #[command(verbatim_doc_comment)]
    Send(send::SendArgs),
    /// Generate and send frames: at a rate, up to a bus load, or as fast as possible
    ///
    /// Stops after --count frames or after --time. Exits with 1 if a frame could not be sent.
    ///
    /// Examples:
    ///   candor bus generate can0 --count 1000 --rate 1000/s
    ///   candor bus generate can0@500k --time 10s --load 50% --id 0x100-0x1FF
    ///   candor bus generate can0 --flood --count 100000 --data increment
    #[command(verbatim_doc_comment)]
    Generate(generate::GenerateArgs),
    /// Send the frames of a recording with their original timing
    ///
    /// The schedule is absolute: a frame that is late does not make the next ones late. At the end,
    /// reports how punctual the frames were. Exits with 1 if a frame could not be sent.
    ///
    /// Examples:
    ///   candor bus replay drive.log can0
    ///   candor bus replay drive.log --map can0=vcan0 --map can1=vcan1 --speed 2
    ///   candor bus replay drive.log can0 --speed max
    #[command(verbatim_doc_comment)]
    Replay(replay::ReplayArgs),
    /// Measure how busy buses are, exact to the bit
    ///
    /// Counts the real stuff bits of each frame, and the two bit rates of CAN FD separately. A
    /// frame counts in the interval in which it ended.
    ///
    /// Examples:
    ///   candor bus load can0@500k can1@500k,2M
    ///   candor bus load 'file:drive.log?speed=max@500k' --interval 100ms
    #[command(verbatim_doc_comment)]
    Load(load::LoadArgs),
    /// Record frames into a file
    ///
    /// The file gets its name only when it is complete, also after Ctrl-C. Exits with 1 if a frame
    /// was lost before it reached the file.
    ///
    /// Examples:
    ///   candor bus record can0 can1 --output drive.log
    ///   candor bus record can0 --output drive.pcapng --time 10min
    ///   candor bus record can0 --output drive.log --split 100M
    #[command(verbatim_doc_comment)]
    Record(record::RecordArgs),
}

/// Runs `candor bus`.
///
/// # Errors
/// One sentence that names the port or file, the reason and the remedy.
pub(crate) fn run(command: BusCommand) -> Answer {
    match command {
        BusCommand::List(args) => list::run(&args),
        BusCommand::Dump(args) => dump::run(&args),
        BusCommand::Send(args) => send::run(&args),
        BusCommand::Generate(args) => generate::run(&args),
        BusCommand::Replay(args) => replay::run(&args),
        BusCommand::Load(args) => load::run(&args),
        BusCommand::Record(args) => record::run(&args),
    }
}
