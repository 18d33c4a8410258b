//! What the kernel says about a received frame: control messages and flags.

use candor_time::{Hardware, Instant, Realtime};

use super::RawFrame;
use crate::control::{instant, messages};

/// A received frame and what the kernel says about it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub frame: RawFrame,
    /// When the driver handed it to the kernel; see [`super::Stamps`].
    pub stamp: Option<Instant<Realtime>>,
    /// When the controller received it, by its own clock.
    pub hardware: Option<Instant<Hardware>>,
    /// How many frames this socket has dropped until then (modulo 2^32); 0 unless
    /// [`super::Socket::count_overflow`].
    pub overflow: u32,
    /// It was sent on this machine.
    pub is_local: bool,
    /// It was sent by this socket.
    pub is_own: bool,
}

impl Received {
    /// Reads `msg_flags` and the control messages.
    pub(super) fn new(frame: RawFrame, flags: i32, control: &[u8]) -> Self {
        let mut received = Self {
            frame,
            stamp: None,
            hardware: None,
            overflow: 0,
            is_local: flags & libc::MSG_DONTROUTE != 0,
            is_own: flags & libc::MSG_CONFIRM != 0,
        };
        for (level, kind, data) in messages(control) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => received.stamp = instant(data, 0),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    // Software, formerly transformed hardware, hardware.
                    received.stamp = instant(data, 0);
                    received.hardware = instant(data, 2);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    let bytes = data.first_chunk().copied().unwrap_or_default();
                    received.overflow = u32::from_ne_bytes(bytes);
                }
                _ => {}
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{HEADER_LEN, WORD};
    use proptest::prelude::*;

    /// A control buffer as the kernel would write it.
    fn control(messages: &[(usize, i32, &[usize])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(len, kind, words) in messages {
            bytes.extend(len.to_ne_bytes());
            bytes.extend(libc::SOL_SOCKET.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes
    }

    fn read(flags: i32, messages: &[(usize, i32, &[usize])]) -> Received {
        Received::new(RawFrame::empty(), flags, &control(messages))
    }

    #[test]
    fn control_messages_of_the_kernel_are_read() {
        let overflow = usize::from_ne_bytes({
            let mut word = [0; WORD];
            word[..4].copy_from_slice(&5_u32.to_ne_bytes());
            word
        });
        let received = read(
            libc::MSG_DONTROUTE,
            &[
                (HEADER_LEN + 2 * WORD, libc::SCM_TIMESTAMPNS, &[3, 7]),
                (HEADER_LEN + 4, libc::SO_RXQ_OVFL, &[overflow]),
            ],
        );
        assert_eq!(received.stamp, Some(Instant::from_nanos(3_000_000_007)));
        assert_eq!((received.overflow, received.hardware), (5, None));
        assert_eq!((received.is_local, received.is_own), (true, false));

        let stamps: &[usize] = &[1, 2, 0, 0, 3, 4];
        let len = HEADER_LEN + 6 * WORD;
        let received = read(libc::MSG_CONFIRM, &[(len, libc::SCM_TIMESTAMPING, stamps)]);
        assert_eq!(received.stamp, Some(Instant::from_nanos(1_000_000_002)));
        assert_eq!(received.hardware, Some(Instant::from_nanos(3_000_000_004)));
        assert_eq!((received.is_local, received.is_own), (false, true));
    }

    #[test]
    fn cut_and_foreign_messages_are_passed_over() {
        let kind = libc::SCM_TIMESTAMPNS;
        for messages in [
            (HEADER_LEN + WORD, kind, &[3_usize, 7][..]),
            (HEADER_LEN + 2 * WORD, kind, &[3]),
            (HEADER_LEN + 2 * WORD, libc::SCM_CREDENTIALS, &[3, 7]),
            (usize::MAX, kind, &[3, 7]),
            (0, kind, &[3, 7]),
            (HEADER_LEN + 2 * WORD, kind, &[0, 0]),
            (HEADER_LEN + 2 * WORD, kind, &[usize::MAX, 0]),
        ] {
            assert_eq!(read(0, &[messages]).stamp, None, "{messages:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(control in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = Received::new(RawFrame::empty(), 0, &control);
        }
    }
}
