//! How much slower is still accepted.

use std::fmt;
use std::str::FromStr;

/// How much slower is still accepted: `1%`, `50ns`, `0.2us`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowance {
    /// So many percent of the figure before.
    Percent(f64),
    Nanoseconds(f64),
}

impl Default for Allowance {
    /// Nothing.
    fn default() -> Self {
        Self::Percent(0.0)
    }
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| number.is_finite() && *number >= 0.0)
        };
        let with_unit = |unit: &str| text.strip_suffix(unit).and_then(number);
        with_unit("%")
            .map(Self::Percent)
            .or_else(|| with_unit("ns").map(Self::Nanoseconds))
            .or_else(|| with_unit("us").map(|us| Self::Nanoseconds(us * 1_000.0)))
            .ok_or_else(|| format!("`{text}` is not an allowance; write 1%, 50ns or 0.2us"))
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::Nanoseconds(ns) => write!(f, "{ns} ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_have_a_unit() {
        for (text, allowance) in [
            ("1%", Some(Allowance::Percent(1.0))),
            ("0.5 %", Some(Allowance::Percent(0.5))),
            ("50ns", Some(Allowance::Nanoseconds(50.0))),
            ("0.2us", Some(Allowance::Nanoseconds(200.0))),
            ("1", None),
            ("-1%", None),
            ("%", None),
            ("infns", None),
            ("fast", None),
        ] {
            assert_eq!(text.parse().ok(), allowance, "{text}");
        }
    }
}
