//! [`Watched`]: how densely the frames of a message were seen.

/// So many least distances are kept: for more frames they follow from these.
pub const DISTANCES: usize = 20;

/// The times of the frames of a message in a recording, or in several.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Of this recording, in ns; they do not fall.
    times_ns: Vec<u64>,
    frames: u64,
    /// From a frame to the next one, to the one behind that, and so on; `u64::MAX` if that was not seen.
    distances_ns: Vec<u64>,
    /// From each frame to the next one, of all recordings.
    steps_ns: Vec<u64>,
}

/// What was seen of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// How many frames.
    pub frames: u64,
    /// From frame to frame, the median, in ns: where frames are missing it stays.
    pub period_ns: u64,
    /// By how much a frame came earlier than a period after the one before it, in ns.
    pub jitter_ns: u64,
    /// The least times from a frame to the next one, to the one behind that, and so on, in ns.
    pub distances_ns: Vec<u64>,
}

impl Watched {
    /// One more frame; its time is not before that of the last one of this recording.
    pub fn add(&mut self, time_ns: u64) {
        self.times_ns.push(time_ns);
        self.frames += 1;
    }

    /// The recording is over; the next one says nothing of how far frames of both are apart.
    pub fn end(&mut self) {
        let times = std::mem::take(&mut self.times_ns);
        let most = DISTANCES.min(times.len().saturating_sub(1));
        if self.distances_ns.len() < most {
            self.distances_ns.resize(most, u64::MAX);
        }
        for (place, least_ns) in self.distances_ns.iter_mut().enumerate() {
            let seen = times.windows(place + 2).map(|window| window[place + 1] - window[0]);
            *least_ns = seen.chain([*least_ns]).min().unwrap_or(u64::MAX);
        }
        self.steps_ns.extend(times.windows(2).map(|pair| pair[1] - pair[0]));
    }

    /// What was seen in recordings of which the longest took `longest_ns`; of a message that came once in each, no more than that
    /// it did not come twice within that time.
    #[must_use]
    pub fn seen(&self, longest_ns: u64) -> Seen {
        let mut steps_ns = self.steps_ns.clone();
        let middle = steps_ns.len() / 2;
        let period_ns = match steps_ns.is_empty() {
            true => longest_ns,
            false => *steps_ns.select_nth_unstable(middle).1,
        };
        let least_ns = self.distances_ns.first().copied().unwrap_or(period_ns);
        let jitter_ns = period_ns.saturating_sub(least_ns);
        let seen = self.distances_ns.iter().copied().take_while(|&it| it < u64::MAX);
        let mut distances_ns: Vec<_> = seen.collect();
        if distances_ns.last().is_none_or(|&last| last == 0) {
            distances_ns.push(longest_ns.max(1));
        }
        Seen { frames: self.frames, period_ns, jitter_ns, distances_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_what_was_there() {
        let mut watched = Watched::default();
        [100, 110, 119, 130, 140].into_iter().for_each(|time| watched.add(time));
        watched.end();
        let seen =
            Seen { frames: 5, period_ns: 10, jitter_ns: 1, distances_ns: vec![9, 19, 30, 40] };
        assert_eq!(watched.seen(50), seen);
        // Another recording: two frames are not far apart because one recording begins later.
        [7, 15].into_iter().for_each(|time| watched.add(time));
        watched.end();
        let seen = Seen { frames: 7, jitter_ns: 2, distances_ns: vec![8, 19, 30, 40], ..seen };
        assert_eq!(watched.seen(50), seen);
        let mut once = Watched::default();
        once.add(5);
        once.end();
        let seen = Seen { frames: 1, period_ns: 50, jitter_ns: 0, distances_ns: vec![50] };
        assert_eq!(once.seen(50), seen);
        // Frames that are missing change nothing of the period.
        let mut gap = Watched::default();
        [0, 10, 20, 30, 330, 340].into_iter().for_each(|time| gap.add(time));
        gap.end();
        assert_eq!((gap.seen(340).period_ns, gap.seen(340).jitter_ns), (10, 0));
        // Stamps of the same time.
        let mut twice = Watched::default();
        [5, 5].into_iter().for_each(|time| twice.add(time));
        twice.end();
        assert_eq!(twice.seen(50).distances_ns, [0, 50]);
    }
}
