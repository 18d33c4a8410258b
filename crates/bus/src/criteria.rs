//! [`Criteria`]: which frames of a recording are wanted, by time, interface, identifier, group number and message.

use std::str::FromStr;

use candor_time::Nanos;
use candor_wire::can::frame::{MAX_GROUP_NUMBER, group_number, has_destination};
use candor_wire::can::{Frame, Kind};

use crate::select::Selection;
use crate::words::View;

/// Which frames of a recording are wanted: those that meet all criteria. Of several of one kind, one suffices.
///
/// Identifiers, groups and messages are of CAN: if one is named, no other frame is wanted.
///
/// ```
/// use candor_bus::criteria::Criteria;
/// use candor_bus::select::Selection;
/// let criteria = Criteria {
///     from: Some("10ms".parse()?),
///     until: Some("1s".parse()?),
///     ids: Selection::parse(["0x120-0x12F"])?,
///     ..Criteria::default()
/// };
/// let frame = "123#".parse()?;
/// // The first frame of the recording has the stamp 7 s.
/// let takes = |time_ns| criteria.takes(7_000_000_000, time_ns, "can0", Some(&frame));
/// assert_eq!([7_009_999_999, 7_010_000_000, 7_999_999_999].map(takes), [false, true, true]);
/// assert!(!takes(8_000_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Criteria {
    /// Frames from this moment on.
    pub from: Option<Moment>,
    /// Frames before this moment.
    pub until: Option<Moment>,
    /// Frames of these interfaces; nothing: of all.
    pub interfaces: Vec<String>,
    /// Frames with these identifiers.
    pub ids: Selection,
    /// Frames of these groups; nothing: all.
    pub groups: Vec<Group>,
    /// Frames that are these messages, if it is known what messages there are.
    pub messages: Option<View>,
}

impl Criteria {
    /// Whether no criterion is about CAN alone, so that frames of Ethernet can be wanted.
    #[must_use]
    pub fn takes_ethernet(&self) -> bool {
        let takes_messages = self.messages.as_ref().is_none_or(View::is_everything);
        self.ids.is_everything() && self.groups.is_empty() && takes_messages
    }

    /// Whether a frame is wanted: its stamp and that of the first frame of the recording, in nanoseconds since whatever
    /// the recorder counts from, the name of its interface, and what it is if it is of CAN.
    #[must_use]
    pub fn takes(
        &self,
        first_ns: u64,
        time_ns: u64,
        interface: &str,
        frame: Option<&Frame>,
    ) -> bool {
        let time_ns = u128::from(time_ns);
        let is_after = self.from.is_none_or(|from| from.stamp_ns(first_ns) <= time_ns);
        let is_before = self.until.is_none_or(|until| time_ns < until.stamp_ns(first_ns));
        let is_there =
            self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface);
        is_after
            && is_before
            && is_there
            && match frame {
                Some(frame) => self.takes_frame(frame),
                None => self.takes_ethernet(),
            }
    }

    fn takes_frame(&self, frame: &Frame) -> bool {
        let is_of_group = || {
            // The bits of an error report say what went wrong.
            let group = group_number(frame.id()).filter(|_| frame.kind() != Kind::Error);
            group.is_some_and(|group| self.groups.contains(&Group(group)))
        };
        self.ids.takes(frame)
            && (self.groups.is_empty() || is_of_group())
            && self.messages.as_ref().is_none_or(|view| view.takes(frame))
    }
}

/// A moment of a recording: `10s` is that long after its first frame, `1436509052.25` the stamp of that many
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So long after the first frame.
    AfterFirst(Nanos),
    /// The time from whatever the recorder counts from, usually 1970.
    Stamp(Nanos),
}

impl Moment {
    /// Its stamp in nanoseconds; not every sum fits into a stamp.
    fn stamp_ns(self, first_ns: u64) -> u128 {
        match self {
            Self::AfterFirst(time) => u128::from(first_ns) + u128::from(time.as_nanos()),
            Self::Stamp(time) => time.as_nanos().into(),
        }
    }

    /// Whether it is sure that nothing is between this moment and the other, whatever the recording.
    #[must_use]
    pub fn is_never_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::AfterFirst(from), Self::AfterFirst(until))
            | (Self::Stamp(from), Self::Stamp(until)) => from >= until,
            _ => false,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match is_number && !text.is_empty() {
            false => {
                text.parse().map(Self::AfterFirst).map_err(|error: candor_time::ParseNanosError| {
                    format!("{error}; or write a stamp in seconds, such as 1436509052.25")
                })
            }
            true if text.contains('.') => {
                let stamp = format!("{text}s").parse().map(Self::Stamp);
                stamp.map_err(|_| {
                    "a stamp is a number of seconds with 1 to 9 decimals, at most 18446744073.7"
                        .into()
                })
            }
            true => Err(format!(
                "write {text}s for a time after the first frame, or {text}.0 for a stamp in seconds"
            )),
        }
    }
}

/// A group number (PGN) of SAE J1939, in decimal or, after `0x`, in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(u32);

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = hex.unwrap_or(text);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, if hex.is_some() { 16 } else { 10 });
        match number {
            Ok(group) if is_number && group <= MAX_GROUP_NUMBER => match has_destination(group) {
                true if group & 0xFF != 0 => Err(format!(
                    "the last byte of the group numbers below 0xF000 of each page is a destination, and 0 in the number; write {:#X}",
                    group & !0xFF
                )
                .replace("0X", "0x")),
                _ => Ok(Self(group)),
            },
            _ => Err("a group number (PGN) is 0 to 262143, such as 61444 or 0xF004".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_diagnostics::Findings;
    use candor_signals::Database;
    use proptest::prelude::*;

    #[test]
    fn moments_are_read_as_durations_or_stamps() {
        for (text, moment) in [
            ("10s", Ok(Moment::AfterFirst(Nanos::from_secs(10)))),
            ("1.5ms", Ok(Moment::AfterFirst(Nanos::from_micros(1_500)))),
            ("1.5", Ok(Moment::Stamp(Nanos::from_millis(1_500)))),
            ("0.0", Ok(Moment::Stamp(Nanos::ZERO))),
            ("10", Err("write 10s for a time after the first frame, or 10.0 for a stamp")),
            ("", Err("a duration is a number and a unit, such as 250us; or write a stamp")),
            ("-1s", Err("a duration is a number and a unit")),
            ("1.", Err("a stamp is a number of seconds with 1 to 9 decimals")),
            ("1.0000000001", Err("a stamp is a number of seconds with 1 to 9 decimals")),
            ("99999999999.0", Err("a stamp is a number of seconds with 1 to 9 decimals")),
        ] {
            match (text.parse::<Moment>(), moment) {
                (Ok(read), Ok(moment)) => assert_eq!(read, moment, "{text}"),
                (Err(read), Err(error)) => assert!(read.starts_with(error), "{text}: {read}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn groups_are_read_in_decimal_and_hex() {
        for (text, group) in [
            ("61444", Ok(Group(0xF004))),
            ("0xF004", Ok(Group(0xF004))),
            ("0x1F801", Ok(Group(0x1_F801))),
            ("0xEF00", Ok(Group(0xEF00))),
            ("0", Ok(Group(0))),
            ("0xEF12", Err("; write 0xEF00")),
            ("262144", Err("a group number (PGN) is 0 to 262143")),
            ("+5", Err("a group number (PGN) is 0 to 262143")),
            ("F004", Err("a group number (PGN) is 0 to 262143")),
        ] {
            match (text.parse::<Group>(), group) {
                (Ok(read), Ok(group)) => assert_eq!(read, group, "{text}"),
                (Err(read), Err(error)) => assert!(read.contains(error), "{text}: {read}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    const DBC: &str = "BU_: A\n\nBO_ 291 Motor: 8 A\n\nBO_ 2566834709 Body: 2 A\n";

    fn frame() -> impl Strategy<Value = Frame> {
        let text = prop::sample::select(vec![
            "123#",
            "124#11",
            "123#R",
            "18FEF121#00",
            "0CFEF121#00",
            "18EF2101#",
            "18FECA15#89FF",
            "98FEF121#",
            "20000004#00",
        ]);
        text.prop_filter_map("a frame", |text| text.parse().ok())
    }

    proptest! {
        /// What is wanted is what a plain list without the others has.
        #[test]
        fn criteria_filter_a_list(
            list in prop::collection::vec(
                (0_u64..50, 0..3_usize, prop::option::of(frame())),
                0..40,
            ),
            from in prop::option::of((any::<bool>(), 0_u64..50)),
            until in prop::option::of((any::<bool>(), 0_u64..50)),
            interfaces in prop::sample::subsequence(vec!["a", "b", "c"], 0..3),
            // Standard identifiers, then group numbers.
            ids in prop::sample::subsequence(vec!["0x123", "0x124"], 0..3),
            groups in prop::sample::subsequence(vec![0xFEF1, 0xEF00], 0..3),
            body in any::<bool>(),
        ) {
            let moment = |(is_stamp, ns): (bool, u64)| match is_stamp {
                true => Moment::Stamp(Nanos::from_nanos(ns)),
                false => Moment::AfterFirst(Nanos::from_nanos(ns)),
            };
            let findings = Findings::new();
            let database = Database::parse("car.dbc", DBC.as_bytes(), &findings);
            let view = |database| View::new(database, &["Body".into()], &[]).ok();
            let view = database.filter(|_| body).and_then(view);
            let criteria = Criteria {
                from: from.map(moment),
                until: until.map(moment),
                interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
                ids: Selection::parse(ids.iter().copied()).unwrap_or_default(),
                groups: groups.iter().copied().map(Group).collect(),
                messages: view,
            };
            let first = list.first().map_or(0, |it| it.0);
            let bound = |(is_stamp, ns): (bool, u64)| if is_stamp { ns } else { first + ns };
            let is_about_can = body || !ids.is_empty() || !groups.is_empty();
            for (time, interface, frame) in list {
                let name = ["a", "b", "c"][interface];
                let is_in_time = from.is_none_or(|it| time >= bound(it))
                    && until.is_none_or(|it| time < bound(it));
                let is_on_bus = interfaces.is_empty() || interfaces.contains(&name);
                let meets_all = match frame.map(|frame| frame.to_string()) {
                    None => !is_about_can,
                    Some(text) => {
                        let has_id = [("0x123", "123#"), ("0x124", "124#11")]
                            .iter()
                            .any(|&(id, frame)| ids.contains(&id) && text == frame);
                        let has_group = (text[2..].starts_with("FEF1") && !text.starts_with("98"))
                            && groups.contains(&0xFEF1)
                            || text[2..].starts_with("EF21") && groups.contains(&0xEF00);
                        (ids.is_empty() || has_id)
                            && (groups.is_empty() || has_group)
                            && (!body || text.starts_with("18FECA15"))
                    }
                };
                let expected = is_in_time && is_on_bus && meets_all;
                prop_assert_eq!(criteria.takes(first, time, name, frame.as_ref()), expected);
            }
        }
    }
}
