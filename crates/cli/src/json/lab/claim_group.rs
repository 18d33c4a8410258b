//! The object `claim_group` of `candor lab claims`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// How many claims of an id agree; these objects come after the claims.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ClaimGroup<'a> {
    /// The name of the claims
    pub(crate) id: &'a str,
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
}

impl Object for ClaimGroup<'_> {
    const TYPE: &'static str = "claim_group";
    const COMMANDS: &'static [&'static str] = &["lab claims"];
}
