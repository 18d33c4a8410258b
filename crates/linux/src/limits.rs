//! The limits of a process (`setrlimit(2)`, `ulimit`): what to do so that one that is reached is an error and not the end.

use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal};

use crate::Error;

/// Lets the process live with its limits. To be called first of all.
///
/// # Errors
/// The kernel refuses.
pub fn live_with() -> Result<(), Error> {
    share_arena();
    survive_file_size()
}

/// Where the addresses of the process are limited (`ulimit -v`), all its threads allocate from one arena.
///
/// By default glibc reserves 64 MiB of addresses for each thread that allocates. A thread for which that fails has no arena
/// from then on: each of its allocations becomes a mapping of its own, a page at least, so that 1 MB of small pieces takes
/// 100 MB, until there are too many mappings (`arena_get2` and `sysmalloc` in `malloc/arena.c` and `malloc/malloc.c`).
#[cfg(target_env = "gnu")]
fn share_arena() {
    use rustix::process::{Resource, getrlimit};

    if getrlimit(Resource::As).current.is_some() {
        // SAFETY: no pointers; it may be called at any time.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

#[cfg(not(target_env = "gnu"))]
fn share_arena() {}

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
