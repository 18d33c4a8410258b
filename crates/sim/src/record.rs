//! What became of each frame.

use candor_causes::Cause;
use candor_lat::Taps;
use candor_wire::can::Frame;

use crate::event::Time;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A copy reached its bus.
    Forwarded,
    /// It reached its own bus, and no gateway listens there.
    Delivered,
    /// It got no further.
    Refused(Cause),
}

/// The end of a frame, or of one copy of it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The number of the frame as it was sent, from 0, counted over all senders.
    pub identity: u64,
    /// Who sent it.
    pub sender: u32,
    pub sent: &'a Frame,
    /// The frame as it ended.
    pub frame: &'a Frame,
    /// How it ended.
    pub fate: Fate,
    /// The job of the gateway whose copy it was.
    pub job: Option<u32>,
    /// When it passed the taps. `source_end` and `target_end` are what the instrument saw.
    pub taps: &'a Taps,
    /// The exact time on the target bus from start to end of frame, in ns, without intermission;
    /// zero unless it was transmitted there.
    pub transmission_ns: u64,
}

/// Takes the records, in the order in which the frames end.
pub trait Observer {
    /// One more frame, or copy, has ended.
    fn record(&mut self, record: &Record<'_>);

    /// Called now and then; `false` stops the simulation.
    fn proceed(&mut self, now: Time, sent: u64) -> bool {
        let _ = (now, sent);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Anybody;

    impl Observer for Anybody {
        fn record(&mut self, _: &Record<'_>) {}
    }

    #[test]
    fn an_observer_that_does_not_care_stops_nothing() {
        assert!(Anybody.proceed(Time::ZERO, 1));
    }
}
