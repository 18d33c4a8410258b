//! [`Master`]: when requests are due, which answer belongs to which, and what became of each.

use std::collections::VecDeque;
use std::fmt;

use candor_lat::Histogram;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;
use candor_wire::can::frame::{BRS, FD_LENGTHS};
use rand_core::Rng as _;
use rand_pcg::Pcg32;

use crate::pair::{self, Pair};

/// The most requests of a track that are remembered: answers to older ones are not known any more.
const MOST_OPEN: usize = 1 << 16;
/// So many bytes at most are the number of a request, the low byte first.
const NUMBER_BYTES: usize = 4;

/// When the next request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not before the one before is answered, or its timeout is over (closed loop).
    OneAtATime,
    /// When it is due, whatever became of those before (open loop): what makes answers late makes no request wait.
    OpenLoop,
}

/// One of several pings that go on side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its identifiers.
    pub pair: Pair,
    /// The mean time between two requests. Each is due at a random instant of its own period, so that it is not in step with
    /// anything. Zero: as soon as the one before is answered.
    pub period: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What goes on side by side; identifiers differ.
    pub tracks: Vec<Track>,
    /// The data length in bytes, at least 1: up to four bytes are the number of the request, the rest is random.
    pub length: usize,
    /// Whether frames are of CAN FD, with bit rate switch.
    pub is_fd: bool,
    /// When the next request is sent.
    pub pace: Pace,
    /// Requests of each track; `None` for no end.
    pub count: Option<u64>,
    /// After this time an answer is late.
    pub timeout: Nanos,
    /// How long late answers are waited for, after the timeouts of the last requests and after each late answer, which shows
    /// that others may come. What comes after this is lost.
    pub linger: Nanos,
    /// What random draws begin with.
    pub seed: u64,
}

/// What a [`Plan`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no such data length in this kind of frame.
    Length(usize, bool),
    /// Requests without a period can only be sent one at a time.
    NoPeriod,
    /// Two tracks have an identifier in common.
    Twice(u32),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length, false) => {
                write!(f, "{length} bytes of data, but a request has 1 to 8; CAN FD has more")
            }
            Self::Length(length, true) => write!(
                f,
                "{length} bytes of data, but requests of CAN FD have 1 to 8, 12, 16, 20, 24, 32, 48 or 64"
            ),
            Self::NoPeriod => f.write_str(
                "without a period requests can only be sent one at a time; give one, such as 10ms",
            ),
            Self::Twice(id) => write!(
                f,
                "identifier 0x{:X} is there twice; give each ping its own",
                id & 0x1FFF_FFFF
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// How requests fared. Sent are answered, late, lost and those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that the port took.
    pub sent: u64,
    /// Requests answered within the timeout.
    pub answered: u64,
    /// Requests answered later than that.
    pub late: u64,
    /// Requests whose timeout is over without an answer, so far.
    pub lost: u64,
    /// Answers to what was answered already.
    pub duplicates: u64,
    /// First answers to requests before the latest one that was answered until then (RFC 4737).
    pub reordered: u64,
    /// Frames with the identifier of an answer, but with other data than any request.
    pub strange: u64,
}

impl Counts {
    /// Requests that are waited for: neither answered nor lost.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.sent - self.answered - self.late - self.lost
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.late += other.late;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.strange += other.strange;
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered within the timeout, after so long.
    Answered(Nanos),
    /// Answered later than that, after so long.
    Late(Nanos),
    /// Not answered.
    Lost,
}

impl Outcome {
    /// Its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Late(_) => "late",
            Self::Lost => "lost",
        }
    }

    /// The round trip, if there was one.
    #[must_use]
    pub const fn round_trip(self) -> Option<Nanos> {
        match self {
            Self::Answered(time) | Self::Late(time) => Some(time),
            Self::Lost => None,
        }
    }
}

/// A request whose outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The track, by its place in the plan.
    pub track: usize,
    /// Which request of it, from 0.
    pub number: u64,
    pub request: Frame,
    /// When it was handed to the port.
    pub sent: Instant<Monotonic>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// The timeout is over.
    Overdue,
    Answered,
}

#[derive(Debug)]
struct OpenRequest {
    frame: Frame,
    sent: Instant<Monotonic>,
    state: State,
}

#[derive(Debug)]
struct Running {
    track: Track,
    random: Pcg32,
    /// When the period of the next request begins, and when the request is due.
    period_start: Instant<Monotonic>,
    due: Instant<Monotonic>,
    /// A request that the port has not taken yet.
    next: Option<Frame>,
    /// Requests that may still be answered, the oldest first.
    open: VecDeque<OpenRequest>,
    most_open: usize,
    /// The number of the first of them.
    first: u64,
    /// The place of the first of them that waits.
    waiting: usize,
    /// Requests without an answer that were forgotten for another one with their number.
    reused: u64,
    counts: Counts,
    /// The latest request that was answered.
    latest: Option<u64>,
    round_trips: Histogram,
    lateness: Histogram,
}

/// Sends requests and looks for their answers, without I/O: whoever has the port asks what is due.
#[derive(Debug)]
pub struct Master {
    plan: Plan,
    tracks: Vec<Running>,
    /// When a request was last answered.
    answered: Option<Instant<Monotonic>>,
    is_ended: bool,
}

impl Master {
    /// A master that begins now.
    ///
    /// # Errors
    /// The plan cannot be carried out.
    pub fn new(plan: Plan, now: Instant<Monotonic>) -> Result<Self, PlanError> {
        let is_length = match plan.is_fd {
            false => (1..=8).contains(&plan.length),
            true => plan.length > 0 && FD_LENGTHS.iter().any(|&it| usize::from(it) == plan.length),
        };
        if !is_length {
            return Err(PlanError::Length(plan.length, plan.is_fd));
        }
        let mut ids = Vec::new();
        for track in &plan.tracks {
            if plan.pace == Pace::OpenLoop && track.period == Nanos::ZERO {
                return Err(PlanError::NoPeriod);
            }
            for id in [track.pair.request(), track.pair.answer()] {
                if ids.contains(&id) {
                    return Err(PlanError::Twice(id));
                }
                ids.push(id);
            }
        }
        // Of two with the same number, only one may be open.
        let most_open = match plan.length.min(NUMBER_BYTES) {
            1 => 1 << 8,
            _ => MOST_OPEN,
        };
        let tracks = (0..).zip(&plan.tracks).map(|(number, &track)| {
            let mut running = Running {
                track,
                random: Pcg32::new(plan.seed, number),
                period_start: now,
                due: now,
                next: None,
                open: VecDeque::new(),
                most_open,
                first: 0,
                waiting: 0,
                reused: 0,
                counts: Counts::default(),
                latest: None,
                round_trips: Histogram::new(),
                lateness: Histogram::new(),
            };
            running.plan_next();
            running
        });
        Ok(Self { tracks: tracks.collect(), plan, answered: None, is_ended: false })
    }

    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Until when late answers may still come, if only those are missing.
    pub(crate) fn lingers_until(&self) -> Option<Instant<Monotonic>> {
        let missing = self.tracks.iter().flat_map(|track| &track.open);
        let last = missing.filter(|open| open.state != State::Answered).map(|open| open.sent).max();
        Some(self.answered.max(Some(last? + self.plan.timeout))? + self.plan.linger)
    }

    /// Requests without an answer whose number was used again: with one byte of data there are 256 numbers, and an answer
    /// that comes after so many more counts as that to another.
    #[must_use]
    pub fn reused(&self) -> u64 {
        self.tracks.iter().map(|track| track.reused).sum()
    }

    /// Until when there is nothing to do unless a frame comes; `None` if it is all done.
    #[must_use]
    pub fn due(&self) -> Option<Instant<Monotonic>> {
        self.tracks.iter().filter_map(|track| self.due_of(track)).min()
    }

    fn due_of(&self, track: &Running) -> Option<Instant<Monotonic>> {
        // An answer at the very end is in time.
        let beyond = self.plan.timeout + Nanos::from_nanos(1);
        let timeout = track.open.get(track.waiting).map(|open| open.sent + beyond);
        let is_over =
            self.is_ended || self.plan.count.is_some_and(|count| track.numbered() >= count);
        if is_over || self.plan.pace == Pace::OneAtATime && timeout.is_some() {
            return timeout;
        }
        Some(timeout.map_or(track.due, |timeout| timeout.min(track.due)))
    }

    /// No further request is sent; those that wait have until their timeout.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// A request to be sent now, with the track that it is of. It is the same again until [`Self::sent`] is called.
    pub fn request(&mut self, now: Instant<Monotonic>) -> Option<(usize, Frame)> {
        let Plan { timeout, pace, count, length, is_fd, .. } = self.plan;
        for track in &mut self.tracks {
            track.expire(now, timeout);
        }
        if self.is_ended {
            return None;
        }
        // The one that has waited longest is first.
        let ready = self.tracks.iter().enumerate().filter(|(_, track)| {
            let is_free = pace == Pace::OpenLoop || track.waiting == track.open.len();
            is_free && track.due <= now && count.is_none_or(|count| track.numbered() < count)
        });
        let (place, _) = ready.min_by_key(|(_, track)| track.due)?;
        let track = self.tracks.get_mut(place)?;
        if track.next.is_none() {
            track.next = track.make(length, is_fd);
        }
        Some((place, track.next?))
    }

    /// The request of a track was handed to the port at this time, and the port has taken it. Those that are forgotten for it
    /// are told.
    pub fn sent(&mut self, place: usize, at: Instant<Monotonic>, tell: &mut dyn FnMut(&Trip)) {
        let Some(track) = self.tracks.get_mut(place) else { return };
        let Some(frame) = track.next.take() else { return };
        while track.open.len() >= track.most_open {
            let is_missing = track.open.front().is_some_and(|open| open.state != State::Answered);
            track.reused += u64::from(is_missing && track.most_open < MOST_OPEN);
            track.forget(place, tell);
        }
        if self.plan.pace == Pace::OpenLoop {
            track.lateness.record(at.since(track.due).as_nanos().try_into().unwrap_or(i64::MAX));
        }
        track.open.push_back(OpenRequest { frame, sent: at, state: State::Waiting });
        track.counts.sent += 1;
        // What was late is not made up for in a burst, unless answers shall have no influence.
        if self.plan.pace == Pace::OneAtATime && track.period_start + track.track.period < at {
            track.period_start = at;
        }
        track.plan_next();
    }

    /// Looks whether a frame is an answer. What became of the request, if that is known now.
    pub fn take(&mut self, now: Instant<Monotonic>, frame: &Frame) -> Option<Trip> {
        let timeout = self.plan.timeout;
        let is_it = |track: &Running| track.track.pair.answer() == frame.can_id();
        let place = self.tracks.iter().position(is_it).filter(|_| pair::is_data(frame))?;
        let track = self.tracks.get_mut(place)?;
        let Some(at) = track.find(frame) else {
            track.counts.strange += 1;
            return None;
        };
        let open = track.open.get_mut(at)?;
        if open.state == State::Answered {
            track.counts.duplicates += 1;
            return None;
        }
        let was_overdue = std::mem::replace(&mut open.state, State::Answered) == State::Overdue;
        let round_trip = now.since(open.sent);
        self.answered = Some(now);
        let outcome = match round_trip <= timeout {
            true => Outcome::Answered(round_trip),
            false => Outcome::Late(round_trip),
        };
        let (request, sent) = (open.frame, open.sent);
        match outcome {
            Outcome::Answered(_) => track.counts.answered += 1,
            _ => track.counts.late += 1,
        }
        track.counts.lost -= u64::from(was_overdue);
        track.round_trips.record(round_trip.as_nanos().try_into().unwrap_or(i64::MAX));
        let number = track.first + at as u64;
        track.counts.reordered += u64::from(track.latest.is_some_and(|latest| number < latest));
        track.latest = track.latest.max(Some(number));
        track.advance();
        Some(Trip { track: place, number, request, sent, outcome })
    }

    /// Ends: tells those that are lost. To be called once nothing is due, or when nobody wants to wait.
    pub fn finish(&mut self, now: Instant<Monotonic>, tell: &mut dyn FnMut(&Trip)) {
        self.is_ended = true;
        for (place, track) in self.tracks.iter_mut().enumerate() {
            track.expire(now, self.plan.timeout);
            // Those that still wait are neither lost nor answered.
            track.open.truncate(track.waiting);
            while !track.open.is_empty() {
                track.forget(place, tell);
            }
        }
    }

    /// How the requests of a track fared; `None` of all of them.
    #[must_use]
    pub fn counts(&self, track: Option<usize>) -> Counts {
        let mut sum = Counts::default();
        self.chosen(track).for_each(|track| sum += track.counts);
        sum
    }

    /// The round trips of a track; `None` of all of them.
    #[must_use]
    pub fn round_trips(&self, track: Option<usize>) -> Histogram {
        let mut sum = Histogram::new();
        self.chosen(track).for_each(|track| sum.merge(&track.round_trips));
        sum
    }

    /// How long after they were due requests of an open loop were handed to the port, of a track; `None` of all of them.
    #[must_use]
    pub fn lateness(&self, track: Option<usize>) -> Histogram {
        let mut sum = Histogram::new();
        self.chosen(track).for_each(|track| sum.merge(&track.lateness));
        sum
    }

    fn chosen(&self, track: Option<usize>) -> impl Iterator<Item = &Running> {
        let all = self.tracks.iter().enumerate();
        all.filter(move |(place, _)| track.is_none_or(|track| track == *place)).map(|(_, it)| it)
    }
}

impl Running {
    /// How many requests were sent.
    const fn numbered(&self) -> u64 {
        self.counts.sent
    }

    /// When the next request is due: at a random instant of its period.
    fn plan_next(&mut self) {
        let period = self.track.period.as_nanos();
        let drawn = (u128::from(self.random.next_u64()) * u128::from(period)) >> 64;
        self.due = self.period_start + Nanos::from_nanos(drawn as u64);
        self.period_start += self.track.period;
    }

    /// The next request.
    fn make(&mut self, length: usize, is_fd: bool) -> Option<Frame> {
        let mut data = [0; 64];
        let data = data.get_mut(..length)?;
        self.random.fill_bytes(data);
        for (byte, number) in data.iter_mut().zip(self.number_bytes(self.numbered())) {
            *byte = number;
        }
        self.track.pair.request_with(data, is_fd.then_some(BRS))
    }

    fn number_bytes(&self, number: u64) -> [u8; NUMBER_BYTES] {
        (number as u32).to_le_bytes()
    }

    /// The place of the request that a frame answers.
    fn find(&self, answer: &Frame) -> Option<usize> {
        let len = answer.len().min(NUMBER_BYTES);
        let number = answer.data().get(..len)?.iter().rev();
        let number = number.fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
        let mask = u32::MAX >> (8 * (NUMBER_BYTES - len)).min(31);
        // The numbers of those that are open differ in these bits.
        let at = number.wrapping_sub(self.first as u32) & mask;
        let at = usize::try_from(at).ok()?;
        let request = &self.open.get(at)?.frame;
        let is_same = request.data() == answer.data() && request.is_fd() == answer.is_fd();
        is_same.then_some(at)
    }

    /// Notes whose timeout is over.
    fn expire(&mut self, now: Instant<Monotonic>, timeout: Nanos) {
        while let Some(open) = self.open.get_mut(self.waiting) {
            if open.state == State::Waiting {
                if now.since(open.sent) <= timeout {
                    break;
                }
                open.state = State::Overdue;
                self.counts.lost += 1;
            }
            self.waiting += 1;
        }
    }

    /// Goes past those that were answered.
    fn advance(&mut self) {
        while self.open.get(self.waiting).is_some_and(|open| open.state != State::Waiting) {
            self.waiting += 1;
        }
    }

    /// Lets the oldest request go.
    fn forget(&mut self, place: usize, tell: &mut dyn FnMut(&Trip)) {
        let Some(open) = self.open.pop_front() else { return };
        let number = self.first;
        self.first += 1;
        self.waiting = self.waiting.saturating_sub(1);
        if open.state == State::Answered {
            return;
        }
        self.counts.lost += u64::from(open.state == State::Waiting);
        tell(&Trip {
            track: place,
            number,
            request: open.frame,
            sent: open.sent,
            outcome: Outcome::Lost,
        });
    }
}
