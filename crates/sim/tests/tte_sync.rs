//! Clocks that drift, and protocol control frames that keep them together, against bounds by hand.

use candor_causes::Cause;
use candor_sim::Time;
use candor_sim::tte::{Observer, Record, World};
use candor_time::Nanos;
use candor_tte::model::Framing;
use candor_tte::{Network, file};

/// The file of the example.
const FIVE_NODES: &str = include_str!("../../../examples/five-nodes.tte.toml");
/// From the slowest clock of the example to the fastest, in parts per million.
const SPREAD_PPM: u64 = 200;

/// Keeps everything.
#[derive(Debug, Default)]
struct All {
    records: Vec<Record>,
    differences: Vec<u64>,
}

impl Observer for All {
    fn record(&mut self, record: &Record) {
        self.records.push(*record);
    }

    fn precision(&mut self, _now: Time, difference: Nanos) {
        self.differences.push(difference.as_nanos());
    }
}

impl All {
    fn of(&self, flow: usize) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |it| it.flow == flow)
    }

    /// From the first bit out to the last bit in, of those that arrived.
    fn latencies(&self, flow: usize) -> Vec<u64> {
        let latency = |it: &Record| Some((it.fate.ok()? - it.started?).as_nanos());
        self.of(flow).filter_map(latency).collect()
    }

    fn stopped(&self, flow: usize, cause: Cause) -> usize {
        self.of(flow).filter(|it| it.fate == Err(cause)).count()
    }
}

fn network(text: &str) -> Network {
    let (network, findings) = file::parse("test.tte.toml", text);
    network.unwrap_or_else(|| panic!("{findings}"))
}

/// What a file says against the example with one text in place of another.
fn refused(from: &str, to: &str) -> String {
    assert!(FIVE_NODES.contains(from), "{from}");
    let (network, findings) = file::parse("test.tte.toml", &FIVE_NODES.replacen(from, to, 1));
    assert!(network.is_none(), "{to}");
    findings.to_string()
}

fn run(network: &Network, seed: u64, count: u64) -> (All, World) {
    let mut all = All::default();
    let mut world = World::new(network.clone(), seed);
    assert!(world.run(0, count, &mut all));
    (all, world)
}

fn free_running(text: &str) -> String {
    text.replace("[synchronisation]\n", "[synchronisation]\nenabled = false\n")
}

/// How far clocks with these drifts are apart at most between two corrections, in nanoseconds.
///
/// At the instant at which the frame of the compression master is permanent all clocks agree, but for what they
/// measured wrong until then: they waited for `2 mtd + cmd` at most, each at its own rate. Until the correction
/// behind the next such frame they run apart. Rounding: a nanosecond for each reading of a clock, of the
/// transparent clock at each of two hops and of the instants of the agenda.
fn bound_ns(network: &Network, spread_ppm: u64) -> u64 {
    let synchronisation = network.synchronisation.as_ref().unwrap();
    let timing = synchronisation.timing;
    let period_ns = synchronisation.period.as_nanos();
    let scheduled = timing.scheduled_receive(0);
    let apart = period_ns + scheduled + (timing.correction_at(scheduled) - scheduled);
    (apart * spread_ppm).div_ceil(1_000_000) + 8
}

#[test]
fn synchronised_clocks_stay_together_and_frames_on_time() {
    let network = network(FIVE_NODES);
    let bound = bound_ns(&network, SPREAD_PPM);
    for seed in 1..=3 {
        let (all, world) = run(&network, seed, 2_000);
        assert!(all.differences.len() > 1_990, "{}", all.differences.len());
        let most = *all.differences.iter().max().unwrap();
        let least = *all.differences.iter().min().unwrap();
        println!("difference {least}..{most} ns, bound {bound} ns");
        assert!(most <= bound, "{most} > {bound}");
        // In a period the slowest and the fastest do run apart.
        assert!(least >= 3_000_000 * SPREAD_PPM / 1_000_000 / 2, "{least}");
        for flow in [0, 1] {
            let to = network.flows[flow].to[0];
            let model = network.latency(flow, to, Framing::Frame).unwrap().total().as_nanos();
            let latencies = all.latencies(flow);
            println!(
                "flow {flow}: {:?}..{:?} ns, model {model} ns",
                latencies.iter().min(),
                latencies.iter().max()
            );
            assert_eq!(latencies.len(), all.of(flow).count(), "none is lost");
            assert!(latencies.iter().all(|it| it.abs_diff(model) <= bound), "flow {flow}");
        }
        // The clocks do not run on at a rate of their own: within those of the masters.
        let ahead = world.clock(0).ahead_ns(world.now());
        let most_ns = (world.now() - Time::ZERO).as_nanos() / 10_000;
        assert!(ahead.unsigned_abs() < most_ns, "{ahead}");
    }
}

/// A clock that showed nothing yet would hold the first frames until it does.
#[test]
fn clocks_begin_ahead_and_the_first_frames_correct_them() {
    let network = network(&FIVE_NODES.replace("precision = \"10us\"", "precision = \"300us\""));
    for seed in 1..=20 {
        let mut all = All::default();
        let mut world = World::new(network.clone(), seed);
        let ahead = |world: &World, at: Time| {
            (0..network.nodes.len()).map(|node| world.clock(node).ahead_ns(at)).collect::<Vec<_>>()
        };
        let first = ahead(&world, Time::ZERO);
        assert!(first.iter().all(|it| (0..=150_000).contains(it)), "{seed}: {first:?}");
        world.run_until(Time::from_nanos(6_000_000), &mut all);
        // All are corrected in the first integration cycle.
        assert!(all.differences[0] <= bound_ns(&network, SPREAD_PPM), "{seed}: {all:?}");
    }
}

#[test]
fn clocks_that_are_corrected_rarely_differ_more() {
    let network = network(&FIVE_NODES.replace("period = \"3ms\"", "period = \"30ms\""));
    let bound = bound_ns(&network, SPREAD_PPM);
    let (all, _) = run(&network, 1, 2_000);
    let most = *all.differences.iter().max().unwrap();
    println!("difference up to {most} ns, bound {bound} ns");
    assert!((5_500..=bound).contains(&most), "{most}");
    assert!((198..=200).contains(&all.differences.len()), "{}", all.differences.len());
    assert_eq!(all.latencies(0).len(), 2_000);
}

#[test]
fn without_synchronisation_clocks_run_apart_until_frames_are_refused() {
    let network = network(&free_running(FIVE_NODES));
    assert_eq!(network.synchronisation, None);
    let (all, _) = run(&network, 1, 1_000);
    // 200 ppm of 3 ms, cycle by cycle.
    for (number, difference) in all.differences.iter().enumerate() {
        let expected = (number as u64 + 2) * 600;
        assert!(difference.abs_diff(expected) <= 1, "{number}: {difference}");
    }
    // From 100 ppm slow to 20 ppm fast, and half of the window is 10 us: 27 cycles. The clock of the
    // receiver is 80 ppm away from that of the switch.
    let arrived = all.latencies(0).len();
    assert!((26..=28).contains(&arrived), "{arrived}");
    assert_eq!(all.stopped(0, Cause::OutsideWindow), 1_000 - arrived);
}

#[test]
fn without_windows_either_frames_miss_their_instant() {
    let text = free_running(FIVE_NODES).replace("window = \"20us\"", "");
    let network = network(&text);
    let (all, _) = run(&network, 1, 1_000);
    let model = network.latency(0, network.flows[0].to[0], Framing::Frame).unwrap().total();
    let latencies = all.latencies(0);
    let overwritten = all.stopped(0, Cause::Overwritten);
    println!(
        "{:?}..{:?}, {overwritten} overwritten",
        latencies.iter().min(),
        latencies.iter().max()
    );
    // The sender falls back by 360 ns in each cycle; what it lacks of the relay delay is gone behind 90 of them.
    assert!(latencies[0].abs_diff(model.as_nanos()) < 1_000, "{}", latencies[0]);
    assert!(latencies[50] < model.as_nanos() - 15_000, "{}", latencies[50]);
    assert!(latencies.iter().any(|&it| it > 2_900_000), "with the next cycle");
}

#[test]
fn the_rate_of_a_clock_that_wanders_is_followed() {
    let text = FIVE_NODES.replace("drift = 10 }", "drift = 10, drift_change = 20 }");
    let network = network(&text);
    // Random change leads to 200 ppm at most: 300 ppm from the slowest.
    let bound = bound_ns(&network, 300);
    let (all, _) = run(&network, 5, 2_000);
    assert!(all.differences.iter().all(|&it| it <= bound));
    assert_eq!(all.latencies(0).len(), 2_000);
    let (again, _) = run(&network, 5, 2_000);
    assert_eq!(all.records, again.records);
    assert_eq!(all.differences, again.differences);
}

#[test]
fn a_master_with_a_grossly_wrong_clock_does_not_pull_the_others() {
    for drift in [-10_000_i32, -1_500, 1_500, 10_000] {
        let network = network(&FIVE_NODES.replace("drift = 40", &format!("drift = {drift}")));
        let bound = bound_ns(&network, SPREAD_PPM);
        let (all, world) = run(&network, 2, 2_000);
        let four = network.node("four").unwrap();
        let others = || (0..network.nodes.len()).filter(|&node| node != four);
        let ahead = |node: usize| world.clock(node).ahead_ns(world.now());
        let (least, most) =
            (others().map(ahead).min().unwrap(), others().map(ahead).max().unwrap());
        println!("{drift}: others {least}..{most} ns, the faulty one {} ns", ahead(four));
        assert!(most.abs_diff(least) <= bound, "{drift}: {least} {most}");
        if drift.abs() > 5_000 {
            assert!(ahead(four).abs_diff(least) > 1_000_000, "{drift}: {}", ahead(four));
        }
        assert_eq!(all.latencies(0).len(), 2_000, "{drift}");
    }
}

#[test]
fn a_babbling_idiot_is_stopped_at_the_switch() {
    let calm = network(FIVE_NODES);
    let (calm, _) = run(&calm, 4, 1_000);
    // Its frames come anywhere within a millisecond, and it is no master.
    let text = FIVE_NODES
        .replace("four = { drift = 40 }", "four = { drift = 40, jitter = \"1ms\" }")
        .replace(", \"four\", ", ", ");
    let idiot = network(&text);
    let (all, _) = run(&idiot, 4, 1_000);
    let refused = all.stopped(1, Cause::OutsideWindow);
    println!("{refused} of {} refused", all.of(1).count());
    // The window is a 50th of what it uses.
    assert!(refused > all.of(1).count() * 95 / 100);
    assert_eq!(all.latencies(0).len(), 1_000);
    let (least, most) = (calm.latencies(0).into_iter().min(), calm.latencies(0).into_iter().max());
    let others = all.latencies(0);
    let bound = bound_ns(&idiot, SPREAD_PPM);
    assert!(others.iter().all(|&it| it + bound >= least.unwrap() && it <= most.unwrap() + bound));
}

#[test]
fn control_frames_pass_two_switches_and_count_what_they_waited() {
    // Best-effort frames are in the way of the masters and behind the first switch.
    let text = r#"
        cycle = "3ms"
        precision = "5us"
        end_system = { a = { drift = -90 }, b = { drift = 30 }, c = { drift = 90 }, d = { drift = -20 } }
        switch.left = { drift = 60, processing = "3us" }
        switch.right = { drift = -70, processing = "3us" }
        link.a = { between = ["a", "left"], delay = "100ns" }
        link.b = { between = ["b", "left"], delay = "300ns" }
        link.c = { between = ["c", "right"], delay = "100ns" }
        link.d = { between = ["d", "right"], delay = "700ns" }
        link.trunk = { between = ["left", "right"], delay = "500ns" }
        synchronisation = { period = "1ms", masters = ["a", "b", "c"], compression_master = "right", faulty = 1 }
        flow.measured = { class = "tt", id = 1, from = "a", to = "d", send = "900us", relay_delay = "30us", window = "10us" }
        flow.one = { class = "be", from = "a", to = "d", size = 1518, load = 40 }
        flow.two = { class = "be", from = "b", to = "d", size = 700, load = 40 }
        flow.three = { class = "be", from = "d", to = "b", size = 1518, load = 60 }
    "#;
    let network = network(text);
    let bound = bound_ns(&network, 180);
    let (all, _) = run(&network, 1, 2_000);
    let most = all.differences.iter().max().unwrap();
    println!("difference up to {most} ns, bound {bound} ns");
    assert!(*most <= bound);
    assert_eq!(all.latencies(0).len(), 2_000);
    // Three times in a cycle.
    assert!(all.differences.len() > 5_990, "{}", all.differences.len());
}

#[test]
fn a_control_frame_that_took_longer_than_is_possible_corrects_nothing() {
    // Over a link each takes 5.81 us at least: 64 bytes, the preamble, and 50 ns.
    for (most, is_together) in [("1us", false), ("5.8us", false), ("100us", true)] {
        let faulty = format!("faulty = 1\nmax_transmission_delay = \"{most}\"\n");
        let network = network(&FIVE_NODES.replacen("faulty = 1", &faulty, 1));
        let mut world = World::new(network.clone(), 1);
        let end = Time::from_nanos(1_000_000_000);
        world.run_until(end, &mut All::default());
        let ahead: Vec<_> = (0..5).map(|node| world.clock(node).ahead_ns(end)).collect();
        let apart = ahead.iter().max().unwrap() - ahead.iter().min().unwrap();
        // In a second, clocks that nobody corrects are apart by their drift.
        let drifted = 1_000_000_000 * SPREAD_PPM / 1_000_000;
        assert_eq!(apart.unsigned_abs() < drifted / 2, is_together, "{most}: {ahead:?}");
    }
}

#[test]
fn files_say_what_is_wrong_with_a_synchronisation() {
    for (from, to, part) in [
        ("period = \"3ms\"", "period = \"2ms\"", "neither a whole part nor a multiple"),
        ("period = \"3ms\"", "period = \"100us\"", "until all clocks are corrected"),
        ("faulty = 1", "faulty = 3", "cannot bear 3 faulty ones"),
        ("\"five\"]", "\"one\"]", "named twice"),
        ("\"five\"]", "\"switch\"]", "masters are end systems"),
        ("\"five\"]", "\"fife\"]", "did you mean `five`?"),
        (
            "compression_master = \"switch\"",
            "compression_master = \"one\"",
            "no time-triggered switch",
        ),
        ("drift = -100", "drift = -100000", "drift"),
    ] {
        let said = refused(from, to);
        assert!(said.contains(part), "{to}: {said}");
    }
}

/// A best-effort frame that is held back before an instant stays so when the clock is corrected.
#[test]
fn corrections_let_no_frame_out_that_is_in_the_way() {
    const NETWORK: &str = r#"
        cycle = "3ms"
        precision = "2us"
        end_system = { a = {}, b = {}, c = {} }
        switch = { s0 = { processing = "2us" }, s1 = { processing = "2us" } }
        link.la = { between = ["a", "s0"], delay = "100ns" }
        link.lb = { between = ["b", "s0"], delay = "50ns" }
        link.lc = { between = ["c", "s1"] }
        link.t = { between = ["s0", "s1"], delay = "500ns" }
        synchronisation = { period = "1ms", masters = ["a", "b", "c"], compression_master = "s1" }
        flow.tt = { class = "tt", id = 1, from = "b", to = "c", send = "800us", relay_delay = "20us" }
        flow.other = { class = "tt", id = 2, from = "a", to = "c", size = 500, period = "1ms", send = "400us", relay_delay = "60us" }
        flow.be = { class = "be", from = "a", to = "c", size = 1518, load = 60 }
    "#;
    /// When frames of the first flow leave each node, behind when they were due.
    #[derive(Default)]
    struct Departures(Vec<(usize, u64)>);
    impl Observer for Departures {
        fn record(&mut self, record: &Record) {
            assert!(record.flow != 0 || record.fate.is_ok(), "{record:?}");
        }
        fn transmits(&mut self, it: &candor_sim::tte::Transmission) {
            if it.flow == 0 {
                self.0.push((it.from, (it.at - it.due).as_nanos()));
            }
        }
    }
    // Instants around the correction in the second of three integration cycles.
    for send_us in (700..900).step_by(20) {
        let text = NETWORK.replace("800us", &format!("{send_us}us"));
        let network = network(&text);
        let mut departures = Departures::default();
        World::new(network.clone(), 1).run_until(Time::from_nanos(300_000_000), &mut departures);
        assert!(departures.0.len() > 200);
        for (node, behind_ns) in departures.0 {
            let hop = network.flows[0].hops.iter().find(|hop| hop.from == node).unwrap();
            let wanted_ns = (hop.at - network.flows[0].hops[0].at).as_nanos();
            // Corrections of less than the precision.
            assert!(
                behind_ns.abs_diff(wanted_ns) < 2_000,
                "{send_us}: {node} {behind_ns} {wanted_ns}"
            );
        }
    }
}
