//! `candor bus send`: frames by hand.

use std::path::PathBuf;

use candor_bus::outlet::{Outcome, Outlet, RealTime, Refusal};
use candor_bus::schedule::Schedule;
use candor_bus::words;
use candor_output::say;
use candor_port::Address;
use candor_time::Nanos;
use candor_wire::can::{Frame, Kind};
use clap::Args;

use super::live;
use super::sending::{self, SendingArgs};
use crate::Answer;
use crate::output::duration;

#[derive(Args)]
pub(crate) struct SendArgs {
    /// The port, such as can0
    port: Address,
    /// Frames such as 123#DEADBEEF, 12345678# (extended), 123#R2 (remote), 123##1AABB (CAN FD);
    /// with --dbc also messages with their signals: EngineData EngineSpeed=1200 Gear=first
    #[arg(required = true, value_name = "FRAME")]
    frames: Vec<String>,
    /// A DBC file, for messages and signals by name; signals that are not given become 0
    #[arg(long, value_name = "FILE")]
    dbc: Option<PathBuf>,
    /// The time between two frames, such as 10ms
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    gap: Nanos,
    /// Send all frames this many times
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    #[command(flatten)]
    sending: SendingArgs,
}

/// A wait that is worth a line.
const NOTEWORTHY: Nanos = Nanos::from_millis(1);

pub(super) fn run(args: &SendArgs) -> Answer {
    let stop = live::catch_signals();
    sending::be_punctual();
    let database = args.dbc.as_deref().map(live::database).transpose()?;
    let frames = words::frames(args.frames.iter().map(String::as_str), database.as_ref())?;
    let mut outlets = args.sending.open([&args.port])?;
    let mut time = RealTime;
    let mut schedule = Schedule::start(&mut time);
    let all = (0..args.count).flat_map(|_| &frames);
    let count = args.count.saturating_mul(frames.len() as u64);
    for (number, frame) in (0_u64..).zip(all) {
        match schedule.send(&mut outlets, 0, frame, args.gap * number, &mut time, stop) {
            Outcome::Taken(waited) if waited >= NOTEWORTHY => {
                let waited = duration(waited.as_nanos() as f64);
                say!("{}: {frame} waited {waited} for room", args.port);
            }
            Outcome::Taken(_) => {}
            Outcome::Refused(Refusal::Failed) => {
                outlets.iter_mut().for_each(|outlet| outlet.give_up(count - number - 1));
                break;
            }
            Outcome::Refused(refusal) => {
                let trouble = outlets.iter().find_map(Outlet::trouble);
                let trouble = trouble.filter(|_| refusal == Refusal::Down);
                let why =
                    trouble.unwrap_or_else(|| format!("{refusal}; {}", remedy(refusal, frame)));
                say!("{}: {frame} was not sent: {why}", args.port);
            }
            Outcome::Stopped => break,
        }
    }
    let punctuality = schedule.punctuality();
    let has_gaps = args.gap > Nanos::ZERO;
    args.sending.report(outlets, Some(punctuality).filter(|_| has_gaps), false, stop)
}

const fn remedy(refusal: Refusal, frame: &Frame) -> &'static str {
    match (refusal, frame.kind()) {
        (Refusal::Unsupported, Kind::Error) => "error reports come from drivers and cannot be sent",
        (Refusal::Unsupported, Kind::Fd) => {
            "an interface needs an MTU of 72 for CAN FD: see `candor bus list`"
        }
        (Refusal::Unsupported, _) => "see `candor bus list` for other kinds of ports",
        (Refusal::Full, _) => "the bus is busy or nobody acknowledges; wait longer with --wait",
        (Refusal::Down | Refusal::Failed, _) => {
            "switch it on: sudo ip link set INTERFACE up; or wait longer with --wait"
        }
    }
}
