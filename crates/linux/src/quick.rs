//! The shortest ways into and out of a socket, for where a tenth of a microsecond counts.
//!
//! | what | instead of | instructions less (Linux 6.12) |
//! |---|---|---|
//! | [`receive_once`], [`send`]: `recv`, `send` | `read`, `write`, which ask what kind of file it is | 300 each |
//! | system calls past the C library, also [`read`] | `recv`, `send`, `read` of the C library, where threads can be cancelled | 50 each |
//! | [`spawn_apart`] | a table of files shared with other threads | 45 per call |
//! | [`leave_restartable_sequences`] | what the C library sets up for every thread | 190 per wake-up |

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

use libc::{c_int, c_long};

use crate::error::check;
use crate::socket::sent;
use crate::{Errno, Error, Sent};

/// `sendto` or `recvfrom` without an address; returns the number of bytes, or the negative number of
/// an error, as the kernel does.
///
/// # Safety
/// The kernel must be allowed to read from, or write to, `len` bytes at `bytes`.
#[inline]
unsafe fn transfer(call: c_long, fd: c_int, bytes: *mut u8, len: usize, flags: c_int) -> isize {
    #[cfg(target_arch = "x86_64")]
    {
        let mut result = call as isize;
        // As wide as the register: of one that is written with an `i32`, the upper half may be anything.
        let (address, address_len) = (std::ptr::null::<u8>(), std::ptr::null::<c_int>());
        // SAFETY: the calling convention of Linux on x86-64 (syscall(2)); the caller answers for the
        // memory, and there is no address.
        unsafe {
            std::arch::asm!(
                "syscall", inlateout("rax") result, in("rdi") fd, in("rsi") bytes, in("rdx") len,
                in("r10") flags, in("r8") address, in("r9") address_len, lateout("rcx") _,
                lateout("r11") _, options(nostack));
        }
        result
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let none = std::ptr::null_mut::<u8>();
        // SAFETY: the caller answers for the memory.
        match unsafe { libc::syscall(call, fd, bytes, len, flags, none, none) } {
            result @ 0.. => result as isize,
            _ => -(Errno::last().0 as isize),
        }
    }
}

/// What a [`transfer`] that did not succeed means: to be done again after a signal, or nothing to be
/// had or no room now (`None`).
#[cold]
fn failed(mut result: isize, again: impl Fn() -> isize) -> Result<Option<usize>, Errno> {
    loop {
        match usize::try_from(result) {
            Ok(count) => return Ok(Some(count)),
            Err(_) => match Errno(-result as c_int) {
                Errno(libc::EINTR) => result = again(),
                Errno(libc::EAGAIN) => return Ok(None),
                errno => return Err(errno),
            },
        }
    }
}

/// Receives what is next into `buffer`; returns the number of bytes. `None` if there is nothing and
/// the socket does not block or `can_wait` is false, or if a signal came whose handler asks for that (no
/// `SA_RESTART`), see [`wake`](crate::wake).
///
/// # Errors
/// The interface went down or away.
#[inline]
pub fn receive_once(
    socket: &impl AsFd,
    buffer: &mut [u8],
    can_wait: bool,
) -> Result<Option<usize>, Error> {
    let flags = if can_wait { 0 } else { libc::MSG_DONTWAIT };
    let fd = socket.as_fd().as_raw_fd();
    let (bytes, room) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: `room` bytes can be written to it.
    match unsafe { transfer(libc::SYS_recvfrom, fd, bytes, room, flags) } {
        count @ 0.. => Ok(Some(count as usize)),
        failure => match Errno(-failure as c_int) {
            Errno(libc::EINTR | libc::EAGAIN) => Ok(None),
            errno => Err(Error::new("receive from", "a socket", errno)),
        },
    }
}

/// Sends `bytes`; waits for room if the socket blocks.
///
/// # Errors
/// The interface is down or gone, or the bytes are nothing that it takes.
#[inline(always)]
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> Result<Sent, Error> {
    send_with(socket, bytes, libc::MSG_NOSIGNAL)
}

/// Sends `bytes` if there is room; does not wait, whether the socket blocks or not.
///
/// # Errors
/// As [`send`].
#[inline(always)]
pub fn try_send(socket: &impl AsFd, bytes: &[u8]) -> Result<Sent, Error> {
    send_with(socket, bytes, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

#[inline(always)]
fn send_with(socket: &impl AsFd, bytes: &[u8], flags: c_int) -> Result<Sent, Error> {
    let fd = socket.as_fd().as_raw_fd();
    let (bytes, len) = (bytes.as_ptr().cast_mut(), bytes.len());
    // SAFETY: `len` bytes can be read from it, and the kernel only reads.
    let send = || unsafe { transfer(libc::SYS_sendto, fd, bytes, len, flags) };
    match send() {
        0.. => Ok(Sent::Taken),
        first => {
            sent(failed(first, send)).map_err(|errno| Error::new("send on", "a socket", errno))
        }
    }
}

/// What a thread with open files of its own does: it gets bytes, calls its second argument when it is
/// ready, and returns bytes.
pub type Apart = fn(&[u8], &mut dyn FnMut()) -> Vec<u8>;

/// A thread with a table of open files of its own, as a process has one: the kernel then looks files up
/// without counting who uses them.
///
/// An open file is a number in such a table: handed over to a thread with another table, it would be
/// another file there, or none. So nothing that could hold one goes in or out: `body` is a plain
/// function, which captures nothing, and all that it gets and gives is bytes.
#[derive(Debug)]
pub struct ThreadApart {
    thread: JoinHandle<Result<Vec<u8>, Error>>,
    is_ready: Receiver<()>,
}

/// Starts `body` in such a thread.
///
/// # Errors
/// There is no memory for a thread.
pub fn spawn_apart(name: &str, input: Vec<u8>, body: Apart) -> io::Result<ThreadApart> {
    let (ready, is_ready) = sync_channel(1);
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        leave_shared_files()?;
        Ok(body(&input, &mut || {
            // Perhaps nobody waits any more.
            let _ = ready.try_send(());
        }))
    });
    Ok(ThreadApart { thread: thread?, is_ready })
}

impl ThreadApart {
    /// Waits until it is ready; false if it ended before.
    #[must_use]
    pub fn wait_until_ready(&self) -> bool {
        self.is_ready.recv().is_ok()
    }

    /// Waits for its end; `None` if it panicked.
    ///
    /// # Errors
    /// It could not have files of its own.
    pub fn join(self) -> Result<Option<Vec<u8>>, Error> {
        self.thread.join().ok().transpose()
    }
}

/// Gives the calling thread, which is to have no files yet, a copy of the table of its process.
fn leave_shared_files() -> Result<(), Error> {
    // SAFETY: no memory is involved. Files that are open stay open in both tables.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })
        .map_err(|errno| Error::new("copy", "the table of open files", errno))?;
    Ok(())
}

/// `read` into `buffer`: the number of bytes.
///
/// # Errors
/// As the file has them; also that a signal came.
#[inline]
pub fn read(file: &impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(file, buffer).map_err(Errno::from)
}

/// Takes the calling thread out of the kernel's restartable sequences (`rseq`), into which the C
/// library puts every thread: the kernel then has nothing to look after when the thread comes to
/// run. False if it was not in. The C library goes on without them.
///
/// # Errors
/// The kernel refuses.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub fn leave_restartable_sequences() -> Result<bool, Error> {
    /// `RSEQ_FLAG_UNREGISTER`, `linux/rseq.h`.
    const LEAVE: libc::c_int = 1;
    /// `RSEQ_SIG` of x86.
    const SIGNATURE: u32 = 0x5305_3053;
    /// The sizes with which the C library enters: at first, and since glibc 2.40 where the kernel has
    /// more to say.
    const SIZES: [u32; 2] = [32, 64];
    let (offset, thread): (*const isize, usize);
    // SAFETY: reads two addresses: where the C library keeps the offset of its structure (null if it
    // is too old to know), and the thread pointer, which the x86-64 ABI puts at fs:0.
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {thread}, qword ptr fs:[0]",
            offset = out(reg) offset, thread = out(reg) thread,
            options(nostack, preserves_flags, readonly));
    }
    if offset.is_null() {
        return Ok(false);
    }
    // SAFETY: the C library has it as a constant of this type.
    let offset = unsafe { offset.read() };
    let structure = thread.wrapping_add_signed(offset);
    for size in SIZES {
        // SAFETY: the kernel compares the address with the one that it knows and forgets it.
        let outcome =
            check(unsafe { libc::syscall(libc::SYS_rseq, structure, size, LEAVE, SIGNATURE) });
        match outcome {
            Ok(_) => return Ok(true),
            Err(Errno(libc::EINVAL | libc::ENOSYS)) => {}
            Err(errno) => return Err(Error::new("leave", "restartable sequences", errno)),
        }
    }
    Ok(false)
}

/// With other C libraries a thread is not in.
///
/// # Errors
/// Never.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub fn leave_restartable_sequences() -> Result<bool, Error> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// What the open files of the calling thread are, such as `pipe:[123]`.
    fn open_files() -> Vec<String> {
        let entries = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
        let link = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
        entries.filter_map(link).map(|link| link.display().to_string()).collect()
    }

    #[test]
    fn what_is_in_a_pipe_is_read() {
        let (output, mut input) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut input, b"12345").unwrap();
        let mut buffer = [0; 3];
        assert_eq!(read(&output, &mut buffer), Ok(3));
        assert_eq!(buffer, *b"123");
        assert_eq!(read(&output, &mut buffer), Ok(2));
        drop(input);
        assert_eq!(read(&output, &mut buffer), Ok(0));
        assert_eq!(read(&input_only(), &mut buffer), Err(Errno(libc::EBADF)));
    }

    /// A file that cannot be read.
    fn input_only() -> std::fs::File {
        std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap()
    }

    #[test]
    fn a_thread_apart_has_files_of_its_own() {
        static NAME: Mutex<String> = Mutex::new(String::new());
        static IS_SEEN: Barrier = Barrier::new(2);
        fn hold_a_pipe(input: &[u8], ready: &mut dyn FnMut()) -> Vec<u8> {
            let pipe = std::io::pipe().unwrap();
            let link = format!("/proc/thread-self/fd/{}", pipe.0.as_raw_fd());
            *NAME.lock().unwrap() = std::fs::read_link(link).unwrap().display().to_string();
            let is_open = open_files().contains(&NAME.lock().unwrap());
            ready();
            // It is open until it has been looked for there.
            IS_SEEN.wait();
            vec![u8::from(is_open), input[0]]
        }
        let thread = spawn_apart("apart", vec![7], hold_a_pipe).unwrap();
        assert!(thread.wait_until_ready());
        let name = NAME.lock().unwrap().clone();
        let is_open_here = open_files().contains(&name);
        IS_SEEN.wait();
        assert!(name.starts_with("pipe:[") && !is_open_here, "{name} is open here too");
        assert_eq!(thread.join(), Ok(Some(vec![1, 7])));

        let thread = spawn_apart("apart", Vec::new(), |_, _| panic!("on purpose")).unwrap();
        assert!(!thread.wait_until_ready());
        assert_eq!(thread.join(), Ok(None));
    }

    #[test]
    fn a_thread_leaves_restartable_sequences_once() {
        let left = std::thread::spawn(|| {
            let first = leave_restartable_sequences().unwrap();
            assert!(!leave_restartable_sequences().unwrap(), "it is not in any more");
            first
        });
        // glibc 2.35 or later and Linux 4.18 or later are needed to be in.
        println!("was in: {}", left.join().unwrap());
    }
}
