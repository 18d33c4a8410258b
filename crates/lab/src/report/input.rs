//! A result file as the report reads it: tolerant of what is missing or unknown, strict about
//! what is there.

use std::collections::BTreeMap;
use std::path::Path;

use candor_lat::histogram::thin;
use serde::{Deserialize, Serialize, Serializer};

use super::{Error, RUN_AGAIN};

/// The schema this version reads.
const SCHEMA: &str = "candor-result/1";

/// Points of a latency profile on the page; more could not be told apart.
const PROFILE_POINTS: usize = 2_000;

/// What is shown of an experiment. Field names are those of the file, and of the page.
#[derive(Deserialize, Serialize)]
pub(super) struct ResultFile {
    experiment: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    candor: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    testbed: String,
    #[serde(default)]
    conditions: String,
    #[serde(default, serialize_with = "as_text")]
    seed: Option<u64>,
    #[serde(default)]
    axes: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    config: String,
    #[serde(default)]
    inputs: Vec<Input>,
    counts: Counts,
    #[serde(default)]
    refused: Vec<Refused>,
    #[serde(default)]
    buses: Vec<Bus>,
    #[serde(default)]
    rules: Vec<Rule>,
    metrics: BTreeMap<String, Figures>,
}

/// A file that the experiment read.
#[derive(Deserialize, Serialize)]
struct Input {
    path: String,
    #[serde(default)]
    sha256: String,
}

/// What became of the frames.
#[derive(Deserialize, Serialize)]
struct Counts {
    sent: u64,
    received: u64,
    lost: u64,
    #[serde(default)]
    duplicated: u64,
    #[serde(default)]
    reordered: u64,
}

/// Frames that did not get through, by place and cause.
#[derive(Deserialize, Serialize)]
struct Refused {
    #[serde(rename = "where", default)]
    place: String,
    #[serde(default)]
    bus: String,
    cause: String,
    frames: u64,
}

#[derive(Deserialize, Serialize)]
struct Bus {
    name: String,
    #[serde(default)]
    bitrate: Option<u64>,
    #[serde(default)]
    data_bitrate: Option<u64>,
    #[serde(default)]
    frames: u64,
    load_percent: f64,
    #[serde(default)]
    error_frames: u64,
}

#[derive(Deserialize, Serialize)]
struct Rule {
    name: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    handled: u64,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    deleted: u64,
}

/// One metric over all frames. The profile goes into the experiment's chart file instead.
#[derive(Deserialize, Serialize)]
struct Figures {
    count: u64,
    min_ns: Option<i64>,
    p50_ns: Option<i64>,
    p90_ns: Option<i64>,
    p99_ns: Option<i64>,
    p999_ns: Option<i64>,
    max_ns: Option<i64>,
    mean_ns: Option<f64>,
    stddev_ns: Option<f64>,
    #[serde(default, skip_serializing)]
    profile: Vec<(i64, u64)>,
}

/// What is read first, so that a file of another kind is called that.
#[derive(Deserialize)]
struct Header {
    schema: String,
}

impl ResultFile {
    pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Self, Error> {
        let broken = |error: serde_json::Error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let message = format!("this is no complete result: {message}");
            Error::new(path, message, RUN_AGAIN).at(error.line(), error.column().max(1))
        };
        let Header { schema } = serde_json::from_slice(text).map_err(broken)?;
        if schema != SCHEMA {
            let message = format!("the schema is {schema:?}, but this version reads {SCHEMA:?}");
            return Err(Error::new(path, message, RUN_AGAIN));
        }
        serde_json::from_slice(text).map_err(broken)
    }

    /// The latency profiles by metric, without empty ones.
    pub(super) fn profiles(&self) -> BTreeMap<String, Vec<(i64, u64)>> {
        let thinned = |(key, figures): (&String, &Figures)| {
            (key.clone(), thin(figures.profile.clone(), PROFILE_POINTS))
        };
        self.metrics
            .iter()
            .filter(|(_, figures)| !figures.profile.is_empty())
            .map(thinned)
            .collect()
    }
}

/// A seed uses all 64 bits; a number in JavaScript has 53.
fn as_text<S: Serializer>(seed: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    seed.map(|seed| seed.to_string()).serialize(serializer)
}
