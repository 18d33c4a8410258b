//! Network cards of the guest: the tail register of each one is laid over, so that its frames leave at the speed of the
//! link, and frames arrive from its cable.
//!
//! ```text
//!  driver writes the tail --> TestBed::send --> when a frame has left: the card's own tail register, up to this frame
//!                                               (it writes the descriptors back and interrupts, as ever)
//! ```
//!
//! The cards are those of Intel's 8254x, `e1000` in QEMU. Registers: PCI/PCI-X Family of Gigabit Ethernet Controllers,
//! Software Developer's Manual, revision 4.0, chapter 13.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use candor_hardware::ethernet::{Outgoing, Ring, next_frame};
use candor_qemu::devices::{self as qemu, MemoryRegion, MemoryRegionOps, NetClient, Object};
use candor_test_bed::MOST_CARDS;

use crate::machine::lay;
use crate::{Around, give_up, with_bed, with_bed_now};

/// The kind of device that is a card, and its registers.
const CARD: (&CStr, &CStr) = (c"e1000", c"e1000-mmio[0]");
const REGISTER_BYTES: u64 = 0x2_0000;
/// Four bytes, in the order of bytes of the guest.
const WORD: (u32, u64) = (2, 1);

mod register {
    /// Transmit control; bit 1 enables.
    pub(super) const TCTL: u64 = 0x0400;
    /// The ring of descriptors: its address, low and high, and its bytes.
    pub(super) const TDBAL: u64 = 0x3800;
    pub(super) const TDBAH: u64 = 0x3804;
    pub(super) const TDLEN: u64 = 0x3808;
    /// The first descriptor that is the card's, and the first one behind that is not.
    pub(super) const TDH: u64 = 0x3810;
    pub(super) const TDT: u64 = 0x3818;
}
const TCTL_EN: u32 = 1 << 1;

/// A card, and the end of its cable.
struct Card {
    cable_name: AtomicPtr<c_char>,
    cable: AtomicPtr<NetClient>,
    registers: AtomicPtr<MemoryRegion>,
}

static CARDS: [Card; MOST_CARDS] = [const {
    Card {
        cable_name: AtomicPtr::new(ptr::null_mut()),
        cable: AtomicPtr::new(ptr::null_mut()),
        registers: AtomicPtr::new(ptr::null_mut()),
    }
}; MOST_CARDS];
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn all() -> &'static [Card] {
    &CARDS[..COUNT.load(Relaxed)]
}

/// The next card is that whose cable has this name; whether there is room.
pub(crate) fn name(cable: &CStr) -> bool {
    let index = COUNT.load(Relaxed);
    let Some(card) = CARDS.get(index) else { return false };
    card.cable_name.store(cable.as_ptr().cast_mut(), Relaxed);
    COUNT.store(index + 1, Relaxed);
    true
}

/// Finds the cards and their cables, and lays tail registers over theirs.
pub(crate) fn find() {
    // SAFETY: a function that stays.
    unsafe {
        qemu::object_child_foreach_recursive(qemu::object_get_root(), visit, ptr::null_mut())
    };
    for (index, card) in all().iter().enumerate() {
        let name = card.cable_name.load(Relaxed);
        // SAFETY: a name that stays.
        let cable = unsafe { qemu::qemu_find_netdev(name) };
        let registers = card.registers.load(Relaxed);
        if cable.is_null() || registers.is_null() {
            // SAFETY: a name that stays.
            let name = unsafe { CStr::from_ptr(name) };
            give_up(format_args!("the machine has no network card with a cable {name:?}"));
        }
        card.cable.store(cable, Relaxed);
        // SAFETY: a memory region.
        if unsafe { qemu::memory_region_size(registers) } != REGISTER_BYTES {
            give_up(format_args!(
                "the timed buses do not fit into this QEMU: the registers of {:?}",
                CARD.0
            ));
        }
        static OPS: MemoryRegionOps = MemoryRegionOps::words(read_tail, write_tail);
        lay(registers, register::TDT, &OPS, index, c"candor-e1000", 4);
    }
}

/// Keeps the registers of a device if it is one of the cards.
extern "C" fn visit(object: *mut Object, _: *mut c_void) -> c_int {
    // SAFETY: QEMU's object, and a name that stays.
    let kind = unsafe { CStr::from_ptr(qemu::object_get_typename(object)) };
    if kind != CARD.0 {
        return 0;
    }
    let mut error = ptr::null_mut();
    // SAFETY: an object with this property; the text is nobody else's and stays.
    let cable =
        unsafe { qemu::object_property_get_str(object, c"netdev".as_ptr(), &raw mut error) };
    if cable.is_null() {
        return 0;
    }
    for card in all() {
        // SAFETY: two texts that stay.
        let is_it =
            unsafe { CStr::from_ptr(card.cable_name.load(Relaxed)) == CStr::from_ptr(cable) };
        if is_it {
            // SAFETY: a device of QEMU's, and a name that stays.
            let registers = unsafe { qemu::object_resolve_path_component(object, CARD.1.as_ptr()) };
            card.registers.store(registers.cast(), Relaxed);
        }
    }
    0
}

extern "C" fn read_tail(card: *mut c_void, _: u64, _: u32) -> u64 {
    with_bed(|bed| bed.tail(card.addr() as u8)).into()
}

extern "C" fn write_tail(card: *mut c_void, _: u64, value: u64, _: u32) {
    with_bed_now(|bed, now| bed.send(card.addr() as u8, value as u16, now, &mut Around));
}

impl Card {
    fn of(card: u8) -> Option<&'static Self> {
        all().get(usize::from(card))
    }

    fn read(&self, register: u64) -> u32 {
        let (mut value, (operation, attributes)) = (0, WORD);
        // SAFETY: the registers of a device of QEMU's.
        unsafe {
            qemu::memory_region_dispatch_read(
                self.registers.load(Relaxed),
                register,
                &raw mut value,
                operation,
                attributes,
            )
        };
        value as u32
    }

    fn set_tail(&self, tail: u16) {
        let (operation, attributes) = WORD;
        // SAFETY: the registers of a device of QEMU's, below those that are laid over them.
        unsafe {
            qemu::memory_region_dispatch_write(
                self.registers.load(Relaxed),
                register::TDT,
                tail.into(),
                operation,
                attributes,
            )
        };
    }
}

/// See [`candor_test_bed::Machine::outgoing`].
pub(crate) fn outgoing(card: u8, tail: u16) -> Option<(u16, Outgoing)> {
    let card = Card::of(card)?;
    let head = card.read(register::TDH) as u16;
    if head == tail {
        return None;
    }
    let base = [register::TDBAL, register::TDBAH].map(|it| u64::from(card.read(it)));
    let ring =
        Ring { base: base[0] | base[1] << 32, count: (card.read(register::TDLEN) / 16) as u16 };
    let is_enabled = card.read(register::TCTL) & TCTL_EN != 0;
    let frame = is_enabled.then(|| next_frame(ring, head, tail, &mut read_memory)).flatten();
    if frame.is_none() {
        // The card knows what to do with it.
        card.set_tail(tail);
    }
    Some((head, frame?))
}

/// Reads the guest's memory.
fn read_memory(address: u64, bytes: &mut [u8]) {
    // SAFETY: the address space of all memory, which stays; any address will do, and there is room for so many bytes.
    unsafe {
        qemu::address_space_rw(
            (&raw const qemu::address_space_memory).cast_mut(),
            address,
            WORD.1,
            bytes.as_mut_ptr().cast(),
            bytes.len() as u64,
            false,
        )
    };
}

/// See [`candor_test_bed::Machine::release`].
pub(crate) fn release(card: u8, first: u16, next: u16) {
    // After a reset the card begins elsewhere.
    if let Some(card) = Card::of(card)
        && card.read(register::TDH) == u32::from(first)
    {
        card.set_tail(next);
    }
}

/// See [`candor_test_bed::Machine::arrive`].
pub(crate) fn arrive(card: u8, frame: &[u8]) -> bool {
    let Some(card) = Card::of(card) else { return false };
    let cable = card.cable.load(Relaxed);
    // SAFETY: a cable of QEMU's; bytes that are there.
    unsafe {
        qemu::qemu_can_send_packet(cable) != 0
            && qemu::qemu_send_packet(cable, frame.as_ptr(), frame.len() as c_int) > 0
    }
}
