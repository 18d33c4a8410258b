//! Whether a program that receives from buses is well: what is asked of it, and how it answers.
//!
//! `GET /healthz` is 200 if it is, and 503 with a line for each [`Problem`] if it is not. The query may have `max_silence`, as
//! often as wanted, each a [`MaxSilence`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use candor_time::Nanos;
use hyper::StatusCode;

/// Where health is asked for.
pub const PATH: &str = "/healthz";
/// The shortest silence that can be told: a gateway looks once a second whether frames came.
pub const LEAST_SILENCE: Nanos = Nanos::from_secs(1);
/// The longest that can be asked for.
pub const MOST_SILENCE: Nanos = Nanos::from_secs(7 * 24 * 3_600);

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bus that has it, if it is one of a bus.
    pub bus: Option<String>,
    /// What it is, in one line.
    pub text: String,
}

impl Problem {
    /// One of a bus.
    pub fn of_bus(bus: impl Into<String>, text: impl Into<String>) -> Self {
        Self { bus: Some(bus.into()), text: text.into() }
    }

    /// One of the program as a whole.
    pub fn new(text: impl Into<String>) -> Self {
        Self { bus: None, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bus) = &self.bus {
            write!(f, "bus `{bus}`: ")?;
        }
        f.write_str(&self.text)
    }
}

/// For how long a bus may be silent at most: of one, such as `body=2s`, or of each from which frames are received, `2s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxSilence {
    /// The bus; `None` for all that have no limit of their own.
    pub bus: Option<String>,
    /// The longest time without a frame.
    pub time: Nanos,
}

impl FromStr for MaxSilence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name may have `=` in it, and a time has none.
        let (bus, time) = match text.rsplit_once('=') {
            Some((bus, time)) => (Some(bus.to_owned()), time),
            None => (None, text),
        };
        let wrong = || format!("`{text}` is neither a time such as 2s nor such as BUS=2s");
        let time: Nanos = time.parse().map_err(|_| wrong())?;
        if !(LEAST_SILENCE..=MOST_SILENCE).contains(&time) {
            return Err(format!(
                "{time} is no silence that can be told; use {LEAST_SILENCE} to {MOST_SILENCE}"
            ));
        }
        Ok(Self { bus, time })
    }
}

/// A bus, and for how long no frame has come at least; `None` of one that nobody receives from.
pub type Silence<'a> = (&'a str, Option<Nanos>);

/// The buses that are silent for longer than they may be.
///
/// # Errors
/// A limit for a bus that there is not, or that nobody receives from, in one sentence.
pub fn too_silent(buses: &[Silence<'_>], limits: &[MaxSilence]) -> Result<Vec<Problem>, String> {
    // Of several limits for the same, the shortest one holds.
    let mut shortest: BTreeMap<Option<&str>, Nanos> = BTreeMap::new();
    for limit in limits {
        let time = shortest.entry(limit.bus.as_deref()).or_insert(limit.time);
        *time = limit.time.min(*time);
    }
    let known: BTreeMap<&str, Option<Nanos>> = buses.iter().copied().collect();
    for name in shortest.keys().flatten() {
        match known.get(name) {
            Some(Some(_)) => {}
            Some(None) => {
                return Err(format!(
                    "no frames are received from bus `{name}`, so it has no silence"
                ));
            }
            None => {
                let names: Vec<_> = buses.iter().map(|(bus, _)| format!("`{bus}`")).collect();
                return Err(format!("there is no bus `{name}`; there are {}", names.join(", ")));
            }
        }
    }
    let mut problems = Vec::new();
    for &(bus, silence) in buses {
        let limit = shortest.get(&Some(bus)).or_else(|| shortest.get(&None));
        let Some((silence, limit)) = silence.zip(limit) else { continue };
        if silence > *limit {
            let silence = Nanos::from_millis(silence.as_nanos() / 1_000_000);
            let text = format!("no frame for {silence}, and at most {limit} is allowed");
            problems.push(Problem::of_bus(bus, text));
        }
    }
    Ok(problems)
}

/// What is answered to `GET /healthz` with this query: status and text. `problems` finds them, with these limits.
pub fn answer(
    query: Option<&str>,
    problems: impl FnOnce(&[MaxSilence]) -> Result<Vec<Problem>, String>,
) -> (StatusCode, String) {
    let found = limits(query.unwrap_or_default()).and_then(|limits| problems(&limits));
    match found {
        Ok(problems) if problems.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
        Ok(problems) => {
            let lines = problems.iter().map(|problem| format!("{problem}\n"));
            (StatusCode::SERVICE_UNAVAILABLE, lines.collect())
        }
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")),
    }
}

fn limits(query: &str) -> Result<Vec<MaxSilence>, String> {
    let limit = |(key, value): (Cow<'_, str>, Cow<'_, str>)| match &*key {
        "max_silence" => value.parse().map_err(|reason| format!("max_silence: {reason}")),
        key => Err(format!("`{key}` is unknown; there is max_silence, such as max_silence=2s")),
    };
    form_urlencoded::parse(query.as_bytes()).map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_silence_are_read() {
        let limit = |bus: Option<&str>, seconds| MaxSilence {
            bus: bus.map(Into::into),
            time: Nanos::from_secs(seconds),
        };
        for (text, expected) in [
            ("2s", Some(limit(None, 2))),
            ("1s", Some(limit(None, 1))),
            ("body=60s", Some(limit(Some("body"), 60))),
            ("a=b=2s", Some(limit(Some("a=b"), 2))),
            ("999ms", None),
            ("604801s", None),
            ("2", None),
            ("body=", None),
            ("", None),
            ("-1s", None),
        ] {
            assert_eq!(text.parse::<MaxSilence>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn only_who_is_silent_for_longer_than_it_may_is_a_problem() {
        let ms = |ms| Some(Nanos::from_millis(ms));
        let buses = [("body", ms(2_001)), ("drive", ms(500)), ("out", None)];
        for (query, expected) in [
            ("", Ok(&[][..])),
            ("max_silence=3s", Ok(&[])),
            ("max_silence=2s", Ok(&["bus `body`: no frame for 2.001s, and at most 2s is allowed"])),
            ("max_silence=body%3D2.001s", Ok(&[])),
            ("max_silence=1s&max_silence=body=5s", Ok(&[])),
            (
                "max_silence=5s&max_silence=body=1s",
                Ok(&["bus `body`: no frame for 2.001s, and at most 1s is allowed"]),
            ),
            (
                "max_silence=out=2s",
                Err("no frames are received from bus `out`, so it has no silence"),
            ),
            (
                "max_silence=bdoy=2s",
                Err("there is no bus `bdoy`; there are `body`, `drive`, `out`"),
            ),
            (
                "max_age=2s",
                Err("`max_age` is unknown; there is max_silence, such as max_silence=2s"),
            ),
            (
                "max_silence=0s",
                Err("max_silence: 0ns is no silence that can be told; use 1s to 604800s"),
            ),
        ] {
            let (status, text) = answer(Some(query), |limits| too_silent(&buses, limits));
            let (expected_status, lines) = match expected {
                Ok([]) => (StatusCode::OK, vec!["ok"]),
                Ok(problems) => (StatusCode::SERVICE_UNAVAILABLE, problems.to_vec()),
                Err(reason) => (StatusCode::BAD_REQUEST, vec![reason]),
            };
            assert_eq!(
                (status, text.lines().collect::<Vec<_>>()),
                (expected_status, lines),
                "{query}"
            );
        }
    }
}
