//! Master and slave at work on ports.

use std::collections::VecDeque;

use candor_port::{Error, Progress, Receiver, Sent, Transmitter, Until};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

use crate::{Master, Pair, Trip};

/// How long is waited at most before it is looked whether to end.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(50);
/// How long is waited for room in a port before answers are looked for again.
pub const ROOM: Nanos = Nanos::from_micros(200);
/// How long the last answers may take to leave the port, or to come if somebody ends it; how long a port may not work.
const FAREWELL: Nanos = Nanos::from_secs(1);
/// Answers that wait for room in a port.
const MOST_ANSWERS: usize = 1_024;

/// Who follows a master.
pub trait Observer {
    /// What became of a request is known.
    fn trip(&mut self, trip: &Trip);

    /// Called between frames. False to send no more, and to end when those that wait are answered or lost, or after 1 s.
    fn goes_on(&mut self, master: &Master, now: Instant<Monotonic>) -> bool;
}

/// Lets a master send until it has done what it was to do, or its observer wants to end.
///
/// # Errors
/// The port cannot go on.
pub fn master(
    master: &mut Master,
    receiver: &mut dyn Receiver,
    transmitter: &mut dyn Transmitter,
    now: &dyn Fn() -> Instant<Monotonic>,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let mut is_ending = false;
    let mut is_ending_at = None;
    let start = now();
    loop {
        let mut time = now();
        if !is_ending && !observer.goes_on(master, time) {
            is_ending = true;
            is_ending_at = Some(time + FAREWELL);
            master.end();
        }
        let mut has_room = true;
        let mut is_kept = false;
        while let Some((track, request)) = master.request(time) {
            time = now();
            match transmitter.transmit(&request, true) {
                Sent::Taken => {
                    master.sent(track, time, &mut |trip| observer.trip(trip));
                    is_kept = true;
                }
                Sent::Full | Sent::Down => {
                    has_room = false;
                    break;
                }
                Sent::Unsupported => {
                    return Err(Error::new(
                        request.to_string(),
                        "this port carries no such frames",
                    )
                    .with_remedy("use another port, or classical frames of at most 8 bytes"));
                }
            }
        }
        if is_kept {
            has_room &= transmitter.flush() != Sent::Full;
        }
        // Nothing was sent, and the port does not work.
        if master.counts(None).sent == 0
            && time.since(start) > FAREWELL
            && let Some(reason) = transmitter.counters().trouble.get()
        {
            return Err(Error::new("the port", reason)
                .with_remedy("check the other side")
                .passing());
        }
        let lingers = || master.lingers_until().filter(|&until| !is_ending && time < until);
        let Some(due) = master.due().or_else(lingers) else { break };
        if is_ending_at.is_some_and(|latest| time > latest) {
            break;
        }
        if !has_room {
            transmitter.wait(ROOM);
        }
        let latest = time + if has_room { STOP_CHECK_INTERVAL } else { ROOM };
        let until = if has_room { due.min(latest) } else { latest };
        let progress = receiver.receive(Until::Instant(until), &mut |received| {
            if let Some(trip) = master.take(now(), &received.frame) {
                observer.trip(&trip);
            }
        })?;
        if progress == Progress::Ended {
            break;
        }
    }
    master.finish(now(), &mut |trip| observer.trip(trip));
    Ok(())
}

/// What a slave has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Requests answered.
    pub answered: u64,
    /// Answers that the port did not take: too many waited for room, or it carries no such frames.
    pub dropped: u64,
}

/// Answers requests, and waits for nothing: whoever has the port says what came.
#[derive(Debug)]
pub struct Slave {
    pairs: Vec<Pair>,
    /// Answers that wait for room in the port.
    waiting: VecDeque<Frame>,
    counts: Answered,
}

impl Slave {
    /// One that answers requests of these pairs.
    #[must_use]
    pub fn new(pairs: &[Pair]) -> Self {
        let waiting = VecDeque::with_capacity(MOST_ANSWERS);
        Self { pairs: pairs.to_vec(), waiting, counts: Answered::default() }
    }

    /// What it has done.
    #[must_use]
    pub const fn counts(&self) -> Answered {
        self.counts
    }

    /// Whether answers wait for room in the port.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers a frame if it is a request: at once, if no answer waits before it.
    pub fn take(&mut self, frame: &Frame, transmitter: &mut dyn Transmitter) {
        let Some(answer) = self.pairs.iter().find_map(|pair| pair.answer_to(frame)) else { return };
        match self.waiting.is_empty().then(|| transmitter.transmit(&answer, true)) {
            Some(Sent::Taken) => {
                self.counts.answered += 1;
                transmitter.flush();
            }
            Some(Sent::Unsupported) => self.counts.dropped += 1,
            _ if self.waiting.len() < MOST_ANSWERS => self.waiting.push_back(answer),
            _ => self.counts.dropped += 1,
        }
    }

    /// Transmits answers that wait, as far as there is room for them.
    pub fn retry(&mut self, transmitter: &mut dyn Transmitter) {
        while let Some(answer) = self.waiting.front() {
            match transmitter.transmit(answer, true) {
                Sent::Taken => self.counts.answered += 1,
                Sent::Unsupported => self.counts.dropped += 1,
                Sent::Full | Sent::Down => break,
            }
            self.waiting.pop_front();
        }
    }
}

/// Answers requests until `goes_on` says no, or the port ends.
///
/// # Errors
/// The port cannot go on.
pub fn slave(
    pairs: &[Pair],
    receiver: &mut dyn Receiver,
    transmitter: &mut dyn Transmitter,
    now: &dyn Fn() -> Instant<Monotonic>,
    goes_on: &mut dyn FnMut(Answered) -> bool,
) -> Result<Answered, Error> {
    let mut slave = Slave::new(pairs);
    while goes_on(slave.counts()) {
        slave.retry(transmitter);
        if slave.is_waiting() {
            transmitter.wait(ROOM);
        } else {
            transmitter.flush();
        }
        let time = if slave.is_waiting() { ROOM } else { STOP_CHECK_INTERVAL };
        let progress = receiver.receive(Until::Instant(now() + time), &mut |received| {
            slave.take(&received.frame, transmitter);
        })?;
        if progress == Progress::Ended {
            break;
        }
    }
    let latest = now() + FAREWELL;
    while !transmitter.is_drained() && now() < latest {
        transmitter.wait(ROOM);
    }
    Ok(slave.counts())
}
