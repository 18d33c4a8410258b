//! The live gateway: the rules of a file between the ports of a machine.
//!
//! ```text
//!  worker of can0:  Receiver -> Engine (its own) ---+--> Output of can1: Transmitter
//!  worker of can1:  Receiver -> Engine (its own) -+ |       | no room now
//!                                                 | |       v
//!                                                 +-|--> egress queue, by priority -> drainer
//!  supervisor: rules checked and swapped, links watched, statistics, control socket
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`plane`] | what carries out rules: workers, can-gw |
//! | [`plan`] | which of them carries out which rule |
//! | [`snapshot`] | what a gateway tells about itself: plain data |
//! | [`control`] | the socket by which it is asked and changed |
//! | [`metrics`] | the same for Prometheus |
//! | [`health`] | whether it is well |
//! | [`offline`] | rules applied to recorded frames |

#[cfg(feature = "daemon")]
pub mod control;
mod error;
mod gateway;
#[cfg(feature = "daemon")]
pub mod health;
mod lock;
#[cfg(feature = "daemon")]
pub mod metrics;
#[cfg(feature = "offline")]
pub mod offline;
pub mod plan;
pub mod plane;
#[cfg(feature = "daemon")]
mod rules;
mod silence;
pub mod snapshot;
#[cfg(feature = "daemon")]
mod supervisor;

pub use error::Error;
#[cfg(feature = "daemon")]
pub use gateway::plan_lines;
pub use gateway::{Compiled, Gateway, Rules};
pub use plane::Config;
#[cfg(feature = "daemon")]
pub use rules::{parse_rules, read_rules, rehearse};
pub use snapshot::Snapshot;
#[cfg(feature = "daemon")]
pub use supervisor::{Observer, Service, run, signals};
