//! `candor tte switch`: a switch of a network on interfaces of this machine.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use candor_diagnostics::counted;
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_linux::{clock, realtime};
use candor_output::{messages, say};
use candor_time::{Monotonic, Nanos, Realtime};
use candor_tte::Network;
use candor_tte::frames::PCF_ID;
use candor_tte_live::Epoch;
use candor_tte_live::switch::{Service, Switch, Tally};
use clap::{Args, ValueEnum};

use super::live::{self, Checking, Kind, Spinning, StopOnDrop};
use crate::Answer;
use crate::bus::live::catch_signals;
use crate::output::{duration, pair, thousands};
use crate::ping::RealTimeArgs;

/// How often it is looked whether to end.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);

#[derive(Args)]
pub(crate) struct SwitchArgs {
    /// The network file
    file: PathBuf,
    /// The switch
    #[arg(long, value_name = "NAME")]
    node: String,
    /// A link of the switch, and the interface of this machine that is on it; repeat it for each link
    #[arg(long = "port", value_name = "LINK=INTERFACE", required = true, value_parser = read_port)]
    ports: Vec<(String, String)>,
    /// The virtual link of the protocol control frames
    #[arg(long, value_name = "ID", default_value = "0xFFFF", value_parser = live::read_id)]
    pcf_id: u16,
    /// Send no protocol control frames
    #[arg(long)]
    no_pcf: bool,
    /// Whether interfaces have cables on which bits take their time
    #[arg(long, value_enum, default_value_t = Cables::Auto)]
    cables: Cables,
    /// How long the first frame takes from the program to the interface: it is handed over that much earlier; then this is
    /// found out from the frames that were sent
    #[arg(long, value_name = "TIME", default_value = "2us", value_parser = live::read_advance)]
    advance: Nanos,
    /// Stop after this time, such as 10s
    #[arg(long)]
    time: Option<Nanos>,
    /// The time between two lines
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = live::read_interval)]
    interval: Nanos,
    #[command(flatten)]
    checking: Checking,
    #[command(flatten)]
    real_time: RealTimeArgs,
}

/// Whether interfaces have cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cables {
    /// Interfaces with a device do; for others there is the model of the network file
    Auto,
    /// They do
    Real,
    /// They do not: frames take as long as the network file says
    Modelled,
}

/// A link and its interface.
fn read_port(text: &str) -> Result<(String, String), String> {
    pair(text).ok_or_else(|| "write a link and its interface, as left=eth1".into())
}

pub(super) fn run(args: &SwitchArgs) -> Answer {
    let stop = catch_signals();
    let network = args.checking.network(&args.file)?;
    let node = live::node(&network, &args.file, &args.node, Kind::Switch)?;
    let links = links(&network, &args.file, node, &args.ports)?;
    if !args.no_pcf {
        live::check_pcf_id(&network, &args.file, args.pcf_id)?;
    }
    let options = Options::default();
    let opened = args.ports.iter().map(|(_, interface)| live::open(interface, options));
    let sockets: Vec<EthernetSocket> = opened.collect::<Result<_, _>>()?;
    let has_cable = |interface: &str| match args.cables {
        Cables::Real => true,
        Cables::Modelled => false,
        Cables::Auto => Path::new("/sys/class/net").join(interface).join("device").exists(),
    };
    let cables = links.iter().zip(&args.ports).filter(|(_, (_, interface))| has_cable(interface));
    let tally = Mutex::default();
    let service = Service {
        pcf_id: (!args.no_pcf).then_some(args.pcf_id),
        cables: cables.map(|(link, _)| *link).collect(),
        tally: &tally,
    };
    let switch = Switch {
        network: &network,
        node,
        ports: links.iter().copied().zip(&sockets).collect(),
        epoch: Epoch::of_the_clock(clock::now::<Realtime>(), network.cycle),
        advance: args.advance,
        warmer: None,
    };
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    for link in network.links_of(node).filter(|link| !links.contains(link)) {
        say!("no port is on link `{}`: frames do not leave by it", network.links[link].name);
    }
    let pcfs = match service.pcf_id {
        Some(PCF_ID) => "protocol control frames".to_owned(),
        Some(id) => format!("protocol control frames of virtual link {id}"),
        None => "no protocol control frames".to_owned(),
    };
    let ports = counted(sockets.len(), "port");
    say!("switch `{}`: {ports}, a cycle of {}, {pcfs}; Ctrl-C ends it", args.node, network.cycle);
    let over = AtomicBool::new(false);
    let thread = AtomicU32::new(0);
    let mut spinning = Spinning::new(&thread, args.real_time.is_real_time());
    let (counted, ended) = thread::scope(|scope| {
        let _ending = StopOnDrop(&over);
        let work = scope.spawn(|| {
            args.real_time.apply()?;
            thread.store(realtime::this_thread(), Ordering::Relaxed);
            Ok::<_, String>(switch.serve(&over, &service))
        });
        let begin = clock::now::<Monotonic>();
        let (mut last, mut next) = (Tally::default(), begin + args.interval);
        loop {
            let now = clock::now::<Monotonic>();
            spinning.look(now);
            let is_over = args.time.is_some_and(|time| now.since(begin) >= time);
            if is_over || stop.load(Ordering::Relaxed) || work.is_finished() {
                break;
            }
            if now >= next {
                next += args.interval;
                let seen = tally.lock().map(|it| it.clone()).unwrap_or_default();
                say!("{:.0} s: {}", now.since(begin).as_secs_f64(), line(&seen, &last));
                last = seen;
            }
            let _ = clock::sleep_until((now + STOP_CHECK_INTERVAL).min(next));
        }
        over.store(true, Ordering::Relaxed);
        work.join().map_err(|_| "the thread that relays has failed".to_owned())?
    })?;
    summary(&args.node, &counted, args.real_time.is_real_time());
    ended.map_err(|error| error.to_string())?;
    Ok(counted.dropped.is_empty() && counted.unheard == 0)
}

/// The links of the ports.
fn links(
    network: &Network,
    path: &Path,
    node: usize,
    ports: &[(String, String)],
) -> Result<Vec<usize>, String> {
    let names: Vec<_> =
        network.links_of(node).map(|link| format!("`{}`", network.links[link].name)).collect();
    let mut links = Vec::new();
    for (link, interface) in ports {
        let found = network.links_of(node).find(|it| network.links[*it].name == *link);
        let Some(found) = found else {
            return Err(format!(
                "--port {link}={interface}: `{}` in {} has no link `{link}`; its links are {}",
                network.nodes[node].name,
                path.display(),
                names.join(", ")
            ));
        };
        let is_twice = ports.iter().filter(|(_, it)| it == interface).count() > 1;
        if links.contains(&found) || is_twice {
            return Err(format!(
                "--port {link}={interface}: the link or the interface has two ports; give each link an interface of its own"
            ));
        }
        links.push(found);
    }
    Ok(links)
}

fn dropped(tally: &Tally) -> u64 {
    tally.dropped.values().sum()
}

/// What an interval has brought.
fn line(now: &Tally, last: &Tally) -> String {
    format!(
        "relayed {}, others {}, dropped {}, strangers {}, PCFs {}, stops {}",
        thousands(now.relayed - last.relayed),
        thousands(now.others - last.others),
        thousands(dropped(now) - dropped(last)),
        thousands(now.strangers - last.strangers),
        thousands(now.pcfs - last.pcfs),
        thousands(now.stops.0 - last.stops.0),
    )
}

fn summary(name: &str, tally: &Tally, is_real_time: bool) {
    say!(
        "switch `{name}`: relayed {} and {}; {}, {} of no flow",
        counted(tally.relayed as usize, "time-triggered frame"),
        counted(tally.others as usize, "other frame"),
        counted(tally.pcfs as usize, "protocol control frame"),
        counted(tally.strangers as usize, "frame"),
    );
    for (cause, count) in &tally.dropped {
        say!("dropped {}: {} ({})", thousands(*count), cause.name(), cause.meaning());
    }
    live::say_counts(&[
        (
            tally.pcfs_missed,
            "protocol control frames were not sent: the thread was stopped too long, or the interface had no room",
        ),
        (tally.unheard, "frames found no room in a socket: the thread was stopped too long"),
    ]);
    let (count, longest) = tally.stops;
    if count > 0 {
        say!(
            "the thread was stopped {}, for {} at most{}",
            counted(count as usize, "time"),
            duration(longest.as_nanos() as f64),
            if is_real_time { "" } else { "; --rt 60 makes that rarer" }
        );
    }
}
