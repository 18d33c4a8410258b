//! Messages of periodic traffic: what is in them, the queues of their nodes, and their figures.

use std::path::Path;

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::quantity::value;
use candor_lab::result::{Figures, ResultFile};
use candor_lab::sections::MESSAGES;
use candor_lab::simulate;
use candor_lat::section::Cell;

/// One bus of 125 kbit/s: 8 us a bit.
const BUS: &str = "bus.car.bitrate = '125k'\n";
/// A gateway to a faster bus.
const TWO: &str = "bus.car.bitrate = '125k'\nbus.body.bitrate = '250k'\ngateway.delay = '35us'\n";

/// The result, and the frames as they were sent.
fn run(text: &str) -> (ResultFile, Vec<String>) {
    let campaign = campaign::parse("t.toml", text, Path::new("."), &Options::default());
    let campaign = campaign.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut csv = Vec::new();
    let experiment = &campaign.experiments[0];
    let result = simulate::run(Run {
        command: "again".into(),
        lines: Some(&mut csv),
        ..Run::unwatched(experiment)
    })
    .unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let mut lines = csv.lines();
    let column = lines.next().unwrap().split(',').position(|name| name == "sent").unwrap();
    let sent = lines.map(|line| line.split(',').nth(column).unwrap().to_owned()).collect();
    (result, sent)
}

/// The response times of a message.
fn response<'a>(result: &'a ResultFile, name: &str) -> &'a Figures {
    let messages = result.sections.rows(&MESSAGES);
    let message = messages.iter().find(|it| it["name"].text() == Some(name));
    message.and_then(|it| it.get("response_time")?.figures()).unwrap_or_else(|| panic!("{name}"))
}

/// The longest of them in us.
fn worst_us(result: &ResultFile, name: &str) -> i64 {
    response(result, name).max_ns / 1_000
}

/// A value of a message, by words.
fn count(result: &ResultFile, words: &str) -> u64 {
    value(result, words).unwrap_or_else(|| panic!("{words}")) as u64
}

#[test]
fn the_worst_case_has_the_bits_of_the_analysis() {
    // Davis, Burns, Bril and Lukkien 2007: 55 + 10 s bits, with an extended identifier 80 + 10 s.
    for length in 0..=8 {
        for (id, base) in [("0x123", 55), ("0x123x", 80)] {
            let text = format!(
                "count = 3\n{BUS}[traffic]\nkind = 'periodic'\nfill = 'worst-case'\n\
                 nodes.car = ['A']\n\
                 [[traffic.message]]\nid = '{id}'\nnode = 'A'\nperiod = '10ms'\n\
                 length = {length}\nname = 'M'\n"
            );
            let (result, _) = run(&text);
            let times = response(&result, "M");
            // Without the 3 bits of intermission.
            let expected = (base + 10 * length - 3) * 8_000;
            assert_eq!((times.min_ns, times.max_ns), (expected, expected), "{id}, {length} bytes");
        }
    }
}

#[test]
fn messages_have_the_data_that_the_file_says() {
    let text = format!(
        "count = 40\n{BUS}[traffic]\nkind = 'periodic'\nfill = 0xAA\nnodes.car = ['A']\n\
         [[traffic.message]]\nid = '0x100'\nnode = 'A'\nperiod = '10ms'\nlength = 3\n\
         [[traffic.message]]\nid = '0x200'\nnode = 'A'\nperiod = '10ms'\nlength = 3\n\
         data = '12 3B.ff'\n\
         [[traffic.message]]\nid = '0x300'\nnode = 'A'\nperiod = '10ms'\nlength = 2\nfill = 0\n"
    );
    let (_, mut sent) = run(&text);
    sent.sort_unstable();
    sent.dedup();
    assert_eq!(sent, ["100#AAAAAA", "200#123BFF", "300#0000"]);

    // Without `fill` there are signals: a counter, and bytes that change.
    let (_, mut sent) = run(&text.replace("fill = 0xAA\n", ""));
    sent.retain(|frame| frame.starts_with("100#"));
    let counters: Vec<_> = sent.iter().map(|frame| &frame[4..6]).collect();
    assert!(counters.windows(2).all(|pair| pair[0] != pair[1]), "{counters:?}");
}

#[test]
fn the_messages_add_up_to_the_frames() {
    let text = format!(
        "count = 500\n{TWO}[traffic]\nkind = 'periodic'\n\
         nodes = {{ car = ['A', 'B'], body = ['C'] }}\n\
         [[traffic.message]]\nid = '0x100'\nnode = 'A'\nperiod = '5ms'\nname = 'Fast'\n\
         [[traffic.message]]\nid = '0x200'\nnode = 'B'\nperiod = '10ms'\nname = 'Slow'\n\
         [[traffic.message]]\nid = '0x300'\nnode = 'C'\nperiod = '10ms'\nname = 'Slow'\n\
         [[traffic.message]]\nid = '0x400'\nnode = 'C'\nperiod = '900s'\noffset = '899s'\n"
    );
    let (result, sent) = run(&text);
    let sections = &result.sections;
    assert_eq!(sections.texts(&MESSAGES, "name"), ["Fast", "Slow", "Slow", "0x400"]);
    assert_eq!((count(&result, "all sent"), sent.len()), (500, 500));
    assert_eq!(count(&result, "all received"), result.counts.received);
    for message in sections.rows(&MESSAGES) {
        let number = |key: &str| message[key].number().unwrap() as u64;
        let figures = |key: &str| message.get(key).and_then(Cell::figures);
        let start = match message["id"].text() {
            Some("0x100") => "100#",
            Some("0x200") => "200#",
            Some("0x300") => "300#",
            _ => {
                assert!(number("sent") == 0 && figures("response_time").is_none(), "{message:?}");
                continue;
            }
        };
        let frames = sent.iter().filter(|frame| frame.starts_with(start)).count() as u64;
        let response = figures("response_time").unwrap();
        assert_eq!((number("sent"), response.count), (frames, frames), "{message:?}");
        assert!(response.profile.is_empty(), "{message:?}");
        let end_to_end = figures("end_to_end");
        // The gateway passes on what is sent on the first bus.
        if message["bus"].text() == Some("body") {
            assert!(number("received") == 0 && end_to_end.is_none(), "{message:?}");
            continue;
        }
        // It takes 35 us, and then the frame is on a bus once more.
        let end_to_end = end_to_end.unwrap();
        assert!(end_to_end.min_ns > response.min_ns + 35_000, "{message:?}");
        assert_eq!((number("received"), end_to_end.count), (frames, frames), "{message:?}");
    }
    // Two have the same name.
    let sent = |words: &str| value(&result, words);
    assert!(sent("Slow sent").is_none() && sent("car.Slow sent").is_some());
    assert_eq!(sent("body.Slow received"), Some(0.0));
    assert!(sent("body.Fast sent").is_none() && sent("Fas sent").is_none());
}

/// Two messages of one node that become due together behind a frame of another node, the less urgent one
/// first.
fn two_of_a_node(settings: &str) -> ResultFile {
    let text = format!(
        "count = 30\n{BUS}[traffic]\nkind = 'periodic'\nfill = 'worst-case'\n{settings}\n\
         nodes.car = ['A', 'B']\n\
         [[traffic.message]]\nid = '0x300'\nnode = 'B'\nperiod = '10ms'\nname = 'First'\n\
         offset = '0us'\n\
         [[traffic.message]]\nid = '0x200'\nnode = 'A'\nperiod = '10ms'\nname = 'Less'\n\
         offset = '1us'\n\
         [[traffic.message]]\nid = '0x100'\nnode = 'A'\nperiod = '10ms'\nname = 'More'\n\
         offset = '2us'\n"
    );
    run(&text).0
}

#[test]
fn a_node_has_the_queue_that_the_file_says() {
    // 8 bytes: 132 bits, 1,056 us, and 24 us of intermission.
    let by_priority = two_of_a_node("");
    assert_eq!(worst_us(&by_priority, "More"), 2 * 1_056 + 24 - 2);
    for fifo in ["queue = 'fifo'", "node.A.queue = 'fifo'", "node = { A = { queue = 'fifo' } }"] {
        let in_order = two_of_a_node(fifo);
        assert_eq!(worst_us(&in_order, "Less"), 2 * 1_056 + 24 - 1, "{fifo}");
        assert_eq!(worst_us(&in_order, "More"), 3 * 1_056 + 2 * 24 - 2, "{fifo}");
    }
    let other = two_of_a_node("queue = 'fifo'\nnode.A.queue = 'priority'");
    assert_eq!(worst_us(&other, "More"), worst_us(&by_priority, "More"));

    // While B sends, two frames of A wait.
    let lost = |settings| {
        let result = two_of_a_node(settings);
        let count = |name: &str, what| count(&result, &format!("{name} {what}"));
        let lost = |name| count(name, "sent") - count(name, "received");
        (lost("First"), lost("Less") + lost("More"))
    };
    assert_eq!(lost("queue_depth = 2"), (0, 0));
    assert_eq!(lost("node.B.queue_depth = 1"), (0, 0));
    for one in ["queue_depth = 1", "node.A.queue_depth = 1"] {
        let (first, others) = lost(one);
        assert!(first == 0 && (9..=10).contains(&others), "{one}: {first}, {others}");
    }
}

#[test]
fn offsets_are_those_of_the_message_or_of_all() {
    let text = |settings: &str| {
        format!(
            "count = 30\n{BUS}[traffic]\nkind = 'periodic'\nfill = 'worst-case'\n\
             nodes.car = ['A', 'B', 'C']\n{settings}\n\
             [[traffic.message]]\nid = '0x100'\nnode = 'A'\nperiod = '10ms'\nname = 'A'\n\
             [[traffic.message]]\nid = '0x200'\nnode = 'B'\nperiod = '10ms'\nname = 'B'\n\
             [[traffic.message]]\nid = '0x300'\nnode = 'C'\nperiod = '10ms'\nname = 'C'\n\
             offset = '5ms'\n"
        )
    };
    let worst = |settings: &str| {
        let (result, _) = run(&text(settings));
        ["A", "B", "C"].map(|name| worst_us(&result, name))
    };
    assert_eq!(worst("offset = '0us'"), [1_056, 1_056 + 24 + 1_056, 1_056]);
    assert_eq!(worst("offset = '0us'\noffsets.C = '0us'"), [1_056, 2_136, 3_216]);
    assert_eq!(worst("offset = '1us'\noffsets = { B = '0us' }"), [2_135, 1_056, 1_056]);
}

#[test]
fn numbered_frames_have_figures_for_each_identifier() {
    let text = "count = 9\nbus.in.bitrate = '500k'\nbus.out.bitrate = '125k'\ngateway.delay = '35us'\ngateway.tx_queue = 2\n\
                [traffic]\nkind = 'flood'\nlength = 8\nid = ['0x700', '0x100', '0x700']\n";
    let (result, sent) = run(text);
    let count = |name: &str| ["sent", "received"].map(|it| count(&result, &format!("{name} {it}")));
    assert_eq!((count("0x100")[0], count("0x700")[0], sent.len()), (3, 6, 9));
    assert_eq!(count("0x100")[1] + count("0x700")[1], result.counts.received);
    assert!(result.counts.lost > 0, "{:?}", result.counts);
    let times = response(&result, "0x100");
    assert_eq!(times.count, 3);
}
