//! The object `claim` of `candor lab claims`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

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
    /// us, frames, % or instructions (per frame): the unit of the values and bounds; null for a ratio
    pub(crate) unit: Option<&'static str>,
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
    /// yes, no, depends (on the seed), too_few_seeds, or missing (there is no value)
    pub(crate) agreement: &'static str,
    /// What is known about an agreement or its lack
    pub(crate) note: &'a str,
}

impl Object for JudgedClaim<'_> {
    const TYPE: &'static str = "claim";
    const COMMANDS: &'static [&'static str] = &["lab claims"];
}
