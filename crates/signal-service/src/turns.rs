//! [`Turns`]: what takes longer is done in slices, in turns with everything else on the event loop.

use std::sync::Arc;

use candor_events::{Hub, Steps};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

use crate::Shared;

/// How much is done at once without a turn. Most calls need less: tens of microseconds.
const FIRST: u64 = 500;
/// How much is done in a turn: below a millisecond.
const SLICE: u64 = 10_000;

/// What longer works share.
pub(crate) struct Turns {
    slice: Semaphore,
    /// Who gathers a long answer, which takes memory.
    answer: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { slice: Semaphore::new(1), answer: Arc::new(Semaphore::new(1)) }
    }
}

impl Shared {
    /// Does something in slices, until it returns something. The hub is locked in each of them. Between two of them, whoever
    /// makes them, the event loop does everything else that there is.
    pub(crate) async fn in_slices<T>(
        &self,
        mut go_on: impl FnMut(&mut Hub, &mut Steps) -> Option<T>,
    ) -> T {
        let mut steps = Steps::new(FIRST);
        if let Some(outcome) = go_on(&mut self.hub(), &mut steps) {
            return outcome;
        }
        self.in_turns(go_on).await
    }

    /// The same with a turn for the first slice, too.
    pub(crate) async fn in_turns<T>(
        &self,
        mut go_on: impl FnMut(&mut Hub, &mut Steps) -> Option<T>,
    ) -> T {
        loop {
            let slice = || go_on(&mut self.hub(), &mut Steps::new(SLICE));
            if let Some(outcome) = self.in_turn(slice).await {
                return outcome;
            }
        }
    }

    /// Does something in a turn that takes as long as a slice.
    pub(crate) async fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        // Whoever waits for it longest is next. It is never closed.
        let turn = self.turns.slice.acquire().await;
        let outcome = work();
        self.let_others().await;
        drop(turn);
        outcome
    }

    /// Lets the event loop look at all sockets and timers.
    async fn let_others(&self) {
        let here = Handle::try_current().map(|here| here.id());
        match self.reactor.get() {
            // Another thread would have the lock again before the event loop wakes up.
            Some(reactor) if here.is_ok_and(|here| here != reactor.id()) => {
                let _ = reactor.spawn(yield_now()).await;
            }
            _ => yield_now().await,
        }
    }

    /// The turn to gather a long answer, until it is dropped. `None` while the service ends.
    pub(crate) async fn answer_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns.answer).acquire_owned().await.ok()
    }
}
