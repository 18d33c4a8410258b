//! The limits of a process (`setrlimit(2)`, `ulimit`): what to do so that one that is reached is an error and not the end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;

use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Error, unfinished};

/// Lets the process live with its limits. To be called first of all.
///
/// # Errors
/// The kernel refuses.
pub fn live_with() -> Result<(), Error> {
    share_arena();
    explain_exhaustion()?;
    survive_file_size()
}

/// Whether an allocation may fail: the addresses of the process are limited, or its memory is locked, for which there is a
/// limit, too. Elsewhere the kernel promises more than it has.
#[must_use]
pub fn memory_is_limited() -> bool {
    let is_locked = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        status.lines().any(|line| line.starts_with("VmLck:") && !line.ends_with(" 0 kB"))
    };
    getrlimit(Resource::As).current.is_some() || is_locked()
}

/// How many files the process may have open at once; `None` if that has no limit.
#[must_use]
pub fn most_files() -> Option<usize> {
    getrlimit(Resource::Nofile).current.map(|most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Lets the process have as many files open as it may ask for (the hard limit, `ulimit -Hn`): for a service, whose clients
/// are files. The usual limit of 1,024 is for programs that use `select(2)`.
///
/// # Errors
/// The kernel refuses.
pub fn allow_most_files() -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .map_err(|errno| Error::new("raise", "the limit of open files", errno.into()))
}

/// Whether an error says that the process, or the machine, can have no more files open.
#[must_use]
pub fn are_too_many_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Resident memory of this process in bytes: at present, and at its most.
///
/// # Errors
/// `/proc` is not mounted.
pub fn resident_bytes() -> Result<(usize, usize), Error> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| Error::other("read", "/proc/self/status", error.to_string()))?;
    let kilobytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()
    };
    let bytes = |key| kilobytes(key).unwrap_or_default() << 10;
    Ok((bytes("VmRSS:"), bytes("VmHWM:")))
}

thread_local! {
    /// The size of what this thread could not allocate last; 0 if it never happened.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// The allocator of the system, which notes what it cannot give: so that [`live_with`] can say why a process ends.
#[derive(Debug)]
pub struct Allocator;

/// Notes it if there is no memory of that size.
fn noted(place: *mut u8, size: usize) -> *mut u8 {
    if place.is_null() {
        REFUSED.set(size);
    }
    place
}

// SAFETY: all of it is what the system's allocator does; a number is noted beside, which allocates nothing.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is passed on.
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same.
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the same.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the same.
        noted(unsafe { System.realloc(place, layout, size) }, size)
    }
}

/// From now on, a process that aborts since there is no more memory ends with exit code 2 and says what to do; by default,
/// SIGABRT kills it. It needs [`Allocator`] as the allocator of the program.
///
/// # Errors
/// The kernel refuses.
fn explain_exhaustion() -> Result<(), Error> {
    extern "C" fn explain(_: libc::c_int) {
        if REFUSED.get() == 0 {
            // Another reason, or somebody sent it, such as systemd's watchdog: the default is back, and this comes when the
            // handler returns.
            // SAFETY: it may be called in a handler.
            unsafe { libc::raise(libc::SIGABRT) };
            return;
        }
        unfinished::remove();
        let words = b"candor: the process gets no more memory; raise its limit (`ulimit -v`), with --lock-memory \
            also `ulimit -l`, or give it less to do\n";
        // SAFETY: both functions may be called in a handler (`signal-safety(7)`), and the bytes are there.
        unsafe {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
            libc::_exit(2);
        }
    }
    let flags = SaFlags::SA_RESETHAND;
    let action = SigAction::new(SigHandler::Handler(explain), flags, SigSet::empty());
    // SAFETY: the handler does only what a handler may do.
    unsafe { signal::sigaction(Signal::SIGABRT, &action) }
        .map(drop)
        .map_err(|errno| Error::new("handle", "an abort", errno.into()))
}

/// Where the addresses of the process are limited (`ulimit -v`), all its threads allocate from one arena.
///
/// By default glibc reserves 64 MiB of addresses for each thread that allocates. A thread for which that fails has no arena
/// from then on: each of its allocations becomes a mapping of its own, a page at least, so that 1 MB of small pieces takes
/// 100 MB, until there are too many mappings (`arena_get2` and `sysmalloc` in `malloc/arena.c` and `malloc/malloc.c`).
#[cfg(target_env = "gnu")]
fn share_arena() {
    if getrlimit(Resource::As).current.is_some() {
        // SAFETY: no pointers; it may be called at any time.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

#[cfg(not(target_env = "gnu"))]
fn share_arena() {}

/// From now on, pieces of memory of 128 KiB and more go back to the system as soon as they are freed.
///
/// glibc begins with that, but then raises the limit to the size of the largest piece that was freed, up to 32 MiB
/// (`M_MMAP_THRESHOLD` in `mallopt(3)`). After that, many such pieces stay with the process when they are freed, below one that
/// is in use.
#[cfg(target_env = "gnu")]
pub fn give_back_large_pieces() {
    // SAFETY: no pointers; it may be called at any time.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) };
}

/// From now on, pieces of memory of 128 KiB and more go back to the system as soon as they are freed. Only glibc has to be told.
#[cfg(not(target_env = "gnu"))]
pub const fn give_back_large_pieces() {}

/// From now on, writing beyond the limit of file sizes (`ulimit -f`) fails with `EFBIG`; by default, `SIGXFSZ` ends the process
/// (`setrlimit(2)`). Programs that are started have the default back: `execve(2)` keeps what is ignored, but no handlers.
///
/// # Errors
/// The kernel refuses.
fn survive_file_size() -> Result<(), Error> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { signal::sigaction(Signal::SIGXFSZ, &action) }
        .map(drop)
        .map_err(|errno| Error::new("survive", "the limit of file sizes", errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_started_has_the_default_back() {
        use std::os::unix::process::ExitStatusExt;
        survive_file_size().unwrap();
        let folder = std::env::temp_dir().join(format!("candor-limit-{}", std::process::id()));
        // The shell itself writes too much.
        let script =
            "ulimit -f 1; while :; do echo 0123456789abcdef0123456789abcdef; done > \"$0\"";
        let status =
            std::process::Command::new("sh").args(["-c", script]).arg(&folder).status().unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(status.signal(), Some(libc::SIGXFSZ), "{status}");
    }
}
