//! [`Handover`]: what ports that are about to close leave to those that replace them.
//!
//! A local address belongs to one socket. If the port that has it is replaced by one with other
//! options, the new port takes the socket over: what has arrived and was not read stays in it, so
//! nothing is lost and nothing comes twice.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a port has of this machine that it can leave to another one: a socket, mostly. Which type it is
/// is known to the driver.
#[derive(Clone)]
pub struct Endpoint(Arc<dyn Any + Send + Sync>);

impl Endpoint {
    /// Leaves `resource`.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(resource: Arc<T>) -> Self {
        Self(resource)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint")
    }
}

/// What is left to new ports. Each thing goes to the first that asks for it.
#[derive(Debug, Default)]
pub struct Handover(Mutex<Vec<Endpoint>>);

impl Handover {
    /// Of ports that will not be used any more.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self(Mutex::new(endpoints))
    }

    /// Takes what is of this type and is the right one, if it is there.
    pub fn take<T: Any + Send + Sync>(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut endpoints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, found) = endpoints.iter().enumerate().find_map(|(place, Endpoint(it))| {
            let resource = Arc::clone(it).downcast::<T>().ok().filter(|it| is_it(it))?;
            Some((place, resource))
        })?;
        endpoints.swap_remove(place);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_goes_to_the_first_that_asks_for_it() {
        let left = [1_u32, 2].map(|number| Endpoint::new(Arc::new(number)));
        let handover = Handover::new(left.into());
        assert_eq!(handover.take(|_: &u64| true), None, "another type");
        assert_eq!(handover.take(|number: &u32| *number == 2).as_deref(), Some(&2));
        assert_eq!(handover.take(|number: &u32| *number == 2), None);
        assert_eq!(handover.take(|_: &u32| true).as_deref(), Some(&1));
    }
}
