//! How late frames can be: bounds, not samples.
//!
//! | module | what it bounds |
//! |---|---|
//! | [`bus`] | the response times of one bus whose nodes have priority queues |

pub mod bus;
