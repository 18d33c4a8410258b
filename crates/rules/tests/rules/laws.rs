//! Laws of rule files and of the notation of cangw, for any table.

use std::sync::Arc;

use crate::random::{crc8s, extensions, operands, ranges, words};
use candor_causes::Cause;
use candor_engine::counters::{Counters, Outcome};
use candor_engine::edit::{Edit, Operator, XorChecksum};
use candor_engine::image::crc32;
use candor_engine::program::{Job, JobIndex};
use candor_engine::{Bus, BusIndex, Extension, Filter, Gate, Rule, Table};
use candor_engine::{Egress, Engine, Forward, Passage, Program};
use candor_rules::explain::{Verdict, explain};
use candor_rules::{cangw, file};
use candor_time::Nanos;
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};
use proptest::prelude::*;

const BUSES: u16 = 4;

fn buses() -> Vec<Bus> {
    let bus = |(name, interface): (&str, &str), is_virtual| Bus {
        name: name.into(),
        port: interface.into(),
        is_virtual,
    };
    vec![
        bus(("powertrain", "can0"), false),
        bus(("two \"words\"", "can1"), true),
        bus(("bench", "vcan0"), true),
        bus(("", "vcan1"), false),
    ]
}

fn filters() -> impl Strategy<Value = Filter> {
    let mask = prop_oneof![
        4 => Just(EFF_FLAG | RTR_FLAG | SFF_MASK),
        2 => Just(EFF_FLAG | RTR_FLAG | EFF_MASK),
        1 => Just(0x7FF_u32),
        1 => Just(EFF_FLAG | RTR_FLAG | 0x7FC),
        1 => Just(EFF_FLAG),
        1 => any::<u32>().prop_map(|mask| mask & !ERR_FLAG),
    ];
    (words(), mask, prop::bool::weighted(0.1)).prop_map(|(can_id, mask, inverted)| Filter {
        can_id,
        mask,
        inverted,
    })
}

fn error_filters() -> impl Strategy<Value = Filter> {
    (0..0x200_u32).prop_map(|class| Filter { can_id: 0, mask: ERR_FLAG | class, inverted: false })
}

fn edits(gate: Gate) -> impl Strategy<Value = Edit> {
    (
        Operator::ALL.map(|operator| operands(operator, gate)),
        prop::option::weighted(0.2, crc8s(gate)),
        prop::option::weighted(0.2, (ranges(gate), any::<u8>())),
    )
        .prop_map(move |([and, or, xor, set], crc8, checksum)| {
            let xor_checksum = checksum.map(|(range, init)| XorChecksum { range, init });
            let edit = Edit { and, or, xor, set, crc8, xor_checksum };
            match (gate, edit.modifies()) {
                (Gate::Any, _) => Edit::default(),
                (_, true) => edit,
                (_, false) => Edit { crc8: None, xor_checksum: None, ..edit },
            }
        })
}

fn rules() -> impl Strategy<Value = Rule> {
    let gate = prop_oneof![3 => Just(Gate::Classical), 2 => Just(Gate::Fd), 1 => Just(Gate::Any)];
    gate.prop_flat_map(|gate| {
        (
            (0..BUSES, prop::sample::subsequence((0..BUSES).collect::<Vec<_>>(), 1..=2)),
            (
                prop::collection::vec(filters(), 0..3),
                prop::option::weighted(0.1, error_filters()),
                prop::collection::vec(filters(), 0..2),
            ),
            edits(gate),
            any::<[bool; 3]>(),
            prop::option::of(1..=3_u8),
        )
            .prop_map(
                move |((from, to), (filters, error, except), edit, flags, limit_hops)| {
                    let from = BusIndex(from);
                    let to: Vec<_> = to.into_iter().map(BusIndex).collect();
                    let mut filters: Vec<_> = filters.into_iter().chain(error).collect();
                    if filters == [Filter::ANY] {
                        filters.clear();
                    }
                    Rule {
                        allow_return: flags[0] || to.contains(&from),
                        echo: flags[1],
                        keep_timestamp: flags[2],
                        gate,
                        filters,
                        except,
                        edit,
                        limit_hops,
                        to,
                        ..Rule::new("", from, from)
                    }
                },
            )
    })
}

prop_compose! {
    fn tables()(rules in prop::collection::vec(rules(), 0..5), uid in 1..9_u32) -> Table {
        let rules = rules.into_iter().zip(1_u32..).map(|(rule, index)| Rule {
            name: format!("rule \"{index}\"\n"),
            uid: if index % 2 == 0 { uid * 10 + index } else { 0 },
            ..rule
        });
        Table { buses: buses(), rules: rules.collect(), max_hops: 3, ..Table::default() }
    }
}

/// Tables with rules that the kernel cannot run.
fn tables_with_extensions() -> impl Strategy<Value = Table> {
    let extension = |table: Table| {
        let extensions: Vec<_> = table.rules.iter().map(|rule| extensions(rule.gate)).collect();
        (Just(table), extensions, any::<bool>())
    };
    tables().prop_flat_map(extension).prop_map(|(mut table, extensions, refuses_others)| {
        for (rule, extension) in table.rules.iter_mut().zip(extensions) {
            if !extension.actions.is_empty() {
                rule.edit = Edit::default();
            }
            rule.extension = extension;
        }
        Table { refuses_others, ..table }
    })
}

/// What an engine does: rule, destination, and what goes there or why nothing does.
struct Done {
    jobs: Vec<Job>,
    done: Vec<(String, BusIndex, Result<Frame, Cause>)>,
}

impl Egress for Done {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let rule = self.jobs[copy.job.0 as usize].rule.clone();
        self.done.push((rule, copy.to, Ok(*copy.frame)));
        Outcome::Handled
    }

    fn refused(&mut self, job: JobIndex, cause: Cause) {
        let Job { rule, to, .. } = self.jobs[job.0 as usize].clone();
        self.done.push((rule, to, Err(cause)));
    }
}

fn frames() -> impl Strategy<Value = Frame> {
    (words(), prop::bool::weighted(0.1), any::<bool>(), any::<[u8; 8]>(), 0..=8_usize).prop_map(
        |(word, is_error, is_fd, data, len)| {
            let error = if is_error { ERR_FLAG } else { 0 };
            let fd_flags = (is_fd && !is_error && word & RTR_FLAG == 0).then_some(1);
            Frame::from_parts(word | error, &data[..len], fd_flags).unwrap()
        },
    )
}

/// All copies of a frame from an interface, sorted: destination, frame, and how it is sent.
fn copies(table: &Table, interface: &str, frame: &Frame) -> Vec<String> {
    let name = |bus: BusIndex| table.buses[usize::from(bus.0)].port.as_str();
    let rules = table.rules.iter().filter(|rule| name(rule.from) == interface);
    let matching = rules.filter(|rule| rule.matches(frame));
    let mut copies: Vec<_> = matching
        .flat_map(|rule| {
            let out = rule.edit.apply(frame);
            let Rule { echo, keep_timestamp, allow_return, limit_hops, uid, .. } = rule;
            rule.to.iter().map(move |&to| {
                let to = name(to);
                format!("{to} {out:?} {echo} {keep_timestamp} {allow_return} {limit_hops:?} {uid}")
            })
        })
        .collect();
    copies.sort();
    copies
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_rule_file_reads_as_the_table_it_was_written_from(table in tables()) {
        let text = file::write(&table);
        let (read, findings) = file::parse("written", &text);
        let mut read = read.ok_or_else(|| TestCaseError::fail(format!("{text}\n{findings}")))?;
        for rule in &mut read.rules {
            prop_assert_ne!(rule.position, (0, 0));
            rule.position = (0, 0);
        }
        prop_assert_eq!(read, table, "{}", text);
    }

    #[test]
    fn a_rule_file_with_everything_reads_as_the_table_it_was_written_from(
        table in tables_with_extensions(),
    ) {
        let text = file::write(&table);
        let (read, findings) = file::parse("written", &text);
        let mut read = read.ok_or_else(|| TestCaseError::fail(format!("{text}\n{findings}")))?;
        for rule in &mut read.rules {
            rule.position = (0, 0);
        }
        prop_assert_eq!(&read, &table, "{}", text);
        // What the kernel cannot do is never asked of it.
        let reported: Vec<_> = cangw::export(&table)
            .err()
            .unwrap_or_default()
            .into_iter()
            .map(|failure| failure.rule)
            .collect();
        for (index, rule) in table.rules.iter().enumerate() {
            let is_extended = rule.extension != Extension::default();
            prop_assert!(!is_extended || reported.contains(&index), "{}", text);
        }
    }

    #[test]
    fn what_is_explained_is_what_a_fresh_engine_does(
        table in tables_with_extensions(),
        frames in prop::collection::vec(frames(), 2),
    ) {
        for frame in frames {
            let mut engine = Engine::new(&table);
            for bus in (0..BUSES).map(BusIndex) {
                let mut reported = Vec::new();
                for explained in explain(&table, bus, &frame).passes.swap_remove(0).rules {
                    let Verdict::Taken(taken) = explained.verdict else { continue };
                    for copy in taken.copies {
                        let rule = &table.rules[explained.rule].name;
                        let result = copy.refused.map_or(taken.result, Err);
                        reported.push((taken.list, (rule.clone(), copy.to, result)));
                    }
                }
                // Rules fire by receive list, and are explained as they are written.
                reported.sort_by_key(|&(list, _)| list);
                let reported: Vec<_> = reported.into_iter().map(|(_, reported)| reported).collect();
                let mut done = Done { jobs: engine.program().jobs().to_vec(), done: Vec::new() };
                let passage = Passage::received_on(bus);
                engine.handle(Nanos::ZERO, bus, &frame, passage, &mut done);
                prop_assert_eq!(reported, done.done, "{} on {:?}", frame, bus);
            }
        }
    }

    /// The data path allocates nothing, from the first frame on.
    #[test]
    fn decisions_do_not_allocate(
        table in tables_with_extensions(),
        frames in prop::collection::vec((0..BUSES, frames()), 1..40),
    ) {
        let mut made = None;
        let built = allocation_counter::measure(|| made = Some(Engine::new(&table)));
        prop_assert!(built.count_total > 0, "allocations are counted");
        let mut engine = made.unwrap();
        for (now, (bus, frame)) in (0..).zip(&frames) {
            let (now, bus) = (Nanos::from_millis(now), BusIndex(*bus));
            let mut copies = 0;
            let allocated = allocation_counter::measure(|| {
                engine.handle(now, bus, frame, Passage::received_on(bus), &mut |_: Forward<'_>| {
                    copies += 1;
                    Outcome::Handled
                });
            });
            prop_assert_eq!(allocated.count_total, 0, "{} on {:?}: {} copies", frame, bus, copies);
        }
    }

    #[test]
    fn an_image_decides_as_its_program_does(
        table in tables_with_extensions(),
        frames in prop::collection::vec((0..BUSES, frames()), 1..40),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let program = Arc::new(Program::new(&table));
        let image = program.to_image();
        prop_assert!(Program::new(&table).to_image() == image, "two images of one table");
        let mut read = None;
        let allocated = allocation_counter::measure(|| read = Some(Program::from_image(&image)));
        let read = Arc::new(read.unwrap().map_err(|error| TestCaseError::fail(error.to_string()))?);
        prop_assert!(allocated.bytes_max < 20 * image.len() as u64, "{:?}", allocated);
        prop_assert!(read.to_image() == image, "another image of the same program");
        let decisions = |program: &Arc<Program>| {
            let mut engine = Engine::with_counters(program.clone(), Counters::new(program), None);
            let mut done = Vec::new();
            for (now, (bus, frame)) in (0..).zip(&frames) {
                let (now, bus) = (Nanos::from_millis(now), BusIndex(*bus));
                let passage = Passage::received_on(bus);
                engine.handle(now, bus, frame, passage, &mut |copy: Forward<'_>| {
                    done.push(format!("{copy:?}"));
                    Outcome::Handled
                });
            }
            (done, engine.counters().jobs(), engine.counters().buses())
        };
        prop_assert_eq!(decisions(&read), decisions(&program));

        // A damaged image is refused, or is the image of another program.
        let mut damaged = image;
        for (place, byte) in damage {
            *place.get_mut(&mut damaged) = byte;
        }
        let crc = crc32(&damaged[16..]).to_le_bytes();
        damaged[12..16].copy_from_slice(&crc);
        if let Ok(program) = Program::from_image(&damaged) {
            prop_assert!(program.to_image() == damaged);
            decisions(&Arc::new(program));
        }
    }

    #[test]
    fn exported_commands_mean_the_same(
        table in tables(),
        frames in prop::collection::vec(frames(), 16),
    ) {
        // What cannot be expressed is left out; that it is reported is tested beside the code.
        let inexpressible = cangw::export(&table).err().unwrap_or_default();
        let mut table = table;
        for failure in inexpressible.iter().rev() {
            table.rules.remove(failure.rule);
        }
        let script = cangw::export(&table).unwrap();
        let (imported, findings) = cangw::import("script", &script);
        let imported =
            imported.ok_or_else(|| TestCaseError::fail(format!("{script}\n{findings}")))?;
        prop_assert_eq!(imported.max_hops, table.max_hops);
        for frame in frames {
            for bus in &table.buses {
                let interface = bus.port.as_str();
                prop_assert_eq!(
                    copies(&imported, interface, &frame),
                    copies(&table, interface, &frame),
                    "{} on {}\n{}", frame, interface, script
                );
            }
        }
    }

    #[test]
    fn no_text_panics_and_findings_lie_within_it(
        text in "(\\PC|\n){0,200}",
        commands in "(cangw -[ADFLXteisdulfcpxmM] ?|[0-9A-F:.~]{0,9}|can0|SET|:ILD:| |\n|#){0,30}",
        script in "(cangw -F|for|é|EOF|[;&|<>()\"'`$*\\\\ #]|\\\\\n|<<EOF|\r\n|\n){0,30}",
    ) {
        for text in [text, commands, script] {
            for findings in [file::parse("t", &text).1, cangw::import("t", &text).1] {
                for finding in findings.sorted() {
                    prop_assert!(text.get(finding.origin.span()).is_some());
                }
            }
        }
    }
}
