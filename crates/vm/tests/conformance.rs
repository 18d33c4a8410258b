//! The kernel as the oracle: generated rules and frames go through the can-gw of a real kernel in a
//! guest and through the engine of `candor-engine`; copies and counters agree frame by frame. The gateway of
//! candor_can stands where can-gw is, with what it knows of the same rules and frames.
//!
//! Needs QEMU and kernels (`candor vm fetch 6.12`), so it runs only when asked to:
//!
//! ```text
//! CANDOR_KERNELS="6.12 7.2-rt" cargo test -p candor-vm --test conformance -- --ignored
//! ```
//!
//! `CANDOR_CASES` (2000) is how many sets of rules are tried, `PROPTEST_RNG_SEED` chooses others.
//! A disagreement is shrunk, each step with a run of the guest.
//!
//! A known bug: until March 2026 kernels computed the relative CRC8 wrongly, out of bounds even. It
//! was fixed by b9c310d72783, also in the stable releases that Debian has. On a kernel without that,
//! rules with a negative index disagree, and are dangerous to try.

use std::fmt::Write as _;
use std::path::Path;

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::edit::{Crc8, Crc8Profile, Operands, Range, XorChecksum};
use candor_engine::{Bus, BusIndex, Edit, Engine, Filter, Gate, Rule, Table};
use candor_engine::{Forward, Hops};
use candor_init::INIT;
use candor_protocol::Order;
use candor_protocol::order::Trial;
use candor_protocol::report::{JobCount, TrialOutcome};
use candor_time::Nanos;
use candor_vm::{Cache, Machine, Qemu, Setup, Unwatched, kernel};
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK, fd_dlc};
use candor_wire::can::socketcan::{CAN_MTU, HEADER_LEN, IdOrder, decode, encode};
use candor_wire::can::{Frame, Kind};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

/// Trials of one run of the guest.
const BATCH: usize = 250;

// ---- Generating ----------------------------------------------------------------------------------

/// Few values, so that filters and frames meet.
fn any_id() -> impl Strategy<Value = u32> {
    let number = prop_oneof![0..4_u32, 0x120..0x123_u32, Just(SFF_MASK), Just(EFF_MASK)];
    (number, any::<bool>(), prop::bool::weighted(0.15)).prop_map(|(id, is_extended, is_remote)| {
        let id = if is_extended { id | EFF_FLAG } else { id & SFF_MASK };
        id | if is_remote { RTR_FLAG } else { 0 }
    })
}

fn any_frame(is_fd: bool) -> BoxedStrategy<Frame> {
    let bytes = prop::collection::vec(any::<u8>(), 64);
    if is_fd {
        let lengths = prop::sample::select(vec![0_usize, 1, 7, 8, 12, 16, 20, 24, 32, 48, 64]);
        (any_id(), lengths, bytes, 0..4_u8)
            .prop_map(|(id, length, bytes, flags)| {
                Frame::from_parts(id & !RTR_FLAG, &bytes[..length], Some(flags)).unwrap()
            })
            .boxed()
    } else {
        let length = prop_oneof![4 => 0..=8_usize, 1 => 9..=15_usize];
        let is_error = prop::bool::weighted(0.03);
        (any_id(), length, bytes, is_error)
            .prop_map(|(id, length, bytes, is_error)| {
                if is_error {
                    return Frame::from_parts(id & EFF_MASK | ERR_FLAG, &bytes[..8], None).unwrap();
                }
                let frame = Frame::from_parts(id, &bytes[..length.min(8)], None).unwrap();
                frame.with_raw_dlc(length as u8).unwrap_or(frame)
            })
            .boxed()
    }
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let mask = prop_oneof![
        Just(EFF_FLAG | RTR_FLAG | SFF_MASK),
        Just(EFF_FLAG | RTR_FLAG | EFF_MASK),
        Just(SFF_MASK),
        Just(EFF_FLAG | SFF_MASK),
        Just(EFF_MASK),
        Just(0),
        Just(EFF_FLAG),
        Just(0x7F8),
        Just(EFF_FLAG | 0x1FFF_FFF0),
        any::<u32>().prop_map(|mask| mask & !ERR_FLAG),
        Just(ERR_FLAG | 0x4),
    ];
    (any_id(), mask, prop::bool::weighted(0.15)).prop_map(|(can_id, mask, inverted)| Filter {
        can_id,
        mask,
        inverted: inverted && mask & ERR_FLAG == 0,
    })
}

fn any_operands(is_fd: bool) -> impl Strategy<Value = Operands> {
    let can_id = prop_oneof![
        any_id(),
        Just(EFF_FLAG | RTR_FLAG | EFF_MASK),
        Just(!RTR_FLAG),
        Just(0),
        any::<u32>().prop_map(|id| id & !ERR_FLAG)
    ];
    let length = prop_oneof![0..=8_u8, 0..=70_u8, Just(0xFF)];
    let data = prop::collection::vec(any::<u8>(), 64);
    (
        prop::option::weighted(0.4, can_id),
        prop::option::weighted(0.3, length),
        prop::option::weighted(0.2, any::<u8>()),
        prop::option::weighted(0.4, data),
    )
        .prop_map(move |(can_id, len, flags, data)| {
            let mut operand = [0; 64];
            let size = if is_fd { 64 } else { 8 };
            let data = data.map(|data| {
                operand[..size].copy_from_slice(&data[..size]);
                Box::new(operand)
            });
            Operands { can_id, len, flags: flags.filter(|_| is_fd), data }
        })
}

fn any_range(is_fd: bool) -> impl Strategy<Value = Range> {
    let size = if is_fd { 64_i8 } else { 8 };
    let index = -size..size;
    (index.clone(), index.clone(), index).prop_map(|(from, to, result)| Range { from, to, result })
}

fn any_edit(is_fd: bool) -> impl Strategy<Value = Edit> {
    let none = Just(Operands::default());
    let operands = move || prop_oneof![2 => none.clone(), 1 => any_operands(is_fd)];
    let profile = prop_oneof![
        Just(Crc8Profile::Plain),
        any::<u8>().prop_map(Crc8Profile::OneByte),
        any::<[u8; 16]>().prop_map(Crc8Profile::ByCounter),
        Just(Crc8Profile::IdXor),
    ];
    let crc8 = (any_range(is_fd), any::<u8>(), any::<u8>(), any::<u8>(), profile).prop_map(
        |(range, init, final_xor, polynomial, profile)| Crc8 {
            range,
            init,
            final_xor,
            table: Box::new(Crc8::table_of(polynomial)),
            profile,
        },
    );
    let xor = (any_range(is_fd), any::<u8>()).prop_map(|(range, init)| XorChecksum { range, init });
    (
        operands(),
        operands(),
        operands(),
        operands(),
        prop::option::weighted(0.3, crc8),
        prop::option::weighted(0.3, xor),
    )
        .prop_map(|(and, or, xor, set, crc8, xor_checksum)| {
            let mut edit = Edit { and, or, xor, set, crc8, xor_checksum };
            if !edit.modifies() {
                // Without a modification the kernel refuses checksums.
                (edit.crc8, edit.xor_checksum) = (None, None);
            }
            edit
        })
}

fn any_rule(index: usize, buses: u16) -> impl Strategy<Value = Rule> {
    let ends = (0..buses, 1..buses).prop_map(move |(from, step)| (from, (from + step) % buses));
    let is_fd = prop::bool::weighted(0.3);
    is_fd.prop_flat_map(move |is_fd| {
        let filter = prop::option::weighted(0.6, any_filter());
        let edit = prop_oneof![1 => Just(Edit::default()), 2 => any_edit(is_fd)];
        let second = prop::bool::weighted(0.2);
        (ends.clone(), filter, edit, second, any::<[bool; 2]>()).prop_map(
            move |((from, to), filter, edit, second, [echo, keep_timestamp])| {
                let mut rule = Rule::new(format!("rule {index}"), BusIndex(from), BusIndex(to));
                if second && buses > 2 {
                    let other = (0..buses).find(|&bus| bus != from && bus != to);
                    rule.to.extend(other.map(BusIndex));
                }
                rule.gate = if is_fd { Gate::Fd } else { Gate::Classical };
                rule.filters = filter.into_iter().collect();
                // An identifier that no bus can carry, such as one of 12 bits, is cut by controllers
                // and by our engine, but not on its way back through an echo.
                let touches_id = [&edit.and, &edit.or, &edit.xor, &edit.set]
                    .iter()
                    .any(|operands| operands.can_id.is_some());
                rule.echo = echo && !touches_id;
                rule.keep_timestamp = keep_timestamp;
                rule.edit = edit;
                rule
            },
        )
    })
}

/// A trial; frames are kept as frames, for people.
#[derive(Clone, Debug)]
struct Case {
    rules: Table,
    frames: Vec<(u16, Frame)>,
}

impl Case {
    fn trial(&self) -> Trial {
        let bytes = |frame: &Frame| {
            let (bytes, length) = encode(frame, IdOrder::LittleEndian);
            bytes[..length].to_vec()
        };
        let frames = self.frames.iter().map(|(bus, frame)| (*bus, bytes(frame))).collect();
        Trial { rules: self.rules.clone(), frames }
    }
}

/// What the gateway of candor_can knows of a case: classical frames without a raw DLC, no error reports.
fn classical(mut case: Case) -> Case {
    // Of can-gw this is a parameter of the module, so cases do not change it.
    case.rules.max_hops = 1 + (case.frames.len() % 4) as u8;
    for (index, rule) in case.rules.rules.iter_mut().enumerate() {
        rule.limit_hops = (index % 3 == 1).then_some(1);
        rule.gate = Gate::Classical;
        for filter in &mut rule.filters {
            filter.mask &= !ERR_FLAG;
        }
    }
    let of_classical = |(bus, frame): (u16, Frame)| {
        let length = frame.len().min(8);
        let id = match frame.kind() {
            Kind::Error => frame.can_id() & EFF_MASK | EFF_FLAG,
            _ => frame.can_id(),
        };
        (bus, Frame::from_parts(id, &frame.buffer()[..length], None).unwrap())
    };
    case.frames = case.frames.into_iter().map(of_classical).collect();
    case
}

fn any_case() -> impl Strategy<Value = Case> {
    (2..=4_u16).prop_flat_map(|buses| {
        let rules = (1..=5_usize).prop_flat_map(move |count| {
            (0..count).map(|index| any_rule(index, buses).boxed()).collect::<Vec<_>>()
        });
        let frame = prop_oneof![7 => any_frame(false), 3 => any_frame(true)];
        let frames = prop::collection::vec((0..buses, frame), 1..6);
        (rules, frames).prop_map(move |(rules, frames)| {
            let bus = |index| Bus {
                name: format!("bus{index}"),
                port: format!("gw{index}"),
                is_virtual: false,
            };
            let rules = Table { buses: (0..buses).map(bus).collect(), rules, ..Table::default() };
            Case { rules, frames }
        })
    })
}

// ---- Comparing -----------------------------------------------------------------------------------

/// What came of a trial: per frame and bus the copies in order, and the counters.
#[derive(Debug, PartialEq)]
struct Seen {
    copies: Vec<Vec<Vec<String>>>,
    jobs: Vec<JobCount>,
}

fn empty(case: &Case) -> Vec<Vec<String>> {
    vec![Vec::new(); case.rules.buses.len()]
}

/// What our engine does. A copy that is sent with `echo` is also received on the bus that it is sent
/// on, by everybody who listens there: by the gateway itself too, whose rules for that bus count it
/// as having made too many hops. A device of the driver sends no error report.
fn expected(case: &Case, is_driver: bool) -> Seen {
    let (mut engine, mut hops) = (Engine::new(&case.rules), Hops::default());
    let mut all = Vec::new();
    for (bus, frame) in &case.frames {
        let mut copies = empty(case);
        let bus = BusIndex(*bus);
        engine.follow(Nanos::ZERO, bus, frame, &mut hops, &mut |copy: Forward<'_>| {
            if is_driver && copy.frame.kind() == Kind::Error {
                return Outcome::Refused(Cause::Unsupported);
            }
            let text = copy.frame.to_string();
            // Its frames have 8 bytes at most, and no raw DLC beside it.
            let (without_raw_dlc, _) = text.split_once('_').unwrap_or((&text, ""));
            let text = if is_driver { without_raw_dlc.to_owned() } else { text };
            copies[usize::from(copy.to.0)].push(text);
            Outcome::Handled
        });
        all.push(copies);
    }
    let count = |job: &candor_engine::counters::JobCounters| JobCount {
        handled: job.handled,
        dropped: job.dropped(),
        deleted: job.deleted(),
        causes: Vec::new(),
    };
    Seen { copies: all, jobs: engine.counters().jobs().iter().map(count).collect() }
}

/// A frame of the kernel as ours: what can never be on a bus is rounded as drivers and our engine
/// do, so that what is compared is what a bus would carry.
fn frame_of(bytes: &[u8]) -> String {
    let is_fd = bytes.len() != CAN_MTU;
    if let Ok(frame) = decode(bytes, IdOrder::LittleEndian) {
        return frame.to_string();
    }
    let can_id = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut data = [0; 64];
    data[..bytes.len() - HEADER_LEN].copy_from_slice(&bytes[HEADER_LEN..]);
    let length = bytes[4].max(if is_fd { 0 } else { bytes[7] });
    match Frame::rewritten(can_id, length, is_fd.then_some(bytes[5]), data) {
        Ok(frame) => frame.to_string(),
        Err(error) => format!("{bytes:02X?}: {error}"),
    }
}

/// What the kernel did.
fn observed(case: &Case, outcome: &TrialOutcome) -> Result<Seen, String> {
    if let Some((rule, errno)) = outcome.refused.first() {
        return Err(format!("the kernel refuses rule {rule} with error {errno}"));
    }
    let of_frame = |copies: &Vec<(u16, Vec<u8>)>| {
        let mut by_bus = empty(case);
        for (bus, bytes) in copies {
            by_bus[usize::from(*bus)].push(frame_of(bytes));
        }
        by_bus
    };
    let copies = outcome.copies.iter().map(of_frame).collect();
    Ok(Seen { copies, jobs: outcome.jobs.clone() })
}

/// The disagreement, for people.
fn disagreement(case: &Case, is_driver: bool, outcome: &TrialOutcome) -> Option<String> {
    let expected = expected(case, is_driver);
    let seen = match observed(case, outcome) {
        Ok(seen) if seen == expected => return None,
        Ok(seen) => format!("{seen:?}"),
        Err(reason) => reason,
    };
    let mut text = String::new();
    for rule in &case.rules.rules {
        let _ = writeln!(text, "{rule:?}");
    }
    for (bus, frame) in &case.frames {
        let _ = writeln!(text, "frame on bus {bus}: {frame}");
    }
    let _ = writeln!(text, "engine: {expected:?}\nkernel: {seen}");
    Some(text)
}

// ---- Running -------------------------------------------------------------------------------------

/// Whom the engine is compared with: the can-gw of a machine, or the gateway of candor_can, whose module this is.
struct Peer {
    machine: Machine,
    module: Option<Vec<u8>>,
}

impl Peer {
    /// The case of a tree, as far as the peer knows such.
    fn case(&self, tree: &impl ValueTree<Value = Case>) -> Case {
        let case = tree.current();
        if self.module.is_some() { classical(case) } else { case }
    }

    fn outcomes(&self, cases: &[Case]) -> Vec<TrialOutcome> {
        let trials = cases.iter().map(Case::trial).collect();
        let order = match &self.module {
            None => Order::Conform(trials),
            Some(module) => Order::ConformDriver(module.clone(), trials),
        };
        let report = self.machine.run(&order, &Unwatched).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.trials.len(), cases.len(), "an outcome per trial");
        report.trials
    }

    fn disagreement(&self, case: &Case, outcome: &TrialOutcome) -> Option<String> {
        disagreement(case, self.module.is_some(), outcome)
    }
}

fn machine(name: &str) -> Machine {
    let fail = |error: &dyn std::fmt::Display| -> ! { panic!("{name}: {error}") };
    let cache = Cache::open(None).unwrap_or_else(|error| fail(&error));
    let qemu = Qemu::find().unwrap_or_else(|error| fail(&error));
    let spec = name.parse().unwrap_or_else(|error| fail(&error));
    let kernel = kernel::find(&cache, &spec).unwrap_or_else(|error| fail(&error));
    Machine::new(&cache, &qemu, &kernel, INIT, Setup::default())
        .unwrap_or_else(|error| fail(&error))
}

fn can_gw(kernel: &str) -> Peer {
    Peer { machine: machine(kernel), module: None }
}

fn candor_can(kernel: &str) -> Peer {
    let cache = Cache::open(None).unwrap();
    let found = kernel::find(&cache, &kernel.parse().unwrap()).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/candor_can");
    let module = kernel::driver::build(&cache, &found, &sources, "candor_can").unwrap();
    Peer { machine: machine(kernel), module: Some(module) }
}

fn agree(peer: fn(&str) -> Peer) {
    let kernels = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let cases: usize =
        std::env::var("CANDOR_CASES").map_or(2000, |text| text.parse().expect("CANDOR_CASES"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = any_case();
    let mut trees: Vec<_> = (0..cases).map(|_| strategy.new_tree(&mut runner).unwrap()).collect();
    for name in kernels.split_whitespace() {
        let peer = peer(name);
        let mut compared = 0;
        for batch in trees.chunks_mut(BATCH) {
            let cases: Vec<_> = batch.iter().map(|tree| peer.case(tree)).collect();
            for (at, outcome) in peer.outcomes(&cases).iter().enumerate() {
                if let Some(first) = peer.disagreement(&cases[at], outcome) {
                    let smallest = shrink(&peer, &mut batch[at]).unwrap_or(first);
                    panic!("engine and Linux {name} disagree:\n{smallest}");
                }
                compared += 1;
            }
        }
        assert_eq!(compared, cases);
        println!("{name}: {compared} sets of rules agree");
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn the_engine_does_what_the_kernel_does() {
    agree(can_gw);
}

#[test]
#[ignore = "needs QEMU, kernels and their headers: see the top of this file"]
fn the_driver_does_what_the_engine_does() {
    agree(candor_can);
}

/// The smallest case that disagrees, found by asking the guest again and again.
fn shrink(peer: &Peer, tree: &mut impl ValueTree<Value = Case>) -> Option<String> {
    const STEPS: usize = 100;
    let mut smallest = None;
    if !tree.simplify() {
        return None;
    }
    for _ in 0..STEPS {
        let case = peer.case(tree);
        let outcome = peer.outcomes(std::slice::from_ref(&case));
        let goes_on = match peer.disagreement(&case, &outcome[0]) {
            Some(text) => {
                smallest = Some(text);
                tree.simplify()
            }
            None => tree.complicate(),
        };
        if !goes_on {
            break;
        }
    }
    smallest
}

/// That cases are worth something does not need a kernel: frames meet rules, are edited, deleted.
#[test]
fn cases_reach_what_they_should() {
    let mut runner = TestRunner::new(Config::default());
    let strategy = any_case();
    let (mut forwarded, mut deleted, mut edited, mut twice) = (0, 0, 0, 0);
    for _ in 0..500 {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        let seen = expected(&case, false);
        forwarded += seen.jobs.iter().map(|job| job.handled).sum::<u64>();
        deleted += seen.jobs.iter().map(|job| job.deleted).sum::<u64>();
        twice += seen.copies.iter().flatten().filter(|copies| copies.len() > 1).count();
        for ((_, frame), copies) in case.frames.iter().zip(&seen.copies) {
            let frame = frame.to_string();
            edited += copies.iter().flatten().filter(|copy| **copy != frame).count();
        }
        for (_, frame) in &case.frames {
            let (bytes, length) = encode(frame, IdOrder::LittleEndian);
            assert_eq!(frame_of(&bytes[..length]), frame.to_string());
            assert!(!frame.is_fd() || fd_dlc(frame.len()).is_some());
        }
    }
    println!("{forwarded} forwarded, {deleted} deleted, {edited} edited, {twice} twice");
    assert!(forwarded > 250 && deleted > 60 && edited > 80 && twice > 15);
}
