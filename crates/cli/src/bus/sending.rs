//! What commands that send have in common: ports, and the report in the end.

use candor_bus::outlet::{Delivery, Finished, Outlet, RealTime, Stop};
use candor_bus::schedule::{Figures, Punctuality};
use candor_linux::realtime;
use candor_output::say;
use candor_port::Address;
use candor_time::Nanos;
use clap::Args;

use super::json::Delivered;
use crate::json;
use crate::output::{duration, print};

/// How to send.
#[derive(Args)]
pub(crate) struct SendingArgs {
    /// How long a frame may wait for room, or for the interface to come back, before it is refused
    #[arg(long, value_name = "TIME", default_value_t = Outlet::ROOM_TIMEOUT)]
    pub(super) wait: Nanos,
    /// Print JSON Lines: an object of type "delivery" for each port
    #[arg(long)]
    pub(super) json: bool,
}

impl SendingArgs {
    /// Opens ports to send to.
    pub(super) fn open<'a>(
        &self,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<Vec<Outlet>, String> {
        let open = |address| Outlet::open(address, self.wait).map_err(|error| error.to_string());
        addresses.into_iter().map(open).collect()
    }

    /// Waits until everything has left, closes the ports, and tells how frames fared. Whether all of them
    /// were sent.
    pub(super) fn report(
        &self,
        outlets: Vec<Outlet>,
        punctuality: Option<&Punctuality>,
        is_flood: bool,
        stop: &Stop,
    ) -> Result<bool, String> {
        let outlets: Vec<_> =
            outlets.into_iter().map(|outlet| outlet.finish(&mut RealTime, stop)).collect();
        self.tell(&outlets, punctuality, is_flood)
    }

    /// Tells of ports that were not opened, since nothing was to be sent.
    pub(super) fn report_none<'a>(
        &self,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<bool, String> {
        let none = |address: &Address| Finished {
            name: address.to_string(),
            delivery: Delivery::default(),
            trouble: None,
            is_drained: true,
        };
        let outlets: Vec<_> = addresses.into_iter().map(none).collect();
        self.tell(&outlets, None, false)
    }

    fn tell(
        &self,
        outlets: &[Finished],
        punctuality: Option<&Punctuality>,
        is_flood: bool,
    ) -> Result<bool, String> {
        let figures = punctuality.and_then(Punctuality::figures);
        if self.json {
            // In a flood frames have no times at which they could be punctual.
            let planned = figures.filter(|_| !is_flood);
            let object = |outlet| Delivered { outlet, figures, planned };
            print(&json::lines(outlets.iter().map(object))?)?;
        }
        for Finished { name, delivery, trouble, is_drained } in outlets {
            if let Some(trouble) = trouble {
                say!("{name}: {trouble}");
            }
            if !is_drained {
                say!("{name}: some frames may not have been sent yet");
            }
            say!("{name}: {delivery}");
        }
        let sent = punctuality.map_or(0, Punctuality::count);
        if let Some(figures) = figures {
            say!("{}", if is_flood { speed(&figures, sent) } else { summary(&figures) });
        }
        Ok(outlets.iter().all(|outlet| outlet.delivery.is_complete()))
    }
}

/// Makes this thread wake up when it asked for it: by default, the kernel may be 50 us late.
pub(super) fn be_punctual() {
    // If the kernel refuses, the report tells how punctual frames were all the same.
    let _ = realtime::set_timer_slack(1);
}

fn nanos(duration_of: Nanos) -> String {
    duration(duration_of.as_nanos() as f64)
}

/// How punctual frames were, for people.
fn summary(figures: &Figures) -> String {
    format!(
        "took {} of {} planned (drift {}); frames were late by {} at p50, {} at p99, {} at most",
        nanos(figures.took),
        nanos(figures.planned),
        duration(figures.drift_ns as f64),
        nanos(figures.late_p50),
        nanos(figures.late_p99),
        nanos(figures.late_max),
    )
}

/// How fast frames went that had no times.
fn speed(figures: &Figures, sent: u64) -> String {
    // From the first frame to the last there is one less.
    let rate = sent.saturating_sub(1) as f64 / figures.took.as_secs_f64();
    match rate.is_finite() {
        true => format!("took {}: {rate:.0} frames/s", nanos(figures.took)),
        false => format!("took {}", nanos(figures.took)),
    }
}
