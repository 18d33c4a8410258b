//! The engine: whatever the rules, frames and times are, nothing panics and every copy is counted once.
#![no_main]

use candor_causes::Cause;
use candor_engine::BusIndex;
use candor_engine::counters::Outcome;
use candor_engine::program::JobIndex;
use candor_engine::{Egress, Engine, Forward, Passage, Succession};
use candor_rules::file;
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::{ERR_FLAG, RTR_FLAG};

/// Takes copies and loses some of them.
struct Sink {
    next: u8,
    refused: u64,
    offered: u64,
    pending: Vec<JobIndex>,
}

impl Egress for Sink {
    fn is_up(&self, bus: BusIndex) -> bool {
        u16::from(self.next) % 7 != bus.0 + 1
    }

    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        self.offered += 1;
        assert!(copy.frame.len() <= 64);
        match self.next % 4 {
            0 => Outcome::Refused(Cause::QueueFull),
            1 => {
                self.pending.push(copy.job);
                Outcome::Pending
            }
            _ => Outcome::Handled,
        }
    }

    fn refused(&mut self, _: JobIndex, _: Cause) {
        self.refused += 1;
    }
}

/// A frame out of what is left of the input.
fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let (head, rest) = bytes.split_at_checked(6)?;
    let word = u32::from_le_bytes(head.get(..4)?.try_into().ok()?);
    let is_fd = head[4] & 1 != 0 && word & (RTR_FLAG | ERR_FLAG) == 0;
    let len = usize::from(head[5]) % if is_fd { 65 } else { 9 };
    let len = len.min(rest.len());
    let (data, rest) = rest.split_at(len);
    let frame = Frame::from_parts(word, data, is_fd.then_some(head[4] >> 1 & 3)).ok()?;
    Some((frame, rest))
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // What stands behind the mark is frames; without a mark the rules are.
    let mark = b"\n====\n";
    let at = input.windows(mark.len()).position(|part| part == mark);
    let (rules, mut bytes) = match at.and_then(|at| input.split_at_checked(at)) {
        Some((rules, rest)) => (rules, &rest[mark.len()..]),
        None => (input, input),
    };
    let Ok(rules) = core::str::from_utf8(rules) else { return };
    let include = |name: &str| match name {
        "ids.csv" => Ok(b"0x100, 0x300\n0x1F0, 0x18FEF1F0x\n".to_vec()),
        _ => Ok(include_bytes!("../../examples/gateway/car.dbc").to_vec()),
    };
    let (Some(table), _) = file::parse_with("fuzz", rules, &include) else { return };
    let mut engine = Engine::new(&table);
    let mut sink = Sink { next: 0, refused: 0, offered: 0, pending: Vec::new() };
    let (mut now, mut put_in, mut received, mut copies) = (0_u64, 0, 0, 0);
    while let Some((&[control, bus, wait], rest)) = bytes.split_first_chunk::<3>() {
        let Some((frame, rest)) = frame(rest) else { break };
        bytes = rest;
        if control == 0xFF {
            // The same rules anew: what was counted is told by the earlier engine.
            let mut next = Engine::new(&table);
            let succession = Succession::new(engine.program(), next.program());
            next.succeed(&mut engine, &succession);
            copies += engine.counters().jobs().iter().map(|job| job.total()).sum::<u64>();
            received += engine.counters().buses().iter().map(|bus| bus.received).sum::<u64>();
            sink.pending.clear();
            engine = next;
        }
        sink.next = control;
        // Now and then a long time passes.
        now = now.saturating_add(u64::from(wait).pow(if control & 8 == 0 { 2 } else { 8 }));
        let bus = BusIndex(u16::from(bus) % table.buses.len().max(1) as u16);
        let passage = Passage { hops: control >> 6, ..Passage::received_on(bus) };
        engine.handle(Nanos::from_nanos(now), bus, &frame, passage, &mut sink);
        if control & 16 != 0 {
            for job in sink.pending.drain(..) {
                engine.settle(job, Outcome::Refused(Cause::Stale));
            }
        }
        put_in += 1;
    }
    copies += engine.counters().jobs().iter().map(|job| job.total()).sum::<u64>();
    assert_eq!(copies, sink.offered + sink.refused, "copies are lost or counted twice");
    received += engine.counters().buses().iter().map(|bus| bus.received).sum::<u64>();
    assert_eq!(received, put_in, "frames are lost or counted twice");
});
