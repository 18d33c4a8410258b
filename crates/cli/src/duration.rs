//! Durations on the command line.

use candor_time::Nanos;

/// A duration such as `1.5ms`; zero needs no unit.
pub(crate) fn read(text: &str) -> Result<Nanos, String> {
    match text {
        "0" => Ok(Nanos::ZERO),
        _ => text.parse().map_err(|error: candor_time::ParseNanosError| error.to_string()),
    }
}
