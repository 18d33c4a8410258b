//! `candor route run`: a gateway at work, until it is asked to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use candor_causes::Cause;
use candor_daemon::rehearsal::Rehearsal;
use candor_gateway::plan::Choice;
use candor_gateway::snapshot::PortSnapshot;
use candor_gateway::{Config, Service, Snapshot};
use candor_output::{messages, say};
use candor_port::Medium;
use clap::Args;

use super::stats::causes;
use crate::Answer;
use crate::color;
use crate::embedded::unused_by_gateways;
use crate::file_kind::FileKind;
use crate::output::{Table, list, print_within, thousands};

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The rule file
    file: PathBuf,
    /// Who runs the rules
    #[arg(long, value_parser = super::planes(), default_value = "user")]
    plane: Choice,
    /// Real-time priority (SCHED_FIFO) of the forwarding threads, 1 to 99
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    rt: Option<u8>,
    /// The CPUs of the forwarding threads, such as 1 or 2,3
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    cpu: Vec<usize>,
    /// Lock all memory in RAM, so that no frame waits for the disk
    #[arg(long)]
    lock_memory: bool,
    /// Do not measure latencies; saves a microsecond per frame on slow machines
    #[arg(long)]
    no_latency: bool,
    /// The path of the control socket [default: from the name of the rule file]
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Let the group of the control socket use it as well. Then `route load` reads only rule files in
    /// the folder of FILE and below
    #[arg(long)]
    control_group: bool,
    /// Serve Prometheus metrics at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS", value_parser = read_address)]
    metrics: Option<SocketAddr>,
    /// Allow a metrics address that other machines can reach
    #[arg(long, requires = "metrics")]
    metrics_public: bool,
    /// Refuse frames that tunnels bring again and again, as when gateways forward them in a loop: more
    /// than 2,000 times the same frame in a second, more than 30,000 repeated frames, or more than
    /// 30,000 frames of one identifier. A sender that really does so is refused, too. Without this
    /// option, such frames are only counted and reported
    #[arg(long)]
    stop_loops: bool,
    /// Stop when all replayed recordings have ended and what they caused has left; one with loop=true
    /// never ends. Exits with 1 if not all of a recording could be read
    #[arg(long)]
    until_end: bool,
}

/// How long the end waits for whoever reads the summary.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(2);

/// An address with its port; `[fe80::1%eth0]:9464` names its interface.
fn read_address(text: &str) -> Result<SocketAddr, String> {
    match candor_linux::scoped_address(text) {
        Some(address) => address.map_err(|error| error.to_string()),
        None => {
            text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:9464".into())
        }
    }
}

/// Runs a gateway. True when it ended as it was asked to; false stands for rules that have errors.
pub(crate) fn run(args: &RunArgs) -> Answer {
    // Before any thread is started.
    let signals = candor_gateway::signals().map_err(|error| error.to_string())?;
    let _ = candor_linux::limits::allow_most_files();
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let service = Service {
        gateway: Config {
            file: args.file.clone(),
            choice: args.plane,
            priority: args.rt,
            cpus: args.cpu.clone(),
            measures: !args.no_latency,
            stops_loops: args.stop_loops,
            waits: true,
            ..Config::default()
        },
        locks_memory: args.lock_memory,
        unlocked: unused_by_gateways(),
        control: args.control.clone(),
        control_for_group: args.control_group,
        metrics: args.metrics,
        metrics_are_public: args.metrics_public,
        until_end: args.until_end,
        rehearsal: Some(Rehearsal {
            arguments: ["route", "check", "--rehearse"].map(Into::into).into(),
        }),
    };
    let mut tell = |line: &str| say!("{line}");
    match candor_gateway::run(&service, &signals, &mut tell) {
        Ok(snapshot) => {
            print_within(summary(&snapshot) + &paced_by_the_machine(&snapshot), SUMMARY_TIMEOUT)?;
            Ok(!(args.until_end && snapshot.ports.iter().any(is_incomplete)))
        }
        Err(candor_gateway::Error::Rules(findings)) => {
            if let Some(message) = FileKind::Rules.mix_up(&args.file) {
                return Err(message);
            }
            color::eprint_findings(&findings);
            Ok(false)
        }
        Err(error @ candor_gateway::Error::Plane(..)) => {
            say!("{error}");
            say!("use --plane auto or user, or see `candor route check --plan`");
            Ok(false)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a port is a recording of which not all could be read, or into which not all could be written.
fn is_incomplete(port: &PortSnapshot) -> bool {
    let medium = port.port.parse().ok().and_then(|address| candor_drivers::medium(&address));
    medium == Some(Medium::Recording) && (port.malformed_frames > 0 || port.lost > 0)
}

/// Which rules refused frames of a recording by their rate while it was read as fast as possible: a note for each port.
fn paced_by_the_machine(snapshot: &Snapshot) -> String {
    let is_hurried = |port: &&PortSnapshot| {
        let medium = |address| candor_drivers::medium(&address);
        port.port.parse().ok().and_then(medium) == Some(Medium::Recording)
            && port.port.contains("speed=max")
    };
    let is_paced = |bus: &str| {
        snapshot
            .rules
            .iter()
            .any(|it| it.from == bus && it.stopped.contains_key(Cause::Rate.name()))
    };
    let hurried = snapshot.ports.iter().filter(is_hurried).filter(|port| is_paced(&port.bus));
    let note = |port: &PortSnapshot| {
        format!(
            "note: {} was read with speed=max, so the rates of its rules ran on the clock of this machine; `candor route \
             apply` uses the times of the recording\n",
            port.bus
        )
    };
    hurried.map(note).collect()
}

/// What the gateway has done, in two tables.
pub(super) fn summary(snapshot: &Snapshot) -> String {
    let ports = Table::of(&snapshot.ports)
        .column("port", |it| it.bus.clone())
        .column(">received", |it| thousands(it.received))
        .column(">routed", |it| thousands(it.routed()))
        .column(">not routed", |it| thousands(it.not_routed()))
        .column(">refused", |it| thousands(it.refused()))
        .column(">transmitted", |it| thousands(it.transmitted))
        .column("trouble", |it| troubles(it))
        .text();
    let rules = Table::of(&snapshot.rules)
        .column("rule", |it| it.rule.clone())
        .column("from", |it| it.from.clone())
        .column("to", |it| it.to.clone())
        .column(">copies", |it| thousands(it.copies()))
        .column(">handled", |it| thousands(it.handled))
        .column(">refused", |it| thousands(it.refused()))
        .column(">lost", |it| thousands(it.lost()))
        .column("causes", |it| causes(it))
        .text();
    format!("{ports}\n{rules}")
}

fn troubles(port: &PortSnapshot) -> String {
    let troubles = [
        (port.malformed_frames, "malformed"),
        (port.overflow_frames, "lost before they could be received"),
        (port.malformed_datagrams, "datagrams malformed"),
        (port.overflow_datagrams, "datagrams lost before they could be received"),
        (port.missing_datagrams, "datagrams missing"),
        (port.out_of_order_datagrams, "datagrams out of order"),
        (port.foreign, "not from the peer"),
        (port.lost, "lost after the port took them"),
        (port.looping, "in loops"),
    ];
    let troubles = troubles.into_iter().filter(|(count, _)| *count > 0);
    list(troubles.map(|(count, what)| format!("{} {what}", thousands(count))))
}
