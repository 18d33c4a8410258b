//! `candor ping` and `candor pong`: round trips over any port.
//!
//! `candor help json ping` describes what `--json` prints.

pub(crate) mod json;
mod master;
pub(crate) mod report;
mod slave;

use std::fmt;
use std::str::FromStr;

use candor_linux::realtime::{self, Policy, Task};
use candor_ping::Pair;
use candor_port::{Address, Port, Receiver, Status, Transmitter, Wanted};
use candor_rules::pattern;
use candor_time::Nanos;
use candor_wire::can::frame::EFF_MASK;
use candor_wire::can::{Bitrate, Timing};
use clap::Args;

pub(crate) use master::{PingArgs, run as ping};
pub(crate) use slave::{PongArgs, run as pong};

/// Which identifiers, on both sides.
#[derive(Args)]
struct PairArgs {
    /// The identifiers of requests and answers, as 0x77:0x78, with an x behind extended ones; may be repeated for several
    /// pings side by side, each with a period of its own: 0x77:0x78@10ms
    #[arg(long = "id", value_name = "REQUEST:ANSWER[@PERIOD]", default_value = "0x77:0x78")]
    ids: Vec<PairArg>,
    /// So many pings side by side: the identifiers of each further one are those of the one before plus 2
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pings: u32,
}

impl PairArgs {
    /// All pairs, with their periods.
    fn pairs(&self) -> Result<Vec<PairArg>, String> {
        if self.pings > 1 && self.ids.len() > 1 {
            return Err("--pings and several --id say the same; use one of them".into());
        }
        let mut pairs = Vec::new();
        for arg in &self.ids {
            for number in 0..self.pings {
                let pair = arg.pair.nth(number).ok_or_else(|| {
                    format!(
                        "--pings {}: there are not so many identifiers behind {arg}",
                        self.pings
                    )
                })?;
                pairs.push(PairArg { pair, ..*arg });
            }
        }
        Ok(pairs)
    }
}

/// A pair, and the period of its requests if it has one of its own.
#[derive(Clone, Copy, Debug)]
struct PairArg {
    pair: Pair,
    period: Option<Nanos>,
}

impl FromStr for PairArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ids, period) = match text.split_once('@') {
            Some((ids, period)) => (ids, Some(period.parse().map_err(|error| format!("{error}"))?)),
            None => (text, None),
        };
        let id = |text: &str| {
            pattern::identifier(text).map_err(|error| format!("{}; {}", error.message, error.hint))
        };
        let (request, answer) =
            ids.split_once(':').ok_or("write both identifiers, as 0x77:0x78")?;
        let pair = Pair::new(id(request)?, id(answer)?)
            .ok_or("request and answer need different identifiers, as 0x77:0x78")?;
        Ok(Self { pair, period })
    }
}

impl fmt::Display for PairArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}:0x{:X}", self.pair.request() & EFF_MASK, self.pair.answer() & EFF_MASK)
    }
}

/// How the program runs, on both sides.
#[derive(Args)]
pub(crate) struct RealTimeArgs {
    /// Real-time priority (SCHED_FIFO), 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    rt: Option<u8>,
    /// Lock all memory in RAM, so that nothing waits for the disk
    #[arg(long)]
    lock_memory: bool,
}

impl RealTimeArgs {
    /// Whether a priority was asked for.
    pub(crate) const fn is_real_time(&self) -> bool {
        self.rt.is_some()
    }

    /// Gives this thread its priority. What the kernel refuses is an error: the figures would be others'.
    pub(crate) fn apply(&self) -> Result<(), String> {
        // If the kernel refuses, requests are a little late, and the report says so.
        let _ = realtime::set_timer_slack(1);
        if let Some(priority) = self.rt {
            let set = realtime::set_policy(Task::This, Policy::Fifo(priority));
            set.map_err(|error| format!("--rt {priority}: {error}"))?;
        }
        if self.lock_memory {
            realtime::lock_memory().map_err(|error| format!("--lock-memory: {error}"))?;
        }
        Ok(())
    }
}

/// Both halves of a port.
struct PortHalves {
    receiver: Box<dyn Receiver>,
    transmitter: Box<dyn Transmitter>,
    /// The bit rates of its bus, if it knows them.
    timing: Option<Timing>,
}

fn open(address: &Address) -> Result<PortHalves, String> {
    let wanted = Wanted { stamps: false, ..Wanted::BOTH };
    let port = candor_drivers::open(address, wanted).map_err(|error| error.to_string())?;
    let Port { receiver, transmitter, control, .. } = port;
    let timing = control.and_then(|control| timing(&control.status().ok()?));
    match (receiver, transmitter) {
        (Some(receiver), Some(transmitter)) => Ok(PortHalves { receiver, transmitter, timing }),
        _ => Err(format!(
            "{address}: round trips need a port that receives and transmits; `candor bus list` shows the kinds of ports"
        )),
    }
}

/// The bit rates that a controller tells.
fn timing(status: &Status) -> Option<Timing> {
    let nominal = Bitrate::new(status.bitrate?)?;
    Some(Timing { nominal, data: status.data_bitrate.and_then(Bitrate::new).unwrap_or(nominal) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_what_is_wrong_is_named() {
        let pair: PairArg = "0x18FF0077x:0x78@10ms".parse().unwrap();
        assert_eq!((pair.pair.request(), pair.pair.answer()), (0x98FF_0077, 0x78));
        assert_eq!(pair.period, Some(Nanos::from_millis(10)));
        for (text, reason) in [
            ("0x77", "write both identifiers"),
            ("0x77:0x77", "need different identifiers"),
            ("0x77:0x800", "0x800"),
            ("0x77:0x78@5", "the unit of a duration"),
        ] {
            let error = text.parse::<PairArg>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let args = PairArgs { ids: vec!["0x7FC:0x7FD".parse().unwrap()], pings: 2 };
        assert_eq!(args.pairs().unwrap()[1].to_string(), "0x7FE:0x7FF");
        assert!(PairArgs { pings: 3, ..args }.pairs().is_err());
    }
}
