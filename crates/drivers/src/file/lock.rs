//! Locks of recordings (`flock`): what is written is written once, and not what is read.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The recordings that ports of this process write, by device and inode, and by how many.
static WRITTEN: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

type Identity = (u64, u64);

fn written() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(file: &File) -> io::Result<Identity> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// That a port of this process writes a recording.
pub(super) struct Claim(Identity);

impl Claim {
    /// Makes sure that nobody else uses the recording. Within the process, a port may be opened beside the one
    /// that it replaces; it has the lock when it writes, or does not write.
    pub(super) fn take(file: &File) -> io::Result<Self> {
        let identity = identity(file)?;
        let mut written = written();
        if !written.contains_key(&identity) {
            for_writing(file)?;
        }
        *written.entry(identity).or_default() += 1;
        Ok(Self(identity))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut written = written();
        if let Some(count) = written.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                written.remove(&self.0);
            }
        }
    }
}

/// Takes the lock of a recording: two that write would each destroy what the other one wrote.
pub(super) fn for_writing(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(ErrorKind::ResourceBusy, "another port or process uses it"))
        }
        // Some network disks have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Keeps a recording that is read from being written by a port, also under another name. What another process
/// writes may be read as far as it goes. What is no file has no lock.
pub(super) fn for_reading(path: &Path) -> Result<Option<File>, &'static str> {
    if !path.is_file() {
        return Ok(None);
    }
    // Whoever opens it to read says why it cannot be read.
    let Ok(file) = File::open(path) else { return Ok(None) };
    if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
        && identity(&file).is_ok_and(|identity| written().contains_key(&identity))
    {
        return Err("another port of this program writes this recording");
    }
    Ok(Some(file))
}
