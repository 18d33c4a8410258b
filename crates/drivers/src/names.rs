//! Hosts by name: looked up in threads of their own, so that a name server that does not answer holds nobody up for
//! longer than [`LIMIT`], and a tunnel at work not at all.
//!
//! ```text
//!  open, look_up -- ask --> a thread per name: getaddrinfo --> ANSWERS -- at most LIMIT --> the address
//!  Peer, of a tunnel at work: a thread asks every 60 s, and in doubt --> the address changes
//! ```

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_linux::{clock, scoped_address};
use candor_time::{Instant, Monotonic, Nanos};

/// How long somebody waits for an answer. Below a third of a usual watchdog (10 s).
const LIMIT: Nanos = Nanos::from_secs(3);
/// How long an answer holds for whoever opens a port: what was looked up before it is opened.
const FRESH: Nanos = Nanos::from_secs(10);
/// Look-ups at once. The C library may take a minute for each.
const MOST_AT_ONCE: usize = 64;
/// How often the name of a peer is looked up while its tunnel works.
const EVERY: Duration = Duration::from_secs(60);
/// The shortest time between two look-ups of a peer.
const PAUSE: Duration = Duration::from_secs(1);
/// What the C library needs for a look-up, with room.
const STACK: usize = 512 << 10;

/// The addresses of a host, or why there are none.
type Answer = Result<Vec<SocketAddr>, String>;

#[derive(Default)]
struct Known {
    answer: Option<(Answer, Instant<Monotonic>)>,
    is_asking: bool,
}

static ANSWERS: Mutex<BTreeMap<String, Known>> = Mutex::new(BTreeMap::new());
static ANSWERED: Condvar = Condvar::new();

fn answers() -> MutexGuard<'static, BTreeMap<String, Known>> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the address of `host:port`, as [`addresses`] does.
///
/// # Errors
/// The same.
pub(crate) fn resolve(place: &str) -> Result<SocketAddr, String> {
    let first =
        |found: Vec<SocketAddr>| found.first().copied().ok_or("it has no address".to_owned());
    addresses(place).and_then(first)
}

/// Waits for all addresses of `host:port`, 3 s at most. An answer of a moment ago will do.
///
/// # Errors
/// What is wrong, as half a sentence.
pub fn addresses(place: &str) -> Answer {
    let since = Instant::from_nanos(now().as_nanos().saturating_sub(FRESH.as_nanos()));
    wait(place, since, now() + LIMIT)
}

/// Looks hosts up anew, all at once, each as `host:port`: then [`resolve`] has their answers. Takes [`LIMIT`] at most.
pub(crate) fn look_up(places: &[String]) {
    let (start, until) = (now(), now() + LIMIT);
    let mut known = answers();
    for place in places {
        ask(&mut known, place);
    }
    drop(known);
    for place in places {
        // Whoever opens the port reports what is wrong.
        let _ = wait(place, start, until);
    }
}

fn now() -> Instant<Monotonic> {
    clock::now()
}

/// The answer to a question that was asked at `since` or later; asks if nobody has.
fn wait(place: &str, since: Instant<Monotonic>, until: Instant<Monotonic>) -> Answer {
    let mut known = answers();
    loop {
        if let Some((answer, at)) = known.get(place).and_then(|known| known.answer.as_ref())
            && *at >= since
        {
            return answer.clone();
        }
        let left = until.as_nanos().saturating_sub(now().as_nanos());
        if left == 0 {
            // Whoever opens the port next does not wait again; what comes later takes the place of this.
            let answer = Err(format!("no name server has answered within {LIMIT}"));
            known.entry(place.to_owned()).or_default().answer = Some((answer.clone(), now()));
            return answer;
        }
        if !ask(&mut known, place) {
            return Err("too many look-ups are under way; try again".to_owned());
        }
        let waited = ANSWERED.wait_timeout(known, Duration::from_nanos(left));
        known = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Begins a look-up, unless there is one. False if there are too many, or no thread can be started.
fn ask(known: &mut BTreeMap<String, Known>, place: &str) -> bool {
    if known.get(place).is_some_and(|known| known.is_asking) {
        return true;
    }
    let old = now().as_nanos().saturating_sub(FRESH.as_nanos());
    known.retain(|_, it| {
        it.is_asking || it.answer.as_ref().is_some_and(|(_, at)| at.as_nanos() >= old)
    });
    if known.values().filter(|known| known.is_asking).count() >= MOST_AT_ONCE {
        return false;
    }
    let name = place.to_owned();
    let look = move || {
        // The answer is as old as the question.
        let asked = now();
        let answer = found(&name);
        let mut known = answers();
        known.insert(name, Known { answer: Some((answer, asked)), is_asking: false });
        ANSWERED.notify_all();
    };
    let is_started = start("candor-name", look);
    if is_started {
        known.entry(place.to_owned()).or_default().is_asking = true;
    }
    is_started
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work).is_ok()
}

/// All addresses of a host. One that names its interface is looked up, too: the interface may come, and come anew.
fn found(place: &str) -> Result<Vec<SocketAddr>, String> {
    if let Some(address) = scoped_address(place) {
        return address.map(|address| vec![address]).map_err(|error| error.to_string());
    }
    place.to_socket_addrs().map(Iterator::collect).map_err(|error| error.to_string())
}

/// The other end of a tunnel at work. If it is known by name, that is looked up again and again, so the address
/// may change.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    state: Arc<State>,
    /// Whose end ends the thread that looks.
    end: Option<Arc<End>>,
    /// The address after so many changes.
    known: (u64, SocketAddr),
}

#[derive(Debug)]
struct State {
    address: Mutex<SocketAddr>,
    changes: AtomicU64,
    is_over: AtomicBool,
    is_in_doubt: Mutex<bool>,
    doubt: Condvar,
}

#[derive(Debug)]
struct End(Arc<State>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.doubt();
    }
}

impl State {
    fn doubt(&self) {
        *self.is_in_doubt.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.doubt.notify_all();
    }

    /// It stays where it is as long as that is one of its addresses. A socket has addresses of one kind.
    fn set(&self, found: &[SocketAddr]) {
        let mut address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        let new = found.iter().find(|new| new.is_ipv4() == address.is_ipv4());
        if let Some(new) = new.filter(|_| !found.contains(&address)) {
            *address = *new;
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Looks the name up every [`EVERY`], and in doubt, until the end.
    fn follow(&self, find: impl Fn() -> Result<Vec<SocketAddr>, String>) {
        loop {
            let is_in_doubt = self.is_in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.doubt.wait_timeout_while(is_in_doubt, EVERY, |doubt| !*doubt);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            if let Ok(found) = find() {
                self.set(&found);
            }
            // Doubts that come at once are of the old address.
            let is_in_doubt = self.is_in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = || self.is_over.load(Ordering::Relaxed);
            drop(self.doubt.wait_timeout_while(is_in_doubt, PAUSE, |_| !is_over()));
        }
    }
}

impl Peer {
    /// One with this address; `name` is its `host:port` if it is known by name.
    pub(crate) fn new(address: SocketAddr, name: Option<String>) -> Self {
        Self::with(address, name.map(|name| move || found(&name)))
    }

    fn with(
        address: SocketAddr,
        find: Option<impl Fn() -> Result<Vec<SocketAddr>, String> + Send + 'static>,
    ) -> Self {
        let state = Arc::new(State {
            address: Mutex::new(address),
            changes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_in_doubt: Mutex::new(false),
            doubt: Condvar::new(),
        });
        let end = find.and_then(|find| {
            let followed = Arc::clone(&state);
            // Without a thread it keeps its address.
            start("candor-peer", move || followed.follow(find))
                .then(|| Arc::new(End(Arc::clone(&state))))
        });
        Self { state, end, known: (0, address) }
    }

    /// Its address now.
    #[inline]
    pub(crate) fn address(&mut self) -> SocketAddr {
        let changes = self.state.changes.load(Ordering::Acquire);
        if changes != self.known.0 {
            let address = self.state.address.lock().unwrap_or_else(PoisonError::into_inner);
            self.known = (changes, *address);
        }
        self.known.1
    }

    /// It does not answer, so it may be elsewhere: its name is looked up soon. Does not wait.
    pub(crate) fn doubt(&self) {
        if self.end.is_some() {
            self.state.doubt();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn names_are_found_or_not() {
        look_up(&["localhost:7".to_owned(), "no-such-host.invalid:7".to_owned()]);
        let known = answers();
        assert!(known.get("localhost:7").is_some());
        drop(known);
        assert!(resolve("localhost:7").unwrap().ip().is_loopback());
        assert!(addresses("localhost:7").unwrap().iter().all(|address| address.ip().is_loopback()));
        assert!(resolve("no-such-host.invalid:7").is_err());
    }

    #[test]
    fn nobody_waits_for_a_look_up_that_does_not_end() {
        answers().insert("mute:1".to_owned(), Known { answer: None, is_asking: true });
        let (start, limit) = (now(), Nanos::from_millis(50));
        let answer = wait("mute:1", start, start + limit);
        assert!(answer.unwrap_err().starts_with("no name server has answered"));
        assert!(now() - start >= limit);
        // Who opens the port after that has the same answer at once.
        assert_eq!(addresses("mute:1"), wait("mute:1", start, start));
    }

    #[test]
    fn a_peer_follows_its_name_in_doubt() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (asked, asks) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let find = move || {
            let _ = asked.send(());
            told.recv().unwrap_or(Err("over".to_owned()))
        };
        let mut peer = Peer::with(at(1), Some(find));
        peer.doubt();
        asks.recv().unwrap();
        assert_eq!(peer.address(), at(1), "until there is an answer");
        tell.send(Ok(vec!["[::1]:9".parse().unwrap(), at(2), at(3)])).unwrap();
        peer.doubt();
        asks.recv().unwrap();
        assert_eq!(peer.address(), at(2));
        tell.send(Ok(vec![at(3), at(2)])).unwrap();
        peer.doubt();
        asks.recv().unwrap();
        assert_eq!(peer.address(), at(2), "one of its addresses");
        tell.send(Err("no answer".to_owned())).unwrap();
        peer.doubt();
        asks.recv().unwrap();
        assert_eq!(peer.address(), at(2), "it stays where it was");
        tell.send(Ok(vec![at(2)])).unwrap();
        drop(peer);
        assert!(asks.recv().is_err(), "the thread ends with the peer");
    }
}
