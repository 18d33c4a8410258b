//! Time-triggered Ethernet in virtual time, against sums by hand.

use candor_causes::Cause;
use candor_sim::tte::{Observer, Record, World};
use candor_tte::model::Framing;
use candor_tte::{Network, file};

/// Keeps everything.
#[derive(Default)]
struct All(Vec<Record>);

impl Observer for All {
    fn record(&mut self, record: &Record) {
        self.0.push(*record);
    }
}

impl All {
    /// What became of the frames of a flow at a receiver.
    fn of(&self, flow: usize, receiver: usize) -> Vec<&Record> {
        self.0.iter().filter(|it| (it.flow, it.receiver) == (flow, receiver)).collect()
    }
}

/// From the first bit out to the last bit in.
fn latency_ns(record: &Record) -> Option<u64> {
    Some((record.fate.ok()? - record.started?).as_nanos())
}

fn network(text: &str) -> Network {
    let (network, findings) = file::parse("test.tte.toml", text);
    network.unwrap_or_else(|| panic!("{findings}"))
}

/// The paper's bed: end systems 0 and 1, and 2 for other traffic; the switch is node 3.
fn bed(sender: &str, switch: &str, flow: &str) -> Network {
    network(&format!(
        r#"
        cycle = "3ms"
        end_system = {{ sender = {{ {sender} }}, receiver = {{}}, other = {{}} }}
        switch.switch = {{ {switch} }}
        link.in = {{ between = ["sender", "switch"], delay = "2ns" }}
        link.out = {{ between = ["switch", "receiver"], delay = "3ns" }}
        link.other = {{ between = ["other", "switch"], delay = "3ns" }}
        flow.measured = {{ class = "tt", id = 1, from = "sender", to = "receiver", {flow} }}
        "#
    ))
}

fn run(network: &Network, seed: u64, count: u64) -> All {
    let mut all = All::default();
    assert!(World::new(network.clone(), seed).run(0, count, &mut all));
    all
}

#[test]
fn without_jitter_the_latency_is_equation_3() {
    for size in [64, 128, 256, 512, 1_024, 1_280, 1_518] {
        let flow = format!("size = {size}, send = \"800us\", relay_delay = \"350us\"");
        let network = bed("", "", &flow);
        let model = network.latency(0, 1, Framing::Frame).unwrap();
        let all = run(&network, 1, 100);
        assert_eq!(all.0.len(), 100);
        for record in &all.0 {
            assert_eq!(latency_ns(record), Some(model.equation_3().as_nanos()), "{size}");
            assert_eq!(record.started, Some(record.due));
        }
    }
}

#[test]
fn with_jitter_the_latency_is_within_it_and_the_arrival_is_exact() {
    let network =
        bed("jitter = \"10us\"", "", "size = 64, send = \"800us\", relay_delay = \"350us\"");
    let all = run(&network, 7, 1_000);
    let latencies: Vec<_> = all.0.iter().filter_map(latency_ns).collect();
    assert_eq!(latencies.len(), 1_000);
    assert!(latencies.iter().all(|&it| (350_125..=360_125).contains(&it)));
    assert!(latencies.iter().min().unwrap() < &350_500);
    assert!(latencies.iter().max().unwrap() > &359_700);
    let arrivals = all.0.iter().map(|it| (it.fate.unwrap() - it.due).as_nanos());
    assert!(arrivals.into_iter().all(|it| it == 355_125));
}

#[test]
fn a_late_frame_waits_a_cycle_and_may_be_overwritten() {
    // Complete 15.76 us behind its instant at the latest, 5.76 us at the earliest, and 10 us more in the switch.
    for (delay_us, buffer, is_lost, is_late) in [
        (26, "overwrite", false, false),
        (20, "overwrite", true, true),
        (20, "queue", false, true),
        (10, "overwrite", false, true),
    ] {
        let network = bed(
            "jitter = \"10us\"",
            &format!("processing = \"10us\", buffer = \"{buffer}\""),
            &format!("size = 64, send = \"800us\", relay_delay = \"{delay_us}us\""),
        );
        let all = run(&network, 3, 500);
        assert_eq!(all.0.len(), 500);
        let late = all.0.iter().filter_map(latency_ns).filter(|&it| it > 2_000_000).count();
        let lost = all.0.iter().filter(|it| it.fate == Err(Cause::Overwritten)).count();
        assert_eq!((lost > 0, late > 0), (is_lost, is_late), "{delay_us} {buffer}: {lost} {late}");
        let others =
            all.0.iter().filter(|it| it.fate.is_err() && it.fate != Err(Cause::Overwritten));
        assert_eq!(others.count(), 0, "{delay_us} {buffer}");
        if delay_us == 10 {
            assert_eq!(late, 500, "always the next cycle");
        }
    }
}

#[test]
fn windows_drop_what_comes_outside() {
    let network = bed(
        "jitter = \"10us\"",
        "",
        "size = 64, send = \"800us\", relay_delay = \"350us\", window = \"5us\"",
    );
    let all = run(&network, 3, 1_000);
    let dropped = all.0.iter().filter(|it| it.fate == Err(Cause::OutsideWindow)).count();
    assert!((400..600).contains(&dropped), "half of them: {dropped}");
}

/// Best-effort frames from `other`, in the way of the measured ones.
fn with_load(mut network: Network, percent: u32) -> Network {
    let text = format!(
        r#"
        cycle = "3ms"
        end_system = {{ sender = {{}}, receiver = {{}}, other = {{}} }}
        switch.switch = {{}}
        link.in = {{ between = ["sender", "switch"] }}
        link.out = {{ between = ["switch", "receiver"] }}
        link.other = {{ between = ["other", "switch"] }}
        flow.load = {{ class = "be", from = "other", to = "receiver", size = 1518, load = {percent} }}
        "#
    );
    let (load, findings) = file::parse("load.tte.toml", &text);
    network.flows.extend(load.unwrap_or_else(|| panic!("{findings}")).flows);
    network
}

#[test]
fn best_effort_frames_are_in_nobodys_way_but_in_an_ordinary_switch() {
    for percent in [10, 50, 100] {
        let flow = "size = 64, send = \"800us\", relay_delay = \"25us\"";
        let all = run(&with_load(bed("", "", flow), percent), 5, 300);
        let latencies: Vec<_> = all.of(0, 1).into_iter().filter_map(latency_ns).collect();
        assert_eq!(latencies, [30_125; 300], "{percent} %");

        let switch = "relaying = \"store-and-forward\", processing = \"2us\"";
        let all = run(&with_load(bed("", switch, flow), percent), 5, 300);
        let latencies: Vec<_> = all.of(0, 1).into_iter().filter_map(latency_ns).collect();
        let (least, most) = (latencies.iter().min().unwrap(), latencies.iter().max().unwrap());
        // Two transmissions, the preamble before the second, wires, processing.
        let alone = 5_120 + 5_120 + 640 + 5 + 2_000;
        if percent < 100 {
            assert_eq!(*least, alone, "{percent} %");
        }
        // One full frame with its preamble and its gap is in the way at most, if nothing queues up.
        assert!(*most > alone + 60_000, "{percent} %: {most}");
        if percent == 10 {
            assert!(*most <= alone + 123_040, "{percent} %: {most}");
        }
    }
}

#[test]
fn timely_block_leaves_the_link_free_and_loses_no_more_than_it_must() {
    let flow = "size = 64, send = \"800us\", relay_delay = \"25us\"";
    let network = with_load(bed("", "", flow), 50);
    let all = run(&network, 5, 300);
    let other = all.of(1, 1);
    let arrived = other.iter().filter(|it| it.fate.is_ok()).count();
    assert!(other.len() > 3_000);
    // At half load what is held back gets through.
    assert_eq!(other.iter().filter(|it| it.fate == Err(Cause::QueueFull)).count(), 0);
    assert!(arrived + 2 >= other.len(), "{arrived} of {}", other.len());
}

#[test]
fn a_cut_through_switch_delays_from_first_bit_to_first_bit() {
    for (size, latency) in [(64, 9_005 + 5_120), (1_518, 9_005 + 121_440)] {
        let switch = "relaying = \"cut-through\", processing = \"9us\"";
        let network = bed("", switch, &format!("size = {size}, send = \"800us\""));
        let all = run(&network, 1, 10);
        // The preamble leaves before the first bit: 640 ns more.
        assert!(all.0.iter().all(|it| latency_ns(it) == Some(latency + 640)), "{:?}", all.0[0]);
    }
}

#[test]
fn rate_constrained_frames_that_come_too_soon_are_dropped() {
    let text = r#"
        cycle = "3ms"
        end_system = { a = {}, b = {}, c = {} }
        switch = { one = {}, two = {} }
        link.in = { between = ["a", "one"] }
        link.load = { between = ["c", "one"] }
        link.between = { between = ["one", "two"] }
        link.out = { between = ["two", "b"] }
        flow.first = { class = "rc", id = 2, from = "a", to = "b", size = 64, gap = "1ms" }
        flow.own = { class = "be", from = "a", to = "b", size = 1518, load = 30 }
        flow.load = { class = "be", from = "c", to = "b", size = 1518, load = 30 }
    "#;
    // The sender keeps the gap on its link. The first switch does not, and the second one drops what comes too soon,
    // unless that may be so soon: waiting behind a best-effort frame moves frames by one of these on each link.
    for (jitter, is_dropped) in [("0us", true), ("100us", true), ("248us", false)] {
        let text = text.replace("gap = \"1ms\"", &format!("gap = \"1ms\", jitter = \"{jitter}\""));
        let all = run(&network(&text), 9, 2_000);
        let dropped = all.of(0, 1).iter().filter(|it| it.fate == Err(Cause::TooSoon)).count();
        assert_eq!(dropped > 0, is_dropped, "{jitter}: {dropped}");
    }
}

#[test]
fn one_seed_gives_one_result() {
    let flow = "size = 64, send = \"800us\", relay_delay = \"25us\"";
    let network = with_load(bed("jitter = \"10us\"", "processing = \"5us\"", flow), 70);
    let [first, again, other] = [1, 1, 2].map(|seed| run(&network, seed, 100).0);
    assert_eq!(first, again);
    assert_ne!(first, other);
}
