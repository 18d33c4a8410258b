//! `candor ping`: sends requests, and measures until the answers come.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_bus::outlet::Stop;
use candor_bus::rates::{RatedPort, read_timing};
use candor_config::quoted;
use candor_diagnostics::counted;
use candor_lat::TapPath;
use candor_lat::result::ResultFile;
use candor_linux::clock;
use candor_output::say;
use candor_ping::{Counts, Master, Pace, Pair, Plan, Track, Trip, run, shortest};
use candor_port::Address;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Timing;
use candor_wire::can::frame::Frame;
use clap::Args;

use super::report::{self, Draw, Measured, Tick};
use super::{PairArgs, RealTimeArgs, open};
use crate::Answer;
use crate::bus::live::{catch_signals, hex_id, hex_word};
use crate::bus::out::Out;
use crate::csv::{Csv, cell};
use crate::duration;
use crate::overwrite::Overwriting;
use crate::result::{self, Aim, Saving};

/// Requests if neither a count nor a time is given.
const COUNT: u64 = 100;
/// How long late answers to the last requests are waited for.
const LINGER: Nanos = Nanos::from_secs(1);
/// The time between two requests.
const PERIOD: Nanos = Nanos::from_millis(10);

#[derive(Args)]
pub(crate) struct PingArgs {
    /// The port, with the bit rates of its bus if needed: can0, sim:desk, can0@500k,2M
    port: RatedPort,
    #[command(flatten)]
    pairs: PairArgs,
    /// Requests of each ping [default: 100, or no limit with --time]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s
    #[arg(long)]
    time: Option<Nanos>,
    /// The mean time between two requests of a ping; each is due at a random instant of its period. 0 sends the next request
    /// when the answer has come
    #[arg(long, value_name = "TIME", default_value_t = PERIOD, value_parser = duration::read)]
    period: Nanos,
    /// Send each request when it is due, also while others wait for their answers (open loop)
    #[arg(long)]
    paced: bool,
    /// The data length in bytes
    #[arg(short = 'l', long, value_name = "BYTES", default_value_t = 8)]
    length: usize,
    /// Send CAN FD frames with bit rate switch
    #[arg(long)]
    fd: bool,
    /// An answer that comes after this time is late; a request without any is lost. Late answers to the last requests are
    /// waited for 1 s more
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::read)]
    timeout: Nanos,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answer on this port, too: for a desk with two ports on one bus
    #[arg(long, value_name = "PORT")]
    pong: Option<RatedPort>,
    /// Compare with the shortest round trips that a bus of this bit rate allows: 1M, or 500k,2M for CAN FD [default: the bit
    /// rate of the port, if that is known]
    #[arg(long, value_name = "RATE", value_parser = read_rates)]
    against: Option<Timing>,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Write each round trip to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
    #[command(flatten)]
    saving: Saving,
    /// What is drawn at the end
    #[arg(long, value_enum, default_value_t = Draw::Profile)]
    draw: Draw,
    #[command(flatten)]
    real_time: RealTimeArgs,
    /// Print JSON Lines: objects of type "interval", then one of type "result" for each ping and one for all
    #[arg(long)]
    json: bool,
}

impl PingArgs {
    /// How many requests each ping sends.
    fn most(&self) -> Option<u64> {
        self.count.or(self.time.is_none().then_some(COUNT))
    }
}

fn read_rates(text: &str) -> Result<Timing, String> {
    read_timing(text).ok_or_else(|| "write a bit rate as 1M, or 500k,2M for CAN FD".into())
}

pub(crate) fn run(args: &PingArgs) -> Answer {
    let stop = catch_signals();
    let address = &args.port.port.address;
    let tracks = args
        .pairs
        .pairs()?
        .into_iter()
        .map(|arg| Track { pair: arg.pair, period: arg.period.unwrap_or(args.period) });
    let plan = Plan {
        tracks: tracks.collect(),
        length: args.length,
        is_fd: args.fd,
        pace: if args.paced { Pace::OpenLoop } else { Pace::OneAtATime },
        count: args.most(),
        timeout: args.timeout,
        linger: LINGER,
        seed: args.seed,
    };
    let pairs: Vec<_> = plan.tracks.iter().map(|track| track.pair).collect();
    // What is wrong with it is said before anything is opened.
    Master::new(plan.clone(), clock::now()).map_err(|error| error.to_string())?;
    let names = pairs.iter().map(|pair| hex_word(pair.request())).filter(|_| pairs.len() > 1);
    let names: Vec<_> = names.chain([String::new()]).collect();
    args.saving.prepare(args.overwriting, names.iter().map(String::as_str))?;
    let mut port = open(address)?;
    let known = || args.port.timing.or(port.timing).or_else(|| args.port.known_timing());
    let timing = args.against.or_else(known);
    if args.fd && timing.is_some_and(|timing| timing.data == timing.nominal) {
        say!(
            "the data bit rate is taken for the nominal one; write both if it is another, as --against 1M,2M"
        );
    }
    let head = "request_id,number,sent_ns,outcome,round_trip_ns,wire_ns";
    let csv = args.csv.as_deref().map(|path| Csv::create(path, args.overwriting, head));
    let mut follower = Follower {
        stop,
        end: args.time.map(|time| clock::now::<Monotonic>() + time),
        interval: args.interval.max(Nanos::from_millis(1)),
        start: clock::now(),
        last: Counts::default(),
        last_time: clock::now(),
        recent: Vec::new(),
        timing,
        pairs: pairs.clone(),
        measured: Measured::new(pairs.len()),
        out: Out::new(stop)?,
        csv: csv.transpose()?,
        error: None,
        interrupted_after: None,
        is_json: args.json,
        has_head: false,
    };
    if !args.json {
        follower.say_begin(address, &plan);
    }
    let partner = args
        .pong
        .as_ref()
        .map(|port| LocalSlave::start(&port.port.address, &pairs, &args.real_time))
        .transpose()?;
    args.real_time.apply()?;
    let mut master = Master::new(plan, clock::now()).map_err(|error| error.to_string())?;
    let ran = run::master(
        &mut master,
        &mut *port.receiver,
        &mut *port.transmitter,
        &clock::now,
        &mut follower,
    );
    if let Some(partner) = partner {
        partner.join()?;
    }
    follower.finish(&master, args)?;
    ran.map_err(|error| error.to_string())?;
    say_what_is_wrong(&master, args.pong.is_some());
    let counts = master.counts(None);
    Ok(counts.answered == counts.sent && counts.sent > 0)
}

/// What figures do not tell.
fn say_what_is_wrong(master: &Master, has_partner: bool) {
    let counts = master.counts(None);
    if counts.sent > 0 && counts.answered + counts.late == 0 && !has_partner {
        say!("nobody answered: start `candor pong` on the other side, with the same identifiers");
    }
    let reused = master.reused();
    if reused > 0 {
        say!(
            "with one byte of data there are 256 numbers, and {} had none before theirs was used again: late answers may \
             be counted as those to other requests; use --length 2",
            counted(reused, "request")
        );
    }
}

/// A slave of this process, on another port.
struct LocalSlave {
    is_over: std::sync::Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<run::Answered, String>>,
}

impl LocalSlave {
    fn start(address: &Address, pairs: &[Pair], real_time: &RealTimeArgs) -> Result<Self, String> {
        let mut port = open(address)?;
        let is_over = std::sync::Arc::new(AtomicBool::new(false));
        let (flag, pairs) = (std::sync::Arc::clone(&is_over), pairs.to_vec());
        let real_time = RealTimeArgs { lock_memory: false, ..*real_time };
        let work = move || {
            real_time.apply()?;
            let answered = run::slave(
                &pairs,
                &mut *port.receiver,
                &mut *port.transmitter,
                &clock::now,
                &mut |_| !flag.load(Ordering::Relaxed),
            );
            answered.map_err(|error| error.to_string())
        };
        let thread = std::thread::Builder::new().name("pong".into()).spawn(work);
        Ok(Self { is_over, thread: thread.map_err(|error| error.to_string())? })
    }

    fn join(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(answered) => answered.map(drop),
            // It has said so.
            Err(_) => Err("the thread that answers has failed".into()),
        }
    }
}

/// Prints what happens, and takes down what will be reported.
struct Follower {
    stop: &'static Stop,
    end: Option<Instant<Monotonic>>,
    interval: Nanos,
    start: Instant<Monotonic>,
    /// When the last line was printed, and what counted then.
    last_time: Instant<Monotonic>,
    last: Counts,
    /// Round trips since, in ns.
    recent: Vec<i64>,
    timing: Option<Timing>,
    pairs: Vec<Pair>,
    measured: Measured,
    out: Out,
    csv: Option<Csv>,
    error: Option<String>,
    /// When somebody ended it, since the start.
    interrupted_after: Option<Nanos>,
    is_json: bool,
    has_head: bool,
}

impl Follower {
    fn say_begin(&mut self, address: &Address, plan: &Plan) {
        let what = match &self.pairs[..] {
            [pair] => {
                format!("{:X} -> {:X}", pair.request() & 0x1FFF_FFFF, pair.answer() & 0x1FFF_FFFF)
            }
            pairs => format!("{} pings side by side", pairs.len()),
        };
        let pace = match plan.pace {
            Pace::OneAtATime => "one at a time",
            Pace::OpenLoop => "when due",
        };
        say!("ping {address}: {what}, {} bytes, {pace}", plan.length);
    }

    /// The shortest round trip that the bus allows for a request.
    fn wire(&self, track: usize, request: &Frame) -> Option<Nanos> {
        let answer = self.pairs.get(track)?.answer_to(request)?;
        shortest(request, &answer, self.timing?)
    }

    fn tick(&mut self, counts: Counts, now: Instant<Monotonic>) -> Result<bool, String> {
        let time = now.since(self.start);
        self.recent.sort_unstable();
        let tick = Tick { time, counts, last: self.last, round_trips_ns: &self.recent };
        let text = match self.is_json {
            true => crate::json::line(&tick)?,
            false => tick.line(!std::mem::replace(&mut self.has_head, true)),
        };
        self.out.write(&text)?;
        self.out.flush()?;
        self.recent.clear();
        (self.last, self.last_time) = (counts, now);
        Ok(self.out.is_open())
    }

    fn finish(mut self, master: &Master, args: &PingArgs) -> Result<(), String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if let Some(csv) = self.csv.take() {
            csv.finish()?;
        }
        // One ping is all of them.
        let places = (0..self.pairs.len()).map(Some).filter(|_| self.pairs.len() > 1);
        let result = |place: Option<usize>| {
            let result = report::result(master, place, &self.measured, self.empty(args, place));
            let pings = if place.is_some() { 1 } else { self.pairs.len() as u64 };
            let aim =
                Aim { count: args.most().map(|it| it.saturating_mul(pings)), time: args.time };
            let note = |after| aim.missed(result.counts.sent, "request", after);
            ResultFile {
                notes: self.interrupted_after.and_then(note).into_iter().collect(),
                ..result
            }
        };
        let results: Vec<_> = places.chain([None]).map(result).collect();
        let text = match self.is_json {
            true => result::json_lines(&results, &args.saving)?,
            false => result::text(&results) + &report::drawn(master, args.draw),
        };
        self.out.write(&text)?;
        self.out.flush()?;
        args.saving.save(args.overwriting, &results)
    }
}

impl Follower {
    /// The result of a ping, or of all, that says nothing yet of what happened.
    fn empty(&self, args: &PingArgs, place: Option<usize>) -> ResultFile {
        let pair = place.and_then(|place| self.pairs.get(place));
        let name = pair.map_or_else(String::new, |pair| hex_word(pair.request()));
        let port = args.port.port.address.to_string();
        let at = self.timing.map_or_else(String::new, |it| format!(" at {}bit/s", it.nominal));
        let pace = if args.paced { "when due" } else { "one at a time" };
        let conditions = format!("round trips over {port}{at}, {} bytes, {pace}", args.length);
        let settings = [
            ("kind", quoted("ping")),
            ("port", quoted(&port)),
            ("period", quoted(&args.period.to_string())),
            ("paced", args.paced.to_string()),
            ("length", args.length.to_string()),
            ("fd", args.fd.to_string()),
            ("timeout", quoted(&args.timeout.to_string())),
        ];
        ResultFile {
            seed: args.seed,
            duration_ns: clock::now().since(self.start).as_nanos(),
            ..args.saving.result(TapPath::ROUND_TRIP, &name, conditions, &settings)
        }
    }
}

impl run::Observer for Follower {
    fn trip(&mut self, trip: &Trip) {
        let wire = self.wire(trip.track, &trip.request);
        if let Some(round_trip) = trip.outcome.round_trip() {
            let round_trip_ns = i64::try_from(round_trip.as_nanos()).unwrap_or(i64::MAX);
            self.recent.push(round_trip_ns);
            if let Some(wire) = wire {
                self.measured.add(trip.track, round_trip, wire);
            }
        }
        let Some(csv) = &mut self.csv else { return };
        let written = csv.line(format_args!(
            "{},{},{},{},{},{}",
            hex_id(&trip.request),
            trip.number,
            trip.sent.since(self.start).as_nanos(),
            trip.outcome.name(),
            cell(trip.outcome.round_trip().map(Nanos::as_nanos)),
            cell(wire.map(Nanos::as_nanos)),
        ));
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    fn goes_on(&mut self, master: &Master, now: Instant<Monotonic>) -> bool {
        let mut is_read = true;
        if now.since(self.last_time) >= self.interval {
            match self.tick(master.counts(None), now) {
                Ok(is_open) => is_read = is_open,
                Err(error) => self.error = Some(error),
            }
        }
        if !is_read || self.stop.load(Ordering::Relaxed) {
            self.interrupted_after = Some(now.since(self.start));
        }
        self.error.is_none()
            && self.interrupted_after.is_none()
            && self.end.is_none_or(|end| now < end)
    }
}
