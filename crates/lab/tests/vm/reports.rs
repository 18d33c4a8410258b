//! What becomes of reports: results, losses by cause, and notes about what was not as asked.

use std::fs;
use std::sync::Arc;

use candor_lab::quantity::value;
use candor_lab::result::{Counts, ResultFile, machine};
use candor_lab::runner::Unwatched;
use candor_lab::sections::{BUSES, COLD, MESSAGES, RULES, STATION};
use candor_lab::vm::Machines;
use candor_lat::Metric;
use candor_protocol::Report;
use candor_protocol::order::{Gateway, Pace, Tester};
use candor_protocol::report::{
    BusCount, JobCount, OnWire, Stamp, StationCount, Totals, Ways, Wire,
};

use crate::by_hand::{ByHand, Change, Lab, TWO, bytes, experiments, lose, perfect};

#[test]
fn a_perfect_report_is_a_result_with_its_machine() {
    let (result, lines) = Lab::new(perfect).one(&format!("{TWO}vm.tester = 'inside'\n"));
    let expected = Counts { sent: 100, received: 100, ..Counts::default() };
    assert_eq!(result.counts, expected);
    assert!(result.stopped.is_empty());
    for (metric, latency_ns) in [
        (Metric::TotalLatency, 14_000),
        (Metric::GatewayLatency, 14_000),
        (Metric::EndToEnd, 15_000),
        (Metric::ResponseTime, 1_000),
    ] {
        let figures = result.metric(metric).unwrap();
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (100, latency_ns, latency_ns));
    }
    assert_eq!(result.metrics.len(), 4);
    assert_eq!(
        result.conditions,
        "Linux 6.12.117+deb12-amd64 (package linux-image 6.12.117-1), QEMU 7.2.22, instruction \
         time, shift 1 (500 MIPS), instant buses, tester inside: path lengths, not a forecast for a board; kernel gateway; no load"
    );
    let machine = machine(&result).unwrap();
    assert_eq!((machine.kernel.as_str(), machine.shift), ("6.12", 1));
    assert_eq!(result.sections.numbers(&RULES, "handled"), [100.0]);
    assert_eq!(
        lines[..3],
        [
            "number,sent,received,outcome,queued_ns,source_end_ns,target_end_ns,total_latency_ns,\
             gateway_latency_ns",
            "0,123#0000555555555555,123#0000555555555555,forwarded,0,1000,15000,14000,14000",
            "1,123#0001555555555555,123#0001555555555555,forwarded,1000000,1001000,1015000,14000,\
             14000",
        ]
    );
    assert_eq!(lines.len(), 101);
    // 100 frames of 111 bits and stuff bits in 100 ms, at 1 Mbit/s and at half of it.
    let [source, target] = result.sections.numbers(&BUSES, "load_percent")[..] else { panic!() };
    assert!((11.1..13.5).contains(&source), "{source:?}");
    assert!((target - 2.0 * source).abs() < 0.002, "{target:?}");
    assert_eq!(result.sections.numbers(&BUSES, "frames"), [100.0, 100.0]);
    // A result reads as it was written.
    let text = result.to_json();
    let again: ResultFile = serde_json::from_str(&text).unwrap();
    assert_eq!(again.to_json(), text);
}

#[test]
fn a_tester_outside_sees_the_wire() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        let on_wire = |stamp: &Stamp, waited_ns, took_ns| OnWire {
            requested_ns: stamp.time_ns - took_ns - waited_ns,
            started_ns: stamp.time_ns - took_ns,
        };
        let count = |frames, busy_ns, error_frames| BusCount {
            frames,
            error_frames,
            busy_ns,
            ..BusCount::default()
        };
        report.wire = Some(Wire {
            source: report.monitored.iter().map(|stamp| on_wire(stamp, 0, 400)).collect(),
            target: report.received.iter().map(|stamp| on_wire(stamp, 100, 3_000)).collect(),
            buses: vec![count(100, 40_000_000, 0), count(100, 90_000_000, 2)],
            station: Some(StationCount {
                datagrams: 5,
                answers: 3,
                frames: 205,
                refused: 7,
                received: 123,
                round_trips_ns: vec![2_000, 1_000, 3_000],
            }),
        });
        report
    });
    let (result, lines) = lab.one(TWO);
    assert_eq!(*lab.log.boots.lock().unwrap(), ["Linux 6.12, 500 MIPS"]);
    let orders = lab.log.orders.lock().unwrap();
    assert_eq!(orders[0].tester, Tester::Outside);
    // The buses take their time by themselves.
    let Pace::OneAtATime { shortest_ns, longest_ns, .. } = orders[0].traffic.pace else { panic!() };
    assert_eq!((shortest_ns, longest_ns), (100_000, 5_000_000));
    for (metric, latency_ns) in [
        (Metric::TotalLatency, 14_000),
        (Metric::GatewayLatency, 11_000),
        (Metric::EndToEnd, 15_000),
        (Metric::BusWait, 100),
    ] {
        let figures = result.metric(metric).unwrap();
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (100, latency_ns, latency_ns));
    }
    assert!(result.conditions.contains("timed buses, tester outside"), "{}", result.conditions);
    assert!(result.to_json().contains("\"bus\": \"timed\""));
    assert_eq!(
        lines[0],
        "number,sent,received,outcome,queued_ns,source_start_ns,source_end_ns,loaded_ns,target_start_ns,\
         target_end_ns,total_latency_ns,gateway_latency_ns"
    );
    assert!(lines[1].ends_with(",0,600,1000,11900,12000,15000,14000,11000"), "{}", lines[1]);
    assert_eq!(result.sections.numbers(&BUSES, "load_percent"), [40.0, 90.0]);
    assert_eq!(result.sections.numbers(&BUSES, "error_frames"), [0.0, 2.0]);
    let keys =
        ["answers", "refused", "round_trip_ns_p50", "round_trip_ns_p99", "round_trip_ns_max"];
    let station = keys.map(|key| result.sections.number(&STATION, key));
    assert_eq!(station, [3.0, 7.0, 2_000.0, 3_000.0, 3_000.0].map(Some));
    let note = "the network card had no room for 7 of 205 frames of the Ethernet load";
    assert_eq!(result.notes, [note]);
}

/// The frames of a warm-up are a section, and in nothing else.
#[test]
fn cold_frames_are_listed_apart() {
    let lab = Lab::new(|measurement| {
        let warm_up = measurement.warm_up.unwrap();
        assert_eq!((warm_up.frames, warm_up.timeout_ns), (3, 1_000_000_000));
        // As the traffic itself: it is one at a time.
        assert_eq!((warm_up.shortest_ns, warm_up.longest_ns), (50_000, 150_000));
        let stamp = |number: u16, time_ns| Stamp { number, time_ns };
        let sent = [0, 1, 2].map(|number| stamp(number, u64::from(number) * 1_000_000));
        let later = |ns: u64| sent.map(|it| stamp(it.number, it.time_ns + ns));
        let mut report = perfect(measurement);
        let [first, _, last] = later(50_000);
        report.cold = Some(Ways {
            due: sent.iter().map(|it| it.time_ns).collect(),
            sent: sent.to_vec(),
            monitored: later(1_000).to_vec(),
            // The last one takes 99 us more.
            received: vec![first, stamp(2, last.time_ns + 99_000)],
            target: Vec::new(),
        });
        report
    });
    let (result, _) =
        lab.one(&format!("{TWO}warm_up = 3\nvm.tester = 'inside'\ntraffic.timeout = '1s'\n"));
    assert_eq!((result.counts.sent, result.counts.received), (100, 100));
    assert_eq!(result.metric(Metric::GatewayLatency).unwrap().max_ns, 14_000);
    let cold = ["cold_frames", "cold_received"].map(|key| result.sections.number(&COLD, key));
    assert_eq!(cold, [Some(3.0), Some(2.0)]);
    for (words, ns) in [("cold_latency min", 49_000.0), ("cold_latency max", 148_000.0)] {
        assert_eq!(value(&result, words), Some(ns), "{words}");
    }
}

#[test]
fn a_reader_is_measured_from_the_interrupt_on() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        // Its end on the bus is at 1,000 ns, the interrupt one bit of 1 Mbit/s before.
        let read = |stamp: &Stamp| Stamp { time_ns: stamp.time_ns + 7_000, ..*stamp };
        report.delivered = report.monitored.iter().map(read).collect();
        report.delivered.remove(3);
        // Of no frame that was sent.
        report.delivered.push(Stamp { number: 7, time_ns: 1_000_000_000 });
        let count = BusCount { frames: 100, busy_ns: 40_000_000, ..BusCount::default() };
        let wire = Wire { buses: vec![count], ..Wire::default() };
        report.wire = Some(wire);
        report
    });
    let text = "testbed = 'vm'\nseeds = 1\ncount = 100\nbus.in.bitrate = '1M'\ntraffic.kind = 'one-at-a-time'\n\
                gateway = { kind = 'reader', priority = 60 }\n";
    let (result, lines) = lab.one(text);
    let orders = lab.log.orders.lock().unwrap();
    assert_eq!(orders[0].gateway, Gateway::Reader);
    assert_eq!(orders[0].settings.gateway_priority, 60);
    let expected = Counts { sent: 100, received: 99, lost: 1, ..Counts::default() };
    assert_eq!(result.counts, expected);
    let figures = result.metric(Metric::Reception).unwrap();
    assert_eq!((figures.count, figures.min_ns, figures.max_ns), (99, 8_000, 8_000));
    assert_eq!((result.path.as_str(), result.metrics.len()), ("reception", 1));
    assert_eq!(value(&result, "unknown"), Some(1.0));
    assert_eq!(result.sections.rows(&BUSES).len(), 1);
    assert!(result.conditions.ends_with("a program that reads; no load"), "{}", result.conditions);
    assert_eq!(
        [&lines[0][..], &lines[1][..]],
        [
            "number,sent,received,outcome,interrupt_ns,delivered_ns,reception_ns",
            "0,123#0000555555555555,123#0000555555555555,delivered,0,8000,8000",
        ]
    );
    assert!(lines[4].starts_with("3,123#0003555555555555,,unexplained,3000000,,"), "{}", lines[4]);
}

#[test]
fn each_identifier_has_figures() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        lose(&mut report, 3);
        lose(&mut report, 4);
        lose(&mut report, 5);
        report.totals.overflow_of_queue = 3;
        report
    });
    let (result, _) = lab.one(&format!("{TWO}traffic.id = ['0x500', '0x100']\n"));
    let texts = |key| result.sections.texts(&MESSAGES, key);
    assert_eq!(texts("id"), ["0x100", "0x500"]);
    assert_eq!((texts("node"), texts("bus")), (vec!["tester"; 2], vec!["in"; 2]));
    assert_eq!(result.sections.numbers(&MESSAGES, "sent"), [50.0, 50.0]);
    assert_eq!(result.sections.numbers(&MESSAGES, "received"), [48.0, 49.0]);
    for message in ["0x100", "0x500"] {
        assert_eq!(value(&result, &format!("{message} end_to_end max")), Some(15_000.0));
    }
    // A single one is the whole result.
    let (result, _) = lab.one(&format!("{TWO}traffic.id = '0x500'\n"));
    assert!(result.sections.rows(&MESSAGES).is_empty());
}

#[test]
fn what_a_controller_that_is_bus_off_loses_has_its_cause() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        // Number 20 is lost before, 30 in the buffer, 32 waited for the controller, 34 comes too late for that.
        let at = |number: usize| report.monitored[number].time_ns;
        let off = vec![(at(30) + 1, at(34) - 1), (at(80) + 1, u64::MAX)];
        for number in [20, 30, 31, 33, 34].into_iter().chain(80..100) {
            lose(&mut report, number);
        }
        for stamp in report.received.iter_mut().filter(|it| it.number == 32) {
            stamp.time_ns = off[0].1 + 1;
        }
        report.jobs[0].handled = 100;
        let count = |bus_offs, off| BusCount { bus_offs, off, ..BusCount::default() };
        report.wire =
            Some(Wire { buses: vec![count(5, vec![]), count(2, off)], ..Wire::default() });
        report
    });
    let (result, _) = lab.one(TWO);
    let stopped: Vec<_> =
        result.stopped.iter().map(|stopped| (stopped.cause.as_str(), stopped.frames)).collect();
    assert_eq!(stopped, [("bus_off", 23), ("unexplained", 2)]);
}

#[test]
fn losses_are_reported_by_cause_and_the_rest_is_lost() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        [3, 4, 5, 6, 7, 8, 9, 10].iter().for_each(|&number| lose(&mut report, number));
        // Two more never left the sender.
        report.monitored.retain(|stamp| ![20, 99].contains(&stamp.number));
        lose(&mut report, 20);
        lose(&mut report, 99);
        report.notes = vec!["the board was warm".into()];
        report.jobs[0] = JobCount { handled: 89, dropped: 1, ..JobCount::default() };
        report.totals = Totals {
            refused_by_sender: 2,
            overflow_of_controller: 1,
            overflow_of_backlog: 2,
            overflow_of_queue: 2,
            overflow_of_gateway: 1,
            ..report.totals
        };
        report
    });
    let (result, lines) = lab.one(TWO);
    let expected = Counts { sent: 100, received: 90, lost: 10, ..Counts::default() };
    assert_eq!(result.counts, expected);
    assert_eq!(result.notes, ["the board was warm"]);
    let causes: Vec<_> =
        result.stopped.iter().map(|it| (it.place.as_str(), it.cause.as_str(), it.frames)).collect();
    assert_eq!(
        causes,
        [
            ("sender", "sender_queue_full", 2),
            ("gateway", "rx_overflow", 1),
            ("gateway", "backlog_full", 2),
            ("gateway", "socket_full", 1),
            ("gateway", "queue_full", 1),
            ("rule", "queue_full", 1),
            ("gateway", "unexplained", 2),
        ]
    );
    assert_eq!(lines[4], "3,123#0003555555555555,,unexplained,3000000,3001000,,,");
    assert_eq!(lines[21], "20,123#0014555555555555,,sender_queue_full,20000000,,,,");
    assert_eq!(lines[100], "99,123#0063555555555555,,sender_queue_full,99000000,,,,");
}

/// Of the live gateway the causes are known: what a rate limit refused is no loss.
#[test]
fn what_rules_refuse_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "bus = { in = 'can0', out = 'can1' }\n\
                 [[rule]]\nname = 'limited'\nfrom = 'in'\nto = 'out'\nmin_interval = '10ms'\n";
    fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let path = folder.path().join("rules.toml");
    let text = TWO.replace(
        "gateway.kind = 'kernel'",
        &format!("gateway = {{ kind = 'live', rules = '{}' }}", path.display()),
    );
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        // A frame comes each millisecond, and one in ten passes; one more gets lost.
        (0..100).filter(|number| number % 10 != 0).for_each(|number| lose(&mut report, number));
        lose(&mut report, 50);
        let causes = vec![("queue_full".to_owned(), 1), ("rate".to_owned(), 90)];
        report.jobs[0] = JobCount { handled: 9, dropped: 1, deleted: 0, causes };
        report
    });
    let (result, lines) = lab.one(&text);
    let expected = Counts { sent: 100, received: 9, refused: 90, lost: 1, ..Counts::default() };
    assert_eq!(result.counts, expected);
    let stopped: Vec<_> = result
        .stopped
        .iter()
        .map(|it| (it.place.as_str(), it.cause.as_str(), it.ending.as_str(), it.frames))
        .collect();
    assert_eq!(stopped, [("rule", "queue_full", "lost", 1), ("rule", "rate", "refused", 90)]);
    assert_eq!(result.sections.numbers(&RULES, "refused"), [90.0]);
    assert_eq!(result.sections.numbers(&RULES, "lost"), [1.0]);
    assert!(lines[2].contains(",rate,") && lines[51].contains(",unexplained,"), "{lines:?}");
    assert!(result.notes.is_empty(), "{:?}", result.notes);
}

#[test]
fn pairs_go_by_number_with_copies_and_overtaking() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        // 5 comes once more; 7 comes after 8; 9 comes more than the timeout later.
        report.received.insert(6, Stamp { number: 5, time_ns: 5_500_000 });
        report.frames.insert(6, bytes(measurement, 5));
        let (seven, nine) = (8, 10);
        report.received[seven].time_ns = 8_100_000;
        report.received[nine].time_ns = 2_000_000_000;
        let mut order: Vec<usize> = (0..report.received.len()).collect();
        order.sort_by_key(|&index| report.received[index].time_ns);
        report.received = order.iter().map(|&index| report.received[index]).collect();
        report.frames = order.iter().map(|&index| report.frames[index].clone()).collect();
        report
    });
    let (result, lines) = lab.one(TWO);
    // Two seconds late is late, not lost.
    let expected = Counts {
        sent: 100,
        received: 100,
        duplicated: 1,
        reordered: 2,
        late: 1,
        ..Counts::default()
    };
    assert_eq!(result.counts, expected);
    assert_eq!(value(&result, "unknown"), Some(0.0));
    let of = |number: &str| -> Vec<_> {
        let prefix = format!("{number},");
        lines.iter().filter(|line| line.starts_with(&prefix)).cloned().collect()
    };
    assert_eq!(of("5").len(), 2);
    assert!(of("5")[1].ends_with("forwarded,5000000,5001000,5500000,499000,499000"), "{lines:?}");
    assert!(of("7")[0].ends_with(",8100000,1099000,1099000"), "{lines:?}");
    assert!(of("9")[0].contains(",2000000000,"), "{lines:?}");
    assert_eq!(result.metric(Metric::TotalLatency).unwrap().count, 101);
}

#[test]
fn numbers_that_come_back_are_other_frames() {
    let text = TWO.replace("count = 100", "count = 70_000\nper_frame = false");
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        // Of the two frames with the number 10 the second is lost.
        let second = 65_536 + 10;
        report.received.remove(second);
        report.frames.remove(second);
        report.jobs[0].handled -= 1;
        report
    });
    let outcome = lab.run(&text);
    let counts = outcome.finished[0].result.counts;
    assert_eq!((counts.sent, counts.received, counts.lost), (70_000, 69_999, 1));
}

#[test]
fn a_number_that_comes_back_with_an_early_stamp_is_another_frame() {
    let text = TWO.replace("count = 100", "count = 70_000\nper_frame = false");
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        let second = 65_536 + 10;
        report.received[second].time_ns = report.monitored[second].time_ns - 200_000;
        report
    });
    let counts = lab.run(&text).finished[0].result.counts;
    assert_eq!((counts.received, counts.lost, counts.duplicated), (70_000, 0, 0));
}

#[test]
fn frames_that_no_rule_takes_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "bus = { in = 'x0', out = 'x1' }\n\
                 [[rule]]\nname = 'even'\nfrom = 'in'\nto = 'out'\nmatch = ['0x102', '0x104']\n";
    fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let text = format!(
        "{TWO}gateway.rules = '{}'\ntraffic.id = ['0x101', '0x102']\n",
        folder.path().join("rules.toml").display()
    );
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        (0..100).step_by(2).for_each(|number| lose(&mut report, number));
        lose(&mut report, 51);
        report
    });
    let (result, lines) = lab.one(&text);
    let Counts { sent, received, lost, not_routed, .. } = result.counts;
    assert_eq!((sent, received, lost, not_routed), (100, 49, 1, 50));
    assert!(lines[1].contains(",no_rule,") && lines[52].contains(",unexplained,"), "{lines:?}");
    let orders = lab.log.orders.lock().unwrap();
    let interfaces: Vec<_> = orders[0].rules.buses.iter().map(|bus| bus.port.as_str()).collect();
    assert_eq!(interfaces, ["can2", "can3"]);
}

#[test]
fn a_bus_that_could_not_have_carried_it_is_noted() {
    let text = TWO.replace("'500k'", "'5k'");
    let (result, _) = Lab::new(perfect).one(&text);
    let [note] = result.notes.as_slice() else { panic!("{:?}", result.notes) };
    assert!(note.starts_with("bus out would have had a load of 2"), "{note}");
}

#[test]
fn the_next_frame_waits_as_long_as_buses_would_take() {
    let lab = Lab::new(perfect);
    let turnaround = "traffic.turnaround_shortest = '10us'\ntraffic.turnaround_longest = '20us'\n";
    lab.run(&format!("{TWO}vm.tester = 'inside'\n{turnaround}"));
    let pace = lab.log.orders.lock().unwrap()[0].traffic.pace;
    // 8 bytes: at most 135 bits, of 1 us and of 2 us.
    let expected =
        Pace::OneAtATime { shortest_ns: 415_000, longest_ns: 425_000, timeout_ns: 1_000_000_000 };
    assert_eq!(pace, expected);
}

#[test]
fn a_sender_that_is_late_is_noted() {
    for (kind, late_ns, is_noted) in [
        ("flood", 300_000, true),
        ("half", 300_000, true),
        ("flood", 10_000, false),
        ("one-at-a-time", 300_000, true),
        ("one-at-a-time", 10_000, false),
    ] {
        let lab = Lab::new(move |measurement| {
            let mut report = perfect(measurement);
            report.totals.latest_departure_ns = late_ns;
            report
        });
        let (result, _) = lab.one(&TWO.replace("one-at-a-time", kind));
        assert_eq!(result.notes.len(), usize::from(is_noted), "{kind} {late_ns}");
        let says = |note: &String| {
            note.contains("up to 300us late")
                && note.contains("end_to_end")
                && note.contains("11.4 %") == (kind != "one-at-a-time")
        };
        assert!(result.notes.iter().all(says), "{:?}", result.notes);
    }
}

#[test]
fn frames_that_the_rules_do_not_make_are_noted() {
    // What this test bed passes on is not modified.
    let lab = Lab::new(perfect);
    for (gateway, generate, altered) in [
        ("kernel", "modify = 'none'", 0),
        ("kernel", "modify = 'or'", 100),
        ("live", "modify = 'or'", 100),
        ("kernel", "filters = 4", 0),
        // A chain counts the identifier up, over one virtual bus.
        ("live", "hops = 3", 100),
        ("user", "modify = 'none'", 0),
    ] {
        let text = TWO.replace("'kernel'", &format!("'{gateway}'"));
        let (result, _) = lab.one(&format!("{text}gateway.generate = {{ {generate} }}"));
        let note = "100 frames arrived different from what the rules produce";
        let expected: &[&str] = if altered > 0 { &[note] } else { &[] };
        assert_eq!(result.notes, expected, "{gateway} {generate}");
    }
    // And what it does modify as the rules say is right.
    let counting_up = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        report.frames.iter_mut().for_each(|frame| frame[0] += 3);
        report
    });
    let text = TWO.replace("'kernel'", "'live'");
    let (result, _) = counting_up.one(&format!("{text}gateway.generate = {{ hops = 3 }}"));
    assert_eq!(result.notes, [""; 0]);
}

#[test]
fn without_a_gateway_frames_are_delivered_on_their_own_bus() {
    let lab = Lab::new(perfect);
    let (result, lines) = lab.one(&TWO.replace("'kernel'", "'none'"));
    assert!(lines[1].contains(",delivered,"), "{lines:?}");
    assert_eq!(result.counts.received, 100);
    assert_eq!(result.sections.numbers(&BUSES, "frames")[1], 0.0);
    assert_eq!(lab.log.orders.lock().unwrap()[0].gateway, Gateway::None);
    // What the papers call the precision of the test bed: from sending to the stamp of a receiver.
    assert_eq!(result.metric(Metric::EndToEnd).unwrap().max_ns, 15_000);
}

#[test]
fn a_tester_that_overflowed_gives_no_result() {
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        report.totals.overflow_of_tester = 3;
        report
    });
    let reason = lab.failure(&format!("name = 'a'\n{TWO}"));
    assert!(reason.starts_with("a: the tester itself lost 3 frames"), "{reason}");
    assert_eq!(lab.files(), []);
}

#[test]
fn a_tester_that_the_machine_left_out_gives_no_result() {
    for (change, lost) in [
        // The monitor did not see two frames, and the sender had only one refused.
        (
            (|report: &mut Report| {
                report.monitored.drain(10..12);
                report.totals.refused_by_sender = 1;
            }) as Change,
            "1 frame was lost before it reached the tester",
        ),
        // can-gw passed all of them on, and the receiver saw fewer.
        (
            |report| {
                report.received.drain(10..13);
                report.frames.drain(10..13);
            },
            "3 frames were lost before they reached the tester",
        ),
    ] {
        let lab = Lab::new(move |measurement| {
            let mut report = perfect(measurement);
            change(&mut report);
            report
        });
        let reason = lab.failure(&format!("name = 'a'\n{TWO}"));
        assert!(reason.starts_with(&format!("a: {lost}, because")), "{reason}");
    }
    // What a process has sent may be lost behind it.
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        report.received.drain(10..13);
        report.frames.drain(10..13);
        report
    });
    let (result, _) = lab.one(&TWO.replace("'kernel'", "'live'"));
    assert_eq!(result.counts.lost, 3);
    let [note] = result.notes.as_slice() else { panic!("{:?}", result.notes) };
    assert!(note.starts_with("the gateway counts 3 more forwarded frames"), "{note}");
}

#[test]
fn reports_that_make_no_sense_are_refused() {
    let cases: [(Change, &str); 5] = [
        (|report| report.sent.swap(3, 4), "sent number 4 as frame 3"),
        (|report| report.failure = Some("no module can-gw".into()), "no module can-gw"),
        (|report| drop(report.frames.pop()), "different numbers of frames and stamps"),
        (|report| report.frames[3] = vec![1, 2], "an invalid frame"),
        (|report| report.sent.truncate(50), "that was not sent"),
    ];
    for (change, part) in cases {
        let lab = Lab::new(move |measurement| {
            let mut report = perfect(measurement);
            change(&mut report);
            report
        });
        let reason = lab.failure(TWO);
        assert!(reason.contains(part), "{part} is missing in {reason}");
    }
}

#[test]
fn instructions_are_reported_per_frame_that_arrived() {
    let lab = Lab::new(perfect);
    let supply = ByHand { log: Arc::clone(&lab.log), makes: Arc::clone(&lab.makes) };
    let machines = Machines::new(Box::new(supply), None);
    let experiments = experiments(&format!("name = 'a'\n{TWO}"), lab.folder.path());
    let breakdown = machines.profile(&experiments[0], &Unwatched).unwrap();
    assert_eq!(breakdown.experiment, "a");
    assert_eq!(breakdown.frames, experiments[0].count);
    let places = breakdown.profile.places();
    assert_eq!(places, [("can_gw".to_owned(), 600), ("kernel".to_owned(), 400)]);
    assert_eq!(breakdown.per_frame(600), 600.0 / breakdown.frames as f64);

    let deaf = Lab::new(|measurement| Report { received: Vec::new(), ..perfect(measurement) });
    let supply = ByHand { log: Arc::clone(&deaf.log), makes: Arc::clone(&deaf.makes) };
    let error = Machines::new(Box::new(supply), None).profile(&experiments[0], &Unwatched);
    assert_eq!(error.unwrap_err().to_string(), "a: no frame arrived");
}

#[test]
fn quantiles_of_machines_are_exact() {
    // Above 4096 ns a histogram counts in buckets: 100,003 ns would be rounded.
    let lab = Lab::new(|measurement| {
        let mut report = perfect(measurement);
        report.received.iter_mut().for_each(|stamp| stamp.time_ns += 100_003 - 14_000);
        report
    });
    let (result, _) = lab.one(TWO);
    let figures = result.metric(Metric::GatewayLatency).unwrap();
    for figure in ["min", "p50", "p90", "p99", "p999", "max"] {
        assert_eq!(figures.figure_ns(figure), Some(100_003.0), "{figure}");
    }
}

#[test]
fn round_trips_are_counted_in_the_order_of_their_answers() {
    let lab = Lab::new(|_| {
        let stamp = |number: u16, time_ns| Stamp { number, time_ns };
        Report {
            sent: (0..6).map(|number| stamp(number, u64::from(number) * 1_000_000)).collect(),
            // 5 is answered before 3 and 4; 2 is not, and 0 is late.
            received: [
                (1, 1_200_000),
                (5, 5_300_000),
                (3, 5_400_000),
                (4, 5_500_000),
                (0, 200_000_000),
            ]
            .map(|(number, time_ns)| stamp(number, time_ns))
            .into(),
            ..Report::default()
        }
    });
    let (result, lines) =
        lab.one("kind = 'ping'\ntestbed = 'vm'\nseeds = 1\ncount = 6\nbus.can.bitrate = '1M'\n");
    let counts = result.counts;
    assert_eq!((counts.sent, counts.received, counts.lost, counts.late), (6, 5, 1, 1));
    // 3, 4 and 0 came below 5.
    assert_eq!((counts.reordered, counts.duplicated), (3, 0));
    // Lines are in the order of the requests.
    let numbers: Vec<_> = lines.iter().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5"]);
}

/// The order of a partner outside has a master and nobody that answers, and the result says where the partner is.
#[test]
fn a_result_says_where_the_partner_is() {
    let text = "kind = 'ping'\ntestbed = 'vm'\nseeds = 1\ncount = 1\nbus.can.bitrate = '1M'\n";
    for (partner, gateway, says) in [
        ("guest", Gateway::Slave, ["master and slave inside", "master and slave on SocketCAN"]),
        (
            "outside",
            Gateway::None,
            ["timed bus, master inside, partner outside", "its partner outside of the guest"],
        ),
    ] {
        let lab = Lab::new(|_| Report {
            sent: vec![Stamp { number: 0, time_ns: 0 }],
            received: vec![Stamp { number: 0, time_ns: 250_000 }],
            ..Report::default()
        });
        let (result, _) = lab.one(&format!("{text}ping.partner = '{partner}'\n"));
        for part in says {
            assert!(result.conditions.contains(part), "{}", result.conditions);
        }
        let orders = lab.log.orders.lock().unwrap();
        assert_eq!((orders[0].tester, &orders[0].gateway), (Tester::Master, &gateway));
    }
}
