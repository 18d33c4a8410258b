//! The object `coverage` of `candor lab list --coverage`.

use candor_lab::coverage::{GATEWAYS, LOADS, TRAFFICS};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::json::Object;

/// Which experiments of the papers a file has for a kernel and a gateway; only with --coverage.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Covered<'a> {
    /// The kernel
    pub(crate) kernel: &'a str,
    /// The gateway
    #[schemars(extend("enum" = GATEWAYS))]
    pub(crate) gateway: &'static str,
    /// Combinations of traffic and load that the file has
    pub(crate) covered: usize,
    /// Combinations of traffic and load
    pub(crate) of: usize,
    /// The combinations that the file lacks: traffic and load
    #[schemars(extend("items" = missing()))]
    pub(crate) missing: Vec<[&'static str; 2]>,
}

/// The schema of a traffic and a load.
fn missing() -> Value {
    let words = [TRAFFICS, LOADS].concat();
    json!({"type": "array", "items": {"type": "string", "enum": words}, "minItems": 2, "maxItems": 2})
}

impl Object for Covered<'_> {
    const TYPE: &'static str = "coverage";
    const COMMANDS: &'static [&'static str] = &["lab list"];
}
