//! Durations on the command line.

use candor_time::Nanos;

/// A duration such as `1.5ms`; zero needs no unit.
pub(crate) fn read(text: &str) -> Result<Nanos, String> {
    match text {
        "0" => Ok(Nanos::ZERO),
        _ => text.parse().map_err(|error: candor_time::ParseNanosError| error.to_string()),
    }
}

/// The same, perhaps with a sign: nanoseconds.
pub(crate) fn read_signed(text: &str) -> Result<i64, String> {
    let (sign, size) = match text.strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns = i64::try_from(read(size)?.as_nanos());
    ns.map(|ns| sign * ns).map_err(|_| "an offset is at most 292 years".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_have_a_sign() {
        for (text, ns) in [
            ("-250ms", Ok(-250_000_000)),
            ("+1us", Ok(1_000)),
            ("0", Ok(0)),
            ("--1s", Err("a duration is a number and a unit, such as 250us")),
            ("-300000000h", Err("a duration is at most 584 years")),
            ("-2600000h", Err("an offset is at most 292 years")),
        ] {
            assert_eq!(read_signed(text), ns.map_err(str::to_owned), "{text}");
        }
    }
}
