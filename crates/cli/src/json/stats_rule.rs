//! The object `rule` of `candor route stats`.

use std::collections::BTreeMap;

use candor_causes::Cause;
use candor_gateway::control::rates::RuleRates;
use candor_gateway::snapshot::RuleSnapshot;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Object;
use super::words::planes;

/// A rule and one of its destinations; counts are since the start of the gateway.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StatsRule<'a> {
    /// The name of the rule
    pub(crate) rule: &'a str,
    /// The bus that it takes frames from
    pub(crate) from: &'a str,
    /// The bus that its copies go to
    pub(crate) to: &'a str,
    /// Who runs it
    #[schemars(extend("enum" = planes()))]
    pub(crate) plane: &'a str,
    /// Whether it is in use; a rule that was taken out keeps its counts
    pub(crate) in_use: bool,
    /// Copies that the destination took
    pub(crate) handled: u64,
    /// Copies that wait for the destination
    pub(crate) pending: u64,
    /// Copies that were refused or lost, by cause; causes that never occurred are left out
    #[schemars(extend("propertyNames" = json!({"enum": causes()})))]
    pub(crate) stopped: &'a BTreeMap<String, u64>,
    /// Copies in all: handled, pending, refused and lost
    pub(crate) copies: u64,
    /// Copies that the rule refused
    pub(crate) refused: u64,
    /// Copies that were lost
    pub(crate) lost: u64,
    /// Copies handled per second since the object before; null the first time
    pub(crate) handled_per_s: Option<f64>,
    /// Copies refused per second since the object before; null the first time
    pub(crate) refused_per_s: Option<f64>,
    /// Copies lost per second since the object before; null the first time
    pub(crate) lost_per_s: Option<f64>,
}

/// The names of all causes.
fn causes() -> Vec<&'static str> {
    Cause::ALL.into_iter().map(Cause::name).collect()
}

impl<'a> StatsRule<'a> {
    pub(crate) fn new(rule: &'a RuleSnapshot, rates: Option<&RuleRates>) -> Self {
        Self {
            rule: &rule.rule,
            from: &rule.from,
            to: &rule.to,
            plane: &rule.plane,
            in_use: rule.in_use,
            handled: rule.handled,
            pending: rule.pending,
            stopped: &rule.stopped,
            copies: rule.copies(),
            refused: rule.refused(),
            lost: rule.lost(),
            handled_per_s: rates.map(|rates| rates.handled),
            refused_per_s: rates.map(|rates| rates.refused),
            lost_per_s: rates.map(|rates| rates.lost),
        }
    }
}

impl Object for StatsRule<'_> {
    const TYPE: &'static str = "rule";
    const COMMANDS: &'static [&'static str] = &["route stats"];
}
