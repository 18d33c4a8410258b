//! [`Gateway`]: from the receive ring through the engine to the transmit queues.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use candor_causes::Cause;
use candor_engine::counters::{Counters, Outcome};
use candor_engine::{BusIndex, Engine, Forward, Passage, Program};
use candor_queue::spsc::{Consumer, Words};
use candor_queue::{Bands, Policy};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::EFF_FLAG;

use crate::source::Source;

/// Transmit queues of each bus, and the slots of each.
const BANDS: usize = 4;
const SLOTS: usize = 4;
/// How many frames a bus transmits in a turn.
const TRANSMITTED: usize = 1;

/// A bus that frames leave on.
struct Output {
    queue: Bands<Words<4>>,
    transmitted: u32,
    /// FNV-1a of all words that were transmitted, in their order.
    digest: u32,
}

/// A gateway with everything that it needs, allocated at the start.
pub(crate) struct Gateway {
    ring: Consumer<4>,
    engine: Engine,
    outputs: Vec<Output>,
    routed: u32,
}

impl Gateway {
    pub(crate) fn new(image: &[u8], ring: Consumer<4>) -> Self {
        let program = Program::from_image(image).expect("the image that build.rs made");
        let output = |_: &_| Output {
            queue: Bands::new(BANDS, SLOTS, Policy::RefuseNewest),
            transmitted: 0,
            digest: 0x811C_9DC5,
        };
        let outputs = program.buses().iter().map(output).collect();
        let program = Arc::new(program);
        let counters = Counters::new(&program);
        Self { ring, engine: Engine::with_counters(program, counters, None), outputs, routed: 0 }
    }

    /// Routes all frames that have been received, then transmits.
    pub(crate) fn turn(&mut self, turn: u32) {
        let Self { ring, engine, outputs, routed } = self;
        let now = Nanos::from_millis(u64::from(turn));
        while let Some(words) = ring.pop() {
            let (bus, frame) = unpacked(&words);
            let mut forward = |copy: Forward<'_>| {
                let output = &mut outputs[usize::from(copy.to.0)];
                match output.queue.push(band(copy.frame), packed(copy.to, copy.frame)) {
                    Ok(()) => Outcome::Handled,
                    Err(_) => Outcome::Refused(Cause::QueueFull),
                }
            };
            engine.handle(now, bus, &frame, Passage::received_on(bus), &mut forward);
            *routed += 1;
        }
        for output in outputs {
            for _ in 0..TRANSMITTED {
                let Some(words) = output.queue.pop() else { break };
                output.transmitted += 1;
                for word in words {
                    output.digest = (output.digest ^ word).wrapping_mul(0x0100_0193);
                }
            }
        }
    }

    /// How many frames the engine has decided about.
    #[cfg(target_os = "none")]
    pub(crate) const fn routed(&self) -> u32 {
        self.routed
    }

    /// What became of every frame.
    pub(crate) fn report(&self, source: &Source) -> String {
        let (sent, lost, missed) = (source.sent(), source.lost(), self.ring.missed());
        assert_eq!((u64::from(sent), lost), (u64::from(self.routed) + lost, missed));
        let mut text = String::new();
        let mut line = |arguments: core::fmt::Arguments<'_>| {
            let _ = text.write_fmt(arguments).and_then(|()| text.write_char('\n'));
        };
        line(format_args!("{sent} frames, {lost} lost before the engine, {} routed", self.routed));
        let counters = self.engine.counters();
        let program = self.engine.program();
        let buses = program.buses().iter().zip(counters.buses()).zip(&self.outputs);
        let mut queued = 0;
        for ((bus, counts), output) in buses {
            let waiting: usize = (0..BANDS).map(|band| output.queue.len(band)).sum();
            let lost: u64 = (0..BANDS).map(|band| output.queue.lost(band)).sum();
            queued += output.transmitted as usize + waiting;
            line(format_args!(
                "{}: {} received, {} unmatched; {} transmitted, {waiting} waiting, {lost} lost, digest {:08x}",
                bus.name, counts.received, counts.unmatched, output.transmitted, output.digest,
            ));
        }
        let mut handled = 0;
        for (job, counts) in program.jobs().iter().zip(counters.jobs()) {
            handled += counts.handled;
            line(format_args!(
                "{}: {} handled, {} refused",
                job.rule,
                counts.handled,
                counts.dropped()
            ));
        }
        assert_eq!(handled, queued as u64);
        text
    }
}

/// By the two highest bits of the identifier, 0 is the most urgent band.
fn band(frame: &Frame) -> usize {
    let shift = if frame.is_extended() { 27 } else { 9 };
    (frame.can_id() & !EFF_FLAG) as usize >> shift & (BANDS - 1)
}

fn unpacked(&[can_id, place, low, high]: &Words<4>) -> (BusIndex, Frame) {
    let data = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let frame = Frame::from_parts(can_id, &data[..(place & 0xF) as usize], None);
    (BusIndex((place >> 8) as u16), frame.expect("a legal frame"))
}

fn packed(bus: BusIndex, frame: &Frame) -> Words<4> {
    let word = |at: usize| {
        let bytes = core::array::from_fn(|byte| frame.data().get(at + byte).copied().unwrap_or(0));
        u32::from_le_bytes(bytes)
    };
    [frame.can_id(), u32::from(bus.0) << 8 | frame.len() as u32, word(0), word(4)]
}
