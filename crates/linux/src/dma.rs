//! Memory that a device reads and writes by itself, at its physical address.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::mm;

use crate::mapping::Mapping;
use crate::{Errno, Error};

/// A page that stays where it is in RAM.
///
/// What a device does with its address is up to the device, as with [`Ports`](crate::port::Ports).
#[derive(Debug)]
pub struct Page {
    mapping: Mapping,
    address: u64,
}

impl Page {
    /// A page has so many bytes.
    pub const LEN: usize = 4096;

    /// A page of zeros.
    ///
    /// # Errors
    /// Not root, no /proc, or a kernel that does not tell (`CONFIG_PROC_PAGE_MONITOR`).
    pub fn new() -> Result<Self, Error> {
        let fail = |error: io::Error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
            let remedy = "this needs root, /proc, and a kernel with CONFIG_PROC_PAGE_MONITOR";
            Error::new("find the address of", "a page", errno).with_remedy(remedy)
        };
        let mapping = Mapping::zeros(Self::LEN)
            .map_err(|errno| fail(io::Error::from_raw_os_error(errno.0)))?;
        let address = keep_in_place(&mapping).map_err(fail)?;
        Ok(Self { mapping, address })
    }

    /// Where devices find it.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// What is in its first bytes now: the device has written them, and is done.
    ///
    /// # Panics
    /// There are more bytes than in a page.
    pub fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= Self::LEN);
        // SAFETY: within the mapping, of which there are no references; the device writes only when it is told to, by
        // an instruction before which the compiler may not move this.
        unsafe {
            self.mapping.start().as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Sets its first bytes, before the device is told.
    ///
    /// # Panics
    /// There are more bytes than in a page.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= Self::LEN);
        // SAFETY: as in `read`.
        unsafe {
            self.mapping.start().as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

/// Keeps a page where it is in RAM; its address there.
fn keep_in_place(page: &Mapping) -> io::Result<u64> {
    // A kernel that moves pages to have large ones must not move locked ones. It may be one that moves none.
    match fs::write("/proc/sys/vm/compact_unevictable_allowed", "0") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let start = page.start().as_ptr();
    // SAFETY: the mapping is there, and keeps its bytes; there is no reference to the one that is written.
    unsafe {
        mm::mlock(start.cast(), page.len())?;
        // Only a page that was written to is one of its own.
        start.write_volatile(0);
    }
    // A number of eight bytes for each page: Documentation/admin-guide/mm/pagemap.rst of the kernel.
    let mut entry = [0; 8];
    let index = (start.addr() / Page::LEN) as u64;
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, index * 8)?;
    address_in(u64::from_le_bytes(entry)).ok_or(io::Error::from_raw_os_error(libc::EPERM))
}

/// The physical address of a page of 4 KiB, from its entry of `/proc/self/pagemap`: the number of its frame in 55 bits, which is 0 for
/// who may not see it, and bit 63 if it is in RAM.
fn address_in(entry: u64) -> Option<u64> {
    let frame = entry & ((1 << 55) - 1);
    (entry >> 63 == 1 && frame > 0).then(|| frame * Page::LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_in_ram_has_an_address() {
        for (entry, address) in [
            (1 << 63 | 0x1234, Some(0x123_4000)),
            // Exclusive and soft-dirty: bits 55 and 56.
            (1 << 63 | 3 << 55 | 0x1234, Some(0x123_4000)),
            (0x1234, None),
            (1 << 63, None),
            (1 << 62 | 0x1234, None),
            (0, None),
        ] {
            assert_eq!(address_in(entry), address, "{entry:#x}");
        }
    }
}
