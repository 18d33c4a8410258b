//! `candor bus generate`: frames out of a seed.

use candor_bus::generate::{Data, Generator, Ids, Lengths, Pace, Rate, Settings};
use candor_bus::outlet::{Outcome, RealTime, Refusal};
use candor_bus::rates::RatedPort;
use candor_bus::schedule::Schedule;
use candor_output::say;
use candor_time::Nanos;
use clap::Args;

use super::live;
use super::sending::{self, SendingArgs};
use crate::Answer;

#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// The port, with bit rates if needed: can0, can0@500k, can0@500k,2M
    port: RatedPort,
    /// Stop after this many frames [default: 1000, or no limit with --time]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s
    #[arg(long)]
    time: Option<Nanos>,
    /// The frame rate, such as 1000/s or 10/100ms [default: 100/s]
    #[arg(long, conflicts_with_all = ["load", "flood"])]
    rate: Option<Rate>,
    /// The bus load to reach, such as 50%, from the exact length of each frame at the port's bit
    /// rate
    #[arg(long, value_name = "PERCENT", value_parser = read_percent, conflicts_with = "flood")]
    load: Option<f64>,
    /// Send as fast as the port accepts frames
    #[arg(long)]
    flood: bool,
    /// Identifiers: 0x123, 0x18FEF100x (extended), 0x100-0x1FF (in turn), random, or
    /// 'random extended'
    #[arg(short = 'i', long, default_value = "random")]
    id: Ids,
    /// Data length in bytes: 8, or 0-8 at random
    #[arg(short = 'l', long, value_name = "BYTES", default_value = "8")]
    length: Lengths,
    /// Data: random, increment (the number of the frame, low byte first), or bytes in hex
    #[arg(short = 'd', long, default_value = "random")]
    data: Data,
    /// Send CAN FD frames with bit rate switch
    #[arg(long)]
    fd: bool,
    /// The seed of the random numbers: the same seed gives the same frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sending: SendingArgs,
}

/// Frames if neither a count nor a time is given.
const COUNT: u64 = 1_000;
const RATE: Rate = Rate { frames: 100, time: Nanos::from_secs(1) };

/// A share of 1 from `50%` or `50`.
fn read_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("the load must be more than 0% and at most 100%, such as 50%".into()),
    }
}

pub(super) fn run(args: &GenerateArgs) -> Answer {
    let stop = live::catch_signals();
    let address = &args.port.port.address;
    let pace = match args.load {
        Some(share) => {
            let Some(timing) = args.port.known_timing() else {
                return Err(format!(
                    "{address}: a load needs the bit rate of the bus; write {address}@500k"
                ));
            };
            Pace::Load { share, timing }
        }
        None if args.flood => Pace::Flood,
        None => Pace::Rate(args.rate.unwrap_or(RATE)),
    };
    let settings = Settings {
        ids: args.id,
        lengths: args.length,
        data: args.data.clone(),
        is_fd: args.fd,
        pace,
        seed: args.seed,
    };
    let generator = Generator::new(settings)?;
    let count = args.count.or(args.time.is_none().then_some(COUNT)).unwrap_or(u64::MAX);
    let end = args.time.unwrap_or(Nanos::MAX);
    // What was planned for the time is sent, unless the bus is too slow for it.
    let latest = if args.flood { end } else { end + args.sending.wait };
    sending::be_punctual();
    let mut outlets = args.sending.open([address])?;
    let mut time = RealTime;
    let mut schedule = Schedule::start(&mut time);
    for ((due, frame), number) in generator.zip(0..count) {
        if due >= end || schedule.passed(&mut time) >= latest {
            break;
        }
        match schedule.send(&mut outlets, 0, &frame, due, &mut time, stop) {
            Outcome::Stopped => break,
            Outcome::Refused(Refusal::Failed) => {
                if args.time.is_none() {
                    outlets.iter_mut().for_each(|outlet| outlet.give_up(count - number - 1));
                }
                break;
            }
            Outcome::Refused(_) if is_hopeless(&outlets) => break,
            Outcome::Taken(_) | Outcome::Refused(_) => {}
        }
    }
    let punctuality = Some(schedule.punctuality());
    let is_complete = args.sending.report(outlets, punctuality, args.flood, stop)?;
    say!("seed {}", args.seed);
    Ok(is_complete)
}

/// Whether nothing was sent and several frames were refused: the rest would fare the same.
fn is_hopeless(outlets: &[candor_bus::outlet::Outlet]) -> bool {
    const ATTEMPTS: u64 = 3;
    outlets.iter().all(|outlet| {
        let delivery = outlet.delivery();
        delivery.taken == 0 && delivery.refused() >= ATTEMPTS
    })
}
