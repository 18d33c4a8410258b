//! What commands on interfaces of this machine have in common.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use candor_diagnostics::{Severity, counted};
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_linux::realtime::Throttling;
use candor_linux::{clock, ethtool};
use candor_output::say;
use candor_time::{Instant, Monotonic, Nanos};
use candor_tte::{Network, Role, Traffic, check};
use clap::Args;

use super::model;
use crate::color;
use crate::output::thousands;

/// Bytes of the receive buffers.
const RECEIVE_BUFFER: u32 = 8 << 20;

/// A network file without errors.
pub(super) fn network(path: &Path) -> Result<Network, String> {
    model::load(path)?.ok_or_else(|| {
        format!("{}: there is no network to work with; correct the errors above", path.display())
    })
}

/// Whether a schedule is used that has errors.
#[derive(Args)]
pub(super) struct Checking {
    /// Use the schedule although it has errors
    #[arg(long)]
    unchecked: bool,
}

impl Checking {
    /// A network file without errors, whose schedule has none either. What `candor tte check` finds is said.
    pub(super) fn network(&self, path: &Path) -> Result<Network, String> {
        let (network, findings) = model::read(path)?;
        let is_readable = network.is_some();
        if let Some((network, places)) = &network {
            check::check(network, places, &findings);
        }
        color::eprint_findings(&findings);
        let errors = counted(findings.count(Severity::Error), "error");
        let path = path.display();
        match network {
            Some((network, _)) if self.unchecked || !findings.has_errors() => Ok(network),
            _ if is_readable => Err(format!(
                "{path}: the schedule has {errors}; correct what is said above, or use the schedule as it is with \
                 --unchecked"
            )),
            _ => {
                Err(format!("{path}: there is no network to work with; correct the {errors} above"))
            }
        }
    }
}

/// What a node is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    EndSystem,
    Switch,
}

impl Kind {
    const fn of(role: &Role) -> Self {
        match role {
            Role::EndSystem(_) => Self::EndSystem,
            Role::Switch(_) => Self::Switch,
        }
    }

    const fn words(self) -> [&'static str; 2] {
        match self {
            Self::EndSystem => ["an end system", "end systems"],
            Self::Switch => ["a switch", "switches"],
        }
    }
}

/// The node of a name, which must be of a kind.
pub(super) fn node(
    network: &Network,
    path: &Path,
    name: &str,
    kind: Kind,
) -> Result<usize, String> {
    let [one, several] = kind.words();
    let of_kind = network.nodes.iter().filter(|node| Kind::of(&node.role) == kind);
    let names: Vec<_> = of_kind.map(|node| format!("`{}`", node.name)).collect();
    let remedy = match names.is_empty() {
        true => format!("the file has no {several}"),
        false => format!("choose one of its {several}: {}", names.join(", ")),
    };
    let path = path.display();
    match network.node(name) {
        None => Err(format!("{path}: there is no node `{name}`; {remedy}")),
        Some(node) if Kind::of(&network.nodes[node].role) != kind => {
            let [is, _] = Kind::of(&network.nodes[node].role).words();
            Err(format!("{path}: `{name}` is {is}, but has to be {one}; {remedy}"))
        }
        Some(node) => Ok(node),
    }
}

/// A socket on an interface whose frames are stamped.
pub(super) fn open(interface: &str, options: Options) -> Result<EthernetSocket, String> {
    let options = Options { receive_buffer: Some(RECEIVE_BUFFER), ..options };
    let socket = EthernetSocket::open(interface, options).map_err(|error| error.to_string())?;
    let stamping = ethtool::stamping(interface).map_err(|error| error.to_string())?;
    let lacks = match (stamping.software, stamping.transmit_software) {
        (false, _) => "receives",
        (_, false) if options.has_transmit_stamps => "transmits",
        _ => return Ok(socket),
    };
    Err(format!(
        "{interface}: its driver does not stamp what it {lacks}, so nothing can be measured; use an interface for which \
         `ethtool -T` lists software-transmit and software-receive"
    ))
}

/// A number of a virtual link, such as 0xFFFF.
pub(super) fn read_id(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match digits {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "the number of a virtual link is 0 to 65535, such as 7 or 0xFFFF".into())
}

/// The time between two lines: short ones are no lines to read.
pub(super) fn read_interval(text: &str) -> Result<Nanos, String> {
    let interval = crate::duration::read(text)?;
    match interval >= Nanos::from_millis(10) {
        true => Ok(interval),
        false => Err("the time between two lines is 10ms or more".into()),
    }
}

/// How much earlier frames are handed over.
pub(super) fn read_advance(text: &str) -> Result<Nanos, String> {
    let advance = crate::duration::read(text)?;
    match advance <= Nanos::from_millis(1) {
        true => Ok(advance),
        false => Err("a frame takes 1ms to its interface at most, and some 5us as a rule".into()),
    }
}

/// The virtual link of protocol control frames must be no flow's.
pub(super) fn check_pcf_id(network: &Network, path: &Path, id: u16) -> Result<(), String> {
    let is_it = |flow: &&candor_tte::Flow| {
        flow.id == id && !matches!(flow.traffic, Traffic::BestEffort { .. })
    };
    match network.flows.iter().find(is_it) {
        None => Ok(()),
        Some(flow) => Err(format!(
            "{}: the virtual link {id} of protocol control frames is that of `{}`; choose another number with --pcf-id",
            path.display(),
            flow.name
        )),
    }
}

/// Says what of these there was.
pub(super) fn say_counts(counts: &[(u64, &str)]) {
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        say!("{}: {what}", thousands(*count));
    }
}

/// Ends the threads that look at it, however their scope ends.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a thread with a real-time priority leaves so little of its processor to others that Linux stops it.
pub(super) struct Spinning<'a> {
    /// Its number; 0: it has not begun.
    thread: &'a AtomicU32,
    begin: Instant<Monotonic>,
    /// `None`: there is no limit, or it was said.
    limit: Option<Throttling>,
}

impl<'a> Spinning<'a> {
    /// Of a thread that puts its number there when it begins.
    pub(super) fn new(thread: &'a AtomicU32, is_real_time: bool) -> Self {
        let limit = Throttling::of_the_kernel().filter(|_| is_real_time);
        Self { thread, begin: clock::now(), limit }
    }

    /// Looks once, when the first period of the limit is over.
    pub(super) fn look(&mut self, now: Instant<Monotonic>) {
        let time = now.since(self.begin);
        let Some(limit) = self.limit.take_if(|limit| time >= limit.period) else { return };
        let used = clock::cpu_time_of_thread(self.thread.load(Ordering::Relaxed));
        if used.is_ok_and(|used| limit.stops(used, time)) {
            say!(
                "the thread with real-time priority never sleeps, and Linux may stop it for {} in each {}: frames are late \
                 then; run `sudo sysctl -w kernel.sched_rt_runtime_us=-1`, from Linux 6.12 on write 0 to \
                 /sys/kernel/debug/sched/fair_server/cpu*/runtime, or choose a longer cycle",
                limit.period - limit.runtime,
                limit.period
            );
        }
    }
}
