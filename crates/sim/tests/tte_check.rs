//! The checker of schedules against the simulation, over random networks: each computes from the same description,
//! and neither knows the other.

use candor_causes::Cause;
use candor_diagnostics::{Findings, Severity};
use candor_sim::tte::{Observer, Record, World};
use candor_tte::check::check;
use candor_tte::file::parse_with_places;
use candor_tte::model::Framing;
use candor_tte::{Network, Role};
use proptest::prelude::*;

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
