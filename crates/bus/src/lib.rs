//! What one does with buses by hand: look at them, send, generate, replay, measure.
//!
//! ```text
//!  ports -- Capture: a thread each, merged by stamp --> Selection --> a line, a log, a Meter
//!  frames: by hand, generated, recorded --> Schedule: absolute --> Outlet --> port
//!                                                                    |
//!                                             Delivery: sent, refused by cause, how late
//! ```
//!
//! | module | what it gives |
//! |---|---|
//! | [`capture`] | frames of several ports in one stream, and what each port lost |
//! | [`select`] | which of them are wanted: patterns of the rule language |
//! | [`criteria`] | the same of the frames of a recording, also by time, interface, group number and message |
//! | [`mod@line`] | frames as candump writes them |
//! | [`report`] | error reports of controllers in words |
//! | [`outlet`] | sending so that nothing is lost in silence |
//! | [`schedule`] | sending at given instants, and how punctual that was |
//! | [`generate`] | frames out of a seed |
//! | [`load`] | the exact load of a bus, per interval |
//! | [`named`] | a port with a name of its own: `engine=can0` |
//! | [`rates`] | a port with the bit rates of its bus: `can0@500k,2M` |
//! | [`words`] | frames and signals by their names in a DBC file |
//! | [`interface`] | the CAN interfaces of this machine |
//!
//! Nothing here prints, and nothing knows arguments: that is the business of `candor bus`.

pub mod capture;
pub mod criteria;
pub mod generate;
pub mod interface;
pub mod line;
pub mod load;
pub mod named;
pub mod outlet;
pub mod rates;
pub mod report;
pub mod schedule;
pub mod select;
pub mod words;
