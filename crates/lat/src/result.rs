//! The result of a measurement: what `DIR/results/<experiment>.json` holds. The same from every world.
//!
//! There is no wall clock in it, so that the same experiment gives the same bytes.

use std::collections::BTreeMap;

use candor_causes::Cause;
use serde::{Deserialize, Serialize};

use crate::section::Sections;
use crate::{Counts, Figures, Metric, TapPath};

/// The name of this layout.
pub const SCHEMA: &str = "candor-result/3";
/// Points of a latency profile at most.
pub const PROFILE_POINTS: usize = 2_000;

/// Letters of a name at most: file systems have room for 255 bytes, and endings and seeds stand behind it.
pub const MOST_LETTERS: usize = 120;

/// What a result of that name is called, so that it is fit for a file that everybody sees: letters, digits, `.`, `_` and
/// `-`. Anything else becomes `-`.
#[must_use]
pub fn file_name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let clean = text.replace(|c| !is_plain(c), "-");
    let clean = clean.trim_matches(['.', '-']);
    if clean.is_empty() { "experiment".into() } else { clean.chars().take(MOST_LETTERS).collect() }
}

/// Everything about one experiment. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultFile {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// The name of the experiment of which this is a run, if it runs with several seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it is about; empty if nobody said.
    pub title: String,
    /// The version that made it.
    pub candor: String,
    /// The command that makes it again.
    pub command: String,
    /// The world: `sim`, `vm` or `host`.
    pub testbed: String,
    /// World and conditions, for people.
    pub conditions: String,
    /// The path of its frames, by the name of a [`TapPath`].
    pub path: String,
    pub seed: u64,
    /// Whether a simulation drew numbers that move latencies, so that another seed gives others.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub random: bool,
    /// Its place in the matrix.
    pub axes: BTreeMap<String, String>,
    /// Every setting, as TOML.
    pub config: String,
    /// Files it read.
    pub inputs: Vec<InputFile>,
    /// How long it lasted in its own time.
    pub duration_ns: u64,
    /// What became of the frames.
    pub counts: Counts,
    /// Frames and copies that got no further, by cause.
    pub stopped: Vec<Stopped>,
    /// Latencies by metric.
    pub metrics: BTreeMap<String, Figures>,
    /// What is known besides, such as the loads of buses.
    #[serde(flatten)]
    pub sections: Sections,
    /// What the testbed wants people to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A file that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputFile {
    /// As it was written.
    pub path: String,
    /// Of its contents.
    pub sha256: String,
}

/// Frames and copies that one cause stopped at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// `sender`, `gateway` or `rule`.
    #[serde(rename = "where")]
    pub place: String,
    /// The rule, if one was at work.
    pub rule: String,
    /// One of [`Cause`].
    pub cause: String,
    /// How the cause ends a frame: `not_routed`, `refused` or `lost`.
    pub ending: String,
    pub frames: u64,
}

impl Stopped {
    /// Frames that a cause stopped at a place.
    #[must_use]
    pub fn new(place: &str, rule: &str, cause: Cause, frames: u64) -> Self {
        Self {
            place: place.into(),
            rule: rule.into(),
            cause: cause.name().into(),
            ending: cause.ending().key().into(),
            frames,
        }
    }
}

impl ResultFile {
    /// The name of the experiment, without the seed if it runs with several.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or(&self.experiment)
    }

    /// The latency that is shown where there is room for one.
    #[must_use]
    pub fn main_metric(&self) -> Option<&Figures> {
        self.metric(TapPath::by_name(&self.path)?.main_metric()?)
    }

    #[must_use]
    pub fn metric(&self, metric: Metric) -> Option<&Figures> {
        self.metrics.get(metric.key())
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_files() {
        for (text, name) in [
            ("a b/c", "a-b-c"),
            ("../../etc/passwd", "etc-passwd"),
            (".hidden", "hidden"),
            ("..", "experiment"),
            ("", "experiment"),
            ("1.5", "1.5"),
            ("gr\u{fc}n", "gr-n"),
        ] {
            assert_eq!(file_name(text), name);
        }
        assert_eq!(file_name(&"x".repeat(1_000)).len(), MOST_LETTERS);
    }
}
