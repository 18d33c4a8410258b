//! Forking and reaping. For programs, `std::process` is better; this is for a closure that is to
//! run in a process of its own.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use libc::{c_int, pid_t};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::io::Errno as RawErrno;
use rustix::process::{Pid, Signal};

use crate::clock::Usage;
use crate::error::check;
use crate::{Errno, Error};

/// A process that was forked. Dropping the value does not end it.
#[derive(Debug)]
#[must_use]
pub struct Child {
    id: u32,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub id: u32,
    /// Its exit status, or the signal that ended it.
    pub status: Result<i32, i32>,
    /// What it used.
    pub usage: Usage,
}

/// The exit status of a closure that panicked, as of a Rust program.
const PANICKED: c_int = 101;

/// Runs `body` in a new process, a copy of this one, which ends with the status that it returns.
///
/// Only a process with a single thread may fork: another thread could hold a lock, of the allocator
/// for instance, which nobody would ever release in the copy. Takes `/proc`.
///
/// # Errors
/// There is more than one thread, or the kernel has no room for a process.
pub fn fork(body: impl FnOnce() -> i32) -> Result<Child, Error> {
    let fail = |reason: String| {
        Error::other("fork", "", reason).with_remedy("fork before threads are started")
    };
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|error| Error::other("fork", "", format!("/proc/self/task: {error}")))?
        .count();
    if threads != 1 {
        return Err(fail(format!("this process has {threads} threads")));
    }
    // SAFETY: this is the only thread, so that everything in the copy is in the state that it has
    // here, and only this thread could start another one.
    match check(unsafe { libc::fork() }) {
        Ok(0) => {
            let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
            // SAFETY: ends the process. What the parent has to tidy up is the parent's.
            unsafe { libc::_exit(status) }
        }
        Ok(id) => Ok(Child { id: id.unsigned_abs() }),
        Err(errno) => Err(Error::new("fork", "", errno)
            .remedy_if(libc::EAGAIN, "too many processes; see `ulimit -u`")),
    }
}

impl Child {
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Ends it at once (SIGKILL). It still has to be waited for.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn kill(&self) -> Result<(), Error> {
        // The number is that of our child, which keeps it until it is reaped.
        Pid::from_raw(self.id as pid_t)
            .ok_or(RawErrno::SRCH)
            .and_then(|id| rustix::process::kill_process(id, Signal::KILL))
            .map_err(|errno| Error::new("end process", self.id.to_string(), errno.into()))
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// Somebody else has waited for it, see [`reap`].
    pub fn wait(self) -> Result<Exit, Error> {
        reaped(self.id as pid_t, 0)?
            .ok_or_else(|| Error::new("wait for process", self.id.to_string(), Errno(libc::ECHILD)))
    }
}

/// Fetches a child that has ended, whoever started it; the first process of a system also inherits
/// those whose parents have ended. `None` if none has ended, or there are none.
///
/// # Errors
/// The kernel refuses.
pub fn reap() -> Result<Option<Exit>, Error> {
    reaped(-1, libc::WNOHANG)
}

/// Whether there is a process of that number, in the PID namespace of this one. Takes `/proc`.
#[must_use]
pub fn is_alive(process: u32) -> bool {
    fs::exists(format!("/proc/{process}/stat")).unwrap_or(false)
}

/// Gives up all rights of this process and goes on as the user and group of that number, without
/// further groups. There is no way back: it is for a process that was forked for this.
///
/// # Errors
/// No permission, or the user namespace of this process has no such user.
pub fn become_user(user: u32) -> Result<(), Error> {
    let fail = |errno: nix::errno::Errno| {
        let error = Error::new("become user", user.to_string(), errno.into());
        error.remedy_if(libc::EPERM, "this needs root")
    };
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    // By the C library, which changes all threads: the kernel knows users of threads only. Groups first: the
    // user may not change them.
    setgroups(&[]).map_err(fail)?;
    setresgid(gid, gid, gid).map_err(fail)?;
    setresuid(uid, uid, uid).map_err(fail)
}

/// Lets the program that `command` starts end with the thread that starts it, however that one ends
/// (`PR_SET_PDEATHSIG` with SIGKILL): a process that is killed cannot end its children itself. If the
/// thread has ended before the program began, the program does not begin.
pub fn ends_with_parent(command: &mut Command) {
    ends_with(command, std::process::id());
}

fn ends_with(command: &mut Command, parent: u32) {
    let parent = Pid::from_raw(parent as pid_t);
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != parent {
            // Who ended before that tells nobody any more.
            return Err(RawErrno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls, and does not allocate.
    unsafe { command.pre_exec(ask) };
}

fn reaped(process: pid_t, flags: c_int) -> Result<Option<Exit>, Error> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let id = loop {
        // SAFETY: `status` and `usage` can be written.
        let result = check(unsafe { libc::wait4(process, &mut status, flags, usage.as_mut_ptr()) });
        match result {
            Ok(0) | Err(Errno(libc::ECHILD)) => return Ok(None),
            Ok(id) => break id,
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(Error::new("wait for", "a process", errno)),
        }
    };
    // SAFETY: zeroes are valid, and the kernel has written it.
    let usage = unsafe { usage.assume_init() };
    let status = if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(libc::WTERMSIG(status))
    };
    Ok(Some(Exit { id: id.unsigned_abs(), status, usage: Usage::from_kernel(&usage) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test harness has threads of its own.
    #[test]
    fn a_process_with_threads_does_not_fork() {
        let running = std::thread::spawn(|| fork(|| 0));
        let error = running.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
    }

    /// The parent that is waited for is not the one that there is: as if it had ended in between.
    #[test]
    fn a_program_whose_parent_has_ended_does_not_begin() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("candor-test-{}-began", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&file);
        ends_with(&mut command, std::process::id() + 1);
        let error = command.spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        assert!(!file.exists());
        let mut command = Command::new("true");
        ends_with_parent(&mut command);
        assert!(command.status().unwrap().success());
    }
}
