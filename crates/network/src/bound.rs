//! How late frames can be: bounds, not samples.
//!
//! | module | what it bounds |
//! |---|---|
//! | [`arrivals`](Arrivals) | how densely frames are queued |
//! | [`bus`] | the response times of one bus |
//! | [`processor`] | the time of a gateway that serves frames one by one |
//! | [`network`] | all of it together: from bus to bus, and what queues hold |
//! | [`sensitivity`] | by how much it may change until it does not hold any more |
//! | [`mod@assign`] | identifiers with which it holds |

mod arrivals;
pub mod assign;
pub mod bus;
pub mod network;
pub mod processor;
pub mod sensitivity;

pub use arrivals::{Arrivals, Limit};
pub use network::{Bound, Bounds, bounds};
