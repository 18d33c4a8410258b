//! [`Watch`]: who is asked whether long work goes on.

/// Asked now and then whether to go on.
pub trait Watch: Sync {
    /// `false` interrupts.
    fn proceed(&self) -> bool;
    /// Something that people should know.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// Always goes on.
pub struct Unwatched;

impl Watch for Unwatched {
    fn proceed(&self) -> bool {
        true
    }
}
