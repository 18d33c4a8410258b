//! The laws of the `sim` testbed, on whole experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use candor_causes::Cause;
use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::result::{Counts, ResultFile};
use candor_lab::sections::{self, RULES};
use candor_lab::simulate;
use candor_lab::{Error, Experiment};
use candor_lat::Metric;
use candor_lat::pairing::{Outcome, Pairing, number_of};
use candor_wire::can::Frame;

/// Two classical buses; the second is slow enough to lose frames of a flood.
const BUSES: &str = "bus.in.bitrate = '1M'\nbus.out.bitrate = '500k'\n";
/// Two CAN FD buses.
const FD_BUSES: &str = "bus.in = { bitrate = '500k', data_bitrate = '2M' }\n\
                        bus.out = { bitrate = '500k', data_bitrate = '2M' }\n";

fn experiment(text: &str, base: &Path) -> Experiment {
    let campaign = campaign::parse("t.toml", text, base, &Options::default());
    let mut campaign = campaign.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(campaign.experiments.len(), 1);
    campaign.experiments.remove(0)
}

fn try_run(experiment: &Experiment) -> Result<(ResultFile, String), Error> {
    let mut csv = Vec::new();
    let result = simulate::run(Run {
        command: "again".into(),
        lines: Some(&mut csv),
        ..Run::unwatched(experiment)
    })?;
    Ok((result, String::from_utf8(csv).unwrap()))
}

fn run_in(text: &str, base: &Path) -> (ResultFile, Vec<Row>) {
    let (result, csv) = try_run(&experiment(text, base)).unwrap();
    (result, rows(&csv))
}

fn run(text: &str) -> (ResultFile, Vec<Row>) {
    run_in(text, Path::new("."))
}

/// A line per frame or copy: the columns by name, empty ones left out.
type Row = BTreeMap<String, String>;

fn rows(csv: &str) -> Vec<Row> {
    let mut lines = csv.lines();
    let head: Vec<_> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells = line.split(',');
            let row = head.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
            row.map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect()
        })
        .collect()
}

fn number<T: std::str::FromStr>(row: &Row, column: &str) -> Option<T> {
    row.get(column).map(|cell| cell.parse().unwrap_or_else(|_| panic!("{column}: {cell}")))
}

/// How many copies rules stopped.
fn stopped_by_rules(result: &ResultFile) -> u64 {
    result.stopped.iter().filter(|it| it.place == "rule").map(|it| it.frames).sum()
}

/// How each frame ended by its lines: the law of [`Ending`], said in another way.
fn endings(rows: &[Row]) -> BTreeMap<u64, &'static str> {
    let mut endings = BTreeMap::new();
    for row in rows {
        let ending = match row["outcome"].as_str() {
            "forwarded" | "delivered" => "received",
            cause => Cause::by_name(cause).unwrap_or_else(|| panic!("{cause}")).ending().key(),
        };
        let rank = |ending| {
            ["received", "lost", "refused", "not_routed"].iter().position(|it| *it == ending)
        };
        let known = endings.entry(number(row, "number").unwrap()).or_insert(ending);
        if rank(ending) < rank(known) {
            *known = ending;
        }
    }
    endings
}

/// The table of counts is what the lines per frame add up to.
fn check_counts(result: &ResultFile, rows: &[Row], case: &str) {
    let Counts { sent, received, not_routed, refused, lost, .. } = result.counts;
    let endings = endings(rows);
    let of = |ending| endings.values().filter(|it| **it == ending).count() as u64;
    assert!(endings.keys().copied().eq(0..sent), "{case}: each frame ends");
    let counted = [received, not_routed, refused, lost];
    assert_eq!(counted, ["received", "not_routed", "refused", "lost"].map(of), "{case}");
    assert_eq!(sent, received + not_routed + refused + lost, "{case}: the sum");
    assert!(result.stopped.iter().all(|it| it.cause != Cause::Unexplained.name()), "{case}");
    let arrived = |row: &&Row| ["forwarded", "delivered"].contains(&row["outcome"].as_str());
    let stopped = rows.len() - rows.iter().filter(arrived).count();
    let by_cause: u64 = result.stopped.iter().map(|it| it.frames).sum();
    assert_eq!(by_cause, stopped as u64, "{case}: by cause");
    let of_rules = |key| result.sections.numbers(&RULES, key).iter().sum::<f64>() as u64;
    assert_eq!(of_rules("refused") + of_rules("lost"), stopped_by_rules(result), "{case}: by rule");
}

/// Every law that holds for one gateway whose rules make at most one copy of a frame.
fn check_sums(result: &ResultFile, rows: &[Row], case: &str) {
    check_counts(result, rows, case);
    // The last rule of a chain puts frames on the target bus; those before it only pass them on.
    let handled = result.sections.numbers(&RULES, "handled").last().map_or(0, |it| *it as u64);
    assert_eq!(handled, result.counts.received, "{case}: handled");
}

/// Pairs frames as the papers' test bed did, by the number in the first two bytes: latencies in
/// ascending order, and how many were lost.
fn pair_by_number(rows: &[Row]) -> (Vec<i64>, u64) {
    let number_in = |row: &Row, column: &str| {
        let frame: Frame = row[column].parse().unwrap();
        number_of(frame.data()).unwrap()
    };
    let mut events = BTreeSet::new();
    for row in rows {
        if let Some(at) = number::<u64>(row, "source_end_ns") {
            events.insert((at, false, number_in(row, "sent")));
        }
        if row["outcome"] == "forwarded" {
            let at = number::<u64>(row, "target_end_ns").unwrap();
            events.insert((at, true, number_in(row, "received")));
        }
    }
    let mut pairing = Pairing::default();
    let mut latencies = Vec::new();
    let mut note = |outcome| {
        if let Outcome::Paired(pair) = outcome {
            latencies.push(pair.latency_ns());
        }
    };
    for (at, is_received, number) in events {
        match is_received {
            false => pairing.sent(number, at, &mut note),
            true => pairing.received(number, at, &mut note),
        }
    }
    pairing.finish(&mut note);
    latencies.sort_unstable();
    (latencies, pairing.counts().lost)
}

/// Whoever repeats an experiment needs to know which profile it was.
#[test]
fn a_profile_of_ones_own_is_among_the_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let built_in = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/mpc5200-2.6.33.toml");
    std::fs::copy(built_in, folder.path().join("own.toml")).unwrap();
    for (profile, inputs) in [("own.toml", &["own.toml"][..]), ("mpc5200-2.6.33", &[])] {
        let text = format!(
            "bus = {{ a.bitrate = '1M', b.bitrate = '1M' }}\ngateway.profile = '{profile}'\n\
             traffic.kind = 'flood'\n"
        );
        let options = candor_lab::campaign::Options::default();
        let campaign =
            candor_lab::campaign::parse("test.toml", &text, folder.path(), &options).unwrap();
        let found: Vec<_> =
            campaign.experiments[0].inputs.iter().map(|input| input.path.as_str()).collect();
        assert_eq!(found, inputs);
    }
}

#[test]
fn pairing_by_number_agrees_with_identity() {
    let kernel = "profile = 'mpc5200-2.6.33'";
    let cases = [
        ("constant delay", "delay = '35us'", "kind = 'flood'", false),
        ("losses", "delay = '35us'", "kind = 'flood'\nlength = 2", true),
        ("one at a time", kernel, "kind = 'one-at-a-time'", false),
        ("half", kernel, "kind = 'half'", false),
        ("set", &format!("{kernel}\ngenerate.modify = 'set'"), "kind = 'flood'", false),
        ("checksum", &format!("{kernel}\ngenerate.modify = 'checksum'"), "kind = 'flood'", false),
        ("user space", &format!("{kernel}\nkind = 'user'"), "kind = 'flood'\nlength = 2", true),
        (
            "virtual hops",
            &format!("{kernel}\ngenerate = {{ hops = 3, virtual_buses = 2 }}"),
            "kind = 'half'",
            false,
        ),
    ];
    for (case, gateway, traffic, is_lossy) in cases {
        // Where nothing shall get lost, the second bus is as fast as the first.
        let buses =
            if is_lossy { BUSES } else { "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n" };
        let text = format!("count = 2000\n{buses}[gateway]\n{gateway}\n[traffic]\n{traffic}\n");
        let (result, rows) = run(&text);
        assert_eq!(result.counts.sent, 2_000, "{case}");
        assert_eq!(result.counts.lost > 0, is_lossy, "{case}: {:?}", result.counts);
        check_sums(&result, &rows, case);

        let (latencies, lost) = pair_by_number(&rows);
        let mut by_identity: Vec<i64> =
            rows.iter().filter_map(|row| number(row, "total_latency_ns")).collect();
        by_identity.sort_unstable();
        assert_eq!(latencies, by_identity, "{case}");
        assert_eq!(lost, result.counts.lost, "{case}");
        let figures = result.metric(Metric::TotalLatency).unwrap();
        assert_eq!(
            (figures.count, figures.min_ns, figures.max_ns),
            (latencies.len() as u64, latencies[0], latencies[latencies.len() - 1]),
            "{case}"
        );
    }
}

#[test]
fn the_sums_hold_with_rules_that_take_only_some() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "bus = { in = 'can0', out = 'can1' }\n\
                 [[rule]]\nname = 'even'\nfrom = 'in'\nto = 'out'\nmatch = ['0x102', '0x104']\n";
    std::fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let text = format!(
        "count = 1000\n{BUSES}[gateway]\ndelay = '5us'\ntx_queue = 2\nrules = 'rules.toml'\n\
         [traffic]\nkind = 'flood'\nlength = 2\nid = ['0x101', '0x102', '0x103', '0x104', '0x105']\n"
    );
    let (result, rows) = run_in(&text, folder.path());
    check_sums(&result, &rows, "some");
    assert_eq!((result.counts.sent, result.counts.not_routed), (1_000, 600));
}

#[test]
fn without_a_gateway_frames_are_delivered_on_their_own_bus() {
    for gateway in ["", "gateway.kind = 'none'\n"] {
        let text = format!("count = 50\nbus.in.bitrate = '1M'\ntraffic.kind = 'flood'\n{gateway}");
        let (result, rows) = run(&text);
        let Counts { sent, received, not_routed, refused, lost, .. } = result.counts;
        assert_eq!([sent, received, not_routed, refused, lost], [50, 50, 0, 0, 0], "{gateway}");
        assert!(rows.iter().all(|row| row["outcome"] == "delivered"), "{gateway}");
    }
}

#[test]
fn in_open_loop_frames_do_not_wait_for_those_before() {
    // A frame takes 3 ms in the gateway, and the next one comes after 1 to 2 ms.
    let text = format!(
        "count = 500\n{BUSES}gateway.delay = '3ms'\n\
         traffic = {{ kind = 'open-loop', turnaround_shortest = '1ms', turnaround_longest = '2ms' }}\n"
    );
    let (result, rows) = run(&text);
    assert_eq!((result.counts.sent, result.counts.received), (500, 500));
    let mut due: Vec<u64> = rows.iter().map(|row| number(row, "queued_ns").unwrap()).collect();
    due.sort_unstable();
    let gaps: Vec<_> = due.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (1_000_000..=2_000_000).contains(gap)));
    let below = |ns: u64| gaps.iter().filter(|&&gap| gap < ns).count();
    assert!((75..175).contains(&below(1_250_000)) && (325..425).contains(&below(1_750_000)));
}

#[test]
fn the_seed_decides_every_byte() {
    let text = format!(
        "count = 500\n{BUSES}gateway.profile = 'mpc5200-2.6.33'\n\
         traffic = {{ kind = 'one-at-a-time', length = 4 }}\n"
    );
    let output = |seed: u64| {
        let mut experiment = experiment(&text, Path::new("."));
        experiment.seed = seed;
        let (mut result, csv) = try_run(&experiment).unwrap();
        result.seed = 0;
        (result.to_json(), csv)
    };
    let first = output(1);
    assert!(first == output(1));
    let other = output(2);
    assert!(first.0 != other.0 && first.1 != other.1);
}

#[test]
fn a_result_does_not_depend_on_the_lines_per_frame() {
    let text = format!("count = 500\n{BUSES}gateway.delay = '35us'\ntraffic.kind = 'flood'\n");
    let experiment = experiment(&text, Path::new("."));
    let (with, _) = try_run(&experiment).unwrap();
    let without =
        simulate::run(Run { command: "again".into(), ..Run::unwatched(&experiment) }).unwrap();
    assert_eq!(with.to_json(), without.to_json());
}

#[test]
fn a_sender_of_a_flood_takes_its_gap_behind_each_frame() {
    for (gap, expected_ns) in [("0s", 3_000), ("3us", 3_000), ("3500ns", 3_500), ("8us", 8_000)] {
        let text = format!(
            "count = 20\nbus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\ngateway.delay = '1us'\n\
             traffic = {{ kind = 'flood', length = 2, gap = '{gap}' }}\n"
        );
        let (_, rows) = run(&text);
        let time = |row: &Row, name: &str| row[name].parse::<u64>().unwrap();
        let gaps: BTreeSet<_> = rows
            .windows(2)
            .map(|two| time(&two[1], "source_start_ns") - time(&two[0], "source_end_ns"))
            .collect();
        assert_eq!((rows.len(), gaps), (20, BTreeSet::from([expected_ns])), "{gap}");
    }
    for (setting, expected) in [
        ("gap = '1s'", "`gap` is 1s, but can be 100ms at most"),
        ("timeout = '0s'", "`timeout` is 0, so every frame would be late"),
    ] {
        let text =
            format!("{BUSES}gateway.delay = '1us'\ntraffic = {{ kind = 'flood', {setting} }}\n");
        let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
        let error = campaign.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_interrupted_run_has_no_result() {
    struct Impatient;
    impl simulate::Watch for Impatient {
        fn proceed(&self, _: candor_time::Nanos, sent: u64) -> bool {
            sent < 1_000
        }
    }
    let text =
        format!("count = 1_000_000\n{BUSES}gateway.delay = '35us'\ntraffic.kind = 'flood'\n");
    let experiment = experiment(&text, Path::new("."));
    let outcome = simulate::run(Run {
        command: "again".into(),
        watch: &Impatient,
        ..Run::unwatched(&experiment)
    });
    assert!(matches!(outcome, Err(Error::Interrupted)));
}

/// Two interfaces, an error report, and a step back in time.
const LOG: &str = "\
(1000.000000) can0 101#0000
(1000.010000) can1 102#0000
(1000.020000) can0 103#0000
(1000.025000) can0 20000004#0001000000000000
(1000.015000) can0 104#0000
(1000.040000) can1 105#0000
";

/// Identifiers and times of release, in milliseconds, of a replay of [`LOG`].
fn replayed(settings: &str) -> (Vec<(String, u64)>, ResultFile) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.log"), LOG).unwrap();
    let text = format!(
        "{BUSES}gateway.delay = '35us'\n\
         traffic = {{ kind = 'replay', log = 'a.log', {settings} }}\n"
    );
    let (result, rows) = run_in(&text, folder.path());
    check_sums_of_replay(&result, &rows);
    let mut rows = rows;
    rows.sort_by_key(|row| number::<u64>(row, "number"));
    let released = rows.iter().map(|row| {
        let queued_ns: u64 = number(row, "queued_ns").unwrap();
        assert_eq!(queued_ns % 1_000_000, 0);
        (row["sent"][..3].to_owned(), queued_ns / 1_000_000)
    });
    (released.collect(), result)
}

/// Error reports were never on the wire: they are reported, but not among the frames.
fn check_sums_of_replay(result: &ResultFile, rows: &[Row]) {
    assert_eq!(result.counts.sent, rows.len() as u64);
    assert_eq!(result.counts.received, result.counts.sent);
}

#[test]
fn a_recording_keeps_its_times() {
    type Released = &'static [(&'static str, u64)];
    let cases: [(&str, Released, u64); 4] = [
        // The step back in time is sent at once.
        ("", &[("101", 0), ("102", 10), ("103", 20), ("104", 20), ("105", 40)], 1),
        ("speed = 2.0", &[("101", 0), ("102", 5), ("103", 10), ("104", 10), ("105", 20)], 1),
        ("interface = 'can1'", &[("102", 0), ("105", 30)], 0),
        ("interface = 'can1', speed = 0.5", &[("102", 0), ("105", 60)], 0),
    ];
    for (settings, expected, error_reports) in cases {
        let (released, result) = replayed(settings);
        let released: Vec<_> = released.iter().map(|(id, at)| (id.as_str(), *at)).collect();
        assert_eq!(released, expected, "{settings}");
        let note = format!("the recording has {error_reports} error report, which is not sent");
        let is_reported = result.notes.iter().any(|it| it.starts_with(&note));
        assert_eq!(is_reported, error_reports > 0, "{settings}: {:?}", result.notes);
        assert_eq!(result.inputs.len(), 1);
    }
}

/// Frames that arrive, that no rule takes, that rules refuse and that are lost, all in one world.
#[test]
fn frames_sent_are_received_or_not_routed_or_refused_or_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rules = |others: &str| {
        format!(
            "{others}bus = {{ in = 'can0', out = 'can1', third = 'can2' }}\n\
             [[rule]]\nname = 'limited'\nfrom = 'in'\nto = ['out', 'third']\nmatch = ['0x100']\n\
             rate = '100/s'\n\
             [[rule]]\nname = 'all of it'\nfrom = 'in'\nto = 'out'\nmatch = ['0x200']\n"
        )
    };
    for (others, not_routed) in [("", "no_rule"), ("default = 'refuse'\n", "not_allowed")] {
        std::fs::write(folder.path().join("rules.toml"), rules(others)).unwrap();
        let text = "count = 4_000\nseed = 3\n\
             bus.in.bitrate = '1M'\nbus.out.bitrate = '125k'\nbus.third.bitrate = '500k'\n\
             bus.apart.bitrate = '500k'\n\
             gateway = { profile = 'mpc5200-2.6.33', kind = 'user', rules = 'rules.toml' }\n\
             [traffic]\nkind = 'periodic'\nnodes = { in = ['A'], apart = ['B'] }\n\
             [[traffic.message]]\nid = '0x100'\nnode = 'A'\nlength = 8\nperiod = '1ms'\n\
             [[traffic.message]]\nid = '0x200'\nnode = 'A'\nlength = 8\nperiod = '500us'\n\
             [[traffic.message]]\nid = '0x300'\nnode = 'A'\nlength = 8\nperiod = '2ms'\n\
             [[traffic.message]]\nid = '0x400'\nnode = 'B'\nlength = 1\nperiod = '2ms'\n";
        let (result, rows) = run_in(text, folder.path());
        check_counts(&result, &rows, others);
        let Counts { received, refused, lost, .. } = result.counts;
        assert!(received > 100 && lost > 100 && refused > 100, "{:?}", result.counts);
        let frames = |cause: &str| -> u64 {
            result.stopped.iter().filter(|it| it.cause == cause).map(|it| it.frames).sum()
        };
        assert!(frames(not_routed) > 100 && frames("no_gateway") > 100, "{:?}", result.stopped);
        assert_eq!(frames("rate") % 2, 0, "two copies of each");
        let is_refused = others.is_empty();
        let elsewhere = if is_refused { 0 } else { frames(not_routed) };
        assert_eq!(refused, frames("rate") / 2 + elsewhere, "{:?}", result.stopped);
    }
}

#[test]
fn an_unknown_interface_sends_nothing() {
    let (released, result) = replayed("interface = 'can7'");
    assert_eq!((released.len(), result.counts.sent), (0, 0));
}

#[test]
fn a_recording_with_a_broken_line_ends_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.log"), format!("{LOG}(1000.0500\n")).unwrap();
    let text =
        format!("{BUSES}gateway.delay = '35us'\ntraffic = {{ kind = 'replay', log = 'a.log' }}\n");
    let error = try_run(&experiment(&text, folder.path())).unwrap_err().to_string();
    assert!(error.contains("a.log:7:"), "{error}");
}

#[test]
fn can_fd_goes_over_can_fd_and_is_refused_by_classical_buses() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "bus = { in = 'can0', out = 'can1' }\n\
                 [[rule]]\nname = 'all'\nfrom = 'in'\nto = 'out'\nframes = 'any'\n";
    std::fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let classical =
        "bus.in = { bitrate = '500k', data_bitrate = '2M' }\nbus.out.bitrate = '500k'\n";
    for (buses, received, lost) in [(FD_BUSES, 100, 0), (classical, 0, 100)] {
        let text = format!(
            "count = 100\n{buses}gateway = {{ delay = '35us', rules = 'rules.toml' }}\n\
             traffic = {{ kind = 'one-at-a-time', length = 48 }}\n"
        );
        let (result, rows) = run_in(&text, folder.path());
        check_sums(&result, &rows, buses);
        assert_eq!((result.counts.received, result.counts.lost), (received, lost), "{buses}");
        let causes: Vec<_> =
            result.stopped.iter().map(|it| (it.cause.as_str(), it.frames)).collect();
        let expected = if lost > 0 { vec![("unsupported", lost)] } else { vec![] };
        assert_eq!(causes, expected, "{buses}");
    }
}

#[test]
fn periodic_messages_keep_their_periods() {
    let text = format!(
        "count = 350\n{BUSES}gateway.delay = '35us'\n\
         [traffic]\nkind = 'periodic'\nnodes = {{ in = ['A'], out = ['B'] }}\n\
         [[traffic.message]]\nid = '0x100'\nnode = 'A'\nperiod = '10ms'\noffset = '0us'\n\
         [[traffic.message]]\nid = '0x200'\nnode = 'A'\nperiod = '20ms'\noffset = '3ms'\n\
         [[traffic.message]]\nid = '0x300'\nnode = 'B'\nperiod = '5ms'\noffset = '0us'\njitter = '1ms'\n"
    );
    let (result, rows) = run(&text);
    assert_eq!(result.counts.sent, 350);
    // (identifier, offset, period, jitter) in us.
    let messages = [("100", 0, 10_000, 0), ("200", 3_000, 20_000, 0), ("300", 0, 5_000, 1_000)];
    let mut counts = Vec::new();
    for (id, offset, period, jitter) in messages {
        let mut releases: Vec<u64> = rows
            .iter()
            .filter(|row| row["sent"].starts_with(id))
            .map(|row| number(row, "queued_ns").unwrap())
            .collect();
        releases.sort_unstable();
        for (k, &at) in (0..).zip(&releases) {
            let due = (offset + k * period) * 1_000;
            assert!((due..=due + jitter * 1_000).contains(&at), "{id} release {k} at {at} ns");
        }
        counts.push(releases.len());
    }
    // In 1 s: 100, 50 and 200.
    for (count, expected) in counts.iter().zip([100_usize, 50, 200]) {
        assert!(count.abs_diff(expected) <= 1, "{counts:?}");
    }
}

#[test]
fn chains_over_virtual_buses_deliver_the_last_identifier() {
    for hops in [1, 2, 5, 8] {
        for virtual_buses in [1, 2] {
            let text = format!(
                "count = 20\n{BUSES}[gateway]\nprofile = 'mpc5200-2.6.33'\n\
                 generate = {{ hops = {hops}, virtual_buses = {virtual_buses} }}\n\
                 [traffic]\nkind = 'one-at-a-time'\nid = '0x123'\n"
            );
            let (result, rows) = run(&text);
            let case = format!("{hops} hops over {virtual_buses}");
            assert_eq!((result.counts.received, result.counts.lost), (20, 0), "{case}");
            let expected = format!("{:03X}#", 0x123 + hops);
            let forwarded: Vec<_> =
                rows.iter().filter(|row| row["outcome"] == "forwarded").collect();
            assert_eq!(forwarded.len(), 20, "{case}");
            for row in forwarded {
                assert!(row["received"].starts_with(&expected), "{case}: {row:?}");
            }
        }
    }
}

#[test]
fn a_wrong_bit_rate_is_reported() {
    // A bus of 500 kbit/s at 48 %: a frame of 112 bits every 464 us, 3 s long.
    let mut log = String::new();
    for number in 0..6_466_u64 {
        let micros = number * 464;
        let (seconds, micros) = (1_000 + micros / 1_000_000, micros % 1_000_000);
        log.push_str(&format!("({seconds}.{micros:06}) can0 123#1122334455667788\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.log"), log).unwrap();
    let notes = |bus: &str| {
        let text = format!(
            "bus.in = {bus}\nbus.out.bitrate = '1M'\ngateway.delay = '35us'\n\
             traffic = {{ kind = 'replay', log = 'a.log' }}\n"
        );
        let campaign =
            campaign::parse("t.toml", &text, folder.path(), &Options::default()).unwrap();
        let warnings = campaign.warnings.to_string();
        let (result, _) = try_run(&campaign.experiments[0]).unwrap();
        (warnings, result.notes)
    };
    assert_eq!(notes("{ bitrate = '500k' }"), (String::new(), Vec::new()));

    let (warnings, reported) = notes("{ bitrate = '125k' }");
    assert_eq!(warnings, "");
    let [note] = &reported[..] else { panic!("{reported:?}") };
    assert!(
        note.starts_with(
            "bus in at 125kbit/s is overloaded: its frames need 193 % of the time, \
             193 % in the busiest second; they waited up to "
        ),
        "{note}"
    );

    let (warnings, reported) = notes("{ bitrate = '500' }");
    let unusual =
        "a bit rate of 500 bit/s is not usual for CAN: CAN buses use 5 kbit/s to 1 Mbit/s";
    assert!(
        warnings.contains(unusual) && warnings.contains("did you mean \"500k\"?"),
        "{warnings}"
    );
    assert_eq!(reported[0], format!("bus in: {unusual}; did you mean 500k?"));
    assert!(reported[1].starts_with("bus in at 500bit/s is overloaded"), "{reported:?}");
}

#[test]
fn a_controller_that_went_bus_off_is_not_an_overloaded_bus() {
    let notes = |restart: &str| {
        let text = periodic(&[("A", "0x100", "1ms"), ("B", "0x200", "10ms")]).replace(
            "bus.in.bitrate = '1M'",
            &format!("bus.in = {{ bitrate = '1M', bit_error_rate = 1e-2{restart} }}"),
        );
        assert!(text.contains("1e-2"), "{text}");
        run(&text).0.notes
    };
    let off = notes("");
    let start = "bus in: the controller of node A went bus-off once and stayed off: ";
    assert!(off.iter().any(|note| note.starts_with(start)), "{off:?}");
    assert!(off.iter().any(|note| note.contains("set `restart` of the bus")), "{off:?}");
    assert!(!off.iter().any(|note| note.contains("overloaded")), "{off:?}");

    let back = notes(", restart = '20ms'");
    let is_told = |note: &String| {
        note.starts_with("bus in: the controller of node A went bus-off ")
            && note.contains("times and came back 20ms later or more, each time")
            && note.ends_with("; lower its `bit_error_rate`")
    };
    assert!(back.iter().any(is_told), "{back:?}");
    assert!(!back.iter().any(|note| note.contains("overloaded")), "{back:?}");
}

#[test]
fn a_result_says_whether_numbers_were_drawn() {
    let gateway = |rest: &str| format!("count = 20\n{BUSES}{rest}\n");
    let delay = "gateway.delay = '35us'\ntraffic.kind = 'one-at-a-time'";
    let nodes = |message: &str| {
        gateway(&format!(
            "gateway.delay = '35us'\n[traffic]\nkind = 'periodic'\nnodes = {{ in = ['A'], out = ['B'] }}\n\
             [[traffic.message]]\nid = 1\nnode = 'A'\nperiod = '1ms'\n{message}"
        ))
    };
    let offset = "offset = '0us'\n";
    for (text, is_random) in [
        (gateway(delay), false),
        (gateway(&delay.replace("one-at-a-time", "flood")), false),
        (gateway(&delay.replace("one-at-a-time", "open-loop")), true),
        (gateway(&delay.replace("delay = '35us'", "profile = 'mpc5200-2.6.33'")), true),
        (
            gateway(delay).replace(
                "bus.in.bitrate = '1M'",
                "bus.in = { bitrate = '1M', bit_error_rate = 1e-6 }",
            ),
            true,
        ),
        (nodes("length = 1\ndata = '00'\n"), true),
        (nodes(&format!("{offset}length = 1\ndata = '00'\n")), false),
        (nodes(&format!("{offset}length = 1\ndata = '00'\njitter = '10us'\n")), true),
        // Data that change have other stuff bits.
        (nodes(offset), true),
    ] {
        let (result, _) = run(&text);
        assert_eq!(result.random, is_random, "{text}");
        assert_eq!(result.to_json().contains("\"random\": true"), is_random);
    }
}

/// Two nodes with messages of these identifiers and periods on one bus.
fn periodic(messages: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "count = 1000\n{BUSES}gateway.delay = '35us'\n\
         [traffic]\nkind = 'periodic'\nnodes = {{ in = ['A', 'B'], out = ['C'] }}\n"
    );
    for (node, id, period) in messages {
        text.push_str(&format!(
            "[[traffic.message]]\nid = '{id}'\nnode = '{node}'\nperiod = '{period}'\noffset = '0us'\n"
        ));
    }
    text
}

#[test]
fn messages_that_fall_behind_are_reported() {
    // At 1 Mbit/s: 11 messages of about 115 us in a millisecond are too many, 8 are not.
    let ids: Vec<_> = (0..11).map(|number| format!("0x{:X}", 0x100 + number)).collect();
    for (count, is_reported) in [(8, false), (11, true)] {
        let messages: Vec<_> = ids[..count].iter().map(|id| ("A", id.as_str(), "1ms")).collect();
        let (result, _) = run(&periodic(&messages));
        assert_eq!(!result.notes.is_empty(), is_reported, "{:?}", result.notes);
        if is_reported {
            assert!(result.notes[0].contains("longer than they may"), "{:?}", result.notes);
        }
    }
}

#[test]
fn an_identifier_has_one_sender() {
    let text = periodic(&[("A", "0x100", "1ms"), ("B", "0x100", "1ms")]);
    let error = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`A` and `B` both send 0x100 on bus in"), "{error}");

    // On two buses it may have one each. Where the gateway brings one to the other, it shows: both
    // are ready when the bus becomes free.
    let text = periodic(&[("A", "0x100", "1ms"), ("C", "0x100", "1ms"), ("C", "0x0FF", "1ms")]);
    let (result, _) = run(&text);
    let out = |key| result.sections.numbers(&sections::BUSES, key)[1];
    assert!(out("id_collisions") > 0.0 && out("error_frames") > 0.0, "{:?}", result.sections);
    let note = format!(
        "bus out: {} times two nodes started a frame with the same identifier at the same time (first 0x100), which causes errors on a real bus; give every identifier one sender",
        out("id_collisions")
    );
    assert!(result.notes.contains(&note), "{:?}", result.notes);
}

#[test]
fn the_model_of_a_kernel_gateway_takes_the_rules_of_can_gw_only() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "bus = { in = 'can0', out = 'can1' }\n\
                 [[rule]]\nname = 'slow'\nfrom = 'in'\nto = 'out'\nmatch = ['0x123']\n\
                 rate = '10/s'\n";
    std::fs::write(folder.path().join("rules.toml"), rules).unwrap();
    let parse = |gateway: &str| {
        let text = format!(
            "count = 10\n{BUSES}gateway = {{ {gateway}, rules = 'rules.toml' }}\n\
             traffic.kind = 'flood'\n"
        );
        campaign::parse("t.toml", &text, folder.path(), &Options::default())
    };
    let kernel = "profile = 'mpc5200-2.6.33'";
    let error = parse(kernel).unwrap_err().to_string();
    assert!(error.contains("can-gw cannot run rule `slow`"), "{error}");
    assert!(error.contains("use kind = \"user\""), "{error}");
    for other in [&format!("{kernel}, kind = 'user'"), "delay = '35us'"] {
        let campaign = parse(other).unwrap();
        assert!(!campaign.experiments[0].conditions.contains("kernel"), "{other}");
    }

    let conditions = |gateway: &str| {
        let text = format!("{BUSES}gateway = {{ {kernel}, {gateway} }}\ntraffic.kind = 'flood'\n");
        experiment(&text, Path::new(".")).conditions
    };
    assert!(conditions("tx_queue = 5").contains("kernel gateway; no load"));
    assert!(conditions("egress = 'priority'").contains("kernel gateway with egress by priority;"));
    assert!(
        conditions("generate.hops = 30")
            .contains("kernel gateway, which lets frames pass 31 times;")
    );
}

/// Nothing would come back from it: every copy would be lost.
#[test]
fn a_gateway_of_constant_delay_has_no_virtual_bus() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[bus]\nin = \"can0\"\nloop = { port = \"vcan0\", virtual = true }\n\
                 [[rule]]\nfrom = \"in\"\nto = \"loop\"\n";
    std::fs::write(folder.path().join("r.toml"), rules).unwrap();
    let read = |gateway: &str| {
        let text = format!("{BUSES}gateway.rules = 'r.toml'\n{gateway}\ntraffic.kind = 'half'\n");
        campaign::parse("t.toml", &text, folder.path(), &Options::default())
    };
    let error = read("gateway.delay = '1us'").err().unwrap().to_string();
    assert!(error.contains("constant delay has no virtual buses, such as `loop`"), "{error}");
    assert!(error.contains("use gateway.profile instead"), "{error}");
    assert!(read("gateway.profile = 'mpc5200-2.6.33'").is_ok());
}
