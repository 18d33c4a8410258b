//! The object `claim` of `candor lab claims`.

use candor_lab::{claims, quantity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// A claim and what became of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct JudgedClaim<'a> {
    /// The name of the claim
    pub(crate) id: &'a str,
    /// What is claimed
    pub(crate) says: &'a str,
    /// What was published, for people
    pub(crate) published: &'a str,
    /// The bounds of the value, for people
    pub(crate) bounds: String,
    /// Which of several claims of the same kind it is; null if it is the only one
    pub(crate) each: Option<&'a str>,
    /// The unit of the values and bounds; null for a ratio
    pub(crate) unit: Option<Unit>,
    /// The value; null if there is none or it differs between seeds
    pub(crate) value: Option<f64>,
    /// The number of seeds with a value; null if there is no value
    pub(crate) seeds: Option<usize>,
    /// The smallest value of all seeds; null if there is no value
    pub(crate) least: Option<f64>,
    /// The largest value of all seeds; null if there is no value
    pub(crate) most: Option<f64>,
    /// Whether the agreement is yes
    pub(crate) agrees: bool,
    /// Whether the values lie within the bounds
    pub(crate) agreement: Agreement,
    /// What is known about an agreement or its lack
    pub(crate) note: &'a str,
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[serde(rename = "us")]
    Microseconds,
    Frames,
    #[serde(rename = "%")]
    Percent,
    /// per event
    Bytes,
    /// per frame
    Instructions,
    Count,
    #[serde(rename = "bit/s")]
    BitsPerSecond,
}

/// Claims have times in microseconds.
impl From<quantity::Unit> for Unit {
    fn from(unit: quantity::Unit) -> Self {
        match unit {
            quantity::Unit::Nanoseconds => Self::Microseconds,
            quantity::Unit::Frames => Self::Frames,
            quantity::Unit::Percent => Self::Percent,
            quantity::Unit::Bytes => Self::Bytes,
            quantity::Unit::Instructions => Self::Instructions,
            quantity::Unit::BitsPerSecond => Self::BitsPerSecond,
            quantity::Unit::Count | quantity::Unit::Text => Self::Count,
        }
    }
}

/// Whether values lie within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Agreement {
    /// all of them
    Yes,
    /// none of them
    No,
    /// on the seed
    Depends,
    /// they vary from run to run
    TooFewSeeds,
    /// there is no value
    Missing,
}

impl From<claims::Agreement> for Agreement {
    fn from(agreement: claims::Agreement) -> Self {
        match agreement {
            claims::Agreement::Yes => Self::Yes,
            claims::Agreement::No => Self::No,
            claims::Agreement::Depends => Self::Depends,
            claims::Agreement::TooFewSeeds => Self::TooFewSeeds,
            claims::Agreement::Missing => Self::Missing,
        }
    }
}

impl Object for JudgedClaim<'_> {
    const TYPE: &'static str = "claim";
    const COMMANDS: &'static [&'static str] = &["lab claims"];
}
