//! Each check of an image as a whole, with the words in which it fails.

use alloc::boxed::Box;
use alloc::string::ToString;

use super::sample::everything;
use super::with_checksum;
use crate::Program;

/// A number of four bytes.
pub(super) const fn n(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn headers_are_checked() {
    let image = Program::new(&everything()).to_image();
    for (at, bytes, expected) in [
        (0, &b"X"[..], "header: this is no program image; one begins with CANDORPG"),
        (
            8,
            &n(1),
            "header: the image has version 1, and this program reads version 2; compile the rules again with this program",
        ),
        (16, &n(24), "header: the length is 24 bytes, but there are 54048"),
        (24, &n(21), "header: there are 21 sections; an image has 22"),
        (24, &n(23), "section table, entry 22: the kind 0 is unknown"),
        (24, &n(u32::MAX), "section table, entry 22: the kind 0 is unknown"),
        (28, &[0], "header: max_hops is 0; a frame may pass 1 to 255 times"),
        (
            29,
            &[1],
            "header: byte 29 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (32, &n(99), "section table, entry 0: the kind 99 is unknown"),
        (32, &n(2), "section table, entry 0: the section strings is not at its place"),
        (36, &n(25), "section table, entry 0: a record of buses has 24 bytes, not 25"),
        (40, &n(564), "section table, entry 0: the section buses begins at byte 560, not 564"),
        (48, &n(4), "section table, entry 1: the section strings begins at byte 656, not 632"),
        (
            48,
            &n(u32::MAX),
            "section table, entry 0: the section buses has 103079215080 bytes, but the image has 53488 from there on",
        ),
        (
            52,
            &n(1),
            "section table, entry 0: byte 52 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (32 + 21 * 24 + 16, &n(0), "header: the sections end at byte 53792, the image at 54048"),
    ] {
        let mut damaged = image.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        let error = Program::from_image(&with_checksum(damaged)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{at}: {bytes:x?}");
    }
    let error = |image: &[u8]| Program::from_image(image).unwrap_err().to_string();
    assert_eq!(error(&image[..31]), "header: there are 31 bytes; a header has 32 bytes");
    for (length, entry) in [(32, 0), (55, 0), (56, 1), (79, 1)] {
        let mut short = image[..length].to_vec();
        short[16..24].copy_from_slice(&(length as u64).to_le_bytes());
        // No buses, which take no room.
        if let Some(count) = short.get_mut(48..52) {
            count.fill(0);
        }
        let expected =
            alloc::format!("section table, entry {entry}: the image ends within the section table");
        assert_eq!(error(&with_checksum(short)), expected, "{length}");
    }
    let mut damaged = image;
    damaged[100] ^= 1;
    let text = error(&damaged);
    assert!(text.starts_with("header: the CRC-32 is ") && text.ends_with("is damaged"), "{text}");
}

/// What no change of a few bytes makes: another number of records.
#[test]
fn programs_that_nothing_compiles_to_are_refused() {
    type Change = fn(&mut Program);
    let cases: &[(Change, &str)] = &[
        (
            |it| it.matchers = it.matchers[..2].into(),
            "section matchers, record 0: there are 2 matchers for 3 buses",
        ),
        (
            |it| it.matchers[2].standard = it.matchers[2].standard[1..].into(),
            "section standard, record 0: there are 12287 slots for 3 buses; each has 4096",
        ),
        (
            |it| it.matchers[0].lists = Box::default(),
            "section matchers, record 0: its lists have 0 of its 7 matches",
        ),
        (
            |it| it.matchers[0].lists = it.matchers[0].lists[..3].into(),
            "section matchers, record 0: its lists have 3 of its 7 matches",
        ),
        (|it| it.edits[0] = Some(Box::default()), "section edits, record 0: it changes nothing"),
        (
            |it| it.extension[5] = Some(Box::default()),
            "section extensions, record 0: there is nothing in it",
        ),
        (
            |it| it.buses = core::iter::repeat_n(it.buses[0].clone(), (1 << 16) + 1).collect(),
            "section buses, record 65536: there are 65537 buses; 65536 are possible",
        ),
        (
            |it| it.buses = core::iter::repeat_n(it.buses[0].clone(), 1 << 16).collect(),
            "section matchers, record 0: there are 3 matchers for 65536 buses",
        ),
        (
            |it| it.jobs = it.jobs[..7].into(),
            "section rules, record 6: it has 1 jobs from record 7 on, but there are 7",
        ),
        // A list of two matches in four tables, of seven matches.
        (
            |it| {
                for group in &mut it.matchers[0].clusters[0].groups {
                    for slot in group.slots.iter_mut().filter(|slot| slot.0 != 0) {
                        slot.1 = 2;
                    }
                }
            },
            "section matchers, record 0: the longest lists of its tables have 8 matches together, but the bus has 7",
        ),
        (
            |it| it.jobs[0].rule = core::iter::repeat_n('n', 4_097).collect(),
            "section jobs, record 0: a name has 4097 bytes; it may have 4096",
        ),
    ];
    for (change, expected) in cases {
        let mut program = Program::new(&everything());
        change(&mut program);
        let found = match Program::from_image(&program.to_image()) {
            Ok(_) => "accepted".into(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, *expected);
    }
}
