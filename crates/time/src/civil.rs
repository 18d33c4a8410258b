//! Dates of the Gregorian calendar and numbers of days.
//!
//! Years are counted from March, so that the leap day is the last: then the length of months follows a straight line (153
//! days in five months), and 400 years have 146,097 days. 1970-01-01 is day 719,468 since 0000-03-01.

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;
const DAYS_OF_400_YEARS: u64 = 146_097;

/// Year, month (from 1) and day (from 1) of a number of days since 1970-01-01.
#[must_use]
pub const fn date(days: u64) -> (u64, u64, u64) {
    let since_march_0 = days + EPOCH;
    let (era, day_of_era) = (since_march_0 / DAYS_OF_400_YEARS, since_march_0 % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + (month <= 2) as u64;
    (year, month, day)
}

/// The number of days since 1970-01-01 of a year, a month (from 1) and a day (from 1); `None` if there is no such date, or
/// if it is before 1970 or after the year 9999.
#[must_use]
pub fn days((year, month, day): (u64, u64, u64)) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let month_from_march = (month + 9) % 12;
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * DAYS_OF_400_YEARS + day_of_era).checked_sub(EPOCH)?;
    // What no month has, such as February 30, is another date.
    (date(days).1 == month).then_some(days)
}

/// The day of the week of a number of days since 1970-01-01, a Thursday; 0 is Sunday.
#[must_use]
pub const fn weekday(days: u64) -> u64 {
    (days + 4) % 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_each_other() {
        for (days_, date_, weekday_) in [
            (0, (1970, 1, 1), 4),
            (59, (1970, 3, 1), 0),
            (789, (1972, 2, 29), 2),
            (11_016, (2000, 2, 29), 2),
            (17_439, (2017, 9, 30), 6),
            (47_541, (2100, 3, 1), 1),
            (2_932_896, (9999, 12, 31), 5),
        ] {
            assert_eq!((date(days_), days(date_), weekday(days_)), (date_, Some(days_), weekday_));
        }
        let mut expected = (1970, 1, 1);
        for number in 0..200_000 {
            let found = date(number);
            assert_eq!(days(found), Some(number));
            assert!(found >= expected);
            expected = found;
        }
    }

    #[test]
    fn what_is_no_date_has_no_number() {
        for date in [
            (1969, 12, 31),
            (10_000, 1, 1),
            (2000, 0, 1),
            (2000, 13, 1),
            (2000, 1, 0),
            (2000, 1, 32),
            (2000, 2, 30),
            (2001, 2, 29),
            (2100, 2, 29),
            (2001, 4, 31),
        ] {
            assert_eq!(days(date), None, "{date:?}");
        }
    }
}
