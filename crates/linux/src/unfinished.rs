//! Files that nobody is to find when a signal has ended the process: they are removed first.
//!
//! A handler may neither allocate nor wait for a lock (`signal-safety(7)`). So what it needs is ready before: the paths, in
//! a table of pointers. Whoever takes a pointer out of it, the handler or who has finished the file, owns the path.

use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::Error;
use crate::signal::{Signal, handle};

/// How many files are known at most; those beyond stay.
const MOST: usize = 256;

static PATHS: [AtomicPtr<c_char>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];
/// The process whose files they are: one that it forks has the table, too.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// A file that a signal removes, as long as this lives.
#[derive(Debug)]
pub struct Unfinished {
    place: usize,
    /// Another file may have the place when a signal has taken this one.
    path: *mut c_char,
}

// SAFETY: the pointer is only compared until the path is taken out of the table, which one thread can do.
unsafe impl Send for Unfinished {}
// SAFETY: the same; a shared reference does nothing.
unsafe impl Sync for Unfinished {}

impl Unfinished {
    /// The file at `path`, which is made now. `None` if there are too many, or the path cannot be one.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let absolute = std::path::absolute(path).ok()?;
        let path = CString::new(absolute.into_os_string().into_vec()).ok()?.into_raw();
        let is_free = |place: &AtomicPtr<c_char>| {
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            place.compare_exchange(ptr::null_mut(), path, success, failure).is_ok()
        };
        let place = PATHS.iter().position(is_free);
        if place.is_none() {
            // SAFETY: it is of `into_raw`, and in no table.
            drop(unsafe { CString::from_raw(path) });
        }
        place.map(|place| Self { place, path })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let taken =
            PATHS[self.place].compare_exchange(self.path, ptr::null_mut(), success, failure);
        if let Ok(path) = taken {
            // SAFETY: it is of `into_raw`, and nobody else has taken it.
            drop(unsafe { CString::from_raw(path) });
        }
    }
}

/// From now on, every [`Signal`] removes the unfinished files of this process before it ends it. One that is
/// ignored stays so, as under `nohup`. Programs that are started have the default back (`execve(2)`).
///
/// # Errors
/// The kernel refuses.
pub fn remove_at_signals() -> Result<(), Error> {
    OWNER.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: the handler does only what a handler may do.
    Signal::ALL.into_iter().try_for_each(|signal| unsafe { handle(signal, remove_and_end) })
}

extern "C" fn remove_and_end(signal: c_int) {
    remove();
    // SAFETY: both functions may be called in a handler. The signal is blocked until it returns, and ends the process then.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Removes the unfinished files of this process. A handler may call it.
pub fn remove() {
    // SAFETY: it may be called in a handler, and cannot fail.
    let process = unsafe { libc::getpid() };
    if OWNER.load(Ordering::Relaxed) != process.unsigned_abs() {
        return;
    }
    for place in &PATHS {
        let path = place.swap(ptr::null_mut(), Ordering::AcqRel);
        if !path.is_null() {
            // SAFETY: it ends with a zero, and stays: the process ends. `unlink(2)` may be called in a handler.
            unsafe { libc::unlink(path) };
        }
    }
}

/// The unfinished files of this process, which from now on stay when a signal ends it.
#[must_use]
pub fn keep() -> Vec<PathBuf> {
    let taken = PATHS.iter().map(|place| place.swap(ptr::null_mut(), Ordering::AcqRel));
    taken
        .filter(|path| !path.is_null())
        .map(|path| {
            // SAFETY: it is of `into_raw`, and nobody else has taken it.
            let path = unsafe { CString::from_raw(path) };
            PathBuf::from(OsStr::from_bytes(path.as_bytes()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test for all: there is one table.
    #[test]
    fn files_are_known_until_they_are_finished_or_taken() {
        let path = |number: usize| PathBuf::from(format!("/nowhere/{number}"));
        let mut files: Vec<_> =
            (0..MOST).map(|number| Unfinished::new(&path(number)).unwrap()).collect();
        assert!(Unfinished::new(&path(MOST)).is_none(), "there is no room");
        files.remove(7);
        let again = Unfinished::new(&path(7)).unwrap();
        let kept = keep();
        assert_eq!(kept, (0..MOST).map(path).collect::<Vec<_>>());
        let next = Unfinished::new(&path(0)).unwrap();
        // Those that were taken leave the place to who has it now.
        drop((files, again));
        assert_eq!(keep(), [path(0)]);
        drop(next);
        assert!(keep().is_empty());
    }
}
