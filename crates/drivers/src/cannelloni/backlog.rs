//! [`Backlog`]: the bytes of frames that wait to be sent on a stream, and the lengths of those that
//! were sent last.

use std::collections::VecDeque;

use candor_wire::can::Frame;
use candor_wire::can::tunnel::Refused;
use candor_wire::can::tunnel::cannelloni::{encode_frame, written_len};

/// Frames whose lengths are remembered after they were sent: as many of the shortest, 5 bytes each,
/// as the kernel keeps.
const MOST_SENT: usize = 32_768;

/// Bytes that wait to be sent.
pub(super) struct Backlog {
    buffer: Box<[u8]>,
    /// What is not sent.
    start: usize,
    end: usize,
    /// Where the first frame begins of which nothing is sent, and how many such there are.
    boundary: usize,
    whole: u64,
    /// The lengths of frames of which something was sent, the latest at the back.
    sent: VecDeque<u8>,
}

impl Backlog {
    pub(super) fn new(room: usize) -> Self {
        let buffer = vec![0; room].into_boxed_slice();
        let sent = VecDeque::with_capacity(MOST_SENT);
        Self { buffer, start: 0, end: 0, boundary: 0, whole: 0, sent }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn push(&mut self, frame: &Frame) -> Result<(), Refused> {
        let mut outcome = encode_frame(frame, self.buffer.get_mut(self.end..).unwrap_or_default());
        if outcome == Err(Refused::Full) && self.start > 0 {
            // What is sent makes room.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.boundary -= self.start;
            self.start = 0;
            outcome = encode_frame(frame, self.buffer.get_mut(self.end..).unwrap_or_default());
        }
        self.end += outcome?;
        self.whole += 1;
        Ok(())
    }

    /// How many frames are not sent completely.
    pub(super) fn frames(&self) -> u64 {
        self.whole + u64::from(self.boundary > self.start)
    }

    /// So many bytes are sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.start += count;
        while self.boundary < self.start {
            let first = self.buffer.get(self.boundary..self.end).unwrap_or_default();
            let len = written_len(first).unwrap_or(first.len());
            self.boundary += len;
            self.whole -= 1;
            if self.sent.len() == MOST_SENT {
                self.sent.pop_front();
            }
            self.sent.push_back(len as u8);
        }
        if self.start == self.end {
            (self.start, self.end, self.boundary) = (0, 0, 0);
        }
    }

    /// How many frames were sent completely and are among the last so many bytes.
    pub(super) fn frames_among(&self, bytes: usize) -> u64 {
        let (mut left, mut frames) = (bytes, 0);
        let mut part = self.boundary - self.start;
        for &len in self.sent.iter().rev() {
            if left == 0 {
                break;
            }
            let is_complete = part == 0;
            left = left.saturating_sub(usize::from(len) - std::mem::take(&mut part));
            frames += u64::from(is_complete);
        }
        frames
    }

    /// Forgets everything: there is another connection.
    pub(super) fn clear(&mut self) {
        (self.start, self.end, self.boundary, self.whole) = (0, 0, 0, 0);
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    #[test]
    fn frames_that_are_not_sent_completely_are_counted() {
        let mut backlog = Backlog::new(24);
        for text in ["123#AABB", "124##0", "125#R8"] {
            assert_eq!(backlog.push(&frame(text)), Ok(()));
        }
        // They have 7, 6 and 5 bytes.
        assert_eq!((backlog.bytes().len(), backlog.frames()), (18, 3));
        assert_eq!(backlog.push(&frame("126#AABB")), Err(Refused::Full));
        for (sent, left) in [(1, 3), (5, 3), (1, 2), (3, 2)] {
            backlog.sent(sent);
            assert_eq!(backlog.frames(), left);
        }
        // What is sent makes room.
        assert_eq!(backlog.push(&frame("126#AABB")), Ok(()));
        assert_eq!((backlog.bytes().len(), backlog.frames(), backlog.start), (15, 3, 0));
        backlog.sent(8);
        assert_eq!(backlog.frames(), 1);
        backlog.sent(7);
        assert_eq!((backlog.frames(), backlog.end), (0, 0));
    }

    #[test]
    fn frames_that_nobody_acknowledged_are_counted_by_their_bytes() {
        let mut backlog = Backlog::new(64);
        for text in ["123#AABB", "124##0", "125#R8"] {
            backlog.push(&frame(text)).unwrap();
        }
        // 7 and 6 bytes, and 2 of 5.
        backlog.sent(15);
        assert_eq!(backlog.frames(), 1, "the third is not complete");
        for (bytes, frames) in [(0, 0), (1, 0), (2, 0), (3, 1), (8, 1), (9, 2), (15, 2), (99, 2)] {
            assert_eq!(backlog.frames_among(bytes), frames, "{bytes}");
        }
        backlog.sent(3);
        for (bytes, frames) in [(0, 0), (1, 1), (5, 1), (6, 2), (12, 3), (99, 3)] {
            assert_eq!(backlog.frames_among(bytes), frames, "{bytes}");
        }
        backlog.clear();
        assert_eq!((backlog.frames_among(99), backlog.frames()), (0, 0));
    }

    #[test]
    fn it_remembers_so_many_and_no_more() {
        let mut backlog = Backlog::new(8);
        for _ in 0..MOST_SENT + 10 {
            backlog.push(&frame("123#")).unwrap();
            backlog.sent(5);
        }
        assert_eq!(backlog.frames_among(usize::MAX), MOST_SENT as u64);
        assert_eq!(backlog.sent.capacity(), MOST_SENT);
    }
}
