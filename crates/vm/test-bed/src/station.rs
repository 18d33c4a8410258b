//! [`Station`]: another computer on a link of the guest (IEEE 802.3, clause 1.4), which sends datagrams and counts the
//! answers.
//!
//! ```text
//!  every       |datagram|      |datagram|      |datagram|        a period of 0: one after the other, at line rate
//!  answered    |datagram| .... |answer||datagram| .... |answer|  as `ping -f`; or when the answer is given up
//! ```

use candor_hardware::ethernet::{Direction, Outgoing};
use candor_wire::eth::LinkSpeed;

use crate::datagram::{Datagram, Endpoint, Kind, Reply};

/// When a station sends its next datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationPace {
    /// So long after the one before began, in ns, or as soon as that has passed.
    Every(u64),
    /// When the one before is answered, or so long after it began, in ns.
    Answered(u64),
}

/// A station of a plan, and the card of the guest that its link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationPlan {
    /// The card, by number.
    pub card: u8,
    /// The speed of the link, both ways.
    pub speed: LinkSpeed,
    /// What it sends.
    pub kind: Kind,
    /// How much data each datagram has.
    pub data_bytes: u16,
    /// When it sends.
    pub pace: StationPace,
    pub station: Endpoint,
    pub guest: Endpoint,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCount {
    /// Datagrams that were begun.
    pub datagrams: u64,
    /// Whole answers.
    pub answers: u64,
    /// Frames that arrived at the card.
    pub frames: u64,
    /// Those of them for which the card had no room.
    pub refused: u64,
    /// Frames of the guest that arrived.
    pub received: u64,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    identification: u16,
    number: u16,
    bytes: u32,
}

/// Requests whose answers are recorded: so many at a time.
const MOST_REQUESTS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    plan: StationPlan,
    direction: Direction,
    is_active: bool,
    /// The fragment that is on the link, and when it is over.
    sending: Option<(u16, u64)>,
    /// When the next datagram begins, if nothing is on the link.
    next_ns: u64,
    /// When the last requests began, by their numbers.
    begun_ns: [u64; MOST_REQUESTS],
    answer: Option<Answer>,
    count: StationCount,
}

impl Station {
    pub(crate) const fn new(plan: StationPlan) -> Self {
        Self {
            plan,
            direction: Direction::new(plan.speed),
            is_active: false,
            sending: None,
            next_ns: 0,
            begun_ns: [0; MOST_REQUESTS],
            answer: None,
            count: StationCount { datagrams: 0, answers: 0, frames: 0, refused: 0, received: 0 },
        }
    }

    pub(crate) const fn count(&self) -> StationCount {
        self.count
    }

    pub(crate) fn start(&mut self, now_ns: u64) {
        (self.is_active, self.next_ns) = (true, now_ns);
    }

    /// It sends no more than what is on the link.
    pub(crate) fn stop(&mut self) {
        self.is_active = false;
    }

    /// When something happens next, in ns.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.sending {
            Some((_, over_ns)) => Some(over_ns),
            None => self.is_active.then_some(self.next_ns),
        }
    }

    /// The last datagram that was begun.
    const fn datagram(&self) -> Datagram {
        let StationPlan { kind, data_bytes, station, guest, .. } = self.plan;
        let number = self.count.datagrams.wrapping_sub(1) as u16;
        Datagram { kind, data_bytes, number, from: station, to: guest }
    }

    /// What is due at `now_ns`: a datagram begins, or a frame arrives at the card, which says whether it has room.
    pub(crate) fn advance(&mut self, now_ns: u64, arrive: &mut dyn FnMut(&[u8]) -> bool) {
        match self.sending {
            Some((fragment, over_ns)) if over_ns <= now_ns => {
                let datagram = self.datagram();
                let (frame, length) = (datagram.frame(fragment), datagram.frame_len(fragment));
                self.count.frames += 1;
                self.count.refused += u64::from(!arrive(&frame[..length]));
                self.sending = None;
                if fragment + 1 < datagram.frame_count() {
                    self.send(fragment + 1, over_ns);
                } else {
                    let (StationPace::Every(after_ns) | StationPace::Answered(after_ns)) =
                        self.plan.pace;
                    let begun_ns = *self.begun_at(datagram.number);
                    self.next_ns = begun_ns.saturating_add(after_ns).max(over_ns);
                }
            }
            None if self.is_active && self.next_ns <= now_ns => {
                self.count.datagrams += 1;
                let begin_ns = self.send(0, self.next_ns);
                *self.begun_at(self.datagram().number) = begin_ns;
            }
            _ => {}
        }
    }

    fn begun_at(&mut self, number: u16) -> &mut u64 {
        &mut self.begun_ns[usize::from(number) % MOST_REQUESTS]
    }

    /// A fragment is next on the link; when it begins.
    fn send(&mut self, fragment: u16, ready_ns: u64) -> u64 {
        let (begin_ns, over_ns) =
            self.direction.take(ready_ns, self.datagram().frame_len(fragment));
        self.sending = Some((fragment, over_ns));
        begin_ns
    }

    /// A frame of the guest has arrived; if an answer is whole with it before the station is stopped, when its request began.
    pub(crate) fn receive(&mut self, frame: &Outgoing, now_ns: u64) -> Option<u64> {
        self.count.received += 1;
        let reply = Reply::of(frame)?;
        match (reply.number, &mut self.answer) {
            (Some(number), _) => {
                let Reply { identification, bytes, .. } = reply;
                self.answer = Some(Answer { identification, number, bytes });
            }
            (None, Some(answer)) if answer.identification == reply.identification => {
                answer.bytes = answer.bytes.saturating_add(reply.bytes);
            }
            _ => return None,
        }
        let answer = self.answer.filter(|answer| Some(answer.bytes) == reply.total)?;
        self.answer = None;
        self.count.answers += 1;
        let last = self.datagram().number;
        if answer.number == last
            && self.sending.is_none()
            && matches!(self.plan.pace, StationPace::Answered(_))
        {
            self.next_ns = self.next_ns.min(now_ns);
        }
        let age = last.wrapping_sub(answer.number);
        (self.is_active && usize::from(age) < MOST_REQUESTS).then(|| *self.begun_at(answer.number))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::datagram::tests::{endpoint, reply_to};

    const fn plan(kind: Kind, data_bytes: u16, pace: StationPace) -> StationPlan {
        let (station, guest) = (endpoint(2), endpoint(1));
        StationPlan { card: 0, speed: LinkSpeed::GBIT_1, kind, data_bytes, pace, station, guest }
    }

    /// Until `end_ns`: when each frame arrives, and how many bytes it has.
    fn arrivals(station: &mut Station, end_ns: u64) -> Vec<(u64, usize)> {
        let mut seen = Vec::new();
        while let Some(at) = station.deadline().filter(|&at| at < end_ns) {
            station.advance(at, &mut |frame| {
                seen.push((at, frame.len()));
                true
            });
        }
        seen
    }

    #[test]
    fn datagrams_come_at_their_times() {
        let mut station = Station::new(plan(Kind::Udp, 1_000, StationPace::Every(1_000_000)));
        assert_eq!(station.deadline(), None);
        station.start(5_000);
        // 8 bytes of preamble, 14 + 20 + 8 of headers, 1,000, 4 of check sequence.
        let frame = |begin: u64| (begin + 1_054 * 8, 1_042);
        assert_eq!(
            arrivals(&mut station, 2_500_000),
            [frame(5_000), frame(1_005_000), frame(2_005_000)]
        );
        assert_eq!(station.count().datagrams, 3);
        station.stop();
        assert_eq!(station.deadline(), None);
    }

    #[test]
    fn a_period_that_is_too_short_is_line_rate() {
        for period in [0, 1, 12_000] {
            let mut station = Station::new(plan(Kind::Udp, 1_472, StationPace::Every(period)));
            station.start(0);
            let seen = arrivals(&mut station, 1_000_000);
            // The longest frame with preamble and gap: 1,538 bytes.
            let line_rate: Vec<_> = (0..81).map(|at| (at * 12_304 + 12_208, 1_514)).collect();
            assert_eq!(seen, line_rate, "{period}");
        }
    }

    #[test]
    fn a_fragment_follows_the_one_before() {
        let mut station = Station::new(plan(Kind::Echo, 60_000, StationPace::Every(2_000_000)));
        station.start(0);
        let seen = arrivals(&mut station, 2_000_000);
        assert_eq!(seen.len(), 41);
        assert_eq!(seen[40], (40 * 12_304 + (842 + 12) * 8, 842));
    }

    #[test]
    fn the_next_datagram_waits_for_the_answer() {
        let timeout = StationPace::Answered(10_000_000);
        let mut station = Station::new(plan(Kind::Echo, 3_000, timeout));
        station.start(0);
        assert_eq!(arrivals(&mut station, 9_000_000).len(), 3);
        assert_eq!(station.deadline(), Some(10_000_000));
        let replies = reply_to(&station.datagram());
        assert_eq!(station.receive(&replies[0], 900_000), None);
        assert_eq!(station.receive(&replies[1], 910_000), None);
        assert_eq!(station.receive(&replies[2], 920_000), Some(0));
        assert_eq!(station.deadline(), Some(920_000));
        // The second one is given up; its answer counts all the same.
        let seen = arrivals(&mut station, 1_000_000);
        assert_eq!(seen.len(), 3);
        let late = reply_to(&station.datagram());
        assert_eq!(arrivals(&mut station, 10_940_000).len(), 1);
        let answered: Vec<_> = late.iter().map(|it| station.receive(it, 10_940_000)).collect();
        assert_eq!(answered, [None, None, Some(920_000)]);
        let count = station.count();
        assert_eq!((count.datagrams, count.answers, count.received), (3, 2, 6));
        assert_eq!(count.frames, 3 + 3 + 1);
        // An answer after the end is no record.
        arrivals(&mut station, 11_000_000);
        station.stop();
        let late = reply_to(&station.datagram());
        let answered: Vec<_> = late.iter().map(|it| station.receive(it, 12_000_000)).collect();
        assert_eq!(answered, [None; 3]);
    }

    #[test]
    fn an_answer_with_a_part_lost_is_none() {
        let mut station = Station::new(plan(Kind::Echo, 3_000, StationPace::Answered(10_000_000)));
        station.start(0);
        arrivals(&mut station, 9_000_000);
        let replies = reply_to(&station.datagram());
        for lost in 0..3 {
            for (_, reply) in replies.iter().enumerate().filter(|(at, _)| *at != lost) {
                assert_eq!(station.receive(reply, 1), None, "{lost}");
            }
        }
        assert_eq!(station.count().answers, 0);
    }

    #[test]
    fn frames_without_room_are_counted() {
        let mut station = Station::new(plan(Kind::Udp, 10, StationPace::Every(0)));
        station.start(0);
        for turn in 0..10 {
            let at = station.deadline().unwrap();
            station.advance(at, &mut |_| turn % 4 == 1);
        }
        let StationCount { frames, refused, .. } = station.count();
        assert_eq!((frames, refused), (5, 2));
    }
}
