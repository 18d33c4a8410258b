//! The papers' user-space gateway: read a frame, write it, nothing else. No rules, no time stamps,
//! default sockets.

use candor_linux::can::Socket;
use candor_linux::clock::{self, Switches, ThreadCpu, Usage};
use candor_linux::quick::{ThreadApart, spawn_apart};
use candor_linux::realtime::{Task, set_policy};
use candor_linux::{Errno, Sent, state};
use candor_protocol::order::Measurement;
use candor_protocol::{channel, interface};
use candor_time::Nanos;

use super::{Tally, policy};
use crate::failure::{Context, FAULT, Failure};

const PLACE: &str = "gateway";
const REMEDY: &str = "see the console";

/// The gateway at work: a thread with files of its own, as if it were a program.
pub(crate) struct Running(ThreadApart);

/// What the thread hands over: overflow, refused, nanoseconds of its processor, switches; or why it
/// failed.
type Report = Result<(u64, u64, u64, (u64, u64)), String>;

impl Running {
    pub(super) fn start(order: &Measurement) -> Result<Self, Failure> {
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
        let (overflow, refused, cpu_ns, (voluntary, involuntary)) =
            reported.map_err(Failure::reported)?;
        let switches = Switches { voluntary, involuntary };
        let cpu = Nanos::from_nanos(cpu_ns);
        Ok(Tally { overflow, refused, cpu, switches, ..Tally::default() })
    }
}

/// The thread. It calls `ready` when it is.
fn apart(order: &[u8], ready: &mut dyn FnMut()) -> Vec<u8> {
    let mut run = || {
        let order = channel::decode::<Measurement>(order, 0).at(PLACE, FAULT)?;
        let (order, _) = order.ok_or_else(|| Failure::new(PLACE, "it has no order", FAULT))?;
        let policy = policy(order.settings.gateway_priority);
        set_policy(Task::This, policy).at(PLACE, "use a priority from 0 to 99")?;
        work(&order, ready)
    };
    let reported: Report = run().map_err(|failure: Failure| failure.to_string());
    channel::encode(&reported)
}

fn work(
    order: &Measurement,
    ready: &mut dyn FnMut(),
) -> Result<(u64, u64, u64, (u64, u64)), Failure> {
    let input = Socket::open(interface::SOURCE).at(PLACE, REMEDY)?;
    let output = Socket::open(interface::TARGET).at(PLACE, REMEDY)?;
    if order.traffic.fd_flags.is_some() {
        input.accept_fd().at(PLACE, REMEDY)?;
        output.accept_fd().at(PLACE, REMEDY)?;
    }
    if let Some(bytes) = order.settings.receive_buffer {
        input.set_receive_buffer(bytes).at(PLACE, REMEDY)?;
    }
    let mut refused = 0;
    ready();
    let before = (Usage::of_thread().switches, clock::now::<ThreadCpu>());
    loop {
        match input.receive() {
            Ok(Some(frame)) => match output.send(&frame).at(PLACE, REMEDY)? {
                Sent::Taken => {}
                Sent::QueueFull | Sent::WouldBlock => refused += 1,
            },
            Ok(None) => {}
            // The interface was stopped: the way in which a gateway is ended.
            Err(error) if error.errno().and_then(Errno::name) == Some("ENETDOWN") => break,
            Err(error) => return Err(error).at(PLACE, REMEDY),
        }
    }
    let switches = Usage::of_thread().switches;
    let cpu = clock::now::<ThreadCpu>() - before.1;
    let voluntary = switches.voluntary - before.0.voluntary;
    let involuntary = switches.involuntary - before.0.involuntary;
    let overflow = state::memory(&input).at(PLACE, REMEDY)?.dropped.into();
    Ok((overflow, refused, cpu.as_nanos(), (voluntary, involuntary)))
}
