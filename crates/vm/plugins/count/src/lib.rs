//! Counts the instructions of a guest by address, from inside QEMU: a plugin of its translator.
//!
//! ```text
//!  QEMU translates a block -- translated: a counter for the address of each instruction
//!  QEMU executes it        -- executed:   the counter goes up, between the two marks
//!                          -- begins:     the mark: all counters are zero and count
//!                          -- ends:       the mark: they count no more and go into a file
//! ```
//!
//! A plugin is called as part of an instruction, on the thread that executes it. Nothing stops for
//! it and no time of the guest passes, so a guest that is counted takes the same nanoseconds as one
//! that is not.
//!
//! The functions of QEMU and their types are those of its header `qemu/qemu-plugin.h`, interface 1
//! (QEMU 6.0) to 7 (QEMU 11.1).

#![no_std]

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use candor_qemu::{c, number, options, plugin_interface};

/// A block of instructions, as QEMU hands it over.
type Block = *mut c_void;
/// An instruction of a block.
type Instruction = *mut c_void;
/// Called when a block was translated. Up to interface 6 with the plugin's number and the block,
/// since then with the block and the pointer that was registered.
type Translated = extern "C" fn(usize, usize);
/// Called before an instruction, with the number of the processor and the pointer that was
/// registered.
type Executed = extern "C" fn(c_uint, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(
        plugin: u64,
        callback: Translated,
        context: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: Block, index: usize) -> Instruction;
    fn qemu_plugin_insn_vaddr(instruction: Instruction) -> u64;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: Instruction,
        callback: Executed,
        flags: c_int,
        context: *mut c_void,
    );
}

/// From this one on, the block is the first thing that [`translated`] gets.
const BLOCK_FIRST: c_int = 7;
/// The callback reads no registers of the guest.
const NO_REGISTERS: c_int = 0;

/// Room for the addresses of all instructions that are ever executed: a power of two.
const ROOM: usize = 1 << 20;
/// By a hash of the address. No instruction is at address 0.
static ADDRESSES: [AtomicU64; ROOM] = [const { AtomicU64::new(0) }; ROOM];
static COUNTS: [AtomicU64; ROOM] = [const { AtomicU64::new(0) }; ROOM];
/// Instructions that found no room.
static LOST: AtomicU64 = AtomicU64::new(0);
static COUNTING: AtomicBool = AtomicBool::new(false);

/// The address of the first instruction of the marks, and the file, from the arguments.
static BEGIN: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
static FILE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

// Where panics unwind, it is only compiled, and what is compiled with it may need std, which has one.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing and never returns.
    unsafe { c::abort() }
}

/// QEMU calls this once, with arguments of the form `name=value`: `begin` and `end`, the decimal
/// addresses of the marks, and `counts`, the file. Anything but 0 makes QEMU end with an error.
///
/// # Safety
/// `arguments` points to `count` strings that stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    plugin: u64,
    _: *const c_void,
    count: c_int,
    arguments: *const *mut c_char,
) -> c_int {
    // SAFETY: as QEMU gives them.
    for (name, value) in unsafe { options(count, arguments) } {
        match name {
            b"begin" => BEGIN.store(number(value), Relaxed),
            b"end" => END.store(number(value), Relaxed),
            b"counts" => FILE.store(value.as_ptr().cast_mut(), Relaxed),
            _ => return 1,
        }
    }
    if BEGIN.load(Relaxed) == 0 || END.load(Relaxed) == 0 || FILE.load(Relaxed).is_null() {
        return 1;
    }
    // SAFETY: QEMU's own number of this plugin, and a function that stays.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated, ptr::null_mut()) };
    0
}

extern "C" fn translated(first: usize, second: usize) {
    let block = if plugin_interface() >= BLOCK_FIRST { first } else { second } as Block;
    // SAFETY: `block` is valid during this call.
    for index in 0..unsafe { qemu_plugin_tb_n_insns(block) } {
        // SAFETY: as above; there are so many.
        let instruction = unsafe { qemu_plugin_tb_get_insn(block, index) };
        // SAFETY: it is one of this block.
        let address = unsafe { qemu_plugin_insn_vaddr(instruction) };
        let (callback, context): (Executed, _) = if address == BEGIN.load(Relaxed) {
            (begins, 0)
        } else if address == END.load(Relaxed) {
            (ends, 0)
        } else if let Some(place) = place(address) {
            (executed, place)
        } else {
            (lost, 0)
        };
        let context = ptr::without_provenance_mut(context);
        // SAFETY: it is one of this block; the callback stays and takes the pointer as a number.
        unsafe {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, NO_REGISTERS, context);
        }
    }
}

/// The place of the counter of `address`, its own from now on; `None` if there is no room left.
/// Blocks are translated one after the other.
fn place(address: u64) -> Option<usize> {
    // Fibonacci hashing: the upper bits of the product are spread best.
    let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - ROOM.trailing_zeros());
    for step in 0..ROOM {
        let place = (hash as usize).wrapping_add(step) % ROOM;
        let slot = ADDRESSES.get(place)?;
        match slot.load(Relaxed) {
            0 => {
                slot.store(address, Relaxed);
                return Some(place);
            }
            known if known == address => return Some(place),
            _ => {}
        }
    }
    None
}

extern "C" fn executed(_: c_uint, place: *mut c_void) {
    if let Some(count) = COUNTS.get(place.addr()) {
        count_one(count);
    }
}

extern "C" fn lost(_: c_uint, _: *mut c_void) {
    count_one(&LOST);
}

/// The guest has one processor: nobody else counts.
fn count_one(count: &AtomicU64) {
    if COUNTING.load(Relaxed) {
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

extern "C" fn begins(_: c_uint, _: *mut c_void) {
    COUNTS.iter().for_each(|count| count.store(0, Relaxed));
    LOST.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
}

extern "C" fn ends(_: c_uint, _: *mut c_void) {
    if COUNTING.swap(false, Relaxed) {
        tell();
    }
}

/// Writes all counts into the file: address and count, eight bytes each, little-endian. At address 0
/// is what found no room, also if that is nothing: a file without it is not whole.
fn tell() {
    // SAFETY: the path is one of the arguments, which stay.
    let file = unsafe { c::creat(FILE.load(Relaxed), 0o600) };
    for (address, count) in ADDRESSES.iter().zip(&COUNTS) {
        if count.load(Relaxed) > 0 {
            pair(file, address.load(Relaxed), count.load(Relaxed));
        }
    }
    pair(file, 0, LOST.load(Relaxed));
    // SAFETY: `creat` returned it; if that failed, this does.
    unsafe { c::close(file) };
}

/// What cannot be written is missed by candor.
fn pair(file: c_int, address: u64, count: u64) {
    let bytes = [address.to_le_bytes(), count.to_le_bytes()];
    // SAFETY: there are so many bytes.
    unsafe { c::write(file, bytes.as_ptr().cast(), size_of_val(&bytes)) };
}
