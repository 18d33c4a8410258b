//! Random parts of rules, for property tests.

use candor_engine::Gate;
use candor_engine::edit::{Crc8, Crc8Profile, Operands, Operator, Range, XorChecksum};
use candor_engine::extension::action::{Action, Copy, Counter, Message, Place, Remap, Signal};
use candor_engine::extension::e2e::{E2e, Inclusion, Profile1};
use candor_engine::extension::pace::{DEFAULT_IDS, OnChange, Pace, Per};
use candor_engine::extension::payload::{Bytes, Payload};
use candor_engine::extension::{Conversion, Extension};
use candor_wire::can::frame::{FD_LENGTHS, RTR_FLAG, SFF_MASK};
use candor_wire::can::{ByteOrder, Field};
use proptest::prelude::*;

/// Few values, so that filters, exclusions and frames meet.
pub(crate) fn words() -> impl Strategy<Value = u32> {
    let id = prop_oneof![0x100..0x110_u32, Just(0x7FF), 0x18FE_F100..0x18FE_F104_u32];
    (id, 0..4_u32).prop_map(|(id, flags)| {
        let id = if flags & 2 != 0 { id } else { id & SFF_MASK };
        id | flags << 30
    })
}

pub(crate) fn operands(operator: Operator, gate: Gate) -> impl Strategy<Value = Operands> {
    let size = if gate == Gate::Fd { 64 } else { 8 };
    let neutral = if operator == Operator::And { 0xFF } else { 0 };
    let data = prop::collection::vec(any::<u8>(), size).prop_map(move |bytes| {
        let mut data = Box::new([neutral; 64]);
        data[..size].copy_from_slice(&bytes);
        data
    });
    let word = prop_oneof![words(), any::<u32>()];
    (
        prop::option::weighted(0.3, word),
        prop::option::weighted(0.2, 0..20_u8),
        prop::option::weighted(0.2, 0..8_u8),
        prop::option::weighted(0.2, data),
    )
        .prop_map(move |(can_id, len, flags, data)| Operands {
            can_id,
            len,
            flags: flags.filter(|_| gate == Gate::Fd),
            data,
        })
}

pub(crate) fn ranges(gate: Gate) -> impl Strategy<Value = Range> {
    let index = if gate == Gate::Fd { -64..=63_i8 } else { -8..=7_i8 };
    [index.clone(), index.clone(), index].prop_map(|[from, to, result]| Range { from, to, result })
}

pub(crate) fn crc8s(gate: Gate) -> impl Strategy<Value = Crc8> {
    let table = prop_oneof![
        any::<u8>().prop_map(Crc8::table_of),
        any::<u8>().prop_map(|seed| core::array::from_fn(|i| (i as u8).wrapping_mul(seed)))
    ];
    let profile = prop_oneof![
        Just(Crc8Profile::Plain),
        any::<u8>().prop_map(Crc8Profile::OneByte),
        any::<[u8; 16]>().prop_map(Crc8Profile::ByCounter),
        Just(Crc8Profile::IdXor),
    ];
    (ranges(gate), any::<u8>(), any::<u8>(), table, profile).prop_map(
        |(range, init, final_xor, table, profile)| Crc8 {
            range,
            init,
            final_xor,
            table: Box::new(table),
            profile,
        },
    )
}

/// How many bytes of data a rule of that kind works on.
fn size(gate: Gate) -> usize {
    if gate == Gate::Classical { 8 } else { 64 }
}

fn patterns(gate: Gate) -> impl Strategy<Value = Bytes> {
    // Few values, so that frames meet them.
    let mask = prop_oneof![Just(0_u8), Just(0xFF), Just(0xF0), Just(0x0F), Just(1), any::<u8>()];
    prop::collection::vec((0..3_u8, mask), 1..=size(gate).min(12))
        .prop_filter("no bit counts", |pairs| pairs.iter().any(|(_, mask)| *mask != 0))
        .prop_map(|pairs| Bytes::new(&pairs))
}

pub(crate) fn payloads(gate: Gate) -> impl Strategy<Value = Payload> {
    let lengths: Vec<_> =
        FD_LENGTHS.into_iter().filter(|&length| usize::from(length) <= size(gate)).collect();
    let length = (prop::sample::select(lengths), 0..5_u8)
        .prop_map(|(first, more)| (first, (first + more).min(64)));
    (
        prop::collection::vec(patterns(gate), 0..3),
        prop::collection::vec(patterns(gate), 0..2),
        prop::collection::vec(length, 0..2),
    )
        .prop_map(|(data, not_data, mut lengths)| {
            // Patterns that are all longer than that are a mistake.
            let shortest = data.iter().map(|bytes: &Bytes| bytes.len).min().unwrap_or(0);
            lengths.retain(|&(_, last)| last >= shortest);
            Payload { data, not_data, lengths }
        })
}

/// `free` tells whether something else in the rule makes it remember frames.
pub(crate) fn paces(gate: Gate, free: bool) -> impl Strategy<Value = Pace> {
    let interval = prop_oneof![1..50_u64, Just(3_600_000_000_000), any::<u64>()];
    let mask = prop_oneof![
        Just(Box::new([0xFF; 64])),
        prop::collection::vec(any::<u8>(), size(gate)).prop_map(|bytes| {
            let mut mask = Box::new([0; 64]);
            mask[..bytes.len()].copy_from_slice(&bytes);
            mask
        }),
    ];
    let at_least = prop_oneof![Just(0), 1..200_u64, any::<u64>()];
    let on_change =
        (mask, at_least).prop_map(|(mask, at_least_every_ns)| OnChange { mask, at_least_every_ns });
    (
        prop_oneof![Just(0), interval],
        prop_oneof![
            (1..5_u32).prop_map(Err),
            prop_oneof![Just(0), 1..200_u64, any::<u64>()].prop_map(Ok),
        ],
        prop_oneof![Just(0), 2..5_u32],
        prop::option::weighted(0.3, on_change),
        any::<bool>(),
        prop_oneof![Just(DEFAULT_IDS), 1..=u16::MAX / 2],
    )
        .prop_map(move |(interval_ns, tolerance, every, on_change, per_rule, ids)| {
            let tolerance_ns = match tolerance {
                _ if interval_ns == 0 => 0,
                Ok(tolerance_ns) => tolerance_ns,
                Err(burst) => Pace::tolerance_of_burst(interval_ns, burst),
            };
            let pace = Pace { interval_ns, tolerance_ns, every, on_change, per: Per::Id, ids };
            let counts = free || !pace.is_free();
            let per = if per_rule && counts { Per::Rule } else { Per::Id };
            Pace { per, ids: if counts { ids } else { DEFAULT_IDS }, ..pace }
        })
}

fn fields(gate: Gate) -> impl Strategy<Value = Field> {
    let size = size(gate);
    let order = prop_oneof![Just(ByteOrder::Intel), Just(ByteOrder::Motorola)];
    (0..size as u16 * 8, 1..=64_u8, order, any::<bool>()).prop_filter_map(
        "does not fit",
        move |(bit, bits, order, is_signed)| {
            Field::new(bit, bits, order, is_signed).ok()?.within(size).ok()
        },
    )
}

fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(1.0),
        Just(0.1),
        Just(1e-300),
        -1e6..1e6_f64,
        any::<f64>().prop_filter("is no number", |number| number.is_finite()),
    ]
}

fn places(gate: Gate) -> impl Strategy<Value = Place> {
    let scale = numbers().prop_filter("no scale", |scale| *scale != 0.0);
    let range = (numbers(), numbers(), 0..3_u8).prop_map(|(a, b, which)| match which {
        0 => (a.min(b), a.max(b)),
        1 => (f64::MIN, a),
        _ => (a, f64::MAX),
    });
    let range = range.prop_filter("no range", |range| *range != (f64::MIN, f64::MAX));
    ("\\PC{0,9}", fields(gate), scale, numbers(), prop::option::of(range))
        .prop_map(|(name, field, scale, offset, range)| Place { name, field, scale, offset, range })
}

fn signals(gate: Gate) -> impl Strategy<Value = Action> {
    let clamp = (numbers(), numbers()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    (places(gate), prop::option::of(places(gate)), numbers(), numbers(), prop::option::of(clamp))
        .prop_filter_map("too many digits", |(from, to, factor, addend, clamp)| {
            let of_received = to.is_some();
            let is_idle = !of_received && factor == 1.0 && addend == 0.0 && clamp.is_none();
            let factor = if is_idle { 2.0 } else { factor };
            let to = to.unwrap_or_else(|| from.clone());
            let signal = Signal::new(from, of_received, factor, addend, clamp, to).ok()?;
            Some(Action::Signal(Box::new(signal)))
        })
}

fn protections(gate: Gate) -> impl Strategy<Value = E2e> {
    let size = size(gate) as u8;
    let inclusion = prop::sample::select(Inclusion::ALL.map(|(_, inclusion)| inclusion).to_vec());
    let first = (any::<u16>(), inclusion, 0..size, 0..size * 2, 0..size * 2).prop_filter_map(
        "they overlap",
        |(data_id, inclusion, crc_byte, counter_nibble, id_nibble)| {
            let is_nibble = inclusion == Inclusion::Nibble;
            let id_nibble = if is_nibble { id_nibble } else { 3 };
            let overlap = counter_nibble / 2 == crc_byte
                || is_nibble && (id_nibble / 2 == crc_byte || id_nibble == counter_nibble);
            let profile = Profile1 { data_id, inclusion, crc_byte, counter_nibble, id_nibble };
            (!overlap).then_some(E2e::Profile1(profile))
        },
    );
    prop_oneof![first, any::<[u8; 16]>().prop_map(E2e::Profile2)]
}

fn tables_of_identifiers() -> impl Strategy<Value = Remap> {
    let pair = (words().prop_map(|word| word & !RTR_FLAG), words());
    (prop::collection::vec(pair, 1..5), any::<bool>())
        .prop_map(|(pairs, keeps_others)| Remap::new(pairs, keeps_others))
}

pub(crate) fn actions(gate: Gate, is_fd_after: bool) -> impl Strategy<Value = Action> {
    let size = size(gate) as u8;
    let operation = prop::sample::select(Operator::ALL.to_vec()).prop_flat_map(move |operator| {
        let operands = operands(operator, gate).prop_filter("none", |it| !it.is_empty());
        operands.prop_map(move |operands| Action::Operate(operator, operands))
    });
    let checksum = (ranges(gate), any::<u8>())
        .prop_map(|(range, init)| Action::XorChecksum(XorChecksum { range, init }));
    let copy =
        (0..size, 0..size, 1..=size).prop_filter_map("extension", move |(from, to, count)| {
            let fits = from.max(to) + count <= size;
            fits.then_some(Action::Copy(Copy { from, to, count }))
        });
    let lengths: Vec<_> = FD_LENGTHS
        .into_iter()
        .filter(|&length| length <= size && (is_fd_after || length <= 8))
        .collect();
    let message = ("\\PC{0,9}", words(), prop::sample::select(lengths))
        .prop_map(|(name, can_id, len)| Action::Message(Message { name, can_id, len }));
    let counter = (fields(gate), any::<u64>()).prop_filter_map("no room", |(field, modulus)| {
        let most = (*field.range().end()).min(i128::from(u32::MAX)) as u64;
        let modulus = 2 + modulus.checked_rem(most)?;
        Some(Action::Counter(Counter { field, modulus }))
    });
    prop_oneof![
        3 => operation,
        1 => crc8s(gate).prop_map(Action::Crc8),
        1 => checksum,
        2 => copy,
        3 => signals(gate),
        1 => message,
        2 => counter,
        2 => protections(gate).prop_map(Action::E2e),
        1 => tables_of_identifiers().prop_map(Action::Remap),
    ]
}

pub(crate) fn conversions(gate: Gate) -> impl Strategy<Value = Option<Conversion>> {
    let all = [Conversion::Fd, Conversion::FdWithSwitch, Conversion::Classical];
    let possible = all.into_iter().filter(move |conversion| match gate {
        Gate::Classical => conversion.is_fd(),
        Gate::Fd => !conversion.is_fd(),
        Gate::Any => true,
    });
    prop::option::weighted(0.3, prop::sample::select(possible.collect::<Vec<_>>()))
}

/// What rules of that kind may do that the kernel cannot.
pub(crate) fn extensions(gate: Gate) -> impl Strategy<Value = Extension> {
    let most = if gate == Gate::Any { 0 } else { 5 };
    conversions(gate)
        .prop_flat_map(move |convert| {
            let is_fd_after = convert.map_or(gate == Gate::Fd, Conversion::is_fd);
            (Just(convert), prop::collection::vec(actions(gate, is_fd_after), 0..=most))
        })
        .prop_flat_map(move |(convert, actions)| {
            let pace = paces(gate, !actions.is_empty());
            let deadline = prop_oneof![Just(0), 1..1_000_000_000_u64, any::<u64>()];
            (Just(convert), Just(actions), payloads(gate), pace, deadline)
        })
        .prop_map(|(convert, actions, payload, pace, deadline_ns)| Extension {
            payload,
            pace,
            actions,
            convert,
            deadline_ns,
        })
}
