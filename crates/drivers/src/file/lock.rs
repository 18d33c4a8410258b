//! Locks of recordings (`flock`): what is written is written once, and not what is read.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The recordings that ports of this process write, by device and inode.
static WRITTEN: Mutex<BTreeMap<Identity, Ports>> = Mutex::new(BTreeMap::new());

type Identity = (u64, u64);

/// The ports that write a recording.
#[derive(Default)]
struct Ports {
    all: usize,
    /// Those of them whose first write will replace what is there.
    replacing: usize,
}

fn written() -> MutexGuard<'static, BTreeMap<Identity, Ports>> {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(file: &File) -> io::Result<Identity> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// That a port of this process writes a recording.
pub(super) struct Claim {
    identity: Identity,
    is_replacing: bool,
}

impl Claim {
    /// Makes sure that nobody else uses the recording, whose contents the first write may replace. Within the
    /// process, a port may be opened beside the one that it replaces; it has the lock when it writes, or does not
    /// write.
    pub(super) fn take(file: &File, is_replacing: bool) -> io::Result<Self> {
        let identity = identity(file)?;
        let mut written = written();
        if !written.contains_key(&identity) {
            for_writing(file)?;
        }
        let ports = written.entry(identity).or_default();
        ports.all += 1;
        ports.replacing += usize::from(is_replacing);
        Ok(Self { identity, is_replacing })
    }

    pub(super) fn replaced(&mut self) {
        let was_replacing = std::mem::take(&mut self.is_replacing);
        if let Some(ports) = written().get_mut(&self.identity) {
            ports.replacing -= usize::from(was_replacing);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.replaced();
        let mut written = written();
        if let Some(ports) = written.get_mut(&self.identity) {
            ports.all -= 1;
            if ports.all == 0 {
                written.remove(&self.identity);
            }
        }
    }
}

/// Whether a port of this process writes the recording at this path. What is no file has no lock.
pub(super) fn is_written(path: &Path) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|it| !it.is_file() || written().contains_key(&(it.dev(), it.ino())))
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

/// Keeps a recording that is read from being replaced by a port, also under another name. What is being written may be
/// read as far as it goes. What is no file has no lock.
pub(super) fn for_reading(path: &Path) -> Result<Option<File>, &'static str> {
    if !path.is_file() {
        return Ok(None);
    }
    // Whoever opens it to read says why it cannot be read.
    let Ok(file) = candor_linux::file::open_at_once(path) else { return Ok(None) };
    if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
        && identity(&file)
            .is_ok_and(|identity| written().get(&identity).is_some_and(|ports| ports.replacing > 0))
    {
        return Err("another port of this program is about to replace this recording");
    }
    Ok(Some(file))
}
