//! The handles that are open. Their numbers are never used again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::bus::Bus;

static OPEN: RwLock<BTreeMap<usize, Arc<Bus>>> = RwLock::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The number of a new handle.
pub(crate) fn add(bus: Bus) -> usize {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OPEN.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(bus));
    number
}

/// The bus of a handle that is open.
pub(crate) fn find(number: usize) -> Option<Arc<Bus>> {
    OPEN.read().unwrap_or_else(PoisonError::into_inner).get(&number).map(Arc::clone)
}

/// Forgets a handle.
pub(crate) fn remove(number: usize) -> Option<Arc<Bus>> {
    OPEN.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
}
