//! The signal service as a process.

use std::path::{Path, PathBuf};
use std::thread;

use candor_signal_service::{
    Batch, ClientTimeouts, Config, Content, Filter, Local, Pace, Pattern, Place, Service, Source,
};
use candor_time::Nanos;

use super::subscriber::arrived;
use super::times::{self, NEVER};
use super::worker::{Report, answer};

/// Serves the frames of a port until there are no more lines, also to subscribers in this process.
pub(super) fn serve(
    port: &str,
    coalesce: Nanos,
    dbus: Option<&str>,
    (events, in_process): (u64, Vec<PathBuf>),
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Report, String> {
    let address = port.parse().map_err(|error| format!("{port}: {error}"))?;
    let source = Source { name: "udpcan".into(), address, database: None, pace: Pace::Received };
    let dbus = dbus.map(str::parse).into_iter().collect::<Result<Vec<_>, _>>()?;
    let listen = vec![Place::Tcp(([127, 0, 0, 1], 0).into())];
    let service = Service::start(Config {
        sources: vec![source],
        listen,
        dbus,
        coalesce,
        allow_origin: Vec::new(),
        client_timeouts: ClientTimeouts::default(),
    });
    let service = service.map_err(|error| error.to_string())?;
    let mut subscribers = Vec::new();
    for arrivals in in_process {
        let mut local = service.local().map_err(|error| error.to_string())?;
        local.subscribe(Pattern::Raw, Filter::default(), false);
        subscribers.push(thread::spawn(move || subscribe(local, events, &arrivals)));
    }
    let url = service.places().iter().find_map(|place| match place {
        Place::Tcp(address) => Some(format!("ws://{address}/api")),
        Place::Unix(_) => None,
    });
    answer(&url.unwrap_or_default())?;
    while next_line().is_some() {}
    let report = Report { events: service.frames(), lost: service.lost(), ..Report::default() };
    drop(service);
    for subscriber in subscribers {
        subscriber.join().map_err(|_| "a subscriber in the process panicked")??;
    }
    Ok(report)
}

/// A subscriber in this process.
fn subscribe(mut local: Local, events: u64, arrivals: &Path) -> Result<(), String> {
    let mut times_ns = vec![NEVER; usize::try_from(events).unwrap_or(0)];
    let mut batch = Batch::default();
    while local.next_batch(&mut batch) {
        for event in batch.events() {
            if let Content::Data(data) = event.content {
                arrived(data, &mut times_ns)?;
            }
        }
    }
    times::write(arrivals, &times_ns).map_err(|error| error.to_string())
}
