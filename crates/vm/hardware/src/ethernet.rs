//! Network cards of a guest on links that take time: what a card has to send, and when it has left.
//!
//! ```text
//!  driver: descriptors in memory, tail register --> next_frame --> Transmitter: one frame after the other, at the
//!                                                                  speed of the link --> head register, interrupt
//! ```
//!
//! Descriptors are those of Intel's 8254x (PCI/PCI-X Family of Gigabit Ethernet Controllers, Software Developer's
//! Manual, revision 4.0, chapter 3.3). Link times are those of [`candor_wire::eth`].

use candor_wire::eth::{FCS_LEN, GAP_LEN, LinkSpeed, MIN_LEN, PREAMBLE_LEN};

const DESCRIPTOR_BYTES: usize = 16;
/// As much of a frame is read as its headers can have: Ethernet with a tag, IPv4 without options, ICMP.
pub const HEAD_BYTES: usize = 64;
/// Descriptors of one frame; a driver needs a few.
const MOST_DESCRIPTORS: usize = 64;

/// Where a card has its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The address of the first one in the guest's memory.
    pub base: u64,
    pub count: u16,
}

/// A frame that a card has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The descriptor behind its last one.
    pub next: u16,
    /// How many bytes it has, without its check sequence.
    pub len: u32,
    /// Its first bytes; zeros behind its end.
    pub head: [u8; HEAD_BYTES],
}

/// The next frame between two descriptors of a ring; `None` if there is no whole one. `read` reads the guest's memory.
pub fn next_frame(
    ring: Ring,
    from: u16,
    to: u16,
    read: &mut dyn FnMut(u64, &mut [u8]),
) -> Option<Outgoing> {
    let mut frame = Outgoing { next: from, len: 0, head: [0; HEAD_BYTES] };
    for _ in 0..MOST_DESCRIPTORS {
        if frame.next == to || frame.next >= ring.count {
            return None;
        }
        let mut bytes = [0; DESCRIPTOR_BYTES];
        read(ring.base.wrapping_add(u64::from(frame.next) * DESCRIPTOR_BYTES as u64), &mut bytes);
        frame.next = (frame.next + 1) % ring.count;
        let descriptor = Descriptor::of(bytes);
        if descriptor.is_context {
            continue;
        }
        let room = frame.head.get_mut(frame.len as usize..).unwrap_or_default();
        let length = room.len().min(descriptor.len as usize);
        if length > 0 {
            read(descriptor.address, &mut room[..length]);
        }
        frame.len = frame.len.saturating_add(descriptor.len);
        if descriptor.is_last {
            return Some(frame);
        }
    }
    None
}

/// A descriptor, as far as it matters here.
struct Descriptor {
    address: u64,
    len: u32,
    /// It has no data, but tells the card how to send what follows (3.3.6).
    is_context: bool,
    /// The last one of its frame.
    is_last: bool,
}

impl Descriptor {
    fn of(bytes: [u8; DESCRIPTOR_BYTES]) -> Self {
        let [address @ .., a, b, c, d, _, _, _, _] = bytes;
        let word = u32::from_le_bytes([a, b, c, d]);
        // DEXT: not a legacy descriptor but one with a type, and a length of 20 bits (3.3.5).
        let is_extended = d & 0x20 != 0;
        let len = word & if is_extended { 0xF_FFFF } else { 0xFFFF };
        let is_context = is_extended && c >> 4 == 0;
        Self { address: u64::from_le_bytes(address), len, is_context, is_last: d & 0x01 != 0 }
    }
}

/// From the first bit of the preamble to the last bit of the check sequence, in ns.
#[must_use]
pub const fn frame_ns(speed: LinkSpeed, len: usize) -> u64 {
    let len = len + FCS_LEN;
    speed.duration_ns(PREAMBLE_LEN + if len < MIN_LEN { MIN_LEN } else { len })
}

/// The gap that follows each frame, in ns.
#[must_use]
pub const fn gap_ns(speed: LinkSpeed) -> u64 {
    speed.duration_ns(GAP_LEN)
}

/// One direction of a link: frames pass one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    speed: LinkSpeed,
    free_ns: u64,
}

impl Direction {
    /// A direction that is free.
    #[must_use]
    pub const fn new(speed: LinkSpeed) -> Self {
        Self { speed, free_ns: 0 }
    }

    /// A frame of `len` bytes is ready at `ready_ns`: when its first bit and its last bit pass, in ns.
    pub fn take(&mut self, ready_ns: u64, len: usize) -> (u64, u64) {
        let begin = self.free_ns.max(ready_ns);
        let end = begin + frame_ns(self.speed, len);
        self.free_ns = end + gap_ns(self.speed);
        (begin, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors from address 0 on, of a ring of eight; data is its own address.
    fn frame_of(descriptors: &[[u8; 16]], from: u16, to: u16) -> Option<Outgoing> {
        let ring = Ring { base: 0x1_0000_0000, count: 8 };
        next_frame(ring, from, to, &mut |address, bytes| match address
            .checked_sub(ring.base)
            .map(|at| at as usize / 16)
        {
            Some(at) => bytes.copy_from_slice(&descriptors[at]),
            None => (address..).zip(bytes).for_each(|(at, byte)| *byte = at as u8),
        })
    }

    fn legacy(address: u64, len: u16, is_last: bool) -> [u8; 16] {
        let word = u32::from(len) | u32::from(is_last) << 24;
        descriptor(address, word)
    }

    fn data(address: u64, len: u32, is_last: bool) -> [u8; 16] {
        descriptor(address, len | 1 << 20 | 0x20 << 24 | u32::from(is_last) << 24)
    }

    fn descriptor(address: u64, word: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    #[test]
    fn a_frame_is_what_its_descriptors_say() {
        let context = descriptor(0x99, 0x20 << 24 | 60_000);
        let ring = [
            legacy(10, 3, true),
            context,
            data(20, 2, false),
            data(30, 70_000, true),
            legacy(40, 5, false),
            legacy(50, 1, true),
            legacy(60, 9, false),
            legacy(70, 9, false),
        ];
        let head = |parts: &[(u8, u8)]| {
            let mut head = [0; HEAD_BYTES];
            let bytes = parts.iter().flat_map(|&(from, to)| from..to);
            bytes.zip(&mut head).for_each(|(byte, at)| *at = byte);
            head
        };
        for (from, to, expected) in [
            (0, 1, Some((1, 3, head(&[(10, 13)])))),
            (0, 0, None),
            (1, 4, Some((4, 70_002, head(&[(20, 22), (30, 92)])))),
            (1, 3, None),
            (4, 0, Some((6, 6, head(&[(40, 45), (50, 51)])))),
            // Over the end of the ring.
            (6, 1, Some((1, 21, head(&[(60, 69), (70, 79), (10, 13)])))),
            // Registers that no driver would write.
            (8, 0, None),
            (0xFFFF, 0, None),
        ] {
            let expected = expected.map(|(next, len, head)| Outgoing { next, len, head });
            assert_eq!(frame_of(&ring, from, to), expected, "{from} to {to}");
        }
        // A ring without an end.
        let endless = [legacy(1, 1, false); 8];
        assert_eq!(frame_of(&endless, 0, 9), None);
        assert_eq!(next_frame(Ring { base: 0, count: 0 }, 0, 1, &mut |_, _| ()), None);
    }

    #[test]
    fn frames_pass_one_after_the_other() {
        let mut direction = Direction::new(LinkSpeed::GBIT_1);
        // 8 bytes of preamble, 64 with check sequence, a gap of 12.
        assert_eq!(direction.take(1_000, 14), (1_000, 1_576));
        assert_eq!(direction.take(1_100, 60), (1_672, 2_248));
        assert_eq!(direction.take(9_000, 1_514), (9_000, 9_000 + 8 * 1_526));
        assert_eq!(direction.take(0, 1_514).0, 9_000 + 8 * 1_538);
    }
}
