//! Rates that a message of the DBC file nearly meets: a difference between two clocks, or jitter, then decides
//! which of its frames pass.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use candor_signals::Message;
use candor_time::Nanos;
use candor_wire::can::Id;
use candor_wire::can::frame::EFF_FLAG;

use super::checker::{BUDGET, Checker, Place};
use crate::region::Budget;
use candor_engine::extension::pace::{Pace, Per};
use candor_engine::{Filter, Gate, Rule};

/// How near a period must be to the interval of a rate, as a share of the interval.
const NEAR_PERCENT: u64 = 5;
/// The frames of a message for which room is advised, as a share of those that its period gives.
const ROOM_PERCENT: u64 = 110;

impl Checker<'_> {
    /// Rates as high as those of the messages that they should limit.
    pub(super) fn rates(&self) {
        let mut budget = Budget(BUDGET);
        for (index, rule) in self.table.rules.iter().enumerate() {
            let described = self.messages.get(usize::from(rule.from.0));
            let cost = 1 + rule.filters.len() + rule.except.len();
            let near: Vec<(&Message, u64)> = described
                .filter(|_| is_plain(rule))
                .into_iter()
                .flat_map(|messages| messages.iter())
                .take_while(|_| budget.take(cost))
                .filter_map(|message| Some((message, message.cycle_time?.as_nanos())))
                .filter(|&(_, period_ns)| is_near(period_ns, rule.extension.pace.interval_ns))
                .filter(|&(message, _)| limits(rule, message))
                .collect();
            let Some((&(message, period_ns), others)) = near.split_first() else { continue };
            let text = format!(
                "message `{}` comes every {}, {}{}",
                message.name,
                Nanos::from_nanos(period_ns),
                consequence(&rule.extension.pace, period_ns),
                match others.len() {
                    0 => "".into(),
                    1 => "; 1 other message is as near".into(),
                    others => format!("; {others} other messages are as near"),
                }
            );
            let hint = format!(
                "to pass all of it, write rate = \"{}\"; to pass less, use `every`",
                rate_with_room(period_ns)
            );
            self.warn(Place::Rule(index, "rate"), text, hint);
        }
        self.tell_exhausted(&budget, "rates that messages nearly meet");
    }
}

/// Whether the rule has a rate, and its frames come to it when they come to the rule. What `every` and `on_change` leave
/// comes at times that nobody knows, and so do the frames with certain data.
fn is_plain(rule: &Rule) -> bool {
    let pace = &rule.extension.pace;
    let payload = &rule.extension.payload;
    pace.interval_ns != 0
        && pace.every <= 1
        && pace.on_change.is_none()
        && payload.data.is_empty()
        && payload.not_data.is_empty()
}

fn is_near(period_ns: u64, interval_ns: u64) -> bool {
    let difference = u128::from(period_ns.abs_diff(interval_ns));
    difference * 100 <= u128::from(interval_ns) * u128::from(NEAR_PERCENT)
}

/// Whether the rate of the rule is one for this message alone, and the rule takes its frames.
fn limits(rule: &Rule, message: &Message) -> bool {
    let (word, exact) = match message.id {
        Id::Standard(id) => (u32::from(id.as_raw()), Filter::standard(id.as_raw())),
        Id::Extended(id) => (id.as_raw() | EFF_FLAG, Filter::extended(id.as_raw())),
    };
    let is_alone = rule.extension.pace.per == Per::Id || rule.filters == [exact];
    let is_kind = rule.gate != if message.is_fd { Gate::Classical } else { Gate::Fd };
    let lengths = &rule.extension.payload.lengths;
    let is_length =
        |&(least, most): &(u8, u8)| (usize::from(least)..=most.into()).contains(&message.length);
    is_alone
        && is_kind
        && (lengths.is_empty() || lengths.iter().any(is_length))
        && (rule.filters.is_empty() || rule.filters.iter().any(|filter| filter.matches(word)))
        && !rule.except.iter().any(|filter| filter.matches(word))
}

/// How the period stands to the interval, and what comes of it.
fn consequence(pace: &Pace, period_ns: u64) -> String {
    let Pace { interval_ns, tolerance_ns, .. } = *pace;
    let order = period_ns.cmp(&interval_ns);
    let relation = match order {
        Ordering::Less => "slightly more often than this rule allows",
        Ordering::Equal => "as often as this rule allows",
        Ordering::Greater => "hardly less often than this rule allows",
    };
    let result = match order {
        Ordering::Less if tolerance_ns >= interval_ns => {
            let one_in = interval_ns / (interval_ns - period_ns);
            format!("about one frame in {one_in} is refused")
        }
        Ordering::Less => "up to every second frame is refused".into(),
        _ if tolerance_ns == 0 => "frames that jitter brings closer together are refused".into(),
        _ if tolerance_ns < interval_ns => {
            let tolerance = Nanos::from_nanos(tolerance_ns);
            format!("with jitter of more than {tolerance}, frames are refused")
        }
        Ordering::Equal => "when its clock is fast, a frame is refused now and then".into(),
        Ordering::Greater => "as long as its clock is right, nothing is refused".into(),
    };
    format!("{relation}: {result}")
}

/// A rate that a message of this period does not meet, in frames per second, minute or hour.
fn rate_with_room(period_ns: u64) -> String {
    /// With so many frames in a unit, rounding up to a whole one changes little.
    const ENOUGH: u64 = 11;
    let units = [("s", 1_u64), ("min", 60), ("h", 3_600)];
    let count = |seconds: u64| {
        let room_ns = u128::from(seconds) * 1_000_000_000 * u128::from(ROOM_PERCENT);
        let count = room_ns.div_ceil(u128::from(period_ns.max(1)) * 100);
        u64::try_from(count).unwrap_or(u64::MAX)
    };
    let counts = units.map(|(name, seconds)| (name, count(seconds)));
    let fits = counts.iter().find(|(_, count)| *count >= ENOUGH);
    let (name, count) = fits.copied().unwrap_or(("h", count(3_600)));
    format!("{count}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_with_room_are_a_tenth_higher() {
        for (period_ns, expected) in [
            (10_000_000, "110/s"),
            (100_000_000, "11/s"),
            (1_000_000_000, "66/min"),
            (6_000_000_000, "11/min"),
            (10_000_000_000, "396/h"),
            (1_200_000_000_000, "4/h"),
            (40_000_000, "28/s"),
            (1, "1100000000/s"),
        ] {
            assert_eq!(rate_with_room(period_ns), expected, "{period_ns}");
        }
    }

    #[test]
    fn a_period_is_near_within_five_percent() {
        for (period, is) in [(94, false), (95, true), (100, true), (105, true), (106, false)] {
            assert_eq!(is_near(period, 100), is, "{period}");
        }
        assert!(is_near(u64::MAX, u64::MAX) && !is_near(0, u64::MAX));
    }
}
