//! [`Answers`]: what a sender that answers has still to send.

use candor_wire::can::Frame;

/// How many answers wait for the bus at most: requests beyond get none, and are counted.
pub const MOST_ANSWERS: usize = 64;

/// An answer that waits for the bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) frame: Frame,
    /// Since when it is there, in ns: when its request ended.
    pub(crate) at_ns: u64,
}

/// Answers in the order of their requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    ring: [Option<Waiting>; MOST_ANSWERS],
    /// Where the next one to send is.
    first: usize,
    count: usize,
    /// Requests for whose answers there was no room.
    refused: u64,
}

impl Answers {
    pub(crate) const NEW: Self =
        Self { ring: [None; MOST_ANSWERS], first: 0, count: 0, refused: 0 };

    /// Adds one behind all others, or counts it as refused.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        if self.count == MOST_ANSWERS {
            self.refused += 1;
            return;
        }
        self.ring[(self.first + self.count) % MOST_ANSWERS] = Some(waiting);
        self.count += 1;
    }

    /// The next one to send.
    pub(crate) const fn next(&self) -> Option<Waiting> {
        self.ring[self.first]
    }

    /// The next one is sent.
    pub(crate) const fn pop(&mut self) {
        if self.ring[self.first].take().is_some() {
            self.first = (self.first + 1) % MOST_ANSWERS;
            self.count -= 1;
        }
    }

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_their_requests() {
        let mut answers = Answers::NEW;
        let frame: Frame = "078#01".parse().unwrap();
        answers.pop();
        let (mut pushed, mut popped) = (0..1_000, 0..1_000);
        for round in 0..3 {
            for at_ns in pushed.by_ref().take(MOST_ANSWERS) {
                answers.push(Waiting { frame, at_ns });
            }
            answers.push(Waiting { frame, at_ns: u64::MAX });
            assert_eq!(answers.refused(), round + 1);
            for at_ns in popped.by_ref().take(MOST_ANSWERS) {
                assert_eq!(answers.next().map(|it| it.at_ns), Some(at_ns));
                answers.pop();
            }
            assert!(answers.next().is_none());
            // The ring begins somewhere else.
            for at_ns in pushed.by_ref().take(5) {
                answers.push(Waiting { frame, at_ns });
                assert_eq!(popped.next(), Some(at_ns));
                answers.pop();
            }
        }
    }
}
