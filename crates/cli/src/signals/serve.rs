//! `candor signals serve`: the signal service, until it is asked to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_bus::named::{NamedPort, titles};
use candor_daemon::supervise::{Load, Next, Supervised, Supervision};
use candor_diagnostics::counted;
use candor_linux::signal::{Signal, Signals};
use candor_output::{messages, say};
use candor_signal_service::file::{
    CLIENT_TIMEOUT_RANGE, LEAST_CLIENT_TIMEOUT, LISTEN, MOST_CLIENT_TIMEOUT, MOST_COALESCE,
};
use candor_signal_service::{
    BusAddress, ClientTimeouts, Config, Naming, Pace, Place, Service, Source, WebOrigin, dbus,
};
use candor_signals::Database;
use candor_time::Nanos;
use clap::{Args, ValueEnum};

use super::file::{self, Followed, Read};
use crate::Answer;
use crate::bus::live::database;
use crate::{color, duration};

/// How often to look whether to end, and whether ports are well.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);
/// The number of the file among what may come.
const FILES: u64 = 0;

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// A file that says what is served; it is read again when it changes. It takes the place of all
    /// options
    #[arg(value_name = "FILE", conflicts_with_all = ["ports", "databases", "listen", "coalesce", "pace", "dbus", "allow_origin", "websocket_silence", "sse_unread"])]
    file: Option<PathBuf>,
    /// A port to receive from, such as can0 or car=can2udp:; may be repeated
    #[arg(long = "port", value_name = "[NAME=]PORT", required_unless_present = "file")]
    ports: Vec<NamedPort>,
    /// A DBC file: of all buses, or NAME=FILE of one; may be repeated
    #[arg(long = "dbc", value_name = "[NAME=]FILE")]
    databases: Vec<String>,
    /// Where to serve: an address of this machine, or the file of a Unix socket as unix:PATH, which
    /// only this user may use; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: Vec<Place>,
    /// When the frames of recordings come: at their times, or as fast as all subscribers take their
    /// events, so that none misses one
    #[arg(long, value_enum, default_value_t = PaceName::Received)]
    pace: PaceName,
    /// A message bus on which to serve, too: session, system, or an address such as
    /// unix:path=/run/user/1000/bus; may be repeated. Needs a build with the feature `dbus`
    #[arg(long, value_name = "BUS")]
    dbus: Vec<BusAddress>,
    /// How long frames and events are gathered before they are handed on together; 0 for the
    /// lowest latency, which takes several times as much of the processor; at most 1s
    #[arg(long, value_name = "TIME", default_value = "1.5ms", allow_hyphen_values = true, value_parser = read_coalesce)]
    coalesce: Nanos,
    /// A page that may use the service beside its own, as scheme, host and port, such as
    /// http://localhost:5173; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<WebOrigin>,
    /// For how long a client of the WebSocket may send nothing, and answer no ping, before it is closed; 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "20s", allow_hyphen_values = true, value_parser = read_client_timeout)]
    websocket_silence: Nanos,
    /// For how long a client of Server-Sent Events may take nothing of what it was sent before it is closed; 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "60s", allow_hyphen_values = true, value_parser = read_client_timeout)]
    sse_unread: Nanos,
}

#[derive(Clone, Copy, ValueEnum)]
enum PaceName {
    Received,
    Subscribers,
}

impl From<PaceName> for Pace {
    fn from(name: PaceName) -> Self {
        match name {
            PaceName::Received => Self::Received,
            PaceName::Subscribers => Self::Subscribers,
        }
    }
}

fn read_coalesce(text: &str) -> Result<Nanos, String> {
    let time = duration::read(text)?;
    if time > MOST_COALESCE {
        return Err(format!("frames would wait for too long; use at most {MOST_COALESCE}"));
    }
    Ok(time)
}

fn read_client_timeout(text: &str) -> Result<Nanos, String> {
    let is_negative = text.starts_with('-');
    let time = if is_negative { Nanos::ZERO } else { duration::read(text)? };
    if !(LEAST_CLIENT_TIMEOUT..=MOST_CLIENT_TIMEOUT).contains(&time) {
        return Err(format!("use {CLIENT_TIMEOUT_RANGE}"));
    }
    Ok(time)
}

pub(crate) fn run(args: &ServeArgs) -> Answer {
    // Before any thread is started.
    let signals = Signals::open(&Signal::ALL).map_err(|error| error.to_string())?;
    // With the usual limit there is less room for clients.
    let _ = candor_linux::limits::allow_most_files();
    // Who does not read what is said must not stop the service.
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    match &args.file {
        Some(file) => serve_file(file, &signals),
        None => serve_options(args, &signals),
    }
}

/// Serves what a file says, and follows its changes.
fn serve_file(path: &Path, signals: &Signals) -> Answer {
    let Read { config, findings, included } = file::read(path, None)?;
    let Some(config) = config else {
        color::eprint_findings(&findings);
        return Ok(false);
    };
    file::warn(&findings);
    let followed = Followed::new(path, &config, included)?;
    let mut supervision = Supervision::new(Some(signals)).map_err(|error| error.to_string())?;
    supervision.add(&followed.follow, FILES).map_err(|error| error.to_string())?;
    let names: Vec<_> = config.sources.iter().map(|source| source.name.clone()).collect();
    let buses = config.dbus.clone();
    let service = Service::start_with(config, Naming::Always).map_err(|error| error.to_string())?;
    let serving = Serving { service, followed: Some(followed), is_over: false };
    serve(supervision, serving, &names, &buses)
}

fn serve_options(args: &ServeArgs, signals: &Signals) -> Answer {
    let names = titles(&args.ports);
    // Those that have the same name lose it.
    let given: Vec<_> = args.ports.iter().filter_map(|port| port.name.as_ref()).collect();
    let twice = |all: &[&String]| {
        let is_twice = |name: &&&String| all.iter().filter(|other| other == name).count() > 1;
        all.iter().find(is_twice).map(|name| name.to_string())
    };
    if let Some(twice) = twice(&given).or_else(|| twice(&names.iter().collect::<Vec<_>>())) {
        return Err(format!(
            "--port: two ports are called `{twice}`; write NAME=PORT with other names"
        ));
    }
    let sources: Result<Vec<_>, String> = args
        .ports
        .iter()
        .zip(&names)
        .map(|(port, name)| {
            let database = database_of(name, &args.databases)?.map(Arc::new);
            Ok(Source {
                name: name.clone(),
                address: port.address.clone(),
                database,
                pace: args.pace.into(),
            })
        })
        .collect();
    let sources = sources?;
    for of_bus in args.databases.iter().filter_map(|of_bus| split(of_bus).0) {
        if !names.iter().any(|name| name == of_bus) {
            return Err(format!(
                "--dbc {of_bus}=...: no port is called `{of_bus}`; there are {}",
                names.join(", ")
            ));
        }
    }
    let config = Config {
        sources,
        listen: args.listen.clone(),
        dbus: args.dbus.clone(),
        coalesce: args.coalesce,
        allow_origin: args.allow_origin.clone(),
        client_timeouts: ClientTimeouts {
            websocket_silence: args.websocket_silence,
            sse_unread: args.sse_unread,
        },
    };
    let supervision = Supervision::new(Some(signals)).map_err(|error| error.to_string())?;
    let service = Service::start(config).map_err(|error| error.to_string())?;
    serve(supervision, Serving { service, followed: None, is_over: false }, &names, &args.dbus)
}

/// Serves until the end. True unless the DBC files describe none of the frames that came; a service with a file, which somebody
/// stops, has told that by then, and has not failed.
fn serve(
    supervision: Supervision<'_>,
    mut serving: Serving,
    names: &[String],
    buses: &[BusAddress],
) -> Answer {
    let service = &serving.service;
    let what = match service.signals() {
        0 => "raw frames, without a DBC file".to_owned(),
        signals => counted(signals, "signal"),
    };
    let buses = buses.iter().map(|address| format!("{} at D-Bus {address}", dbus::NAME));
    let places: Vec<_> = service.places().iter().map(reached).chain(buses).collect();
    say!("serving {what} of {}: {}", names.join(", "), places.join(", "));
    supervision
        .run(&mut serving, "serving", STOP_CHECK_INTERVAL)
        .map_err(|error| error.to_string())?;
    for line in serving.service.last_news() {
        say!("{line}");
    }
    say!("{} served", counted(serving.service.frames(), "frame"));
    Ok(serving.followed.is_some() || !serving.service.describes_nothing())
}

/// The service, its file, and whether to end it.
struct Serving {
    service: Service,
    followed: Option<Followed>,
    is_over: bool,
}

impl Serving {
    /// Whether the file is to be read again.
    fn look(&mut self) -> Result<Next, candor_linux::Error> {
        self.followed.as_mut().map_or(Ok(Next::Wait), |followed| followed.follow.look())
    }
}

impl Supervised for Serving {
    type Error = candor_linux::Error;
    type Loaded = Option<Result<Read, String>>;

    fn came(&mut self, _: u64) -> Result<Next, Self::Error> {
        self.look()
    }

    fn tick(&mut self) -> Result<Next, Self::Error> {
        for line in self.service.news() {
            say!("{line}");
        }
        self.look()
    }

    fn reload(&mut self) -> Load<Self::Loaded> {
        match &self.followed {
            Some(followed) => {
                let read = followed.reload();
                Box::new(move || Some(read()))
            }
            None => Box::new(|| None),
        }
    }

    fn loaded(&mut self, loaded: Self::Loaded) -> String {
        match (&mut self.followed, loaded) {
            (Some(followed), Some(read)) => followed.loaded(read, &mut self.service),
            // There is nothing to be read: the terminal has gone.
            _ => {
                self.is_over = true;
                "ending".to_owned()
            }
        }
    }

    fn troubles(&self) -> Vec<String> {
        self.service.troubles()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// How a place is named by who goes there.
fn reached(place: &Place) -> String {
    match place {
        Place::Tcp(address) => format!("http://{address}/ and ws://{address}/api"),
        Place::Unix(_) => place.to_string(),
    }
}

/// The bus and the file of `NAME=FILE`.
fn split(text: &str) -> (Option<&str>, &Path) {
    match text.split_once('=') {
        Some((name, file)) if !name.contains(['/', '.']) => (Some(name), Path::new(file)),
        _ => (None, Path::new(text)),
    }
}

/// The database of a bus: its own one, or that of all.
fn database_of(name: &str, databases: &[String]) -> Result<Option<Database>, String> {
    let all: Vec<_> = databases.iter().map(|text| split(text)).collect();
    let of_bus = all.iter().filter(|(of_bus, _)| *of_bus == Some(name));
    let of_all = all.iter().filter(|(of_bus, _)| of_bus.is_none());
    let files: Vec<&(_, &Path)> = of_bus.clone().chain(of_all).collect();
    if of_bus.count() > 1 {
        return Err(format!("--dbc: `{name}` has several files; a bus has one"));
    }
    files.first().map(|(_, file)| database(file)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_needs_no_unit() {
        assert_eq!(read_coalesce("0"), Ok(Nanos::ZERO));
        assert_eq!(read_coalesce("2ms"), Ok(Nanos::from_millis(2)));
        assert!(read_coalesce("2").is_err());
        assert_eq!(read_coalesce("1s"), Ok(MOST_COALESCE));
        assert_eq!(
            read_coalesce("1h").unwrap_err(),
            "frames would wait for too long; use at most 1s"
        );
    }

    #[test]
    fn patience_has_bounds() {
        let times = ["1s", "20s", "1h", "0", "999ms", "61min"];
        let are_right = times.map(|time| read_client_timeout(time).is_ok());
        assert_eq!(are_right, [true, true, true, false, false, false]);
        let default = ClientTimeouts::default();
        assert_eq!(read_client_timeout("20s"), Ok(default.websocket_silence));
        assert_eq!(read_client_timeout("60s"), Ok(default.sse_unread));
    }

    #[test]
    fn a_file_may_be_that_of_one_bus() {
        for (text, bus, file) in [
            ("car.dbc", None, "car.dbc"),
            ("can0=car.dbc", Some("can0"), "car.dbc"),
            ("./a=b.dbc", None, "./a=b.dbc"),
        ] {
            assert_eq!(split(text), (bus, Path::new(file)), "{text}");
        }
    }
}
