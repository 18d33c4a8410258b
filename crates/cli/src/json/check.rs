//! The object `check` of `candor doctor`.

use candor_doctor as doctor;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// A check of this machine.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Check<'a> {
    /// The name of the check, as in docs/doctor.md
    pub(crate) name: &'a str,
    /// The interface or right that was looked at; null if there is only one
    pub(crate) subject: Option<&'a str>,
    /// How it is
    pub(crate) state: State,
    /// What was found
    pub(crate) found: &'a str,
    /// What it means, in sentences
    pub(crate) meaning: &'a str,
    /// The command that improves it; null if there is none
    pub(crate) fix: Option<&'a str>,
    /// Whether no gateway on CAN interfaces runs while this is missing
    pub(crate) is_needed: bool,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// as it should be
    Ok,
    /// it works, but not as well as it could
    Limited,
    /// it does not work
    Missing,
}

impl From<doctor::State> for State {
    fn from(state: doctor::State) -> Self {
        match state {
            doctor::State::Good => Self::Ok,
            doctor::State::Limited => Self::Limited,
            doctor::State::Missing => Self::Missing,
        }
    }
}

impl Object for Check<'_> {
    const TYPE: &'static str = "check";
    const COMMANDS: &'static [&'static str] = &["doctor"];
}
