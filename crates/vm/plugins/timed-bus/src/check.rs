//! The self test: does QEMU understand the structures of this library as it should?

use core::ffi::{c_uint, c_void};
use core::ptr;

use candor_qemu::devices::{self as qemu, MemoryRegionOps, Timer};
use candor_qemu::exclusive::Exclusive;

use crate::{REGION_BYTES, memory, now_ns};

/// What the probe saw last.
static SEEN: Exclusive<(usize, u64, u64, u32)> = Exclusive::new((0, 0, 0, 0));
/// A byte, with attributes that are not told.
const BYTE: (c_uint, u64) = (0, 1);
const BYTES: u64 = 0x20;

extern "C" fn read(context: *mut c_void, address: u64, size: u32) -> u64 {
    SEEN.with(|seen| *seen = (context.addr(), address, 0, size));
    0x5A
}

extern "C" fn write(context: *mut c_void, address: u64, value: u64, size: u32) {
    SEEN.with(|seen| *seen = (context.addr(), address, value, size));
}

/// Memory regions and timers do what they are told; else what does not.
pub(crate) fn layouts(timer: *mut Timer) -> Result<(), &'static str> {
    static OPS: MemoryRegionOps = MemoryRegionOps::bytes(read, write);
    let region = memory(REGION_BYTES);
    let context = ptr::without_provenance_mut(0x1234);
    let (mut value, (operation, attributes)) = (0, BYTE);
    // SAFETY: memory that stays, of a size that QEMU's structure does not reach; functions that stay.
    let size = unsafe {
        let name = c"candor-probe".as_ptr();
        qemu::memory_region_init_io(region, ptr::null_mut(), &raw const OPS, context, name, BYTES);
        qemu::memory_region_size(region)
    };
    if size != BYTES {
        return Err("the size of a memory region");
    }
    // SAFETY: a region of this library.
    unsafe {
        qemu::memory_region_dispatch_read(region, 0x13, &raw mut value, operation, attributes)
    };
    if (value, SEEN.with(|seen| *seen)) != (0x5A, (0x1234, 0x13, 0, 1)) {
        return Err("how a memory region is read");
    }
    // SAFETY: a region of this library.
    unsafe { qemu::memory_region_dispatch_write(region, 0x11, 0xA5, operation, attributes) };
    if SEEN.with(|seen| *seen) != (0x1234, 0x11, 0xA5, 1) {
        return Err("how a memory region is written");
    }
    let at = i64::try_from(now_ns()).unwrap_or(0) + 123_456_789;
    // SAFETY: the timer of this library, whose first field is when it expires.
    let (set, unset) = unsafe {
        qemu::timer_mod_ns(timer, at);
        let set = timer.cast::<i64>().read();
        qemu::timer_del(timer);
        (set, timer.cast::<i64>().read())
    };
    if (set, unset) == (at, -1) { Ok(()) } else { Err("when a timer expires") }
}
