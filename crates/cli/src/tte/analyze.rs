//! `candor tte analyze`: latencies of the frames of a network.
//!
//! `candor help json tte analyze` describes what `--json` prints.

pub(crate) mod figures;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use candor_bus::outlet::Stop;
use candor_linux::clock;
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_output::say;
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_tte::Network;
use candor_tte::model::Framing;
use candor_tte_live::analyzer::{Arrival, Heard, listen};
use candor_tte_live::join::{Join, Key, Outcome};
use candor_wire::eth::Address;
use clap::Args;

use super::live::{self, Csv, Ending, Kind};
use crate::Answer;
use crate::bus::live::{Out, catch_signals};
use crate::output::thousands;
use crate::overwrite::Overwriting;
use figures::{Figures, Place, Totals};

/// How often it is looked whether to end.
const ATTENTION: Duration = Duration::from_millis(50);
/// How long a frame may be under way.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// How long frames that are under way at the end are waited for.
const LINGER: Nanos = Nanos::from_millis(500);

#[derive(Args)]
pub(crate) struct AnalyzeArgs {
    /// The network file
    file: PathBuf,
    /// The interface behind the network
    #[arg(long, value_name = "INTERFACE")]
    interface: String,
    /// The interface before the network, such as that of `candor tte generate`: latencies are from there, and not from the
    /// instants of the schedule
    #[arg(long, value_name = "INTERFACE")]
    from: Option<String>,
    /// Look at this flow only
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// The end system on whose link the interface is, if flows have several receivers
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Stop after so many frames, those that are lost included
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 10s
    #[arg(long)]
    time: Option<Nanos>,
    /// How long the first frame is waited for
    #[arg(long, value_name = "TIME", default_value = "1s")]
    wait: Nanos,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = live::read_interval)]
    interval: Nanos,
    /// Write each frame to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    overwriting: Overwriting,
    /// Print JSON Lines: objects of type "interval", then one of type "tte_measured" for each flow
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &AnalyzeArgs) -> Answer {
    let stop = catch_signals();
    let network = live::network(&args.file)?;
    let wanted = args.flow.as_deref().map(|name| flow(&network, args, name)).transpose()?;
    let receiver = match &args.node {
        Some(name) => Some(live::node(&network, &args.file, name, Kind::EndSystem)?),
        None => None,
    };
    let options = Options { has_transmit_stamps: false, ..Options::default() };
    // The one behind first: what the other sees has yet to come to it.
    let behind = live::open(&args.interface, options)?;
    let outgoing = Options { hears_outgoing: true, ..options };
    let before = args.from.as_deref().map(|name| live::open(name, outgoing)).transpose()?;
    let head = "flow,run,number,outcome,before_ns,behind_ns,latency_ns";
    let csv = args.csv.as_deref().map(|path| Csv::create(path, args.overwriting, head));
    let begin = clock::now();
    let mut analysis = Analysis {
        args,
        network: &network,
        wanted,
        receiver,
        own: before.as_ref().map(EthernetSocket::address),
        figures: BTreeMap::new(),
        join: Join::new(PATIENCE),
        looked: [Instant::default(); 2],
        begin,
        next: begin + args.interval,
        last: Totals::default(),
        recent: Vec::new(),
        closing: None,
        strangers: 0,
        unstamped: 0,
        seen: 0,
        csv: csv.transpose()?,
        out: Out::new(),
        has_head: false,
    };
    if !args.json {
        let from = args.from.as_deref().map_or("the schedule".to_owned(), |it| it.to_owned());
        say!("analyze {}: latencies from {from}; Ctrl-C ends it", args.interface);
    }
    let (unheard, ended) = hear(&mut analysis, before.as_ref(), &behind, stop)?;
    let answer = analysis.finish(unheard)?;
    ended?;
    Ok(answer)
}

/// Hands what both ports hear to the analysis until it is over: frames that found no room, and why a port ended.
fn hear(
    analysis: &mut Analysis<'_>,
    before: Option<&EthernetSocket>,
    behind: &EthernetSocket,
    stop: &Stop,
) -> Result<(u64, Result<(), String>), String> {
    let network = analysis.network;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = Ending(&over);
        let (tell, heard) = channel();
        let ports = [(Place::Before, before), (Place::Behind, Some(behind))];
        let ports = ports.into_iter().filter_map(|(place, socket)| Some((place, socket?)));
        let threads: Vec<_> = ports
            .map(|(place, socket)| {
                let (tell, over) = (tell.clone(), &over);
                scope.spawn(move || {
                    // If one port is gone, the other one has nothing to be joined with.
                    let _ending = Ending(over);
                    listen(socket, network, over, &mut |it| tell.send((place, it)).is_ok())
                })
            })
            .collect();
        drop(tell);
        loop {
            match heard.recv_timeout(ATTENTION) {
                Ok((place, heard)) => analysis.take(place, heard)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if analysis.tick(clock::now(), stop.load(Ordering::Relaxed))? {
                break;
            }
        }
        drop(heard);
        over.store(true, Ordering::Relaxed);
        let (mut unheard, mut ended) = (0, Ok(()));
        for thread in threads {
            match thread.join().map_err(|_| "a thread that receives has failed")? {
                Ok(frames) => unheard += u64::from(frames),
                Err(error) => ended = Err(error.to_string()),
            }
        }
        Ok((unheard, ended))
    })
}

/// The flow that is asked for.
fn flow(network: &Network, args: &AnalyzeArgs, name: &str) -> Result<usize, String> {
    network.flow(name).ok_or_else(|| {
        let names: Vec<_> = network.flows.iter().map(|it| format!("`{}`", it.name)).collect();
        let path = args.file.display();
        format!("{path}: there is no flow `{name}`; its flows are {}", names.join(", "))
    })
}

/// An analysis at work.
struct Analysis<'a> {
    args: &'a AnalyzeArgs,
    network: &'a Network,
    wanted: Option<usize>,
    receiver: Option<usize>,
    /// The address of the interface before the network.
    own: Option<Address>,
    /// By flow.
    figures: BTreeMap<usize, Figures>,
    join: Join,
    /// Up to when all was told that the ports had: before, behind.
    looked: [Instant<Realtime>; 2],
    begin: Instant<Monotonic>,
    next: Instant<Monotonic>,
    last: Totals,
    /// Latencies of the interval, in ns.
    recent: Vec<i64>,
    /// Since when only frames count that are under way.
    closing: Option<Instant<Monotonic>>,
    strangers: u64,
    unstamped: u64,
    /// Frames that the port before the network has seen.
    seen: u64,
    csv: Option<Csv>,
    out: Out,
    has_head: bool,
}

impl Analysis<'_> {
    const fn has_two_ports(&self) -> bool {
        self.own.is_some()
    }

    fn take(&mut self, place: Place, heard: Heard) -> Result<(), String> {
        match heard {
            Heard::Stranger => self.strangers += 1,
            Heard::Pcf => {}
            Heard::Looked(at) => {
                self.looked[place as usize] = at;
                let [before, behind] = self.looked;
                let mut outcomes = Vec::new();
                self.join.expire(before.min(behind), &mut |it| outcomes.push(it));
                for outcome in outcomes {
                    self.settle(outcome)?;
                }
            }
            Heard::Frame { flow, .. } if self.wanted.is_some_and(|wanted| wanted != flow) => {}
            Heard::Frame { flow, arrival, source } => {
                let key = Key::from(&arrival.measurement);
                if self.closing.is_some() && !self.join.is_known(&key) {
                    return Ok(());
                }
                match (place, self.has_two_ports()) {
                    (Place::Before, _) => self.came_before(flow, key, &arrival, source)?,
                    (Place::Behind, true) => self.came_behind(flow, key, &arrival)?,
                    (Place::Behind, false) => self.came(flow, key, &arrival)?,
                }
            }
        }
        Ok(())
    }

    fn came_before(
        &mut self,
        flow: usize,
        key: Key,
        arrival: &Arrival,
        source: Address,
    ) -> Result<(), String> {
        let Some(stamp) = arrival.stamp else {
            self.unstamped += 1;
            return Ok(());
        };
        if !self.join.was_before(&key) {
            self.seen += 1;
        }
        // The stamp of a frame that this machine sends is of its first bit, else of its last.
        let model_ns = self.model_ns(flow, Some(source) != self.own);
        self.figures(flow).set_model(model_ns);
        match self.join.before(key, stamp) {
            Some(outcome) => self.settle(outcome),
            None => Ok(()),
        }
    }

    fn came_behind(&mut self, flow: usize, key: Key, arrival: &Arrival) -> Result<(), String> {
        let is_again = self.figures(flow).came(key);
        let Some(stamp) = arrival.stamp else {
            self.unstamped += 1;
            return Ok(());
        };
        if is_again {
            return self.write(key, "duplicated", None, Some(stamp.as_nanos()));
        }
        match self.join.behind(key, stamp) {
            Some(outcome) => self.settle(outcome),
            None => Ok(()),
        }
    }

    /// With one port: the latency counts from the instant of the schedule.
    fn came(&mut self, flow: usize, key: Key, arrival: &Arrival) -> Result<(), String> {
        let is_again = self.figures(flow).came(key);
        let due_ns = arrival.measurement.scheduled_ns;
        let stamp_ns = arrival.stamp.map(Instant::as_nanos);
        if is_again {
            return self.write(key, "duplicated", Some(due_ns), stamp_ns);
        }
        match stamp_ns {
            Some(stamp_ns) => self.measured(key, due_ns, stamp_ns),
            None => {
                self.unstamped += 1;
                Ok(())
            }
        }
    }

    fn settle(&mut self, outcome: Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Arrived { key, before, behind } => {
                self.measured(key, before.as_nanos(), behind.as_nanos())
            }
            Outcome::Lost(key) => {
                self.figures(key.stream.into()).lost(key);
                self.write(key, "lost", None, None)
            }
            Outcome::Unmatched(key) => {
                self.figures(key.stream.into()).unmatched += 1;
                self.write(key, "unmatched", None, None)
            }
        }
    }

    fn measured(&mut self, key: Key, before_ns: u64, behind_ns: u64) -> Result<(), String> {
        let latency_ns = behind_ns.wrapping_sub(before_ns).cast_signed();
        self.figures(key.stream.into()).measured(key, before_ns, behind_ns);
        self.recent.push(latency_ns);
        self.write(key, "arrived", Some(before_ns), Some(behind_ns))
    }

    fn write(
        &mut self,
        key: Key,
        outcome: &str,
        before_ns: Option<u64>,
        behind_ns: Option<u64>,
    ) -> Result<(), String> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        let latency = before_ns.zip(behind_ns).map(|(a, b)| b.wrapping_sub(a).cast_signed());
        let latency = latency.filter(|_| outcome == "arrived");
        csv.line(format_args!(
            "{},{},{},{outcome},{},{},{}",
            self.network.flows[usize::from(key.stream)].name,
            key.run,
            key.sequence,
            live::cell(before_ns),
            live::cell(behind_ns),
            latency.map(|it| it.to_string()).unwrap_or_default(),
        ))
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for figures in self.figures.values() {
            totals += figures.totals(self.has_two_ports());
        }
        totals
    }

    /// Whether it is over.
    fn tick(&mut self, now: Instant<Monotonic>, is_stopped: bool) -> Result<bool, String> {
        let time = now.since(self.begin);
        if let Some(closing) = self.closing {
            return Ok(self.join.waiting() == 0 || now.since(closing) >= LINGER);
        }
        let has_any = self.seen > 0 || self.totals().received > 0;
        if !has_any && time >= self.args.wait {
            return Err(self.nothing_came());
        }
        if now >= self.next {
            self.next += self.args.interval;
            let totals = self.totals();
            self.recent.sort_unstable();
            let interval =
                figures::Interval { time, totals, last: self.last, latencies_ns: &self.recent };
            let text = match self.args.json {
                true => crate::json::line(&interval)?,
                false => interval.line(!std::mem::replace(&mut self.has_head, true)),
            };
            self.out.write(&text)?;
            self.out.flush()?;
            self.recent.clear();
            self.last = totals;
        }
        let count = self.args.count.filter(|count| {
            let seen = match self.has_two_ports() {
                true => self.seen,
                false => {
                    let totals = self.totals();
                    totals.received + totals.lost
                }
            };
            seen >= *count
        });
        let is_over = self.args.time.is_some_and(|limit| time >= limit);
        if count.is_some() || is_over || is_stopped || !self.out.is_open() {
            self.closing = Some(now);
        }
        Ok(self.closing.is_some() && self.join.waiting() == 0)
    }

    fn nothing_came(&self) -> String {
        let AnalyzeArgs { interface, wait, .. } = self.args;
        let which = match &self.args.flow {
            Some(name) => format!("of flow `{name}`"),
            None => format!("of {}", self.args.file.display()),
        };
        let others = match self.strangers {
            0 => String::new(),
            count => format!(" ({} of others)", thousands(count)),
        };
        format!(
            "{interface}: no frame {which} within {wait}{others}; start `candor tte generate` with the same file, look whether \
             the switch relays, or wait longer with --wait"
        )
    }

    fn finish(mut self, unheard: u64) -> Answer {
        let mut outcomes = Vec::new();
        self.join.finish(&mut |it| outcomes.push(it));
        for outcome in outcomes {
            self.settle(outcome)?;
        }
        if let Some(csv) = self.csv.take() {
            csv.finish()?;
        }
        let is_two_ports = self.has_two_ports();
        let known = self.figures.iter().filter(|(_, it)| it.is_any(is_two_ports));
        let name = |flow: usize| self.network.flows[flow].name.as_str();
        let rows: Vec<_> =
            known.map(|(&flow, it)| figures::Row::new(name(flow), it, is_two_ports)).collect();
        let (interface, from) = (self.args.interface.as_str(), self.args.from.as_deref());
        let text = match self.args.json {
            true => figures::json(&rows, interface, from)?,
            false => figures::text(&rows),
        };
        self.out.write(&text)?;
        self.out.flush()?;
        for (count, what) in [
            (self.strangers, "frames of other programs or protocols"),
            (self.unstamped, "frames without a stamp of the kernel; their latency is not known"),
            (
                unheard,
                "frames found no room in a socket, and count as lost; use a longer cycle, or shorter frames",
            ),
        ] {
            if count > 0 {
                say!("{}: {what}", thousands(count));
            }
        }
        let totals = self.totals();
        Ok(totals.lost == 0 && totals.received > 0)
    }

    /// What is known of a flow.
    fn figures(&mut self, flow: usize) -> &mut Figures {
        let model_ns = self.model_ns(flow, false);
        self.figures.entry(flow).or_insert_with(|| {
            let period = self.network.flows[flow].period();
            let mut figures = Figures::new(period.map(|it| it.as_nanos().cast_signed()));
            figures.set_model(model_ns);
            figures
        })
    }

    /// The latency that follows from the schedule, from the first bit of the frame or from its last one on the first link.
    fn model_ns(&self, index: usize, begins_with_last_bit: bool) -> Option<i64> {
        let flow = &self.network.flows[index];
        let receiver = match (self.receiver, &flow.to[..]) {
            (Some(receiver), _) => receiver,
            (None, [only]) => *only,
            _ => return None,
        };
        let latency = flow
            .is_time_triggered()
            .then(|| self.network.latency(index, receiver, Framing::Frame))??;
        let first = flow.first_hops().next().map(|hop| &self.network.links[flow.hops[hop].link]);
        let before = match (begins_with_last_bit, first) {
            (true, Some(link)) => link.transmission(flow.size) + link.delay,
            _ => Nanos::ZERO,
        };
        Some(latency.total().as_nanos().cast_signed() - before.as_nanos().cast_signed())
    }
}
