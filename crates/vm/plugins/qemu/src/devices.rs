//! The functions and structures of QEMU that are used: those of `include/qom/object.h`, `include/exec/memory.h`,
//! `include/qemu/timer.h`, `include/qemu/notify.h`, `include/chardev/char.h`, `include/net/net.h`, `include/hw/pci/pci.h` and `include/sysemu/runstate.h`. They are the
//! same in 7.2, 10.0 and 11.1, as far as they are used.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;

/// `QEMU_CLOCK_VIRTUAL`.
pub const VIRTUAL: c_int = 1;
/// `DEVICE_LITTLE_ENDIAN`.
const LITTLE_ENDIAN: c_int = 2;

/// `Object`.
#[repr(C)]
pub struct Object(u8);
/// `MemoryRegion`, which only QEMU looks into.
#[repr(C)]
pub struct MemoryRegion(u8);
/// `QEMUTimer`, which only QEMU looks into.
#[repr(C)]
pub struct Timer(u8);
/// `Chardev`, which only QEMU looks into.
#[repr(C)]
pub struct Chardev(u8);
/// `NetClientState`, which only QEMU looks into.
#[repr(C)]
pub struct NetClient(u8);
/// `AddressSpace`, which only QEMU looks into.
#[repr(C)]
pub struct AddressSpace(u8);
/// `Error`, which is passed on unread.
#[repr(C)]
pub struct Error(u8);

/// `Notifier`: a function in a list of QEMU's.
#[repr(C)]
pub struct Notifier {
    notify: extern "C" fn(*mut Notifier, *mut c_void),
    next: core::cell::UnsafeCell<[*mut c_void; 2]>,
}

// SAFETY: only QEMU writes into it, under its lock.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Calls `notify`.
    #[must_use]
    pub const fn new(notify: extern "C" fn(*mut Self, *mut c_void)) -> Self {
        Self { notify, next: core::cell::UnsafeCell::new([ptr::null_mut(); 2]) }
    }
}

/// `MemoryRegionOps`: what happens when the guest reads and writes.
#[repr(C)]
pub struct MemoryRegionOps {
    read: extern "C" fn(*mut c_void, u64, c_uint) -> u64,
    write: extern "C" fn(*mut c_void, u64, u64, c_uint),
    read_with_attributes: *const c_void,
    write_with_attributes: *const c_void,
    endianness: c_int,
    valid: Valid,
    implemented: Sizes,
}

/// Accesses that there are.
#[repr(C)]
struct Valid {
    sizes: Sizes,
    accepts: *const c_void,
}

/// Sizes of accesses in bytes.
#[repr(C)]
struct Sizes {
    least: c_uint,
    most: c_uint,
    unaligned: bool,
}

// SAFETY: it is never written.
unsafe impl Sync for MemoryRegionOps {}

impl MemoryRegionOps {
    /// Registers of one byte each.
    #[must_use]
    pub const fn bytes(
        read: extern "C" fn(*mut c_void, u64, c_uint) -> u64,
        write: extern "C" fn(*mut c_void, u64, u64, c_uint),
    ) -> Self {
        Self::of_size(1, read, write)
    }

    /// Registers of four bytes each.
    #[must_use]
    pub const fn words(
        read: extern "C" fn(*mut c_void, u64, c_uint) -> u64,
        write: extern "C" fn(*mut c_void, u64, u64, c_uint),
    ) -> Self {
        Self::of_size(4, read, write)
    }

    const fn of_size(
        bytes: c_uint,
        read: extern "C" fn(*mut c_void, u64, c_uint) -> u64,
        write: extern "C" fn(*mut c_void, u64, u64, c_uint),
    ) -> Self {
        Self {
            read,
            write,
            read_with_attributes: ptr::null(),
            write_with_attributes: ptr::null(),
            endianness: LITTLE_ENDIAN,
            valid: Valid {
                sizes: Sizes { least: 0, most: 0, unaligned: false },
                accepts: ptr::null(),
            },
            implemented: Sizes { least: bytes, most: bytes, unaligned: false },
        }
    }
}

unsafe extern "C" {
    pub fn qemu_add_machine_init_done_notifier(notifier: *mut Notifier);
    pub fn qemu_add_vm_change_state_handler(
        handler: extern "C" fn(*mut c_void, bool, c_int),
        context: *mut c_void,
    ) -> *mut c_void;
    pub fn qemu_clock_get_ns(clock: c_int) -> i64;
    pub fn timer_init_full(
        timer: *mut Timer,
        group: *mut c_void,
        clock: c_int,
        scale: c_int,
        attributes: c_int,
        callback: extern "C" fn(*mut c_void),
        context: *mut c_void,
    );
    pub fn timer_mod_ns(timer: *mut Timer, at: i64);
    pub fn timer_del(timer: *mut Timer);
    pub fn object_get_root() -> *mut Object;
    pub fn object_get_typename(object: *const Object) -> *const c_char;
    pub fn object_resolve_path(path: *const c_char, ambiguous: *mut bool) -> *mut Object;
    pub fn object_resolve_path_component(object: *mut Object, part: *const c_char) -> *mut Object;
    pub fn object_child_foreach_recursive(
        object: *mut Object,
        visit: extern "C" fn(*mut Object, *mut c_void) -> c_int,
        context: *mut c_void,
    ) -> c_int;
    pub fn object_property_get_link(
        object: *mut Object,
        name: *const c_char,
        error: *mut *mut Error,
    ) -> *mut Object;
    pub fn object_property_get_int(
        object: *mut Object,
        name: *const c_char,
        error: *mut *mut Error,
    ) -> i64;
    pub fn memory_region_init_io(
        region: *mut MemoryRegion,
        owner: *mut Object,
        ops: *const MemoryRegionOps,
        context: *mut c_void,
        name: *const c_char,
        bytes: u64,
    );
    pub fn memory_region_init_ram(
        region: *mut MemoryRegion,
        owner: *mut Object,
        name: *const c_char,
        bytes: u64,
        error: *mut *mut Error,
    );
    pub fn memory_region_get_ram_ptr(region: *mut MemoryRegion) -> *mut c_void;
    pub fn memory_region_set_dirty(region: *mut MemoryRegion, from: u64, bytes: u64);
    pub fn memory_region_add_subregion_overlap(
        region: *mut MemoryRegion,
        at: u64,
        part: *mut MemoryRegion,
        priority: c_int,
    );
    pub fn memory_region_size(region: *mut MemoryRegion) -> u64;
    /// Attributes of an access are a structure of bits that fits into eight bytes; 1 says that they are not told.
    pub fn memory_region_dispatch_read(
        region: *mut MemoryRegion,
        address: u64,
        value: *mut u64,
        operation: c_uint,
        attributes: u64,
    ) -> u32;
    pub fn memory_region_dispatch_write(
        region: *mut MemoryRegion,
        address: u64,
        value: u64,
        operation: c_uint,
        attributes: u64,
    ) -> u32;
    pub fn object_property_get_str(
        object: *mut Object,
        name: *const c_char,
        error: *mut *mut Error,
    ) -> *mut c_char;
    pub static address_space_memory: AddressSpace;
    /// For the attributes, see [`memory_region_dispatch_read`].
    pub fn address_space_rw(
        space: *mut AddressSpace,
        address: u64,
        attributes: u64,
        bytes: *mut c_void,
        count: u64,
        is_write: bool,
    ) -> u32;
    pub fn qemu_find_netdev(name: *const c_char) -> *mut NetClient;
    pub fn qemu_can_send_packet(client: *mut NetClient) -> c_int;
    pub fn qemu_send_packet(client: *mut NetClient, bytes: *const u8, count: c_int) -> isize;
    pub fn get_system_io() -> *mut MemoryRegion;
    pub fn qemu_chr_find(name: *const c_char) -> *mut Chardev;
    pub fn qemu_chr_be_write(device: *mut Chardev, bytes: *const u8, count: c_int);
    pub fn pci_set_irq(device: *mut c_void, level: c_int);
}
