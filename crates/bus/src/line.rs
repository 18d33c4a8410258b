//! Frames as candump writes them, column by column.
//!
//! ```text
//!  (1436509052.249713)  can0  123   [4]  DE AD BE EF
//!  (1436509052.249913)  can0  12345678   [8]  remote request
//! ```
//!
//! Once an extended identifier was seen, standard ones are indented to stand below its end, as
//! candump does.

use std::fmt::Write as _;

use candor_time::{Instant, Nanos, Realtime, civil};
use candor_wire::can::frame::{EFF_MASK, ERR_FLAG, SFF_MASK};
use candor_wire::can::{Frame, Kind};

/// How the time of a frame is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamps {
    /// Seconds since 1970.
    Absolute,
    /// Date and time, UTC.
    Date,
    /// Seconds since the previous frame.
    Delta,
    /// Seconds since the first frame.
    Zero,
    /// Not at all.
    #[default]
    None,
}

/// Writes frames one below the other, in the columns of candump.
#[derive(Clone, Debug)]
pub struct Columns {
    stamps: Stamps,
    name_width: usize,
    is_indented: bool,
    /// What times are counted from: the first frame, or the one before.
    origin: Option<Instant<Realtime>>,
}

impl Columns {
    /// For ports with these names.
    #[must_use]
    pub fn new<'a>(stamps: Stamps, names: impl IntoIterator<Item = &'a str>) -> Self {
        let name_width = names.into_iter().map(|name| name.chars().count()).max().unwrap_or(0);
        Self { stamps, name_width, is_indented: false, origin: None }
    }

    /// Appends the line of a frame that port `name` received at `time`, without a line end.
    pub fn write(&mut self, out: &mut String, time: Instant<Realtime>, name: &str, frame: &Frame) {
        out.push(' ');
        self.write_time(out, time);
        self.is_indented |= frame.is_extended() && frame.kind() != Kind::Error;
        // Writing to a string does not fail.
        let _ = write!(out, " {name:>width$}  ", width = self.name_width);
        write_frame(out, frame, self.is_indented);
    }

    fn write_time(&mut self, out: &mut String, time: Instant<Realtime>) {
        let seconds = |nanos: u64| (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000);
        let _ = match self.stamps {
            Stamps::None => Ok(()),
            Stamps::Absolute => {
                let (seconds, micros) = seconds(time.as_nanos());
                write!(out, "({seconds:010}.{micros:06}) ")
            }
            Stamps::Date => write!(out, "({}) ", date(time)),
            Stamps::Delta | Stamps::Zero => {
                let passed = time - *self.origin.get_or_insert(time);
                if self.stamps == Stamps::Delta {
                    self.origin = Some(time);
                }
                // candump cuts both instants to microseconds; so do sums of what is shown.
                let (seconds, micros) = seconds(passed.as_nanos());
                write!(out, "({seconds:03}.{micros:06}) ")
            }
        };
    }
}

/// Identifier, length and data in candump's columns.
fn write_frame(out: &mut String, frame: &Frame, is_indented: bool) {
    let id = frame.can_id();
    let _ = match (frame.kind(), frame.is_extended()) {
        (Kind::Error, _) => write!(out, "{:08X}  ", id & (EFF_MASK | ERR_FLAG)),
        (_, true) => write!(out, "{:08X}  ", id & EFF_MASK),
        (_, false) if is_indented => write!(out, "     {:03X}  ", id & SFF_MASK),
        (_, false) => write!(out, "{:03X}  ", id & SFF_MASK),
    };
    let len = frame.len();
    let _ = match frame.kind() {
        Kind::Fd => write!(out, "[{len:02}] "),
        _ => write!(out, " [{len}] "),
    };
    if frame.kind() == Kind::Remote {
        out.push_str(" remote request");
        return;
    }
    for byte in frame.data() {
        let _ = write!(out, " {byte:02X}");
    }
    if frame.kind() == Kind::Error {
        let _ = write!(out, "{:>width$}", "ERRORFRAME", width = 3 * (8 - len.min(8)) + 13);
    }
}

/// Date and time in UTC with microseconds, such as `2015-07-10 05:50:52.249713`.
#[must_use]
pub fn date(time: Instant<Realtime>) -> String {
    let micros = time.as_nanos() / 1_000;
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil::date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// A duration in seconds with microseconds.
#[must_use]
pub fn seconds(duration: Nanos) -> String {
    let micros = duration.as_nanos() / 1_000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_436_509_052_249_713_999;

    fn lines(stamps: Stamps, frames: &[(u64, &str, &str)]) -> Vec<String> {
        let mut columns = Columns::new(stamps, frames.iter().map(|(_, name, _)| *name));
        let write = |&(time, name, frame): &(u64, &str, &str)| {
            let mut line = String::new();
            columns.write(&mut line, Instant::from_nanos(time), name, &frame.parse().unwrap());
            line
        };
        frames.iter().map(write).collect()
    }

    #[test]
    fn columns_are_those_of_candump() {
        let frames = [
            (AT, "can0", "123#DEADBEEF"),
            (AT, "vcan12", "7FF#"),
            (AT, "can0", "123#R2"),
            (AT, "can0", "12345678#1122334455667788"),
            (AT, "can0", "123##1AABB"),
            (AT, "can0", "123#DEADBEEF"),
            (AT, "can0", "20000088#0000801900000000"),
            (AT, "can0", "20000004#00"),
        ];
        let expected = [
            "    can0  123   [4]  DE AD BE EF",
            "  vcan12  7FF   [0] ",
            "    can0  123   [2]  remote request",
            "    can0  12345678   [8]  11 22 33 44 55 66 77 88",
            "    can0       123  [02]  AA BB",
            "    can0       123   [4]  DE AD BE EF",
            "    can0  20000088   [8]  00 00 80 19 00 00 00 00   ERRORFRAME",
            "    can0  20000004   [1]  00                        ERRORFRAME",
        ];
        assert_eq!(lines(Stamps::None, &frames), expected);
    }

    #[test]
    fn times_are_shown_as_wanted() {
        let frames = [
            (AT, "c", "001#"),
            (AT + 1_500_000_000, "c", "001#"),
            (AT + 3_000_000_000, "c", "001#"),
        ];
        for (stamps, starts) in [
            (
                Stamps::Absolute,
                ["(1436509052.249713)", "(1436509053.749713)", "(1436509055.249713)"],
            ),
            (Stamps::Delta, ["(000.000000)", "(001.500000)", "(001.500000)"]),
            (Stamps::Zero, ["(000.000000)", "(001.500000)", "(003.000000)"]),
            (
                Stamps::Date,
                [
                    "(2015-07-10 06:17:32.249713)",
                    "(2015-07-10 06:17:33.749713)",
                    "(2015-07-10 06:17:35.249713)",
                ],
            ),
        ] {
            for (line, start) in lines(stamps, &frames).iter().zip(starts) {
                assert_eq!(*line, format!(" {start}  c  001   [0] "));
            }
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00.000000"),
            (951_782_400, "2000-02-29 00:00:00.000000"),
            (951_868_800, "2000-03-01 00:00:00.000000"),
            (1_709_164_799, "2024-02-28 23:59:59.000000"),
            (4_107_542_400, "2100-03-01 00:00:00.000000"),
        ] {
            assert_eq!(date(Instant::from_nanos(seconds * 1_000_000_000)), shown);
        }
    }
}
