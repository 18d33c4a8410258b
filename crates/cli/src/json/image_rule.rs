//! The object `rule` of `candor route image`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A rule of a program image, in the order of the image.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ImageRule<'a> {
    /// Its number in the section rules, from 0
    pub(crate) rule: u32,
    /// Its name
    pub(crate) name: &'a str,
    /// The bus that frames come from
    pub(crate) from: &'a str,
    /// The buses that copies go to
    pub(crate) to: Vec<&'a str>,
    /// Whether it changes frames
    pub(crate) modifies: bool,
}

impl Object for ImageRule<'_> {
    const TYPE: &'static str = "rule";
    const COMMANDS: &'static [&'static str] = &["route image"];
}
