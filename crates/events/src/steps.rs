//! [`Steps`]: how much of a longer work is done at once.

/// How much of a longer work is done at once, while the hub is locked, in steps of some tens of nanoseconds: a comparison of a
/// glob with a name, an entry in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps(u64);

impl Steps {
    /// As many as the work needs.
    #[must_use]
    pub const fn all() -> Self {
        Self(u64::MAX)
    }

    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Something takes so many of them. Whether there was one left.
    pub const fn spend(&mut self, count: u64) -> bool {
        let was_left = self.0 > 0;
        self.0 = self.0.saturating_sub(count);
        was_left
    }

    /// Whether the rest has to wait.
    pub(crate) const fn are_over(self) -> bool {
        self.0 == 0
    }
}
