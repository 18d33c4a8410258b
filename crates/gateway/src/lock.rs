//! [`lock`]: the contents of a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one whose holder panicked: each of them holds plain values, which are never half
/// changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
