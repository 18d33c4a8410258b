//! The `vm` testbed with machines made by hand: what becomes of reports.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use candor_bed::order::{Controller, Gateway, Load, Measurement, Pace};
use candor_bed::report::{JobCount, Stamp, Totals};
use candor_bed::{Order, Report};
use candor_lab::campaign::{self, Options};
use candor_lab::experiment::MachineChoice;
use candor_lab::experiment::{self, Testbed};
use candor_lab::result::{self, Counts, ResultFile};
use candor_lab::run::{self, Difference, Ended, Outcome, Progress, Settings, results_of};
use candor_lab::runner::{Unwatched, Watch};
use candor_lab::testbed::Testbeds;
use candor_lab::vm::{Machine, Machines, Store, Supply};
use candor_lab::{Error, Experiment};
use candor_lat::Metric;
use candor_time::Nanos;
use candor_wire::frame::EFF_FLAG;
use candor_wire::socketcan;

/// Two buses, a kernel gateway.
const TWO: &str = "\
testbed = 'vm'
count = 100
bus.in.bitrate = '1M'
bus.out.bitrate = '500k'
gateway.kind = 'kernel'
traffic.kind = 'one-at-a-time'
";

/// What a machine makes of a measurement.
type Makes = dyn Fn(&Measurement) -> Result<Report, Error> + Send + Sync;

/// What becomes of a report that was perfect.
type Change = fn(&mut Report);

/// What happened to all machines of a supply.
#[derive(Default)]
struct Log {
    boots: Mutex<Vec<String>>,
    orders: Mutex<Vec<Measurement>>,
}

struct ByHand {
    log: Arc<Log>,
    makes: Arc<Makes>,
}

struct Fake {
    choice: MachineChoice,
    hash: String,
    log: Arc<Log>,
    makes: Arc<Makes>,
}

impl Supply for ByHand {
    fn machine(&self, choice: &MachineChoice) -> Result<Box<dyn Machine>, Error> {
        if choice.kernel.to_string() == "9.9" {
            return Err(Error::Other("kernel 9.9 is not in the cache; candor vm fetch 9.9".into()));
        }
        Ok(Box::new(Fake {
            choice: choice.clone(),
            hash: format!("{choice}"),
            log: Arc::clone(&self.log),
            makes: Arc::clone(&self.makes),
        }))
    }
}

impl Machine for Fake {
    fn describe(&self) -> result::Machine {
        result::Machine {
            kernel: self.choice.kernel.to_string(),
            release: "6.12.117+deb12-amd64".into(),
            package: Some("linux-image 6.12.117-1".into()),
            kernel_sha256: "11".into(),
            guest_sha256: "22".into(),
            qemu: "7.2.22".into(),
            qemu_sha256: "33".into(),
            plugin_sha256: "44".into(),
            flags: vec!["-icount".into(), "shift=1".into()],
            shift: 1,
            mips: self.choice.mips,
        }
    }

    fn hash(&self) -> &str {
        &self.hash
    }

    fn profile(
        &self,
        order: &Order,
        watch: &dyn Watch,
    ) -> Result<(Report, candor_vm::Profile), Error> {
        let function = |name: &str, place: &str, instructions| candor_vm::Function {
            name: name.into(),
            place: place.into(),
            instructions,
        };
        let functions =
            vec![function("can_can_gw_rcv", "can_gw", 600), function("read", "kernel", 400)];
        let profile = candor_vm::Profile { instructions: 1_000, functions };
        Ok((self.run(order, watch)?, profile))
    }

    fn ready(&self, _: &dyn Watch) -> Result<(), Error> {
        self.log.boots.lock().unwrap().push(self.choice.to_string());
        match self.choice.parameters.as_str() {
            "broken" => Err(Error::Other("the kernel panicked at boot".into())),
            _ => Ok(()),
        }
    }

    fn run(&self, order: &Order, _: &dyn Watch) -> Result<Report, Error> {
        let Order::Measure(measurement) = order else { panic!("{order:?}") };
        self.log.orders.lock().unwrap().push((**measurement).clone());
        (self.makes)(measurement)
    }
}

/// What a bed without faults reports: a frame each millisecond, seen 1 us later, through 14 us after
/// that.
fn perfect(measurement: &Measurement) -> Report {
    let count = measurement.traffic.count;
    let stamps = |delay_ns: u64| -> Vec<Stamp> {
        let at = |number: u64| number * 1_000_000 + delay_ns;
        (0..count).map(|number| Stamp { number: number as u16, time_ns: at(number) }).collect()
    };
    // Only the last rule takes them, as in the papers' rule sets.
    let jobs = |rules: usize| {
        let mut jobs = vec![JobCount::default(); rules];
        jobs.iter_mut().rev().take(1).for_each(|job| job.handled = count);
        jobs
    };
    Report {
        release: "6.12.117+deb12-amd64".into(),
        sent: stamps(0),
        monitored: stamps(1_000),
        received: stamps(15_000),
        frames: (0..count).map(|number| bytes(measurement, number)).collect(),
        jobs: jobs(measurement.rules.rules.len()),
        totals: Totals { duration_ns: count * 1_000_000, ..Totals::default() },
        is_done: true,
        ..Report::default()
    }
}

/// A frame as the receiver's socket gives it, cut behind its data.
fn bytes(measurement: &Measurement, number: u64) -> Vec<u8> {
    let frame = measurement.traffic.frame(number).unwrap();
    let (bytes, _) = socketcan::encode(&frame, socketcan::IdOrder::LittleEndian);
    bytes[..8 + frame.data().len()].to_vec()
}

/// Takes the frame of that number out of what was received.
fn lose(report: &mut Report, number: u16) {
    let index = report.received.iter().position(|stamp| stamp.number == number).unwrap();
    report.received.remove(index);
    report.frames.remove(index);
    report.jobs.iter_mut().rev().take(1).for_each(|job| job.handled -= 1);
}

#[derive(Default)]
struct Noting {
    cached: AtomicU64,
    fresh: AtomicU64,
}

impl Progress for Noting {
    fn proceed(&self, _: &Experiment, _: Nanos, _: u64) -> bool {
        true
    }

    fn finished(&self, _: &Experiment, ended: &Ended) {
        if let Ended::Finished(ran) = ended {
            let counter = if ran.is_cached { &self.cached } else { &self.fresh };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A laboratory with machines made by hand, in a folder of its own.
struct Lab {
    folder: tempfile::TempDir,
    log: Arc<Log>,
    makes: Arc<Makes>,
    keeps: bool,
    jobs: usize,
    verifies: bool,
}

impl Lab {
    fn new(makes: impl Fn(&Measurement) -> Report + Send + Sync + 'static) -> Self {
        Self::failing(move |measurement| Ok(makes(measurement)))
    }

    fn failing(
        makes: impl Fn(&Measurement) -> Result<Report, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            log: Arc::default(),
            makes: Arc::new(makes),
            keeps: false,
            jobs: 1,
            verifies: false,
        }
    }

    fn out(&self) -> std::path::PathBuf {
        self.folder.path().join("out")
    }

    fn reports(&self) -> std::path::PathBuf {
        self.folder.path().join("reports")
    }

    fn try_run(&self, experiments: &[Experiment], noting: &Noting) -> Result<Outcome, Error> {
        let supply = ByHand { log: Arc::clone(&self.log), makes: Arc::clone(&self.makes) };
        let store = self.keeps.then(|| Store::new(self.reports()));
        let testbeds = Testbeds::new(Some(Machines::new(Box::new(supply), store)));
        let out = self.out();
        let settings = Settings {
            testbeds: &testbeds,
            command: &|_| "again".into(),
            out: &out,
            jobs: self.jobs,
            verifies: self.verifies,
        };
        run::run(experiments, &settings, noting)
    }

    fn run(&self, text: &str) -> Outcome {
        let experiments = experiments(text, self.folder.path());
        self.try_run(&experiments, &Noting::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The only result, and its lines.
    fn one(&self, text: &str) -> (ResultFile, Vec<String>) {
        let outcome = self.run(text);
        let [ran] = outcome.finished.as_slice() else { panic!("{outcome:?}") };
        let name = format!("{}.csv", ran.result.experiment);
        let csv = fs::read_to_string(results_of(&self.out()).join(name)).unwrap();
        (ran.result.clone(), csv.lines().map(str::to_owned).collect())
    }

    /// The only failure.
    fn failure(&self, text: &str) -> String {
        let outcome = self.run(text);
        let [(_, error)] = outcome.failures.as_slice() else { panic!("{outcome:?}") };
        error.to_string()
    }

    /// All files of all results.
    fn files(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(results_of(&self.out())).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        files.sort();
        files
    }

    fn orders(&self) -> usize {
        self.log.orders.lock().unwrap().len()
    }
}

fn experiments(text: &str, base: &Path) -> Vec<Experiment> {
    let campaign = campaign::parse("t.toml", text, base, &Options::default());
    campaign.unwrap_or_else(|error| panic!("{error}\n{text}")).experiments
}

fn refused(text: &str) -> String {
    match campaign::parse("t.toml", text, Path::new("."), &Options::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

#[test]
fn a_perfect_report_is_a_result_with_its_machine() {
    let (result, lines) = Lab::new(perfect).one(TWO);
    let expected = Counts { sent: 100, received: 100, ..Counts::default() };
    assert_eq!(result.counts, expected);
    assert!(result.stopped.is_empty());
    for (metric, latency_ns) in [
        (Metric::TotalLatency, 14_000),
        (Metric::GatewayLatency, 14_000),
        (Metric::EndToEnd, 15_000),
    ] {
        let figures = result.metric(metric).unwrap();
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (100, latency_ns, latency_ns));
    }
    assert_eq!(result.metrics.len(), 3);
    assert_eq!(
        result.conditions,
        "Linux 6.12.117+deb12-amd64 (package linux-image 6.12.117-1), QEMU 7.2.22, instruction \
         time, shift 1 (500 MIPS): path lengths, not a forecast for a board; kernel gateway; no load"
    );
    let machine = result.machine.as_ref().unwrap();
    assert_eq!((machine.kernel.as_str(), machine.shift), ("6.12", 1));
    assert_eq!((result.rules.len(), result.rules[0].handled), (1, 100));
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
    let [source, target] = result.buses.as_slice() else { panic!("{:?}", result.buses) };
    assert!((11.1..13.5).contains(&source.load_percent), "{source:?}");
    assert!((target.load_percent - 2.0 * source.load_percent).abs() < 0.002, "{target:?}");
    assert_eq!((source.frames, target.frames), (100, 100));
    // A result reads as it was written.
    let text = result.to_json();
    let again: ResultFile = serde_json::from_str(&text).unwrap();
    assert_eq!(again.to_json(), text);
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
                 [[rule]]\nname = 'limited'\nfrom = 'in'\nto = 'out'\nrate = '100/s'\n";
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
    assert_eq!((result.rules[0].refused, result.rules[0].lost), (90, 1));
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
    let expected = Counts {
        sent: 100,
        received: 99,
        lost: 1,
        duplicated: 1,
        reordered: 1,
        ..Counts::default()
    };
    assert_eq!(result.counts, expected);
    assert_eq!(result.effort.unwrap().unknown, 1);
    let of = |number: &str| -> Vec<_> {
        let prefix = format!("{number},");
        lines.iter().filter(|line| line.starts_with(&prefix)).cloned().collect()
    };
    assert_eq!(of("5").len(), 2);
    assert!(of("5")[1].ends_with("forwarded,5000000,5001000,5500000,499000,499000"), "{lines:?}");
    assert!(of("7")[0].ends_with(",8100000,1099000,1099000"), "{lines:?}");
    assert!(of("9")[0].contains(",unexplained,"), "{lines:?}");
    assert_eq!(result.metric(Metric::TotalLatency).unwrap().count, 100);
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
    lab.run(&format!("{TWO}{turnaround}"));
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
    // What this bed passes on is not modified.
    let lab = Lab::new(perfect);
    for (gateway, generate, altered) in [
        ("kernel", "modify = 'none'", 0),
        ("kernel", "modify = 'or'", 100),
        ("engine-fast", "modify = 'or'", 100),
        ("kernel", "filters = 4", 0),
        // A chain counts the identifier up, over one virtual bus.
        ("engine", "hops = 3", 100),
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
    let text = TWO.replace("'kernel'", "'engine'");
    let (result, _) = counting_up.one(&format!("{text}gateway.generate = {{ hops = 3 }}"));
    assert_eq!(result.notes, [""; 0]);
}

#[test]
fn without_a_gateway_frames_are_delivered_on_their_own_bus() {
    let lab = Lab::new(perfect);
    let (result, lines) = lab.one(&TWO.replace("'kernel'", "'none'"));
    assert!(lines[1].contains(",delivered,"), "{lines:?}");
    assert_eq!((result.counts.received, result.buses[1].frames), (100, 0));
    assert_eq!(lab.log.orders.lock().unwrap()[0].gateway, Gateway::None);
    // What the papers call the precision of the bed: from sending to the stamp of a receiver.
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
    let (result, _) = lab.one(&TWO.replace("'kernel'", "'engine-fast'"));
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
fn settings_reach_the_order() {
    let lab = Lab::new(perfect);
    let text = "\
        testbed = 'vm'
        count = 50
        seed = 7
        bus.in = { bitrate = '500k', data_bitrate = '2M' }
        bus.out.bitrate = '250k'
        gateway.kind = 'engine-fast'
        gateway.priority = 80
        gateway.tx_queue = 50
        gateway.receive_buffer = 4096
        gateway.gather = '2 ms'
        gateway.generate = { hops = 2, virtual_buses = 2 }
        load = { kind = 'both', groups = 3, ping_bytes = 1000 }
        traffic = { kind = 'half', id = '0x100', length = 2 }
        [vm]
        mips = 125
        parameters = 'threadirqs'
        interrupt_priority = 60
        napi_thread_priority = 0
        netdev_budget = 64
        kernel = '6.1-rt'
        ";
    lab.run(text);
    let orders = lab.log.orders.lock().unwrap();
    let order = &orders[0];
    assert_eq!((order.controller, order.seed), (Controller::CtuCanFd, 7));
    assert_eq!((order.source.bitrate, order.source.data_bitrate), (500_000, Some(2_000_000)));
    assert_eq!((order.target.bitrate, order.target.data_bitrate), (250_000, None));
    assert_eq!(order.gateway, Gateway::EngineFast);
    assert_eq!(order.traffic.pace, Pace::Paced { period_percent: 200 });
    assert_eq!((order.traffic.count, order.traffic.length), (50, 2));
    assert_eq!(order.load, Load { hackbench_groups: Some(3), ping_bytes: Some(1_000) });
    let settings = &order.settings;
    assert_eq!((settings.gateway_priority, settings.tx_queue), (80, 50));
    assert_eq!((settings.receive_buffer, settings.netdev_budget), (Some(4_096), Some(64)));
    assert_eq!(settings.gather_ns, 2_000_000);
    let priorities = (settings.interrupt_priority, settings.napi_thread_priority);
    assert_eq!(priorities, (Some(60), Some(0)));
    let interfaces: Vec<_> = order.rules.buses.iter().map(|bus| bus.port.as_str()).collect();
    assert_eq!(interfaces, ["can2", "can3", "vcan0", "vcan1"]);
    assert_eq!(*lab.log.boots.lock().unwrap(), ["Linux 6.1-rt, 125 MIPS, threadirqs"]);
}

#[test]
fn an_experiment_of_the_simulation_runs_here_too() {
    let text = "
        count = 20
        seeds = 1
        instrument = 'tester'
        bus.in = { bitrate = '1M', bit_error_rate = 0.001, restart = '10ms' }
        bus.out.bitrate = '1M'
        gateway = { profile = 'mpc5200-2.6.33', kind = 'user' }
        load.kind = 'cpu'
        traffic.kind = 'flood'
        [matrix]
        testbed = ['sim', 'vm']
        ";
    let lab = Lab::new(perfect);
    let results = lab.run(text).results();
    let worlds: Vec<_> = results
        .iter()
        .map(|result| {
            (result.experiment.as_str(), result.testbed.as_str(), result.machine.is_some())
        })
        .collect();
    assert_eq!(worlds, [("sim", "sim", false), ("vm", "vm", true)]);
    let order = &lab.log.orders.lock().unwrap()[0];
    assert_eq!(order.gateway, Gateway::ReadWrite);
    assert_eq!(order.load.hackbench_groups, Some(2));
}

#[test]
fn what_a_machine_cannot_host_is_reported_with_place_and_remedy() {
    let chain = "gateway.generate = { hops = 6 }";
    for (text, parts) in [
        (
            format!("{TWO}gateway.delay = '35us'"),
            &["t.toml:7:17: error: a gateway of constant delay", "gateway.kind"][..],
        ),
        (
            format!("{TWO}gateway.egress = 'priority'"),
            &["t.toml:7:18: error: the queues", "--testbed sim"],
        ),
        (format!("{TWO}bus.third.bitrate = '1M'"), &["needs two buses", "hint: "]),
        (TWO.replace("one-at-a-time", "replay"), &["`log` is missing"]),
        (
            TWO.replace("'one-at-a-time'", "'periodic'")
                + "traffic.nodes.in = ['A']\n[[traffic.message]]\nid = '0x1'\nnode = 'A'\nperiod = '1ms'",
            &["numbered frames only", "--testbed sim"],
        ),
        (TWO.replace("= 100", "= 300_000"), &["t.toml:2:9: error: `count` is more than 200000"]),
        (format!("{TWO}{chain}"), &["would pass can-gw 7 times", "kind = \"engine\""]),
        (
            format!("{}gateway.generate.filters = 1", TWO.replace("'kernel'", "'user'")),
            &["ignores rules", "kind = \"engine\""],
        ),
        (TWO.replace("'kernel'", "'command'"), &["needs a `command`", "{in}"]),
        (
            format!("{}gateway.command = './absent'", TWO.replace("'kernel'", "'command'")),
            &["absent"],
        ),
        (format!("{TWO}vm.kernel = 6.12"), &["`kernel` is a number", "--kernel 6.12"]),
        (format!("{TWO}vm.kernel = 'linux'"), &["t.toml:7:13: error: `kernel` is \"linux\""]),
        (format!("{TWO}vm.kernel.image = 'bzImage'"), &["`modules` is missing"]),
        (format!("{TWO}vm.mips = 400"), &["400 MIPS is not possible"]),
        (format!("{TWO}vm.kernl = '6.12'"), &["unknown key `kernl`", "did you mean `kernel`?"]),
        (
            format!("{TWO}vm.controller = 'sja1000'\nbus.in.data_bitrate = '2M'"),
            &["the SJA1000 does not support it", "ctucanfd"],
        ),
        (format!("{TWO}gateway.priority = 100"), &["`priority` is 100"]),
        (format!("{TWO}gateway.files = [{{ from = 'a' }}]"), &["`to` is missing"]),
        (
            format!(
                "{}gateway.delay = '1us'",
                TWO.replace("'vm'", "'sim'").replace("'kernel'", "'engine'")
            ),
            &["the simulation has no gateway of kind", "--testbed vm"],
        ),
    ] {
        let error = refused(&text);
        for part in parts {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }
}

#[test]
fn rules_that_change_the_number_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    for (rule, is_fine) in [
        ("set = { data = '0000000000000000' }", false),
        ("or = { data = '0000FF0000000000' }", true),
        ("xor = { data = '0100000000000000' }", false),
        ("or = { id = '0x1' }\nxor_checksum = { from = 0, to = 6, into = 7 }", true),
        ("set = { length = 1 }", false),
    ] {
        let rules = format!(
            "bus = {{ in = 'x0', out = 'x1' }}\n[[rule]]\nname = 'r'\nfrom = 'in'\nto = 'out'\n{rule}\n"
        );
        fs::write(&file, rules).unwrap();
        let text = format!("{TWO}gateway.rules = '{}'\n", file.display());
        let read = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
        match (is_fine, read) {
            (true, Ok(_)) => {}
            (false, Err(error)) => {
                let error = error.to_string();
                assert!(
                    error.contains("rule `r` changes the first two data bytes"),
                    "{rule}\n{error}"
                );
            }
            (_, read) => {
                panic!("{rule}: {:?}", read.map(|_| ()).map_err(|error| error.to_string()))
            }
        }
    }
}

#[test]
fn the_command_line_chooses_world_and_machine() {
    let text = "
        bus.in.bitrate = '1M'
        bus.out.bitrate = '1M'
        traffic.kind = 'flood'
        gateway.profile = 'mpc5200-2.6.33'
        vm.kernel = { image = 'a', modules = 'b' }
        [[experiment]]
        name = 'a'
        [[experiment]]
        name = 'b'
        testbed = 'vm'
        ";
    let kernels = |options: &Options| -> Vec<String> {
        let campaign = campaign::parse("t.toml", text, Path::new("."), options).unwrap();
        let kernel = |experiment: &Experiment| match &experiment.world {
            experiment::World::Vm(vm) => vm.machine.to_string(),
            experiment::World::Sim(_) => {
                assert!(!experiment.config.contains("6.1"), "{}", experiment.config);
                "sim".into()
            }
        };
        campaign.experiments.iter().map(kernel).collect()
    };
    assert_eq!(kernels(&Options::default()), ["sim", "Linux a, 500 MIPS"]);
    let named = experiment::KernelChoice::Named("6.1".into());
    let options = Options { kernel: Some(named), mips: Some(1_000), ..Options::default() };
    assert_eq!(kernels(&options), ["sim", "Linux 6.1, 1000 MIPS"]);
    let own = experiment::KernelChoice::Files { image: "b z".into(), modules: "m".into() };
    let options = Options { kernel: Some(own), testbed: Some(Testbed::Vm), ..Options::default() };
    assert_eq!(kernels(&options), ["Linux b z, 500 MIPS"; 2]);
}

#[test]
fn a_kernel_on_the_command_line_is_where_a_shell_would_find_it() {
    use experiment::KernelChoice::Files;

    let folder = tempfile::tempdir().unwrap();
    let beside = |name: &str| folder.path().join(name);
    std::fs::write(beside("bzImage"), "").unwrap();
    std::fs::create_dir(beside("mods")).unwrap();
    let text = "
        testbed = 'vm'
        bus.in.bitrate = '1M'
        bus.out.bitrate = '1M'
        traffic.kind = 'flood'
        gateway.kind = 'kernel'
        vm.kernel = { image = 'bzImage', modules = 'gone' }
    ";
    let files = |options: &Options| {
        let campaign = campaign::parse("t.toml", text, folder.path(), options).unwrap();
        match &campaign.experiments[0].world {
            experiment::World::Vm(vm) => vm.machine.kernel.clone(),
            experiment::World::Sim(_) => panic!("it is for vm"),
        }
    };
    let in_file = Files { image: beside("bzImage"), modules: "gone".into() };
    assert_eq!(files(&Options::default()), in_file);
    let typed = Files { image: "bzImage".into(), modules: "mods".into() };
    assert_eq!(files(&Options { kernel: Some(typed.clone()), ..Options::default() }), typed);
}

#[test]
fn rules_that_nobody_wrote_take_the_frames_that_are_sent() {
    let gates = |rest: &str| {
        let text = format!(
            "testbed = 'vm'\nbus.in = {{ bitrate = '1M', fd = true }}\nbus.out.bitrate = '1M'\n\
             [traffic]\nkind = 'flood'\n{rest}"
        );
        let campaign =
            campaign::parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
        let rules = campaign.experiments[0].rules.as_ref().unwrap();
        rules.rules.iter().map(|rule| format!("{:?}", rule.gate)).collect::<Vec<_>>()
    };
    let generated = "[gateway]\ngenerate = { filters = 2, modify = 'set' }";
    for (rest, expected) in [
        ("[gateway]", &["Classical"][..]),
        ("length = 64\n[gateway]", &["Fd"]),
        ("length = 8\nfd = true\n[gateway]", &["Fd"]),
        (&format!("length = 8\n{generated}"), &["Classical"; 2]),
        (&format!("length = 64\n{generated}"), &["Fd"; 2]),
        ("length = 64\n[gateway]\ngenerate.hops = 2", &["Fd"; 3]),
    ] {
        assert_eq!(gates(rest), expected, "{rest}");
    }
}

#[test]
fn an_unchanged_experiment_is_not_run_again() {
    let mut lab = Lab::new(perfect);
    lab.keeps = true;
    let counted = |lab: &Lab, text: &str| {
        let noting = Noting::default();
        lab.try_run(&experiments(text, lab.folder.path()), &noting).unwrap();
        (noting.cached.into_inner(), noting.fresh.into_inner())
    };
    assert_eq!(counted(&lab, TWO), (0, 1));
    let first = lab.files();
    assert_eq!(counted(&lab, TWO), (1, 0));
    assert!(lab.files() == first);
    assert_eq!((lab.orders(), lab.log.boots.lock().unwrap().len()), (1, 1));
    // What it is called does not matter to a machine.
    assert_eq!(counted(&lab, &format!("title = 'other'\nper_frame = false\n{TWO}")), (1, 0));
    for changed in [
        TWO.replace("= 100", "= 101"),
        TWO.replace("'500k'", "'250k'"),
        TWO.replace("'kernel'", "'engine'"),
        format!("seed = 2\n{TWO}"),
        format!("{TWO}vm.kernel = '6.1'"),
        format!("{TWO}vm.mips = 250"),
        format!("{TWO}vm.parameters = 'threadirqs'"),
        format!("{TWO}vm.netdev_budget = 64"),
        format!("{TWO}gateway.generate.modify = 'and'"),
        format!("seeds = 1\n{TWO}load.kind = 'cpu'"),
    ] {
        assert_eq!(counted(&lab, &changed), (0, 1), "{changed}");
        assert_eq!(counted(&lab, &changed), (1, 0), "{changed}");
    }
    lab.keeps = false;
    assert_eq!(counted(&lab, TWO), (0, 1));
}

#[test]
fn a_damaged_entry_is_run_again_and_replaced() {
    fn all_files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
    }
    let mut lab = Lab::new(perfect);
    lab.keeps = true;
    lab.run(TWO);
    let first = lab.files();
    let mut kept = all_files(&lab.reports());
    kept.retain(|path| !path.ends_with(candor_vm::ABOUT));
    let [entry] = kept.as_slice() else { panic!("{kept:?}") };
    let whole = fs::read(entry).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(entry, damaged).unwrap();
    let outcome = lab.run(TWO);
    assert!(!outcome.finished[0].is_cached);
    assert!(lab.files() == first);
    assert!(fs::read(entry).unwrap() == whole);
    assert!(lab.run(TWO).finished[0].is_cached);
}

/// Twelve experiments on two machines.
const MANY: &str = "\
testbed = 'vm'
count = 20
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.kind = 'kernel'
traffic.kind = 'flood'
[[experiment]]
name = 'k'
[matrix]
\"vm.kernel\" = ['6.12', '6.12-rt']
seed = [1, 2, 3, 4, 5, 6]
";

/// Latencies that depend on the order alone.
fn seeded(measurement: &Measurement) -> Report {
    let mut report = perfect(measurement);
    let late = measurement.seed * 100;
    report.received.iter_mut().for_each(|stamp| stamp.time_ns += late);
    report
}

#[test]
fn results_depend_neither_on_jobs_nor_on_the_order_nor_on_shards() {
    let whole = Lab::new(seeded);
    whole.run(MANY);
    let expected = whole.files();
    assert_eq!(expected.len(), 24);

    let mut crowded = Lab::new(seeded);
    crowded.jobs = 6;
    crowded.run(MANY);
    assert!(crowded.files() == expected);
    let mut boots = crowded.log.boots.lock().unwrap().clone();
    boots.sort();
    assert_eq!(boots, ["Linux 6.12, 500 MIPS", "Linux 6.12-rt, 500 MIPS"]);

    let permuted = Lab::new(seeded);
    let mut backwards = experiments(MANY, permuted.folder.path());
    backwards.reverse();
    backwards.swap(2, 7);
    permuted.try_run(&backwards, &Noting::default()).unwrap();
    assert!(permuted.files() == expected);

    // Shards copied into one folder.
    let merged = Lab::new(seeded);
    for number in 1..=5 {
        let shard = run::shard(experiments(MANY, merged.folder.path()), number, 5);
        merged.try_run(&shard, &Noting::default()).unwrap();
    }
    assert!(merged.files() == expected);
}

#[test]
fn a_campaign_goes_on_where_it_was() {
    let limit = Arc::new(AtomicU64::new(5));
    let left = Arc::clone(&limit);
    let mut lab = Lab::failing(move |measurement| {
        let has_time =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        has_time.map(|_| seeded(measurement)).map_err(|_| Error::Interrupted)
    });
    lab.keeps = true;
    let outcome = lab.run(MANY);
    assert!(outcome.is_interrupted && outcome.failures.is_empty());
    assert_eq!(outcome.finished.len(), 5);
    limit.store(100, Ordering::Relaxed);
    let outcome = lab.run(MANY);
    let cached = outcome.finished.iter().filter(|ran| ran.is_cached).count();
    assert_eq!((outcome.finished.len(), cached), (12, 5));
    let whole = Lab::new(seeded);
    whole.run(MANY);
    assert!(lab.files() == whole.files());
}

#[test]
fn runs_that_differ_are_named_with_the_first_line() {
    let runs = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&runs);
    let mut lab = Lab::new(move |measurement| {
        let mut report = perfect(measurement);
        let is_second = count.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        // One frame of one experiment, as late as another one: figures stay, lines do not.
        if measurement.seed == 2 {
            let late = if is_second { 4 } else { 3 };
            report.received[late].time_ns += 500;
        }
        report
    });
    lab.verifies = true;
    lab.keeps = true;
    let outcome = lab.run(&format!("{MANY}\n").replace("['6.12', '6.12-rt']", "['6.12']"));
    assert_eq!(outcome.finished.len(), 5);
    let [(name, difference)] = outcome.differences.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(name, "k-6.12-2");
    let Difference { file, line, first, second } = difference;
    assert_eq!((*file, *line), ("csv", 5));
    assert!(first.as_ref().unwrap().ends_with(",14500,14500"), "{first:?}");
    assert!(second.as_ref().unwrap().ends_with(",14000,14000"), "{second:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 12);
    assert!(!lab.files().iter().any(|(name, _)| name.starts_with("k-6.12-2.")));
    // Verifying does not look into the store.
    lab.run(&format!("{MANY}\n").replace("['6.12', '6.12-rt']", "['6.12']"));
    assert_eq!(runs.load(Ordering::Relaxed), 24);
}

#[test]
fn what_a_machine_lacks_is_reported_before_anything_runs() {
    let lab = Lab::new(perfect);
    let text = MANY.replace("'6.12-rt'", "'9.9'");
    let error = lab.try_run(&experiments(&text, lab.folder.path()), &Noting::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("candor vm fetch 9.9"), "{error}");
    assert_eq!((lab.orders(), lab.files()), (0, Vec::new()));
}

#[test]
fn a_machine_that_does_not_come_up_fails_its_experiments_alone() {
    let mut lab = Lab::new(perfect);
    lab.jobs = 3;
    let text =
        MANY.replace("\"vm.kernel\" = ['6.12', '6.12-rt']", "\"vm.parameters\" = ['', 'broken']");
    let outcome = lab.run(&text);
    assert_eq!((outcome.finished.len(), outcome.failures.len()), (6, 6));
    for (name, error) in &outcome.failures {
        assert!(error.to_string().contains("panicked at boot"), "{name}: {error}");
    }
    let broken =
        lab.log.boots.lock().unwrap().iter().filter(|boot| boot.contains("broken")).count();
    assert_eq!(broken, 1, "a machine that is broken is not booted again");
}

#[test]
fn a_guest_that_dies_ends_its_own_experiment_only() {
    let lab = Lab::failing(|measurement| match measurement.seed {
        3 => Err(Error::Other("the guest died: kernel panic".into())),
        _ => Ok(perfect(measurement)),
    });
    let outcome = lab.run(MANY);
    assert_eq!((outcome.finished.len(), outcome.failures.len()), (10, 2));
    assert_eq!(outcome.failures[0].0, "k-6.12-3");
}

#[test]
fn commands_come_with_their_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("my.conf"), "x = 1\n").unwrap();
    fs::write(folder.path().join("other.conf"), "y = 1\n").unwrap();
    let program = std::env::current_exe().unwrap();
    let text = format!(
        "{}gateway.command = ['{}', '{{in}}', '--out', '{{out}}']\n\
         gateway.files = ['my.conf', {{ from = 'other.conf', to = '/etc/other.conf' }}]\n",
        TWO.replace("'kernel'", "'command'"),
        program.display()
    );
    let experiments = experiments(&text, folder.path());
    let lab = Lab::new(perfect);
    lab.try_run(&experiments, &Noting::default()).unwrap();
    let order = &lab.log.orders.lock().unwrap()[0];
    let Gateway::Command(argv) = &order.gateway else { panic!("{:?}", order.gateway) };
    assert_eq!(argv[1..], ["{in}", "--out", "{out}"]);
    let file = |path: &str| order.files.iter().find(|file| file.path == path).unwrap();
    assert!(file(&argv[0]).is_executable);
    assert_eq!(file("/my.conf").contents, b"x = 1\n");
    assert_eq!(file("/etc/other.conf").contents, b"y = 1\n");
    let inputs: Vec<_> = experiments[0].inputs.iter().map(|input| input.path.as_str()).collect();
    assert_eq!(inputs[1..], ["my.conf", "other.conf"]);
}

#[test]
fn extended_identifiers_reach_the_rules() {
    let lab = Lab::new(perfect);
    let text = format!(
        "{TWO}traffic.id = '0x12345678x'\n\
         gateway.generate = {{ filters = 3, filter_kind = 'extended' }}\n"
    );
    lab.run(&text);
    let order = &lab.log.orders.lock().unwrap()[0];
    assert_eq!(order.traffic.can_ids, [0x1234_5678 | EFF_FLAG]);
    assert_eq!(order.rules.rules.len(), 3);
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
fn an_experiment_under_load_runs_with_several_seeds() {
    let names = |text: &str, options: &Options| -> Vec<(String, String, u64)> {
        let campaign = campaign::parse("t.toml", text, Path::new("."), options).unwrap();
        let named = |e: Experiment| (e.name, e.group, e.seed);
        campaign.experiments.into_iter().map(named).collect()
    };
    let busy = format!("name = 'busy'\n{TWO}load.kind = 'cpu'\n");
    let all = names(&busy, &Options::default());
    assert_eq!(all.len(), 5);
    assert_eq!(all[4], ("busy-seed-5".into(), "busy".into(), 5));
    // One seed keeps its name, so that the command of a result gives the same files again.
    let one = Options { seed: Some(4), ..Options::default() };
    assert_eq!(names(&busy, &one), [("busy-seed-4".into(), "busy".into(), 4)]);
    for only in ["busy", "bus*"] {
        let options = Options { only: Some(only.into()), ..Options::default() };
        assert_eq!(names(&busy, &options).len(), 5, "{only}");
    }
    let options = Options { only: Some("busy-seed-2".into()), ..Options::default() };
    assert_eq!(names(&busy, &options), [("busy-seed-2".into(), "busy".into(), 2)]);

    for (text, count) in [
        (format!("{busy}seeds = 1\n"), 1),
        (format!("{busy}seeds = 3\n"), 3),
        (
            busy.replace("'vm'", "'sim'")
                .replace("gateway.kind = 'kernel'", "gateway.delay = '1us'"),
            1,
        ),
        (format!("name = 'calm'\n{TWO}"), 1),
        (format!("name = 'calm'\n{TWO}seeds = 2\n"), 2),
        (format!("name = 'calm'\nseed = 7\n{TWO}seeds = 2\n"), 2),
    ] {
        assert_eq!(names(&text, &Options::default()).len(), count, "{text}");
    }
    assert_eq!(
        names(&format!("name = 'calm'\nseed = 7\nseeds = 2\n{TWO}"), &Options::default())[1].2,
        8
    );
    let message = refused(&format!("seeds = 0\n{TWO}"));
    assert!(message.contains("`seeds` is 0, but must be 1 to 100"), "{message}");
}

#[test]
fn runs_with_several_seeds_have_results_of_their_own() {
    let lab = Lab::new(seeded);
    let outcome = lab.run(&format!("name = 'busy'\nseeds = 3\n{TWO}load.kind = 'ethernet'\n"));
    let results = outcome.results();
    let seeds: Vec<_> = lab.log.orders.lock().unwrap().iter().map(|order| order.seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
    let groups = candor_lab::group::groups(&results);
    assert_eq!((groups.len(), groups[0].name, groups[0].runs.len()), (1, "busy", 3));
    assert!(results.iter().all(ResultFile::is_loaded));
    assert_eq!(results[1].axes.get("seed").map(String::as_str), Some("2"));
    assert_eq!(lab.files().len(), 6, "JSON and CSV of each");
}

#[test]
fn quantiles_of_machines_are_exact() {
    // Beyond 4096 ns a histogram counts in buckets: 100,003 ns would be rounded.
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
