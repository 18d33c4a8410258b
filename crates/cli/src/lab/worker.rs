//! `candor lab worker`: a process of the testbed `host`. Nobody calls it but `candor lab run`.

use crate::Answer;

/// Does what the order on standard input says.
pub(super) fn worker() -> Answer {
    candor_lab::kinds::work()?;
    Ok(true)
}
