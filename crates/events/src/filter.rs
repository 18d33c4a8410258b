//! [`Filter`]: which of the events of a topic a subscriber wants.

/// Which of the events of a topic are wanted. With nothing set: all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The least time between two events in ns; 0 for none.
    pub interval_ns: u64,
    /// Only one of so many events; 0 and 1 are all.
    pub every: u32,
    /// Only values that differ from the last one delivered by more than this; 0 for any change. `None` for all.
    pub change: Option<f64>,
    /// The least value, this one included.
    pub min: Option<f64>,
    /// The greatest value, this one included.
    pub max: Option<f64>,
    /// Once a value is within `min` and `max`, values pass until one is outside by more than this: a signal that trembles at a
    /// limit does not come and go.
    pub hysteresis: f64,
}

/// What is remembered of the events of a topic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicMemory {
    seen: u32,
    sent: Option<(u64, f64)>,
    is_within: bool,
}

impl Filter {
    /// Whether an event passes. Raw events have no value: conditions on values take them all.
    pub(crate) fn passes(
        &self,
        memory: &mut TopicMemory,
        time_ns: u64,
        value: Option<f64>,
    ) -> bool {
        let slack = if memory.is_within { self.hysteresis } else { 0.0 };
        let is_outside = value.is_some_and(|value| {
            self.min.is_some_and(|min| value < min - slack)
                || self.max.is_some_and(|max| value > max + slack)
        });
        memory.is_within = !is_outside;
        if is_outside {
            return false;
        }
        let nth = memory.seen;
        memory.seen = if nth + 1 >= self.every { 0 } else { nth + 1 };
        if nth != 0 && self.every > 1 {
            return false;
        }
        if let Some((sent_ns, sent)) = memory.sent {
            let is_same = match (self.change, value) {
                (Some(change), Some(value)) => {
                    value == sent || (value - sent).abs() <= change && change > 0.0
                }
                _ => false,
            };
            // Time that runs backwards, as between recordings, is no reason to stop.
            let is_early = time_ns >= sent_ns && time_ns - sent_ns < self.interval_ns;
            if is_same || is_early {
                return false;
            }
        }
        memory.sent = Some((time_ns, value.unwrap_or(0.0)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_say_which_events_pass() {
        let ms = 1_000_000;
        let values = [1.0, 1.0, 2.0, 2.5, 7.0, 1.0];
        let all = Filter::default();
        for (filter, passing) in [
            (all.clone(), &[0, 1, 2, 3, 4, 5][..]),
            (Filter { interval_ns: 20 * ms, ..all.clone() }, &[0, 2, 4]),
            (Filter { every: 3, ..all.clone() }, &[0, 3]),
            (Filter { change: Some(0.0), ..all.clone() }, &[0, 2, 3, 4, 5]),
            (Filter { change: Some(1.0), ..all.clone() }, &[0, 3, 4, 5]),
            (Filter { min: Some(2.0), ..all.clone() }, &[2, 3, 4]),
            (Filter { min: Some(2.0), max: Some(2.5), ..all.clone() }, &[2, 3]),
            (Filter { min: Some(2.0), hysteresis: 1.0, ..all.clone() }, &[2, 3, 4, 5]),
            (Filter { min: Some(2.0), hysteresis: 0.5, ..all.clone() }, &[2, 3, 4]),
            (Filter { max: Some(2.2), hysteresis: 0.5, ..all.clone() }, &[0, 1, 2, 3, 5]),
        ] {
            let mut memory = TopicMemory::default();
            let times = (0..).map(|at| at * 10 * ms);
            let passed: Vec<_> = (0..)
                .zip(values.iter().zip(times))
                .filter(|(_, (value, at))| filter.passes(&mut memory, *at, Some(**value)))
                .map(|(index, _)| index)
                .collect();
            assert_eq!(passed, passing, "{filter:?}");
        }
        // Raw events have no value.
        let mut memory = TopicMemory::default();
        assert!(Filter { min: Some(2.0), ..all }.passes(&mut memory, 0, None));
    }
}
