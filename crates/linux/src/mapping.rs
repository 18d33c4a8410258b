//! Memory that the kernel maps for one owner: apart from the heap, and given back as soon as it is dropped.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::Errno;

/// A part of the address space that belongs to this value alone.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone. What somebody else writes to it (the kernel, to a shared one) is for
// those who read it through the pointer to guard.
unsafe impl Send for Mapping {}
// SAFETY: as above; through a shared reference it gives a pointer only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Shared with the kernel, such as the ring of a socket; all of it is resident at once.
    pub(crate) fn shared(fd: BorrowedFd<'_>, len: usize) -> Result<Self, Errno> {
        Self::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd())
    }

    /// Zeros, of which only the pages that were written to are resident, unless the process locks its memory. A block of
    /// the heap has no such pages where an earlier one was freed: it is cleared, which makes all of it resident.
    pub(crate) fn zeros(len: usize) -> Result<Self, Errno> {
        let mapping = Self::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        // A huge page is resident as a whole. A kernel without them (`EINVAL`) needs not be told.
        // SAFETY: within the mapping; what it holds stays.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
        Ok(mapping)
    }

    fn new(len: usize, flags: libc::c_int, fd: libc::c_int) -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno(libc::ENOMEM))?, len })
    }

    /// Where it begins. It is aligned to pages.
    #[inline]
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes it has.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody uses it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
