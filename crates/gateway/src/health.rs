//! Whether a gateway is well: what `candor route stats --check` and `/healthz` tell.

pub use candor_daemon::health::{MaxSilence, Problem};
use candor_daemon::health::{Silence, too_silent};
use candor_time::Nanos;

use crate::Snapshot;

/// What is not as it should be: rules that were refused, ports that do not work, and buses that are silent for longer than
/// `limits` allow.
///
/// # Errors
/// A limit for a bus that there is not, in one sentence.
pub fn problems(snapshot: &Snapshot, limits: &[MaxSilence]) -> Result<Vec<Problem>, String> {
    let ports = &snapshot.ports;
    let silence = |ns: u64| Nanos::from_nanos(ns);
    let silences: Vec<Silence<'_>> =
        ports.iter().map(|port| (port.bus.as_str(), port.silent_ns.map(silence))).collect();
    let too_silent = too_silent(&silences, limits)?;
    let rejected = snapshot.rejected.iter().map(|why| {
        let why = why.lines().next().unwrap_or_default();
        Problem::new(format!("the rules on disk are not in use: {why}"))
    });
    let of_ports =
        ports.iter().filter_map(|port| Some(Problem::of_bus(&port.bus, port.trouble.as_deref()?)));
    Ok(rejected.chain(of_ports).chain(too_silent).collect())
}
