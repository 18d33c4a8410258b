//! The `vm` testbed with machines made by hand.

mod by_hand;
mod orders;
mod reports;
mod runs;
