//! What programs that answer others have in common. What they answer is theirs.
//!
//! ```text
//!  listener --> clients: as many as there is room for --> a task each: HTTP or lines --> the program
//!                     all of it in the thread of one reactor
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`Reactor`] | a thread with an event loop |
//! | [`listen`] | addresses to connect to, and who can reach them |
//! | [`unix`], [`place`] | sockets that are files; where they are, and which programs run |
//! | [`clients`] | how many clients there are, and which of them gives way to a new one |
//! | [`http`] | HTTP/1.1 |
//! | [`follow`] | when the file of a service is to be read anew |
//! | [`health`] | whether a program is well: `/healthz` |
//! | [`exposition`] | metrics for Prometheus |
//! | [`supervise`] | the loop of a program until its end; the service manager |
//! | [`rehearsal`] | whether a change fits into the memory that a service may have |
//! | [`lines`] | requests and answers that are lines |
//!
//! A client costs a task and its buffers, but no thread. Handlers of HTTP run in the event loop, so they must not
//! wait. What answers lines has a thread for all clients.

pub mod clients;
pub mod exposition;
pub mod follow;
pub mod health;
pub mod http;
pub mod lines;
pub mod listen;
pub mod place;
mod reactor;
pub mod rehearsal;
mod stream;
pub mod supervise;
pub mod unix;

pub use reactor::{Reactor, beside, both};
