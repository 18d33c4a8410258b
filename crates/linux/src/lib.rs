//! What Linux offers and `std` does not: the only crate of the project with `unsafe`, and it shows none
//! of it.
//!
//! | module | what it gives |
//! |---|---|
//! | [`can`] | CAN sockets: frames one by one or in batches, kernel time stamps, overflow counters |
//! | [`packet`] | packet sockets: a receive ring shared with the kernel, sending past the queue |
//! | [`ethernet`] | Ethernet sockets: frames with the kernel's time stamps at both ends |
//! | [`netlink`] | links and their changes, addresses and can-gw jobs over rtnetlink |
//! | [`poll`] | waiting for several sockets |
//! | [`clock`] | the kernel's clocks, sleeping until an instant, CPU time, context switches |
//! | [`gaps`] | when a thread that spins was stopped |
//! | [`realtime`] | SCHED_FIFO, locked memory, affinity, timer slack; finding kernel threads |
//! | [`quick`] | the shortest ways into and out of a socket |
//! | [`state`] | timeouts of sockets, what they dropped and still hold |
//! | [`udp`], [`tcp`] | datagrams in batches, groups; connecting and sending without waiting |
//! | [`ethtool`] | what a controller can stamp |
//! | [`wake`] | interrupting a thread that waits |
//! | [`capability`], [`probe`] | what this process may do |
//! | [`notify`] | telling the service manager how it goes |
//! | [`signal`] | signals that are read like a file |
//! | [`unfinished`] | files that are removed before a signal ends the process |
//! | [`watch`] | noticing that a file was saved |
//! | [`lock`], [`folder`], [`runtime`] | a lock between processes; folders that no other user can change; where locks and sockets are |
//! | [`peer`] | who is at the other end of a Unix socket |
//! | [`process`] | forking and reaping |
//! | [`namespace`] | network namespaces |
//! | [`icmp`] | echo requests |
//! | [`module`], [`mount`], [`port`] | what an `/init` needs |
//!
//! The receiving and sending functions do not allocate; everything that cannot fail for a reason of
//! the program's own making returns an [`Error`] with what was tried on what, the kernel's reason,
//! and a remedy where there is one. What happens in ordinary operation is no error: nothing to read
//! is `None`, a full queue is [`Sent::QueueFull`].

pub mod can;
pub mod candor_can;
pub mod candor_gateway;
pub mod capability;
pub mod clock;
mod control;
pub mod dma;
mod error;
pub mod ethernet;
pub mod ethtool;
pub mod event;
pub mod file;
pub mod folder;
pub mod gaps;
pub mod icmp;
mod interface;
pub mod limits;
pub mod lock;
mod mapping;
pub mod module;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod notify;
pub mod packet;
pub mod peer;
pub mod poll;
pub mod port;
pub mod probe;
pub mod process;
pub mod quick;
pub mod realtime;
pub mod runtime;
pub mod signal;
mod socket;
pub mod state;
pub mod tcp;
pub mod timer;
pub mod udp;
pub mod unfinished;
pub mod wake;
pub mod watch;

pub use error::{Errno, Error};
pub use interface::{interface_index, scoped, scoped_address};
pub use socket::Sent;
