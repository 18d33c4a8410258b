//! The shortest ways into and out of a socket, for where a tenth of a microsecond counts.
//!
//! | what | instead of | instructions less (Linux 6.12) |
//! |---|---|---|
//! | [`receive`], [`send`]: `recv`, `send` | `read`, `write`, which ask what kind of file it is | 300 each |
//! | system calls that are no cancellation points of the C library | `recv`, `send` of the C library | 30 each |
//! | [`leave_restartable_sequences`] | what the C library sets up for every thread | 190 per wake-up |
//!
//! [`set_gate`] opens and closes a socket for what arrives, without closing the file.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::check;
use crate::socket::{retry, sent, set_option};
use crate::{Errno, Error, Sent};

/// Receives what is next into `buffer`; returns the number of bytes, `None` if there is nothing and
/// the socket does not block or `can_wait` is false.
///
/// # Errors
/// The interface went down or away.
pub fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    can_wait: bool,
) -> Result<Option<usize>, Error> {
    let flags = if can_wait { 0 } else { libc::MSG_DONTWAIT };
    let fd = socket.as_fd().as_raw_fd();
    retry(|| {
        // SAFETY: `buffer.len()` bytes can be written to it.
        unsafe {
            let (bytes, room) = (buffer.as_mut_ptr(), buffer.len());
            let none = std::ptr::null_mut::<u8>();
            libc::syscall(libc::SYS_recvfrom, fd, bytes, room, flags, none, none) as isize
        }
    })
    .map_err(|errno| Error::new("receive from", "a socket", errno))
}

/// Sends `bytes`.
///
/// # Errors
/// The interface is down or gone, or the bytes are nothing that it takes.
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> Result<Sent, Error> {
    let fd = socket.as_fd().as_raw_fd();
    sent(retry(|| {
        // SAFETY: `bytes.len()` bytes can be read from it.
        unsafe {
            let (bytes, count) = (bytes.as_ptr(), bytes.len());
            let none = std::ptr::null::<u8>();
            libc::syscall(libc::SYS_sendto, fd, bytes, count, libc::MSG_NOSIGNAL, none, 0) as isize
        }
    }))
    .map_err(|errno| Error::new("send on", "a socket", errno))
}

/// Whether a socket takes what arrives for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It does.
    Open,
    /// It does not: what arrives is dropped and not counted.
    Closed,
}

/// Opens or closes a socket by a filter of one instruction, which takes everything or nothing.
///
/// # Errors
/// The kernel refuses.
pub fn set_gate(socket: &impl AsFd, gate: Gate) -> Result<(), Error> {
    let k = match gate {
        Gate::Open => u32::MAX,
        Gate::Closed => 0,
    };
    let mut filter =
        [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
        .map_err(|errno| Error::new("set the filter of", "a socket", errno))
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
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn a_closed_socket_takes_nothing_until_it_is_opened() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 8];
        let mut pass = || {
            assert_eq!(send(&socket, b"frame"), Ok(Sent::Taken));
            receive(&socket, &mut buffer, false).unwrap()
        };
        assert_eq!(pass(), Some(5));
        set_gate(&socket, Gate::Closed).unwrap();
        assert_eq!(pass(), None);
        set_gate(&socket, Gate::Open).unwrap();
        assert_eq!(pass(), Some(5));
        assert_eq!(&buffer[..5], b"frame");
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
