//! `candor bus load`: how busy buses are.
//!
//! `candor help json bus load` describes what `--json` prints.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use candor_bus::capture::Captured;
use candor_bus::load::{Meter, Stretch};
use candor_bus::named::{self, NamedPort};
use candor_bus::rates::RatedPort;
use candor_diagnostics::counted;
use candor_linux::clock;
use candor_output::{messages, say};
use candor_port::Address;
use candor_port::Medium;
use candor_time::{Instant, Nanos, Realtime};
use candor_wire::can::Timing;
use clap::Args;

use super::live::{self, End, Follower, hex_word};
use super::out::Out;
use crate::Answer;
use crate::json;
use crate::output::{Table, duration, thousands};

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// The ports with the bit rates of their buses: can0@500k, can1@500k,2M; not needed for a CAN
    /// controller, which knows them
    #[arg(required = true, value_name = "PORT")]
    ports: Vec<RatedPort>,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    interval: Nanos,
    /// Stop after this time, such as 1min; of a recording (file:), by its stamps
    #[arg(long)]
    time: Option<Nanos>,
    /// How many identifiers to list at the end
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Print JSON Lines: objects of type "interval", then one of type "total" for each port
    #[arg(long)]
    json: bool,
}

fn read_interval(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(interval) if interval >= Nanos::from_millis(1) => Ok(interval),
        Ok(_) => Err("the interval must be at least 1ms".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Frames that were stamped up to now are handed over so long after at the latest.
const HANDED_OVER: Nanos = Nanos::from_millis(20);

pub(super) fn run(args: &LoadArgs) -> Answer {
    let stop = live::catch_signals();
    // Who reads neither this nor standard output must not keep the command from ending.
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let named: Vec<NamedPort> = args.ports.iter().map(|port| port.port.clone()).collect();
    let mut capture = live::capture(&named, true, args.time)?;
    let ports: Vec<_> = args
        .ports
        .iter()
        .zip(named::titles(&named))
        .map(|(port, title)| {
            let (address, timing) = (&port.port.address, port.known_timing());
            if let Some(unusual) = timing.and_then(Timing::unusual) {
                say!("note: {title}: {unusual}");
            }
            if timing.is_none() {
                say!("{title}: the load needs the bit rate of the bus; write {address}@500k");
            }
            Measured {
                title,
                clock: IntervalClock::from_address(address),
                meter: Meter::new(args.interval, timing),
            }
        })
        .collect();
    let width = ports.iter().map(|port| port.title.chars().count()).max().unwrap_or(0);
    let mut load = Load { ports, width, out: Out::new(stop)?, json: args.json };
    let followed = live::follow(&mut capture, End::after(args.time, &named), stop, &mut load);
    let finished = load.finish(args.top);
    live::tell_totals(&capture, &live::totals(&capture));
    followed?;
    let unprinted = finished?;
    if unprinted > 0 {
        let lines = counted(unprinted, "line");
        say!("standard output: nobody read it; not printed: {lines}, with the totals");
    }
    Ok(unprinted == 0)
}

/// By which clock intervals begin and end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntervalClock {
    /// By the stamps of the frames, which are those of this machine.
    Stamps,
    /// By the stamps of the frames, which are of a time long ago.
    Recorded,
    /// By when frames are handed over: the stamps are those of another machine, or there are none.
    Arrival,
}

impl IntervalClock {
    fn from_address(address: &Address) -> Self {
        match candor_drivers::medium(address) {
            Some(Medium::Interface | Medium::Device) => Self::Stamps,
            Some(Medium::Recording) => Self::Recorded,
            Some(Medium::Network) | None => Self::Arrival,
        }
    }
}

struct Measured {
    title: String,
    clock: IntervalClock,
    meter: Meter,
}

struct Load {
    ports: Vec<Measured>,
    width: usize,
    out: Out,
    json: bool,
}

impl Follower for Load {
    fn take(&mut self, captured: &Captured) -> Result<ControlFlow<()>, String> {
        let port = &mut self.ports[captured.port];
        let time = match port.clock {
            IntervalClock::Arrival => clock::now::<Realtime>(),
            IntervalClock::Stamps | IntervalClock::Recorded => captured.time,
        };
        let mut over = Vec::new();
        port.meter.add(time, &captured.received.frame, |stretch| over.push(*stretch));
        self.tell(captured.port, &over)
    }

    fn pause(&mut self) -> Result<ControlFlow<()>, String> {
        let now = clock::now::<Realtime>();
        let mut flow = ControlFlow::Continue(());
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            let until = match port.clock {
                IntervalClock::Recorded => continue,
                IntervalClock::Arrival => now,
                IntervalClock::Stamps => {
                    Instant::from_nanos(now.as_nanos().saturating_sub(HANDED_OVER.as_nanos()))
                }
            };
            let mut over = Vec::new();
            port.meter.advance(until, |stretch| over.push(*stretch));
            if self.tell(index, &over)?.is_break() {
                flow = ControlFlow::Break(());
            }
        }
        Ok(flow)
    }
}

impl Load {
    fn tell(&mut self, index: usize, over: &[Stretch]) -> Result<ControlFlow<()>, String> {
        let port = &self.ports[index];
        for stretch in over {
            let text = if self.json {
                json::line(&(port.title.as_str(), &port.meter, *stretch))?
            } else {
                line(port, stretch, self.width)
            };
            self.out.write(&text)?;
        }
        if !over.is_empty() {
            self.out.flush()?;
        }
        Ok(self.out.flow())
    }

    /// How many lines could not be printed.
    fn finish(mut self, top: usize) -> Result<u64, String> {
        let now = clock::now::<Realtime>();
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            let end = Some(now).filter(|_| port.clock != IntervalClock::Recorded);
            let mut over = Vec::new();
            port.meter.finish(end, |stretch| over.push(*stretch));
            if self.tell(index, &over)?.is_break() {
                return Ok(0);
            }
        }
        self.ports.iter().for_each(doubt);
        if self.json {
            let totals = self.ports.iter().map(|it| (it.title.as_str(), &it.meter, top));
            self.out.write(&json::lines(totals)?)?;
        } else {
            self.out.write(&totals(&self.ports, top))?;
        }
        self.out.flush()?;
        Ok(self.out.unwritten_lines())
    }
}

/// A bus cannot be busier: stamps are a little late now and then.
const FULL_PERCENT: f64 = 101.0;

/// Says that a load is more than a bus can carry.
fn doubt(port: &Measured) {
    let Some(timing) = port.meter.timing() else { return };
    let highest = port.meter.peak().max(port.meter.total().percent());
    if highest > FULL_PERCENT {
        say!(
            "note: {}: a load of {highest:.0} % at {}bit/s, more than any bus can carry: check \
             the bit rate, and whether the time stamps are those of the bus",
            port.title,
            timing.nominal
        );
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2} %")
}

/// `(1436509052.249713)  can0   1000 frames/s   22.40 %  peak  22.40 %`
fn line(port: &Measured, stretch: &Stretch, width: usize) -> String {
    let seconds = stretch.from.as_nanos() / 1_000;
    let (seconds, micros) = (seconds / 1_000_000, seconds % 1_000_000);
    let mut out = format!(
        "({seconds:010}.{micros:06})  {:>width$}  {:>8.0} frames/s",
        port.title,
        stretch.frames_per_second()
    );
    // Writing to a string does not fail.
    let _ = match port.meter.timing() {
        Some(_) => write!(
            out,
            "  {:>8}  peak {:>8}",
            percent(stretch.percent()),
            percent(port.meter.peak())
        ),
        None => write!(
            out,
            "  {:>9.0} bit/s  peak {:>9.0} bit/s",
            stretch.bits_per_second(),
            port.meter.peak()
        ),
    };
    if stretch.error_reports > 0 {
        let _ = write!(out, "  {}", counted(stretch.error_reports, "error report"));
    }
    if stretch.time < port.meter.interval() {
        // Its rates are those of a short time.
        let time = duration(stretch.time.as_nanos() as f64);
        let _ = write!(out, "  in the last {time}");
    }
    out.push('\n');
    out
}

/// Everything at the end: ports, then their busiest identifiers.
fn totals(ports: &[Measured], top: usize) -> String {
    let known = |port: &Measured, value: f64| match port.meter.timing() {
        Some(_) => percent(value),
        None => "-".to_owned(),
    };
    let of_ports = Table::of(ports)
        .column("port", |it| it.title.clone())
        .column(">time", |it| format!("{:.3} s", it.meter.total().time.as_secs_f64()))
        .column(">frames", |it| thousands(it.meter.total().frames))
        .column(">frames/s", |it| format!("{:.1}", it.meter.total().frames_per_second()))
        .column(">load", |it| known(it, it.meter.total().percent()))
        .column(">peak", |it| known(it, it.meter.peak()))
        .column(">error reports", |it| thousands(it.meter.total().error_reports))
        .text();
    let busiest: Vec<_> = ports
        .iter()
        .flat_map(|port| {
            port.meter.top(top).into_iter().map(move |id| {
                let timing = port.meter.timing();
                let busy = timing.map_or(Nanos::ZERO, |timing| id.bits.time(timing));
                let total = port.meter.total();
                (port, id.can_id, Stretch { frames: id.frames, bits: id.bits, busy, ..total })
            })
        })
        .collect();
    if busiest.is_empty() {
        return format!("\n{of_ports}");
    }
    let of_ids = Table::of(&busiest)
        .column("port", |(port, ..)| port.title.clone())
        .column(">busiest", |(_, id, _)| hex_word(*id))
        .column(">frames", |(.., share)| thousands(share.frames))
        .column(">frames/s", |(.., share)| format!("{:.1}", share.frames_per_second()))
        .column(">load", |(port, _, share)| known(port, share.percent()))
        .text();
    format!("\n{of_ports}\n{of_ids}")
}
