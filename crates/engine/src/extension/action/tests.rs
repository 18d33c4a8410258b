//! Tests of ordered edits.

use super::super::place::nearest;
use super::*;
use alloc::string::ToString;
use candor_wire::can::ByteOrder;

/// What steps make of a frame.
fn after(actions: &[Action], frame: &str, sequence: u64) -> Result<String, Cause> {
    let frame = frame.parse().unwrap();
    run(actions, &frame, sequence, |_| {}).map(|frame| frame.to_string())
}

fn place(bit: u16, bits: u8, scale: f64, offset: f64, range: Option<(f64, f64)>) -> Place {
    let field = Field::new(bit, bits, ByteOrder::Intel, false).unwrap();
    Place { name: String::new(), field, scale, offset, range }
}

fn signal(from: Place, to: Place) -> Signal {
    Signal::new(from, true, 1.0, 0.0, None, to).unwrap()
}

fn operate(operator: Operator, operands: Operands) -> Action {
    Action::Operate(operator, operands)
}

#[test]
fn numbers_are_computed_rounded_and_held_within_their_range() {
    let byte = |at: u16, range| place(at * 8, 8, 1.0, 0.0, range);
    for (what, from, to, factor, addend, clamp, frame, expected) in [
        ("as it is", byte(0, None), byte(1, None), 1.0, 0.0, None, "1#7B00", Ok("001#7B7B")),
        ("computed", byte(0, None), byte(1, None), 2.0, -5.0, None, "1#0700", Ok("001#0709")),
        // 0.5 * 5 is 2.5, which is away from zero 3.
        ("a half", byte(0, None), byte(1, None), 0.5, 0.0, None, "1#0500", Ok("001#0503")),
        ("less", byte(0, None), byte(1, None), 0.49, 0.0, None, "1#0500", Ok("001#0502")),
        (
            "nothing but noise outside the range",
            place(0, 8, 0.1, 0.0, None),
            place(8, 8, 0.3, 0.0, Some((0.0, 0.3))),
            1.0,
            0.0,
            None,
            "1#0300", // 0.1 * 3 is 0.30000000000000004
            Ok("001#0301"),
        ),
        (
            "more than the field holds",
            byte(0, None),
            byte(1, None),
            2.0,
            0.0,
            None,
            "1#8000",
            Err(Cause::OutOfRange),
        ),
        (
            "less than it holds",
            byte(0, None),
            byte(1, None),
            1.0,
            -2.0,
            None,
            "1#0100",
            Err(Cause::OutOfRange),
        ),
        (
            "outside the range",
            byte(0, None),
            byte(1, Some((0.0, 100.0))),
            1.0,
            0.0,
            None,
            "1#6500",
            Err(Cause::OutOfRange),
        ),
        (
            "below the range",
            byte(0, None),
            byte(1, Some((50.0, 100.0))),
            1.0,
            0.0,
            None,
            "1#3100",
            Err(Cause::OutOfRange),
        ),
        (
            "at the end of the range",
            byte(0, None),
            byte(1, Some((50.0, f64::MAX))),
            1.0,
            0.0,
            None,
            "1#3200",
            Ok("001#3232"),
        ),
        (
            "clamped from above",
            byte(0, None),
            byte(1, Some((0.0, 100.0))),
            1.0,
            0.0,
            Some((0.0, 100.0)),
            "1#FF00",
            Ok("001#FF64"),
        ),
        (
            "clamped from below",
            byte(0, None),
            byte(1, None),
            1.0,
            -100.0,
            Some((3.0, 200.0)),
            "1#0100",
            Ok("001#0103"),
        ),
        (
            "a scale that goes down",
            byte(0, None),
            place(8, 8, -2.0, 100.0, Some((90.0, 100.0))),
            1.0,
            0.0,
            None,
            "1#5A00", // 90 = 5 * -2 + 100
            Ok("001#5A05"),
        ),
        (
            "a scale that goes down, extension",
            byte(0, None),
            place(8, 8, -2.0, 100.0, Some((90.0, 100.0))),
            1.0,
            0.0,
            None,
            "1#5800",
            Err(Cause::OutOfRange),
        ),
        (
            "far extension",
            byte(0, None),
            byte(1, None),
            1e300,
            0.0,
            None,
            "1#0100",
            Err(Cause::OutOfRange),
        ),
        (
            "no number",
            byte(0, None),
            place(8, 8, 1.0, 0.0, None),
            f64::MAX,
            0.0,
            Some((f64::MIN, f64::MAX)),
            "1#FF00",
            Err(Cause::OutOfRange),
        ),
        (
            "nothing to read",
            byte(1, None),
            byte(0, None),
            1.0,
            0.0,
            None,
            "1#01",
            Err(Cause::TooShort),
        ),
        (
            "nowhere to write",
            byte(0, None),
            byte(1, None),
            1.0,
            0.0,
            None,
            "1#01",
            Err(Cause::TooShort),
        ),
    ] {
        let signal = Signal { factor, addend, clamp, ..signal(from, to) };
        let found = after(&[Action::Signal(Box::new(signal))], &alloc::format!("00{frame}"), 0);
        assert_eq!(found, expected.map(ToString::to_string), "{what}");
    }
}

#[test]
fn whole_numbers_are_the_nearest() {
    for (value, expected) in [
        (0.49999999999999994, Some(0)),
        (0.5, Some(1)),
        (-0.5, Some(-1)),
        (-0.4, Some(0)),
        (1.5, Some(2)),
        (9_007_199_254_740_993.0, Some(9_007_199_254_740_992)),
        (1e30, None),
        (-1e30, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
    ] {
        assert_eq!(nearest(value), expected, "{value}");
    }
}

#[test]
fn what_is_read_is_received_or_current() {
    let from = place(0, 8, 1.0, 0.0, None);
    let clear = operate(
        Operator::And,
        Operands { data: Some(Operator::And.operand(&[0])), ..Operands::default() },
    );
    let received = Signal { addend: 1.0, ..signal(from.clone(), from) };
    let current = Signal { of_received: false, ..received.clone() };
    for (signal, expected) in [(received, "001#0600"), (current, "001#0100")] {
        let actions = [clear.clone(), Action::Signal(Box::new(signal))];
        assert_eq!(after(&actions, "001#0500", 0).as_deref(), Ok(expected));
    }
}

#[test]
fn bytes_are_those_of_the_received_frame() {
    let copy = |from, to, count| Action::Copy(Copy { from, to, count });
    for (copy, expected) in [
        (copy(0, 2, 2), Ok("001#11221122")),
        (copy(1, 0, 3), Ok("001#22334444")),
        (copy(2, 0, 3), Err(Cause::TooShort)),
        (copy(0, 2, 3), Err(Cause::TooShort)),
    ] {
        let found = after(&[copy], "001#11223344", 0);
        assert_eq!(found, expected.map(ToString::to_string));
    }
    let longer = operate(Operator::Set, Operands { len: Some(6), ..Operands::default() });
    let found = after(&[longer.clone(), copy(0, 5, 1)], "001#1122", 0);
    assert_eq!(found.as_deref(), Ok("001#112200000011"));
    let found = after(&[longer, copy(5, 0, 1)], "001#1122", 0);
    assert_eq!(found, Err(Cause::TooShort), "what has been added was not received");
}

#[test]
fn identifiers_are_looked_up() {
    let pairs = || [(0x123, 0x8000_0321), (0x8000_0123, 0x100), (0x124, 0x4000_0001)].into();
    let refuses = Action::Remap(Remap::new(pairs(), false));
    let keeps = Action::Remap(Remap::new(pairs(), true));
    for (frame, expected) in [
        ("123#11", Some("00000321#11")),
        ("123#R1", Some("00000321#R1")),
        ("00000123#11", Some("100#11")),
        ("124#11", Some("001#R1")),
        ("125#11", None),
    ] {
        let found = after(core::slice::from_ref(&refuses), frame, 0);
        assert_eq!(found, expected.map(ToString::to_string).ok_or(Cause::Unmapped), "{frame}");
        let found = after(core::slice::from_ref(&keeps), frame, 0);
        assert_eq!(found.as_deref(), Ok(expected.unwrap_or(frame)), "{frame}");
    }
}

#[test]
fn counters_take_what_they_have_room_for() {
    let field = Field::new(12, 4, ByteOrder::Intel, false).unwrap();
    let counter = |modulus| Action::Counter(Counter { field, modulus });
    for (modulus, sequence, expected) in [
        (16, 0, Ok("001#FF0F")),
        (16, 15, Ok("001#FFFF")),
        (16, 16, Ok("001#FF0F")),
        (10, u64::MAX, Ok("001#FF5F")),
        (0, 3, Ok("001#FF0F")),
    ] {
        let found = after(&[counter(modulus)], "001#FFFF", sequence);
        assert_eq!(found, expected.map(ToString::to_string));
    }
    assert_eq!(after(&[counter(16)], "001#FF", 0), Err(Cause::TooShort));
}

#[test]
fn messages_begin_with_zeros() {
    let message = |can_id, len| Action::Message(Message { name: "other".into(), can_id, len });
    let found = after(&[message(0x8000_0321, 3)], "001#1122334455", 0);
    assert_eq!(found.as_deref(), Ok("00000321#000000"));
    let found = after(&[message(0x321, 12)], "001##11122", 0);
    assert_eq!(found.as_deref(), Ok("321##1000000000000000000000000"));
    assert_eq!(after(&[message(0x321, 16)], "001#1122", 0), Err(Cause::TooLong));
}

#[test]
fn protection_refuses_short_messages() {
    let protect = Action::E2e(E2e::Profile2([0; 16]));
    assert_eq!(after(core::slice::from_ref(&protect), "001#11", 0), Err(Cause::TooShort));
    assert!(after(&[protect], "001#1122", 0).is_ok());
}

#[test]
fn the_longest_frame_of_each_kind_is_sent_and_no_longer_one() {
    for (frame, longest) in [("123#11", 15), ("123##111", 64)] {
        let frame: Frame = frame.parse().unwrap();
        for (len, expected) in
            [(longest, Ok(usize::from(longest))), (longest + 1, Err(Cause::TooLong))]
        {
            let operands = Operands { len: Some(len), ..Operands::default() };
            let mut steps = Vec::new();
            let actions = [Action::Operate(Operator::Set, operands)];
            let sent = run(&actions, &frame, 0, |step| steps.push(step));
            let len_of = |it: Frame| it.raw_dlc().map_or(it.len(), usize::from);
            assert_eq!(sent.map(len_of), expected, "{frame} {len}");
            assert_eq!(steps.contains(&Step::TooLong(len)), expected.is_err(), "{steps:?}");
        }
    }
}
