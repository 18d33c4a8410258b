//! The checker of schedules against the simulation, over random networks: each computes from the same description,
//! and neither knows the other. First instants of the schedule, then clocks.

use candor_causes::Cause;
use candor_diagnostics::{Findings, Severity};
use candor_sim::Time;
use candor_sim::tte::{Observer, Record, World};
use candor_time::Nanos;
use candor_tte::check::check;
use candor_tte::file::parse_with_places;
use candor_tte::model::Framing;
use candor_tte::{Network, Role};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Switches of a scene at most, each with two end systems.
const SWITCHES: usize = 3;

/// A time-triggered flow.
#[derive(Clone, Debug)]
struct Flow {
    from: usize,
    to: usize,
    size: u16,
    /// How often its period is in the cycle.
    times: u64,
    send_ns: u64,
    relay_ns: u64,
    window_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Scene {
    switches: usize,
    cycle_us: u64,
    jitter_ns: u64,
    processing_ns: u64,
    is_queue: bool,
    /// Of an end system that sends in between, in percent.
    load: u32,
    flows: Vec<Flow>,
}

impl Scene {
    /// As a file.
    fn text(&self) -> String {
        let Self { switches, cycle_us, jitter_ns, processing_ns, is_queue, load, flows } = self;
        let buffer = if *is_queue { "queue" } else { "overwrite" };
        let mut text = format!("cycle = \"{cycle_us}us\"\nprecision = \"0us\"\n");
        for switch in 0..*switches {
            text += &format!(
                "switch.s{switch} = {{ processing = \"{processing_ns}ns\", buffer = \"{buffer}\" }}\n"
            );
            for side in 0..2 {
                let end = switch * 2 + side;
                text += &format!(
                    "end_system.e{end} = {{ jitter = \"{jitter_ns}ns\" }}\n\
                     link.e{end} = {{ between = [\"e{end}\", \"s{switch}\"], delay = \"{}ns\" }}\n",
                    end * 7
                );
            }
            if let Some(before) = switch.checked_sub(1) {
                text += &format!(
                    "link.s{switch} = {{ between = [\"s{before}\", \"s{switch}\"], delay = \"50ns\" }}\n"
                );
            }
        }
        for (index, flow) in flows.iter().enumerate() {
            let Flow { from, to, size, times, send_ns, relay_ns, window_ns } = flow;
            let period_ns = cycle_us * 1_000 / times;
            text += &format!(
                "[flow.f{index}]\nclass = \"tt\"\nid = {index}\nfrom = \"e{from}\"\nto = \"e{to}\"\nsize = {size}\n\
                 period = \"{period_ns}ns\"\nsend = \"{}ns\"\nrelay_delay = \"{relay_ns}ns\"\n",
                send_ns % period_ns
            );
            if let Some(window_ns) = window_ns {
                text += &format!("window = \"{window_ns}ns\"\n");
            }
        }
        if *load > 0 {
            text += &format!(
                "[flow.load]\nclass = \"be\"\nfrom = \"e0\"\nto = \"e{}\"\nsize = 400\nload = {load}\n",
                switches * 2 - 1
            );
        }
        text
    }
}

/// Flows over `switches` switches; their relay delays are around what is needed.
fn flows(switches: usize, count: usize) -> impl Strategy<Value = Vec<Flow>> {
    let ends = switches * 2;
    let flow = (
        (0..ends, 1..ends),
        prop_oneof![Just(64_u16), 65..=300_u16],
        prop::sample::select(vec![1_u64, 2, 3, 4, 6]),
        0..1_200_000_u64,
        prop_oneof![8 => 8_000..80_000_u64, 1 => 0..30_000_u64, 1 => 0..1_300_000_u64],
        prop_oneof![2 => Just(None), 1 => (0..12_000_u64).prop_map(Some)],
    );
    let flow =
        flow.prop_map(move |((from, further), size, times, send_ns, relay_ns, window_ns)| Flow {
            from,
            to: (from + further) % ends,
            size,
            times,
            send_ns,
            relay_ns,
            window_ns,
        });
    prop::collection::vec(flow, 1..=count)
}

fn scene(most_switches: usize, jitter: bool, load: bool) -> impl Strategy<Value = Scene> {
    let jitter_ns = if jitter { 0..8_001_u64 } else { 0..1 };
    let load = if load { 0..80_u32 } else { 0..1 };
    (1..=most_switches, jitter_ns, 0..6_000_u64, any::<bool>(), load).prop_flat_map(
        |(switches, jitter_ns, processing_ns, is_queue, load)| {
            flows(switches, 4).prop_map(move |flows| Scene {
                switches,
                cycle_us: 1_200,
                jitter_ns,
                processing_ns,
                is_queue,
                load,
                flows,
            })
        },
    )
}

/// The network of a scene, and the errors of its schedule.
fn checked(scene: &Scene) -> (Network, Findings) {
    let (network, findings) = parse_with_places("scene", &scene.text());
    let (network, places) = network.unwrap_or_else(|| panic!("{findings}"));
    check(&network, &places, &findings);
    (network, findings)
}

/// What became of the frames.
#[derive(Default)]
struct All(Vec<Record>);

impl Observer for All {
    fn record(&mut self, record: &Record) {
        self.0.push(*record);
    }
}

/// The first time-triggered frame that is lost, or was not sent or received when it was to be, over all seeds.
fn first_misfit(network: &Network, seeds: u64) -> Option<String> {
    for seed in 0..seeds {
        let mut all = All::default();
        World::new(network.clone(), seed).run(0, 12, &mut all);
        for record in &all.0 {
            let flow = &network.flows[record.flow];
            // Frames that are under way at the end.
            if !flow.is_time_triggered() || record.fate == Err(Cause::Unfinished) {
                continue;
            }
            let Role::EndSystem(sender) = network.nodes[flow.from].role else { continue };
            let half = i128::from(sender.jitter.as_nanos().div_ceil(2));
            let model = network.latency(record.flow, record.receiver, Framing::Frame)?;
            let Ok(received) = record.fate else { return Some(format!("seed {seed}: {record:?}")) };
            let after = |at: candor_sim::Time| {
                i128::from(at.as_nanos()) - i128::from(record.due.as_nanos())
            };
            let started = after(record.started?);
            let received = after(received) - i128::from(model.total().as_nanos());
            if started.abs() > half || received != 0 {
                return Some(format!("seed {seed}: {received} ns off: {record:?}"));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What the checker accepts works: no frame is lost, and each is received at the instant that the model says.
    #[test]
    fn accepted_schedules_work(scene in scene(SWITCHES, true, true)) {
        let (network, findings) = checked(&scene);
        prop_assume!(!findings.has_errors());
        let misfit = first_misfit(&network, 3);
        prop_assert!(misfit.is_none(), "{}\n{}", misfit.unwrap_or_default(), scene.text());
    }

    /// With one switch and no jitter, nothing hides what the checker refuses: exactly that goes wrong.
    #[test]
    fn refused_schedules_do_not_work(scene in scene(1, false, false)) {
        let (network, findings) = checked(&scene);
        let misfit = first_misfit(&network, 1);
        prop_assert_eq!(
            misfit.is_some(),
            findings.count(Severity::Error) > 0,
            "{:?}\n{}{}", misfit, findings, scene.text()
        );
    }
}

/// Clocks of a network, and the frames that keep them together.
#[derive(Clone, Debug)]
struct Clocks {
    /// By switch, in a line: its drift, how long it processes, and the speed and the delay of the link before it.
    switches: Vec<(i32, u64, usize, u64)>,
    /// By end system: at which switch, its drift, its random change, and the speed and the delay of its link.
    ends: Vec<(usize, i32, u32, usize, u64)>,
    /// Which switch relays frames as they come, and which one compresses.
    ordinary: Option<(usize, &'static str)>,
    compression_master: usize,
    masters: usize,
    faulty: usize,
    cycle_us: u64,
    /// Integration cycles in a cycle, or cycles in an integration cycle.
    period: (u64, bool),
    max_transmission_delay_us: Option<u64>,
    overhead_ns: u64,
    jitter_ns: u64,
    /// Of best-effort frames between the first and the last end system, in percent.
    load: u32,
}

/// Of links.
const SPEEDS: [&str; 4] = ["10M", "100M", "1G", "10G"];

impl Clocks {
    fn period_ns(&self) -> u64 {
        match self.period {
            (times, true) => self.cycle_us * 1_000 * times,
            (times, false) => self.cycle_us * 1_000 / times,
        }
    }

    /// As a file that states this precision.
    fn text(&self, precision_ns: u64) -> String {
        let mut text =
            format!("cycle = \"{}us\"\nprecision = \"{precision_ns}ns\"\n", self.cycle_us);
        for (index, (drift, processing, speed, delay)) in self.switches.iter().enumerate() {
            let relaying = match self.ordinary {
                Some((ordinary, relaying)) if ordinary == index => relaying,
                _ => "time-triggered",
            };
            text += &format!(
                "switch.s{index} = {{ drift = {drift}, processing = \"{processing}ns\", relaying = \"{relaying}\" }}\n"
            );
            if let Some(before) = index.checked_sub(1) {
                text += &format!(
                    "link.s{index} = {{ between = [\"s{before}\", \"s{index}\"], speed = \"{}\", delay = \"{delay}ns\" }}\n",
                    SPEEDS[*speed]
                );
            }
        }
        for (index, (switch, drift, change, speed, delay)) in self.ends.iter().enumerate() {
            text += &format!(
                "end_system.e{index} = {{ drift = {drift}, drift_change = {change}, jitter = \"{}ns\" }}\n\
                 link.e{index} = {{ between = [\"e{index}\", \"s{switch}\"], speed = \"{}\", delay = \"{delay}ns\" }}\n",
                self.jitter_ns, SPEEDS[*speed]
            );
        }
        let masters: Vec<_> = (0..self.masters).map(|it| format!("\"e{it}\"")).collect();
        text += &format!(
            "[synchronisation]\nperiod = \"{}ns\"\nmasters = [{}]\ncompression_master = \"s{}\"\nfaulty = {}\noverhead = \"{}ns\"\n",
            self.period_ns(),
            masters.join(", "),
            self.compression_master,
            self.faulty,
            self.overhead_ns
        );
        if let Some(most_us) = self.max_transmission_delay_us {
            text += &format!("max_transmission_delay = \"{most_us}us\"\n");
        }
        let last = self.ends.len() - 1;
        for (index, (from, to)) in [(0, last), (last, 0)].into_iter().enumerate() {
            let send_us = self.cycle_us * (1 + 2 * index as u64) / 5;
            // The shortest frame on the slowest link, processing, and half of the jitter.
            let relay_ns = 70_000 + self.jitter_ns + precision_ns;
            text += &format!(
                "[flow.f{index}]\nclass = \"tt\"\nid = {index}\nfrom = \"e{from}\"\nto = \"e{to}\"\nsend = \"{send_us}us\"\n\
                 relay_delay = \"{relay_ns}ns\"\nwindow = \"{}ns\"\n",
                2 * precision_ns + 2 * self.jitter_ns.div_ceil(2)
            );
        }
        if self.load > 0 {
            text += &format!(
                "[flow.load]\nclass = \"be\"\nfrom = \"e0\"\nto = \"e{last}\"\nsize = 900\nload = {}\n",
                self.load
            );
        }
        text
    }

    fn checked(&self, precision_ns: u64) -> Option<(Network, Findings)> {
        let (network, findings) = parse_with_places("clocks", &self.text(precision_ns));
        let (network, places) = network?;
        check(&network, &places, &findings);
        Some((network, findings))
    }

    fn is_accepted(&self, precision_ns: u64) -> bool {
        let is_sound = |findings: &Findings| {
            // A warning: then frames that correct clocks may not count.
            !findings.has_errors() && !findings.to_string().contains("`max_transmission_delay`")
        };
        self.checked(precision_ns).is_some_and(|(_, findings)| is_sound(&findings))
    }

    /// The least precision that the checker accepts.
    fn edge_ns(&self) -> Option<u64> {
        let most = (1..22).map(|it| 100_u64 << it).find(|&it| self.is_accepted(it))?;
        let (mut refused, mut accepted) = (most / 2, most);
        while accepted - refused > 1 {
            let middle = refused.midpoint(accepted);
            match self.is_accepted(middle) {
                true => accepted = middle,
                false => refused = middle,
            }
        }
        Some(accepted)
    }
}

/// Clocks at both extremes, broken ones and others; masters, switches, links, integration cycles of every kind.
fn clocks() -> impl Strategy<Value = Clocks> {
    let drift = || {
        prop_oneof![
            4 => prop::sample::select(vec![-100_i32, 100]),
            2 => -100..=100_i32,
            1 => prop::sample::select(vec![-1_000_i32, 1_000, -3_000, 3_000]),
        ]
    };
    let speed = || prop::sample::select(vec![0_usize, 1, 1, 1, 2, 3]);
    let relaying = prop::sample::select(vec!["store-and-forward", "cut-through"]);
    let switch = (drift(), 0..8_000_u64, speed(), 0..5_000_u64);
    let change = prop_oneof![6 => Just(0_u32), 1 => 1..200_u32];
    let end = (0..4_usize, drift(), change, speed(), 0..5_000_u64);
    (
        prop::collection::vec(switch, 1..4),
        prop::collection::vec(end, 2..8),
        (
            prop_oneof![5 => Just(None), 1 => (0..4_usize, relaying).prop_map(Some)],
            0..4_usize,
            1..8_usize,
            0..4_usize,
        ),
        prop::sample::select(vec![1_000_u64, 2_000, 3_000, 10_000, 30_000]),
        (1..4_u64, any::<bool>()),
        prop_oneof![4 => Just(None), 1 => (100..1_500_u64).prop_map(Some)],
        prop_oneof![3 => Just(400_u64), 1 => 0..20_000_u64],
        prop_oneof![3 => Just(0_u64), 1 => 0..4_000_u64],
        prop_oneof![1 => Just(0_u32), 1 => 1..60_u32],
    )
        .prop_map(
            |(
                switches,
                mut ends,
                (ordinary, center, masters, faulty),
                cycle_us,
                period,
                most,
                overhead_ns,
                jitter_ns,
                load,
            )| {
                let count = switches.len();
                ends.iter_mut().for_each(|end| end.0 %= count);
                if load > 0 {
                    // Of a faster link there would be many frames.
                    ends[0].3 = ends[0].3.min(1);
                }
                let compression_master = center % count;
                let masters = masters.min(ends.len());
                Clocks {
                    ordinary: ordinary.filter(|&(it, _)| it < count && it != compression_master),
                    switches,
                    ends,
                    compression_master,
                    masters,
                    faulty: faulty.min((masters - 1) / 2),
                    cycle_us,
                    period,
                    max_transmission_delay_us: most,
                    overhead_ns,
                    jitter_ns,
                    load,
                }
            },
        )
}

/// How clocks and frames fared.
#[derive(Default)]
struct Fared {
    difference_ns: u64,
    lost: Vec<Record>,
}

impl Observer for Fared {
    fn record(&mut self, record: &Record) {
        if record.flow < 2 && record.fate.is_err() && record.fate != Err(Cause::Unfinished) {
            self.lost.push(*record);
        }
    }

    fn precision(&mut self, _now: Time, difference: Nanos) {
        self.difference_ns = self.difference_ns.max(difference.as_nanos());
    }
}

fn fared(network: &Network, seed: u64) -> Fared {
    let mut fared = Fared::default();
    let synchronisation = network.synchronisation.as_ref().unwrap();
    let end = (synchronisation.period + network.cycle).as_nanos() * 12;
    World::new(network.clone(), seed).run_until(Time::from_nanos(end), &mut fared);
    fared
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// The least precision that the checker accepts is held from the first integration cycle on, and no frame is lost.
    #[test]
    fn accepted_precisions_hold(scene in clocks(), seed in 0..1_000_u64) {
        let Some(edge_ns) = scene.edge_ns() else { return Ok(()) };
        let Some((network, _)) = scene.checked(edge_ns) else { unreachable!("it is accepted") };
        let Fared { difference_ns, lost } = fared(&network, seed);
        prop_assert!(
            difference_ns <= edge_ns && lost.is_empty(),
            "clocks differ by {} ns, lost: {:?}\n{}", difference_ns, lost.first(), scene.text(edge_ns)
        );
    }
}

/// The bound is not generous, and a precision that refuses protocol control frames lets clocks run away. In percent of the least
/// precision that is accepted: the one that is stated, what clocks differ by, and in how many of 100 networks at least.
#[test]
fn refused_precisions_do_not_hold() {
    const STATED: [(u64, u64, usize); 3] = [(99, 99, 10), (90, 90, 50), (50, 500, 70)];
    let mut runner = TestRunner::deterministic();
    let mut networks = 0;
    let mut exceeded = [0; STATED.len()];
    while networks < 50 {
        let mut scene = clocks().new_tree(&mut runner).unwrap().current();
        // The longest queue of an ordinary switch, and random drift at its bound, are too rare to be met.
        scene.ordinary = None;
        scene.ends.iter_mut().for_each(|end| end.2 = 0);
        let Some(edge_ns) = scene.edge_ns() else { continue };
        networks += 1;
        for ((percent, apart, _), count) in STATED.iter().zip(&mut exceeded) {
            let precision_ns = edge_ns * percent / 100;
            let (network, findings) = scene.checked(precision_ns).unwrap();
            assert!(findings.has_errors(), "{percent} %\n{}", scene.text(precision_ns));
            *count += usize::from(fared(&network, 1).difference_ns > edge_ns * apart / 100);
        }
    }
    println!("of {networks} networks: {exceeded:?} for {STATED:?}");
    for ((percent, _, least), count) in STATED.into_iter().zip(exceeded) {
        assert!(count * 100 >= least * networks, "{count} of {networks} at {percent} %");
    }
}
