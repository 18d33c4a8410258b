//! What the tester receives: every frame of a bus, and when the kernel took it from the
//! driver.
//!
//! Its ring is shared with the kernel, which copies each frame there with its stamp: no buffer is
//! kept for it, nobody is woken, and nothing has to be fetched while it is measured.

use candor_linux::packet::Ring;
use candor_linux::poll::{self, Interest};
use candor_linux::state;
use candor_protocol::report::Stamp;
use candor_time::{Instant, Nanos, Realtime};
use candor_wire::can::socketcan::HEADER_LEN;

use crate::failure::{Context, FAULT, Failure};

/// Frames that a ring holds at most; a slot has 256 bytes.
pub(crate) const MOST_BUFFERED: u64 = 150_000;
/// The place of the length in the bytes of a frame.
const LENGTH_AT: usize = 4;
/// The place of the number.
const NUMBER: std::ops::Range<usize> = HEADER_LEN..HEADER_LEN + 2;

pub(crate) struct Capture {
    ring: Ring,
    captured: CapturedFrames,
}

struct CapturedFrames {
    start: Instant<Realtime>,
    stamps: Vec<Stamp>,
    /// The frames one after the other, and where each ends, if they are wanted.
    frames: Option<(Vec<u8>, Vec<usize>)>,
    /// Frames too short for a number.
    without_number: u64,
}

impl Capture {
    /// Listens on `interface` for about `count` frames.
    pub(crate) fn open(
        interface: &str,
        start: Instant<Realtime>,
        count: u64,
    ) -> Result<Self, Failure> {
        let room = (count.saturating_mul(2) + 1_024).min(MOST_BUFFERED);
        let ring = Ring::open(interface, room as usize).at("tester", "send fewer frames")?;
        state::set_stamps(&ring, true).at("tester", FAULT)?;
        let stamps = Vec::with_capacity(count as usize + 1_024);
        Ok(Self {
            ring,
            captured: CapturedFrames { start, stamps, frames: None, without_number: 0 },
        })
    }

    /// Keeps the frames too.
    pub(crate) fn keep_frames(&mut self) {
        let count = self.captured.stamps.capacity();
        self.captured.frames = Some((Vec::with_capacity(count * 16), Vec::with_capacity(count)));
    }

    /// Waits for the frame of that number; false if for `timeout` nothing comes. Others that come
    /// are kept as well.
    pub(crate) fn wait_for(&mut self, number: u16, timeout: Nanos) -> Result<bool, Failure> {
        loop {
            while let Some(packet) = self.ring.receive() {
                if self.captured.take(packet.bytes(), packet.stamp()) == Some(number) {
                    return Ok(true);
                }
            }
            if !poll::wait(&self.ring, Interest::Read, Some(timeout)).at("tester", FAULT)? {
                return Ok(false);
            }
        }
    }

    /// Takes what there is; returns how many frames.
    pub(crate) fn empty(&mut self) -> u64 {
        let mut count = 0;
        while let Some(packet) = self.ring.receive() {
            self.captured.take(packet.bytes(), packet.stamp());
            count += 1;
        }
        count
    }

    /// How many frames were captured.
    pub(crate) fn len(&self) -> usize {
        self.captured.stamps.len()
    }

    /// The stamps of what was captured; what comes counts from here on.
    pub(crate) fn take(&mut self) -> Vec<Stamp> {
        let CapturedFrames { stamps, frames, without_number, .. } = &mut self.captured;
        if let Some((all, ends)) = frames {
            all.clear();
            ends.clear();
        }
        *without_number = 0;
        let capacity = stamps.capacity();
        std::mem::replace(stamps, Vec::with_capacity(capacity))
    }

    /// Frames that found no room.
    pub(crate) fn overflow(&self) -> Result<u64, Failure> {
        Ok(self.ring.overflow().at("tester", FAULT)?.into())
    }

    /// What was captured: stamps, frames if they were kept, and how many were too short for a number.
    pub(crate) fn into_parts(self) -> (Vec<Stamp>, Vec<Vec<u8>>, u64) {
        let CapturedFrames { stamps, frames, without_number, .. } = self.captured;
        let (all, ends) = frames.unwrap_or_default();
        let mut start = 0;
        let frames = ends.into_iter().map(|end| {
            let frame = all.get(start..end).unwrap_or_default().to_vec();
            start = end;
            frame
        });
        (stamps, frames.collect(), without_number)
    }
}

impl CapturedFrames {
    /// Keeps what is to be kept of a frame; returns its number.
    fn take(&mut self, bytes: &[u8], stamp: Instant<Realtime>) -> Option<u16> {
        let end = HEADER_LEN + usize::from(*bytes.get(LENGTH_AT)?);
        let bytes = bytes.get(..end)?;
        if let Some((all, ends)) = &mut self.frames {
            all.extend_from_slice(bytes);
            ends.push(all.len());
        }
        let Some(&[high, low]) = bytes.get(NUMBER) else {
            self.without_number += 1;
            return None;
        };
        let number = u16::from_be_bytes([high, low]);
        let time_ns = stamp.as_nanos().saturating_sub(self.start.as_nanos());
        self.stamps.push(Stamp { number, time_ns });
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_up_to_their_data() {
        let mut captured = CapturedFrames {
            start: Instant::from_nanos(1_000),
            stamps: Vec::new(),
            frames: Some((Vec::new(), Vec::new())),
            without_number: 0,
        };
        let mut bytes = [0_u8; 16];
        bytes[..11].copy_from_slice(&[0x23, 1, 0, 0, 3, 0, 0, 0, 0x12, 0x34, 0x56]);
        assert_eq!(captured.take(&bytes, Instant::from_nanos(1_500)), Some(0x1234));
        bytes[LENGTH_AT] = 1;
        assert_eq!(captured.take(&bytes, Instant::from_nanos(1_600)), None);
        bytes[LENGTH_AT] = 9;
        assert_eq!(captured.take(&bytes, Instant::from_nanos(1_700)), None);
        assert_eq!(captured.stamps, [Stamp { number: 0x1234, time_ns: 500 }]);
        assert_eq!((captured.without_number, captured.frames.unwrap().1), (1, vec![11, 20]));
    }
}
