//! [`Drops`]: what the kernel says of frames that it dropped, added up.

use std::sync::atomic::{AtomicU32, Ordering};

/// Adds up what the kernel counts modulo 2^32 for a socket, to which it belongs: of two ports that have the socket, one after the
/// other or for a moment both, each drop is counted by the one that hears of it first.
///
/// The kernel says it in two ways: with what is received, as it was when that arrived (`SO_RXQ_OVFL`),
/// and when it is asked, as it is now (`SO_MEMINFO`). What is still to be received after a question is
/// therefore older than the answer, and tells nothing new.
#[derive(Debug, Default)]
pub(super) struct Drops {
    newest: AtomicU32,
}

impl Drops {
    /// How many more there are if the kernel says `count`.
    pub(super) fn more(&self, count: u32) -> u64 {
        let mut more = 0;
        let ahead = |newest| {
            // Half of all numbers lie ahead; what lies behind is older.
            more = u64::try_from(count.wrapping_sub(newest).cast_signed()).unwrap_or(0);
            (more > 0).then_some(count)
        };
        let _ = self.newest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, ahead);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_counts_tell_nothing_new() {
        let drops = Drops::default();
        for (count, more) in [
            (0, 0),
            (7, 7),
            (26, 19),
            // Of datagrams that arrived before the last question.
            (7, 0),
            (0, 0),
            (26, 0),
            (27, 1),
        ] {
            assert_eq!(drops.more(count), more, "{count}");
        }
        let drops = Drops { newest: AtomicU32::new(u32::MAX - 1) };
        assert_eq!(drops.more(u32::MAX - 9), 0);
        assert_eq!(drops.more(3), 5, "around the end");
        assert_eq!(drops.more(u32::MAX), 0);
    }
}
