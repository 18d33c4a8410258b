//! Traffic: what senders send.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::rc::Rc;

use candor_sim::{Random, Release, Source, Time};
use candor_time::Nanos;
use candor_wire::Frame;
use candor_wire::frame::{EFF_FLAG, fd_dlc};

use crate::error::Error;
use crate::recording::{Recording, RecordingError};

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
}

impl Numbered {
    /// The frame number `number`, which stands in the first two bytes.
    pub(crate) fn frame(&self, number: u64) -> Option<Frame> {
        let mut data = [self.fill; 64];
        let number_bytes = (number as u16).to_be_bytes();
        data[..2].copy_from_slice(&number_bytes);
        let can_id = self.can_ids[(number % self.can_ids.len().max(1) as u64) as usize];
        Frame::from_parts(can_id, data.get(..self.length)?, self.fd_flags).ok()
    }

    /// Its frames, as a source for senders that do not look at times.
    pub(crate) fn source(self, allowance: Allowance) -> Box<dyn Source> {
        let mut number = 0;
        Box::new(move || {
            take(&allowance)?;
            let frame = self.frame(number)?;
            number += 1;
            Some(Release { at: Time::ZERO, frame })
        })
    }
}

/// A message that is sent again and again.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its name, for messages.
    pub name: String,
    /// The node that sends it.
    pub node: String,
    /// The identifier word.
    pub can_id: u32,
    /// Bytes of data.
    pub length: usize,
    /// From release to release.
    pub period: Nanos,
    /// The first release; drawn within the period if not given.
    pub offset: Option<Nanos>,
    /// Each release is late by up to this.
    pub jitter: Nanos,
}

impl Message {
    fn frame(&self, data: &[u8; 64]) -> Option<Frame> {
        let fd_flags = (self.length > 8).then_some(candor_wire::frame::BRS);
        Frame::from_parts(self.can_id, data.get(..self.length)?, fd_flags).ok()
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
                data.chunks_mut(8)
                    .for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes()));
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
        // A rolling counter in the first byte, and one other byte that drifts, as signals do.
        data[0] = data[0].wrapping_add(1);
        let drifting = self.random.bits();
        let at_byte = 1 + (drifting >> 8) as usize % 63;
        data[at_byte] = drifting as u8;
        let frame = message.frame(data)?;
        let next = due + message.period.as_nanos();
        let late = next + self.random.nanos(Nanos::ZERO, message.jitter).as_nanos();
        self.due.push(Reverse((late.max(at), next, index)));
        Some(Release { at: Time::from_nanos(at), frame })
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

    /// Where a failure will be told.
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
            if record.frame.kind() == candor_wire::Kind::Error {
                self.reports.set(self.reports.get() + 1);
                continue;
            }
            take(&self.allowance)?;
            let first = *self.first_ns.get_or_insert(record.time_ns);
            let since = record.time_ns.saturating_sub(first);
            let at = if self.speed == 1.0 { since } else { (since as f64 / self.speed) as u64 };
            // Stamps that run backwards are sent at once.
            self.last_ns = self.last_ns.max(at);
            return Some(Release { at: Time::from_nanos(self.last_ns), frame: record.frame });
        }
    }
}

/// What a DBC file says about traffic.
#[derive(Debug)]
pub(crate) struct DbcMessages {
    /// The messages that can be sent.
    pub(crate) messages: Vec<Message>,
    /// How many others have no cycle time.
    pub(crate) without_period: usize,
    /// How many others have a cycle time, but more bytes than a frame, or a number no frame has.
    pub(crate) without_length: usize,
}

/// Not a message: the place where editors of DBC files keep signals that belong to none.
const NO_MESSAGE: &str = "VECTOR__INDEPENDENT_SIG_MSG";

/// The messages of a DBC file that have a cycle time (`GenMsgCycleTime`, in ms).
///
/// # Errors
/// The file is unreadable, no DBC, or none of its messages can be sent.
pub(crate) fn messages_of_dbc(path: &Path) -> Result<DbcMessages, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    // Comments of DBC files are often in the code pages of Windows: what is not UTF-8 becomes `?`.
    let text = String::from_utf8_lossy(&bytes);
    let dbc = can_dbc::Dbc::try_from(text.as_ref()).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Other(format!("{}: this is no DBC file: {reason}", path.display()))
    })?;
    let mut messages = Vec::new();
    let (mut without_period, mut without_length) = (0, 0);
    for message in dbc.messages.iter().filter(|message| message.name != NO_MESSAGE) {
        let period_ms = match dbc.resolved_message_attribute(message.id, "GenMsgCycleTime") {
            Some(can_dbc::AttributeValue::Uint(ms)) => *ms,
            Some(can_dbc::AttributeValue::Int(ms)) => u64::try_from(*ms).unwrap_or(0),
            Some(can_dbc::AttributeValue::Double(ms)) if *ms > 0.0 => *ms as u64,
            _ => 0,
        };
        let length = usize::try_from(message.size).unwrap_or(usize::MAX);
        if period_ms == 0 {
            without_period += 1;
            continue;
        }
        if fd_dlc(length).is_none() {
            without_length += 1;
            continue;
        }
        let raw = message.id.raw();
        messages.push(Message {
            name: message.name.clone(),
            node: message.transmitter.clone().unwrap_or_default(),
            can_id: raw & (EFF_FLAG | candor_wire::frame::EFF_MASK),
            length,
            period: Nanos::from_millis(period_ms),
            offset: None,
            jitter: Nanos::ZERO,
        });
    }
    if messages.is_empty() {
        return Err(Error::Other(format!(
            "{}: no message has a cycle time; give each a GenMsgCycleTime in ms, or list messages \
             under [[traffic.message]]",
            path.display()
        )));
    }
    Ok(DbcMessages { messages, without_period, without_length })
}
