//! Scheduling, memory locking, affinity, and finding the tasks that they are for.
//!
//! ```text
//!  comm of a kernel thread     what it does
//!  irq/22-can2                 the interrupt 22 of can2 (-rt, or `threadirqs`)
//!  napi/eth0-8193              NAPI of eth0, if it is threaded
//!  ksoftirqd/0                 soft interrupts of CPU 0 that were too many
//! ```

use std::fs;
use std::path::Path;

use std::num::NonZero;

use candor_time::Nanos;
use libc::{c_int, pid_t};
use rustix::mm::{self, Advice, MlockAllFlags};
use rustix::process::Pid;
use rustix::thread::{self, CpuSet};

use crate::error::check;
use crate::{Errno, Error};

/// Which task: a process or a thread, which Linux schedules alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The calling thread.
    This,
    /// The thread with this number; that of a process is its main thread.
    Id(u32),
}

impl Task {
    fn id(self) -> Result<pid_t, Errno> {
        match self {
            Self::This => Ok(0),
            // 0 stands for the calling thread, and is nobody's number.
            Self::Id(id) => pid_t::try_from(id).ok().filter(|&id| id > 0).ok_or(Errno(libc::ESRCH)),
        }
    }

    /// As rustix names it: the calling thread is nobody.
    fn pid(self) -> Result<Option<Pid>, Errno> {
        Ok(Pid::from_raw(self.id()?))
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::This => f.write_str("this thread"),
            Self::Id(id) => write!(f, "task {id}"),
        }
    }
}

/// How a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fairly, among all ordinary ones.
    Other,
    /// Before all ordinary ones and those of lower priority, 1 to 99, until it waits.
    Fifo(u8),
    /// Like [`Policy::Fifo`], but taking turns with those of the same priority.
    RoundRobin(u8),
    /// Fairly, but never before the end of somebody else's turn.
    Batch,
    /// Only while nobody else wants the processor.
    Idle,
}

/// Schedules `task` by `policy`.
///
/// # Errors
/// No permission, no such task, a priority that is not 1 to 99.
pub fn set_policy(task: Task, policy: Policy) -> Result<(), Error> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameters = SchedParam { priority: c_int::from(priority) };
    task.id()
        .and_then(|id| {
            // SAFETY: `parameters` can be read.
            check(unsafe {
                libc::syscall(libc::SYS_sched_setscheduler, id, number, &raw const parameters)
            })
        })
        .map(drop)
        .map_err(|errno| {
            Error::new("set the scheduling of", task.to_string(), errno)
                .remedy_if(libc::EPERM, "this needs root, CAP_SYS_NICE, or `ulimit -r`")
                .remedy_if(libc::EINVAL, "real-time priorities are 1 to 99")
        })
}

/// `struct sched_param` of the kernel (`include/uapi/linux/sched/types.h`).
///
/// The calls around it are made of the kernel and not of the C library: musl refuses them, since what POSIX asks for is
/// about processes and what Linux does about threads.
#[repr(C)]
struct SchedParam {
    priority: c_int,
}

/// The number of the calling thread.
#[must_use]
pub fn this_thread() -> u32 {
    thread::gettid().as_raw_pid().unsigned_abs()
}

/// How much of each processor real-time threads may use (`sched(7)`). From Linux 6.12 on, those that use more are stopped
/// only if others want the processor (fair server, `kernel/sched/deadline.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// So long.
    pub runtime: Nanos,
    /// In so long.
    pub period: Nanos,
}

impl Throttling {
    /// What the kernel says now; `None`: there is no limit, or `/proc` is not mounted.
    #[must_use]
    pub fn of_the_kernel() -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        Self::parse(&read("sched_rt_runtime_us")?, &read("sched_rt_period_us")?)
    }

    fn parse(runtime_us: &str, period_us: &str) -> Option<Self> {
        // Negative is no limit.
        let duration = |text: &str| text.trim().parse().ok().map(Nanos::from_micros);
        let (runtime, period) = (duration(runtime_us)?, duration(period_us)?);
        (runtime < period).then_some(Self { runtime, period })
    }

    /// Whether a thread is stopped, or would be, that used a processor for `used` of `time`. A hundredth is left for what
    /// delays the measurement; in less than a period nothing can be said.
    #[must_use]
    pub fn stops(self, used: Nanos, time: Nanos) -> bool {
        let [used, time] = [used, time].map(|it| u128::from(it.as_nanos()));
        let [runtime, period] = [self.runtime, self.period].map(|it| u128::from(it.as_nanos()));
        time >= period && (used + time / 100) * period >= runtime * time
    }
}

/// How `task` is scheduled.
///
/// # Errors
/// There is no such task.
pub fn policy(task: Task) -> Result<Policy, Error> {
    let fail = |errno| Error::new("read the scheduling of", task.to_string(), errno);
    let id = task.id().map_err(fail)?;
    // SAFETY: no pointers.
    let number = check(unsafe { libc::syscall(libc::SYS_sched_getscheduler, id) }).map_err(fail)?;
    let number = c_int::try_from(number).unwrap_or(libc::SCHED_OTHER);
    let mut parameters = SchedParam { priority: 0 };
    // SAFETY: `parameters` can be written.
    check(unsafe { libc::syscall(libc::SYS_sched_getparam, id, &raw mut parameters) })
        .map_err(fail)?;
    let priority = u8::try_from(parameters.priority).unwrap_or(0);
    Ok(match number & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_FIFO => Policy::Fifo(priority),
        libc::SCHED_RR => Policy::RoundRobin(priority),
        libc::SCHED_BATCH => Policy::Batch,
        libc::SCHED_IDLE => Policy::Idle,
        _ => Policy::Other,
    })
}

/// Keeps all memory of the process, present and future, in RAM: no page is fetched when it is
/// needed.
///
/// # Errors
/// More than an ordinary user may lock.
pub fn lock_memory() -> Result<(), Error> {
    mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|errno| {
        let remedy = "this needs root, CAP_IPC_LOCK, or a higher `ulimit -l`";
        Error::new("lock the memory of", "this process", errno.into())
            .remedy_if(libc::EPERM, remedy)
            .remedy_if(libc::ENOMEM, remedy)
    })
}

/// Lets go of a part of the program that [`lock_memory`] holds and that is not needed in a hurry. It
/// is read from its file again when it is used.
///
/// # Errors
/// It is not a read-only part of a file, as `/proc/self/maps` says, or the kernel refuses it.
pub fn unlock_memory(bytes: &'static [u8]) -> Result<(), Error> {
    let fail = |errno| {
        let remedy = "mount /proc; without it a little more memory is locked than needed";
        Error::new("unlock memory of", "this process", errno).remedy_if(libc::EINVAL, remedy)
    };
    let page = rustix::param::page_size();
    // Whole pages only: at both ends there may be something else.
    let start = bytes.as_ptr().addr().next_multiple_of(page);
    let end = (bytes.as_ptr().addr() + bytes.len()) / page * page;
    let Some(len) = end.checked_sub(start).filter(|&len| len > 0) else { return Ok(()) };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if !maps.lines().any(|line| is_read_only_file(line, start, end)) {
        return Err(fail(Errno(libc::EINVAL)));
    }
    let pages = bytes.as_ptr().with_addr(start).cast_mut().cast();
    let fail = |errno: rustix::io::Errno| fail(errno.into());
    // SAFETY: the pages lie within `bytes`, which live for ever, and belong to a mapping that nobody may
    // write to. So what is read again from the file is what they hold now.
    unsafe {
        mm::munlock(pages, len).map_err(fail)?;
        mm::madvise(pages, len, Advice::LinuxDontNeed).map_err(fail)?;
    }
    Ok(())
}

/// Whether a line of `/proc/self/maps` is about a mapping of a file that is private, cannot be written
/// to and holds these addresses (`proc_pid_maps(5)`).
fn is_read_only_file(line: &str, start: usize, end: usize) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let (Some(range), Some(rights), Some(inode)) = (fields.next(), fields.next(), fields.nth(2))
    else {
        return false;
    };
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    let Some((first, last)) = range.split_once('-').and_then(|(a, b)| address(a).zip(address(b)))
    else {
        return false;
    };
    (first..=last).contains(&start)
        && (first..=last).contains(&end)
        && rights.starts_with("r-")
        && rights.ends_with('p')
        && inode.parse::<u64>().is_ok_and(|inode| inode != 0)
}

/// Lets `task` run on these CPUs only.
///
/// # Errors
/// None of them is there, no such task, or no permission.
pub fn set_affinity(task: Task, cpus: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    task.pid().and_then(|pid| Ok(thread::sched_setaffinity(pid, &set)?)).map_err(|errno| {
        Error::new("set the CPUs of", task.to_string(), errno)
            .remedy_if(libc::EPERM, "this needs root or CAP_SYS_NICE")
            .remedy_if(libc::EINVAL, "none of these CPUs exists; see `nproc --all`")
    })
}

/// The CPUs that `task` may run on.
///
/// # Errors
/// No such task.
pub fn affinity(task: Task) -> Result<Vec<usize>, Error> {
    let set = task
        .pid()
        .and_then(|pid| Ok(thread::sched_getaffinity(pid)?))
        .map_err(|errno| Error::new("read the CPUs of", task.to_string(), errno))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// How late timers of the calling thread may fire so as to fire together; 50 us unless set. No
/// matter for SCHED_FIFO.
///
/// # Errors
/// The kernel refuses.
pub fn set_timer_slack(nanos: u32) -> Result<(), Error> {
    // Nothing would stand for the default, so the least is 1.
    let slack = NonZero::new(u64::from(nanos)).unwrap_or(NonZero::<u64>::MIN);
    thread::set_current_timer_slack(Some(slack))
        .map_err(|errno| Error::new("set the timer slack of", "this thread", errno.into()))
}

/// A task by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub id: u32,
    /// Its name (`comm`): all of a kernel thread's, the first 15 bytes of others.
    pub name: String,
}

/// The processes and kernel threads whose names `is_wanted` takes, by number. Takes `/proc`.
///
/// # Errors
/// `/proc` is not mounted.
pub fn tasks(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Named>, Error> {
    named(Path::new("/proc"), &is_wanted)
}

/// The threads of a process, by number.
///
/// # Errors
/// `/proc` is not mounted, or there is no such process.
pub fn threads_of(process: u32) -> Result<Vec<Named>, Error> {
    named(&Path::new("/proc").join(process.to_string()).join("task"), &|_| true)
}

fn named(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Named>, Error> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let errno = Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
        Error::new("list the tasks in", folder.display().to_string(), errno)
            .remedy_if(libc::ENOENT, "is /proc mounted, and does the process still run?")
    })?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A task may end while it is looked at.
        let Ok(bytes) = fs::read(entry.path().join("comm")) else { continue };
        let name = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        if is_wanted(&name) {
            found.push(Named { id, name });
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_name() {
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        let own = tasks(|name| name == comm.trim_end_matches('\n')).unwrap();
        assert!(own.iter().any(|task| task.id == std::process::id()), "{own:?}");
        let threads = threads_of(std::process::id()).unwrap();
        assert!(threads.iter().any(|task| task.id == std::process::id()), "{threads:?}");
        assert!(tasks(|_| false).unwrap().is_empty());
    }

    #[test]
    fn only_what_a_file_holds_is_let_go() {
        static UNUSED: [u8; 20_000] = [7; 20_000];
        for part in [&UNUSED[..], &UNUSED[1..], &UNUSED[5..9], &UNUSED[..0]] {
            unlock_memory(part).unwrap();
        }
        assert!(UNUSED.iter().all(|&byte| byte == 7));
        // Nothing else has what is in the heap.
        let leaked: &'static [u8] = vec![7; 20_000].leak();
        assert!(unlock_memory(leaked).unwrap_err().is(libc::EINVAL));
        assert!(leaked.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn mappings_are_distinguished() {
        let text = "1000-3000 r--p 00000000 fe:00 77     /usr/bin/candor";
        for (start, end, expected) in
            [(0x1000, 0x3000, true), (0x1000, 0x4000, false), (0xfff, 0x2000, false)]
        {
            assert_eq!(is_read_only_file(text, start, end), expected, "{start:x} to {end:x}");
        }
        for (from, to) in
            [("r--p", "rw-p"), ("r--p", "r--s"), (" 77 ", " 0 "), ("77", ""), ("-", " ")]
        {
            assert!(!is_read_only_file(&text.replacen(from, to, 1), 0x1000, 0x2000), "{to}");
        }
    }

    #[test]
    fn scheduling_is_set_and_read() {
        let outcome = std::thread::spawn(|| {
            assert_eq!(policy(Task::This), Ok(Policy::Other));
            let outcome = set_policy(Task::This, Policy::Fifo(7));
            (outcome, policy(Task::This).unwrap())
        });
        match outcome.join().unwrap() {
            (Ok(()), policy) => assert_eq!(policy, Policy::Fifo(7)),
            (Err(error), policy) => {
                println!("not permitted here, so only the refusal is looked at: {error}");
                assert!(error.is(libc::EPERM) && error.remedy().is_some(), "{error}");
                assert_eq!(policy, Policy::Other);
            }
        }
        assert!(set_policy(Task::This, Policy::Fifo(100)).is_err());
        assert!(policy(Task::Id(0)).unwrap_err().is(libc::ESRCH));
        assert!(policy(Task::Id(u32::MAX)).unwrap_err().is(libc::ESRCH));
    }

    #[test]
    fn threads_that_spin_are_throttled() {
        let ms = Nanos::from_millis;
        let usual = Throttling::parse("950000\n", "1000000\n").unwrap();
        assert_eq!(usual, Throttling { runtime: ms(950), period: ms(1_000) });
        for (runtime, period) in [("-1", "1000000"), ("1000000", "1000000"), ("", "1000000")] {
            assert_eq!(Throttling::parse(runtime, period), None, "{runtime}");
        }
        for (used, time, expected) in [
            (ms(1_000), ms(1_000), true),
            // As one that is stopped has it.
            (ms(950), ms(1_000), true),
            (ms(1_895), ms(2_000), true),
            (ms(900), ms(1_000), false),
            (ms(0), ms(1_000), false),
            (ms(999), ms(999), false),
        ] {
            assert_eq!(usual.stops(used, time), expected, "{used} of {time}");
        }
    }

    #[test]
    fn the_time_of_a_thread_is_its_own() {
        let own = this_thread();
        let used = std::thread::spawn(move || {
            let begin = crate::clock::now::<crate::clock::ThreadCpu>();
            while crate::clock::now::<crate::clock::ThreadCpu>() < begin + Nanos::from_millis(5) {}
            assert_ne!(this_thread(), own);
            crate::clock::cpu_time_of_thread(this_thread()).unwrap()
        });
        assert!(used.join().unwrap() >= Nanos::from_millis(5));
        assert!(crate::clock::cpu_time_of_thread(u32::MAX >> 4).is_err());
    }

    #[test]
    fn a_thread_is_kept_to_a_cpu() {
        std::thread::spawn(|| {
            set_affinity(Task::This, &[0]).unwrap();
            let error = set_affinity(Task::This, &[]).unwrap_err();
            assert!(error.is(libc::EINVAL) && error.remedy().is_some(), "{error}");
            assert!(set_affinity(Task::This, &[1_000_000]).is_err());
            set_timer_slack(1).unwrap();
        })
        .join()
        .unwrap();
    }
}
