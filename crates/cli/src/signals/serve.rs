//! `candor signals serve`: the signal service, until it is asked to end.

use std::path::Path;
use std::sync::atomic::Ordering;

use candor_bus::named::{NamedPort, titles};
use candor_bus::outlet::Stop;
use candor_diagnostics::counted;
use candor_output::{messages, say};
use candor_serve::{BusAddress, Config, Place, Service, Source, dbus};
use candor_service::supervise::{Next, Supervised, Supervision};
use candor_signals::Database;
use candor_time::Nanos;
use clap::Args;

use crate::Answer;
use crate::bus::live::{catch_signals, database};

/// How often to look whether to end, and whether ports are well.
const ATTENTION: Nanos = Nanos::from_millis(100);

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// A port to receive from, such as can0 or car=can2udp:; may be repeated
    #[arg(long = "port", value_name = "[NAME=]PORT", required = true)]
    ports: Vec<NamedPort>,
    /// A DBC file: of all buses, or NAME=FILE of one; may be repeated
    #[arg(long = "dbc", value_name = "[NAME=]FILE")]
    databases: Vec<String>,
    /// Where to serve: an address of this machine, or the file of a Unix socket as unix:PATH, which
    /// only this user may use; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1234")]
    listen: Vec<Place>,
    /// A message bus on which to serve, too: session, system, or an address such as
    /// unix:path=/run/user/1000/bus; may be repeated. Needs a build with the feature `dbus`
    #[arg(long, value_name = "BUS")]
    dbus: Vec<BusAddress>,
    /// How long frames and events are gathered before they are handed on together; 0 for the
    /// lowest latency, which takes several times as much of the processor
    #[arg(long, value_name = "TIME", default_value = "1.5ms", value_parser = read_time)]
    coalesce: Nanos,
}

/// A duration; zero needs no unit.
fn read_time(text: &str) -> Result<Nanos, String> {
    match text {
        "0" => Ok(Nanos::ZERO),
        _ => text.parse().map_err(|error: candor_time::ParseNanosError| error.to_string()),
    }
}

pub(crate) fn run(args: &ServeArgs) -> Answer {
    let stop = catch_signals();
    // Who does not read what is said must not stop the service.
    messages::in_background().map_err(|error| format!("no thread can be started: {error}"))?;
    let names = titles(&args.ports);
    if let Some(twice) =
        names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1)
    {
        return Err(format!(
            "--port: two ports are called `{twice}`; write NAME=PORT with other names"
        ));
    }
    let sources: Result<Vec<_>, String> = args
        .ports
        .iter()
        .zip(&names)
        .map(|(port, name)| {
            let database = database_of(name, &args.databases)?;
            Ok(Source { name: name.clone(), address: port.address.clone(), database })
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
    let signals: usize =
        sources.iter().filter_map(|source| source.database.as_ref()).map(count).sum();
    let config = Config {
        sources,
        listen: args.listen.clone(),
        dbus: args.dbus.clone(),
        coalesce: args.coalesce,
    };
    let supervision = Supervision::new(None).map_err(|error| error.to_string())?;
    let service = Service::start(config).map_err(|error| error.to_string())?;
    let what = if signals == 0 {
        "raw frames, without a DBC file".to_owned()
    } else {
        counted(signals, "signal")
    };
    let buses = args.dbus.iter().map(|address| format!("{} at D-Bus {address}", dbus::NAME));
    let places: Vec<_> = service.places().iter().map(reached).chain(buses).collect();
    say!("serving {what} of {}: {}", names.join(", "), places.join(", "));
    let mut serving = Serving { service, stop };
    supervision.run(&mut serving, "serving", ATTENTION).map_err(|error| error.to_string())?;
    say!("{} served", counted(serving.service.frames(), "frame"));
    Ok(true)
}

/// The service, and whether to end it.
struct Serving {
    service: Service,
    stop: &'static Stop,
}

impl Supervised for Serving {
    type Error = candor_linux::Error;

    fn came(&mut self, _: u64) -> Result<Next, Self::Error> {
        Ok(Next::Wait)
    }

    fn tick(&mut self) -> Result<Next, Self::Error> {
        for line in self.service.news() {
            say!("{line}");
        }
        Ok(Next::Wait)
    }

    fn reload(&mut self) -> String {
        "serving".to_owned()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How a place is named by who goes there.
fn reached(place: &Place) -> String {
    match place {
        Place::Tcp(address) => format!("http://{address}/ and ws://{address}/api"),
        Place::Unix(_) => place.to_string(),
    }
}

fn count(database: &Database) -> usize {
    database.messages().iter().map(|message| message.signals.len()).sum()
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
        assert_eq!(read_time("0"), Ok(Nanos::ZERO));
        assert_eq!(read_time("2ms"), Ok(Nanos::from_millis(2)));
        assert!(read_time("2").is_err());
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
