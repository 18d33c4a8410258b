//! The signal service as a process.

use candor_serve::{Config, Place, Service, Source};
use candor_time::Nanos;

use super::worker::{Report, answer};

/// Serves the frames of a port until there are no more lines.
pub(super) fn serve(
    port: &str,
    coalesce: Nanos,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Report, String> {
    let address = port.parse().map_err(|error| format!("{port}: {error}"))?;
    let source = Source { name: "udpcan".into(), address, database: None };
    let listen = vec![Place::Tcp(([127, 0, 0, 1], 0).into())];
    let service =
        Service::start(Config { sources: vec![source], listen, dbus: Vec::new(), coalesce });
    let service = service.map_err(|error| error.to_string())?;
    let url = service.places().iter().find_map(|place| match place {
        Place::Tcp(address) => Some(format!("ws://{address}/api")),
        Place::Unix(_) => None,
    });
    answer(&url.unwrap_or_default())?;
    while next_line().is_some() {}
    Ok(Report { events: service.frames(), lost: service.lost(), ..Report::default() })
}
