//! What else the machine has to do while it is measured.

mod hackbench;
mod ping;

pub(crate) use hackbench::Hackbench;
pub(crate) use ping::FloodPing;
