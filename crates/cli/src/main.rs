//! `candor`: arguments, rendering, exit codes. Everything else is in the crates below.
//!
//! Exit codes: 0 yes, 1 no (a check failed, a claim does not hold), 2 error. Data goes to standard
//! output, messages to standard error. A reader that goes away early is no error.

// Both panic when nobody reads: `output::print` and `say!` do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[cfg(not(feature = "lab"))]
mod absent;
mod bus;
mod color;
mod csv;
#[cfg(feature = "lab")]
mod demo;
mod doctor;
mod duration;
mod embedded;
mod file_kind;
mod frame;
mod health;
mod help;
mod json;
#[cfg(feature = "lab")]
mod lab;
mod log;
mod manual;
mod network;
mod output;
mod overwrite;
mod ping;
#[cfg(feature = "lab")]
mod progress;
mod reading;
mod result;
mod route;
mod signals;
mod tte;
#[cfg(feature = "lab")]
mod vm;

use std::process::ExitCode;
use std::time::Duration;

use candor_linux::unfinished::{self, Unfinished};
use candor_output::{messages, say};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(not(feature = "lab"))]
use crate::absent::{demo, lab, vm};
use crate::color::Color;

/// What a report of a fault should say about the program. `-V` prints its first line.
const LONG_VERSION: &str = concat!(
    env!("CANDOR_VERSION"),
    "\nfeatures: ",
    env!("CANDOR_FEATURES"),
    "\ntarget: ",
    env!("CANDOR_TARGET")
);

/// A CAN gateway and the laboratory that measures it.
///
/// Try `candor demo` first: it simulates the gateway of a small car and shows how long frames take.
/// `candor help json` describes what commands print with `--json`.
#[derive(Parser)]
#[command(
    name = "candor",
    version = env!("CANDOR_VERSION"),
    long_version = LONG_VERSION,
    propagate_version = true,
    infer_subcommands = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    color: Color,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate the gateway of a small car and report its latencies
    Demo(demo::Demo),
    /// Show how many bits a frame has on the wire and how long it takes
    Frame(frame::FrameArguments),
    /// Read and convert recordings
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Show, send, record and replay frames, and measure bus load
    #[command(subcommand)]
    Bus(bus::BusCommand),
    /// Measure round trips to a partner that answers, on any port
    ///
    /// The partner is `candor pong` on the other side of the bus. Exits with 1 if an answer is late or lost.
    ///
    /// Examples:
    ///   candor ping can0
    ///   candor ping sim:desk --pong sim:desk --count 1000 --period 0
    ///   candor ping can0@1M --pings 10 --period 20ms --paced --time 1min --rt 60 --csv trips.csv
    #[command(verbatim_doc_comment)]
    Ping(ping::PingArgs),
    /// Answer the requests of `candor ping`
    ///
    /// Example: candor pong can0
    Pong(ping::PongArgs),
    /// Run and watch a gateway; check, explain, convert and load its rules
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Serve signals and frames to applications, and watch them
    #[command(subcommand)]
    Signals(signals::SignalsCommand),
    /// Time-triggered Ethernet: run experiments, calculate what follows from a schedule
    #[command(subcommand)]
    Tte(tte::TteCommand),
    /// Run experiments and report their latencies
    #[cfg_attr(feature = "lab", command(subcommand))]
    Lab(lab::LabCommand),
    /// Check and show the description of a network
    #[command(subcommand)]
    Network(network::NetworkCommand),
    /// Download and list Linux kernels for virtual machines
    #[cfg_attr(feature = "lab", command(subcommand))]
    Vm(vm::VmCommand),
    /// Check what this machine can do: CAN, real time, rights, the laboratory
    Doctor(doctor::Doctor),
    /// Print shell completions
    ///
    /// Example, for bash: candor completions bash > ~/.local/share/bash-completion/completions/candor
    Completions(manual::Completions),
    /// Write manual pages
    ///
    /// Example: candor man --out ~/.local/share/man/man1
    Man(manual::ManPages),
}

/// How long the end of the program waits for whoever reads its messages.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// Whether the answer is yes; an error is one sentence, or findings with their places.
type Answer = Result<bool, String>;

/// All arguments, with `help`.
fn command() -> clap::Command {
    help::with_help(Arguments::command())
}

#[global_allocator]
static ALLOCATOR: candor_linux::limits::Allocator = candor_linux::limits::Allocator;

fn main() -> ExitCode {
    let prepared = candor_linux::limits::live_with().and_then(|()| unfinished::remove_at_signals());
    if let Err(error) = prepared {
        return exit_code(Err(error.to_string()));
    }
    candor_output::guard_with(|path| Box::new(Unfinished::new(path)));
    let color = Color::of_arguments(std::env::args_os());
    let matches = command().color(color.for_help()).get_matches();
    if let Some(topic) = help::asked(&matches) {
        return exit_code(help::run(&topic, command(), color.for_help()));
    }
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    color::choose(arguments.color);
    exit_code(match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Frame(arguments) => frame::run(&arguments),
        Command::Log(command) => log::run(command),
        Command::Bus(command) => bus::run(command),
        Command::Ping(arguments) => ping::ping(&arguments),
        Command::Pong(arguments) => ping::pong(&arguments),
        Command::Route(command) => route::run(command),
        Command::Signals(command) => signals::run(&command),
        Command::Tte(command) => tte::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Network(command) => network::run(&command),
        Command::Vm(command) => vm::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, command()),
        Command::Man(arguments) => manual::man(&arguments, command()),
    })
}

fn exit_code(answer: Answer) -> ExitCode {
    let status = exit_status(&answer);
    if let Err(message) = answer {
        let message = message.trim_end();
        // Findings begin with their own places.
        let prefix = if message.contains('\n') { "" } else { "candor: " };
        say!("{prefix}{}", color::finding_text(message, color::on_stderr()));
    }
    messages::finish(LAST_MESSAGES);
    ExitCode::from(status)
}

/// 0 for yes, 1 for no, 2 for an error.
const fn exit_status(answer: &Answer) -> u8 {
    match answer {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => 2,
    }
}
