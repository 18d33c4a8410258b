//! The object `coverage_total` of `candor lab list --coverage`.

use std::collections::BTreeMap;

use candor_lab::coverage::{LOADS, TRAFFICS};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::json::Object;

/// Which experiments of the papers a file has in all; only with --coverage, and last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CoveredInAll<'a> {
    /// The kernels of the file
    pub(crate) kernels: Vec<&'a str>,
    /// Combinations that the file has
    pub(crate) covered: usize,
    /// Combinations with the kernels of the file
    pub(crate) of: usize,
    /// Experiments that the papers report
    pub(crate) published: usize,
    /// Combinations that the file lacks, by traffic
    #[schemars(extend("propertyNames" = json!({"enum": TRAFFICS})))]
    pub(crate) missing_by_traffic: BTreeMap<&'static str, usize>,
    /// Combinations that the file lacks, by load
    #[schemars(extend("propertyNames" = json!({"enum": LOADS})))]
    pub(crate) missing_by_load: BTreeMap<&'static str, usize>,
}

impl Object for CoveredInAll<'_> {
    const TYPE: &'static str = "coverage_total";
    const COMMANDS: &'static [&'static str] = &["lab list"];
}
