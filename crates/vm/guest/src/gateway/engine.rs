//! Our rule engine as an ordinary program: one thread that waits for any of its interfaces, reads a
//! frame, decides, writes.

use candor_bed::order::Measurement;
use candor_bed::report::JobCount;
use candor_causes::Cause;
use candor_engine::Engine;
use candor_linux::can::Socket;
use candor_linux::poll::{Interest, Poll};
use candor_linux::state;

use super::egress::{Sockets, sources};
use super::{Meter, Tally, is_stopped};
use crate::failure::{Context, FAULT, Failure};

const REMEDY: &str = "see the console";

pub(super) fn run(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let table = &order.rules;
    let mut engine = Engine::new(table);
    let mut egress = Sockets::open(table, Socket::send_bytes)?;
    let mut inputs = Vec::new();
    for bus in sources(table) {
        let Some(interface) = table.buses.get(usize::from(bus.0)) else { continue };
        let socket = Socket::open(&interface.port).at("gateway", REMEDY)?;
        socket.accept_fd().at("gateway", REMEDY)?;
        if let Some(bytes) = order.settings.receive_buffer {
            socket.set_receive_buffer(bytes).at("gateway", REMEDY)?;
        }
        inputs.push((bus, socket));
    }
    let mut poll = Poll::new(inputs.len()).at("gateway", FAULT)?;
    for (token, (_, socket)) in (0..).zip(&inputs) {
        poll.add(socket, Interest::Read, token).at("gateway", FAULT)?;
    }
    let mut tally = Tally::default();
    ready();
    let meter = Meter::start();
    'forever: loop {
        for token in poll.wait(None).at("gateway", FAULT)? {
            let Some((bus, socket)) = inputs.get(token as usize) else { continue };
            match socket.receive() {
                Ok(Some(frame)) => egress.decide(&mut engine, *bus, frame.as_bytes()),
                Ok(None) => {}
                Err(error) if is_stopped(&error) => break 'forever,
                Err(error) => return Err(error).at("gateway", REMEDY),
            }
        }
    }
    meter.stop(&mut tally);
    for (_, socket) in &inputs {
        tally.overflow += u64::from(state::memory(socket).at("gateway", REMEDY)?.dropped);
    }
    count(&engine, &mut tally);
    Ok(tally)
}

/// Takes over what the engine counted.
pub(super) fn count(engine: &Engine, tally: &mut Tally) {
    for job in engine.counters().jobs() {
        tally.refused += job.refused(Cause::QueueFull);
        let causes = job.refusals().map(|(cause, copies)| (cause.name().to_owned(), copies));
        tally.jobs.push(JobCount {
            handled: job.handled,
            dropped: job.dropped(),
            deleted: job.deleted(),
            causes: causes.into_iter().filter(|(_, count)| *count > 0).collect(),
        });
    }
}
