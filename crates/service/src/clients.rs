//! How many clients there are, and which of them gives way to a new one.
//!
//! There is room for a number of clients. If one more comes, the one for which nothing was done for the longest time
//! gives way, once that is long enough; until then the new one waits, but not longer than it takes any client to be
//! idle for so long. So clients that hold connections, or make
//! connections and ask nothing, keep nobody out: who asks at once is answered before it is its turn to give way. If
//! something is done for all clients again and again, the new one is turned away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use candor_linux::clock;
use candor_time::{Monotonic, Nanos};
use tokio::sync::Notify;

use crate::listen::{Listener, Taking};
use crate::stream::Stream;

/// How long to wait if the kernel has nothing left for one more client.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the event loop gets to look at what has come: its shortest time.
const LOOK: Duration = Duration::from_millis(1);

/// How many clients there may be, and which of them give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Clients at once.
    pub clients: usize,
    /// For how long nothing was done for a client that gives way to a new one if there is no room.
    pub gives_way: Nanos,
}

/// What is done for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
struct Status {
    phase: Mutex<Phase>,
    displaced: Notify,
}

impl Status {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long nothing has been done; `None` if something is.
    fn idle(&self, now: u64) -> Option<u64> {
        match *self.phase() {
            Phase::Silent { since, .. } | Phase::Sending { since } => {
                Some(now.saturating_sub(since))
            }
            Phase::Busy | Phase::Kept => None,
        }
    }
}

/// The clients of a listener.
#[derive(Debug)]
struct Register {
    room: Room,
    open: Mutex<BTreeMap<u64, Arc<Status>>>,
    last: AtomicU64,
    left: Notify,
}

/// A client's place, free again when all copies are dropped.
#[derive(Debug)]
struct Place {
    register: Arc<Register>,
    number: u64,
    status: Arc<Status>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.register.open().remove(&self.number);
        self.register.left.notify_one();
    }
}

/// A client that has its place.
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
        let (open, left) = (Mutex::default(), Notify::new());
        Arc::new(Self { room, open, last: AtomicU64::new(0), left })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Status>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `has_looked`: what has come from clients is known.
    fn vacancy(&self, has_looked: bool) -> Vacancy {
        let mut open = self.open();
        if open.len() < self.room.clients {
            return Vacancy::Free;
        }
        let now = now();
        let idle = open.iter().map(|(&number, status)| (number, status.idle(now)));
        match longest_idle(idle) {
            None => Vacancy::Wait(self.room.gives_way.as_nanos()),
            Some((_, idle)) if idle >= self.room.gives_way.as_nanos() && !has_looked => {
                Vacancy::Look
            }
            Some((number, idle)) if idle >= self.room.gives_way.as_nanos() => {
                if let Some(status) = open.remove(&number) {
                    status.displaced.notify_one();
                }
                Vacancy::Free
            }
            Some((_, idle)) => Vacancy::Wait(self.room.gives_way.as_nanos() - idle),
        }
    }

    /// Waits until there is room, if there can be some. `full_since`: since when there was none for anybody.
    async fn has_room(&self, full_since: &mut Option<u64>) -> bool {
        let mut has_looked = false;
        loop {
            match self.vacancy(has_looked) {
                Vacancy::Free => {
                    *full_since = None;
                    return true;
                }
                // Whoever asks nothing would have given way: something is done for all of them.
                Vacancy::Wait(_) if full_since.is_some_and(|since| self.was_full_long(since)) => {
                    return false;
                }
                // The event loop reads what can be read before its timers: on a loaded machine a request may have
                // come long ago, and nobody gives way because nobody looked.
                Vacancy::Look => {
                    tokio::time::sleep(LOOK).await;
                    has_looked = true;
                }
                Vacancy::Wait(time) => {
                    has_looked = false;
                    full_since.get_or_insert_with(now);
                    let left = self.left.notified();
                    let _ = tokio::time::timeout(Duration::from_nanos(time), left).await;
                }
            }
        }
    }

    fn was_full_long(&self, since: u64) -> bool {
        now().saturating_sub(since) >= 2 * self.room.gives_way.as_nanos()
    }

    fn enter(self: &Arc<Self>) -> Client {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let phase = Mutex::new(Phase::Silent { since: now(), again: false });
        let status = Arc::new(Status { phase, displaced: Notify::new() });
        self.open().insert(number, Arc::clone(&status));
        Client(Arc::new(Place { register: Arc::clone(self), number, status }))
    }
}

/// Of clients with the time for which nothing was done for them, the one with the longest.
fn longest_idle(idle: impl Iterator<Item = (u64, Option<u64>)>) -> Option<(u64, u64)> {
    idle.filter_map(|(number, idle)| Some((number, idle?))).max_by_key(|&(_, idle)| idle)
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
    let mut full_since = None;
    loop {
        match listener.take().await {
            Ok(stream) if register.has_room(&mut full_since).await => {
                tokio::spawn(serve(stream, register.enter()));
            }
            Ok(stream) => stream.dismiss(turned_away).await,
            // It has gone away, too many files are open, or there is no memory: later perhaps.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Client {
    /// The only one there is.
    pub(crate) fn only(room: Room) -> Self {
        Register::new(room).enter()
    }

    /// It gives way to nobody from now on, such as after an upgrade. It has its place as long as its connection.
    pub fn keep(&self) {
        *self.0.status.phase() = Phase::Kept;
    }

    fn turn(&self, next: impl FnOnce(Phase) -> Phase) {
        let mut phase = self.0.status.phase();
        if *phase != Phase::Kept {
            *phase = next(*phase);
        }
    }

    /// Something is being done for it.
    pub(crate) fn busy(&self) {
        self.turn(|_| Phase::Busy);
    }

    /// There is an answer.
    pub(crate) fn answered(&self) {
        self.turn(|_| Phase::Sending { since: now() });
    }

    /// All that it asked for is done.
    pub(crate) fn rests(&self) {
        self.turn(|_| Phase::Silent { since: now(), again: true });
    }

    /// What there was to send it has taken.
    pub(crate) fn sent(&self) {
        self.turn(|phase| match phase {
            Phase::Sending { .. } => Phase::Silent { since: now(), again: true },
            other => other,
        });
    }

    pub(crate) fn asks_nothing(&self) -> bool {
        matches!(*self.0.status.phase(), Phase::Silent { .. })
    }

    /// Whether it never had an answer, and nothing was done for one.
    pub(crate) fn had_nothing(&self) -> bool {
        matches!(*self.0.status.phase(), Phase::Silent { again: false, .. })
    }

    /// Waits until it has to give way.
    pub(crate) async fn displaced(&self) {
        self.0.status.displaced.notified().await;
    }

    /// Waits until nothing was done for it for so long.
    pub(crate) async fn overdue(&self, patience: Nanos) {
        let patience = patience.as_nanos();
        loop {
            let left = match self.0.status.idle(now()) {
                Some(idle) if idle >= patience => return,
                Some(idle) => patience - idle,
                None => patience,
            };
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_idle_longest_gives_way() {
        for (idle, expected) in [
            (&[][..], None),
            (&[(1, Some(5))], Some((1, 5))),
            (&[(1, Some(5)), (2, Some(90)), (3, Some(7))], Some((2, 90))),
            // What is busy stays, whatever the time.
            (&[(1, None)], None),
            (&[(1, None), (2, Some(0))], Some((2, 0))),
        ] {
            assert_eq!(longest_idle(idle.iter().copied()), expected, "{idle:?}");
        }
    }

    #[test]
    fn what_was_done_decides_who_is_idle() {
        let room = Room { clients: 2, gives_way: Nanos::ZERO };
        let register = Register::new(room);
        let (one, two) = (register.enter(), register.enter());
        assert!(one.had_nothing() && one.asks_nothing());
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
        assert!(matches!(register.vacancy(true), Vacancy::Wait(_)));
        two.answered();
        assert!(matches!(register.vacancy(true), Vacancy::Free), "the second gives way");
        let third = register.enter();
        third.busy();
        assert!(matches!(register.vacancy(true), Vacancy::Wait(_)));
        drop(one);
        assert!(matches!(register.vacancy(true), Vacancy::Free));
    }
}
