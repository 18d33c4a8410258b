//! The papers' rule sets: which filter takes a frame, and where the kernel would find it.

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::program::{JobIndex, Match};
use candor_engine::table::List;
use candor_engine::{BusIndex, Table};
use candor_engine::{Egress, Engine, Forward, Passage};
use candor_lab::kinds::gateway::{FilterKind, Generated, Modification};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::EFF_FLAG;

const PLAIN: Generated = Generated {
    filters: 0,
    kind: FilterKind::Standard,
    modification: Modification::None,
    hops: 0,
    virtual_buses: 1,
};

fn frame(can_id: u32) -> Frame {
    Frame::from_parts(can_id, &[0x12, 0x34, 0, 0, 0, 0, 0, 0xFF], None).unwrap()
}

#[derive(Default)]
struct Copies(Vec<(Match, Frame)>);

impl Egress for Copies {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        self.0.push((copy.found, *copy.frame));
        Outcome::Handled
    }

    fn refused(&mut self, job: JobIndex, cause: Cause) {
        panic!("{job:?} refused: {cause:?}");
    }
}

/// The copies that the rules make of a frame received on bus 0.
fn copies(table: &Table, frame: &Frame) -> Vec<(Match, Frame)> {
    let mut engine = Engine::new(table);
    let mut copies = Copies::default();
    let passage = Passage { origin: BusIndex(0), hops: 0 };
    engine.handle(Nanos::ZERO, BusIndex(0), frame, passage, &mut copies);
    copies.0
}

#[test]
fn only_the_last_filter_takes_the_frame() {
    let extended = 0x1234_5678 | EFF_FLAG;
    for (kind, can_id, list) in [
        (FilterKind::Standard, 0x123, List::Standard),
        (FilterKind::Standard, 0x000, List::Standard),
        (FilterKind::Standard, 0x7FF, List::Standard),
        (FilterKind::Extended, extended, List::Extended),
        (FilterKind::Masked, 0x123, List::Masked),
        (FilterKind::Masked, 0x000, List::Masked),
    ] {
        for filters in [1, 2, 80, 2_048] {
            let case = format!("{filters} {kind:?} for {can_id:X}");
            let table = Generated { filters, kind, ..PLAIN }.table(can_id).unwrap();
            assert_eq!(table.rules.len(), filters as usize, "{case}");
            let taken = copies(&table, &frame(can_id));
            let [(found, copy)] = taken.as_slice() else { panic!("{case}: {taken:?}") };
            assert_eq!(
                (found.list(), found.rule(), *copy),
                (list, filters - 1, frame(can_id)),
                "{case}"
            );
            assert_eq!(found.position(), filters - 1, "{case}");
        }
    }
}

#[test]
fn without_filters_everything_passes() {
    let table = PLAIN.table(0x123).unwrap();
    for can_id in [0x000, 0x123, 0x7FF, EFF_FLAG] {
        let taken = copies(&table, &frame(can_id));
        let [(found, _)] = taken.as_slice() else { panic!("{can_id:X}: {taken:?}") };
        assert_eq!((found.list(), found.position()), (List::All, 0));
    }
}

#[test]
fn modifications_do_what_they_are_called_and_keep_the_number() {
    for (modification, last_byte) in [
        (Modification::None, 0xFF),
        (Modification::And, 0x0F),
        (Modification::Or, 0xFF),
        (Modification::Xor, 0xF0),
        (Modification::Set, 0xFF),
        // 0x12 ^ 0x34
        (Modification::Checksum, 0x26),
        // Computed bit by bit: polynomial 0x1D, begun with 0xFF, XOR 0xFF.
        (Modification::Crc8, 0x30),
    ] {
        let table = Generated { modification, ..PLAIN }.table(0x123).unwrap();
        let taken = copies(&table, &frame(0x123));
        let [(_, copy)] = taken.as_slice() else { panic!("{modification:?}: {taken:?}") };
        assert_eq!(copy.can_id(), 0x123, "{modification:?}");
        assert_eq!(copy.data(), [0x12, 0x34, 0, 0, 0, 0, 0, last_byte], "{modification:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_parameter_to_change() {
    let extended = 0x123 | EFF_FLAG;
    let cases = [
        (Generated { filters: 1, ..PLAIN }, extended, "filter_kind"),
        (Generated { filters: 1, kind: FilterKind::Masked, ..PLAIN }, extended, "filter_kind"),
        (Generated { filters: 1, kind: FilterKind::Extended, ..PLAIN }, 0x123, "filter_kind"),
        (Generated { filters: 2_049, ..PLAIN }, 0x123, "2048"),
        (Generated { hops: 101, ..PLAIN }, 0x123, "at most 100"),
        (Generated { hops: 1, ..PLAIN }, extended, "traffic.id"),
        (Generated { hops: 1, ..PLAIN }, 0x7FF, "0x7FF"),
    ];
    for (generated, can_id, part) in cases {
        let reason = generated.table(can_id).unwrap_err();
        assert!(reason.contains(part), "{generated:?}: {reason}");
    }
    Generated { hops: 1, ..PLAIN }.table(0x7FE).unwrap();
}
