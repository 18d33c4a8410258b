//! [`Gateway`]: from the receive ring through the engine to the transmit queues.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use candor_causes::Cause;
use candor_engine::counters::{Counters, Outcome};
use candor_engine::{BusIndex, Engine, Forward, Passage, Program};
use candor_queue::bands::MOST_BANDS;
use candor_queue::spsc::{Consumer, Words};
use candor_queue::user::Config;
use candor_queue::{Acceptance, Policy, User};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::EFF_FLAG;

use crate::source::Source;

/// The slots of each transmit queue, and of the queue for requests.
const SLOTS: usize = 4;
/// The requests of a tester that a program on the board answers.
const REQUESTS: Acceptance = Acceptance { code: 0x7E0, mask: EFF_FLAG | 0x7F8 };
/// Its answers have this bit.
const ANSWER: u32 = 8;
/// How many frames a bus transmits in a turn.
const TRANSMITTED: usize = 1;

/// A bus that frames leave on.
struct Output {
    queues: User<Words<4>>,
    answered: u32,
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
        let config = Config {
            receive: REQUESTS,
            receive_slots: SLOTS,
            receive_policy: Policy::OverwriteOldest,
            transmit: transmit_queues(),
            transmit_slots: SLOTS,
        };
        let output = |_: &_| Output {
            queues: User::new(&config),
            answered: 0,
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
            // The queues count what they do not take.
            let _ = outputs[usize::from(bus.0)].queues.deliver(frame.can_id(), words);
            let mut forward = |copy: Forward<'_>| {
                let output = &mut outputs[usize::from(copy.to.0)];
                match output.queues.send(copy.frame.can_id(), packed(copy.to, copy.frame)) {
                    Ok(()) => Outcome::Handled,
                    Err(_) => Outcome::Refused(Cause::QueueFull),
                }
            };
            engine.handle(now, bus, &frame, Passage::received_on(bus), &mut forward);
            *routed += 1;
        }
        for output in outputs {
            if let Some([request, rest @ ..]) = output.queues.receive() {
                let [place, low, high] = rest;
                let answer = [request | ANSWER, place, low, high];
                output.answered += u32::from(output.queues.send(answer[0], answer).is_ok());
            }
            for _ in 0..TRANSMITTED {
                let Some(words) = output.queues.next_to_transmit() else { break };
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
        let (mut queued, mut answered) = (0, 0);
        for ((bus, counts), output) in buses {
            let (received, sent) = (output.queues.received(), output.queues.sent());
            let waiting: usize = (0..MOST_BANDS).map(|queue| sent.len(queue)).sum();
            let lost: u64 = (0..MOST_BANDS).map(|queue| sent.lost(queue)).sum();
            answered += u64::from(output.answered);
            queued += output.transmitted as usize + waiting;
            line(format_args!(
                "{}: {} received, {} unmatched, {} requests answered and {} lost; \
                 {} transmitted, {waiting} waiting, {lost} lost, digest {:08x}",
                bus.name,
                counts.received,
                counts.unmatched,
                output.answered,
                received.lost(),
                output.transmitted,
                output.digest,
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
        assert_eq!(handled + answered, queued as u64);
        text
    }
}

/// What each transmit queue takes, by the two highest bits of the identifier: a queue for standard ones before
/// one for extended ones, as in arbitration.
fn transmit_queues() -> Vec<Acceptance> {
    let queues = |bits: u32| {
        [
            Acceptance { code: bits << 9, mask: EFF_FLAG | 3 << 9 },
            Acceptance { code: EFF_FLAG | bits << 27, mask: EFF_FLAG | 3 << 27 },
        ]
    };
    (0..4).flat_map(queues).collect()
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
