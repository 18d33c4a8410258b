//! `candor tte generate`: the frames of an end system, in schedule.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use candor_diagnostics::counted;
use candor_linux::ethernet::Options;
use candor_linux::{clock, realtime};
use candor_output::{messages, say};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_tte::Network;
use candor_tte_live::Epoch;
use candor_tte_live::generator::{Advance, Cycles, Generated, Generator, News};
use candor_tte_live::synchronisation::{Change, Heard, Synchronisation};
use clap::Args;

use super::live::{self, Checking, Kind, Spinning, StopOnDrop};
use crate::Answer;
use crate::bus::live::catch_signals;
use crate::csv::{Csv, cell};
use crate::output::{duration, thousands};
use crate::overwrite::Overwriting;
use crate::ping::RealTimeArgs;

/// How often it is looked whether to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Args)]
pub(crate) struct GenerateArgs {
    /// The network file
    file: PathBuf,
    /// The end system whose flows are sent
    #[arg(long, value_name = "NAME")]
    node: String,
    /// The interface of this machine that is on its link
    #[arg(long, value_name = "INTERFACE")]
    interface: String,
    /// Frames of each time-triggered flow, or of each flow if none is [default: no limit]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s
    #[arg(long)]
    time: Option<Nanos>,
    /// Let cycles begin by the clock of this machine: at whole multiples of the cycle since 1970. No switch is needed
    #[arg(long)]
    free_running: bool,
    /// Send frames also while not synchronised; they are marked in the file
    #[arg(long, conflicts_with = "free_running")]
    send_unsynchronised: bool,
    /// The virtual link of the protocol control frames
    #[arg(long, value_name = "ID", default_value = "0xFFFF", value_parser = live::read_id)]
    pcf_id: u16,
    /// How long the first protocol control frame is waited for
    #[arg(long, value_name = "TIME", default_value = "1s")]
    wait: Nanos,
    /// How long a frame takes from the program to the interface: it is handed over that much earlier [default: found
    /// out from the frames that were sent]
    #[arg(long, value_name = "TIME", value_parser = live::read_advance)]
    advance: Option<Nanos>,
    /// The seed of the instants of best-effort frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = live::read_interval)]
    interval: Nanos,
    /// Write each frame to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
    #[command(flatten)]
    checking: Checking,
    #[command(flatten)]
    real_time: RealTimeArgs,
}

/// The flows of which so many frames are to be sent: those that are time-triggered, or all if none is.
fn counted_flows(network: &Network, node: usize) -> Vec<usize> {
    let flows = || (0..network.flows.len()).filter(|&flow| network.flows[flow].from == node);
    let scheduled: Vec<_> = flows().filter(|&it| network.flows[it].is_time_triggered()).collect();
    if scheduled.is_empty() { flows().collect() } else { scheduled }
}

pub(super) fn run(args: &GenerateArgs) -> Answer {
    let stop = catch_signals();
    let network = args.checking.network(&args.file)?;
    let node = live::node(&network, &args.file, &args.node, Kind::EndSystem)?;
    if !network.flows.iter().any(|flow| flow.from == node) {
        return Err(format!(
            "{}: no flow begins at `{}`; choose an end system from which a flow goes",
            args.file.display(),
            args.node
        ));
    }
    if !args.free_running {
        live::check_pcf_id(&network, &args.file, args.pcf_id)?;
    }
    let socket = live::open(&args.interface, Options::default())?;
    let head = "flow,number,due_ns,stamp_ns,marked,synchronised";
    let csv = args.csv.as_deref().map(|path| Csv::create(path, args.overwriting, head));
    let csv = csv.transpose()?;
    let generator = Generator {
        network: &network,
        nodes: vec![(node, &socket)],
        cycles: match args.free_running {
            true => Cycles::From(Epoch::of_the_clock(clock::now::<Realtime>(), network.cycle)),
            false => {
                Cycles::Pcfs { id: args.pcf_id, sends_unsynchronised: args.send_unsynchronised }
            }
        },
        run: (clock::now::<Realtime>().as_nanos() >> 10) as u32,
        seed: args.seed,
        advance: args.advance.map_or_else(Advance::default, Advance::Fixed),
        warmer: None,
        count: args.count.map(|count| (counted_flows(&network, node), count)),
        most_late: Some(network.cycle),
    };
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let whose = if args.free_running { "of this machine" } else { "of a switch" };
    say!(
        "generate as `{}` on {}: cycles of {}, {whose}; Ctrl-C ends it",
        args.node,
        args.interface,
        network.cycle
    );
    let over = AtomicBool::new(false);
    let thread = AtomicU32::new(0);
    let mut spinning = Spinning::new(&thread, args.real_time.is_real_time());
    let mut follower = Follower { csv, ..Follower::new(args, &network) };
    let (generated, ended) = thread::scope(|scope| {
        let _ending = StopOnDrop(&over);
        let (tell, news) = channel();
        let (over, thread) = (&over, &thread);
        let work = scope.spawn(move || {
            args.real_time.apply()?;
            thread.store(realtime::this_thread(), Ordering::Relaxed);
            let tell = &mut |it| {
                let _ = tell.send(it);
            };
            Ok::<_, String>(generator.run(over, tell))
        });
        loop {
            match news.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(news) => follower.take(news)?,
                Err(RecvTimeoutError::Timeout) => {}
                // It has ended, and everything was told.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            spinning.look(clock::now());
            let is_over = follower.tick(clock::now())?;
            if is_over || stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
        }
        work.join().map_err(|_| "the thread that sends has failed".to_owned())?
    })?;
    let answer = follower.finish(&generated)?;
    ended.map_err(|error| error.to_string())?;
    Ok(answer)
}

/// What was sent.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    marked: u64,
    unsynchronised: u64,
    withheld: u64,
    missed: u64,
    refused: u64,
    pcfs: u64,
    bad_pcfs: u64,
}

/// Says what happens.
struct Follower<'a> {
    args: &'a GenerateArgs,
    network: &'a Network,
    csv: Option<Csv>,
    begin: Instant<Monotonic>,
    next: Instant<Monotonic>,
    counts: Counts,
    last: Counts,
    precision: Nanos,
    /// Whether it has been synchronised.
    was_synchronised: bool,
}

impl<'a> Follower<'a> {
    fn new(args: &'a GenerateArgs, network: &'a Network) -> Self {
        let begin = clock::now();
        Self {
            args,
            network,
            csv: None,
            begin,
            next: begin + args.interval,
            counts: Counts::default(),
            last: Counts::default(),
            precision: Nanos::ZERO,
            was_synchronised: false,
        }
    }

    fn take(&mut self, news: News) -> Result<(), String> {
        let counts = &mut self.counts;
        match news {
            News::Sent { departure, is_marked, is_synchronised } => {
                counts.sent += u64::from(departure.is_taken);
                counts.refused += u64::from(!departure.is_taken);
                counts.marked += u64::from(is_marked);
                counts.unsynchronised += u64::from(!is_synchronised);
                if let Some(csv) = &mut self.csv {
                    csv.line(format_args!(
                        "{},{},{},{},{},{}",
                        self.network.flows[departure.flow].name,
                        departure.number,
                        departure.due.as_nanos(),
                        cell(departure.stamp.map(Instant::as_nanos)),
                        u8::from(is_marked),
                        u8::from(is_synchronised),
                    ))?;
                }
            }
            // Before it is synchronised nobody expects frames.
            News::Withheld(_) => counts.withheld += u64::from(self.was_synchronised),
            News::Missed(_) => counts.missed += 1,
            News::Heard(Heard::Accepted, precision) => {
                counts.pcfs += 1;
                self.precision = precision;
            }
            News::Heard(..) => counts.bad_pcfs += 1,
            News::Changed(Change::Synchronised) => {
                self.was_synchronised = true;
                let precision = duration(self.precision.as_nanos() as f64);
                say!(
                    "{}: synchronised; the last frames agree within {precision}",
                    self.args.interface
                );
            }
            News::Changed(Change::Lost) => {
                let what = match self.args.send_unsynchronised {
                    true => "frames are sent by the clock of this machine",
                    false => "frames are withheld",
                };
                say!(
                    "{}: no protocol control frame for 3 cycles, no longer synchronised; {what}",
                    self.args.interface
                );
            }
        }
        Ok(())
    }

    /// Whether it is over.
    fn tick(&mut self, now: Instant<Monotonic>) -> Result<bool, String> {
        let waits = !self.args.free_running && self.counts.pcfs == 0;
        if waits && now.since(self.begin) >= self.args.wait {
            let refused = match self.counts.bad_pcfs {
                0 => String::new(),
                count => format!(" ({} refused)", counted(count as usize, "frame")),
            };
            return Err(format!(
                "{}: no protocol control frame of virtual link {:#06X} within {}{refused}; start `candor tte switch` on the \
                 other side, name its --pcf-id, wait longer with --wait, or use --free-running",
                self.args.interface, self.args.pcf_id, self.args.wait
            )
            .replace("0X", "0x"));
        }
        if now >= self.next {
            self.next += self.args.interval;
            let Counts { sent, marked, withheld, pcfs, bad_pcfs, .. } = self.counts;
            let last = self.last;
            let mut line = format!(
                "{:.0} s: sent {}, marked {}",
                now.since(self.begin).as_secs_f64(),
                thousands(sent - last.sent),
                thousands(marked - last.marked),
            );
            if !self.args.free_running {
                line += &format!(
                    ", withheld {}, PCFs {}, refused {}, precision {}",
                    thousands(withheld - last.withheld),
                    thousands(pcfs - last.pcfs),
                    thousands(bad_pcfs - last.bad_pcfs),
                    duration(self.precision.as_nanos() as f64),
                );
            }
            say!("{line}");
            self.last = self.counts;
        }
        Ok(self.args.time.is_some_and(|time| now.since(self.begin) >= time))
    }

    fn finish(mut self, generated: &Generated) -> Answer {
        if let Some(csv) = self.csv.take() {
            csv.finish()?;
        }
        let Counts { sent, marked, unsynchronised, withheld, missed, refused, .. } = self.counts;
        say!(
            "{}: {} sent, {} marked: the thread was stopped {}, for {} at most",
            self.args.interface,
            counted(sent as usize, "frame"),
            thousands(marked),
            counted(generated.stops.count() as usize, "time"),
            duration(generated.stops.longest().as_nanos() as f64),
        );
        if let Some(synchronisation) = &generated.synchronisation {
            self.say_pcfs(synchronisation);
        }
        live::say_counts(&[
            (unsynchronised, "frames were sent while not synchronised"),
            (withheld, "frames were withheld, since it was not synchronised any more"),
            (missed, "frames were not sent: the thread was stopped for more than a cycle"),
            (refused, "frames were not sent: the interface had no room, or its cable is unplugged"),
        ]);
        Ok(sent > 0 && unsynchronised + withheld + missed + refused == 0)
    }

    fn say_pcfs(&self, synchronisation: &Synchronisation) {
        let accepted = counted(synchronisation.accepted() as usize, "protocol control frame");
        let precision = duration(self.precision.as_nanos() as f64);
        say!("{accepted}, the last ones agree within {precision}");
        for (refusal, count) in synchronisation.refused() {
            say!("refused {}: {refusal}", thousands(*count));
        }
    }
}
