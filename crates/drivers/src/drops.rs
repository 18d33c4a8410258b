//! [`Drops`]: what the kernel says of frames that it dropped, added up.

/// Adds up what the kernel counts modulo 2^32.
///
/// The kernel says it in two ways: with what is received, as it was when that arrived (`SO_RXQ_OVFL`),
/// and when it is asked, as it is now (`SO_MEMINFO`). What is still to be received after a question is
/// therefore older than the answer, and tells nothing new.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    newest: u32,
}

impl Drops {
    /// Of a socket that another port had before, for which the kernel says `count` now.
    pub(super) const fn since(count: u32) -> Self {
        Self { newest: count }
    }

    /// How many more there are if the kernel says `count`.
    pub(super) fn more(&mut self, count: u32) -> u64 {
        // Half of all numbers lie ahead; what lies behind is older.
        let more = count.wrapping_sub(self.newest).cast_signed();
        let Ok(more) = u64::try_from(more) else { return 0 };
        self.newest = count;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_counts_tell_nothing_new() {
        let mut drops = Drops::default();
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
        let mut drops = Drops { newest: u32::MAX - 1 };
        assert_eq!(drops.more(u32::MAX - 9), 0);
        assert_eq!(drops.more(3), 5, "around the end");
        assert_eq!(drops.more(u32::MAX), 0);
    }
}
