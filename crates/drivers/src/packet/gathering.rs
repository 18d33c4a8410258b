//! [`Gathering`]: when frames are let gather in a ring, to be handed over together.
//!
//! Waking a thread costs more than forwarding a frame. So under a flood it pays to sleep for a while, and
//! then to hand over what has gathered; a single frame would only be late.
//!
//! ```text
//!  waiting: woken by each frame --- frames come quickly ---> probe: sleep for about two frames
//!     ^ \___________________________________________________/   |            |
//!     |       fewer than two came: wait longer until the next probe      two or more came
//!     |                                                                      v
//!     +------ poor batches, several times in a row <------ gathering: sleep, hand all over
//! ```
//!
//! That frames come quickly is no proof of a flood: a sender that waits for an answer before its next frame
//! is quick too, and gains nothing from a batch. Hence the probe, which such a sender notices as one late
//! frame, and the growing time until the next one.

use candor_time::{Instant, Monotonic, Nanos};

/// So many frames in a row
const WINDOW: u32 = 16;
/// must have come within this time to be worth a probe: one in 200 us.
const WINDOW_TIME: Nanos = Nanos::from_micros(16 * 200);
/// Windows until a probe that failed is repeated; twice as many after the next one, and so on.
const FIRST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 1 << 12;
/// So many poor batches in a row end the gathering.
const MAX_POOR: u32 = 4;
/// A batch is poor if its frames are so far apart, or if there is only one: then there is time to wake the
/// thread for each.
const POOR_GAP: Nanos = Nanos::from_micros(400);

/// Decides when to sleep instead of waiting for a frame.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    /// How long frames gather, and so the longest delay.
    period: Nanos,
    state: State,
    /// Windows until the next probe, and until the one after it if that one fails.
    windows_left: u32,
    pause: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many frames of the window have come; the first one had this stamp.
    Waiting { frames: u32, since_ns: u64 },
    /// The probe lasts until then.
    Probing { until: Instant<Monotonic> },
    /// The batch is complete then; so many before it were poor.
    Gathering { until: Instant<Monotonic>, poor: u32 },
}

impl Gathering {
    /// Frames may gather for `period`.
    pub(super) const fn new(period: Nanos) -> Self {
        let state = State::Waiting { frames: 0, since_ns: 0 };
        Self { period, state, windows_left: 1, pause: FIRST_PAUSE }
    }

    /// Until when nobody is to wait for a frame; `None` if each frame is to be waited for.
    pub(super) const fn until(&self) -> Option<Instant<Monotonic>> {
        match self.state {
            State::Waiting { .. } => None,
            State::Probing { until } | State::Gathering { until, .. } => Some(until),
        }
    }

    /// A frame was waited for and has been handed over. `stamp_ns` tells when it came, `now` is asked when
    /// a probe begins.
    #[inline]
    pub(super) fn handed_over(&mut self, stamp_ns: u64, now: impl FnOnce() -> Instant<Monotonic>) {
        let State::Waiting { frames, since_ns } = &mut self.state else { return };
        if *frames == 0 {
            *since_ns = stamp_ns;
        }
        *frames += 1;
        if *frames <= WINDOW {
            return;
        }
        let elapsed_ns = stamp_ns.saturating_sub(*since_ns);
        (*frames, *since_ns) = (1, stamp_ns);
        if elapsed_ns > WINDOW_TIME.as_nanos() {
            return;
        }
        self.windows_left -= 1;
        if self.windows_left == 0 {
            let two_frames = Nanos::from_nanos(elapsed_ns * 5 / 2 / u64::from(WINDOW));
            self.state = State::Probing { until: now() + two_frames.min(self.period) };
        }
    }

    /// What gathered has been handed over: so many frames.
    pub(super) fn gathered(&mut self, frames: u64, now: Instant<Monotonic>) {
        // From batch to batch, so that handing over does not make them longer; what took too long is not
        // made up for.
        let next = |until: Instant<Monotonic>| (until + self.period).max(now);
        match self.state {
            State::Waiting { .. } => {}
            State::Probing { until } if frames >= 2 => {
                self.state = State::Gathering { until: next(until), poor: 0 };
            }
            State::Probing { .. } => {
                self.wait(self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            State::Gathering { until, poor } => {
                let is_poor = frames < 2 || frames * POOR_GAP.as_nanos() < self.period.as_nanos();
                let poor = if is_poor { poor + 1 } else { 0 };
                self.state = State::Gathering { until: next(until), poor };
                if poor == MAX_POOR {
                    self.wait(1);
                    self.pause = FIRST_PAUSE;
                }
            }
        }
    }

    /// Frames are waited for again; so many windows until the next probe.
    const fn wait(&mut self, windows: u32) {
        self.state = State::Waiting { frames: 0, since_ns: 0 };
        self.windows_left = windows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos::from_millis(1);

    fn at(ns: u64) -> Instant<Monotonic> {
        Instant::from_nanos(ns)
    }

    /// Frames every `gap_ns` until there is a probe; how many, at most `most`.
    fn frames_until_probe(gathering: &mut Gathering, gap_ns: u64, most: u64) -> Option<u64> {
        (1..=most).find(|frame| {
            gathering.handed_over(frame * gap_ns, || at(frame * gap_ns));
            gathering.until().is_some()
        })
    }

    #[test]
    fn slow_frames_are_left_alone() {
        let mut gathering = Gathering::new(PERIOD);
        assert_eq!(frames_until_probe(&mut gathering, 200_001, 10_000), None);
        assert_eq!(frames_until_probe(&mut Gathering::new(PERIOD), 200_000, 100), Some(17));
    }

    #[test]
    fn a_flood_is_gathered_after_a_probe() {
        let mut gathering = Gathering::new(PERIOD);
        assert_eq!(frames_until_probe(&mut gathering, 111_000, 100), Some(17));
        let probe = at(17 * 111_000 + 111_000 * 5 / 2);
        assert_eq!(gathering.until(), Some(probe));
        gathering.gathered(2, probe);
        assert_eq!(gathering.until(), Some(probe + PERIOD));
        // A poor batch now and then is no reason to stop; the end of the flood is.
        let mut until = probe + PERIOD;
        for frames in [4, 1, 0, 2, 5, 1, 2, 1] {
            gathering.gathered(frames, until);
            until += PERIOD;
            assert_eq!(gathering.until(), Some(until));
        }
        gathering.gathered(0, until);
        assert_eq!(gathering.until(), None);
        // If it goes on, one window tells.
        assert_eq!(frames_until_probe(&mut gathering, 111_000, 100), Some(17));
    }

    #[test]
    fn a_batch_that_was_late_delays_the_next_one_no_more_than_itself() {
        let mut gathering = Gathering::new(PERIOD);
        frames_until_probe(&mut gathering, 100_000, 100);
        let probe = gathering.until().unwrap();
        gathering.gathered(5, probe + Nanos::from_micros(300));
        assert_eq!(gathering.until(), Some(probe + PERIOD));
        let late = probe + PERIOD * 3;
        gathering.gathered(5, late);
        assert_eq!(gathering.until(), Some(late));
    }

    #[test]
    fn a_probe_lasts_two_frames_and_no_longer_than_a_batch() {
        for (gap_ns, period, probe_us) in
            [(60_000, PERIOD, 150), (199_000, PERIOD, 497), (199_000, Nanos::from_micros(100), 100)]
        {
            let mut gathering = Gathering::new(period);
            let frame = frames_until_probe(&mut gathering, gap_ns, 20).unwrap();
            let lasts = gathering.until().unwrap() - at(frame * gap_ns);
            assert_eq!(lasts.as_nanos() / 1_000, probe_us);
        }
    }

    #[test]
    fn who_waits_for_each_frame_is_probed_ever_more_rarely() {
        let mut gathering = Gathering::new(PERIOD);
        let (mut late, mut frames) = (0, 0);
        while frames < 100_000 {
            let Some(until) = frames_until_probe(&mut gathering, 50_000, 100_000) else { break };
            frames += until;
            late += 1;
            gathering.gathered(1, at(0));
            assert_eq!(gathering.until(), None);
        }
        assert!((5..=12).contains(&late), "{late} of 100,000 frames are late");
    }
}
