//! How many clients there are, and which of them gives way to a new one.
//!
//! There is room for a number of clients. If one more comes, the one that has been due to give way for the longest time
//! does so: nothing was done for it for long enough, or it never had an answer and did not ask soon enough. Until one
//! is due the new one waits, but not longer than it takes any client to be. So clients that hold connections, or make
//! connections and ask nothing, keep nobody out: who asks at once is answered before it is its turn to give way. If
//! something is done for all clients again and again, the new one is turned away.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_linux::{clock, limits};
use candor_time::{Monotonic, Nanos};
use tokio::sync::Notify;

use crate::listen::{Listener, Taking};
use crate::stream::Stream;

/// How long to wait if the kernel has nothing left for one more client.
const PAUSE: Duration = Duration::from_millis(100);

/// What a descriptor is kept with, so that a client can be taken when there is no other one.
const NOTHING: &str = "/dev/null";

/// How long the event loop gets to look at what has come: its shortest time.
const LOOK: Duration = Duration::from_millis(1);

/// Of so many clients, for how many there is room: at most half of the descriptors that the process may have are for them,
/// since it needs some itself.
pub(crate) fn most(clients: usize) -> usize {
    clients.min(limits::most_files().map_or(usize::MAX, |most| (most / 2).max(1)))
}

/// How many clients there may be, and which of them give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Clients at once.
    pub clients: usize,
    /// For how long nothing was done for a client that gives way to a new one if there is no room.
    pub gives_way: Nanos,
    /// The same of a client that never had an answer: so soon it has to ask, counted from when it got its place. What
    /// it sent before that time is read first.
    pub asks_within: Nanos,
}

/// What is done for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    /// Nothing since then: it asks nothing. Whether it had an answer before.
    Silent { since: u64, again: bool },
    /// Something, however long it takes.
    Busy,
    /// Since then there is an answer that it has to take.
    Sending { since: u64 },
    /// It is somebody else's now.
    Kept,
}

#[derive(Debug)]
struct ClientStatus {
    phase: Mutex<ClientPhase>,
    displaced: Notify,
}

impl ClientStatus {
    fn phase(&self) -> MutexGuard<'_, ClientPhase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From when on it gives way to a new client; `None` while something is done for it.
    fn due(&self, room: Room) -> Option<u64> {
        let (since, timeout) = match *self.phase() {
            ClientPhase::Silent { since, again: false } => (since, room.asks_within),
            ClientPhase::Silent { since, again: true } | ClientPhase::Sending { since } => {
                (since, room.gives_way)
            }
            ClientPhase::Busy | ClientPhase::Kept => return None,
        };
        Some(since.saturating_add(timeout.as_nanos()))
    }

    /// For how long nothing has been done; `None` if something is.
    fn idle(&self, now: u64) -> Option<u64> {
        match *self.phase() {
            ClientPhase::Silent { since, .. } | ClientPhase::Sending { since } => {
                Some(now.saturating_sub(since))
            }
            ClientPhase::Busy | ClientPhase::Kept => None,
        }
    }
}

/// The clients of a listener.
#[derive(Debug)]
struct Register {
    room: Room,
    open: Mutex<BTreeMap<u64, Arc<ClientStatus>>>,
    last: AtomicU64,
    left: Notify,
}

/// A client's place, free again when all copies are dropped.
#[derive(Debug)]
struct Place {
    register: Arc<Register>,
    number: u64,
    status: Arc<ClientStatus>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.register.open().remove(&self.number);
        self.register.left.notify_one();
    }
}

#[derive(Clone, Debug)]
pub struct Client(Arc<Place>);

/// Whether there is room.
enum Vacancy {
    Free,
    /// In so long perhaps.
    Wait(u64),
    /// One would give way, if what has come from it in the meantime were looked at first.
    Look,
}

impl Register {
    fn new(room: Room) -> Arc<Self> {
        let room = Room { clients: most(room.clients), ..room };
        let (open, left) = (Mutex::default(), Notify::new());
        Arc::new(Self { room, open, last: AtomicU64::new(0), left })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientStatus>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `looked`: what came from clients before this instant has been read.
    fn vacancy(&self, now: u64, looked: u64) -> Vacancy {
        let mut open = self.open();
        if open.len() < self.room.clients {
            return Vacancy::Free;
        }
        let due = open.iter().map(|(&number, status)| (number, status.due(self.room)));
        match first_due(due) {
            None => Vacancy::Wait(self.room.gives_way.as_nanos()),
            Some((number, due)) if due <= looked => {
                if let Some(status) = open.remove(&number) {
                    status.displaced.notify_one();
                }
                Vacancy::Free
            }
            Some((_, due)) if due <= now => Vacancy::Look,
            Some((_, due)) => Vacancy::Wait(due - now),
        }
    }

    /// Waits until there is room, if there can be some. `full_since`: since when there was none for anybody.
    async fn has_room(&self, full_since: &mut Option<u64>, looked: &mut u64) -> bool {
        loop {
            let now = now();
            match self.vacancy(now, *looked) {
                Vacancy::Free => {
                    *full_since = None;
                    return true;
                }
                // Whoever asks nothing would have given way: something is done for all of them.
                Vacancy::Wait(_) if full_since.is_some_and(|since| self.was_full_long(since)) => {
                    return false;
                }
                // On a loaded machine a request may have come long ago, and nobody gives way because nobody looked.
                // After its timers the event loop asks the kernel once more, and runs the tasks that have something
                // to read before it comes back here.
                Vacancy::Look => {
                    tokio::time::sleep(LOOK).await;
                    tokio::task::yield_now().await;
                    *looked = now;
                }
                Vacancy::Wait(time) => {
                    full_since.get_or_insert(now);
                    let left = self.left.notified();
                    let _ = tokio::time::timeout(Duration::from_nanos(time), left).await;
                }
            }
        }
    }

    /// Lets the client that is due first give way, whatever room there is. False if none is due.
    fn make_way(&self, now: u64) -> bool {
        let mut open = self.open();
        let due = open.iter().map(|(&number, status)| (number, status.due(self.room)));
        let Some((number, _)) = first_due(due).filter(|(_, due)| *due <= now) else { return false };
        if let Some(status) = open.remove(&number) {
            status.displaced.notify_one();
        }
        true
    }

    fn was_full_long(&self, since: u64) -> bool {
        now().saturating_sub(since) >= 2 * self.room.gives_way.as_nanos()
    }

    fn enter(self: &Arc<Self>) -> Client {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let phase = Mutex::new(ClientPhase::Silent { since: now(), again: false });
        let status = Arc::new(ClientStatus { phase, displaced: Notify::new() });
        self.open().insert(number, Arc::clone(&status));
        Client(Arc::new(Place { register: Arc::clone(self), number, status }))
    }
}

/// Of clients with the instant from which on they give way, the one with the first.
fn first_due(due: impl Iterator<Item = (u64, Option<u64>)>) -> Option<(u64, u64)> {
    due.filter_map(|(number, due)| Some((number, due?))).min_by_key(|&(_, due)| due)
}

fn now() -> u64 {
    clock::now::<Monotonic>().as_nanos()
}

/// Takes clients, for ever. Each is served by a task of its own.
pub(crate) async fn take<F: Future<Output = ()> + Send + 'static>(
    listener: Listener,
    room: Room,
    serve: impl Fn(Stream, Client) -> F,
    turned_away: &[u8],
) {
    let Ok(mut listener) = Taking::new(listener) else { return };
    let register = Register::new(room);
    let (mut full_since, mut looked) = (None, 0);
    let mut spare = File::open(NOTHING).ok();
    loop {
        match listener.take().await {
            Ok(stream) if register.has_room(&mut full_since, &mut looked).await => {
                tokio::spawn(serve(stream, register.enter()));
            }
            Ok(stream) => stream.dismiss(turned_away).await,
            // The next client has the descriptor that was kept for that.
            Err(error) if limits::are_too_many_files(&error) && spare.take().is_some() => continue,
            Err(error) => {
                // Those who ask nothing do not keep out who asks.
                if limits::are_too_many_files(&error) {
                    register.make_way(now());
                }
                // It has gone away, too many files are open, or there is no memory: later perhaps.
                tokio::time::sleep(PAUSE).await;
            }
        }
        spare = spare.or_else(|| File::open(NOTHING).ok());
    }
}

impl Client {
    /// The only one there is.
    pub(crate) fn only(room: Room) -> Self {
        Register::new(room).enter()
    }

    /// It gives way to nobody from now on, such as after an upgrade. It has its place as long as its connection.
    pub fn keep(&self) {
        *self.0.status.phase() = ClientPhase::Kept;
    }

    fn turn(&self, next: impl FnOnce(ClientPhase) -> ClientPhase) {
        let mut phase = self.0.status.phase();
        if *phase != ClientPhase::Kept {
            *phase = next(*phase);
        }
    }

    /// Something is being done for it.
    pub(crate) fn busy(&self) {
        self.turn(|_| ClientPhase::Busy);
    }

    /// There is an answer.
    pub(crate) fn answered(&self) {
        self.turn(|_| ClientPhase::Sending { since: now() });
    }

    /// All that it asked for is done.
    pub(crate) fn rests(&self) {
        self.turn(|phase| match phase {
            ClientPhase::Silent { .. } => phase,
            _ => ClientPhase::Silent { since: now(), again: true },
        });
    }

    /// What there was to send it has taken.
    pub(crate) fn sent(&self) {
        self.turn(|phase| match phase {
            ClientPhase::Sending { .. } => ClientPhase::Silent { since: now(), again: true },
            other => other,
        });
    }

    pub(crate) fn asks_nothing(&self) -> bool {
        matches!(*self.0.status.phase(), ClientPhase::Silent { .. })
    }

    /// Whether it never had an answer, and nothing was done for one.
    pub(crate) fn had_nothing(&self) -> bool {
        matches!(*self.0.status.phase(), ClientPhase::Silent { again: false, .. })
    }

    /// Waits until it has to give way.
    pub(crate) async fn displaced(&self) {
        self.0.status.displaced.notified().await;
    }

    /// Waits until nothing was done for it for so long.
    pub(crate) async fn overdue(&self, timeout: Nanos) {
        let timeout = timeout.as_nanos();
        loop {
            let left = match self.0.status.idle(now()) {
                Some(idle) if idle >= timeout => return,
                Some(idle) => timeout - idle,
                None => timeout,
            };
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_due_first_gives_way() {
        for (due, expected) in [
            (&[][..], None),
            (&[(1, Some(5))], Some((1, 5))),
            (&[(1, Some(5)), (2, Some(3)), (3, Some(7))], Some((2, 3))),
            // What is busy stays, whatever the time.
            (&[(1, None)], None),
            (&[(1, None), (2, Some(90))], Some((2, 90))),
        ] {
            assert_eq!(first_due(due.iter().copied()), expected, "{due:?}");
        }
    }

    #[test]
    fn who_never_had_an_answer_is_due_sooner() {
        let room = Room {
            clients: 1,
            gives_way: Nanos::from_nanos(1_000),
            asks_within: Nanos::from_nanos(50),
        };
        for (phase, due) in [
            (ClientPhase::Silent { since: 7, again: false }, Some(57)),
            (ClientPhase::Silent { since: 7, again: true }, Some(1_007)),
            (ClientPhase::Sending { since: 7 }, Some(1_007)),
            (ClientPhase::Busy, None),
            (ClientPhase::Kept, None),
        ] {
            let register = Register::new(room);
            let client = register.enter();
            *client.0.status.phase() = phase;
            assert_eq!(client.0.status.due(room), due, "{phase:?}");
            let Some(due) = due else { continue };
            // Not before it is due, and then what came before that is read first.
            assert!(matches!(register.vacancy(due - 3, 0), Vacancy::Wait(3)), "{phase:?}");
            assert!(matches!(register.vacancy(due, due - 1), Vacancy::Look), "{phase:?}");
            assert!(matches!(register.vacancy(due, due), Vacancy::Free), "{phase:?}");
        }
    }

    #[test]
    fn what_was_done_decides_who_is_idle() {
        let room = Room { clients: 2, gives_way: Nanos::ZERO, asks_within: Nanos::ZERO };
        let register = Register::new(room);
        let vacancy = || register.vacancy(now(), now());
        let (one, two) = (register.enter(), register.enter());
        assert!(one.had_nothing() && one.asks_nothing());
        one.rests();
        assert!(one.had_nothing(), "what came was no request yet");
        one.busy();
        one.sent();
        assert!(!one.asks_nothing(), "only an answer is sent");
        one.answered();
        one.sent();
        assert!(one.asks_nothing() && !one.had_nothing());
        // Nobody displaces what was taken over, and it has its place until the end.
        one.keep();
        one.answered();
        two.busy();
        assert!(matches!(vacancy(), Vacancy::Wait(_)));
        two.answered();
        assert!(matches!(vacancy(), Vacancy::Free), "the second gives way");
        let third = register.enter();
        third.busy();
        assert!(matches!(vacancy(), Vacancy::Wait(_)));
        drop(one);
        assert!(matches!(vacancy(), Vacancy::Free));
    }
}
