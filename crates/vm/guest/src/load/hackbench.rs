//! CPU load as hackbench makes it: in each group 20 senders write messages of 100 bytes to 20
//! receivers, each over a socket pair of its own, as fast as the scheduler lets them.
//!
//! ```text
//!  this process -- control --> master -- forks --> receiver <== 100 bytes == sender  (x 20 x 20)
//!       ^                        |                    |
//!       +--------- messages -----+-------------------+  when the senders are gone
//! ```
//!
//! Each sender and receiver is a process, as in the original without options. The original sends a
//! fixed number of messages; here they go on until they are stopped.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;

use candor_linux::process::{self, Child, fork};

use crate::failure::{Context, FAULT, Failure};

/// Senders in a group, and receivers.
const TASKS: usize = 20;
/// Bytes in a message.
const MESSAGE_LEN: usize = 100;

const PLACE: &str = "hackbench";
const REMEDY: &str = "use fewer groups";

/// A hackbench that is ready or runs.
#[derive(Debug)]
pub(crate) struct Hackbench {
    master: Child,
    control: PipeWriter,
    started: PipeReader,
    messages: PipeReader,
}

impl Hackbench {
    /// Makes it ready. To be called before this process has a second thread.
    pub(crate) fn prepare(groups: u32) -> Result<Self, Failure> {
        let (mut ordered, control) = pipe().at(PLACE, REMEDY)?;
        let (messages, mut report) = pipe().at(PLACE, REMEDY)?;
        let (started, mut ready) = pipe().at(PLACE, REMEDY)?;
        let mut control = Some(control);
        let master = fork(|| {
            // The copy would keep the pipe open.
            drop(control.take());
            match perform(groups, &mut ready, &mut ordered) {
                Ok(messages) => i32::from(report.write_all(&messages.to_le_bytes()).is_err()),
                Err(_) => 1,
            }
        })
        .at(PLACE, REMEDY)?;
        let gone = || Failure::new(PLACE, "its pipe is closed", FAULT);
        Ok(Self { master, control: control.ok_or_else(gone)?, started, messages })
    }

    pub(crate) fn start(mut self) -> Result<Self, Failure> {
        let dead = |_| Failure::new(PLACE, "the processes did not start", REMEDY);
        self.control.write_all(&[1]).map_err(dead)?;
        self.started.read_exact(&mut [0]).map_err(dead)?;
        Ok(self)
    }

    /// Ends it; returns how many messages were received.
    ///
    /// A gateway with files of its own has a copy of the pipe, so closing it here says nothing: the
    /// master is told to stop.
    pub(crate) fn stop(mut self) -> Result<u64, Failure> {
        let dead = |_| Failure::new(PLACE, "the processes died", REMEDY);
        self.control.write_all(&[1]).map_err(dead)?;
        let mut count = [0; 8];
        let outcome = self.messages.read_exact(&mut count);
        let exit = self.master.wait().at(PLACE, REMEDY)?;
        match (outcome, exit.status) {
            (Ok(()), Ok(0)) => Ok(u64::from_le_bytes(count)),
            _ => Err(Failure::new(PLACE, "the processes died", REMEDY)),
        }
    }
}

/// The master: waits for the order to start, starts all groups, waits for the order to stop, adds up what the receivers say.
fn perform(groups: u32, ready: &mut PipeWriter, ordered: &mut PipeReader) -> Result<u64, Failure> {
    ordered.read_exact(&mut [0]).at(PLACE, REMEDY)?;
    let (mut counts, count) = pipe().at(PLACE, REMEDY)?;
    let mut senders = Vec::new();
    for _ in 0..groups {
        let pairs = (0..TASKS).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>();
        let (inputs, outputs): (Vec<_>, Vec<_>) = pairs.at(PLACE, REMEDY)?.into_iter().unzip();
        // Each copy of this process has every end that is open here. A receiver comes to its end
        // when no writing end is left, so it drops those of its group; those of earlier groups are
        // not in it any more.
        let mut outputs = Some(outputs);
        for input in &inputs {
            let _receiver = fork(|| {
                drop(outputs.take());
                i32::from((&count).write_all(&receive(input).to_le_bytes()).is_err())
            })
            .at(PLACE, REMEDY)?;
        }
        drop(inputs);
        let outputs = outputs.unwrap_or_default();
        for _ in 0..TASKS {
            senders.push(fork(|| send(&outputs)).at(PLACE, REMEDY)?);
        }
    }
    drop(count);
    ready.write_all(&[1]).at(PLACE, REMEDY)?;
    // Told to stop; or, if the other end is closed, nobody is left to do so.
    let _ = ordered.read(&mut [0]).at(PLACE, REMEDY)?;
    for sender in &senders {
        sender.kill().at(PLACE, REMEDY)?;
    }
    let mut messages = 0;
    let mut one = [0; 8];
    for _ in 0..groups as usize * TASKS {
        counts.read_exact(&mut one).at(PLACE, REMEDY)?;
        messages += u64::from_le_bytes(one);
    }
    while process::reap().at(PLACE, REMEDY)?.is_some() {}
    Ok(messages)
}

/// Receives until nobody sends any more; returns the number of messages.
fn receive(mut input: &UnixStream) -> u64 {
    let mut message = [0; MESSAGE_LEN];
    let mut count = 0;
    while input.read_exact(&mut message).is_ok() {
        count += 1;
    }
    count
}

/// Sends to all receivers in turn, until it is killed.
fn send(outputs: &[UnixStream]) -> i32 {
    let message = [0; MESSAGE_LEN];
    loop {
        for mut output in outputs {
            if output.write_all(&message).is_err() {
                return 1;
            }
        }
    }
}
