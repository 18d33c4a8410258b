//! Events: what applications subscribe to. A received frame becomes one raw event, and one event for each of its
//! signals; each is encoded once per format in use, and all subscribers share the bytes.
//!
//! ```text
//!  frame -- Hub::publish --> topics: raw, signals; ordinals
//!                              |  encoded once per format in use
//!                              v
//!                            Log (a ring of framed bytes) <-- cursor -- Subscriber: patterns, filter, missed
//! ```
//!
//! | item | what it is |
//! |---|---|
//! | [`Hub`] | the topics, the logs, and the newest frame of each identifier |
//! | [`Topic`] | what events are about: the frames with an identifier on a bus, or a signal |
//! | [`Subscriber`] | which topics somebody wants, how far they have been delivered, and what was missed |
//! | [`Log`] | encoded events, the newest ones in bounded memory |
//! | [`afb`] | the messages of AGL's WebSocket protocol `x-afb-ws-json1` |
//! | [`binary`] | messages of CBOR and MessagePack |
//! | [`Batch`] | events for subscribers in the same process |
//!
//! **Nobody waits for a subscriber.** A subscriber is a position in a log. When the events there have been
//! overwritten, it goes on further ahead, and is told exactly how many events it missed: each topic counts its
//! events (its *ordinal*), so the events of other topics do not matter. Of a topic, since it was subscribed to,
//!
//! ```text
//!  created = delivered + filtered + superseded + missed + waiting
//! ```
//!
//! This crate does no I/O and reads no clock.

pub mod afb;
mod batch;
pub mod binary;
mod filter;
mod hub;
mod log;
mod notifier;
mod pattern;
mod selection;
mod sse;
mod steps;
mod subscriber;
#[cfg(test)]
mod tests;
mod topic;

pub use batch::{Batch, Content, Event};
pub use filter::Filter;
pub use hub::{Bus, Format, Hub, Latest, Naming};
pub use log::{Framing, Log};
pub use notifier::Notifier;
pub use pattern::Pattern;
pub use selection::Selection;
pub use steps::Steps;
pub use subscriber::{Counts, Delivery, Subscriber, Subscribing, Unsubscribing};
pub use topic::{Kind, Topic, TopicId};
