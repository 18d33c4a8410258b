//! The work of the drainer: it transmits what waits, and refuses what is stale.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_linux::clock;
use candor_port::{Sent, Transmitter};
use candor_queue::egress::Taken;
use candor_time::{Monotonic, Nanos};

use super::pace::Pace;
use super::waiting::Waiting;
use super::{CHUNK, Output, State};

enum Next {
    /// It looks once more.
    Again,
    /// It sends what was kept back.
    Flush,
    Transmit(Taken<Waiting>),
    /// Nothing waits.
    Rest,
}

impl Output {
    /// The work of the drainer, until [`Output::end`].
    pub(crate) fn drain(&self) {
        while let Some(transmitter) = self.wait_for_work() {
            self.empty(transmitter);
        }
        self.is_open.store(false, Ordering::Relaxed);
        let mut state = self.lock();
        while self.refuse_some(&mut state) {}
        let transmitter = state.transmitter.take();
        drop(state);
        // What it still keeps it counts as lost now.
        drop(transmitter);
    }

    /// Waits until frames wait for room, and returns the transmitter to be waited for; `None` at the
    /// end. Sends what was kept back when it is due.
    fn wait_for_work(&self) -> Option<Box<dyn Transmitter>> {
        let mut state = self.lock();
        loop {
            let now = clock::now::<Monotonic>();
            let is_ending = state.ends_at.is_some();
            if state.ends_at.is_some_and(|end| end <= now) {
                return None;
            }
            if state.is_waiting()
                && let Some(transmitter) = state.transmitter.take()
            {
                return Some(transmitter);
            }
            let due = state.flush_due;
            if due.is_some_and(|due| due <= now || is_ending) {
                state.flush();
            } else if is_ending {
                return None;
            } else {
                state = self.sleep(state, due.map(|due| due - now));
            }
        }
    }

    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        most: Option<Nanos>,
    ) -> MutexGuard<'a, State> {
        let Some(most) = most else {
            return self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let waited = self.work.wait_timeout(state, Duration::from_nanos(most.as_nanos()));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Transmits what waits, with the transmitter that the drainer has taken.
    fn empty(&self, mut transmitter: Box<dyn Transmitter>) {
        let mut pace = Pace::default();
        loop {
            let has_room = match self.next(&mut transmitter) {
                Next::Again => true,
                Next::Flush => {
                    let is_stuck = transmitter.flush() == Sent::Full;
                    self.lock().is_stuck = is_stuck;
                    !is_stuck
                }
                Next::Transmit(head) => self.transmit(&mut *transmitter, head),
                Next::Rest => {
                    let mut state = self.lock();
                    // Somebody may have come in between.
                    if !state.is_waiting() && state.successor.is_none() {
                        state.flush_due = transmitter.flush_due();
                        state.transmitter = Some(transmitter);
                        return;
                    }
                    true
                }
            };
            if has_room {
                pace.go_on();
            } else {
                let until = self.lock().queue.next_deadline();
                pace.wait(&mut *transmitter, until);
            }
        }
    }

    /// What to do next. Ends what may not wait any longer.
    fn next(&self, transmitter: &mut Box<dyn Transmitter>) -> Next {
        let mut state = self.lock();
        if let Some(successor) = state.successor.take() {
            state.is_stuck = false;
            drop(state);
            drop(std::mem::replace(transmitter, successor));
            return Next::Again;
        }
        if state.ends_at.is_some_and(|end| end <= clock::now::<Monotonic>()) {
            state.is_stuck = false;
            if self.refuse_some(&mut state) {
                return Next::Again;
            }
        }
        if self.expire_some(&mut state) {
            return Next::Again;
        }
        if state.is_stuck {
            return Next::Flush;
        }
        match state.queue.take() {
            Some(head) => Next::Transmit(head),
            None => Next::Rest,
        }
    }

    /// Refuses some of what has waited too long. Whether there may be more of it.
    fn expire_some(&self, state: &mut State) -> bool {
        if state.queue.next_deadline().is_none() {
            return false;
        }
        let now = clock::now::<Monotonic>().as_nanos();
        let mut expired = 0;
        while expired < CHUNK
            && let Some(waiting) = state.queue.pop_overdue(now)
        {
            waiting.settle(Outcome::Refused(Cause::Stale));
            expired += 1;
        }
        if expired > 0 {
            self.note_queued(state);
        }
        expired == CHUNK
    }

    /// Transmits the one whose turn it is. False if there is no room.
    fn transmit(&self, transmitter: &mut dyn Transmitter, head: Taken<Waiting>) -> bool {
        let outcome = match transmitter.transmit(&head.item.frame, head.item.echo) {
            Sent::Taken => Outcome::Handled,
            Sent::Full => {
                // Whoever comes meanwhile and is more urgent goes first.
                self.lock().queue.put_back(head);
                return false;
            }
            Sent::Down => Outcome::Refused(Cause::Down),
            Sent::Unsupported => Outcome::Refused(Cause::Unsupported),
        };
        head.item.settle(outcome);
        let mut state = self.lock();
        state.queue.give_up();
        self.note_queued(&state);
        true
    }
}
