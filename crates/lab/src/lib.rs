//! Experiments: what a file says, run in a testbed, kept as results, shown in a report.
//!
//! ```text
//!  experiment.toml -- campaign ----> Experiment{kind} -- testbed -+- simulate (`sim`) -+--> ResultFile
//!  rules, profile, DBC, recording --^ kinds: readers              |- vm       (`vm`)  -|
//!                                                                 \- host     (`host`) /
//!                        run: side by side --> DIR/results/*.json, *.csv
//!                                       claims <--/       \--> report: DIR/index.html
//! ```
//!
//! This crate is where the parts meet: it gives the rule engine of `candor-engine` to the hosts of
//! `candor-sim` ([`kinds::gateway`]) and orders to the machines of `candor-vm`, measures with `candor-lat`, and
//! keeps what comes out.

pub mod axis;
pub mod builder;
pub mod buses;
pub mod campaign;
pub mod capture;
pub mod claims;
pub mod columns;
pub mod compare;
pub mod coverage;
mod error;
pub mod experiment;
pub mod folder;
pub mod glob;
pub mod group;
pub mod history;
pub mod host;
pub mod kinds;
mod locate;
mod machine;
pub mod quantity;
mod reading;
pub mod report;
pub mod result;
pub mod results;
pub mod run;
pub mod runner;
pub mod sections;
pub mod simulate;
pub mod sweep;
pub mod testbed;
pub mod vm;
mod watch;

pub use campaign::Campaign;
pub use error::Error;
pub use experiment::Experiment;
