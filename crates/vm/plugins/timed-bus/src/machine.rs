//! What of the machine belongs to the bed: buses, controllers, and the port through which guest and tester meet.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use candor_qemu::devices::{self as qemu, MemoryRegion, MemoryRegionOps, Object};
use candor_test_bed::{MOST_BUSES, MOST_CONTROLLERS, port};

use crate::{Around, REGION_BYTES, give_up, memory, plan, with_bed, with_bed_now};

/// The kind of device that is a controller, and its window.
const CARD: (&CStr, &CStr) = (c"kvaser_pci", c"kvaser_pci-sja[0]");
/// Bytes of the window, and of the registers of an SJA1000 in it; the rest stays QEMU's.
const WINDOW_BYTES: u64 = 128;
/// See [`WINDOW_BYTES`].
const REGISTER_BYTES: u64 = 0x20;

static BUS_NAMES: [AtomicPtr<c_char>; MOST_BUSES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_BUSES];
static BUS_COUNT: AtomicUsize = AtomicUsize::new(0);
static BUSES: [AtomicPtr<Object>; MOST_BUSES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_BUSES];
static DEVICES: [AtomicPtr<Object>; MOST_CONTROLLERS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_CONTROLLERS];

/// The next bus has this name; whether there is room.
pub(crate) fn name_bus(name: &CStr) -> bool {
    let index = BUS_COUNT.load(Relaxed);
    let Some(place) = BUS_NAMES.get(index) else { return false };
    place.store(name.as_ptr().cast_mut(), Relaxed);
    BUS_COUNT.store(index + 1, Relaxed);
    true
}

/// How many buses were named.
pub(crate) fn bus_count() -> usize {
    BUS_COUNT.load(Relaxed)
}

/// Finds buses and controllers, and lays registers over theirs.
pub(crate) fn find() {
    for (name, bus) in BUS_NAMES.iter().zip(&BUSES).take(bus_count()) {
        // SAFETY: a container of QEMU's, and a name that stays.
        let found = unsafe {
            let objects = qemu::object_resolve_path(c"/objects".as_ptr(), ptr::null_mut());
            qemu::object_resolve_path_component(objects, name.load(Relaxed))
        };
        if found.is_null() {
            // SAFETY: a name that stays.
            let name = unsafe { CStr::from_ptr(name.load(Relaxed)) };
            give_up(format_args!("the machine has no bus {name:?}"));
        }
        bus.store(found, Relaxed);
    }
    // SAFETY: a function that stays.
    unsafe {
        qemu::object_child_foreach_recursive(qemu::object_get_root(), visit, ptr::null_mut())
    };
    for controller in 0..with_bed(|bed| bed.controller_count()) {
        overlay(controller);
    }
    add_port();
}

/// Keeps a device if it is a controller on one of the buses. Devices come in no useful order.
extern "C" fn visit(object: *mut Object, _: *mut c_void) -> c_int {
    // SAFETY: QEMU's object, and a name that stays.
    let kind = unsafe { CStr::from_ptr(qemu::object_get_typename(object)) };
    if kind != CARD.0 {
        return 0;
    }
    let mut error = ptr::null_mut();
    // SAFETY: an object with these properties.
    let (bus, address) = unsafe {
        let bus = qemu::object_property_get_link(object, c"canbus".as_ptr(), &raw mut error);
        (bus, qemu::object_property_get_int(object, c"addr".as_ptr(), &raw mut error))
    };
    let is_it = |it: &AtomicPtr<Object>| it.load(Relaxed) == bus;
    let Some(bus) = BUSES.iter().take(bus_count()).position(is_it) else { return 0 };
    let added = with_bed(|bed| bed.add_controller(bus as u8, (address >> 3) as u8));
    let Some(at) = added else {
        give_up(format_args!("the machine has more than {MOST_CONTROLLERS} controllers"));
    };
    // Those behind it move.
    for index in (at + 1..MOST_CONTROLLERS).rev() {
        DEVICES[index].store(DEVICES[index - 1].load(Relaxed), Relaxed);
    }
    DEVICES[at].store(object, Relaxed);
    0
}

/// Lays the registers of a controller over those of QEMU's.
fn overlay(controller: usize) {
    static OPS: MemoryRegionOps = MemoryRegionOps::bytes(read, write);
    // SAFETY: a device of QEMU's.
    let window = unsafe {
        let device = DEVICES[controller].load(Relaxed);
        qemu::object_resolve_path_component(device, CARD.1.as_ptr()).cast::<MemoryRegion>()
    };
    // SAFETY: a memory region, if there is one.
    if window.is_null() || unsafe { qemu::memory_region_size(window) } != WINDOW_BYTES {
        give_up(format_args!(
            "the timed buses do not fit into this QEMU: the registers of {:?}",
            CARD.0
        ));
    }
    lay(window, 0, &OPS, controller, c"candor-sja1000", REGISTER_BYTES);
}

fn add_port() {
    static OPS: MemoryRegionOps = MemoryRegionOps::bytes(read_port, write_port);
    // SAFETY: QEMU's region of ports.
    let ports = unsafe { qemu::get_system_io() };
    lay(ports, port::TESTER.into(), &OPS, 0, c"candor-port", 1);
}

/// Lays registers over a region of QEMU's.
pub(crate) fn lay(
    over: *mut MemoryRegion,
    at: u64,
    ops: &'static MemoryRegionOps,
    number: usize,
    name: &'static CStr,
    bytes: u64,
) {
    let region = memory(REGION_BYTES);
    let number = ptr::without_provenance_mut(number);
    // SAFETY: memory that stays, of a size that QEMU's structure does not reach; a region of QEMU's below it.
    unsafe {
        qemu::memory_region_init_io(region, ptr::null_mut(), ops, number, name.as_ptr(), bytes);
        qemu::memory_region_add_subregion_overlap(over, at, region, 1);
    }
}

extern "C" fn read(controller: *mut c_void, address: u64, _: u32) -> u64 {
    with_bed_now(|bed, now| bed.read(controller.addr(), address as u8, now)).into()
}

extern "C" fn write(controller: *mut c_void, address: u64, value: u64, _: u32) {
    with_bed_now(|bed, now| {
        bed.write(controller.addr(), address as u8, value as u8, now, &mut Around);
    });
}

extern "C" fn read_port(_: *mut c_void, _: u64, _: u32) -> u64 {
    u64::from(if with_bed(|bed| bed.is_done()) { port::DONE } else { port::NOT_DONE })
}

extern "C" fn write_port(_: *mut c_void, _: u64, value: u64, _: u32) {
    with_bed_now(|bed, now| match (value as u8, plan::plan()) {
        (port::START, Some(plan)) => bed.start(&plan, now, &mut Around),
        (port::OVER, _) => bed.guest_is_over(now),
        _ => {}
    });
}

/// Sets the interrupt line of a controller.
pub(crate) fn set_interrupt(controller: usize, level: bool) {
    // SAFETY: a device on a PCI bus.
    unsafe { qemu::pci_set_irq(DEVICES[controller].load(Relaxed).cast(), c_int::from(level)) };
}
