//! The bytes of jobs, there and back.

use super::*;
use alloc::string::ToString;
use candor_engine::{Gate, Rule};
use proptest::prelude::*;

fn job() -> Job<u32> {
    Job {
        from: 3,
        to: 0x0102_0304,
        is_fd: false,
        filter: Filter::ANY,
        edit: Edit::default(),
        echo: false,
        keep_timestamp: false,
        allow_return: false,
        limit_hops: None,
        uid: 0,
    }
}

fn set(operands: Operands) -> Edit {
    Edit { set: operands, ..Edit::default() }
}

/// The interfaces of [`job`], which end each payload: SRC_IF is 9, DST_IF is 10.
#[cfg(target_endian = "little")]
const ENDS: [u8; 16] = [8, 0, 9, 0, 3, 0, 0, 0, 8, 0, 10, 0, 4, 3, 2, 1];

/// Worked out by hand from the header of the kernel.
#[test]
#[cfg(target_endian = "little")]
fn bytes_stand_where_the_header_puts_them() {
    let data = |operator: Operator, bytes: &[u8]| Some(operator.operand(bytes));
    let cases: [(Job<u32>, &[u8]); 7] = [
        (job(), &[29, 1, 0, 0]),
        (
            Job { echo: true, keep_timestamp: true, allow_return: true, is_fd: true, ..job() },
            &[29, 1, 0x0F, 0],
        ),
        // FILTER is 11: `struct can_filter`.
        (
            Job { filter: Filter::standard(0x123), ..job() },
            &[29, 1, 0, 0, 12, 0, 11, 0, 0x23, 0x01, 0, 0, 0xFF, 0x07, 0, 0xC0],
        ),
        (
            Job { filter: Filter { inverted: true, ..Filter::standard(1) }, ..job() },
            &[29, 1, 0, 0, 12, 0, 11, 0, 1, 0, 0, 0x20, 0xFF, 0x07, 0, 0xC0],
        ),
        // MOD_UID is 14, LIM_HOPS is 13: one byte and three of padding.
        (
            Job { uid: 0xA1B2_C3D4, limit_hops: Some(2), ..job() },
            &[29, 1, 0, 0, 8, 0, 14, 0, 0xD4, 0xC3, 0xB2, 0xA1, 5, 0, 13, 0, 2, 0, 0, 0],
        ),
        // MOD_SET is 4: `struct cgw_frame_mod` has 17 bytes; ID 1, DLC 2, DATA 4.
        (
            Job {
                edit: set(Operands {
                    can_id: Some(0x8000_0321),
                    len: Some(6),
                    flags: None,
                    data: data(Operator::Set, &[1, 2, 3, 4, 5, 6, 7, 8]),
                }),
                ..job()
            },
            &[
                29, 1, 0, 0, 21, 0, 4, 0, 0x21, 0x03, 0, 0x80, 6, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
                7, 0, 0, 0,
            ],
        ),
        // MOD_AND is 1, CS_XOR is 5.
        (
            Job {
                edit: Edit {
                    and: Operands { len: Some(7), ..Operands::default() },
                    xor_checksum: Some(XorChecksum {
                        range: Range { from: 0, to: -2, result: -1 },
                        init: 0x55,
                    }),
                    ..Edit::default()
                },
                ..job()
            },
            &[
                29, 1, 0, 0, 21, 0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,
                0, 8, 0, 5, 0, 0, 0xFE, 0xFF, 0x55,
            ],
        ),
    ];
    for (job, expected) in cases {
        assert_eq!(encode(&job), [expected, &ENDS].concat(), "{job:?}");
    }
    let none = [29, 1, 0, 0, 8, 0, 9, 0, 0, 0, 0, 0, 8, 0, 10, 0, 0, 0, 0, 0];
    assert_eq!(delete_all(), none);
}

#[test]
#[cfg(target_endian = "little")]
fn long_values_stand_where_the_header_puts_them() {
    // FDMOD_XOR is 17: 73 bytes, of which the sixth is for the flags (8); 3 bytes of padding.
    let operands = Operands { flags: Some(1), ..Operands::default() };
    let edit = Edit { xor: operands, ..Edit::default() };
    let payload = encode(&Job { is_fd: true, edit, ..job() });
    let mut expected = [29, 1, 8, 0, 77, 0, 17, 0, 0, 0, 0, 0, 0, 1, 0, 0].to_vec();
    expected.extend([0; 64]);
    expected.extend([8, 0, 0, 0]);
    expected.extend(ENDS);
    assert_eq!(payload, expected);

    // CS_CRC8 is 6: 3 indices, start, final XOR, 256 bytes of table, profile, 20 bytes of data.
    let crc8 = Crc8 {
        range: Range { from: 1, to: 6, result: 0 },
        init: 0xFF,
        final_xor: 0xFE,
        table: Box::new(Crc8::table_of(0x1D)),
        profile: Crc8Profile::ByCounter([9; 16]),
    };
    let payload = encode(&Job { edit: Edit { crc8: Some(crc8), ..Edit::default() }, ..job() });
    let mut expected = [29, 1, 0, 0, 0x1E, 1, 6, 0, 1, 6, 0, 0xFF, 0xFE].to_vec();
    expected.extend(Crc8::table_of(0x1D));
    expected.push(2);
    expected.extend([9; 16]);
    expected.extend([0; 4 + 2]);
    expected.extend(ENDS);
    assert_eq!(payload, expected);
}

#[test]
fn a_dump_tells_counters() {
    let mut payload = encode(&job());
    attribute(&mut payload, kind::HANDLED, &7_u32.to_ne_bytes());
    attribute(&mut payload, kind::DELETED, &9_u32.to_ne_bytes());
    // What newer kernels may add.
    attribute(&mut payload, 99, &[1, 2, 3]);
    let counters = Counters { handled: 7, dropped: 0, deleted: 9 };
    assert_eq!(decode(&payload), Ok((job(), counters)));
}

#[test]
fn what_is_no_job_is_refused_with_the_place() {
    let whole = encode(&Job { limit_hops: Some(1), ..job() });
    let changed = |at: usize, byte: u8| {
        let mut payload = whole.clone();
        payload[at] = byte;
        payload
    };
    let end = whole.len();
    for (payload, at, reason) in [
        (whole[..3].to_vec(), 3, "the header is incomplete"),
        (changed(0, 2), 0, "another family"),
        (changed(1, 2), 1, "another type"),
        (whole[..4].to_vec(), 4, "an interface is missing"),
        (whole[..end - 1].to_vec(), end - 8, "an attribute is incomplete"),
        (delete_all(), 20, "an interface is missing"),
        ([29, 1, 0, 0, 3, 0, 9, 0].to_vec(), 4, "an attribute is incomplete"),
        ([29, 1, 0, 0, 6, 0, 9, 0, 1, 0, 0, 0].to_vec(), 4, "an attribute has an unknown form"),
        ([29, 1, 0, 0, 4, 0, 13, 0].to_vec(), 4, "an attribute has an unknown form"),
    ] {
        let error = decode(&payload).unwrap_err();
        assert_eq!(error.at, at, "{payload:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn the_last_job_is_sent_first() {
    let mut first = Rule::new("first", BusIndex(0), BusIndex(1));
    first.to.push(BusIndex(2));
    let second = Rule { gate: Gate::Any, ..Rule::new("second", BusIndex(1), BusIndex(0)) };
    let table = Table { rules: [first, second].into(), ..Table::default() };
    let requests = requests(&table, |bus| u32::from(bus.0) + 10).unwrap();
    let order: Vec<_> = requests
        .iter()
        .map(|request| (request.rule, request.destination, request.job.to, request.job.is_fd))
        .collect();
    assert_eq!(order, [(1, 0, 10, true), (1, 0, 10, false), (0, 1, 12, false), (0, 0, 11, false)]);
    assert!(requests.iter().all(|request| encode(&request.job) == request.payload));
}

#[test]
fn a_rule_that_the_kernel_cannot_do_is_named() {
    let mut rule = Rule::new("x", BusIndex(0), BusIndex(1));
    rule.edit.xor_checksum =
        Some(XorChecksum { range: Range { from: 0, to: 0, result: 0 }, init: 0 });
    // An operation that classical frames have no use for is none.
    rule.edit.set.flags = Some(1);
    let good = Rule::new("y", BusIndex(0), BusIndex(1));
    let table = Table { rules: [good, rule].into(), ..Table::default() };
    let failures = requests(&table, |bus| u32::from(bus.0)).unwrap_err();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].rule, 1);
    assert!(failures[0].reason.contains("without an operation"), "{failures:?}");
}

fn operands(is_fd: bool, operator: Operator) -> impl Strategy<Value = Operands> {
    let data = prop::collection::vec(any::<u8>(), if is_fd { 64 } else { CLASSICAL_LEN });
    let flags = prop::option::of(any::<u8>());
    (prop::option::of(any::<u32>()), prop::option::of(any::<u8>()), flags, prop::option::of(data))
        .prop_map(move |(can_id, len, flags, data)| Operands {
            can_id,
            len,
            flags: flags.filter(|_| is_fd),
            data: data.map(|data| operator.operand(&data)),
        })
}

fn edits(is_fd: bool) -> impl Strategy<Value = Edit> {
    let range = || any::<[i8; 3]>().prop_map(|[from, to, result]| Range { from, to, result });
    let profile = prop_oneof![
        Just(Crc8Profile::Plain),
        any::<u8>().prop_map(Crc8Profile::OneByte),
        any::<[u8; 16]>().prop_map(Crc8Profile::ByCounter),
        Just(Crc8Profile::IdXor),
    ];
    let crc8 = (range(), any::<[u8; 3]>(), profile).prop_map(
        |(range, [init, final_xor, polynomial], profile)| Crc8 {
            range,
            init,
            final_xor,
            table: Box::new(Crc8::table_of(polynomial)),
            profile,
        },
    );
    let checksum = (range(), any::<u8>()).prop_map(|(range, init)| XorChecksum { range, init });
    (
        operands(is_fd, Operator::And),
        operands(is_fd, Operator::Or),
        operands(is_fd, Operator::Xor),
        operands(is_fd, Operator::Set),
        prop::option::of(crc8),
        prop::option::of(checksum),
    )
        .prop_map(|(and, or, xor, set, crc8, xor_checksum)| Edit {
            and,
            or,
            xor,
            set,
            crc8,
            xor_checksum,
        })
}

fn jobs() -> impl Strategy<Value = Job<u32>> {
    // Error filters cannot be inverted, and bit 29 of an identifier is no part of it.
    let filter =
        (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(can_id, mask, inverted)| Filter {
            can_id: can_id & !ERR_FLAG,
            mask,
            inverted: inverted && mask & ERR_FLAG == 0,
        });
    let edit = any::<bool>().prop_flat_map(|is_fd| (Just(is_fd), edits(is_fd)));
    (
        edit,
        filter,
        1..u32::MAX,
        1..u32::MAX,
        any::<[bool; 3]>(),
        prop::option::of(any::<u8>()),
        any::<u32>(),
    )
        .prop_map(|((is_fd, edit), filter, from, to, [echo, keep, back], limit_hops, uid)| {
            Job {
                from,
                to,
                is_fd,
                filter,
                edit,
                echo,
                keep_timestamp: keep,
                allow_return: back,
                limit_hops,
                uid,
            }
        })
}

proptest! {
    #[test]
    fn a_job_is_read_as_it_was_written(job in jobs()) {
        let payload = encode(&job);
        prop_assert_eq!(payload.len() % 4, 0);
        prop_assert_eq!(decode(&payload), Ok((job, Counters::default())));
    }

    #[test]
    fn cut_and_damaged_payloads_do_not_panic(
        job in jobs(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut payload = encode(&job);
        let at = at.index(payload.len());
        payload[at] = byte;
        let cut = cut.index(payload.len() + 1);
        if let Err(error) = decode(&payload[..cut]) {
            prop_assert!(error.at <= cut.max(HEADER_LEN) + 3, "{}", error);
        }
    }
}

#[test]
fn each_counter_of_a_dump_has_its_place() {
    let mut payload = encode(&job());
    attribute(&mut payload, kind::HANDLED, &7_u32.to_ne_bytes());
    attribute(&mut payload, kind::DROPPED, &8_u32.to_ne_bytes());
    attribute(&mut payload, kind::DELETED, &9_u32.to_ne_bytes());
    let counters = Counters { handled: 7, dropped: 8, deleted: 9 };
    assert_eq!(decode(&payload), Ok((job(), counters)));
}

#[test]
fn a_job_has_two_interfaces() {
    for (from, to) in [(0, 4), (3, 0), (0, 0)] {
        let refused = decode(&encode(&Job { from, to, ..job() })).unwrap_err();
        assert_eq!(refused.reason, "an interface is missing", "{from} {to}");
    }
}
