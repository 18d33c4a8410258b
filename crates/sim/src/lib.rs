//! The world in virtual time: CAN buses exact to the bit, Ethernet links exact to the nanosecond, and
//! models of the hosts between them.
//!
//! The world is an event core ([`event`]) with buses plugged in. A medium ([`medium`]) is a part of its
//! own: [`can`] and [`eth`] can be driven without hosts and senders.
//! [`World`] has senders and hosts, and turns what buses did with frames into what those do next:
//!
//! ```text
//!  Sender --> Controller ==Bus== Controller --> Host ---------------> Controller ==Bus== (listeners)
//!  (traffic)  transmit queue     receive FIFO   interrupt, soft-irq,   transmit buffers
//!                                               rules, egress queue
//! ```
//!
//! One event queue, one stream of randomness per part: the same seed gives the same bytes. What is
//! exact: the duration of every frame, arbitration, the places in every queue. What is a model, and called
//! one: the processor of a host ([`model::Model`]), whose parameters come from a profile.
//!
//! This crate knows nothing of rules: a [`Gateway`] decides. Nor of experiments: a [`Source`] says
//! what is sent, an [`Observer`] takes what became of each frame.
//!
//! In [`port`], programs take part: they send and receive through the interface of `candor_port`, in virtual time.
//!
//! Laws, asserted in tests: every frame that enters ends in exactly one [`Record`] per copy, or in
//! one record with the cause of its refusal; no clock is read.

pub mod can;
pub mod eth;
pub mod event;
mod flight;
mod host;
pub mod instrument;
pub mod medium;
pub mod model;
mod node;
pub mod port;
mod record;
mod sender;
mod slab;
pub mod tte;
mod world;

pub use can::{BusConfig, BusId, BusStatistics, Fault};
pub use candor_queue::Discipline;
pub use event::{Random, Time};
pub use flight::PassageTag;
pub use host::{Copy, Decision, Gateway, Settled, Walk};
pub use model::Model;
pub use record::{Fate, Observer, Record};
pub use sender::{Drive, Release, SenderConfig, Source, Stuffing};
pub use world::{HostId, Port, SenderId, World};
