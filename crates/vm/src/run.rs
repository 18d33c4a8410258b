//! An order, performed by a restored machine.

use std::path::Path;

use candor_protocol::order::Pace;
use candor_protocol::{Order, Report, channel};
use serde_json::{Value, json};

use crate::ending::{self, Ended, evaluate, guest_seconds, is_past};
use crate::error::Error;
use crate::machine::Machine;
use crate::options::quoted;
use crate::outside;
use crate::qmp::{Event, Process};
use crate::reserved_cpu::agreed;
use crate::scratch::Scratch;
use crate::watch::Watch;

/// Time of its own that a guest gets for whatever an order does besides sending frames.
const MARGIN_S: u64 = 600;

impl Machine {
    /// Performs `order` on this machine, from the state in which it was saved. A measurement that may
    /// have been disturbed is repeated until two agree.
    ///
    /// # Errors
    /// As [`Machine::ready`]; or the guest dies, hangs, reports a failure, or reports nonsense; or
    /// measurements are disturbed again and again.
    pub fn run(&self, order: &Order, watch: &dyn Watch) -> Result<Report, Error> {
        let run = || self.run_with(order, &[], watch);
        match order {
            Order::Measure(_) => agreed(run),
            Order::Conform(_) | Order::ConformDriver(..) | Order::Command(_) => {
                run().map(|(report, _)| report)
            }
        }
    }

    /// Performs `order` once; tells whether nothing could disturb it. `options` are more options of
    /// QEMU, which change nothing that the guest could notice.
    pub(crate) fn run_with(
        &self,
        order: &Order,
        options: &[String],
        watch: &dyn Watch,
    ) -> Result<(Report, bool), Error> {
        let saved = self.saved_state(watch)?;
        let mut scratch = Scratch::new(&channel::encode(&order.for_guest()))?;
        let mut command = self.command(&saved.initramfs, &scratch.files());
        let measurement = match order {
            Order::Measure(measurement) => Some(measurement),
            Order::Conform(_) | Order::ConformDriver(..) | Order::Command(_) => None,
        };
        if let Some(library) = &self.timed_bus {
            let plan = measurement.map(|it| outside::plan(it)).transpose()?;
            command.args(outside::options(library, &mut scratch, plan.as_deref())?);
        }
        command.args(["-incoming", "defer"]).args(options);
        let mut process = Process::start(&mut command, watch)?;
        scratch.hide();
        restored(&mut process, &saved.state, watch)?;
        let limit_s = guest_seconds(&mut process, watch)? + limit_s(order);
        process.go_on(watch)?;

        loop {
            match process.event_or_idle(watch)? {
                Some(Event::Ended) => break,
                Some(Event::Named(name)) if name == "GUEST_PANICKED" => {
                    process.go_on(watch)?;
                }
                Some(Event::Named(_)) => {}
                None if is_past(&mut process, limit_s, watch)? => {
                    let release = &self.identity().release;
                    let reason = format!(
                        "the guest with Linux {release} hangs: it did not end in time (its own)"
                    );
                    return Err(Error::Guest { reason, console: scratch.console() });
                }
                None => {}
            }
        }
        let status = process.wait()?.code();
        let bytes = scratch.report()?;
        let mut report =
            evaluate(&self.identity().release, status, &bytes).map_err(|reason| match reason {
                Ended::Failed(reason) => Error::Other(reason),
                Ended::Died(mut reason) => {
                    // What QEMU, or a library in it, says of its end.
                    let said = process.complaints();
                    if !said.trim().is_empty() {
                        reason += &format!(": {}", said.trim());
                    }
                    reason += ending::known_fault(&self.identity().qemu, status).unwrap_or("");
                    Error::Guest { reason, console: scratch.console() }
                }
            })?;
        if let (Some(_), Some(measurement)) = (&self.timed_bus, measurement) {
            outside::add_to(&mut report, measurement, &scratch.records()?)?;
        }
        Ok((report, process.is_undisturbed()))
    }
}

/// Waits until a machine has its saved state.
fn restored(process: &mut Process, state: &Path, watch: &dyn Watch) -> Result<(), Error> {
    let broken = |reason: &str| {
        let state = state.display();
        Error::Other(format!(
            "the saved machine in {state} cannot be restored{reason}; remove that file and try again"
        ))
    };
    let ask = |process: &mut Process, command: &str, arguments: Value| {
        process.execute(command, arguments, watch).map_err(|error| match process.has_ended() {
            true => broken(&format!(" ({error})")),
            false => error,
        })
    };
    ask(process, "migrate-incoming", json!({"uri": format!("exec:cat {}", quoted(state))}))?;
    loop {
        let status = ask(process, "query-migrate", json!({}))?;
        match status.get("status").and_then(Value::as_str) {
            Some("completed") => return Ok(()),
            Some("failed") => return Err(broken("")),
            _ => process.idle(watch)?,
        }
    }
}

/// How long a guest may take for an order, in seconds of its own time.
fn limit_s(order: &Order) -> u64 {
    match order {
        Order::Measure(measurement) => {
            let traffic = &measurement.traffic;
            // The longest classical frame at the bit rate of the bus; CAN FD ones are shorter.
            let frame_ns = 200 * 1_000_000_000 / u64::from(measurement.source.bitrate.max(1));
            let each_ns = match traffic.pace {
                Pace::OneAtATime { longest_ns, timeout_ns, .. } => {
                    longest_ns.saturating_add(timeout_ns)
                }
                Pace::OpenLoop { longest_ns, .. } => longest_ns.max(frame_ns),
                // Each takes its time, and then that of those before it.
                Pace::Offered { lasts_ns } => {
                    (lasts_ns / traffic.count.max(1)).saturating_add(frame_ns)
                }
                Pace::Paced { period_percent, gap_ns } => {
                    (frame_ns * u64::from(period_percent) / 100).saturating_add(gap_ns)
                }
                Pace::RoundTrips { period_ns, timeout_ns, .. } => {
                    period_ns.saturating_add(timeout_ns).max(2 * frame_ns)
                }
            };
            // Each may take its controller off the bus, which starts again after a while.
            let away_ns = measurement.faults.iter().filter_map(|it| it.restart_ns).max();
            let each_ns = each_ns.saturating_add(away_ns.unwrap_or(0));
            let warm_up_ns = measurement.warm_up.map_or(0, |it| it.longest_whole_ns());
            let frames_ns = traffic.count.saturating_mul(each_ns).saturating_add(warm_up_ns);
            let frames_ns = frames_ns.saturating_add(measurement.timeout_ns);
            MARGIN_S.saturating_add(frames_ns / 1_000_000_000)
        }
        Order::Conform(trials) | Order::ConformDriver(_, trials) => MARGIN_S + trials.len() as u64,
        Order::Command(_) => MARGIN_S,
    }
}
