//! The start of a measurement: formats that have it once, as a date, and count times from it.
//!
//! Neither ASC nor BLF says in which zone its date is. python-can takes it as UTC, and so does Candor, though some recorders write
//! local time.

use candor_time::civil;

use crate::encode::{EncodeError, NANOS_PER_SECOND};

const NANOS_PER_MILLI: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

/// A date and a time of day to the millisecond, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateTime {
    /// Year, month from 1, day from 1.
    pub(super) date: (u64, u64, u64),
    /// Hour, minute, second.
    pub(super) time: (u64, u64, u64),
    pub(super) millis: u64,
    /// 0 is Sunday.
    pub(super) weekday: u64,
}

impl DateTime {
    /// The millisecond that nanoseconds since 1970 are in.
    pub(super) fn of(time_ns: u64) -> Self {
        let seconds = time_ns / NANOS_PER_SECOND;
        let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        Self {
            date: civil::date(days),
            time: (second / 3_600, second / 60 % 60, second % 60),
            millis: time_ns % NANOS_PER_SECOND / NANOS_PER_MILLI,
            weekday: civil::weekday(days),
        }
    }

    /// From the SYSTEMTIME of Windows: eight numbers of 16 bits, year, month, day of the week, day, hour, minute, second and
    /// millisecond; `None` if there are not so many bytes.
    pub(super) fn from_system_time(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 16] = bytes.first_chunk()?;
        let number =
            |place: usize| u64::from(u16::from_le_bytes([bytes[2 * place], bytes[2 * place + 1]]));
        Some(Self {
            date: (number(0), number(1), number(3)),
            time: (number(4), number(5), number(6)),
            millis: number(7),
            weekday: number(2),
        })
    }

    /// The other way round.
    pub(super) fn put_system_time(&self, out: &mut Vec<u8>) {
        let ((year, month, day), (hour, minute, second)) = (self.date, self.time);
        for number in [year, month, self.weekday, day, hour, minute, second, self.millis] {
            out.extend_from_slice(&(number as u16).to_le_bytes());
        }
    }

    /// Nanoseconds since 1970; `None` if there is no such date, or if it is beyond what 64 bits hold. The day of the week
    /// does not count.
    pub(super) fn nanos(&self) -> Option<u64> {
        let (hour, minute, second) = self.time;
        // A leap second is the first one of the next minute.
        if hour > 23 || minute > 59 || second > 60 || self.millis > 999 {
            return None;
        }
        let seconds =
            civil::days(self.date)? * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second;
        seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(self.millis * NANOS_PER_MILLI)
    }
}

/// The start of a recording that is written.
#[derive(Default)]
pub(super) struct Start {
    /// As the recording that was read says; no frame has been written yet.
    announced_ns: Option<u64>,
    /// A whole number of milliseconds, once a frame was written.
    ns: Option<u64>,
}

impl Start {
    /// When the measurement began. Does not count once a frame was written, or if the first frame is earlier.
    pub(super) fn announce(&mut self, start_ns: u64) {
        self.announced_ns = Some(start_ns);
    }

    /// How long after the start a frame at this time is, and whether it is the first one.
    pub(super) fn since(&mut self, time_ns: u64) -> Result<(u64, bool), EncodeError> {
        let is_first = self.ns.is_none();
        let start_ns = self.ns.unwrap_or_else(|| {
            let start_ns = self.announced_ns.filter(|&start| start <= time_ns).unwrap_or(time_ns);
            start_ns - start_ns % NANOS_PER_MILLI
        });
        let since = time_ns.checked_sub(start_ns).ok_or(EncodeError::BeforeStart(time_ns))?;
        self.ns = Some(start_ns);
        Ok((since, is_first))
    }

    /// The start; without a frame, what was announced, or that of 1970.
    pub(super) fn ns(&self) -> u64 {
        self.ns.or(self.announced_ns).unwrap_or(0)
    }

    /// Whether a frame was written.
    pub(super) fn is_known(&self) -> bool {
        self.ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_nanoseconds() {
        let date = DateTime { date: (2017, 9, 30), time: (15, 6, 13), millis: 191, weekday: 6 };
        assert_eq!(date.nanos(), Some(1_506_783_973_191_000_000));
        assert_eq!(DateTime::of(1_506_783_973_191_999_999), date);
        for wrong in [
            DateTime { date: (2017, 2, 29), ..date },
            DateTime { time: (24, 0, 0), ..date },
            DateTime { time: (0, 60, 0), ..date },
            DateTime { time: (0, 0, 61), ..date },
            DateTime { millis: 1_000, ..date },
            DateTime { date: (9999, 1, 1), ..date },
        ] {
            assert_eq!(wrong.nanos(), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_first_frame_begins_a_measurement_unless_its_start_is_known() {
        let mut start = Start::default();
        assert_eq!(start.since(5_999_999), Ok((999_999, true)));
        assert_eq!(start.since(5_000_000), Ok((0, false)));
        assert_eq!(start.since(4_999_999), Err(EncodeError::BeforeStart(4_999_999)));
        assert_eq!(start.ns(), 5_000_000);
        for (announced_ns, expected) in [(2_000_001, 2_000_000), (6_000_000, 5_000_000)] {
            let mut start = Start::default();
            start.announce(announced_ns);
            assert_eq!(start.since(5_999_999), Ok((5_999_999 - expected, true)));
        }
    }
}
