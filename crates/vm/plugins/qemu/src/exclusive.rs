//! [`Exclusive`]: a value of a static that one call at a time may change.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

/// A value that one call at a time may change. QEMU calls a library from one thread at a time, under its lock; a call
/// that comes within another one, or beside it, ends QEMU instead of getting a second reference.
pub struct Exclusive<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lends the value to one call at a time, on whichever thread.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Nobody has it.
    pub const fn new(value: T) -> Self {
        Self { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Lends it.
    ///
    /// # Panics
    /// It is lent already.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.is_taken.swap(true, Acquire), "two calls at a time");
        // SAFETY: who sets the flag has the value until it clears it, and the reference ends with `body`.
        let result = body(unsafe { &mut *self.value.get() });
        self.is_taken.store(false, Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::thread;

    use super::*;

    #[test]
    fn a_call_within_a_call_gets_nothing() {
        let value = Exclusive::new(1);
        value.with(|value| *value += 1);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            value.with(|outer| value.with(|inner| *inner += *outer));
        }));
        assert!(outcome.is_err());
    }

    #[test]
    fn a_call_beside_a_call_gets_nothing() {
        let value = Exclusive::new(1);
        let refused = AtomicU32::new(0);
        value.with(|first| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let second = AssertUnwindSafe(|| value.with(|second| *second += 1));
                    refused.store(catch_unwind(second).is_err().into(), SeqCst);
                });
            });
            *first += 1;
        });
        assert_eq!(refused.load(SeqCst), 1);
        assert_eq!(value.with(|value| *value), 2);
    }
}
