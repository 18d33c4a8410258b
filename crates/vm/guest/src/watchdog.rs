//! The watchdog: an order that takes too long, in time of the guest, ends with a failure.

use std::thread;

use candor_linux::clock;
use candor_linux::realtime::{Policy, Task, set_policy};
use candor_protocol::order::{Measurement, Pace};
use candor_protocol::{Message, Order};
use candor_time::{Monotonic, Nanos};

use crate::host;

/// For everything that is done once in an order.
const MARGIN: Nanos = Nanos::from_secs(60);
/// For one trial, or for one frame beyond its own time.
const EACH: Nanos = Nanos::from_millis(20);
/// The longest classical frame in bits, with room for CAN FD at its slower rate.
const FRAME_BITS: u64 = 800;

/// Lets the machine end with a failure unless it has ended by itself in time.
pub(crate) fn start(order: &Order, hello: &Message) -> std::io::Result<()> {
    let limit = limit(order);
    let hello = hello.clone();
    thread::Builder::new().name("watchdog".into()).spawn(move || {
        // Above whatever hangs. Without the right to it the machine ends a little later.
        let _ = set_policy(Task::This, Policy::Fifo(99));
        let _ = clock::sleep_until(clock::now::<Monotonic>() + limit);
        let reason = format!(
            "the order: it took longer than {} s of the guest's time; send fewer frames, use a \
             shorter timeout, a lower bit_error_rate, or find out what hangs",
            limit.as_nanos() / 1_000_000_000
        );
        host::end(&[hello, Message::Failed(reason)])
    })?;
    Ok(())
}

/// How long an order may take.
fn limit(order: &Order) -> Nanos {
    match order {
        Order::Measure(measurement) => {
            let warm_up_ns = measurement.warm_up.map_or(0, |it| it.longest_whole_ns());
            let frames = of_frames(measurement) + of_faults(measurement);
            MARGIN + Nanos::from_nanos(warm_up_ns.saturating_add(measurement.timeout_ns)) + frames
        }
        Order::Conform(trials) | Order::ConformDriver(_, trials) => {
            let frames: usize = trials.iter().map(|trial| trial.frames.len() + 1).sum();
            MARGIN + times(EACH, frames as u64)
        }
        Order::Command(_) => MARGIN,
    }
}

fn of_frames(measurement: &Measurement) -> Nanos {
    let each = match measurement.traffic.pace {
        Pace::OneAtATime { longest_ns, timeout_ns, .. } => {
            Nanos::from_nanos(longest_ns.saturating_add(timeout_ns))
        }
        Pace::Paced { period_percent, gap_ns } => {
            let bit_rate = u64::from(measurement.source.bitrate.max(1));
            let frame = FRAME_BITS * 1_000_000_000 / bit_rate;
            let period_ns = frame.saturating_mul(u64::from(period_percent)) / 100;
            Nanos::from_nanos(period_ns.saturating_add(gap_ns))
        }
        Pace::OpenLoop { longest_ns, .. } => Nanos::from_nanos(longest_ns),
        Pace::Offered { lasts_ns } => {
            return Nanos::from_nanos(lasts_ns) + times(EACH, measurement.traffic.count);
        }
        Pace::RoundTrips { period_ns, timeout_ns, linger_ns, .. } => {
            let each = Nanos::from_nanos(period_ns.saturating_add(timeout_ns)) + EACH;
            return Nanos::from_nanos(linger_ns) + times(each, measurement.traffic.count);
        }
    };
    times(each + EACH, measurement.traffic.count)
}

/// Each frame may take its controller off the bus, which starts again after a while.
fn of_faults(measurement: &Measurement) -> Nanos {
    let away = measurement.faults.iter().filter_map(|it| it.restart_ns).max().unwrap_or(0);
    times(Nanos::from_nanos(away), measurement.traffic.count)
}

fn times(each: Nanos, count: u64) -> Nanos {
    Nanos::from_nanos(each.as_nanos().saturating_mul(count))
}
