//! Each check of a record, with the words in which it fails.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::damage::n;
use super::sample::everything;
use super::{Outline, Section, with_checksum};
use crate::Program;

/// Writes bytes at a place of a record.
fn patch(image: &mut [u8], section: Section, record: usize, at: usize, bytes: &[u8]) {
    let extent = Outline::read(image).unwrap().extent(section);
    let at = extent.offset + record * section.record_bytes() + at;
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A slot of a hash table, with a single match.
fn slot(key: u32, place: u32) -> Vec<u8> {
    [n(key), n(1 << 31 | place)].concat()
}

#[test]
fn records_are_checked() {
    use Section::*;
    let image = Program::new(&everything()).to_image();
    let nan = f64::NAN.to_le_bytes();
    let infinite = f64::INFINITY.to_le_bytes();
    let cases: &[(Section, usize, usize, &[u8], &str)] = &[
        (
            Buses,
            0,
            4,
            &n(4_097),
            "section buses, record 0: a name has 4097 bytes; it may have 4096",
        ),
        (
            Buses,
            1,
            0,
            &n(9_999),
            "section buses, record 1: a name has 1 bytes from 9999 on, but there are 64 bytes of strings",
        ),
        (Buses, 2, 16, &n(2), "section buses, record 2: is_virtual is 2; it must be 0 or 1"),
        (Strings, 0, 0, &[0xFF], "section buses, record 0: byte 0 of a name is not UTF-8"),
        (
            Rules,
            0,
            0,
            &n(1),
            "section rules, record 0: its jobs begin with record 1; the next unused one is 0",
        ),
        (
            Rules,
            6,
            4,
            &[9, 0],
            "section rules, record 6: it has 9 jobs from record 7 on, but there are 8",
        ),
        (
            Rules,
            0,
            7,
            &[0x44],
            "section rules, record 0: it takes neither classical nor CAN FD frames",
        ),
        (Rules, 0, 7, &[0x06], "section rules, record 0: it has an edit, but flag 0x40 is not set"),
        (
            Rules,
            0,
            7,
            &[0x66],
            "section rules, record 0: flag 0x20 is set, but it has no exclusion",
        ),
        (
            Rules,
            0,
            7,
            &[0xC6],
            "section rules, record 0: flag 0x80 is set, but it has no extension",
        ),
        (
            Rules,
            0,
            8,
            &n(1),
            "section rules, record 0: its edits begin with record 1; the next unused one is 0",
        ),
        (
            Rules,
            5,
            12,
            &n(7),
            "section rules, record 5: its extensions begin with record 7; the next unused one is 0",
        ),
        (
            Rules,
            2,
            16,
            &n(3),
            "section rules, record 2: its exclusions begin with record 3; the next unused one is 0",
        ),
        (Jobs, 1, 8, &n(3), "section jobs, record 1: it is a job of rule 0, not 3"),
        (
            Jobs,
            1,
            12,
            &[1, 0],
            "section jobs, record 1: its rule has another name or bus in an earlier job",
        ),
        (
            Jobs,
            1,
            0,
            &n(0),
            "section jobs, record 1: its rule has another name or bus in an earlier job",
        ),
        (Jobs, 0, 14, &[3, 0], "section jobs, record 0: it goes to bus 3, but there are 3 buses"),
        (Jobs, 0, 16, &n(0), "section jobs, record 0: modifies contradicts the edit of its rule"),
        (Jobs, 0, 16, &n(2), "section jobs, record 0: modifies is 2; it must be 0 or 1"),
        (
            Jobs,
            0,
            20,
            &[1],
            "section jobs, record 0: byte 884 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (Exclusions, 0, 8, &n(2), "section exclusions, record 0: inverted is 2; it must be 0 or 1"),
        (
            Exclusions,
            0,
            4,
            &n(0xDFFF_FFF0),
            "section exclusions, record 0: the filter 92345678:DFFFFFF0 is not normalized",
        ),
        (Matchers, 0, 4, &n(0), "section matchers, record 0: its lists have 0 of its 7 matches"),
        (
            Matchers,
            0,
            8,
            &n(1),
            "section matchers, record 0: its matches begin with record 1; the next unused one is 0",
        ),
        (
            Matchers,
            0,
            44,
            &n(1),
            "section matches, record 3: its position is 2, but list 2 of the bus has 1 filters",
        ),
        (
            Standard,
            0x200,
            0,
            &n(99),
            "section standard, record 512: it names list 99, but the bus has 7",
        ),
        (
            Standard,
            0x200,
            0,
            &n(0x8000_0001),
            "section standard, record 512: match 1 is not a list of its own",
        ),
        (
            Standard,
            0x200,
            0,
            &n(1),
            "section standard, record 512: list 1 has one match, so its place must stand here",
        ),
        (
            Lists,
            0,
            4,
            &n(1),
            "section lists, record 0: it has 1 matches from 0 on; the first list is empty, and each other one begins where the one before ends",
        ),
        (
            Lists,
            1,
            4,
            &n(0),
            "section lists, record 1: it has 0 matches from 0 on; the first list is empty, and each other one begins where the one before ends",
        ),
        (
            Lists,
            1,
            0,
            &n(1),
            "section lists, record 1: it has 1 matches from 1 on; the first list is empty, and each other one begins where the one before ends",
        ),
        (
            Lists,
            1,
            4,
            &n(99),
            "section lists, record 1: it has 99 matches from 0 on, but the bus has 7",
        ),
        (Matches, 0, 0, &n(7), "section matches, record 0: it names rule 7, but there are 7"),
        (
            Matches,
            0,
            0,
            &n(5),
            "section matches, record 0: rule 5 takes frames from bus 1, not from bus 0",
        ),
        (Matches, 0, 4, &n(7 << 29), "section matches, record 0: the list 7 is unknown"),
        (
            Matches,
            0,
            4,
            &n(0),
            "section matches, record 0: a match of this section is not in list 0",
        ),
        (
            Matches,
            0,
            4,
            &n(5 << 29 | 2),
            "section matches, record 0: its position is 2, but list 5 of the bus has 2 filters",
        ),
        (
            Matches,
            2,
            4,
            &n(4 << 29),
            "section matches, record 2: it does not come after the match before it",
        ),
        (Matches, 2, 0, &n(0), "section matches, record 1: rule 0 is twice in this list"),
        (
            Clusters,
            0,
            0,
            &n(0xC000_0000),
            "section clusters, record 0: key 80000100 has bits beyond the mask C0000000",
        ),
        (
            Clusters,
            0,
            0,
            &n(0x8000_0F80),
            "section clusters, record 0: the mask is 80000F80, but its groups have 80000F00 in common",
        ),
        (
            Clusters,
            0,
            4,
            &n(30),
            "section clusters, record 0: a table of 8 slots does not fit shift 30",
        ),
        (
            Clusters,
            0,
            20,
            &n(0),
            "section clusters, record 0: it has 0 groups; 1 to 64 are possible",
        ),
        (
            Clusters,
            0,
            20,
            &n(65),
            "section clusters, record 0: it has 65 groups; 1 to 64 are possible",
        ),
        (
            Clusters,
            0,
            20,
            &n(9),
            "section clusters, record 0: it has 9 groups from record 0 on, but there are 6",
        ),
        (
            Candidates,
            5,
            8,
            &[0; 8],
            "section candidates, record 5: it has the key 80000100 and the groups 0x0; its cluster has 4 groups",
        ),
        (
            Candidates,
            5,
            8,
            &[0x10],
            "section candidates, record 5: it has the key 80000100 and the groups 0x10; its cluster has 4 groups",
        ),
        (
            Candidates,
            0,
            8,
            &[1],
            "section candidates, record 0: it has the key 00000000 and the groups 0x1; its cluster has 4 groups",
        ),
        (
            Candidates,
            0,
            4,
            &[1],
            "section candidates, record 0: byte 50660 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (
            Candidates,
            7,
            8,
            &[2],
            "section clusters, record 0: key 80000202 of its group 3 is no candidate",
        ),
        (
            Candidates,
            7,
            0,
            &n(0x8000_0300),
            "section clusters, record 0: key 80000300 is in slot 7; its slots are 1 and 2",
        ),
        (
            Slots,
            1,
            4,
            &n(0),
            "section slots, record 1: it has a key without a list, or a list without a key",
        ),
        (
            Slots,
            0,
            4,
            &n(1),
            "section slots, record 0: it has a key without a list, or a list without a key",
        ),
        (Slots, 1, 4, &n(99), "section slots, record 1: it names list 99, but the bus has 7"),
        (
            Slots,
            1,
            0,
            &n(0x98FE_F101),
            "section groups, record 0: key 98FEF101 has bits beyond the mask 9FFFFF00",
        ),
        (
            Slots,
            1,
            0,
            &n(0x18FE_F100),
            "section groups, record 0: key 18FEF100 is no extended identifier",
        ),
        (
            Slots,
            0,
            0,
            &slot(0x98FE_F100, 3),
            "section groups, record 0: key 98FEF100 is in both of its slots",
        ),
        (
            Slots,
            2,
            0,
            &slot(0x8000_0201, 4),
            "section groups, record 1: key 80000201 is in slot 0; its slots are 1 and 1",
        ),
        (
            Slots,
            4,
            0,
            &slot(0x9234_5600, 5),
            "section groups, record 2: key 92345600 is in both of its slots",
        ),
        (
            Slots,
            7,
            0,
            &slot(0x8000_0202, 6),
            "section groups, record 3: key 80000202 is in slot 1; its slots are 0 and 0",
        ),
        (
            Groups,
            0,
            0,
            &n(0x1FFF_FF00),
            "section groups, record 0: the mask 1FFFFF00 is not one for extended identifiers",
        ),
        (
            Groups,
            0,
            0,
            &n(0xA000_0000),
            "section groups, record 0: the mask A0000000 is not one for extended identifiers",
        ),
        (Groups, 0, 4, &n(0), "section groups, record 0: a table of 2 slots does not fit shift 0"),
        (
            Groups,
            0,
            12,
            &n(1),
            "section groups, record 0: a table of 1 slots does not fit shift 31",
        ),
        (Inverted, 0, 8, &n(0), "section inverted, record 0: this filter is not inverted"),
        (
            Inverted,
            0,
            16,
            &n(2 << 29),
            "section inverted, record 0: a match of this section is not in list 2",
        ),
        (Errors, 0, 4, &n(0), "section errors, record 0: this filter takes no error reports"),
        (
            Errors,
            0,
            16,
            &n(1),
            "section errors, record 0: its position is 1, but list 0 of the bus has 1 filters",
        ),
        (Edits, 0, 0, &n(4), "section edits, record 0: the checksums 0x4 have unknown bits"),
        (Edits, 0, 8, &[0x10], "section edits, record 0: the operands 0x10 have unknown bits"),
        (Edits, 0, 296 + 5, &[4], "section edits, record 0: the CRC8 profile 4 is unknown"),
        (Edits, 0, 296 + 8, &n(1), "section edits, record 0: it uses CRC table 1, but there are 1"),
        (Extensions, 0, 96 + 2, &[2], "section extensions, record 0: the pace 2 is unknown"),
        (Extensions, 0, 96 + 3, &[4], "section extensions, record 0: the conversion 4 is unknown"),
        (
            Extensions,
            0,
            96 + 4,
            &n(2),
            "section extensions, record 0: on_change is 2; it must be 0 or 1",
        ),
        (
            Extensions,
            0,
            104,
            &n(1),
            "section extensions, record 0: its patterns begin with record 1; the next unused one is 0",
        ),
        (
            Extensions,
            0,
            112,
            &n(2),
            "section extensions, record 0: it has 2 patterns from record 2 on, but there are 3",
        ),
        (
            Extensions,
            0,
            116,
            &n(1),
            "section extensions, record 0: its lengths begin with record 1; the next unused one is 0",
        ),
        (Extensions, 0, 128, &n(10), "section actions, record 10: nothing refers to this record"),
        (
            Patterns,
            0,
            0,
            &[65],
            "section patterns, record 0: it has 65 bytes; a frame has 64 at most",
        ),
        (
            Patterns,
            0,
            1,
            &[1],
            "section patterns, record 0: byte 51873 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (Actions, 0, 0, &n(0), "section actions, record 0: the action 0 is unknown"),
        (Actions, 0, 0, &n(11), "section actions, record 0: the action 11 is unknown"),
        (Actions, 0, 4, &n(4), "section actions, record 0: the operator 4 is unknown"),
        (Actions, 1, 4, &n(1), "section actions, record 1: the flags 0x1 have unknown bits"),
        (Actions, 4, 4, &n(4), "section actions, record 4: the flags 0x4 have unknown bits"),
        (Actions, 4, 8, &nan, "section actions, record 4: the factor is no number"),
        (Actions, 4, 8, &infinite, "section actions, record 4: the factor is infinite"),
        (Actions, 4, 24, &nan, "section actions, record 4: the clamp is no number"),
        (
            Actions,
            4,
            40 + 10,
            &[0],
            "section actions, record 4: a field must have 1 to 64 bits, not 0",
        ),
        (
            Actions,
            4,
            40 + 10,
            &[65],
            "section actions, record 4: a field must have 1 to 64 bits, not 65",
        ),
        (
            Actions,
            4,
            40 + 8,
            &[0xFF, 1],
            "section actions, record 4: the field ends in byte 66, but there are 64",
        ),
        (Actions, 4, 40 + 11, &[2], "section actions, record 4: the byte order 2 is unknown"),
        (Actions, 4, 40 + 12, &[2], "section actions, record 4: is_signed is 2; it must be 0 or 1"),
        (Actions, 4, 40 + 13, &[2], "section actions, record 4: has_range is 2; it must be 0 or 1"),
        (Actions, 4, 40 + 16, &[0; 8], "section actions, record 4: the scale is 0"),
        (
            Actions,
            5,
            40 + 16,
            &1e-300_f64.to_le_bytes(),
            "section actions, record 5: a signal of more than 53 bits cannot be computed exactly",
        ),
        (Actions, 8, 10, &[4], "section actions, record 8: the inclusion 4 is unknown"),
        (Actions, 10, 12, &n(1), "section remaps, record 1: nothing refers to this record"),
        (
            Actions,
            10,
            100,
            &[1],
            "section actions, record 10: byte 53740 of the image is 0x01, but a program like this is written with 0x00",
        ),
        (
            Remaps,
            1,
            0,
            &n(0x322),
            "section remaps, record 1: the identifier word 00000322 does not come after the one before it",
        ),
    ];
    let mut wrong = Vec::new();
    for &(section, record, at, bytes, expected) in cases {
        let mut damaged = image.clone();
        patch(&mut damaged, section, record, at, bytes);
        let found = match Program::from_image(&with_checksum(damaged)) {
            Ok(_) => "accepted".into(),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(alloc::format!("{section:?} {record} {at} {bytes:x?}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
