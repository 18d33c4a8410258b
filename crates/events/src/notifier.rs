//! [`Notifier`]: tells a subscriber that there is something for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// No event.
const NONE: u64 = u64::MAX;

/// Tells a subscriber that there is something for it: [`Hub::notify`](crate::Hub::notify) wakes those for whom there is, and
/// nobody else.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<State>);

#[derive(Debug)]
struct State {
    /// The number of the first event for the subscriber that it has not looked at. Written with the hub locked.
    first: AtomicU64,
    /// It is to be notified.
    is_due: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Notifier {
    pub(crate) fn new() -> Self {
        let (first, is_due) = (AtomicU64::new(NONE), AtomicBool::new(false));
        Self(Arc::new(State { first, is_due, waker: Mutex::new(None) }))
    }

    /// Waits until there is something.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        {
            let mut waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
        }
        // What comes after this wakes it.
        if self.first().is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The number of the first event for the subscriber that it has not looked at; `None` if there is nothing for it.
    pub(crate) fn first(&self) -> Option<u64> {
        let first = self.0.first.load(Ordering::Relaxed);
        (first != NONE).then_some(first)
    }

    /// There is an event of this number. Whether the notifier is to be notified, which is said once until it is.
    pub(crate) fn note(&self, number: u64) -> bool {
        if self.first().is_some() {
            return false;
        }
        self.0.first.store(number, Ordering::Relaxed);
        !self.0.is_due.swap(true, Ordering::Relaxed)
    }

    /// The subscriber has looked at all there is.
    pub(crate) fn clear(&self) {
        self.0.first.store(NONE, Ordering::Relaxed);
    }

    pub(crate) fn notify(&self) {
        self.0.is_due.store(false, Ordering::Relaxed);
        let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }

    /// What it is found by among others.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
