//! The world as a whole: small scenes with known outcomes.

mod buses;
mod hosts;
#[path = "../scene/mod.rs"]
mod scene;
mod senders;
mod start;
