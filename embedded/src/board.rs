//! The board: MPS2 with AN386, a Cortex-M4, as QEMU has it.

use core::cell::RefCell;

use candor_queue::{Policy, spsc};
use cortex_m::interrupt::{self, Mutex};
use cortex_m::peripheral::{SCB, syst::SystClkSource};
use cortex_m::{Peripherals, asm};
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::{debug, hprintln};
use emballoc::Allocator;

use crate::gateway::Gateway;
use crate::source::Source;
use crate::{IMAGE, RECEIVE_SLOTS, TURNS};

/// Reading the image needs most of it, and gives it back.
const HEAP_BYTES: usize = 224 * 1024;
/// SysTick counts down 24 bits.
const MOST_TICKS: u32 = 0x00FF_FFFF;
/// A loop of known length, which shows what a tick is: each turn has two instructions.
const CALIBRATION_TURNS: u32 = 2_000_000;

#[global_allocator]
static HEAP: Allocator<HEAP_BYTES> = Allocator::new();

static SOURCE: Mutex<RefCell<Option<Source>>> = Mutex::new(RefCell::new(None));

/// Stands for the interrupt of a controller.
#[exception]
fn PendSV() {
    interrupt::free(|section| {
        if let Some(source) = SOURCE.borrow(section).borrow_mut().as_mut() {
            source.burst();
        }
    });
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}

#[entry]
fn main() -> ! {
    let mut clock = Peripherals::take().expect("it is the first time").SYST;
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(MOST_TICKS);
    clock.clear_current();
    clock.enable_counter();
    let ticks_of = |work: &mut dyn FnMut()| {
        let before = cortex_m::peripheral::SYST::get_current();
        work();
        before.wrapping_sub(cortex_m::peripheral::SYST::get_current()) & MOST_TICKS
    };
    let calibration = ticks_of(&mut || asm::delay(CALIBRATION_TURNS));
    let per_tick = (2 * CALIBRATION_TURNS + calibration / 2) / calibration;

    let (producer, consumer) = spsc::queue(RECEIVE_SLOTS, Policy::OverwriteOldest);
    interrupt::free(|section| SOURCE.borrow(section).replace(Some(Source::new(producer))));
    let mut gateway = Gateway::new(IMAGE, consumer);
    let (mut ticks, mut idle) = (0_u64, 0_u64);
    for turn in 0..TURNS {
        SCB::set_pendsv();
        asm::dsb();
        asm::isb();
        ticks += u64::from(ticks_of(&mut || gateway.turn(turn)));
        // Measuring costs something, too.
        idle += u64::from(ticks_of(&mut || ()));
    }
    let source = interrupt::free(|section| SOURCE.borrow(section).take());
    let report = gateway.report(&source.expect("it was put there"));
    for line in report.lines() {
        hprintln!("{}", line);
    }
    let instructions = (ticks - idle) * u64::from(per_tick);
    let per_frame = instructions / u64::from(gateway.routed());
    hprintln!("# {} instructions a tick; {} instructions a frame", per_tick, per_frame);
    loop {
        debug::exit(debug::EXIT_SUCCESS);
    }
}
