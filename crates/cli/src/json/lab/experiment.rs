//! The object `experiment` of `candor lab list`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::words::Testbed;
use crate::json::Object;

/// An experiment of a file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedExperiment<'a> {
    /// Its name
    pub(crate) name: &'a str,
    /// What it is about; empty if the file does not say
    pub(crate) title: &'a str,
    /// Where it runs
    pub(crate) testbed: Testbed,
    /// World and conditions, for people
    pub(crate) conditions: &'a str,
    /// The settings of the matrix and their values in this experiment
    pub(crate) axes: BTreeMap<&'a str, &'a str>,
}

impl Object for ListedExperiment<'_> {
    const TYPE: &'static str = "experiment";
    const COMMANDS: &'static [&'static str] = &["lab list"];
}
