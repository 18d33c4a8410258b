//! When to let frames gather. Waking a process costs more than forwarding a frame, so under load it
//! pays to sleep for a while and then to forward what has gathered. One frame at a time would only
//! be late.
//!
//! ```text
//!  Waiting: woken by each frame --- frames come quickly ---> probe: sleep for about two frames
//!     ^ \___________________________________________________/   |            |
//!     |       less than two came: wait longer until the next probe        two or more came
//!     |                                                                      v
//!     +------ fewer than two came, several times in a row <--- Gathering: sleep, forward all
//! ```
//!
//! Frames that come quickly are no proof: who sends the next frame when the one before has arrived
//! sends quickly too, and gains nothing from a batch. Hence the probe, which such a sender notices
//! as one late frame, and the ever longer time until the next one.

use candor_time::Nanos;

/// So many frames in a row
const WINDOW: u32 = 16;
/// must have come within this to be worth a probe.
const WINDOW_TIME: Nanos = Nanos::from_micros(16 * 200);
/// After so many windows a failed probe is repeated, then after twice as many, and so on.
const FIRST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 1 << 12;
/// So many poor batches in a row end the gathering.
const MOST_POOR: u32 = 4;
/// A batch is poor if its frames come so far apart, or if there is but one: then the processor has
/// time to be woken by each.
const POOR_GAP: Nanos = Nanos::from_micros(400);

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait for a frame.
    Wait,
    /// Sleep so long, then tell what has gathered.
    Gather(Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct Coalescer {
    /// How long frames gather, and so the longest delay.
    period: Nanos,
    state: State,
    /// Windows until the next probe, and after the one that would fail then.
    windows_left: u32,
    pause: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many frames of the window have come; it began then.
    Waiting {
        frames: u32,
        since_ns: u64,
    },
    Probing,
    Gathering {
        poor: u32,
    },
}

impl Coalescer {
    pub(super) const fn new(period: Nanos) -> Self {
        let state = State::Waiting { frames: 0, since_ns: 0 };
        Self { period, state, windows_left: 1, pause: FIRST_PAUSE }
    }

    /// A frame was waited for and has been forwarded; it is `now_ns` by some clock.
    #[inline]
    pub(super) fn forwarded(&mut self, now_ns: u64) -> Next {
        let State::Waiting { frames, since_ns } = &mut self.state else { return Next::Wait };
        if *frames == 0 {
            *since_ns = now_ns;
        }
        *frames += 1;
        if *frames <= WINDOW {
            return Next::Wait;
        }
        let elapsed_ns = now_ns.saturating_sub(*since_ns);
        (*frames, *since_ns) = (1, now_ns);
        if elapsed_ns > WINDOW_TIME.as_nanos() {
            return Next::Wait;
        }
        self.windows_left -= 1;
        if self.windows_left > 0 {
            return Next::Wait;
        }
        self.state = State::Probing;
        let two_frames = Nanos::from_nanos(elapsed_ns * 5 / 2 / u64::from(WINDOW));
        Next::Gather(two_frames.min(self.period))
    }

    /// Frames were let gather, and so many came.
    pub(super) fn gathered(&mut self, frames: u64) -> Next {
        let is_rich = frames >= 2
            && (self.is_probing() || frames * POOR_GAP.as_nanos() >= self.period.as_nanos());
        match &mut self.state {
            State::Probing if !is_rich => {
                self.windows_left = self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            State::Gathering { poor } if !is_rich => {
                *poor += 1;
                if *poor < MOST_POOR {
                    return Next::Gather(self.period);
                }
                self.windows_left = 1;
                self.pause = FIRST_PAUSE;
            }
            _ => {
                self.state = State::Gathering { poor: 0 };
                return Next::Gather(self.period);
            }
        }
        self.state = State::Waiting { frames: 0, since_ns: 0 };
        Next::Wait
    }

    const fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing)
    }

    /// Whether frames gather for longer than a probe.
    pub(super) const fn is_gathering(&self) -> bool {
        matches!(self.state, State::Gathering { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos::from_millis(1);

    /// Frames every `gap_ns` until there is a probe; how many, at most `most`.
    fn frames_until_probe(coalescer: &mut Coalescer, gap_ns: u64, most: u64) -> Option<u64> {
        (1..=most).find(|frame| coalescer.forwarded(frame * gap_ns) != Next::Wait)
    }

    #[test]
    fn slow_frames_are_left_alone() {
        assert_eq!(frames_until_probe(&mut Coalescer::new(PERIOD), 250_000, 10_000), None);
    }

    #[test]
    fn a_flood_is_gathered_after_a_probe() {
        let mut coalescer = Coalescer::new(PERIOD);
        assert_eq!(frames_until_probe(&mut coalescer, 111_000, 100), Some(17));
        assert!(!coalescer.is_gathering());
        assert_eq!(coalescer.gathered(2), Next::Gather(PERIOD));
        assert!(coalescer.is_gathering());
        // A poor batch now and then is no reason to stop; the end of the flood is.
        for frames in [4, 1, 0, 2, 5, 1, 2, 1] {
            assert_eq!(coalescer.gathered(frames), Next::Gather(PERIOD));
        }
        assert_eq!(coalescer.gathered(0), Next::Wait);
        assert!(!coalescer.is_gathering());
    }

    #[test]
    fn a_probe_lasts_two_frames_and_no_longer_than_a_batch() {
        for (gap_ns, probe) in [(60_000, 150), (190_000, 475), (199_000, 497)] {
            let mut coalescer = Coalescer::new(PERIOD);
            let probed = (1..).map(|frame| coalescer.forwarded(frame * gap_ns));
            let Some(Next::Gather(time)) = probed.take(20).find(|next| *next != Next::Wait) else {
                panic!("there is a probe")
            };
            assert_eq!(time.as_nanos() / 1_000, probe);
            assert!(time <= PERIOD);
        }
    }

    #[test]
    fn who_waits_for_each_frame_is_probed_ever_more_rarely() {
        let mut coalescer = Coalescer::new(PERIOD);
        let mut late = 0;
        let mut frames = 0;
        while frames < 100_000 {
            let Some(until) = frames_until_probe(&mut coalescer, 50_000, 100_000) else { break };
            frames += until;
            late += 1;
            assert_eq!(coalescer.gathered(1), Next::Wait);
        }
        assert!((5..=12).contains(&late), "{late} of 100,000 frames are late");
    }
}
