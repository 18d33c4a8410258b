//! The hot paths, one at a time, for counting their instructions: `tests/instructions/count.py` does that, under callgrind.
//!
//! ```text
//! instructions --list            the names of all cases, and how many operations each does
//! instructions NAME              does them once to warm up, and once in `measured`
//! ```
//!
//! Inputs are fixed, so the counts are those of the compiler and the code alone.

#[path = "shared.rs"]
mod shared;

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use candor_diagnostics::Findings;
use candor_engine::counters::Outcome;
use candor_engine::{BusIndex, Engine, Filter, Forward, Passage, Table};
use candor_events::afb::Api;
use candor_events::binary::Encoding;
use candor_events::{Batch, Format, Hub, Pattern, Subscriber};
use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::simulate;
use candor_queue::user::Config;
use candor_queue::{Acceptance, Bands, ByPriority, Egress, Fifo, Policy, User, spsc};
use candor_recording::{InterfaceIndex, Record, Statistics};
use candor_signals::Database;
use candor_sim::tte;
use candor_time::Nanos;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG, SFF_MASK};
use candor_wire::can::tunnel::{can2udp, cannelloni};
use candor_wire::can::{Frame, bits};
use shared::{Spread, masked, scattered, table};

/// What is counted: one round of the operations of a case.
type Work = Box<dyn FnMut()>;

/// A hot path.
struct Case {
    name: String,
    /// What the count is divided by.
    operations: u64,
    make: Box<dyn Fn() -> Work>,
}

/// Callgrind collects in here alone. What follows the work keeps it a call: callgrind would collect for ever behind a jump.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
    black_box(());
}

fn main() -> ExitCode {
    let cases = cases();
    match std::env::args().nth(1).as_deref() {
        Some("--list") => {
            for case in &cases {
                println!("{} {}", case.name, case.operations);
            }
        }
        Some(name) => {
            let Some(case) = cases.iter().find(|case| case.name == name) else {
                eprintln!("no case is called {name}; --list shows all");
                return ExitCode::from(2);
            };
            let mut work = (case.make)();
            work();
            measured(&mut *work);
        }
        None => {
            eprintln!("which case? --list shows all");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn cases() -> Vec<Case> {
    [
        lengths(),
        decisions(),
        edits(),
        decoding(),
        recordings(),
        simulations(),
        events(),
        queues(),
        heaps(),
        tunnels(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn case(name: impl Into<String>, operations: u64, make: impl Fn() -> Work + 'static) -> Case {
    Case { name: name.into(), operations, make: Box::new(make) }
}

const FRAMES: usize = 2_048;

fn frames(make: impl Fn(&mut Spread) -> (u32, usize, Option<u8>)) -> Vec<Frame> {
    shared::frames(FRAMES, make)
}

/// Frames of both formats with 0 to 8 bytes.
fn mixed() -> Vec<Frame> {
    frames(|spread| {
        let id = spread.next() as u32;
        let can_id = if id & 1 == 0 { id >> 4 & SFF_MASK } else { id >> 1 & EFF_MASK | EFF_FLAG };
        (can_id, (spread.next() % 9) as usize, None)
    })
}

fn remote() -> Vec<Frame> {
    frames(|spread| {
        (spread.next() as u32 & SFF_MASK | RTR_FLAG, (spread.next() % 9) as usize, None)
    })
}

fn full_fd() -> Vec<Frame> {
    frames(|spread| ((spread.next() as u32) & SFF_MASK, 64, Some(1)))
}

/// The exact length of a frame, in bits.
fn lengths() -> Vec<Case> {
    let of = |frames: fn() -> Vec<Frame>| {
        move || -> Work {
            let frames = frames();
            Box::new(move || {
                for frame in &frames {
                    let _ = black_box(bits::length(black_box(frame)));
                }
            })
        }
    };
    let operations = FRAMES as u64;
    vec![
        case("length/classical", operations, of(mixed)),
        case("length/fd_64", operations, of(full_fd)),
    ]
}

/// An engine with these rules takes frames.
fn handling(rules: &Table, frames: Vec<Frame>) -> Work {
    let mut engine = Engine::new(rules);
    Box::new(move || {
        for frame in &frames {
            let mut take = |copy: Forward<'_>| {
                black_box(copy.frame);
                Outcome::Handled
            };
            let passage = Passage::received_on(BusIndex(0));
            engine.handle(Nanos::ZERO, BusIndex(0), black_box(frame), passage, &mut take);
        }
    })
}

/// What rules decide about a frame.
fn decisions() -> Vec<Case> {
    type Filters = fn() -> Vec<Filter>;
    let decide = |name: &str, filters: Filters, frames: fn() -> Vec<Frame>| {
        case(format!("decide/{name}"), FRAMES as u64, move || {
            handling(&table(filters().into_iter()), frames())
        })
    };
    let standard = || frames(|spread| (spread.next() as u32 & SFF_MASK, 8, None));
    let extended = || frames(|spread| ((spread.next() as u32 % 2_048) << 8 | EFF_FLAG, 8, None));
    let anything = || frames(|spread| (spread.next() as u32 & EFF_MASK | EFF_FLAG, 8, None));
    vec![
        decide("1_standard", || vec![Filter::standard(0x123)], || frames(|_| (0x123, 8, None))),
        decide(
            "1_extended",
            || vec![Filter::extended(0x1234_5678)],
            || frames(|_| (0x1234_5678 | EFF_FLAG, 8, None)),
        ),
        decide("2048_standard", || (0..2_048).map(Filter::standard).collect(), standard),
        decide(
            "2048_extended",
            || (0..2_048).map(|index| Filter::extended(index << 8)).collect(),
            extended,
        ),
        decide("256_masked_standard", disjoint, standard),
        decide("2048_masked", || masked().collect(), extended),
        decide("2048_masked_nothing_matches", || masked().collect(), anything),
        decide("2048_masked_without_a_common_bit", || scattered().collect(), anything),
    ]
}

/// 256 filters that each take eight standard identifiers of their own.
fn disjoint() -> Vec<Filter> {
    let mask = SFF_MASK & !7 | EFF_FLAG | RTR_FLAG;
    (0..2_048).step_by(8).map(|can_id| Filter { can_id, mask, inverted: false }).collect()
}

/// Frames that are changed: as the kernel can, and with a counter and a CRC as AUTOSAR protects them.
fn edits() -> Vec<Case> {
    let edit = |name: &str, edit: &str| {
        let edit = edit.to_owned();
        case(format!("edit/{name}"), FRAMES as u64, move || {
            let text = format!(
                "[bus]\na = \"can0\"\nb = \"can1\"\n[[rule]]\nname = \"edits\"\nfrom = \"a\"\nto = \"b\"\n{edit}\n"
            );
            let (rules, findings) = candor_rules::file::parse("counted.toml", &text);
            let rules = rules.unwrap_or_else(|| panic!("{findings}"));
            handling(&rules, frames(|spread| (spread.next() as u32 & SFF_MASK, 8, None)))
        })
    };
    let crc8 =
        "crc8 = { from = 1, to = 7, into = 0, polynomial = 0x1D, init = 0xFF, final_xor = 0xFF }";
    vec![
        edit("set", "set = { id = \"0x321\", data = \"11 22 33 44 55 66 77 88\" }"),
        edit("set_and_crc", &format!("set = {{ data = \"11 22 33 44 55 66 77 88\" }}\n{crc8}")),
        edit("counter", "edit = [{ counter = { bit = 8, bits = 4 } }]"),
        edit(
            "counter_and_crc",
            "edit = [{ e2e = { profile = 2, data_ids = \"00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F\" } }]",
        ),
    ]
}

/// A signal of 8 bits, one after the other.
fn byte(number: usize, scale: &str) -> String {
    format!(" : {}|8@1+ {scale}", 8 * number)
}

/// A database of 64 messages with eight signals; what a signal has, by its number.
fn database(signal: impl Fn(usize) -> String, has_names: bool) -> Database {
    let mut text = "BU_: A\n".to_owned();
    for id in 0..64 {
        let _ = write!(text, "\nBO_ {id} Message{id}: 64 A\n");
        for number in 0..8 {
            let _ = writeln!(text, " SG_ Signal{number}{} [0|0] \"rpm\" A", signal(number));
        }
    }
    for id in (0..64).filter(|_| has_names) {
        for signal in 0..8 {
            let _ = write!(text, "VAL_ {id} Signal{signal}");
            for raw in 0..256 {
                let _ = write!(text, " {raw} \"State {raw}\"");
            }
            text.push_str(" ;\n");
        }
    }
    let findings = Findings::new();
    Database::parse("counted.dbc", text.as_bytes(), &findings).expect("a DBC file")
}

/// The values of all signals of a frame.
fn decoding() -> Vec<Case> {
    let decode = |name: &str, signal: fn(usize) -> String, frames: fn() -> Vec<Frame>| {
        let has_names = name.ends_with("with_names");
        case(format!("decode/{name}"), FRAMES as u64, move || -> Work {
            let (database, frames) = (database(signal, has_names), frames());
            Box::new(move || {
                for frame in &frames {
                    let (_, values) = database.decode(black_box(frame)).expect("it is described");
                    for value in values {
                        black_box(value.physical);
                        if has_names {
                            black_box(value.value_name());
                        }
                    }
                }
            })
        })
    };
    vec![
        decode("whole", |number| byte(number, "(1,0)"), of_64),
        decode("decimal", |number| byte(number, "(0.1,-40)"), of_64),
        decode("decimal_with_names", |number| byte(number, "(0.1,-40)"), of_64),
        decode("big_endian", |number| format!(" : {}|8@0+ (1,0)", 8 * number + 7), of_64),
        decode("over_nine_bytes", |number| format!(" : {}|64@1+ (1,0)", 56 * number + 4), fd_of_64),
        decode(
            "multiplexed",
            |number| match number {
                0 => " M : 0|1@1+ (1,0)".to_owned(),
                _ => format!(" m{}{}", number % 2, byte(number, "(1,0)")),
            },
            of_64,
        ),
    ]
}

/// Frames with 64 identifiers.
fn of_64() -> Vec<Frame> {
    frames(|spread| (spread.next() as u32 % 64, 8, None))
}

fn fd_of_64() -> Vec<Frame> {
    frames(|spread| (spread.next() as u32 % 64, 64, Some(1)))
}

/// A log of candump, of two interfaces, with so many decimals of a second.
fn candump(frames: &[Frame], decimals: usize, end: &str) -> Vec<u8> {
    let mut text = String::new();
    for (number, frame) in frames.iter().enumerate() {
        let seconds = 1_436_509_052 + number / 500;
        let _ = write!(text, "({seconds}.{number:0decimals$}) can{} {frame}{end}", number % 2);
    }
    text.into_bytes()
}

/// The same frames as a capture.
fn pcap() -> Vec<u8> {
    let format = candor_recording::Format::by_name("pcap").expect("it is one");
    let mut sink = candor_recording::Sink::new("counted", Vec::new(), format);
    for (number, frame) in mixed().into_iter().enumerate() {
        let (time_ns, interface) = (number as u64 * 1_000, InterfaceIndex(0));
        let record = Record { time_ns, interface, direction: None, frame };
        sink.write(&record, "can0").expect("it takes CAN");
    }
    sink.finish().expect("memory takes all").0
}

/// What is read of recordings, and what `candor log info` adds up of each frame.
fn recordings() -> Vec<Case> {
    let file = |content: Vec<u8>| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("counted");
        std::fs::write(&path, content).expect("a file");
        (folder, path)
    };
    let read = move |name: &str, content: fn() -> Vec<u8>| {
        case(name, FRAMES as u64, move || -> Work {
            let (folder, path) = file(content());
            Box::new(move || {
                let _kept = &folder;
                let recording = candor_recording::open(&path, None).expect("it opens");
                let records =
                    recording.inspect(|record| assert!(record.is_ok(), "it is malformed"));
                assert_eq!(records.count(), FRAMES);
            })
        })
    };
    let add = move || -> Work {
        let (_folder, path) = file(candump(&mixed(), 6, "\n"));
        let recording = candor_recording::open(&path, None).expect("it opens");
        let records: Vec<_> = recording.map(|record| record.expect("it is right")).collect();
        let timing = Some(candor_wire::can::Timing {
            nominal: "500k".parse().expect("a rate"),
            data: "2M".parse().expect("a rate"),
        });
        Box::new(move || {
            let mut statistics = Statistics::with_timing(timing);
            records.iter().for_each(|record| statistics.add(black_box(record)));
            black_box(statistics.frames);
        })
    };
    vec![
        read("candump/read", || candump(&mixed(), 6, "\n")),
        read("candump/read_fd", || candump(&full_fd(), 6, "\n")),
        read("candump/read_remote", || candump(&remote(), 6, "\n")),
        read("candump/read_nine_decimals", || candump(&mixed(), 9, "\n")),
        read("candump/read_cr_lf", || candump(&mixed(), 6, "\r\n")),
        read("pcap/read", pcap),
        case("statistics/add", FRAMES as u64, add),
    ]
}

/// Frames of a simulated gateway.
fn simulations() -> Vec<Case> {
    const COUNT: u64 = 20_000;
    let simulate = |name: &str, gateway: &'static str, kind: &'static str| {
        case(format!("simulate/{name}"), COUNT, move || -> Work {
            let text = format!(
                "count = {COUNT}\nper_frame = false\n[bus.in]\nbitrate = \"1M\"\n[bus.out]\n\
                 bitrate = \"1M\"\n[gateway]\n{gateway}\n[traffic]\nkind = \"{kind}\"\n"
            );
            let folder = std::path::Path::new(".");
            let campaign = campaign::parse("counted", &text, folder, &Options::default())
                .unwrap_or_else(|error| panic!("{error}"));
            Box::new(move || {
                let experiment = &campaign.experiments[0];
                let result = simulate::run(Run::unwatched(experiment));
                let result = result.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(result.counts.sent, COUNT);
            })
        })
    };
    let board = "profile = \"mpc5200-2.6.33\"";
    vec![
        simulate("constant_delay", "delay = \"35us\"", "half"),
        simulate("host_half_load", board, "half"),
        simulate("host_one_at_a_time", board, "one-at-a-time"),
        simulate("host_flood", board, "flood"),
        case("simulate/time_triggered", TIME_TRIGGERED, time_triggered),
    ]
}

const TIME_TRIGGERED: u64 = 1_000;

/// Frames of a time-triggered flow through a switch, with a best-effort one that takes half of the link.
fn time_triggered() -> Work {
    struct Ended(u64);
    impl tte::Observer for Ended {
        fn record(&mut self, record: &tte::Record) {
            self.0 += u64::from(record.fate.is_ok());
        }
    }
    let text = include_str!("../examples/one-switch.tte.toml").replace("load = 0", "load = 50");
    let (network, findings) = candor_tte::file::parse("counted.toml", &text);
    let network = network.unwrap_or_else(|| panic!("{findings}"));
    let flow = network.flows.iter().position(|flow| flow.name == "measured").expect("it has one");
    Box::new(move || {
        let (mut world, mut ended) = (tte::World::new(network.clone(), 1), Ended(0));
        assert!(world.run(flow, TIME_TRIGGERED, &mut ended));
        assert!(ended.0 > TIME_TRIGGERED, "{} frames", ended.0);
    })
}

/// Events of frames and signals: created alone, and created, encoded and delivered.
fn events() -> Vec<Case> {
    fn header(len: usize, out: &mut Vec<u8>) {
        out.extend((len as u32).to_be_bytes());
    }
    let hub = |has_signals: bool| {
        let database = has_signals.then(|| database(|number| byte(number, "(0.1,-40)"), false));
        Hub::new(vec![candor_events::Bus { name: "car".into(), database: database.map(Arc::new) }])
    };
    let publish = |hub: &mut Hub, frames: &[Frame]| {
        for (number, frame) in frames.iter().enumerate() {
            hub.publish(0, number as u64 * 1_000, black_box(frame));
        }
    };
    let create = move || -> Work {
        let (mut hub, frames) = (hub(false), of_64());
        Box::new(move || publish(&mut hub, &frames))
    };
    let deliver = move |name: &str, format: Format, has_signals: bool| {
        case(format!("event/{name}"), FRAMES as u64, move || -> Work {
            let (mut hub, frames) = (hub(has_signals), of_64());
            hub.open(format, header);
            let mut subscriber = Subscriber::new(&hub, format);
            let pattern = if has_signals { Pattern::Name("*".into()) } else { Pattern::Raw };
            subscriber.subscribe(&mut hub, pattern, candor_events::Filter::default(), false);
            let (mut out, mut batch) = (Vec::new(), Batch::default());
            Box::new(move || {
                publish(&mut hub, &frames);
                match format {
                    Format::Plain => {
                        subscriber.gather(&hub, usize::MAX, &mut batch);
                    }
                    _ => {
                        out.clear();
                        subscriber.deliver(&hub, usize::MAX, &mut out);
                    }
                }
            })
        })
    };
    let formats = [
        ("json", Format::Afb(Api::LowCan)),
        ("cbor", Format::Binary(Encoding::Cbor)),
        ("msgpack", Format::Binary(Encoding::MessagePack)),
        ("sse", Format::Sse),
        ("plain", Format::Plain),
    ];
    let mut cases = vec![case("event/created", FRAMES as u64, create)];
    for (name, format) in formats {
        cases.push(deliver(name, format, false));
        cases.push(deliver(&format!("{name}_of_8_signals"), format, true));
    }
    cases
}

type Item = [u32; 4];
const SLOTS: usize = 1_024;
const BATCH: usize = 256;

/// Inserts into a queue that is half full, and extracts.
fn queue<Q: 'static>(
    name: &str,
    make: impl Fn() -> Q + Copy + 'static,
    put: impl Fn(&mut Q, u32, Item) + Copy + 'static,
    take: impl Fn(&mut Q) -> Option<Item> + Copy + 'static,
) -> [Case; 2] {
    let keys = || {
        let mut spread = Spread(1);
        let keys: Vec<u32> = (0..BATCH).map(|_| spread.next() as u32 & SFF_MASK).collect();
        keys
    };
    let half_full = move || {
        let (mut queue, mut spread) = (make(), Spread(2));
        (0..SLOTS / 2).for_each(|_| put(&mut queue, spread.next() as u32 & SFF_MASK, [1; 4]));
        queue
    };
    let operations = BATCH as u64;
    // The round before leaves as many as there is room for in this one.
    [
        case(format!("queue/{name}/insert"), operations, move || -> Work {
            let (mut queue, keys) = (half_full(), keys());
            Box::new(move || {
                keys.iter().for_each(|&key| put(&mut queue, black_box(key), [key; 4]));
            })
        }),
        case(format!("queue/{name}/extract"), operations, move || -> Work {
            let mut queue = half_full();
            Box::new(move || {
                (0..BATCH).for_each(|_| {
                    let _ = black_box(take(&mut queue));
                });
            })
        }),
    ]
}

/// Queues that take constant time.
fn queues() -> Vec<Case> {
    let user = || {
        let accepts = [0x400, 0x200, 0].map(|mask| Acceptance { code: 0, mask });
        User::<Item>::new(&Config {
            transmit: accepts.into(),
            transmit_slots: SLOTS,
            ..Config::default()
        })
    };
    let mut cases = Vec::new();
    cases.extend(queue(
        "fifo",
        || Fifo::with_policy(SLOTS, Policy::RefuseNewest),
        |queue, _, item| {
            let _ = black_box(queue.push(item));
        },
        Fifo::pop,
    ));
    cases.extend(queue(
        "bands",
        || Bands::new(8, SLOTS, Policy::RefuseNewest),
        |queue, key, item| {
            let _ = black_box(queue.push((key >> 8) as usize, item));
        },
        Bands::pop,
    ));
    cases.extend(queue(
        "user",
        user,
        |queue, key, item| {
            let _ = black_box(queue.send(key, item));
        },
        User::next_to_transmit,
    ));
    for (name, policy) in
        [("spsc_refusing", Policy::RefuseNewest), ("spsc_overwriting", Policy::OverwriteOldest)]
    {
        cases.extend(queue(
            name,
            move || spsc::queue::<4>(SLOTS as u32, policy),
            |queue, _, item| {
                let _ = black_box(queue.0.push(&item));
            },
            |queue| queue.1.pop(),
        ));
    }
    cases
}

/// Queues that are heaps.
fn heaps() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(queue(
        "by_priority",
        || ByPriority::new(SLOTS),
        |queue, key, item| {
            let _ = black_box(queue.push(key, item));
        },
        ByPriority::pop,
    ));
    cases.extend(queue(
        "egress",
        || Egress::new(SLOTS),
        |queue, key, item| {
            let _ = black_box(queue.push(key, None, item));
        },
        Egress::pop,
    ));
    cases
}

fn can2udp_of(frame: Frame) -> can2udp::Datagram {
    let version = can2udp::Version::V1;
    can2udp::Datagram { version, interface: 0, frame: Some(frame), time_ns: None }
}

/// Frames into datagrams, and out of them.
fn tunnels() -> Vec<Case> {
    let operations = FRAMES as u64;
    let datagrams = || {
        let mut outgoing = cannelloni::Outgoing::new([0; 1_400]);
        let mut datagrams = Vec::new();
        for frame in &mixed() {
            if outgoing.push(frame).is_err() {
                datagrams.push(outgoing.finish(0).to_vec());
                outgoing.clear();
                outgoing.push(frame).expect("it is empty");
            }
        }
        datagrams.push(outgoing.finish(0).to_vec());
        datagrams
    };
    vec![
        case("cannelloni/encode", operations, || -> Work {
            let (frames, mut outgoing) = (mixed(), cannelloni::Outgoing::new([0; 1_400]));
            Box::new(move || {
                for frame in &frames {
                    if outgoing.push(black_box(frame)).is_err() {
                        black_box(outgoing.finish(0));
                        outgoing.clear();
                        outgoing.push(frame).expect("it is empty");
                    }
                }
                black_box(outgoing.finish(0));
                outgoing.clear();
            })
        }),
        case("cannelloni/decode", operations, move || -> Work {
            let datagrams = datagrams();
            Box::new(move || {
                for datagram in &datagrams {
                    let datagram = cannelloni::Datagram::decode(black_box(datagram));
                    datagram.expect("it is right").frames().for_each(|frame| {
                        black_box(frame);
                    });
                }
            })
        }),
        case("can2udp/encode", operations, || -> Work {
            let datagrams: Vec<_> = mixed().into_iter().map(can2udp_of).collect();
            Box::new(move || {
                for datagram in &datagrams {
                    let mut out = [0; can2udp::MAX_LEN];
                    black_box(black_box(datagram).encode(&mut out));
                    black_box(out);
                }
            })
        }),
        case("can2udp/decode", operations, || -> Work {
            let mut out = [0; can2udp::MAX_LEN];
            let datagrams: Vec<Vec<u8>> = mixed()
                .into_iter()
                .filter_map(|frame| {
                    let len = can2udp_of(frame).encode(&mut out)?;
                    Some(out[..len].to_vec())
                })
                .collect();
            assert_eq!(datagrams.len(), FRAMES);
            Box::new(move || {
                for datagram in &datagrams {
                    let _ = black_box(can2udp::Datagram::decode(black_box(datagram)));
                }
            })
        }),
    ]
}
