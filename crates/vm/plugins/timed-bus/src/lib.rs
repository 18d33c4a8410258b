//! Lays the test bed of [`candor_test_bed`] around the guest of a stock QEMU, from inside: buses that take their time to the bit,
//! SJA1000 controllers with all their registers, and a tester that is no program of the guest.
//!
//! ```text
//!  QEMU reads the library    -- qemu_plugin_install: options
//!  all devices are there     -- ready:   self test, the bed in a block of the machine's memory, windows over controllers
//!  the machine runs (again)  -- running: the plan of this process; timer and interrupt lines, as the bed has them
//!  guest reads and writes    -- controllers: the registers of one, at the exact instruction; port: start and state
//!                                        cards: frames to send, which leave at the speed of the link
//!  virtual time passes       -- tick:    what happens on the buses next
//! ```
//!
//! | option | |
//! |---|---|
//! | `bus=NAME` | a bus of the machine, `/objects/NAME`; the first one is bus 0 |
//! | `cable=NAME` | the cable of a network card; that of the first one is at card 0 |
//! | `plan=FILE` | what the tester does ([`candor_test_bed::Plan`]) |
//! | `records=FILE` | where [`candor_test_bed::Record`]s go |
//! | `done=NAME` | the character device that gets a byte when the tester is done |
//!
//! All that must survive saving and restoring a machine is in [`TestBed`], which lies in a block of memory that QEMU
//! saves and restores with the machine. What belongs to this process (devices, timer, plan) is in statics.
//!
//! Everything runs on the threads of QEMU under its lock, so there is never more than one call at a time; should there be, the
//! second one ends QEMU ([`Exclusive`]).

#![no_std]

mod cards;
mod check;
mod file;
mod machine;
mod plan;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use candor_hardware::ethernet::Outgoing;
use candor_qemu::devices::{self as qemu, MemoryRegion, Notifier, Timer};
use candor_qemu::exclusive::Exclusive;
use candor_qemu::{c, options};
use candor_test_bed::{Event, Machine, Record, TestBed};

/// More than a memory region, a timer needs in any known QEMU: about 240 and 48.
const REGION_BYTES: usize = 8_192;
/// See [`REGION_BYTES`].
const TIMER_BYTES: usize = 512;

/// In memory of the machine; null until [`ready`].
static BED: Exclusive<AtomicPtr<TestBed>> = Exclusive::new(AtomicPtr::new(ptr::null_mut()));
static BED_REGION: AtomicPtr<MemoryRegion> = AtomicPtr::new(ptr::null_mut());
static TIMER: AtomicPtr<Timer> = AtomicPtr::new(ptr::null_mut());
/// The name of the character device that says when the tester is done.
static TESTER_DONE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

// Where panics unwind, it is only compiled, and what is compiled with it may need std, which has one.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    file::complain(format_args!("the library of the timed buses has a defect and ends QEMU"));
    // SAFETY: it takes nothing and never returns.
    unsafe { c::abort() }
}

/// Ends QEMU with a sentence on standard error.
fn give_up(reason: fmt::Arguments<'_>) -> ! {
    file::complain(reason);
    // SAFETY: it never returns.
    unsafe { c::exit(1) }
}

/// QEMU calls this once. Anything but 0 makes QEMU end with an error.
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
        let is_taken = match name {
            b"bus" => machine::name_bus(value),
            b"cable" => cards::name(value),
            b"plan" => plan::load(value),
            b"records" => file::open(value),
            b"done" => {
                TESTER_DONE.store(value.as_ptr().cast_mut(), Relaxed);
                true
            }
            _ => false,
        };
        if !is_taken {
            return 1;
        }
    }
    static NOTIFIER: Notifier = Notifier::new(ready);
    // SAFETY: the notifier stays; QEMU links it into a list.
    unsafe { qemu::qemu_add_machine_init_done_notifier((&raw const NOTIFIER).cast_mut()) };
    0
}

/// Lends the bed; there is one as soon as QEMU calls anything but [`ready`].
fn with_bed<R>(body: impl FnOnce(&mut TestBed) -> R) -> R {
    BED.with(|bed| {
        // SAFETY: null, or a bed that stays as long as QEMU runs; who has the pointer has the bed.
        let bed = unsafe { bed.get_mut().as_mut() };
        bed.map_or_else(|| give_up(format_args!("the timed buses are not there yet")), body)
    })
}

/// Lends the bed when everything until now has happened; what it has changed takes effect.
fn with_bed_now<R>(body: impl FnOnce(&mut TestBed, u64) -> R) -> R {
    let now = now_ns();
    with_bed(|bed| {
        bed.advance(plan::plan().as_ref(), now, &mut Around);
        let result = body(bed, now);
        follow(bed);
        result
    })
}

fn now_ns() -> u64 {
    // SAFETY: a number of a clock that there is.
    let now = unsafe { qemu::qemu_clock_get_ns(qemu::VIRTUAL) };
    u64::try_from(now).unwrap_or(0)
}

/// Memory that stays, full of zeros.
fn memory<T>(bytes: usize) -> *mut T {
    // SAFETY: any size will do.
    let memory = unsafe { c::calloc(1, bytes) };
    if memory.is_null() {
        give_up(format_args!("there is no memory for the timed buses"));
    }
    memory.cast()
}

/// All devices are there.
extern "C" fn ready(_: *mut Notifier, _: *mut c_void) {
    let timer = memory::<Timer>(TIMER_BYTES);
    // SAFETY: memory that stays, of a size that QEMU's structure does not reach.
    unsafe {
        qemu::timer_init_full(timer, ptr::null_mut(), qemu::VIRTUAL, 1, 0, tick, ptr::null_mut());
    }
    if let Err(reason) = check::layouts(timer) {
        give_up(format_args!("the timed buses do not fit into this QEMU: {reason}"));
    }
    TIMER.store(timer, Relaxed);
    let region = memory(REGION_BYTES);
    let mut error = ptr::null_mut();
    let bytes = size_of::<TestBed>().next_multiple_of(65_536) as u64;
    let name: &CStr = c"candor-test-bed";
    // SAFETY: as above; the block belongs to nobody.
    let block = unsafe {
        qemu::memory_region_init_ram(region, ptr::null_mut(), name.as_ptr(), bytes, &raw mut error);
        qemu::memory_region_get_ram_ptr(region).cast::<TestBed>()
    };
    BED_REGION.store(region, Relaxed);
    // SAFETY: the block is as long as the bed, aligned to a page, and nobody else has it.
    unsafe { block.write(TestBed::new(machine::bus_count())) };
    BED.with(|bed| *bed.get_mut() = block);
    machine::find();
    cards::find();
    // SAFETY: a function that stays.
    unsafe { qemu::qemu_add_vm_change_state_handler(running, ptr::null_mut()) };
}

/// The timer: it was set for the next deadline, and may come a little late.
extern "C" fn tick(_: *mut c_void) {
    with_bed_now(|_, _| ());
}

/// What is around the bed: a file for records, and the cards of the guest.
struct Around;

impl Machine for Around {
    /// Keeps a record. When the tester is done, the guest learns it.
    fn note(&mut self, record: Record) {
        file::write(&record.to_bytes());
        if record.event == Event::Done {
            file::flush();
            signal_done();
        }
    }

    fn outgoing(&mut self, card: u8, tail: u16) -> Option<(u16, Outgoing)> {
        cards::outgoing(card, tail)
    }

    fn release(&mut self, card: u8, first: u16, next: u16) {
        cards::release(card, first, next);
    }

    fn arrive(&mut self, card: u8, frame: &[u8]) -> bool {
        cards::arrive(card, frame)
    }
}

/// A byte arrives at the guest's serial port.
fn signal_done() {
    let name = TESTER_DONE.load(Relaxed);
    if name.is_null() {
        return;
    }
    // SAFETY: a name that stays; a device of QEMU.
    unsafe {
        let device = qemu::qemu_chr_find(name);
        if !device.is_null() {
            qemu::qemu_chr_be_write(device, b"\n".as_ptr(), 1);
        }
    }
}

/// Sets interrupt lines and the timer as the bed says, and marks its memory as changed.
fn follow(bed: &mut TestBed) {
    for controller in 0..bed.controller_count() {
        if let Some(level) = bed.changed_level(controller) {
            machine::set_interrupt(controller, level);
        }
    }
    arm(bed);
    // SAFETY: the region of the bed, as long as the bed at least.
    unsafe {
        qemu::memory_region_set_dirty(BED_REGION.load(Relaxed), 0, size_of::<TestBed>() as u64)
    };
}

fn arm(bed: &TestBed) {
    let timer = TIMER.load(Relaxed);
    match bed.deadline().and_then(|at| i64::try_from(at).ok()) {
        // SAFETY: the timer of this library.
        Some(at) => unsafe { qemu::timer_mod_ns(timer, at) },
        // SAFETY: as above.
        None => unsafe { qemu::timer_del(timer) },
    }
}

/// The machine runs or stops; it may have been restored.
extern "C" fn running(_: *mut c_void, is_running: bool, _: c_int) {
    file::flush();
    if is_running {
        with_bed(go_on);
    }
}

/// The machine runs (again).
fn go_on(bed: &mut TestBed) {
    if !bed.is_sound() {
        give_up(format_args!("this machine was saved with another library of timed buses"));
    }
    if let Some(plan) = plan::plan().filter(|plan| !bed.has_plan(plan))
        && let Err(error) = bed.set_up(&plan, now_ns())
    {
        give_up(format_args!("the tester cannot be set up: {error}"));
    }
    for controller in 0..bed.controller_count() {
        machine::set_interrupt(controller, bed.level(controller));
    }
    follow(bed);
}
