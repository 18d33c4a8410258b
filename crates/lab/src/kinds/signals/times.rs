//! Times of a process, handed to another one as a file: of each event, in order of their numbers.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// The time of an event that never came.
pub(super) const NEVER: u64 = u64::MAX;

/// Writes times of the monotonic clock in ns.
pub(super) fn write(path: &Path, times_ns: &[u64]) -> Result<(), Error> {
    let bytes: Vec<u8> = times_ns.iter().flat_map(|time| time.to_le_bytes()).collect();
    fs::write(path, bytes).map_err(|error| Error::write(path, error))
}

/// Reads what [`write`] wrote.
pub(super) fn read(path: &Path) -> Result<Vec<u64>, Error> {
    let bytes = fs::read(path).map_err(|error| Error::read(path, error))?;
    let (times, _) = bytes.as_chunks::<8>();
    Ok(times.iter().map(|time| u64::from_le_bytes(*time)).collect())
}
