//! `candor bus replay`: a recording onto buses.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use candor_bus::outlet::{Outcome, Outlet, RealTime, Stop};
use candor_bus::schedule::Schedule;
use candor_diagnostics::counted;
use candor_output::say;
use candor_port::Address;
use candor_recording::{InterfaceIndex, Record, Recording};
use candor_time::Nanos;
use candor_wire::can::Kind;
use clap::Args;

use super::live;
use super::sending::{self, SendingArgs};
use crate::Answer;
use crate::output::distinct;
use crate::reading::{ReadingArgs, has_interface, is_confirmed};
use candor_bus::select::Selection;

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// The recording, or - for standard input
    file: PathBuf,
    /// The port to send to, unless --map names another one
    #[arg(required_unless_present = "map")]
    port: Option<Address>,
    /// Send the frames of this recorded interface to that port; without PORT, the frames of all
    /// other interfaces are skipped (may be repeated)
    #[arg(long, value_name = "INTERFACE=PORT", value_parser = read_map)]
    map: Vec<InterfaceMapping>,
    /// The speed: 1 as recorded, 2 twice as fast, max as fast as the port accepts frames
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Replay it this many times
    #[arg(long = "loop", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// Send only these identifiers, as for `candor bus dump` (may be repeated)
    #[arg(short = 'i', long = "id", value_name = "PATTERN")]
    ids: Vec<String>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    sending: SendingArgs,
}

/// Where frames of an interface go.
#[derive(Clone, Debug)]
struct InterfaceMapping {
    interface: String,
    port: Address,
}

fn read_map(text: &str) -> Result<InterfaceMapping, String> {
    let (interface, port) = text
        .split_once('=')
        .filter(|(interface, _)| !interface.is_empty())
        .ok_or("write the interface of the recording and the port: can0=vcan0")?;
    let port = port.parse::<Address>().map_err(|error| error.to_string())?;
    Ok(InterfaceMapping { interface: interface.into(), port })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    Times(f64),
    Max,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.strip_suffix('x').unwrap_or(text).parse::<f64>() {
            Ok(times) if (1e-6..=1e6).contains(&times) => Ok(Self::Times(times)),
            _ => Err("the speed must be 0.000001 to 1000000, or max".into()),
        }
    }
}

impl Speed {
    /// When a frame is due that was recorded so long after the first one.
    fn due(self, since_first: Nanos) -> Nanos {
        match self {
            Self::Max => Nanos::ZERO,
            // Exact, also for years.
            Self::Times(1.0) => since_first,
            Self::Times(times) => Nanos::from_nanos((since_first.as_nanos() as f64 / times) as u64),
        }
    }
}

pub(super) fn run(args: &ReplayArgs) -> Answer {
    let stop = live::catch_signals();
    sending::be_punctual();
    let ids = args.ids.iter().map(String::as_str);
    let selection = Selection::parse(ids).map_err(|error| error.to_string())?;
    let is_input = args.file.as_os_str() == "-";
    if is_input && args.times > 1 {
        return Err("standard input can be read only once; record it into a file first".into());
    }
    let mapped = args.map.iter().map(|mapping| &mapping.port);
    let addresses = distinct(args.port.iter().chain(mapped));
    let Some(mut first) = args.reading.open_until(&args.file, stop)? else {
        return args.sending.report_none(addresses);
    };
    let mut outlets = args.sending.open(addresses.iter().copied())?;
    let mut replay = Replay {
        args,
        addresses,
        selection,
        schedule: Schedule::start(&mut RealTime),
        begin: Nanos::ZERO,
        routes: Vec::new(),
        left_out: 0,
        error_reports: 0,
        has_failed: false,
        has_records: false,
    };
    let mut result = Ok(());
    for pass in 0..args.times {
        if pass > 0 {
            let Some(again) = args.reading.open_until(&args.file, stop)? else { break };
            first = again;
        }
        result = replay.pass(&mut first, &mut outlets, stop);
        if result.is_err() || stop.load(Ordering::Relaxed) || replay.has_failed {
            break;
        }
    }
    let punctuality = Some(replay.schedule.punctuality());
    let is_flood = args.speed == Speed::Max;
    let is_complete = args.sending.report(outlets, punctuality, is_flood, stop)?;
    let is_read = !stop.load(Ordering::Relaxed) && !replay.has_failed;
    replay.tell(&first, is_read);
    result?;
    let names = distinct(args.map.iter().map(|mapping| &mapping.interface));
    let missing = names.iter().filter(|name| is_read && !has_interface(name, &first)).count();
    Ok(is_complete && missing == 0 && is_confirmed(&first))
}

/// What to do about a recording without CAN frames.
fn no_can_hint(recording: &Recording) -> String {
    match recording.passed_over().ethernet_frames {
        0 => String::new(),
        count => format!(
            ", but {}: name the UDP port with --can-udp if they contain CAN frames",
            counted(count, "Ethernet frame")
        ),
    }
}

struct Replay<'a> {
    args: &'a ReplayArgs,
    addresses: Vec<&'a Address>,
    selection: Selection,
    schedule: Schedule,
    /// When the present pass begins.
    begin: Nanos,
    /// Which port the frames of each interface go to.
    routes: Vec<Option<usize>>,
    left_out: u64,
    error_reports: u64,
    /// Whether no port takes frames any more.
    has_failed: bool,
    /// Whether the recording has anything at all.
    has_records: bool,
}

impl Replay<'_> {
    /// Tells what was not sent of the recording, which was read to its end or not.
    fn tell(&self, recording: &Recording, is_read: bool) {
        let file = self.args.file.display();
        for (count, what, why) in [
            (self.left_out, "record", "skipped because of --id, or because no port takes them"),
            (self.error_reports, "error report", "skipped: they cannot be sent"),
            (recording.skipped().count, "malformed record", "skipped"),
        ] {
            if count > 0 {
                say!("{file}: {} {why}", counted(count, what));
            }
        }
        if self.has_failed {
            say!("{file}: was not read any further, since no port takes frames now");
        }
        if !self.has_records && is_read {
            say!("{file}: the recording has no CAN frames{}", no_can_hint(recording));
        }
        if let Some(cut) = recording.cut() {
            say!("{cut}; what comes before it was replayed");
        }
        if let Some(end) = &recording.skipped().end {
            say!("{end}; what comes before it was replayed, and nothing behind it");
        }
    }

    fn pass(
        &mut self,
        recording: &mut Recording,
        outlets: &mut [Outlet],
        stop: &Stop,
    ) -> Result<(), String> {
        self.routes.clear();
        let mut first = None;
        let mut last = self.begin;
        while let Some(record) = recording.next() {
            let record = match record {
                Ok(record) => record,
                // Only who wants to stop makes it one.
                Err(error) if error.is_pause() => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            self.has_records = true;
            let since_first = record.time_ns.saturating_sub(*first.get_or_insert(record.time_ns));
            let due = self.begin + self.args.speed.due(Nanos::from_nanos(since_first));
            // A record that is earlier than the one before goes with it.
            last = last.max(due);
            let Some(which) = self.route(recording, &record) else { continue };
            let outcome =
                self.schedule.send(outlets, which, &record.frame, last, &mut RealTime, stop);
            self.has_failed = outlets.iter_mut().all(Outlet::has_failed);
            if outcome == Outcome::Stopped || self.has_failed {
                return Ok(());
            }
        }
        self.begin = last;
        Ok(())
    }

    /// The port that a record goes to, if it is sent at all.
    fn route(&mut self, recording: &Recording, record: &Record) -> Option<usize> {
        if record.frame.kind() == Kind::Error {
            self.error_reports += 1;
            return None;
        }
        let which = self.port_of(recording, record.interface);
        let which = which.filter(|_| self.selection.takes(&record.frame));
        self.left_out += u64::from(which.is_none());
        which
    }

    fn port_of(&mut self, recording: &Recording, interface: InterfaceIndex) -> Option<usize> {
        let index = usize::from(interface.0);
        while self.routes.len() <= index {
            let interface = InterfaceIndex(u16::try_from(self.routes.len()).ok()?);
            let name = recording.interfaces().name(interface);
            let mapped = self.args.map.iter().find(|mapping| mapping.interface == name);
            let port = mapped.map(|mapping| &mapping.port).or(self.args.port.as_ref());
            let which =
                port.and_then(|port| self.addresses.iter().position(|&address| address == port));
            self.routes.push(which);
        }
        self.routes[index]
    }
}
