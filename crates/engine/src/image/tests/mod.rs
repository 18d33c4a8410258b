//! Images are what programs are, and nothing else is taken.

mod damage;
mod golden;
mod records;
mod sample;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::string::{String, ToString};

use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, RTR_FLAG};
use sample::{crc8, everything, place};

use super::*;
use crate::counters::{Counters, Outcome};
use crate::edit::{Crc8Profile, Edit, Operands, Range, XorChecksum};
use crate::extension::Extension;
use crate::extension::action::{Action, Remap, Signal};
use crate::extension::payload::{Bytes, Payload};
use crate::{BusIndex, Engine, Filter, Forward, Passage, Rule, Table};

/// Frames that meet the rules of the samples, and some that do not.
const FRAMES: [&str; 16] = [
    "201#1122334455667788",
    "201#11",
    "201##31122334455667788",
    "201#R3",
    "7FF#",
    "300#0102030405060708",
    "12345678#1122334455667788",
    "12345600#11",
    "12345678#R1",
    "00000201#22",
    "00000202#22",
    "1FFFFFFF#",
    "20000004#0001000000000000",
    "20000088#0000000000000000",
    "18FEF100##01122334455667788",
    "18FEF1FF#00FF",
];

/// What the engine of a program does with all frames on all buses, twice.
fn decisions(program: &Arc<Program>) -> Vec<String> {
    let mut done = Vec::new();
    let mut engine = Engine::with_counters(program.clone(), Counters::new(program), None);
    for (time, frame) in (0..).zip(FRAMES.iter().chain(&FRAMES)) {
        let frame: Frame = frame.parse().unwrap();
        for bus in (0..program.buses().len() as u16).map(BusIndex) {
            let now = Nanos::from_micros(time * 10);
            let passage = Passage::received_on(bus);
            engine.handle(now, bus, &frame, passage, &mut |copy: Forward<'_>| {
                done.push(alloc::format!("{time} {copy:?}"));
                Outcome::Handled
            });
        }
    }
    done.push(alloc::format!("{:?}", engine.counters().jobs()));
    done.push(alloc::format!("{:?}", engine.counters().buses()));
    done
}

/// A changed image with the checksum that it would have.
fn with_checksum(mut image: Vec<u8>) -> Vec<u8> {
    let crc = crc32(&image[layout::CHECKED_FROM..]);
    image[12..16].copy_from_slice(&crc.to_le_bytes());
    image
}

#[test]
fn the_image_of_a_program_is_the_program() {
    let mut empty = everything();
    empty.rules.clear();
    let none = Table { max_hops: 255, ..Table::default() };
    for table in [everything(), empty, none] {
        let program = Arc::new(Program::new(&table));
        let image = program.to_image();
        let read = Arc::new(Program::from_image(&image).unwrap());
        assert_eq!(read.to_image(), image);
        assert_eq!(read.buses(), program.buses());
        assert_eq!(read.jobs(), program.jobs());
        for bus in (0..3).map(BusIndex) {
            assert_eq!(read.list_lengths(bus), program.list_lengths(bus));
        }
        assert_eq!(decisions(&read), decisions(&program));
    }
}

/// What is only one of two, or as large as it may be.
#[test]
fn flags_and_limits_are_kept() {
    let wide = || place("", 0, 16, None);
    let signal = |of_received| {
        let signal = Signal::new(wide(), of_received, 1.0, 1.0, None, wide()).unwrap();
        Action::Signal(Box::new(signal))
    };
    let last =
        [(0x7FF, 0x1FFF_FFFF | EFF_FLAG), (0x7FF | RTR_FLAG, 1), (0x1FFF_FFFF | EFF_FLAG, 2)];
    let remap = |drops| Action::Remap(Remap::new(last.to_vec(), drops));
    let crc8 = || Some(crc8(Crc8Profile::OneByte(1)));
    let range = Range { from: 0, to: 3, result: 4 };
    let xor_checksum = Some(XorChecksum { range, init: 9 });
    let edit = |crc8, xor_checksum| {
        let set = Operands { can_id: Some(1), ..Operands::default() };
        Edit { crc8, xor_checksum, set, ..Edit::default() }
    };
    let with_action = |action| {
        let extension = Extension { actions: [action].into(), ..Extension::default() };
        Rule { extension, ..Rule::new("action", BusIndex(0), BusIndex(1)) }
    };
    let longest = Payload { data: [Bytes::new(&[(1, 0xFF); 64])].into(), ..Payload::default() };
    let extension = Extension { payload: longest, ..Extension::default() };
    let rule = |name: &str| Rule::new(name, BusIndex(0), BusIndex(1));
    let rules = Vec::from([
        with_action(signal(true)),
        with_action(signal(false)),
        with_action(remap(true)),
        with_action(remap(false)),
        Rule { edit: edit(crc8(), None), ..rule("crc8") },
        Rule { edit: edit(None, xor_checksum), ..rule("xor_checksum") },
        Rule { edit: edit(None, None), ..rule("set") },
        Rule { extension, ..rule("data") },
        rule(&"n".repeat(4_096)),
    ]);
    let image = Program::new(&Table { rules, ..everything() }).to_image();
    let read = Program::from_image(&image).unwrap_or_else(|error| panic!("{error}"));
    assert!(read.to_image() == image);
}

#[test]
fn a_byte_has_a_place() {
    let outline = Outline::read(&Program::new(&everything()).to_image()).unwrap();
    let place = |at: usize| ImageError::new(outline.place(at), String::new()).to_string();
    let table_end = layout::HEADER_BYTES + 22 * 24;
    for (at, expected) in [
        (0, "header: "),
        (31, "header: "),
        (32, "section table, entry 0: "),
        (55, "section table, entry 0: "),
        (56, "section table, entry 1: "),
        (table_end - 1, "section table, entry 21: "),
    ] {
        assert_eq!(place(at), expected, "{at}");
    }
    let mut padded = 0;
    for (extent, next) in outline.sections.iter().zip(&outline.sections[1..]) {
        let name = extent.section.name();
        let end = extent.offset + extent.count as usize * extent.section.record_bytes();
        assert_eq!(place(extent.offset), alloc::format!("section {name}, record 0: "));
        let last = alloc::format!("section {name}, record {}: ", extent.count - 1);
        assert_eq!(place(end - 1), last);
        if end < next.offset {
            padded += 1;
            assert_eq!(place(end), alloc::format!("section {name}: "));
        }
    }
    assert!(padded > 0, "no section of the sample is padded");
}

/// If the sample has none of something, the tests see nothing of it.
#[test]
fn the_sample_has_records_of_every_section() {
    let image = Program::new(&everything()).to_image();
    let outline = Outline::read(&image).unwrap();
    for extent in &outline.sections {
        assert_ne!(extent.count, 0, "{}", extent.section.name());
        assert_eq!(extent.offset % 8, 0, "{}", extent.section.name());
    }
    assert_eq!(image.len() % 8, 0);
}

#[test]
fn many_masks_and_many_identifiers_are_kept() {
    let extended = 0x8000_0000;
    let rules = (0..500_u32).map(|index| {
        let mask = 0xC000_0000 | (0x1FFF_FFFF & !((1 << (index % 25)) - 1));
        let masked =
            Filter { can_id: ((index * 0x2_4321) & mask) | extended, mask, inverted: false };
        let filters = Vec::from([masked, Filter::standard(index as u16), Filter::extended(index)]);
        Rule { filters, ..Rule::new(index.to_string(), BusIndex(0), BusIndex(1)) }
    });
    // More masks than a cluster takes.
    let scattered = (0..80_u32).map(|index| {
        let mask = 0xC000_0000 | (0x1FFF_0000_u32.rotate_right(index % 16) & 0x1FFF_FFFF) ^ index;
        let filters = Vec::from([Filter { can_id: extended, mask, inverted: false }]);
        let name = alloc::format!("scattered {index}");
        Rule { filters, ..Rule::new(name, BusIndex(0), BusIndex(2)) }
    });
    let rules = rules.chain(scattered).collect();
    let program = Arc::new(Program::new(&Table { rules, ..everything() }));
    let image = program.to_image();
    let read = Arc::new(Program::from_image(&image).unwrap());
    assert_eq!(read.to_image(), image);
    assert_eq!(decisions(&read), decisions(&program));
}

/// A byte that is changed is seen, or makes another program, which does not panic.
#[test]
fn every_changed_byte_is_refused_or_gives_a_program() {
    // On one bus, so that few slots are between what differs.
    let mut table = everything();
    table.buses.truncate(1);
    for rule in &mut table.rules {
        (rule.from, rule.to, rule.allow_return) = (BusIndex(0), [BusIndex(0)].into(), true);
    }
    let image = Program::new(&table).to_image();
    let outline = Outline::read(&image).unwrap();
    let standard = outline.extent(Section::Standard);
    let slots = standard.offset..standard.offset + standard.count as usize * 4;
    let (mut refused, mut taken) = (0, 0);
    let mut look = |at: usize, change: u8| {
        let mut changed = image.clone();
        changed[at] ^= change;
        match Program::from_image(&with_checksum(changed)) {
            Err(error) => {
                assert!(!error.reason.is_empty());
                refused += 1;
            }
            Ok(program) => {
                let _ = decisions(&Arc::new(program));
                taken += 1;
            }
        }
    };
    for at in 0..image.len() {
        if !slots.contains(&at) {
            for change in [0x01, 0x10, 0xFF] {
                look(at, change);
            }
        } else if at % 61 == 0 {
            // The slots are alike.
            look(at, 1 << (at % 8));
        }
    }
    assert!(refused > 1_000 && taken > 1_000, "{refused} refused, {taken} taken");
}

#[test]
fn no_prefix_of_an_image_is_one() {
    let image = Program::new(&everything()).to_image();
    for length in (0..image.len()).filter(|length| *length < 700 || length % 97 == 0) {
        assert!(Program::from_image(&image[..length]).is_err(), "{length}");
        // Not even if it says that this is its length.
        if length >= layout::HEADER_BYTES {
            let mut short = image[..length].to_vec();
            short[16..24].copy_from_slice(&(length as u64).to_le_bytes());
            assert!(Program::from_image(&with_checksum(short)).is_err(), "{length}");
        }
    }
}
