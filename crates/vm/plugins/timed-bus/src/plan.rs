//! The plan of this process, read from a file.

use core::ffi::CStr;
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use candor_qemu::c;
use candor_test_bed::Plan;

use crate::file::complain;
use crate::memory;

static BYTES: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// A plan is not longer, in bytes: a million frames.
const MOST_BYTES: usize = 100 << 20;

/// Reads a plan; whether there is one.
pub(crate) fn load(path: &CStr) -> bool {
    // SAFETY: a path; 0 is for reading.
    let file = unsafe { c::open(path.as_ptr(), 0) };
    if file < 0 {
        complain(format_args!("the plan of the tester cannot be opened"));
        return false;
    }
    // Pages that are never written take no memory.
    let bytes = memory::<u8>(MOST_BYTES);
    let mut length = 0;
    while length < MOST_BYTES {
        // SAFETY: there is so much room behind what was read.
        let read = unsafe { c::read(file, bytes.add(length).cast(), MOST_BYTES - length) };
        match usize::try_from(read) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(_) => {
                complain(format_args!("the plan of the tester cannot be read"));
                return false;
            }
        }
    }
    // SAFETY: it was opened above.
    unsafe { c::close(file) };
    BYTES.store(bytes, Relaxed);
    LENGTH.store(length, Relaxed);
    match Plan::read(whole()) {
        Ok(_) => true,
        Err(error) => {
            complain(format_args!("{error}"));
            LENGTH.store(0, Relaxed);
            false
        }
    }
}

fn whole() -> &'static [u8] {
    let (bytes, length) = (BYTES.load(Relaxed), LENGTH.load(Relaxed));
    // SAFETY: so many bytes were read, and nobody writes them any more.
    if bytes.is_null() { &[] } else { unsafe { slice::from_raw_parts(bytes, length) } }
}

/// The plan, if there is one.
pub(crate) fn plan() -> Option<Plan<'static>> {
    Plan::checked(whole())
}
