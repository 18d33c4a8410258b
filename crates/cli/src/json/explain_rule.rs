//! The object `rule` of `candor route explain`.

use candor_causes::Cause;
use candor_engine::table;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use super::signal::Signal;
use super::words::or_null;

/// A rule that the frame meets, in the order of the file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExplainRule<'a> {
    /// 1 for the frame as it came in; copies that come back make further passes
    pub(crate) pass: usize,
    /// The bus that receives the frame of this pass
    pub(crate) bus: &'a str,
    /// The frame of this pass in the notation of candump
    pub(crate) frame: String,
    /// The name of the rule
    pub(crate) rule: &'a str,
    /// The line of the rule in its file, from 1
    pub(crate) line: u32,
    /// The column of the rule in its file, from 1
    pub(crate) column: u32,
    /// Whether the rule takes the frame
    pub(crate) taken: bool,
    /// Why, or why not
    pub(crate) reason: String,
    /// The kernel's receive list of the filter that matched; null if none did
    pub(crate) list: Option<ReceiveList>,
    /// What the rule changes in the frame, step by step
    pub(crate) steps: Vec<Step>,
    /// The frame that goes out; null if none does
    pub(crate) result: Option<String>,
    /// The copies of the frame, one for each destination
    pub(crate) copies: Vec<Copy<'a>>,
}

/// A step of an edit.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Step {
    /// What is done
    #[schemars(extend("enum" = OPERATIONS))]
    pub(crate) operation: &'static str,
    /// The part of the frame, such as id, length or data
    pub(crate) field: String,
    /// What it was
    pub(crate) before: String,
    /// What it is then
    pub(crate) after: String,
}

/// A copy of a frame for one destination.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Copy<'a> {
    /// The bus that it goes to
    pub(crate) bus: &'a str,
    /// The port of that bus
    pub(crate) interface: &'a str,
    /// Why it is refused; null if it is not
    #[schemars(extend("enum" = or_null(Cause::ALL.map(Cause::name))))]
    pub(crate) refused: Option<&'static str>,
    /// How many more times it may pass through the gateway
    pub(crate) hops_left: u8,
    /// The pass that it makes when it comes back; null if it does not
    pub(crate) next_pass: Option<usize>,
    /// The name of the message by the DBC file of that bus; null if it is not known
    pub(crate) message: Option<String>,
    /// The signals of the message; empty if it is not known
    pub(crate) signals: Vec<Signal<String>>,
}

/// What a step may do; `end` is the end of a frame that has become too long.
const OPERATIONS: [&str; 14] = [
    "and",
    "or",
    "xor",
    "set",
    "crc8",
    "xor_checksum",
    "copy",
    "signal",
    "message",
    "counter",
    "e2e",
    "remap",
    "convert",
    "end",
];

/// A receive list of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReceiveList {
    Error,
    All,
    Masked,
    Inverted,
    Extended,
    Standard,
}

impl From<table::List> for ReceiveList {
    fn from(list: table::List) -> Self {
        match list {
            table::List::Error => Self::Error,
            table::List::All => Self::All,
            table::List::Masked => Self::Masked,
            table::List::Inverted => Self::Inverted,
            table::List::Extended => Self::Extended,
            table::List::Standard => Self::Standard,
        }
    }
}

impl Object for ExplainRule<'_> {
    const TYPE: &'static str = "rule";
    const COMMANDS: &'static [&'static str] = &["route explain"];
}
