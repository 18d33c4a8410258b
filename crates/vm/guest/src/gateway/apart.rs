//! Gateways that are a loop in a thread with files of its own, as if it were a program.

use std::sync::atomic::{AtomicU32, Ordering};

use candor_linux::clock::{self, Switches, ThreadCpu, Usage};
use candor_linux::quick::{ThreadApart, spawn_apart};
use candor_linux::realtime::{Task, set_policy};
use candor_protocol::channel;
use candor_protocol::order::Measurement;
use candor_protocol::report::Stamp;
use candor_time::{Instant, Nanos};

use super::{Tally, policy};
use crate::failure::{Context, FAULT, Failure};

const PLACE: &str = "gateway";

/// How often loops were told to count from there on.
static ANEW: AtomicU32 = AtomicU32::new(0);

/// Lets loops count from here on.
pub(super) fn count_anew() {
    ANEW.fetch_add(1, Ordering::Release);
}

/// The loop at work.
pub(crate) struct Running(ThreadApart);

/// What the thread hands over: overflow, refused, nanoseconds of its processor, switches, frames that it read; or why
/// it failed.
type Report = Result<(u64, u64, u64, (u64, u64), Vec<Stamp>), String>;

impl Running {
    /// Starts a thread that does `apart`, which is [`perform`] with a loop.
    pub(super) fn start(
        order: &Measurement,
        apart: fn(&[u8], &mut dyn FnMut()) -> Vec<u8>,
    ) -> Result<Self, Failure> {
        let running = Self(spawn_apart(PLACE, channel::encode(order), apart).at(PLACE, FAULT)?);
        if !running.0.wait_until_ready() {
            // It ended before it was ready, and says why.
            running.stop()?;
            return Err(Failure::new(PLACE, "it ended at once", FAULT));
        }
        Ok(running)
    }

    /// Waits for its end: the interfaces are down.
    pub(super) fn stop(self) -> Result<Tally, Failure> {
        let bytes = self.0.join().at(PLACE, FAULT)?;
        let bytes = bytes.ok_or_else(|| Failure::new(PLACE, "it panicked", FAULT))?;
        let reported = channel::decode::<Report>(&bytes, 0).at(PLACE, FAULT)?;
        let (reported, _) =
            reported.ok_or_else(|| Failure::new(PLACE, "it does not answer", FAULT))?;
        let (overflow, refused, cpu_ns, (voluntary, involuntary), delivered) =
            reported.map_err(Failure::reported)?;
        let switches = Switches { voluntary, involuntary };
        let cpu = Nanos::from_nanos(cpu_ns);
        Ok(Tally { overflow, refused, cpu, switches, delivered, ..Tally::default() })
    }
}

/// What a loop has used since it was ready, or was told to count anew.
pub(super) struct LoopMeter {
    switches: Switches,
    cpu: Instant<ThreadCpu>,
    anew: u32,
}

impl LoopMeter {
    /// Begins to measure.
    pub(super) fn start() -> Self {
        let anew = ANEW.load(Ordering::Acquire);
        Self { switches: Usage::of_thread().switches, cpu: clock::now(), anew }
    }

    /// Whether it is to count anew, which it does then. Called with each frame that comes.
    #[inline]
    pub(super) fn counts_anew(&mut self) -> bool {
        let is_anew = ANEW.load(Ordering::Relaxed) != self.anew;
        if is_anew {
            *self = Self::start();
        }
        is_anew
    }

    /// With what the loop counted itself: frames that its socket lost, and those that were refused.
    pub(super) fn finish(self, overflow: u64, refused: u64) -> Tally {
        let after = Usage::of_thread().switches;
        let switches = after.since(self.switches);
        let cpu = clock::now::<ThreadCpu>() - self.cpu;
        Tally { overflow, refused, cpu, switches, ..Tally::default() }
    }
}

/// What the thread does: takes its order and its priority, works, and reports. The loop calls `ready` when it is.
pub(super) fn perform(
    order: &[u8],
    ready: &mut dyn FnMut(),
    work: fn(&Measurement, &mut dyn FnMut()) -> Result<Tally, Failure>,
) -> Vec<u8> {
    let mut run = || {
        let order = channel::decode::<Measurement>(order, 0).at(PLACE, FAULT)?;
        let (order, _) = order.ok_or_else(|| Failure::new(PLACE, "it has no order", FAULT))?;
        let policy = policy(order.settings.gateway_priority);
        set_policy(Task::This, policy).at(PLACE, "use a priority from 0 to 99")?;
        work(&order, ready)
    };
    let reported: Report = run()
        .map(|tally| {
            let Switches { voluntary, involuntary } = tally.switches;
            let switches = (voluntary, involuntary);
            (tally.overflow, tally.refused, tally.cpu.as_nanos(), switches, tally.delivered)
        })
        .map_err(|failure: Failure| failure.to_string());
    channel::encode(&reported)
}
