//! How the drainer waits for room.

use candor_linux::clock;
use candor_port::Transmitter;
use candor_time::{Monotonic, Nanos};

/// How long a drainer waits for room before it looks whether something else is due.
pub(super) const ROOM_CHECK_INTERVAL: Nanos = Nanos::from_millis(5);

/// A wait for room that is shorter than this was none.
const SHORTEST_WAIT: Nanos = Nanos::from_micros(50);

/// The longest sleep between attempts of a transmitter that does not wait.
pub(super) const LONGEST_PACE: Nanos = Nanos::from_millis(1);

/// Waits between attempts. A transmitter that reports room where there is none would be asked
/// without end otherwise, at a priority at which nobody else on this processor could make room.
#[derive(Default)]
pub(super) struct Pace {
    /// How long to sleep after a wait that was none.
    sleep: Nanos,
}

impl Pace {
    /// There was room.
    pub(super) fn go_on(&mut self) {
        self.sleep = Nanos::ZERO;
    }

    /// There was none: waits for it, at most until the next deadline.
    pub(super) fn wait(&mut self, transmitter: &mut dyn Transmitter, deadline: Option<u64>) {
        let begin = clock::now::<Monotonic>();
        let left = deadline.map(|deadline| deadline.saturating_sub(begin.as_nanos()) + 1);
        let most = left
            .map_or(ROOM_CHECK_INTERVAL, |left| ROOM_CHECK_INTERVAL.min(Nanos::from_nanos(left)));
        transmitter.wait(most);
        let until = begin + SHORTEST_WAIT.min(most);
        if clock::now::<Monotonic>() >= until {
            self.sleep = Nanos::ZERO;
            return;
        }
        // The first time there may just have been room.
        let until = begin + self.sleep.min(most);
        self.sleep = (self.sleep * 2).clamp(SHORTEST_WAIT, LONGEST_PACE);
        if clock::now::<Monotonic>() < until {
            let _ = clock::sleep_until_or_signal(until);
        }
    }
}
