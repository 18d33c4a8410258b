use core::cmp::Ordering;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Add, AddAssign, Sub};

use crate::Nanos;

/// A clock: where its zero lies and what drives it. Implemented by empty types that serve as tags.
pub trait Clock: 'static {
    /// The name shown in messages.
    const NAME: &'static str;
}

/// Simulated time: zero is the start of the simulation, only events advance it.
pub enum Virtual {}
impl Clock for Virtual {
    const NAME: &'static str = "virtual";
}

/// The clock of whoever made a recording: usually seconds since 1970, sometimes since power-on.
pub enum Recorded {}
impl Clock for Recorded {
    const NAME: &'static str = "recorded";
}

/// The time of this machine since power-on; nobody sets it (`CLOCK_MONOTONIC` of Linux).
pub enum Monotonic {}
impl Clock for Monotonic {
    const NAME: &'static str = "monotonic";
}

/// The time of this machine since 1970 (`CLOCK_REALTIME`): time stamps of received frames.
pub enum Realtime {}
impl Clock for Realtime {
    const NAME: &'static str = "realtime";
}

/// The clock of a controller, which stamps frames on its own.
pub enum Hardware {}
impl Clock for Hardware {
    const NAME: &'static str = "hardware";
}

/// A point in time of clock `C`, in nanoseconds since that clock's zero.
///
/// Nanoseconds in 64 bits last 584 years; the arithmetic saturates at both ends instead of
/// wrapping.
pub struct Instant<C: Clock> {
    nanos: u64,
    clock: PhantomData<fn() -> C>,
}

impl<C: Clock> Instant<C> {
    /// The clock's zero.
    pub const ZERO: Self = Self::from_nanos(0);

    /// The instant `nanos` nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos, clock: PhantomData }
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// The time from `earlier` to `self`, zero if `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The signed distance in nanoseconds from `other` to `self`, saturating at the ends of `i64`.
    #[must_use]
    pub fn signed_nanos_since(self, other: Self) -> i64 {
        let distance = i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(distance).unwrap_or(if distance < 0 { i64::MIN } else { i64::MAX })
    }
}

impl<C: Clock> Clone for Instant<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C: Clock> Copy for Instant<C> {}
impl<C: Clock> PartialEq for Instant<C> {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl<C: Clock> Eq for Instant<C> {}
impl<C: Clock> PartialOrd for Instant<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<C: Clock> Ord for Instant<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}
impl<C: Clock> Default for Instant<C> {
    fn default() -> Self {
        Self::ZERO
    }
}
impl<C: Clock> fmt::Debug for Instant<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}ns", C::NAME, self.nanos)
    }
}

impl<C: Clock> Add<Nanos> for Instant<C> {
    type Output = Self;
    fn add(self, duration: Nanos) -> Self {
        Self::from_nanos(self.nanos.saturating_add(duration.as_nanos()))
    }
}
impl<C: Clock> AddAssign<Nanos> for Instant<C> {
    fn add_assign(&mut self, duration: Nanos) {
        *self = *self + duration;
    }
}
/// Like [`Instant::since`]: zero if the right-hand side is later.
impl<C: Clock> Sub for Instant<C> {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_has_a_sign_only_when_asked_for() {
        let early: Instant<Virtual> = Instant::from_nanos(10);
        let late = Instant::from_nanos(25);
        assert_eq!(late - early, Nanos::from_nanos(15));
        assert_eq!(early - late, Nanos::ZERO);
        assert_eq!(early.signed_nanos_since(late), -15);
    }

    #[test]
    fn the_end_of_time_does_not_wrap() {
        let end: Instant<Virtual> = Instant::from_nanos(u64::MAX);
        assert_eq!(end + Nanos::from_nanos(1), end);
        assert_eq!(end.signed_nanos_since(Instant::ZERO), i64::MAX);
    }
}
