//! The sender as a process: it sends a trace at the times in it.

use std::path::Path;

use candor_bus::outlet::{Outcome, Outlet, RealTime, Stop, sleep_until};
use candor_linux::{clock, realtime};
use candor_time::{Monotonic, Nanos};

use super::times::{self, NEVER};
use super::worker::{Report, answer};

/// The first frame leaves so long after it was told to begin.
const LEAD: Nanos = Nanos::from_millis(10);

/// Reads a trace, waits for a line, and sends it; a frame that is late makes no other late.
pub(super) fn inject(
    trace: &Path,
    port: &str,
    events: u64,
    departures: &Path,
    next_line: &mut dyn FnMut() -> Option<String>,
) -> Result<Report, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{port}: {error}");
    let address = port.parse().map_err(|error: candor_port::AddressError| failed(&error))?;
    let outlet = Outlet::open(&address, Nanos::ZERO).map_err(|error| failed(&error))?;
    let mut outlets = [outlet];
    // Before anything is measured: reading a file while sending would make frames late.
    let mut frames = Vec::with_capacity(usize::try_from(events).unwrap_or(0));
    let mut recording = candor_recording::open(trace, None).map_err(|error| error.to_string())?;
    for record in &mut recording {
        let record = record.map_err(|error| error.to_string())?;
        frames.push((record.time_ns, record.frame));
    }
    let Some((first_ns, _)) = frames.first().copied() else {
        return Err(format!("{}: there are no frames", trace.display()));
    };
    let mut times_ns = vec![NEVER; frames.len()];
    // A timer of 50 us slack would send frames in groups.
    realtime::set_timer_slack(1).map_err(|error| error.to_string())?;
    answer(&"ready")?;
    if next_line().is_none() {
        return Ok(Report::default());
    }
    let mut report = Report::default();
    let (mut time, stop) = (RealTime, Stop::new(false));
    let begin = clock::now::<Monotonic>() + LEAD;
    for ((time_ns, frame), left_ns) in frames.iter().zip(&mut times_ns) {
        let due = begin + Nanos::from_nanos(time_ns.saturating_sub(first_ns));
        sleep_until(&mut outlets, due, &mut time, &stop);
        let left = clock::now::<Monotonic>();
        let [outlet] = &mut outlets;
        match outlet.send(frame, &mut time, &stop) {
            Outcome::Taken(_) => {
                *left_ns = left.as_nanos();
                report.events += 1;
                report.latest_ns = report.latest_ns.max((left - due).as_nanos());
            }
            Outcome::Refused(_) | Outcome::Stopped => report.lost += 1,
        }
    }
    let [outlet] = &mut outlets;
    outlet.drain(&mut time, &stop);
    times::write(departures, &times_ns).map_err(|error| error.to_string())?;
    answer(&report)?;
    while next_line().is_some() {}
    Ok(report)
}
