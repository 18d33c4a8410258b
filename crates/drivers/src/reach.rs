//! [`Reach`]: whether a half of a port over UDP can work in the network as it is now, and what makes
//! it work again.
//!
//! Interfaces go down, get another name, or are deleted and made anew, and addresses come and go. A
//! socket that is bound to an address, or to none, works again by itself when the address is back. What
//! does not is what depends on the index of an interface: where groups are joined and sent to. So each half
//! has a function that does what is to be done, and says why nothing can come or leave:
//!
//! - The half that receives calls it each second, for both halves.
//! - The half that transmits calls it when a datagram is refused.
//!
//! It needs nobody who follows the interfaces, so it is the same in a gateway and in a tool.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candor_linux::udp::{self, Via};
use candor_linux::{Errno, clock, interface_index};
use candor_port::Trouble;
use candor_time::{Instant, Monotonic, Nanos};

/// How often to look.
pub(super) const EVERY: Nanos = Nanos::from_secs(1);
/// How long not to look again after a datagram was refused.
const PAUSE: Nanos = Nanos::from_millis(100);
/// A group is joined anew after so many looks, whatever they say: the routes, or an interface that is
/// named by its address, may be others in a way that nothing tells.
const LOOKS: u32 = 10;
/// The index of the loopback interface in each network namespace.
const LOOPBACK: Via = Via::Interface(1);

/// Does what is to be done, or says why nothing can come or leave.
type Mend = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A half of a port, as the network sees it.
pub(super) struct Reach {
    trouble: Trouble,
    /// Datagrams are refused, for a reason that looking does not tell.
    is_refused: AtomicBool,
    state: Mutex<State>,
}

struct State {
    mend: Mend,
    /// When to look again after a refusal.
    next: Instant<Monotonic>,
}

impl Reach {
    pub(super) fn new(
        trouble: Trouble,
        mend: impl FnMut() -> Result<(), String> + Send + 'static,
    ) -> Arc<Self> {
        let state = State { mend: Box::new(mend), next: Instant::ZERO };
        Arc::new(Self { trouble, is_refused: AtomicBool::new(false), state: Mutex::new(state) })
    }

    /// Does what is to be done. False if it cannot work now.
    pub(super) fn look(&self) -> bool {
        self.look_with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn look_with(&self, state: &mut State) -> bool {
        match (state.mend)() {
            Ok(()) => {
                if !self.is_refused.load(Ordering::Relaxed) {
                    self.trouble.clear();
                }
                true
            }
            Err(reason) => {
                // What was not known is known now.
                self.is_refused.store(false, Ordering::Relaxed);
                self.trouble.set(reason);
                false
            }
        }
    }

    /// A datagram was refused. True if it is worth another attempt.
    pub(super) fn retry(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now::<Monotonic>();
        if now < state.next {
            return false;
        }
        state.next = now + PAUSE;
        self.look_with(&mut state)
    }

    /// A datagram was refused again.
    pub(super) fn refused(&self, to: SocketAddr, error: &candor_linux::Error) {
        if !self.trouble.is_there() {
            self.is_refused.store(true, Ordering::Relaxed);
            self.trouble.set(format!("cannot send to {to}: {error}"));
        }
    }

    /// A datagram left.
    #[inline]
    pub(super) fn sent(&self) {
        if self.is_refused.load(Ordering::Relaxed) {
            self.is_refused.store(false, Ordering::Relaxed);
            self.trouble.clear();
        }
    }
}

/// Whether an address that a socket is bound to is of this machine now.
pub(super) fn is_here(address: SocketAddr) -> Result<(), String> {
    let ip = address.ip();
    let is_any = ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST;
    match is_any || udp::is_local(address) != Ok(false) {
        true => Ok(()),
        false => Err(format!(
            "cannot use the address {ip}: no interface of this machine has it now; list the addresses \
             with `ip address`"
        )),
    }
}

/// Whether there is a way to an address, from a socket at another one.
pub(super) fn is_way(from: SocketAddr, to: SocketAddr) -> Result<(), String> {
    is_here(from)?;
    match udp::source(to, Via::Routes) {
        Err(error) if !is_unknown(&error) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Whether the kernel does not say for now: too many files are open, or there is no memory. That is no
/// reason to believe that anything has changed.
fn is_unknown(error: &candor_linux::Error) -> bool {
    let name = error.errno().and_then(Errno::name);
    matches!(name, Some("EMFILE" | "ENOMEM" | "ENOBUFS"))
}

// ---- Groups -------------------------------------------------------------------------------------

/// A group, by an interface that a name tells.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) address: SocketAddr,
    /// The name of an interface, or its address; else the routes decide.
    pub(super) interface: Option<String>,
}

impl Group {
    /// By which interface its datagrams come and go now.
    pub(super) fn via(&self) -> Result<Via, candor_linux::Error> {
        let Some(interface) = &self.interface else { return Ok(Via::Routes) };
        match interface.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(Via::Address(ip)),
            Err(_) => interface_index(interface).map(Via::Interface),
        }
    }

    /// The same with the address that datagrams to the group leave from, or why none can; nothing if
    /// the kernel does not say.
    fn way(&self) -> Result<Option<(Via, IpAddr)>, String> {
        let via = match self.via() {
            Ok(via) => via,
            Err(error) if is_unknown(&error) => return Ok(None),
            Err(error) => return Err(self.fail(error)),
        };
        let source = match udp::source(self.address, via) {
            Ok(source) => source,
            Err(error) if is_unknown(&error) => return Ok(None),
            Err(error) => return Err(self.fail(error)),
        };
        // The loopback interface does without.
        if source.is_unspecified() && via != LOOPBACK {
            let reason = "the interface has no IPv4 address; give it one with `ip address add`";
            return Err(self.fail(reason));
        }
        Ok(Some((via, source)))
    }

    fn fail(&self, reason: impl fmt::Display) -> String {
        format!("cannot use the group {}: {reason}", self.address.ip())
    }

    /// Lets a socket send to it by the interface as it is now.
    pub(super) fn direct(&self, socket: &UdpSocket, hop_limit: u8) -> Result<(), String> {
        let Some((via, _)) = self.way()? else { return Ok(()) };
        udp::set_multicast(socket, self.address.ip(), via, hop_limit)
            .map_err(|error| self.fail(error))
    }
}

/// That this machine is in a group.
///
/// A socket of its own has joined, not the one that receives: that one has whatever comes for the
/// group. So joining anew leaves nothing behind of an interface that is gone, and there is no time in
/// between in which nothing comes.
pub(super) struct Membership {
    group: Group,
    joined: Option<Joined>,
}

struct Joined {
    _socket: UdpSocket,
    way: Option<(Via, IpAddr)>,
    looks: u32,
}

impl Membership {
    /// Joins.
    pub(super) fn new(group: Group, via: Via) -> Result<Self, candor_linux::Error> {
        let joined = join(&group, via)?;
        Ok(Self { group, joined: Some(joined) })
    }

    /// Joins anew if anything is not as it was.
    pub(super) fn mend(&mut self) -> Result<(), String> {
        let way = match self.group.way() {
            Ok(Some(way)) => way,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.joined = None;
                return Err(reason);
            }
        };
        if let Some(joined) = &mut self.joined {
            joined.looks += 1;
            if joined.way == Some(way) && joined.looks < LOOKS {
                return Ok(());
            }
        }
        // The earlier one leaves after that.
        self.joined = match join(&self.group, way.0) {
            Ok(joined) => Some(Joined { way: Some(way), ..joined }),
            Err(error) if is_unknown(&error) => return Ok(()),
            Err(error) => {
                self.joined = None;
                return Err(self.group.fail(error));
            }
        };
        Ok(())
    }
}

fn join(group: &Group, via: Via) -> Result<Joined, candor_linux::Error> {
    let socket = udp::bind(udp::any(group.address.ip()))?;
    udp::join(&socket, group.address.ip(), via)?;
    Ok(Joined { _socket: socket, way: None, looks: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looking_does_not_tell_ends_when_a_datagram_leaves() {
        let trouble = Trouble::default();
        let outcome = Arc::new(Mutex::new(Ok::<(), String>(())));
        let other = Arc::clone(&outcome);
        let reach = Reach::new(trouble.clone(), move || other.lock().unwrap().clone());
        let to: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let error = udp::bind("198.51.100.7:0".parse().unwrap()).unwrap_err();
        assert!(reach.retry() && !reach.retry(), "not again so soon");
        reach.refused(to, &error);
        assert!(trouble.get().unwrap().starts_with("cannot send to 192.0.2.1:9: cannot bind"));
        assert!(reach.look() && trouble.get().is_some());
        reach.sent();
        assert_eq!(trouble.get(), None);
        // What looking tells ends when it is over.
        *outcome.lock().unwrap() = Err("it is away".into());
        assert!(!reach.look());
        reach.refused(to, &error);
        assert_eq!(trouble.get().as_deref(), Some("it is away"));
        *outcome.lock().unwrap() = Ok(());
        assert!(reach.look());
        assert_eq!(trouble.get(), None);
    }

    #[test]
    fn addresses_and_ways_are_looked_for() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for here in ["127.0.0.1:9", "0.0.0.0:9", "[::]:9", "239.1.2.3:9", "255.255.255.255:9"] {
            assert_eq!(is_here(at(here)), Ok(()), "{here}");
        }
        assert!(is_here(at("198.51.100.7:9")).unwrap_err().contains("`ip address`"));
        assert_eq!(is_way(at("0.0.0.0:9"), at("127.0.0.1:9")), Ok(()));
        assert!(is_way(at("198.51.100.7:9"), at("127.0.0.1:9")).is_err());
    }
}
