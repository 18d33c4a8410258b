//! Ethernet load: a flood ping over two network cards and a cable.
//!
//! ```text
//!  this namespace                        another namespace
//!  10.47.0.1 eth0 ====== cable ====== eth1 10.47.0.2
//!  echo request of 60,000 bytes, cut into 41 packets  -->
//!                              <--  the reply, in 41 packets
//! ```
//!
//! As `ping -f`: the next request when a reply has come, or after 10 ms.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use candor_linux::clock;
use candor_linux::icmp::{HEADER_LEN, Socket, request};
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::poll::{self, Interest};
use candor_time::{Monotonic, Nanos};

use super::{LINK_TIMEOUT, configure};
use crate::failure::{Context, FAULT, Failure};
use crate::modules::Modules;

const NEAR: (&str, Ipv4Addr) = ("eth0", Ipv4Addr::new(10, 47, 0, 1));
const FAR: (&str, Ipv4Addr) = ("eth1", Ipv4Addr::new(10, 47, 0, 2));
/// The longest wait for a reply.
const PERIOD: Nanos = Nanos::from_millis(10);
/// The longest IPv4 datagram.
const DATAGRAM_LEN: usize = 65_535;
/// For a datagram in its many packets, as the kernel accounts them.
const BUFFER_LEN: u32 = 1 << 20;
const IDENTIFIER: u16 = 0xCA4D;

const PLACE: &str = "flood ping";
const REMEDY: &str = "check the network cards of the machine";

/// A flood ping that runs.
pub(crate) struct FloodPing {
    thread: JoinHandle<Result<(), Failure>>,
    is_over: Arc<AtomicBool>,
    replies: Arc<AtomicU64>,
    /// Lives as long as the ping.
    _far: Namespace,
}

impl FloodPing {
    /// Starts it with so many bytes of data; returns when the first reply has come.
    pub(crate) fn start(netlink: &mut Netlink, data_len: u16) -> Result<Self, Failure> {
        Modules::read()?.load("e1000")?;
        let most = DATAGRAM_LEN - 20 - HEADER_LEN;
        let data_len = Some(usize::from(data_len)).filter(|&len| len <= most);
        let data_len = data_len.ok_or_else(|| {
            Failure::new(PLACE, "more data than a datagram can contain", "use at most 65,507 bytes")
        })?;
        let far = far_side(netlink)?;
        configure(netlink, NEAR)?;
        let (is_over, replies) = (Arc::default(), Arc::default());
        let (is_over_too, replies_too) = (Arc::clone(&is_over), Arc::clone(&replies));
        let thread = thread::Builder::new()
            .name("ping".into())
            .spawn(move || flood(data_len, &is_over_too, &replies_too))
            .at(PLACE, FAULT)?;
        let ping = Self { thread, is_over, replies, _far: far };
        let end = clock::now::<Monotonic>() + LINK_TIMEOUT;
        while ping.replies.load(Ordering::Relaxed) == 0 && !ping.thread.is_finished() {
            if clock::now::<Monotonic>() > end {
                return Err(Failure::new(PLACE, "no reply arrives", REMEDY));
            }
            clock::sleep_until(clock::now::<Monotonic>() + PERIOD).at(PLACE, FAULT)?;
        }
        Ok(ping)
    }

    /// Ends it; returns how many replies have come.
    pub(crate) fn stop(self) -> Result<u64, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure::new(PLACE, "it panicked", FAULT))??;
        Ok(self.replies.load(Ordering::Relaxed))
    }
}

/// Makes the other namespace and sets its card up.
fn far_side(netlink: &mut Netlink) -> Result<Namespace, Failure> {
    thread::scope(|scope| {
        let (made, is_made) = std::sync::mpsc::sync_channel(1);
        let (moved, is_moved) = std::sync::mpsc::sync_channel(1);
        let far = scope.spawn(move || -> Result<(), Failure> {
            let namespace = Namespace::unshare().at(PLACE, FAULT)?;
            let mut netlink = Netlink::open().at(PLACE, FAULT)?;
            let gone = |_| Failure::new(PLACE, "the set-up was given up", REMEDY);
            made.send(namespace).map_err(|error| gone(error.to_string()))?;
            is_moved.recv().map_err(|error| gone(error.to_string()))?;
            configure(&mut netlink, FAR)
        });
        let panicked = |_| Err(Failure::new(PLACE, "the set-up panicked", FAULT));
        let Ok(namespace) = is_made.recv() else {
            far.join().unwrap_or_else(panicked)?;
            return Err(Failure::new(PLACE, "the namespace is missing", REMEDY));
        };
        netlink.move_to(FAR.0, &namespace).at(PLACE, REMEDY)?;
        let _ = moved.send(());
        far.join().unwrap_or_else(panicked)?;
        Ok(namespace)
    })
}

fn flood(data_len: usize, is_over: &AtomicBool, replies: &AtomicU64) -> Result<(), Failure> {
    let socket = Socket::open().at(PLACE, REMEDY)?;
    socket.set_buffers(BUFFER_LEN).at(PLACE, REMEDY)?;
    socket.set_blocking(false).at(PLACE, REMEDY)?;
    // Always the same request: only how many come back counts.
    let message = request(IDENTIFIER, 0, data_len);
    let mut buffer = vec![0; DATAGRAM_LEN];
    while !is_over.load(Ordering::Relaxed) {
        // A full queue is a lost request like any other.
        let _ = socket.send(FAR.1, &message).at(PLACE, REMEDY)?;
        if !poll::wait(&socket, Interest::Read, Some(PERIOD)).at(PLACE, FAULT)? {
            continue;
        }
        while let Some(received) = socket.receive(&mut buffer).at(PLACE, REMEDY)? {
            if received.is_some_and(|reply| reply.identifier == IDENTIFIER) {
                replies.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}
