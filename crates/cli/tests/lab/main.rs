//! `candor lab` as its user sees it.

mod claims;
mod compare;
mod list;
mod mistakes;
mod offline;
#[path = "../progress/mod.rs"]
mod progress;
mod runs;
mod scene;
