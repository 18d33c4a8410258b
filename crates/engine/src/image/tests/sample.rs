//! Tables with a little of everything.

use alloc::boxed::Box;
use alloc::vec;

use candor_wire::can::{ByteOrder, Field};

use crate::edit::{Crc8, Crc8Profile, Edit, Operands, Operator, Range, XorChecksum};
use crate::extension::action::{Action, Copy, Counter, Message, Place, Remap, Signal};
use crate::extension::e2e::{E2e, Inclusion, Profile1};
use crate::extension::pace::{OnChange, Pace, Per};
use crate::extension::payload::{Bytes, Payload};
use crate::extension::{Conversion, Extension};
use crate::{Bus, BusIndex, Filter, Gate, Rule, Table};

pub(super) const A: BusIndex = BusIndex(0);
pub(super) const B: BusIndex = BusIndex(1);
pub(super) const C: BusIndex = BusIndex(2);

/// A rule from one bus to another, and a bus that has none.
pub(super) fn small() -> Table {
    let bus =
        |name: &str, port: &str| Bus { name: name.into(), port: port.into(), is_virtual: false };
    let edit = Edit {
        set: Operands { can_id: Some(0x321), ..Operands::default() },
        xor_checksum: Some(XorChecksum {
            range: Range { from: 0, to: -2, result: -1 },
            init: 0x5A,
        }),
        ..Edit::default()
    };
    let renamed =
        Rule { filters: vec![Filter::standard(0x123)], edit, ..Rule::new("renamed", A, B) };
    let masked = Filter { can_id: 0x98FE_F100, mask: 0xDFFF_FF00, inverted: false };
    let group = Rule {
        filters: vec![masked, Filter::standard(0x124), Filter::standard(0x123)],
        except: vec![Filter::extended(0x18FE_F1FF)],
        ..Rule::new("group", A, B)
    };
    let buses = vec![bus("powertrain", "can0"), bus("body", "can1")];
    Table { buses, rules: vec![renamed, group], ..Table::default() }
}

pub(super) fn crc8(profile: Crc8Profile) -> Crc8 {
    let range = Range { from: 1, to: -1, result: 0 };
    let table = Box::new(Crc8::table_of(0x1D));
    Crc8 { range, init: 0xFF, final_xor: 0xFE, table, profile }
}

pub(super) fn place(name: &str, bit: u16, bits: u8, range: Option<(f64, f64)>) -> Place {
    let field = Field::new(bit, bits, ByteOrder::Intel, bits == 16).unwrap();
    Place { name: name.into(), field, scale: 0.5, offset: -40.0, range }
}

/// An extension with every part of one.
fn extension() -> Extension {
    let pattern = |byte| Bytes::new(&[(byte, 0xFF), (0, 0), (3, 0x0F)]);
    let profile_1 = Profile1 {
        data_id: 0x1234,
        inclusion: Inclusion::Alternating,
        crc_byte: 0,
        counter_nibble: 2,
        id_nibble: 3,
    };
    let narrow = (place("from", 8, 16, None), place("to", 16, 8, Some((-40.0, 87.5))));
    let wide = (place("", 0, 64, None), place("", 0, 64, None));
    let signal = |(from, to), clamp| {
        Action::Signal(Box::new(Signal::new(from, true, 2.0, 1.0, clamp, to).unwrap()))
    };
    let operands = Operands {
        can_id: None,
        len: Some(8),
        flags: Some(1),
        data: Some(Operator::Or.operand(&[0x11])),
    };
    Extension {
        payload: Payload {
            data: vec![pattern(1), pattern(2)],
            not_data: vec![pattern(7)],
            lengths: vec![(0, 8), (12, 64)],
        },
        pace: Pace {
            interval_ns: 1_000,
            tolerance_ns: 2_000,
            every: 2,
            on_change: Some(OnChange { mask: Box::new([0xF7; 64]), at_least_every_ns: 5_000 }),
            per: Per::Rule,
            ids: 7,
        },
        actions: vec![
            Action::Operate(Operator::Or, operands),
            Action::Crc8(crc8(Crc8Profile::OneByte(0x12))),
            Action::XorChecksum(XorChecksum {
                range: Range { from: 0, to: 3, result: 4 },
                init: 9,
            }),
            Action::Copy(Copy { from: 0, to: 2, count: 2 }),
            signal(narrow, Some((-10.0, 80.0))),
            signal(wide, None),
            Action::Message(Message { name: "other".into(), can_id: 0x322, len: 8 }),
            Action::Counter(Counter {
                field: Field::new(12, 4, ByteOrder::Motorola, false).unwrap(),
                modulus: 15,
            }),
            Action::E2e(E2e::Profile1(profile_1)),
            Action::E2e(E2e::Profile2([7; 16])),
            Action::Remap(Remap::new(vec![(0x322, 0x323), (0x324, 0x8000_0325)], true)),
        ],
        convert: Some(Conversion::FdWithSwitch),
        deadline_ns: 2_000_000,
    }
}

/// Three buses; rules that use every section of an image.
pub(super) fn everything() -> Table {
    let bus = |name: &str, port: &str, is_virtual| Bus {
        name: name.into(),
        port: port.into(),
        is_virtual,
    };
    let buses = vec![bus("a", "can0", false), bus("b", "can1", false), bus("c", "vcan0", true)];
    let rule =
        |name: &str, filters: &[Filter]| Rule { filters: filters.into(), ..Rule::new(name, A, B) };
    let masked = |can_id, mask| Filter { can_id, mask, inverted: false };
    let edit = Edit {
        and: Operands { data: Some(Operator::And.operand(&[0xF0])), ..Operands::default() },
        xor: Operands { len: Some(0), flags: Some(3), ..Operands::default() },
        set: Operands { can_id: Some(0x8000_0321), ..Operands::default() },
        crc8: Some(crc8(Crc8Profile::ByCounter([3; 16]))),
        xor_checksum: Some(XorChecksum { range: Range { from: 2, to: 4, result: 7 }, init: 1 }),
        ..Edit::default()
    };
    let rules = vec![
        Rule {
            to: vec![B, C],
            edit: edit.clone(),
            gate: Gate::Fd,
            echo: true,
            ..rule("speed", &[Filter::standard(0x201)])
        },
        Rule { allow_return: true, ..rule("again", &[Filter::standard(0x201)]) },
        Rule {
            except: vec![Filter::extended(0x1234_5678), masked(0x201, 0x7FF)],
            limit_hops: Some(1),
            ..rule(
                "masked",
                &[
                    masked(0x9234_5600, 0xDFFF_FF00),
                    masked(0x8000_0201, 0xC000_0FFF),
                    masked(0x98FE_F100, 0x9FFF_FF00),
                    Filter::extended(0x202),
                ],
            )
        },
        Rule {
            to: vec![C],
            gate: Gate::Any,
            keep_timestamp: true,
            ..rule("rest", &[Filter { inverted: true, ..masked(0x200, 0x700) }])
        },
        rule("errors", &[masked(0, 0x2000_00FF)]),
        Rule { extension: extension(), ..Rule::new("computed", B, A) },
        Rule { edit, ..Rule::new("all", C, A) },
    ];
    Table { buses, rules, max_hops: 2, ..Table::default() }
}
