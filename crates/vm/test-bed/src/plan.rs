//! [`Plan`]: what the tester of a bed does, as bytes.
//!
//! All numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | `CANDPLAN` |
//! | 8..12, 12..16, 16..20 | how many buses, senders and steps there are |
//! | 20..24 | how many stations there are |
//! | 24..32 | the seed of bit errors |
//! | 32..40 | how long a frame that is missing at the end is waited for, in ns |
//! | then 24 for each bus | nominal and data bit rate in bit/s (4 bytes each), a data bit rate of 0 is the nominal one; the probability of a bit error, 0 to 1 (8 bytes, IEEE 754); how long after bus-off a node of the tester starts again, in ns, all ones for never (8 bytes) |
//! | then 24 for each sender | its bus; the bus on which its frames are awaited, 255 for none, or 254 if it answers; its round (1 byte each), 5 bytes 0; the first of its steps, their number (4 bytes each); how long a frame is awaited, in ns (8 bytes), or the identifier words of requests and of answers (4 bytes each) |
//! | then 48 for each station, by card in ascending order | its card, 0 for echo or 1 for UDP, 0 for every or 1 for answered (1 byte each), 0; bytes of data (4 bytes); the speed of its link in bit/s, and its pace in ns (8 bytes each); the addresses of its card and of the guest's (6 bytes each), and their IPv4 addresses (4 bytes each); 4 bytes 0 |
//! | then 80 for each step | when, in ns (8 bytes); the [frame](crate::frame) |

use core::fmt;
use core::ops::RangeInclusive;

use candor_wire::can::{Bitrate, Frame, Kind as FrameKind, Timing};
use candor_wire::eth::{Address, LinkSpeed};

use crate::datagram::{Endpoint, Kind, MOST_DATA_BYTES};
use crate::frame::{self, FRAME_BYTES};
use crate::station::{StationPace, StationPlan};

/// How many buses a bed can have.
pub const MOST_BUSES: usize = 8;
/// How many network cards of the guest there can be.
pub const MOST_CARDS: usize = 4;
/// How many senders a tester can have.
pub const MOST_SENDERS: usize = 9;
/// The first bytes of every plan.
const MAGIC: [u8; 8] = *b"CANDPLAN";
const HEADER_BYTES: usize = 40;
const BUS_BYTES: usize = 24;
const SENDER_BYTES: usize = 24;
const STATION_BYTES: usize = 48;
const STEP_BYTES: usize = 8 + FRAME_BYTES;
/// The speeds that a link can have.
const SPEEDS: RangeInclusive<LinkSpeed> = LinkSpeed::MBIT_10..=LinkSpeed::GBIT_10;
/// A node that is bus-off does not start again.
const NEVER: u64 = u64::MAX;
/// No bus: nothing is awaited.
const NONE: u8 = 255;
/// No bus: requests are awaited, and answered.
const ANSWERS: u8 = 254;

/// A bus of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusPlan {
    /// Its bit rates.
    pub timing: Timing,
    /// Probability, 0 to 1, that a bit is destroyed, for all nodes alike.
    pub bit_error_rate: f64,
    /// How long after bus-off a node of the tester starts again, in ns; `None`: never. Those of the guest are its own affair.
    pub restart_ns: Option<u64>,
}

/// When a sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each frame at its time after the start; or as soon as the frames before it are sent.
    Timed,
    /// Each frame a while after the one before has arrived, or was given up.
    AfterArrival {
        /// The bus on which it arrives. If that is the bus of the sender, a frame has arrived when it is sent.
        bus: u8,
        /// A frame that has not arrived so long after it was due is given up once it is sent, in ns.
        timeout_ns: u64,
    },
    /// A frame for each request that the guest sends on the same bus, wanted at the instant at which the request ends: with
    /// the request's data and another identifier. It has no steps, and a plan has one such sender at most.
    Answer(Answer),
}

/// What is answered, and how. Identifier words are as SocketCAN has them: bit 31 says that there are 29 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The identifier word of requests, which are data frames.
    pub request: u32,
    pub answer: u32,
}

impl Answer {
    /// The answer to a frame, if it is a request.
    #[must_use]
    pub fn to(self, frame: &Frame) -> Option<Frame> {
        let is_request = frame.can_id() == self.request && is_data(frame);
        let fd_flags = frame.is_fd().then(|| frame.fd_flags());
        is_request.then(|| Frame::from_parts(self.answer, frame.data(), fd_flags).ok()).flatten()
    }

    /// Whether both are identifiers of data frames, and not the same.
    fn is_sound(self) -> bool {
        let is_id = |word| {
            Frame::from_parts(word, &[], None)
                .is_ok_and(|frame| frame.can_id() == word && is_data(&frame))
        };
        self.request != self.answer && is_id(self.request) && is_id(self.answer)
    }
}

/// Whether a frame carries data.
fn is_data(frame: &Frame) -> bool {
    matches!(frame.kind(), FrameKind::Data | FrameKind::Fd)
}

/// A sender of a plan: a node with frames that it sends one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderPlan {
    /// Its bus.
    pub bus: u8,
    /// It sends when the tester is started so many times more than once.
    pub round: u8,
    pub pace: Pace,
    /// The first of its steps.
    pub first: u32,
    /// How many steps it has.
    pub count: u32,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When: since the start, or since the arrival of the one before, in ns.
    pub at_ns: u64,
    pub frame: Frame,
}

/// Why bytes are no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// They do not begin as a plan does.
    NoPlan,
    /// There are more or fewer of them than the plan says.
    Length,
    /// There are more buses, senders or stations than a bed can have, or no bus.
    TooMany,
    /// A bit rate of this bus, or its probability of bit errors, is not possible.
    Bus(u32),
    /// This sender names a bus or steps that there are not, or answers what cannot be answered, or is the second that answers.
    Sender(u32),
    /// This station is at a card that there is not, or not behind the one before, or sends what cannot be.
    Station(u32),
    /// This step has no legal frame.
    Step(u32),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlan => write!(f, "this is no plan of a tester"),
            Self::Length => write!(f, "the plan is cut, or has bytes behind its end"),
            Self::TooMany => {
                write!(f, "the plan has more buses, senders or stations than a test bed")
            }
            Self::Bus(bus) => {
                write!(f, "a bit rate or a bit error rate of bus {bus} is not possible")
            }
            Self::Sender(sender) => {
                write!(
                    f,
                    "sender {sender} needs buses or steps that are not there, or identifiers that cannot be, or is the \
                     second one that answers"
                )
            }
            Self::Station(station) => {
                write!(
                    f,
                    "station {station} is at no card, or not behind the one before, or sends what cannot be"
                )
            }
            Self::Step(step) => write!(f, "step {step} has no legal frame"),
        }
    }
}

impl core::error::Error for PlanError {}

/// What the tester does. The bytes were checked.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    bytes: &'a [u8],
    buses: usize,
    senders: usize,
    stations: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u32::from_le_bytes(*it))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|it| it.first_chunk()).map_or(0, |it| u64::from_le_bytes(*it))
}

impl<'a> Plan<'a> {
    /// Checks and takes the bytes of a plan.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, PlanError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(PlanError::NoPlan);
        }
        let [buses, senders, steps, stations] =
            [8, 12, 16, 20].map(|at| u32_at(bytes, at) as usize);
        let is_too_much = buses > MOST_BUSES || senders > MOST_SENDERS || stations > MOST_CARDS;
        if buses == 0 || is_too_much {
            return Err(PlanError::TooMany);
        }
        let length = (HEADER_BYTES + buses * BUS_BYTES + senders * SENDER_BYTES) as u64
            + stations as u64 * STATION_BYTES as u64
            + steps as u64 * STEP_BYTES as u64;
        if bytes.len() as u64 != length {
            return Err(PlanError::Length);
        }
        let plan = Self { bytes, buses, senders, stations };
        for bus in 0..buses as u32 {
            plan.read_bus(bus as usize).ok_or(PlanError::Bus(bus))?;
        }
        plan.check_senders(steps as u64)?;
        let mut next_card = 0;
        for number in 0..stations {
            let station = plan.read_station(number).filter(|it| it.card >= next_card);
            let station = station.ok_or(PlanError::Station(number as u32))?;
            next_card = station.card + 1;
        }
        for step in 0..steps as u32 {
            plan.read_step(step).ok_or(PlanError::Step(step))?;
        }
        Ok(plan)
    }

    /// The senders have what they need, of so many steps.
    fn check_senders(&self, steps: u64) -> Result<(), PlanError> {
        let mut has_answers = false;
        for (number, sender) in (0..).zip(self.senders()) {
            let is_sound = match sender.pace {
                Pace::Timed => true,
                Pace::AfterArrival { bus, .. } => usize::from(bus) < self.buses,
                Pace::Answer(answer) => {
                    let is_first = !core::mem::replace(&mut has_answers, true);
                    is_first && answer.is_sound() && sender.count == 0
                }
            };
            let end = u64::from(sender.first) + u64::from(sender.count);
            if !is_sound || usize::from(sender.bus) >= self.buses || end > steps {
                return Err(PlanError::Sender(number));
            }
        }
        Ok(())
    }

    /// Takes the bytes of a plan that were checked before; `None` if there are none.
    #[must_use]
    pub fn checked(bytes: &'a [u8]) -> Option<Self> {
        let [buses, senders, stations] = [8, 12, 20].map(|at| u32_at(bytes, at) as usize);
        (bytes.len() >= HEADER_BYTES).then_some(Self { bytes, buses, senders, stations })
    }

    pub fn buses(&self) -> impl Iterator<Item = BusPlan> + use<'_, 'a> {
        (0..self.buses).filter_map(|bus| self.read_bus(bus))
    }

    pub fn senders(&self) -> impl Iterator<Item = SenderPlan> + use<'_, 'a> {
        (0..self.senders).map(|sender| self.read_sender(sender))
    }

    #[must_use]
    pub fn sender(&self, sender: usize) -> Option<SenderPlan> {
        (sender < self.senders).then(|| self.read_sender(sender))
    }

    /// How often the tester is started until it has sent everything.
    #[must_use]
    pub fn rounds(&self) -> u8 {
        self.senders().map(|it| it.round).max().unwrap_or(0).saturating_add(1)
    }

    /// From which the bit errors of all buses follow.
    #[must_use]
    pub fn seed(&self) -> u64 {
        u64_at(self.bytes, 24)
    }

    /// How long a frame that is missing at the end is waited for, in ns.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        u64_at(self.bytes, 32)
    }

    /// The stations, by card.
    pub fn stations(&self) -> impl Iterator<Item = StationPlan> + use<'_, 'a> {
        (0..self.stations).filter_map(|station| self.read_station(station))
    }

    /// A frame to send; `None` behind the last one of the plan.
    #[must_use]
    pub fn step(&self, step: u32) -> Option<Step> {
        self.read_step(step)
    }

    /// A number for what the plan says: another plan has another one, in all likelihood (FNV-1a, 64 bits).
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        self.bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix)
    }

    fn read_bus(&self, bus: usize) -> Option<BusPlan> {
        let at = HEADER_BYTES + bus * BUS_BYTES;
        let nominal = Bitrate::new(u32_at(self.bytes, at))?;
        let data = match u32_at(self.bytes, at + 4) {
            0 => nominal,
            data => Bitrate::new(data)?,
        };
        let bit_error_rate = f64::from_bits(u64_at(self.bytes, at + 8));
        let restart_ns = Some(u64_at(self.bytes, at + 16)).filter(|&it| it != NEVER);
        (0.0..=1.0).contains(&bit_error_rate).then_some(BusPlan {
            timing: Timing { nominal, data },
            bit_error_rate,
            restart_ns,
        })
    }

    fn read_sender(&self, sender: usize) -> SenderPlan {
        let at = HEADER_BYTES + self.buses * BUS_BYTES + sender * SENDER_BYTES;
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(NONE);
        let pace = match byte(at + 1) {
            NONE => Pace::Timed,
            ANSWERS => Pace::Answer(Answer {
                request: u32_at(self.bytes, at + 16),
                answer: u32_at(self.bytes, at + 20),
            }),
            bus => Pace::AfterArrival { bus, timeout_ns: u64_at(self.bytes, at + 16) },
        };
        let (first, count) = (u32_at(self.bytes, at + 8), u32_at(self.bytes, at + 12));
        SenderPlan { bus: byte(at), round: byte(at + 2), pace, first, count }
    }

    /// Where the stations begin.
    const fn stations_at(&self) -> usize {
        HEADER_BYTES + self.buses * BUS_BYTES + self.senders * SENDER_BYTES
    }

    fn read_station(&self, station: usize) -> Option<StationPlan> {
        let begin = self.stations_at() + station * STATION_BYTES;
        let bytes: &[u8; STATION_BYTES] = self.bytes.get(begin..)?.first_chunk()?;
        let pace_ns = u64_at(bytes, 16);
        let endpoint = |card: usize, ip: usize| {
            let card = Address(*bytes.get(card..)?.first_chunk()?);
            Some(Endpoint { card, ip: *bytes.get(ip..)?.first_chunk()? })
        };
        let kind = match bytes[1] {
            0 => Kind::Echo,
            1 => Kind::Udp,
            _ => return None,
        };
        let pace = match (bytes[2], kind) {
            (0, _) => StationPace::Every(pace_ns),
            // Nobody answers a datagram of UDP.
            (1, Kind::Echo) => StationPace::Answered(pace_ns),
            _ => return None,
        };
        Some(StationPlan {
            card: Some(bytes[0]).filter(|&card| usize::from(card) < MOST_CARDS)?,
            speed: LinkSpeed::new(u64_at(bytes, 8)).filter(|it| SPEEDS.contains(it))?,
            kind,
            data_bytes: u16::try_from(u32_at(bytes, 4)).ok().filter(|&it| it <= MOST_DATA_BYTES)?,
            pace,
            station: endpoint(24, 36)?,
            guest: endpoint(30, 40)?,
        })
    }

    fn read_step(&self, step: u32) -> Option<Step> {
        let begin = self.stations_at() + self.stations * STATION_BYTES;
        let bytes = self.bytes.get(begin + step as usize * STEP_BYTES..)?.get(..STEP_BYTES)?;
        let frame = frame::read(bytes.last_chunk()?)?;
        Some(Step { at_ns: u64_at(bytes, 0), frame })
    }
}

#[cfg(any(feature = "write", test))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents<'a> {
    pub buses: &'a [BusPlan],
    pub senders: &'a [SenderPlan],
    /// From which the bit errors of all buses follow.
    pub seed: u64,
    /// How long a frame that is missing at the end is waited for, in ns.
    pub timeout_ns: u64,
    /// The stations, by card.
    pub stations: &'a [StationPlan],
    /// The frames of all senders.
    pub steps: &'a [Step],
}

/// The bytes of a plan.
#[cfg(any(feature = "write", test))]
#[must_use]
pub fn write(contents: &Contents<'_>) -> alloc::vec::Vec<u8> {
    let Contents { buses, senders, seed, timeout_ns, stations, steps } = contents;
    let mut bytes = alloc::vec::Vec::with_capacity(HEADER_BYTES + steps.len() * STEP_BYTES);
    bytes.extend(MAGIC);
    for count in [buses.len(), senders.len(), steps.len(), stations.len()] {
        bytes.extend((count as u32).to_le_bytes());
    }
    bytes.extend(seed.to_le_bytes());
    bytes.extend(timeout_ns.to_le_bytes());
    for BusPlan { timing, bit_error_rate, restart_ns } in *buses {
        for rate in [timing.nominal, timing.data] {
            bytes.extend(rate.bits_per_second().to_le_bytes());
        }
        bytes.extend(bit_error_rate.to_bits().to_le_bytes());
        bytes.extend(restart_ns.unwrap_or(NEVER).to_le_bytes());
    }
    for sender in *senders {
        let (awaited, last) = match sender.pace {
            Pace::Timed => (NONE, [0; 8]),
            Pace::AfterArrival { bus, timeout_ns } => (bus, timeout_ns.to_le_bytes()),
            Pace::Answer(Answer { request, answer }) => {
                (ANSWERS, (u64::from(answer) << 32 | u64::from(request)).to_le_bytes())
            }
        };
        bytes.extend([sender.bus, awaited, sender.round, 0, 0, 0, 0, 0]);
        bytes.extend(sender.first.to_le_bytes());
        bytes.extend(sender.count.to_le_bytes());
        bytes.extend(last);
    }
    for it in *stations {
        let kind = match it.kind {
            Kind::Echo => 0,
            Kind::Udp => 1,
        };
        let (pace, pace_ns) = match it.pace {
            StationPace::Every(ns) => (0, ns),
            StationPace::Answered(ns) => (1, ns),
        };
        bytes.extend([it.card, kind, pace, 0]);
        bytes.extend(u32::from(it.data_bytes).to_le_bytes());
        bytes.extend(it.speed.bits_per_second().to_le_bytes());
        bytes.extend(pace_ns.to_le_bytes());
        bytes.extend([it.station.card.0, it.guest.card.0].as_flattened());
        bytes.extend([it.station.ip, it.guest.ip].as_flattened());
        bytes.extend([0; 4]);
    }
    for Step { at_ns, frame } in *steps {
        bytes.extend(at_ns.to_le_bytes());
        bytes.extend(frame::bytes(frame));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;
    use crate::datagram::tests::endpoint;

    const SEED: u64 = 0x1122_3344_5566_7788;

    const ANSWER: Answer = Answer { request: 0x8000_0077, answer: 0x78 };

    fn stations() -> [StationPlan; 2] {
        let one = StationPlan {
            card: 0,
            speed: LinkSpeed::GBIT_1,
            kind: Kind::Echo,
            data_bytes: 60_000,
            pace: StationPace::Answered(10_000_000),
            station: endpoint(2),
            guest: endpoint(1),
        };
        let pace = StationPace::Every(0);
        [one, StationPlan { card: 2, kind: Kind::Udp, speed: LinkSpeed::MBIT_100, pace, ..one }]
    }

    fn bytes(buses: &[BusPlan], senders: &[SenderPlan], steps: &[Step]) -> Vec<u8> {
        write(&Contents { buses, senders, seed: SEED, timeout_ns: 7, stations: &stations(), steps })
    }

    fn plan() -> (Vec<BusPlan>, Vec<SenderPlan>, Vec<Step>) {
        let rate = |text: &str| text.parse::<Bitrate>().unwrap();
        let buses = [
            BusPlan {
                timing: Timing::classical(rate("500k")),
                bit_error_rate: 0.0,
                restart_ns: None,
            },
            BusPlan {
                timing: Timing { nominal: rate("500k"), data: rate("2M") },
                bit_error_rate: 1e-6,
                restart_ns: Some(0),
            },
        ];
        let awaits = Pace::AfterArrival { bus: 1, timeout_ns: 1_000_000_000 };
        let senders = [
            SenderPlan { bus: 0, round: 0, pace: awaits, first: 0, count: 2 },
            SenderPlan { bus: 1, round: 1, pace: Pace::Timed, first: 2, count: 2 },
            SenderPlan { bus: 1, round: 1, pace: Pace::Answer(ANSWER), first: 0, count: 0 },
        ];
        let frames = ["123#0001", "12345678#R5", "7FF##3112233", "000#"];
        let step = |(at_ns, frame): (u64, &&str)| Step { at_ns, frame: frame.parse().unwrap() };
        (buses.into(), senders.into(), (10..).zip(&frames).map(step).collect())
    }

    #[test]
    fn a_plan_is_what_was_written() {
        let (buses, senders, steps) = plan();
        let bytes = bytes(&buses, &senders, &steps);
        let plan = Plan::read(&bytes).unwrap();
        assert_eq!(plan.buses().collect::<Vec<_>>(), buses);
        assert_eq!(plan.senders().collect::<Vec<_>>(), senders);
        assert_eq!((0..4).map_while(|at| plan.step(at)).collect::<Vec<_>>(), steps);
        assert_eq!(plan.seed(), SEED);
        assert_eq!(plan.stations().collect::<Vec<_>>(), stations());
        assert_eq!((plan.step(4), plan.sender(3)), (None, None));
        let mut other = bytes.clone();
        other[100] ^= 1;
        assert_ne!(Plan::read(&other).map(|it| it.fingerprint()), Ok(plan.fingerprint()));
    }

    #[test]
    fn an_answer_has_the_data_of_the_request() {
        let to = |frame: &str| ANSWER.to(&frame.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(to("00000077#0102").as_deref(), Some("078#0102"));
        assert_eq!(to("00000077##1010203").as_deref(), Some("078##1010203"));
        for other in ["077#0102", "00000078#0102", "00000077#R2", "078#0102"] {
            assert_eq!(to(other), None, "{other}");
        }
    }

    #[test]
    fn bytes_that_are_no_plan_are_refused() {
        let (buses, senders, steps) = plan();
        let bytes = bytes(&buses, &senders, &steps);
        for length in 0..bytes.len() {
            let error = Plan::read(&bytes[..length]).unwrap_err();
            let expected = if length < 8 { PlanError::NoPlan } else { PlanError::Length };
            assert!(
                error == expected || (length < HEADER_BYTES && error == PlanError::TooMany),
                "{length}"
            );
        }
        assert_eq!(Plan::read(&[&bytes[..], &[0]].concat()).unwrap_err(), PlanError::Length);
        let senders_at = HEADER_BYTES + 2 * BUS_BYTES;
        let answers_at = senders_at + 2 * SENDER_BYTES;
        let stations_at = answers_at + SENDER_BYTES;
        let steps_at = stations_at + 2 * STATION_BYTES;
        for (at, byte, error) in [
            (8, 0, PlanError::TooMany),
            (8, 9, PlanError::TooMany),
            (12, 10, PlanError::TooMany),
            (16, 3, PlanError::Length),
            (HEADER_BYTES + 3, 0xFF, PlanError::Bus(0)),
            (HEADER_BYTES + BUS_BYTES + 7, 0xFF, PlanError::Bus(1)),
            // More than 1, less than 0.
            (HEADER_BYTES + BUS_BYTES + 15, 0x40, PlanError::Bus(1)),
            (HEADER_BYTES + BUS_BYTES + 15, 0xBE, PlanError::Bus(1)),
            (senders_at, 2, PlanError::Sender(0)),
            (senders_at + 1, 2, PlanError::Sender(0)),
            (senders_at + SENDER_BYTES + 12, 3, PlanError::Sender(1)),
            // It answers as well, or has steps, or identifiers that are none or the same.
            (senders_at + SENDER_BYTES + 1, ANSWERS, PlanError::Sender(1)),
            (answers_at, 2, PlanError::Sender(2)),
            (answers_at + 12, 1, PlanError::Sender(2)),
            (answers_at + 19, 0xA0, PlanError::Sender(2)),
            (answers_at + 19, 0xC0, PlanError::Sender(2)),
            (answers_at + 21, 8, PlanError::Sender(2)),
            (answers_at + 23, 0x40, PlanError::Sender(2)),
            (20, 1, PlanError::Length),
            (20, 5, PlanError::TooMany),
            (stations_at, 4, PlanError::Station(0)),
            (stations_at, 2, PlanError::Station(1)),
            (stations_at + 1, 1, PlanError::Station(0)),
            (stations_at + 1, 2, PlanError::Station(0)),
            (stations_at + 2, 2, PlanError::Station(0)),
            (stations_at + 6, 1, PlanError::Station(0)),
            (stations_at + 15, 1, PlanError::Station(0)),
            (steps_at + 8 + 4, 9, PlanError::Step(0)),
            (steps_at + 8 + 3, 0x20, PlanError::Step(0)),
        ] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert_eq!(Plan::read(&damaged).unwrap_err(), error, "{byte} at {at}");
            assert!(error.to_string().len() > 20);
        }
    }
}
