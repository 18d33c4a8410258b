//! [`Extension`]: what a rule can do that the kernel's gateway cannot.
//!
//! | file | what |
//! |---|---|
//! | `payload.rs` | which data and lengths a rule takes |
//! | `pace.rs` | how often it fires: rate limits, down-sampling, on change |
//! | `action.rs` | ordered edits: bytes, signals, counters, identifiers out of a table |
//! | `place.rs` | where a number stands in the data |
//! | `exact.rs` | signals of more than 53 bits |
//! | `e2e.rs` | AUTOSAR end-to-end protection, profiles 1 and 2 |
//! | `convert.rs` | classical to CAN FD and back |

pub mod action;
pub mod convert;
pub mod e2e;
mod exact;
pub mod pace;
pub mod payload;
mod place;

use alloc::vec::Vec;

pub use action::Action;
pub use convert::Conversion;
pub use pace::Pace;
pub use payload::Payload;

/// What a rule can do that the kernel's gateway cannot. Empty for most rules.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extension {
    /// Which data and lengths it takes.
    pub payload: Payload,
    /// How often it fires.
    pub pace: Pace,
    /// What it does to the frame, in this order, instead of [`Rule::edit`](crate::Rule::edit).
    pub actions: Vec<Action>,
    /// Whether the frame changes its kind, after everything else.
    pub convert: Option<Conversion>,
    /// How long a copy may wait for its bus, in ns; then it is refused as stale. 0 for ever.
    pub deadline_ns: u64,
}

impl Extension {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys().is_empty()
    }

    /// Whether anything of one frame matters for the next: how often the rule fires, or how often
    /// it has.
    #[must_use]
    pub fn remembers(&self) -> bool {
        let counts = |action: &Action| matches!(action, Action::Counter(_) | Action::E2e(_));
        !self.pace.is_free() || self.actions.iter().any(counts)
    }

    /// The keys of rule files that this rule uses and the kernel has nothing like.
    #[must_use]
    pub fn keys(&self) -> Vec<&'static str> {
        let Self { payload, pace, actions, convert, deadline_ns } = self;
        [
            (!payload.data.is_empty() || !payload.not_data.is_empty(), "data"),
            (!payload.lengths.is_empty(), "length"),
            (pace.interval_ns != 0, "rate"),
            (pace.every > 1, "every"),
            (pace.on_change.is_some(), "on_change"),
            (!actions.is_empty(), "edit"),
            (convert.is_some(), "convert"),
            (*deadline_ns != 0, "deadline"),
        ]
        .into_iter()
        .filter_map(|(is_used, key)| is_used.then_some(key))
        .collect()
    }
}
