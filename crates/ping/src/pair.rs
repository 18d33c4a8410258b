//! [`Pair`]: the identifiers of requests and answers.

use candor_time::Nanos;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, Frame, Kind, SFF_MASK};
use candor_wire::can::{Timing, bits};

/// The identifiers of requests and of the answers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    request: u32,
    answer: u32,
}

impl Pair {
    /// What master and slave use if nothing else is said.
    pub const DEFAULT: Self = Self { request: 0x77, answer: 0x78 };

    /// A pair of these identifier words, as SocketCAN has them; `None` if they are the same, or those of no data frames.
    #[must_use]
    pub fn new(request: u32, answer: u32) -> Option<Self> {
        let is_id = |word: u32| {
            let mask = if word & EFF_FLAG == 0 { SFF_MASK } else { EFF_FLAG | EFF_MASK };
            word & !mask == 0
        };
        let is_pair = request != answer && is_id(request) && is_id(answer);
        is_pair.then_some(Self { request, answer })
    }

    /// The pair for the `number`th of several masters: both identifiers go on by two. `None` if there is no such identifier.
    #[must_use]
    pub fn nth(self, number: u32) -> Option<Self> {
        let step = number.checked_mul(2)?;
        let next = |word: u32| {
            let mask = if word & EFF_FLAG == 0 { SFF_MASK } else { EFF_MASK };
            let id = (word & mask).checked_add(step).filter(|&id| id <= mask)?;
            Some(word & EFF_FLAG | id)
        };
        Some(Self { request: next(self.request)?, answer: next(self.answer)? })
    }

    /// The identifier word of requests, as SocketCAN has it.
    #[must_use]
    pub const fn request(self) -> u32 {
        self.request
    }

    /// The identifier word of answers.
    #[must_use]
    pub const fn answer(self) -> u32 {
        self.answer
    }

    /// The answer to a frame, if it is a request of this pair.
    #[must_use]
    pub fn answer_to(self, frame: &Frame) -> Option<Frame> {
        let is_request = frame.can_id() == self.request && is_data(frame);
        is_request
            .then(|| self.frame(self.answer, frame.data(), frame.is_fd().then(|| frame.fd_flags())))
            .flatten()
    }

    pub(crate) fn request_with(self, data: &[u8], fd_flags: Option<u8>) -> Option<Frame> {
        self.frame(self.request, data, fd_flags)
    }

    fn frame(self, word: u32, data: &[u8], fd_flags: Option<u8>) -> Option<Frame> {
        Frame::from_parts(word, data, fd_flags).ok()
    }
}

/// The shortest round trip that a bus allows: the request, the intermission, and the answer up to the instant at which receivers
/// have it, each rounded to the nanosecond as on the buses of `candor_sim`. `None` for what is no frame on a wire.
#[must_use]
pub fn shortest(request: &Frame, answer: &Frame, timing: Timing) -> Option<Nanos> {
    let on_wire = |frame: &Frame| {
        let length = bits::length(frame).ok()?.without_intermission();
        Some(timing.duration_ns(length))
    };
    let intermission = timing.nominal.duration_ns(bits::INTERMISSION_BITS);
    Some(Nanos::from_nanos(on_wire(request)? + intermission + on_wire(answer)?))
}

/// Whether the frame carries data.
pub(crate) fn is_data(frame: &Frame) -> bool {
    matches!(frame.kind(), Kind::Data | Kind::Fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_go_on_by_two_and_answer_with_the_same_data() {
        let pair = Pair::DEFAULT.nth(2).unwrap();
        assert_eq!((pair.request(), pair.answer()), (0x7B, 0x7C));
        assert_eq!(Pair::DEFAULT.nth(1_000), None);
        assert_eq!(Pair::new(0x77, 0x78), Some(Pair::DEFAULT));
        for (request, answer) in [(0x77, 0x77), (0x77, 0x800), (0x4000_0077, 0x78)] {
            assert_eq!(Pair::new(request, answer), None, "{request:X} {answer:X}");
        }
        let request: Frame = "07B#0102".parse().unwrap();
        assert_eq!(pair.answer_to(&request).unwrap().to_string(), "07C#0102");
        for other in ["07C#0102", "0000007B#0102", "07B#R2", "2000007B#0000000000000000"] {
            assert_eq!(pair.answer_to(&other.parse().unwrap()), None, "{other}");
        }
        let fd: Frame = "07B##1010203".parse().unwrap();
        assert_eq!(pair.answer_to(&fd).unwrap().to_string(), "07C##1010203");
    }
}
