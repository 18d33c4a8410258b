//! `candor route stats`: what a running gateway has counted.
//!
//! `candor help json route stats` describes what `--json` prints.

pub(super) mod json;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use candor_causes::{Ending, ending};
use candor_diagnostics::counted;
use candor_gateway::Snapshot;
use candor_gateway::control::rates::{PortRates, Rates, RuleRates};
use candor_gateway::control::{Answer as Reply, Request};
use candor_gateway::health::problems;
use candor_gateway::snapshot::{PortSnapshot, RuleSnapshot};
use candor_output::say;
use candor_time::Nanos;
use clap::Args;

use super::gateway::{connect, describe, other_file};
use crate::Answer;
use crate::health::{self, HealthArgs};
use crate::output::{Table, age, duration, list, print, print_more, thousands};

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// The rule file of the gateway, or its name; default: the only gateway that runs
    file: Option<PathBuf>,
    /// The control socket of the gateway, or its name
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Repeat at this interval, with rates; --watch alone means 1s
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        default_missing_value = "1s",
        value_parser = read_interval,
        conflicts_with = "check"
    )]
    watch: Option<Nanos>,
    #[command(flatten)]
    health: HealthArgs,
    /// Print JSON Lines: objects of type "port", "rule" and "latency", then one of type "summary";
    /// with --check objects of type "problem", then one of type "health"
    #[arg(long)]
    json: bool,
}

/// How often a gateway may be asked.
pub(super) fn read_interval(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if (10..=3_600_000).contains(&(time.as_nanos() / 1_000_000)) => Ok(time),
        Ok(_) => Err("the interval must be 10ms to 1h".into()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn run(args: &StatsArgs) -> Answer {
    let file = args.file.as_deref();
    let mut client = connect(file, args.control.as_deref())?;
    if let Some(other) = other_file(&client, file.filter(|_| args.control.is_none())) {
        say!("this gateway now runs the rules of {other}");
    }
    let render = |snapshot: &Snapshot, rates: Option<&Rates>| {
        if args.json { json::lines(snapshot, rates) } else { Ok(text(snapshot, rates)) }
    };
    let Some(interval) = args.watch else {
        return match client.request(&Request::Stats).map_err(describe)? {
            Reply::Snapshot(snapshot) if args.health.check => {
                health::report(problems(&snapshot, &args.health.max_silence), args.json)
            }
            Reply::Snapshot(snapshot) => print(&render(&snapshot, None)?).map(|()| true),
            other => Err(client.unexpected(&other).to_string()),
        };
    };
    let is_screen = !args.json && io::stdout().is_terminal();
    let mut before: Option<Snapshot> = None;
    for snapshot in client.watch(interval).map_err(describe)? {
        let snapshot = snapshot.map_err(describe)?;
        let rates = before.as_ref().and_then(|before| Rates::between(before, &snapshot));
        let shown = render(&snapshot, rates.as_ref())?;
        let shown = match (is_screen, args.json || before.is_none()) {
            (true, _) => redraw(&shown),
            (false, true) => shown,
            (false, false) => format!("\n{shown}"),
        };
        if !print_more(&shown)? {
            return Ok(true);
        }
        before = Some(snapshot);
    }
    say!("the gateway has stopped");
    Ok(true)
}

/// Over what is there: from the top, the rest of each line and of the screen cleared.
fn redraw(text: &str) -> String {
    format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"))
}

/// Everything as tables.
fn text(snapshot: &Snapshot, rates: Option<&Rates>) -> String {
    let parts = [
        Some(format!("{}\n", title(snapshot))),
        rejected(snapshot).map(|why| format!("{why}\n")),
        dropped(snapshot).map(|what| format!("{what}\n")),
        Some(format!("\n{}", ports(snapshot, rates))),
        Some(format!("\n{}", rules(snapshot, rates))),
        (!snapshot.latencies.is_empty()).then(|| format!("\n{}", latencies(snapshot))),
    ];
    parts.into_iter().flatten().collect()
}

/// `drive.rules.toml: process 812, running for 1 h 2 min, rules changed 3 times`
pub(super) fn title(snapshot: &Snapshot) -> String {
    let changes = match snapshot.generation {
        0 => "rules never changed".to_owned(),
        1 => "rules changed once".to_owned(),
        times => format!("rules changed {} times", thousands(times)),
    };
    let Snapshot { file, pid, uptime_ns, .. } = snapshot;
    format!("{file}: process {pid}, running for {}, {changes}", age(*uptime_ns))
}

/// That the rules on disk are not those in use, and why: in one line.
pub(super) fn rejected(snapshot: &Snapshot) -> Option<String> {
    let why = snapshot.rejected.as_ref()?.lines().next().unwrap_or_default();
    Some(format!("the rules on disk are not in use: {why}"))
}

/// That messages were dropped.
fn dropped(snapshot: &Snapshot) -> Option<String> {
    let count = Some(snapshot.messages_dropped).filter(|&count| count > 0)?;
    let messages = counted(count, "message");
    Some(format!("{messages} dropped: its standard error could not be written, or was not read"))
}

/// The bus and its port, which often have the same name.
pub(super) fn port_title(port: &PortSnapshot) -> String {
    if port.bus == port.port { port.bus.clone() } else { format!("{} ({})", port.bus, port.port) }
}

/// What else there is to tell of a port.
pub(super) fn remarks(port: &PortSnapshot) -> Vec<String> {
    let counts = [
        ("error reports", port.error_reports),
        ("malformed frames", port.malformed_frames),
        ("overflow", port.overflow_frames),
        ("malformed datagrams", port.malformed_datagrams),
        ("overflow datagrams", port.overflow_datagrams),
        ("missing datagrams", port.missing_datagrams),
        ("out of order datagrams", port.out_of_order_datagrams),
        ("not from the peer", port.foreign),
        ("lost", port.lost),
        ("in loops", port.looping),
        ("reopened", port.reopened),
    ];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts = counts.map(|(name, count)| format!("{name} {}", thousands(*count)));
    port.trouble.iter().cloned().chain(counts).collect()
}

/// What stopped copies: losses first, the most frequent cause first.
pub(super) fn causes(rule: &RuleSnapshot) -> String {
    let mut causes: Vec<_> =
        rule.stopped.iter().map(|(cause, &count)| (cause.as_str(), count)).collect();
    sort_causes(&mut causes);
    list(causes.iter().map(|(cause, count)| format!("{cause} {}", thousands(*count))))
}

/// Losses first, then by number.
pub(super) fn sort_causes(causes: &mut [(&str, u64)]) {
    causes.sort_by_key(|&(cause, count)| (ending(cause) != Ending::Lost, std::cmp::Reverse(count)));
}

fn per_second(rate: f64) -> String {
    thousands(rate.round() as u64)
}

fn ports(snapshot: &Snapshot, rates: Option<&Rates>) -> String {
    let rate = |place: usize, of: fn(&PortRates) -> f64| {
        per_second(rates.and_then(|rates| rates.ports.get(place)).map_or(0.0, of))
    };
    let is_in_driver = snapshot.ports.iter().any(|it| it.step_limit > 0);
    Table::of(snapshot.ports.iter().enumerate())
        .column("port", |(_, it)| port_title(it))
        .column(">received", |(_, it)| thousands(it.received))
        .column_if(rates.is_some(), ">per s", |(place, _)| rate(*place, |it| it.received))
        .column(">routed", |(_, it)| thousands(it.routed()))
        .column(">not routed", |(_, it)| thousands(it.not_routed()))
        .column(">refused", |(_, it)| thousands(it.refused()))
        .column(">transmitted", |(_, it)| thousands(it.transmitted))
        .column_if(rates.is_some(), ">per s", |(place, _)| rate(*place, |it| it.transmitted))
        .column(">load", |(_, it)| load(it))
        .column(">full", |(_, it)| thousands(it.full))
        .column(">queued", |(_, it)| {
            format!("{} of {}", thousands(it.queued), thousands(it.queue_depth))
        })
        .column(">most", |(_, it)| thousands(it.most_queued))
        .column_if(is_in_driver, ">steps", |(_, it)| {
            format!("{} of {}", thousands(it.most_steps), thousands(it.step_limit))
        })
        .column_if(is_in_driver, ">longest", |(_, it)| duration(it.longest_ns as f64))
        .column("remarks", |(_, it)| list(remarks(it)))
        .text()
}

/// How busy a bus is at least.
fn load(port: &PortSnapshot) -> String {
    port.least_load_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"))
}

fn rules(snapshot: &Snapshot, rates: Option<&Rates>) -> String {
    let rate = |place: usize, of: fn(&RuleRates) -> f64| {
        per_second(rates.and_then(|rates| rates.rules.get(place)).map_or(0.0, of))
    };
    let name = |rule: &RuleSnapshot| match rule.in_use {
        true => rule.rule.clone(),
        false => format!("{} (gone)", rule.rule),
    };
    Table::of(snapshot.rules.iter().enumerate())
        .column("rule", |(_, it)| name(it))
        .column("from", |(_, it)| it.from.clone())
        .column("to", |(_, it)| it.to.clone())
        .column("plane", |(_, it)| it.plane.clone())
        .column(">copies", |(_, it)| thousands(it.copies()))
        .column(">handled", |(_, it)| thousands(it.handled))
        .column_if(rates.is_some(), ">per s", |(place, _)| rate(*place, |it| it.handled))
        .column(">pending", |(_, it)| thousands(it.pending))
        .column(">refused", |(_, it)| thousands(it.refused()))
        .column_if(rates.is_some(), ">per s", |(place, _)| rate(*place, |it| it.refused))
        .column(">lost", |(_, it)| thousands(it.lost()))
        .column_if(rates.is_some(), ">per s", |(place, _)| rate(*place, |it| it.lost))
        .column("causes", |(_, it)| causes(it))
        .text()
}

fn latencies(snapshot: &Snapshot) -> String {
    let time = |count: u64, ns: u64| match count {
        0 => "-".to_owned(),
        _ => duration(ns as f64),
    };
    Table::of(&snapshot.latencies)
        .column("from", |it| it.from.clone())
        .column("to", |it| it.to.clone())
        .column(">measured", |it| thousands(it.count))
        .column(">p50", |it| time(it.count, it.p50_ns))
        .column(">p99", |it| time(it.count, it.p99_ns))
        .column(">p99.9", |it| time(it.count, it.p999_ns))
        .column(">max", |it| time(it.count, it.max_ns))
        .column(">p99 of last s", |it| time(it.recent_count, it.recent_p99_ns))
        .column(">unusable", |it| thousands(it.unusable))
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_gateway::snapshot::LatencySnapshot;

    #[test]
    fn intervals_are_read() {
        assert_eq!(read_interval("100ms"), Ok(Nanos::from_millis(100)));
        for text in ["", "1", "9ms", "2h", "drive.toml"] {
            assert!(read_interval(text).is_err(), "{text}");
        }
    }

    /// A gateway with everything that there is to show.
    pub(super) fn snapshot(uptime_s: u64, count: u64) -> Snapshot {
        let port = PortSnapshot {
            bus: "powertrain".into(),
            port: "can0".into(),
            trouble: Some("link is down".into()),
            received: 12_345 + count,
            unmatched: 7,
            refuses_unmatched: true,
            overflow_frames: 3,
            queued: 2,
            queue_depth: 1_024,
            ..PortSnapshot::default()
        };
        let body = PortSnapshot {
            bus: "can1".into(),
            port: "can1".into(),
            transmitted: 11_000 + count,
            full: 12,
            most_queued: 40,
            ..PortSnapshot::default()
        };
        let rule = RuleSnapshot {
            rule: "speed".into(),
            from: "powertrain".into(),
            to: "can1".into(),
            plane: "user".into(),
            in_use: true,
            handled: 11_000 + count,
            pending: 2,
            stopped: [("rate".to_owned(), 1_300), ("stale".to_owned(), 5)].into(),
        };
        let gone = RuleSnapshot { rule: "old".into(), in_use: false, ..rule.clone() };
        let latency = LatencySnapshot {
            from: "powertrain".into(),
            to: "can1".into(),
            count: 11_000,
            p50_ns: 35_000,
            p99_ns: 60_100,
            p999_ns: 99_000,
            max_ns: 1_200_000,
            ..LatencySnapshot::default()
        };
        Snapshot {
            file: "drive.rules.toml".into(),
            pid: 812,
            uptime_ns: uptime_s * 1_000_000_000,
            generation: 1,
            rejected: Some("unknown bus `bdoy` (line 7)\n  to = \"bdoy\"\n".into()),
            messages_dropped: 7,
            ports: vec![port, body],
            rules: vec![rule, gone],
            latencies: vec![latency],
        }
    }

    #[test]
    fn everything_is_in_the_tables() {
        let expected = "\
drive.rules.toml: process 812, running for 2 min 3 s, rules changed once
the rules on disk are not in use: unknown bus `bdoy` (line 7)
7 messages dropped: its standard error could not be written, or was not read

port               received  routed  not routed  refused  transmitted  load  full      queued  most  remarks
-----------------  --------  ------  ----------  -------  -----------  ----  ----  ----------  ----  ------------------------
powertrain (can0)    12,345  12,338           0        7            0     -     0  2 of 1,024     0  link is down, overflow 3
can1                      0       0           0        0       11,000     -    12      0 of 0    40  -

rule        from        to    plane  copies  handled  pending  refused  lost  causes
----------  ----------  ----  -----  ------  -------  -------  -------  ----  -------------------
speed       powertrain  can1  user   12,307   11,000        2    1,300     5  stale 5, rate 1,300
old (gone)  powertrain  can1  user   12,307   11,000        2    1,300     5  stale 5, rate 1,300

from        to    measured      p50      p99    p99.9      max  p99 of last s  unusable
----------  ----  --------  -------  -------  -------  -------  -------------  --------
powertrain  can1    11,000  35.0 us  60.1 us  99.0 us  1.20 ms              -         0
";
        assert_eq!(text(&snapshot(123, 0), None), expected);
    }

    #[test]
    fn the_work_in_the_interrupt_handler_is_shown_if_rules_run_there() {
        let mut snapshot = snapshot(1, 0);
        assert!(!ports(&snapshot, None).contains("steps"));
        let port = &mut snapshot.ports[1];
        (port.most_steps, port.step_limit, port.longest_ns) = (17, 1_041, 1_750);
        let shown = ports(&snapshot, None);
        assert!(shown.contains("  most        steps  longest"), "{shown}");
        assert!(shown.contains("    40  17 of 1,041  1.75 us"), "{shown}");
    }

    #[test]
    fn rates_are_shown_between_snapshots() {
        let (old, new) = (snapshot(100, 0), snapshot(102, 500));
        let rates = Rates::between(&old, &new).unwrap();
        let shown = text(&new, Some(&rates));
        let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line("port ").contains("received  per s"), "{shown}");
        assert!(line("powertrain (can0)").contains("12,845    250"), "{shown}");
        assert!(line("speed").contains("11,500    250"), "{shown}");
    }
}
