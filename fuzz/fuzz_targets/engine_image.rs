//! Program images: bytes are refused, or are the only image of a program that handles frames. The checksum
//! is put right first, so that what it protects is read.
#![no_main]

use std::sync::Arc;

use candor_engine::counters::{Counters, Outcome};
use candor_engine::image::crc32;
use candor_engine::{BusIndex, Engine, Forward, Passage, Program};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::{ERR_FLAG, RTR_FLAG};

/// What the rules of the seeds take, among others.
const WORDS: [u32; 12] = [
    0x201,
    0x123,
    0x7FF,
    0x300,
    0x4000_0201,
    0x2000_0004,
    0x98FE_F100,
    0x98FE_F1F0,
    0x9234_5678,
    0x9FFF_FFFF,
    0x8000_0201,
    0xC000_0001,
];
/// How many frames come out of the image itself, from its end.
const OWN_FRAMES: usize = 32;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut image = input.to_vec();
    if let Some(checked) = image.get(16..) {
        let crc = crc32(checked).to_le_bytes();
        image[12..16].copy_from_slice(&crc);
    }
    let Ok(program) = Program::from_image(&image) else { return };
    assert!(program.to_image() == image, "another image of the same program");
    let program = Arc::new(program);
    let buses = program.buses().len() as u16;
    let mut engine = Engine::with_counters(program.clone(), Counters::new(&program), None);
    let own = image.rchunks_exact(4).take(OWN_FRAMES);
    let words = own.filter_map(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    let mut handled = 0;
    for (time, word) in (0..).zip(WORDS.into_iter().chain(words)) {
        let is_fd = time % 3 == 0 && word & (RTR_FLAG | ERR_FLAG) == 0;
        let data = [time as u8; 64];
        let len = if is_fd { [0, 8, 64][time as usize / 3 % 3] } else { time as usize % 9 };
        let Ok(frame) = Frame::from_parts(word, &data[..len], is_fd.then_some(1)) else { continue };
        for bus in (0..buses.min(8)).map(BusIndex) {
            let passage = Passage::received_on(bus);
            engine.handle(Nanos::from_micros(time), bus, &frame, passage, &mut |copy: Forward<
                '_,
            >| {
                assert!(usize::from(copy.to.0) < usize::from(buses));
                Outcome::Handled
            });
            handled += 1;
        }
    }
    let received: u64 = engine.counters().buses().iter().map(|bus| bus.received).sum();
    assert_eq!(received, handled, "frames are lost or counted twice");
});
