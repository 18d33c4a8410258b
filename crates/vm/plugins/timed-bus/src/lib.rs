//! Lays the CAN hardware of [`candor_hardware`] over that of a stock QEMU, from inside: buses that take their time to the
//! bit, and SJA1000 controllers with all their registers.
//!
//! ```text
//!  QEMU reads the library    -- qemu_plugin_install: options
//!  all devices are there     -- ready:   the state in a block of the machine's memory, the windows of the controllers
//!  guest reads and writes    -- read, write: the registers of a controller, at the exact instruction
//!  virtual time passes       -- tick:    what happens on the buses next
//!  guest runs (again)        -- running: timer and interrupt lines, as the state has them
//! ```
//!
//! All that must survive saving and restoring a machine is in [`State`], which lies in a block of memory that QEMU
//! saves and restores with the machine. What belongs to this process (devices, timer) is in statics.
//!
//! Everything runs on the threads of QEMU under its lock, so there is never more than one call at a time.

#![no_std]

mod log;
mod state;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use candor_qemu::devices::{self as qemu, MemoryRegion, MemoryRegionOps, Notifier, Object, Timer};
use candor_qemu::{c, number, options};
use log::log;
use state::{MOST_CHIPS, State};

/// The buses that are looked for, in this order, and their bit rates in bit/s, 0 for none.
const BUSES: [&CStr; 2] = [c"/objects/source", c"/objects/target"];
/// Bytes of the registers of an SJA1000; the rest of its window stays QEMU's.
const WINDOW_BYTES: u64 = 0x20;
/// More than a memory region, a timer needs in any known QEMU (see `docs/`): about 240 and 48.
const REGION_BYTES: usize = 8_192;
/// See [`REGION_BYTES`].
const TIMER_BYTES: usize = 512;

static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());
static STATE_REGION: AtomicPtr<MemoryRegion> = AtomicPtr::new(ptr::null_mut());
static TIMER: AtomicPtr<Timer> = AtomicPtr::new(ptr::null_mut());
static DEVICES: [AtomicPtr<Object>; MOST_CHIPS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_CHIPS];
/// The bit rates of the buses, from the options.
static RATES: [AtomicUsize; 2] = [AtomicUsize::new(500_000), AtomicUsize::new(500_000)];

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    log(format_args!("# the library has a defect and ends QEMU\n"));
    log::flush();
    // SAFETY: it takes nothing and never returns.
    unsafe { c::abort() }
}

/// QEMU calls this once, with arguments of the form `name=value`: `log`, a file; `source` and `target`, the bit rates of
/// the buses. Anything but 0 makes QEMU end with an error.
///
/// # Safety
/// `arguments` points to `count` strings that stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    _: u64,
    _: *const c_void,
    count: c_int,
    arguments: *const *mut c_char,
) -> c_int {
    // SAFETY: as QEMU gives them.
    for (name, value) in unsafe { options(count, arguments) } {
        match name {
            b"log" => log::open(value),
            b"source" => RATES[0].store(number(value) as usize, Relaxed),
            b"target" => RATES[1].store(number(value) as usize, Relaxed),
            _ => return 1,
        }
    }
    static NOTIFIER: Notifier = Notifier::new(ready);
    // SAFETY: the notifier stays; QEMU links it into a list.
    unsafe { qemu::qemu_add_machine_init_done_notifier((&raw const NOTIFIER).cast_mut()) };
    0
}

/// The state; there is one as soon as QEMU calls anything but [`ready`].
fn state() -> &'static mut State {
    // SAFETY: QEMU calls from one thread at a time, each call takes it once, and it stays as long as QEMU runs.
    unsafe { &mut *STATE.load(Relaxed) }
}

fn now_ns() -> u64 {
    // SAFETY: a number of a clock that there is.
    let now = unsafe { qemu::qemu_clock_get_ns(qemu::VIRTUAL) };
    u64::try_from(now).unwrap_or(0)
}

/// All devices are there: finds the controllers and lays windows over theirs.
extern "C" fn ready(_: *mut Notifier, _: *mut c_void) {
    let rates = [0, 1].map(|bus| RATES[bus].load(Relaxed) as u32);
    // SAFETY: memory that stays, of a size that QEMU's structure does not reach; the block belongs to nobody.
    let block = unsafe {
        let region = c::calloc(1, REGION_BYTES).cast();
        let mut error = ptr::null_mut();
        let bytes = size_of::<State>().next_multiple_of(65_536) as u64;
        qemu::memory_region_init_ram(
            region,
            ptr::null_mut(),
            c"candor-timed-bus".as_ptr(),
            bytes,
            &raw mut error,
        );
        STATE_REGION.store(region, Relaxed);
        qemu::memory_region_get_ram_ptr(region).cast::<State>()
    };
    // SAFETY: the block is as long as the state, aligned to a page, and nobody else has it.
    unsafe { block.write(State::new(rates)) };
    STATE.store(block, Relaxed);
    // SAFETY: memory that stays, of a size that QEMU's structure does not reach.
    unsafe {
        let timer = c::calloc(1, TIMER_BYTES).cast();
        qemu::timer_init_full(timer, ptr::null_mut(), qemu::VIRTUAL, 1, 0, tick, ptr::null_mut());
        TIMER.store(timer, Relaxed);
        qemu::object_child_foreach_recursive(qemu::object_get_root(), visit, ptr::null_mut());
        qemu::qemu_add_vm_change_state_handler(running, ptr::null_mut());
    }
    for chip in 0..state().chip_count() {
        overlay(chip);
    }
    log(format_args!(
        "# {} controllers, {} bytes of state\n",
        state().chip_count(),
        size_of::<State>()
    ));
    log::flush();
}

/// Keeps a device if it is a controller on one of the buses. Devices come in no useful order.
extern "C" fn visit(object: *mut Object, _: *mut c_void) -> c_int {
    // SAFETY: QEMU's object, and a name that stays.
    let kind = unsafe { CStr::from_ptr(qemu::object_get_typename(object)) };
    if kind != c"kvaser_pci" {
        return 0;
    }
    let mut error = ptr::null_mut();
    // SAFETY: an object with these properties.
    let (bus, address) = unsafe {
        let bus = qemu::object_property_get_link(object, c"canbus".as_ptr(), &raw mut error);
        (bus, qemu::object_property_get_int(object, c"addr".as_ptr(), &raw mut error))
    };
    // SAFETY: paths that stay.
    let find =
        |path: &&CStr| unsafe { qemu::object_resolve_path(path.as_ptr(), ptr::null_mut()) } == bus;
    let Some(bus) = BUSES.iter().position(find) else { return 0 };
    if let Some(at) = state().add_chip(bus as u8, (address >> 3) as u8) {
        // Those behind it move.
        for index in (at + 1..MOST_CHIPS).rev() {
            DEVICES[index].store(DEVICES[index - 1].load(Relaxed), Relaxed);
        }
        DEVICES[at].store(object, Relaxed);
    }
    0
}

/// Lays the registers of a controller over those of QEMU's.
fn overlay(chip: usize) {
    static OPS: MemoryRegionOps = MemoryRegionOps::bytes(read, write);
    let device = DEVICES[chip].load(Relaxed);
    // SAFETY: the window of this kind of device; memory that stays, of a size that QEMU's structure does not reach.
    unsafe {
        let window =
            qemu::object_resolve_path_component(device, c"kvaser_pci-sja[0]".as_ptr()).cast();
        let region = c::calloc(1, REGION_BYTES).cast();
        let name = c"candor-sja1000".as_ptr();
        qemu::memory_region_init_io(
            region,
            ptr::null_mut(),
            &raw const OPS,
            ptr::without_provenance_mut(chip),
            name,
            WINDOW_BYTES,
        );
        qemu::memory_region_add_subregion_overlap(window, 0, region, 1);
    }
}

extern "C" fn read(chip: *mut c_void, address: u64, _: u32) -> u64 {
    let now = now_ns();
    let state = state();
    state.advance(now);
    let value = state.read(chip.addr(), address as u8, now);
    follow(state);
    u64::from(value)
}

extern "C" fn write(chip: *mut c_void, address: u64, value: u64, _: u32) {
    let now = now_ns();
    let state = state();
    state.advance(now);
    state.write(chip.addr(), address as u8, value as u8, now);
    follow(state);
}

/// The timer: it was set for the next deadline, and may come a little late.
extern "C" fn tick(_: *mut c_void) {
    let state = state();
    state.advance(now_ns());
    follow(state);
}

/// Sets interrupt lines and the timer as the state says, and marks its memory as changed.
fn follow(state: &mut State) {
    for chip in 0..state.chip_count() {
        if let Some(level) = state.changed_level(chip) {
            set_interrupt(chip, level);
        }
    }
    arm(state);
    // SAFETY: the region of the state, as long as the state at least.
    unsafe {
        qemu::memory_region_set_dirty(STATE_REGION.load(Relaxed), 0, size_of::<State>() as u64)
    };
}

fn set_interrupt(chip: usize, level: bool) {
    // SAFETY: a device on a PCI bus.
    unsafe { qemu::pci_set_irq(DEVICES[chip].load(Relaxed).cast(), c_int::from(level)) };
}

fn arm(state: &State) {
    let timer = TIMER.load(Relaxed);
    match state.deadline().and_then(|at| i64::try_from(at).ok()) {
        // SAFETY: the timer of this library.
        Some(at) => unsafe { qemu::timer_mod_ns(timer, at) },
        // SAFETY: as above.
        None => unsafe { qemu::timer_del(timer) },
    }
}

/// The machine runs or stops; it may have been restored.
extern "C" fn running(_: *mut c_void, is_running: bool, _: c_int) {
    let state = state();
    log(format_args!("# {} at {} ns\n", if is_running { "runs" } else { "stops" }, now_ns()));
    log::flush();
    if !is_running {
        return;
    }
    if !state.is_sound() {
        log(format_args!("# this machine was saved with another library\n"));
        log::flush();
        // SAFETY: it takes nothing and never returns.
        unsafe { c::abort() }
    }
    for chip in 0..state.chip_count() {
        set_interrupt(chip, state.level(chip));
    }
    arm(state);
}
