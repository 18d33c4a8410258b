//! The object `note` of `candor lab compare`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json::Object;

/// What makes the two sides less comparable.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Note<'a> {
    /// A sentence, such as that there was another QEMU
    pub(crate) text: &'a str,
}

impl Object for Note<'_> {
    const TYPE: &'static str = "note";
    const COMMANDS: &'static [&'static str] = &["lab compare"];
}
