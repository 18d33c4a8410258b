//! How late timers of ordinary threads may fire.

use crate::{Item, Sources};

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let nanos = sources.files.number("proc/self/timerslack_ns");
    vec![judge(nanos.and_then(|nanos| u64::try_from(nanos).ok()))]
}

fn judge(nanos: Option<u64>) -> Item {
    let found = match nanos {
        Some(nanos) => {
            format!("timers of ordinary threads may fire {} us late", nanos.div_ceil(1_000))
        }
        None => "the timer slack is not known".into(),
    };
    let meaning = "a gateway sets its timer slack to 1 ns; threads with real-time priority have \
                   none";
    Item::good("slack", found, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn the_slack_is_reported_in_microseconds() {
        let meaning = "a gateway sets its timer slack to 1 ns; threads with real-time priority \
                       have none\n";
        for (nanos, found) in [
            (Some(50_000), "timers of ordinary threads may fire 50 us late"),
            (Some(1), "timers of ordinary threads may fire 1 us late"),
            (None, "the timer slack is not known"),
        ] {
            assert_eq!(reported(&[judge(nanos)]), format!("ok slack: {found}\n  {meaning}"));
        }
    }
}
