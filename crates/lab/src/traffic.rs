//! Traffic: what senders send.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use candor_network::{Message, Payload};
use candor_sim::{Random, Release, Source, Stuffing, Time};
use candor_time::Nanos;
use candor_wire::can::Frame;

use candor_recording::{Recording, RecordingError};

/// How many frames may still be sent, shared by all senders of an experiment.
pub(crate) type Allowance = Rc<Cell<u64>>;

fn take(allowance: &Allowance) -> Option<()> {
    allowance.set(allowance.get().checked_sub(1)?);
    Some(())
}

/// What numbered frames look like.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// The identifier words, used in turn.
    pub can_ids: Vec<u32>,
    /// Bytes of data, at least two for the number.
    pub length: usize,
    /// Flags of CAN FD; `None` sends classical frames.
    pub fd_flags: Option<u8>,
    /// The bytes behind the number.
    pub fill: u8,
    /// How many stuff bits the frames have.
    pub stuffing: Stuffing,
}

impl Numbered {
    /// The frame number `number`, which stands in the first two bytes.
    pub(crate) fn frame(&self, number: u64) -> Option<Frame> {
        self.with_id(number, (number % self.can_ids.len().max(1) as u64) as usize)
    }

    /// The same with the identifier at `index`.
    pub(crate) fn with_id(&self, number: u64, index: usize) -> Option<Frame> {
        let mut data = [self.fill; 64];
        let number_bytes = (number as u16).to_be_bytes();
        data[..2].copy_from_slice(&number_bytes);
        let can_id = *self.can_ids.get(index)?;
        Frame::from_parts(can_id, data.get(..self.length)?, self.fd_flags).ok()
    }

    /// Its frames, as a source for senders that do not look at times.
    pub(crate) fn source(self, allowance: Allowance) -> Box<dyn Source> {
        let mut number = 0;
        Box::new(move || {
            take(&allowance)?;
            let frame = self.frame(number)?;
            number += 1;
            Some(Release { at: Time::ZERO, frame, stuffing: self.stuffing })
        })
    }
}

/// The messages of one node, each with its period: a source with times.
pub(crate) struct Periodic {
    messages: Vec<(Message, [u8; 64])>,
    /// The next undisturbed release of each message, and with its jitter: `(late, due, index)`.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    random: Random,
    allowance: Allowance,
}

impl Periodic {
    pub(crate) fn new(messages: Vec<Message>, mut random: Random, allowance: Allowance) -> Self {
        let mut due = BinaryHeap::new();
        let messages: Vec<_> = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| {
                let first = message
                    .offset
                    .unwrap_or_else(|| random.nanos(Nanos::ZERO, message.period))
                    .as_nanos();
                let late = first + random.nanos(Nanos::ZERO, message.jitter).as_nanos();
                due.push(Reverse((late, first, index)));
                let mut data = [0; 64];
                match &message.payload {
                    Payload::Signals => data
                        .chunks_mut(8)
                        .for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes())),
                    Payload::Bytes(bytes) => {
                        data.iter_mut().zip(bytes).for_each(|(byte, &given)| *byte = given);
                    }
                    Payload::Worst => {}
                }
                (message, data)
            })
            .collect();
        Self { messages, due, random, allowance }
    }
}

impl Source for Periodic {
    fn next(&mut self) -> Option<Release> {
        let Reverse((at, due, index)) = self.due.pop()?;
        take(&self.allowance)?;
        let (message, data) = self.messages.get_mut(index)?;
        if message.payload == Payload::Signals {
            data[0] = data[0].wrapping_add(1);
            let drifting = self.random.bits();
            let at_byte = 1 + (drifting >> 8) as usize % 63;
            data[at_byte] = drifting as u8;
        }
        let stuffing = match message.payload {
            Payload::Worst => Stuffing::Worst,
            Payload::Signals | Payload::Bytes(_) => Stuffing::Exact,
        };
        let frame = message.frame(data)?;
        let next = due + message.period.as_nanos();
        let late = next + self.random.nanos(Nanos::ZERO, message.jitter).as_nanos();
        self.due.push(Reverse((late.max(at), next, index)));
        Some(Release { at: Time::from_nanos(at), frame, stuffing })
    }
}

/// A recording sent again at its own times, or scaled.
pub(crate) struct Replay {
    recording: Recording,
    /// Only frames of this interface.
    interface: Option<String>,
    /// Times are divided by this.
    speed: f64,
    first_ns: Option<u64>,
    last_ns: u64,
    allowance: Allowance,
    /// What ended the replay before its time.
    failure: Rc<RefCell<Option<RecordingError>>>,
    /// Error reports in the recording: they were never on the wire.
    reports: Rc<Cell<u64>>,
}

impl Replay {
    pub(crate) fn new(
        recording: Recording,
        interface: Option<String>,
        speed: f64,
        allowance: Allowance,
    ) -> Self {
        Self {
            recording,
            interface,
            speed,
            first_ns: None,
            last_ns: 0,
            allowance,
            failure: Rc::default(),
            reports: Rc::default(),
        }
    }

    /// Where a failure will be reported.
    pub(crate) fn failure(&self) -> Rc<RefCell<Option<RecordingError>>> {
        Rc::clone(&self.failure)
    }

    /// Where error reports are counted.
    pub(crate) fn reports(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.reports)
    }
}

impl Source for Replay {
    fn next(&mut self) -> Option<Release> {
        loop {
            let record = match self.recording.next()? {
                Ok(record) => record,
                Err(error) => {
                    *self.failure.borrow_mut() = Some(error);
                    return None;
                }
            };
            if let Some(wanted) = &self.interface
                && self.recording.interfaces().name(record.interface) != wanted
            {
                continue;
            }
            if record.frame.kind() == candor_wire::can::Kind::Error {
                self.reports.set(self.reports.get() + 1);
                continue;
            }
            take(&self.allowance)?;
            let first = *self.first_ns.get_or_insert(record.time_ns);
            let since = record.time_ns.saturating_sub(first);
            let at = if self.speed == 1.0 { since } else { (since as f64 / self.speed) as u64 };
            // Stamps that run backwards are sent at once.
            self.last_ns = self.last_ns.max(at);
            return Some(Release::new(Time::from_nanos(self.last_ns), record.frame));
        }
    }
}
