//! `candor`: arguments, rendering, exit codes. Everything else is in the crates below.
//!
//! Exit codes: 0 yes, 1 no (a check failed, a claim does not hold), 2 error. Data goes to standard
//! output, talk to standard error. A reader that goes away early is no error.

mod bus;
mod demo;
mod doctor;
mod frame;
mod lab;
mod log;
mod output;
mod overwrite;
mod progress;
mod route;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A CAN gateway and the laboratory that measures it.
///
/// Try `candor demo` first: it simulates the gateway of a small car and shows how long frames take.
#[derive(Parser)]
#[command(version, propagate_version = true, infer_subcommands = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate the gateway of a small car and report what it does to every frame
    Demo(demo::Demo),
    /// Show how many bits a frame has on the wire, and how long it takes
    Frame(frame::FrameArguments),
    /// Read and convert recordings
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Watch buses, send to them, and measure their load
    #[command(subcommand)]
    Bus(bus::BusCommand),
    /// Check, explain and convert the rules of a gateway
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Run experiments and report their latencies
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Get the Linux kernels for virtual machines
    #[command(subcommand)]
    Vm(vm::VmCommand),
    /// Tell what this machine can do: CAN, real time, rights, the laboratory
    Doctor(doctor::Doctor),
}

/// Whether the answer is yes; an error is one sentence, or findings with their places.
type Answer = Result<bool, String>;

fn main() -> ExitCode {
    let answer = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Frame(arguments) => frame::run(&arguments),
        Command::Log(command) => log::run(command),
        Command::Bus(command) => bus::run(command),
        Command::Route(command) => route::run(command),
        Command::Lab(command) => lab::run(&command),
        Command::Vm(command) => vm::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            let message = message.trim_end();
            // Findings begin with their own places.
            let prefix = if message.contains('\n') { "" } else { "candor: " };
            eprintln!("{prefix}{message}");
            ExitCode::from(2)
        }
    }
}
