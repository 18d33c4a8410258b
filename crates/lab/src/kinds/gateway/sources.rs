//! What senders send: numbered frames, the messages of a node, a recording.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::rc::Rc;

use candor_network::{Message, Node, Payload};
use candor_recording::{Recording, RecordingError};
use candor_sim::{Random, Release, Source, Stuffing, Time};
use candor_time::Nanos;
use candor_wire::can::Frame;

/// How many frames may still be sent.
pub(super) type Allowance = Rc<Cell<u64>>;

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
    pub(super) fn frame(&self, number: u64) -> Option<Frame> {
        self.with_id(number, (number % self.can_ids.len().max(1) as u64) as usize)
    }

    /// The same with the identifier at `index`.
    pub(super) fn with_id(&self, number: u64, index: usize) -> Option<Frame> {
        let mut data = [self.fill; 64];
        let number_bytes = (number as u16).to_be_bytes();
        data[..2].copy_from_slice(&number_bytes);
        let can_id = *self.can_ids.get(index)?;
        Frame::from_parts(can_id, data.get(..self.length)?, self.fd_flags).ok()
    }

    /// Its frames, as a source for senders that do not look at times, or with random times between them.
    pub(super) fn source(
        self,
        allowance: Allowance,
        mut gaps: Option<((Nanos, Nanos), Random)>,
    ) -> Box<dyn Source> {
        let (mut number, mut at) = (0, Time::ZERO);
        Box::new(move || {
            take(&allowance)?;
            let frame = self.frame(number)?;
            number += 1;
            if let Some(((shortest, longest), random)) = &mut gaps {
                at += random.nanos(*shortest, *longest);
            }
            Some(Release { at, frame, stuffing: self.stuffing })
        })
    }
}

/// The messages of one node, each with its period: a source with times.
#[derive(Clone)]
pub(super) struct Periodic {
    messages: Vec<(Message, [u8; 64])>,
    /// The next undisturbed release of each message, and with its jitter: `(late, due, index)`.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    random: Random,
    /// How many frames are still to be sent.
    left: u64,
}

/// Gives each node its share of `count` frames: all nodes together send those that come first. A share that they
/// draw on together would not do, because each asks for a frame long before it is due.
pub(super) fn share(nodes: &mut [Periodic], count: u64) {
    let mut ahead = nodes.to_vec();
    let next =
        |node: &mut Periodic, index: usize| node.advance().map(|(at, _)| Reverse((at, index)));
    let mut due: BinaryHeap<_> =
        ahead.iter_mut().enumerate().filter_map(|(index, node)| next(node, index)).collect();
    nodes.iter_mut().for_each(|node| node.left = 0);
    for _ in 0..count {
        let Some(Reverse((_, index))) = due.pop() else { break };
        nodes[index].left += 1;
        due.extend(next(&mut ahead[index], index));
    }
}

/// A frame that one of several senders wants to send, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offered {
    /// Which of the network's nodes.
    pub(super) sender: u32,
    pub(super) at: Time,
    /// Its number is in the first two bytes of its data.
    pub(super) frame: Frame,
}

/// Frames of several senders, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offers {
    pub(super) all: Vec<Offered>,
    /// Frames that can have no number: CAN FD, remote frames, and those with less than two bytes of data.
    pub(super) left_out: u64,
}

impl Offers {
    /// Of what is sent, and by whom. The number of each frame replaces the first two bytes of its data.
    fn of(releases: impl IntoIterator<Item = (u32, Release)>) -> Self {
        let mut offers = Self::default();
        for (sender, Release { at, frame, .. }) in releases {
            let number = offers.all.len() as u64;
            match numbered(&frame, number).filter(|frame| !frame.is_fd()) {
                Some(frame) => offers.all.push(Offered { sender, at, frame }),
                None => offers.left_out += 1,
            }
        }
        offers
    }
}

/// What `sim` offers of periodic traffic with the same seed, at the same instants: by time, of equal times by node.
pub(super) fn offered(nodes: &[Node], seed: u64, count: u64) -> Offers {
    let mut sources: Vec<_> =
        (0_u64..).zip(nodes).map(|(stream, node)| Periodic::of_node(node, seed, stream)).collect();
    share(&mut sources, count);
    let mut all: Vec<_> = (0..)
        .zip(sources)
        .flat_map(|(sender, mut source)| {
            std::iter::from_fn(move || source.next()).map(move |it| (sender, it))
        })
        .collect();
    all.sort_by_key(|(sender, release)| (release.at, *sender));
    Offers::of(all)
}

/// What `sim` offers of a recording, at most so many frames of it, all by one sender.
///
/// # Errors
/// The recording cannot be read to its end.
pub(super) fn replayed(
    log: &Path,
    (interface, speed): (Option<&str>, f64),
    count: u64,
) -> Result<Offers, RecordingError> {
    let recording = candor_recording::open(log, None)?;
    let allowance = Rc::new(Cell::new(count));
    let mut replay = Replay::new(recording, interface.map(str::to_owned), speed, allowance);
    let failure = replay.failure();
    let offers = Offers::of(std::iter::from_fn(|| Some((0, replay.next()?))));
    match failure.take() {
        None => Ok(offers),
        Some(error) => Err(error),
    }
}

/// The same frame with a number in the first two bytes of its data; `None` if it has fewer.
pub(super) fn numbered(frame: &Frame, number: u64) -> Option<Frame> {
    let mut data = [0; 64];
    let data = &mut data[..frame.data().len()];
    data.copy_from_slice(frame.data());
    *data.first_chunk_mut()? = (number as u16).to_be_bytes();
    Frame::from_parts(frame.can_id(), data, frame.is_fd().then(|| frame.fd_flags())).ok()
}

/// No frame of periodic traffic is released later, after 292 years: what is added to its time never overflows.
const LAST_RELEASE_NS: u64 = i64::MAX as u64;

impl Periodic {
    /// The messages of a node, whose random numbers are of this stream of the seed. Sends nothing until it has its [`share`].
    pub(super) fn of_node(node: &Node, seed: u64, stream: u64) -> Self {
        Self::new(node.messages.clone(), Random::new(seed, (4 << 32) + stream))
    }

    /// Sends nothing until it has its [`share`].
    pub(super) fn new(messages: Vec<Message>, mut random: Random) -> Self {
        let mut due = BinaryHeap::new();
        let messages: Vec<_> = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| {
                let first = message
                    .offset
                    .unwrap_or_else(|| random.nanos(Nanos::ZERO, message.period))
                    .as_nanos();
                let late =
                    first.saturating_add(random.nanos(Nanos::ZERO, message.jitter).as_nanos());
                if late <= LAST_RELEASE_NS {
                    due.push(Reverse((late, first, index)));
                }
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
        Self { messages, due, random, left: 0 }
    }

    /// When the next frame is released, and of which message it is.
    fn advance(&mut self) -> Option<(u64, usize)> {
        let Reverse((at, due, index)) = self.due.pop()?;
        let (message, data) = self.messages.get_mut(index)?;
        if message.payload == Payload::Signals {
            data[0] = data[0].wrapping_add(1);
            let drifting = self.random.bits();
            let at_byte = 1 + (drifting >> 8) as usize % 63;
            data[at_byte] = drifting as u8;
        }
        let next = due.saturating_add(message.period.as_nanos());
        let late = next.saturating_add(self.random.nanos(Nanos::ZERO, message.jitter).as_nanos());
        if late <= LAST_RELEASE_NS {
            self.due.push(Reverse((late.max(at), next, index)));
        }
        Some((at, index))
    }
}

impl Source for Periodic {
    fn next(&mut self) -> Option<Release> {
        self.left = self.left.checked_sub(1)?;
        let (at, index) = self.advance()?;
        let (message, data) = self.messages.get(index)?;
        let stuffing = match message.payload {
            Payload::Worst => Stuffing::Worst,
            Payload::Signals | Payload::Bytes(_) => Stuffing::Exact,
        };
        let frame = message.frame(data)?;
        Some(Release { at: Time::from_nanos(at), frame, stuffing })
    }
}

/// A recording sent again at its own times, or scaled.
pub(super) struct Replay {
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
    pub(super) fn new(
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
    pub(super) fn failure(&self) -> Rc<RefCell<Option<RecordingError>>> {
        Rc::clone(&self.failure)
    }

    /// Where error reports are counted.
    pub(super) fn reports(&self) -> Rc<Cell<u64>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn node(seed: u64, periods_us: &[u64]) -> Periodic {
        let message = |(number, &period_us): (u32, &u64)| Message {
            name: number.to_string(),
            can_id: number,
            length: 8,
            is_fd: false,
            period: Nanos::from_micros(period_us),
            jitter: Nanos::from_micros(period_us / 3),
            deadline: None,
            distances: Vec::new(),
            min_length: None,
            has_brs: true,
            offset: None,
            payload: Payload::Signals,
        };
        Periodic::new((0..).zip(periods_us).map(message).collect(), Random::new(seed, 1))
    }

    /// One message is due every ten seconds: waiting for it would take longer than all others together.
    #[test]
    fn a_slow_node_does_not_send_what_is_due_after_the_end() {
        let mut nodes = [node(1, &[1_000]), node(2, &[10_000_000])];
        share(&mut nodes, 1_000);
        let releases = nodes.map(|mut node| std::iter::from_fn(|| node.next()).collect::<Vec<_>>());
        let sent = releases.each_ref().map(Vec::len);
        assert_eq!(sent[0] + sent[1], 1_000);
        assert!(sent[1] <= 1, "{sent:?}");
        let last = releases.iter().flatten().map(|release| release.at.as_nanos()).max().unwrap();
        assert!((990_000_000..=1_010_000_000).contains(&last), "{last}");
    }

    #[test]
    fn all_nodes_together_send_what_comes_first() {
        let mut random = Random::new(1, 0);
        let mut below = |most: u64| random.bits() % most;
        for case in 0..300 {
            let periods: Vec<Vec<u64>> = (0..1 + below(4))
                .map(|_| (0..below(4)).map(|_| 1 + below(5_000)).collect())
                .collect();
            let count = below(300);
            let made = |(seed, periods): (u64, &Vec<u64>)| node(seed, periods);
            let mut nodes: Vec<_> = (0..).zip(&periods).map(made).collect();
            let mut endless = nodes.clone();
            share(&mut nodes, count);
            let sent: Vec<Vec<_>> =
                nodes.iter_mut().map(|node| std::iter::from_fn(|| node.next()).collect()).collect();
            let total = sent.iter().map(|sent| sent.len() as u64).sum::<u64>();
            let expected = if periods.concat().is_empty() { 0 } else { count };
            assert_eq!(total, expected, "case {case}: {periods:?}");
            let last = sent.iter().flatten().map(|release| release.at).max();
            for (endless, sent) in endless.iter_mut().zip(&sent) {
                endless.left = u64::MAX;
                for release in sent {
                    let same = endless.next().unwrap();
                    assert_eq!((same.at, same.frame), (release.at, release.frame), "case {case}");
                }
                // What a node did not send comes later than everything that was sent.
                let next = endless.next().map(|release| release.at);
                assert!(next.is_none() || next >= last, "case {case}: {periods:?}");
            }
        }
    }
}
