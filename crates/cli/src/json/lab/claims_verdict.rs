//! The object `verdict` of `candor lab claims`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// All claims together; it comes last.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaimsVerdict {
    /// The number of claims
    pub(crate) claims: usize,
    /// Claims that agree
    pub(crate) yes: usize,
    /// Claims that agree with some seeds only
    pub(crate) depends: usize,
    /// Claims that do not agree
    pub(crate) no: usize,
    /// Claims that are a matter of chance and have too few seeds
    pub(crate) too_few_seeds: usize,
    /// Claims without a value
    pub(crate) missing: usize,
    /// Whether all claims agree
    pub(crate) agrees: bool,
    /// 0 if all claims agree; 1 if not, or if two runs of --verify differ; 2 if experiments failed
    /// or were interrupted, or the report cannot be written
    pub(crate) exit_code: u8,
}

impl Object for ClaimsVerdict {
    const TYPE: &'static str = "verdict";
    const COMMANDS: &'static [&'static str] = &["lab claims"];
}
