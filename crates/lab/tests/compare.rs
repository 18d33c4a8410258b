//! Two runs compared: which figures count, what is only shown, and what has no partner; and one kernel after the other.

use std::collections::BTreeMap;
use std::path::Path;

use candor_causes::Cause;
use candor_lab::campaign::{self, Options};
use candor_lab::compare::{
    Allowance, Comparison, CountChange, Figure, Side, Trend, Verdict, compare, keep,
};
use candor_lab::experiment::Run;
use candor_lab::history::{History, KernelLine, history};
use candor_lab::result::{Figures, Machine, PROFILE_SCHEMA, ProfileFile, ResultFile, Stopped};
use candor_lab::runner::Runner;
use candor_lab::sections::{EFFORT, MACHINE};
use candor_lab::simulate::{self, Simulation};
use candor_lab::{report, run};
use candor_lat::Metric;
use candor_lat::section::Row;
use candor_vm::{Boot, Function, Profile};

const EXPERIMENT: &str = "\
name = 'one'
count = 10
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.delay = '35us'
traffic.kind = 'one-at-a-time'
";

fn machine(kernel: &str) -> Machine {
    Machine {
        kernel: kernel.into(),
        release: format!("{kernel}-test"),
        package: None,
        kernel_sha256: format!("sha of {kernel}"),
        guest_sha256: "22".into(),
        qemu: "7.2.22".into(),
        qemu_sha256: "33".into(),
        plugin_sha256: "44".into(),
        bus: candor_vm::BusTime::Instant,
        timed_bus_sha256: None,
        boot: Boot::FIRST,
        flags: Vec::new(),
        shift: 1,
        mips: 500,
    }
}

/// Says that a result is of this machine.
fn on(result: &mut ResultFile, machine: &Machine) {
    let row = serde_json::from_value(serde_json::to_value(machine).unwrap()).unwrap();
    result.sections = std::mem::take(&mut result.sections).with_one(&MACHINE, row);
}

fn simulated(name: &str, kernel: &str, latencies: [i64; 3]) -> ResultFile {
    ResultFile { testbed: "sim".into(), ..result(name, kernel, latencies) }
}

/// A machine's results of one experiment, a boot each: how many frames have which latency, in rising order.
fn booted(kernel: &str, boots: &[&[(i64, u64)]]) -> Vec<ResultFile> {
    let one = |(boot, latencies): (u64, &&[(i64, u64)])| {
        let count: u64 = latencies.iter().map(|(_, count)| count).sum();
        let longer = latencies.iter().scan(count, |left, &(ns, of_it)| {
            let at_least = *left;
            *left -= of_it;
            Some((ns, at_least))
        });
        let sum: i64 = latencies.iter().map(|&(ns, of_it)| ns * of_it as i64).sum();
        let mut result = result("one", kernel, [latencies[0].0, 0, 0]);
        on(&mut result, &Machine { boot: Boot::of_seed(boot, 100), ..machine(kernel) });
        result.seed = boot;
        result.experiment = format!("one-seed-{boot}");
        result.group = Some("one".into());
        let figures = result.metrics.get_mut("gateway_latency").unwrap();
        (figures.count, figures.mean_ns) = (count, sum as f64 / count as f64);
        figures.profile = longer.collect();
        result
    };
    (1..).zip(boots).map(one).collect()
}

/// A result of a machine with those latencies at `min`, `p50`, and as the largest one.
fn result(name: &str, kernel: &str, [min, p50, max]: [i64; 3]) -> ResultFile {
    let campaign = campaign::parse("t.toml", EXPERIMENT, Path::new("."), &Options::default());
    let experiment = &campaign.unwrap().experiments[0];
    let mut result =
        simulate::run(Run { command: "again".into(), ..Run::unwatched(experiment) }).unwrap();
    result.experiment = name.into();
    result.testbed = "vm".into();
    on(&mut result, &machine(kernel));
    result.config = format!("name = '{name}'\nload.kind = 'none'\nvm.kernel = '{kernel}'\n");
    for figures in result.metrics.values_mut() {
        let figures: &mut Figures = figures;
        (figures.min_ns, figures.p50_ns, figures.max_ns) = (min, p50, max);
        figures.p99_ns = max;
    }
    result
}

/// The same experiment under load with several seeds; `longest` has an entry for each.
fn loaded(kernel: &str, longest: &[i64]) -> Vec<ResultFile> {
    let one = |(seed, &max): (u64, &i64)| {
        let mut result = result("busy", kernel, [15_000, 16_000, max]);
        result.group = Some("busy".into());
        result.experiment = format!("busy-seed-{seed}");
        result.seed = seed;
        result.config = result.config.replace("'none'", "'cpu'");
        result
    };
    (1..).zip(longest).map(one).collect()
}

fn side(results: Vec<ResultFile>) -> Side {
    Side { results, profiles: Vec::new() }
}

fn figure<'a>(comparison: &'a Comparison, name: &str) -> &'a Figure {
    comparison.figures.iter().find(|figure| figure.figure == name).unwrap()
}

#[test]
fn a_simulation_is_compared_to_the_nanosecond() {
    let before = side(vec![simulated("one", "a", [15_000, 16_000, 40_000])]);
    let mut changed = simulated("one", "b", [15_000, 16_001, 90_000]);
    changed.counts.lost = 2;
    let after = side(vec![changed]);
    let comparison = compare(&before, &after);
    assert_eq!(comparison.pairs, 1);
    assert_eq!(figure(&comparison, "min").verdict, Verdict::Same);
    let p50 = figure(&comparison, "p50");
    assert_eq!(p50.verdict, Verdict::Slower);
    assert_eq!((p50.difference(), p50.difference_instructions()), (1.0, None));
    assert!((p50.difference_percent().unwrap() - 0.00625).abs() < 1e-9);
    assert_eq!(figure(&comparison, "lost").difference(), 2.0);
    // The largest latency is one draw: it is no figure, however large the difference.
    assert!(comparison.figures.iter().all(|figure| figure.figure != "max"));
    assert_eq!(comparison.count(Verdict::Slower), 2);

    let back = compare(&after, &before);
    assert_eq!(back.not_allowed(Allowance::default()).count(), 0, "faster is allowed");
    let same = compare(&before, &before);
    assert_eq!(same.count(Verdict::Same), same.figures.len());
    assert!(same.changed.is_empty() && !same.figures.is_empty());
}

/// Two paths, the median between them, as can-gw has on Linux 6.12: so many of 1,000 frames take the longer one.
fn two_paths(longer: u64, by_ns: i64) -> [(i64, u64); 4] {
    let short = 900 - longer;
    [(8_030 + by_ns, short - 10), (8_050 + by_ns, 10), (9_180 + by_ns, longer), (12_000, 100)]
}

/// Six boots of a kernel whose frames take so much longer, moved by a few instructions.
fn six_boots(kernel: &str, longer: [u64; 6], by_ns: i64) -> Side {
    let boots = [0, 4, 0, 8, 8, 4];
    let all: Vec<_> =
        longer.iter().zip(boots).map(|(&many, step)| two_paths(many, by_ns + step)).collect();
    side(booted(kernel, &all.iter().map(<[_; 4]>::as_slice).collect::<Vec<_>>()))
}

/// As many as boots of one kernel differ.
const USUAL: [u64; 6] = [495, 500, 505, 510, 490, 502];
/// Others, whose median frame takes the other path.
const OTHERS: [u64; 6] = [440, 445, 448, 436, 449, 444];

#[test]
fn a_median_between_two_paths_is_no_difference() {
    let comparison = compare(&six_boots("a", USUAL, 0), &six_boots("a", USUAL.map(|it| it - 8), 0));
    let verdicts: Vec<_> = comparison.figures.iter().map(|it| (it.figure, it.verdict)).collect();
    let same = ["min", "mean", "path", "path", "path"].map(|name| (name, Verdict::Same));
    assert_eq!(verdicts, same);
    let shares: Vec<_> = comparison
        .figures
        .iter()
        .filter_map(|it| it.shares.map(|[a, b]| b.median - a.median))
        .collect();
    assert_eq!(shares.len(), 3);
    assert!((shares[1] + 0.8).abs() < 1e-9, "{shares:?}");
}

/// More frames on the longer path than any boot has: no path is longer, and the mean is.
#[test]
fn other_paths_of_more_frames_move_the_mean() {
    let comparison =
        compare(&six_boots("a", OTHERS, 0), &six_boots("b", USUAL.map(|it| it + 200), 0));
    for figure in &comparison.figures {
        let expected = if figure.figure == "mean" { Verdict::Slower } else { Verdict::Same };
        assert_eq!(figure.verdict, expected, "{figure:?}");
    }
}

#[test]
fn a_longer_path_is_slower_if_boots_do_not_explain_it() {
    for (by_ns, verdict) in [
        (0, Verdict::Same),
        // Boots move it by 8 ns, and 20 are ten instructions.
        (20, Verdict::Same),
        (40, Verdict::Slower),
        (-40, Verdict::Faster),
        (200, Verdict::Slower),
        // As long as the other path was.
        (1_150, Verdict::Slower),
        (2_000, Verdict::Slower),
        (-1_150, Verdict::Faster),
    ] {
        let after = six_boots("b", USUAL, by_ns);
        let comparison = compare(&six_boots("a", USUAL, 0), &after);
        let paths: Vec<_> = comparison.figures.iter().filter(|it| it.figure == "path").collect();
        // The frames that meet a timer are not longer, and are no other path.
        let long = paths.iter().filter(|it| it.before.median < 12_000.0);
        for path in long.clone() {
            assert_eq!(path.verdict, verdict, "{by_ns}: {path:?}");
            let expected = (by_ns as f64, Some(by_ns as f64 / 2.0));
            assert_eq!((path.difference(), path.difference_instructions()), expected);
        }
        assert_eq!(long.count(), 2, "{by_ns}: {paths:?}");
        let is_slower = comparison.not_allowed(Allowance::default()).next().is_some();
        assert_eq!(is_slower, verdict == Verdict::Slower, "{by_ns}");
    }
}

#[test]
fn too_few_boots_have_no_verdict() {
    let few = |side: &Side, boots: usize| Side {
        results: side.results[..boots].to_vec(),
        ..Side::default()
    };
    let (before, mut after) = (six_boots("a", USUAL, 0), six_boots("b", USUAL, 2_000));
    after.results.iter_mut().for_each(|result| result.counts.lost = 1);
    for (boots, is_told) in [(1, false), (4, false), (5, true), (6, true)] {
        let comparison = compare(&before, &few(&after, boots));
        for figure in &comparison.figures {
            let expected = match figure.figure {
                // Frames that meet a timer.
                "path" if figure.before.median == 12_000.0 && is_told => Verdict::Same,
                _ if is_told => Verdict::Slower,
                _ => Verdict::TooFewBoots,
            };
            assert_eq!(figure.verdict, expected, "{boots}: {figure:?}");
        }
    }
    // Several seeds of one boot are one boot.
    let of_one = |mut side: Side| {
        side.results.iter_mut().for_each(|result| on(result, &machine("a")));
        side
    };
    let comparison = compare(&of_one(before), &after);
    assert!(comparison.figures.iter().all(|it| it.verdict == Verdict::TooFewBoots));
}

#[test]
fn machines_of_two_speeds_have_no_difference_in_instructions() {
    let before = six_boots("a", USUAL, 0);
    let with_speed = |shift: u8, mips: u32| {
        let mut side = six_boots("a", USUAL, 2_000);
        for (boot, result) in (1..).zip(&mut side.results) {
            on(result, &Machine { boot: Boot::of_seed(boot, 100), shift, mips, ..machine("a") });
        }
        side
    };
    for (after, expected) in [(with_speed(1, 500), Some(1_000.0)), (with_speed(0, 1_000), None)] {
        let comparison = compare(&before, &after);
        let min = comparison.figures.iter().find(|it| it.figure == "min").unwrap();
        assert_eq!((min.difference(), min.difference_instructions()), (2_000.0, expected));
    }
}

#[test]
fn what_is_lost_is_judged_over_boots_whatever_their_seeds() {
    let losing = |of_boots: &[u64], first_seed: u64| {
        let mut side = six_boots("a", USUAL, 0);
        side.results.truncate(of_boots.len());
        for (at, (result, &lost)) in side.results.iter_mut().zip(of_boots).enumerate() {
            result.counts.lost = lost;
            result.seed = first_seed + at as u64;
        }
        side
    };
    let (same, more, fewer) = (Verdict::Same, Verdict::Slower, Verdict::Faster);
    for (before, after, expected, swapped) in [
        // Which frames meet a full queue is an accident of the boot.
        (&[248, 246, 248, 248, 248][..], &[247, 247, 248, 247, 248][..], same, same),
        (&[310, 306, 310, 310, 308], &[310, 311, 310, 309, 308], same, same),
        (&[0, 0, 0, 0, 0], &[0, 0, 1, 0, 0], same, same),
        (&[0, 0, 0, 0, 0], &[35, 35, 35, 35, 35], more, fewer),
        (&[0, 0, 0, 0, 0], &[35, 30, 33, 36, 35], more, fewer),
        (&[40, 41, 40, 42, 40], &[20, 21, 22, 20, 21], fewer, more),
        // With too few boots, only what is equal everywhere.
        (&[7, 7], &[7, 7, 7, 7, 7], same, same),
        (&[7, 7], &[8, 8, 8, 8, 8], Verdict::TooFewBoots, Verdict::TooFewBoots),
    ] {
        for first_seed in [1, 6] {
            let [a, b] = [losing(before, 1), losing(after, first_seed)];
            for (comparison, expected) in [(compare(&a, &b), expected), (compare(&b, &a), swapped)]
            {
                let lost = comparison.figures.iter().find(|it| it.figure == "lost").unwrap();
                assert_eq!(lost.verdict, expected, "{before:?} {after:?} {first_seed}");
            }
        }
    }
    let none = compare(&losing(&[0; 5], 1), &losing(&[0; 5], 6));
    assert!(none.figures.iter().all(|it| it.figure != "lost"));
}

/// Round trips of a simulated bus of this bit rate.
fn round_trips(bitrate: &str) -> ResultFile {
    let text =
        format!("name = 'trips'\nkind = 'ping'\ncount = 20\nbus.desk.bitrate = '{bitrate}'\n");
    let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
    let experiment = &campaign.unwrap().experiments[0];
    let run = Run { command: "again".into(), ..Run::unwatched(experiment) };
    Simulation.run(run, true).unwrap().result
}

#[test]
fn round_trips_are_exact_in_sim_and_need_boots_in_a_guest() {
    let [fast, slow] = ["1M", "125k"].map(round_trips);
    let comparison = compare(&side(vec![fast.clone()]), &side(vec![slow.clone()]));
    for name in ["min", "p50"] {
        let figure = figure(&comparison, name);
        assert_eq!(figure.verdict, Verdict::Slower, "{name}");
        assert_eq!(figure.metric, Some(Metric::RoundTrip), "{name}");
    }
    assert!(comparison.ranges.is_empty(), "what is exact is no range");

    let in_guest = |result: ResultFile| side(vec![ResultFile { testbed: "vm".into(), ..result }]);
    let comparison = compare(&in_guest(fast), &in_guest(slow));
    for figure in &comparison.figures {
        assert_eq!(figure.verdict, Verdict::TooFewBoots, "{figure:?}");
        assert_eq!(figure.metric, Some(Metric::RoundTrip), "{figure:?}");
    }
    assert!(!comparison.figures.is_empty());
}

#[test]
fn an_allowance_is_for_each_figure() {
    let before = side(vec![simulated("one", "a", [15_000, 16_000, 0])]);
    let after = side(vec![simulated("one", "b", [15_014, 16_160, 0])]);
    let comparison = compare(&before, &after);
    for (allowance, not_allowed) in
        [("0%", 2), ("0.5%", 1), ("1%", 0), ("14ns", 1), ("13ns", 2), ("0.16us", 0)]
    {
        let allowance: Allowance = allowance.parse().unwrap();
        assert_eq!(comparison.not_allowed(allowance).count(), not_allowed, "{allowance}");
    }
}

#[test]
fn instructions_per_frame_count_where_they_are_known() {
    let with = |kernel: &str, instructions: f64| {
        let mut side = six_boots(kernel, USUAL, 0);
        for (result, more) in side.results.iter_mut().zip([0.0, 8.5, 3.0, 20.0, 1.0, 9.0]) {
            let effort = Row::from([("gateway_instructions".into(), (instructions + more).into())]);
            result.sections = std::mem::take(&mut result.sections).with_one(&EFFORT, effort);
        }
        side
    };
    let comparison = compare(&with("a", 9_000.0), &with("b", 9_050.0));
    let instructions = figure(&comparison, "instructions");
    assert_eq!(instructions.difference_instructions(), Some(50.0));
    assert_eq!(instructions.verdict, Verdict::Slower);
    assert!(!instructions.is_allowed("99ns".parse().unwrap()));
    assert!(instructions.is_allowed("100ns".parse().unwrap()));
    // Timer interrupts are among them, and hit more or less often.
    let comparison = compare(&with("a", 9_000.0), &with("b", 9_020.0));
    assert_eq!(figure(&comparison, "instructions").verdict, Verdict::Same);
}

#[test]
fn under_load_there_are_ranges_and_no_verdict() {
    for (before, after, trend) in [
        (&[508_000, 21_000, 10_800][..], &[527_000, 509_000, 11_000][..], Trend::Overlap),
        (&[21_000, 10_800, 22_000], &[527_000, 509_000, 508_000], Trend::Higher),
        (&[527_000, 509_000, 508_000], &[21_000, 10_800, 22_000], Trend::Lower),
        (&[21_000], &[527_000], Trend::TooFewSeeds),
        (&[21_000, 22_000, 23_000], &[527_000, 528_000], Trend::TooFewSeeds),
    ] {
        let comparison = compare(&side(loaded("a", before)), &side(loaded("b", after)));
        let max = comparison.ranges.iter().find(|range| range.figure == "max").unwrap();
        assert_eq!(max.trend, trend, "{before:?} {after:?}");
        assert_eq!((max.before.count, max.after.count), (before.len(), after.len()));
        assert!(comparison.figures.is_empty(), "nothing under load is exact");
        assert_eq!(max.metric.map(candor_lat::Metric::key), Some("end_to_end"));
    }
}

#[test]
fn of_several_seeds_the_largest_increase_counts() {
    let seeds = |kernel: &str, medians: &[i64]| {
        let one = |(seed, &p50): (u64, &i64)| {
            let mut result = simulated("one", kernel, [1_000, p50, 9_000]);
            result.group = Some("one".into());
            result.seed = seed;
            result
        };
        side((1..).zip(medians).map(one).collect())
    };
    let comparison = compare(&seeds("a", &[100, 100, 100]), &seeds("b", &[100, 130, 60]));
    let p50 = figure(&comparison, "p50");
    assert_eq!((p50.seed, p50.difference()), (Some(2), 30.0));

    let mut other = seeds("b", &[100]);
    other.results[0].seed = 9;
    let comparison = compare(&seeds("a", &[100]), &other);
    assert!(comparison.figures.is_empty());
    assert!(comparison.notes[0].contains("different seeds"), "{:?}", comparison.notes);
}

#[test]
fn what_has_no_partner_and_what_disturbs_is_said() {
    let mut other_qemu = result("one", "b", [1, 2, 3]);
    let (qemu, package) = ("8.2.0".into(), Some("linux-image 6.12".into()));
    let other = Machine { qemu, qemu_sha256: "34".into(), package, ..machine("b") };
    on(&mut other_qemu, &other);
    let before = side(vec![result("one", "a", [1, 2, 3]), result("two", "a", [1, 2, 3])]);
    let mut lone = result("three", "b", [1, 2, 3]);
    lone.config.push_str("count = 7\n");
    on(&mut lone, &other);
    let comparison = compare(&before, &side(vec![other_qemu, lone]));
    assert_eq!(comparison.only_before, ["two"]);
    assert_eq!(comparison.only_after, ["three"]);
    let changed: BTreeMap<_, _> =
        comparison.changed.iter().map(|c| (c.setting.as_str(), c.after.as_str())).collect();
    assert_eq!(changed.get("vm.kernel"), Some(&"\"b\""));
    assert_eq!(changed.get("kernel"), Some(&"b-test"));
    assert!(
        comparison.figures.is_empty() && !comparison.ranges.is_empty(),
        "another QEMU gives ranges alone"
    );
    for part in ["QEMU is 7.2.22 before and 8.2.0 after", "configurations differ"] {
        assert!(comparison.notes.iter().any(|note| note.contains(part)), "{part}");
    }
}

#[test]
fn one_folder_is_cut_by_a_setting() {
    let both = side(vec![simulated("one", "a", [1, 2, 3]), simulated("one", "b", [1, 5, 3])]);
    let comparison = compare(&both.with("vm.kernel", "a"), &both.with("vm.kernel", "b"));
    assert_eq!(comparison.pairs, 1);
    assert_eq!(figure(&comparison, "p50").difference(), 3.0);
    assert!(both.with("vm.kernel", "c").results.is_empty());
}

/// The instructions of an experiment `one` for so many frames.
fn profile(kernel: &str, frames: u64, functions: &[(&str, u64)]) -> ProfileFile {
    let count = |&(name, instructions): &(&str, u64)| Function {
        name: name.into(),
        place: "kernel".into(),
        instructions,
    };
    ProfileFile {
        schema: PROFILE_SCHEMA.into(),
        experiment: "one".into(),
        group: None,
        candor: "0.1.0".into(),
        machine: machine(kernel),
        seed: 1,
        config: format!("count = 10\nvm.kernel = '{kernel}'\n"),
        frames,
        profile: Profile {
            instructions: functions.iter().map(|(_, count)| count).sum(),
            functions: functions.iter().map(count).collect(),
        },
    }
}

/// Debian 12 counts on in its package where the release does not; the kernels of Debian 13 are a line of their own.
#[test]
fn each_release_is_held_against_the_one_before_in_its_line() {
    let of = |release: &str, version: &str| Machine {
        release: release.into(),
        package: Some(format!("linux-image-{release} {version}")),
        ..machine(release)
    };
    let machines = [
        (of("6.12.10+deb13-amd64", "6.12.10-1"), 2_500),
        (of("6.1.0-9-amd64", "6.1.37-1"), 1_900),
        (of("6.12.9+deb13-amd64", "6.12.9-1"), 2_000),
        (of("6.1.0-10-amd64", "6.1.27-1"), 1_900),
        (of("6.12.10+deb13-rt-amd64", "6.12.10-1"), 9_000),
    ];
    let mut all = Side::default();
    for (machine, p50) in &machines {
        let release = &machine.release;
        let name = format!("can-debian-{}", release.replace('+', "-"));
        for seed in 1..=5 {
            let mut result = result(&name, release, [1_000, *p50, 10_000]);
            on(&mut result, &Machine { boot: Boot::of_seed(seed, 5), ..machine.clone() });
            let figures = result.metrics.get_mut("gateway_latency").unwrap();
            (figures.mean_ns, figures.profile) = (*p50 as f64, vec![(*p50, figures.count)]);
            result.seed = seed;
            (result.group, result.experiment) = (Some(name.clone()), format!("{name}-seed-{seed}"));
            result.axes.insert("vm.kernel".into(), format!("debian:{release}"));
            // From two folders, and asked for by its series: it counts once.
            all.results.extend([result.clone(), result.clone()]);
            result.group = Some("can-6.12".into());
            result.axes.insert("vm.kernel".into(), "6.12".into());
            all.results.push(result);
        }
    }
    // 7 instructions per frame more; a timer that hit 3 of 100 frames.
    for (at, functions) in
        [(2, [("can_rcv", 10_000), ("tick", 900)]), (0, [("can_rcv", 10_700), ("tick", 1_251)])]
    {
        let (machine, _) = &machines[at];
        let release = &machine.release;
        let experiment = format!("can-debian-{}", release.replace('+', "-"));
        let config =
            format!("name = '{experiment}'\nload.kind = 'none'\nvm.kernel = '{release}'\n");
        for seed in 1..=5 {
            let mut counted = profile(release, 100, &functions);
            // The timer hits other frames on each boot.
            counted.profile.functions[1].instructions += seed * 100;
            all.profiles.push(ProfileFile {
                experiment: format!("{experiment}-seed-{seed}"),
                group: Some(experiment.clone()),
                machine: Machine { boot: Boot::of_seed(seed, 5), ..machine.clone() },
                config: config.clone(),
                ..counted
            });
        }
    }
    let History { points, mixed, too_few_boots } = history(&all);
    assert!(mixed.is_empty() && too_few_boots.is_empty(), "{mixed:?} {too_few_boots:?}");
    let releases: Vec<_> = points.iter().map(|it| it.release.as_str()).collect();
    let deb12 = ["6.1.0-10-amd64", "6.1.0-9-amd64"];
    let deb13 = ["6.12.9+deb13-amd64", "6.12.10+deb13-amd64", "6.12.10+deb13-rt-amd64"];
    assert_eq!(releases, [&deb12[..], &deb13].concat());
    assert!(points.iter().all(|it| it.experiment == "can" && it.p50_ns.unwrap().count == 5));
    let changed: Vec<_> = points.iter().filter(|point| !point.changes.is_empty()).collect();
    let [point] = changed[..] else { panic!("one changed: {points:?}") };
    assert_eq!(point.line, KernelLine { debian: "deb13".into(), is_rt: false });
    let [mean, change] = &point.changes[..] else { panic!("{point:?}") };
    assert_eq!((mean.figure, mean.before, mean.after), ("mean", 2_000.0, 2_500.0));
    assert_eq!((change.figure, change.before, change.after), ("path", 2_000.0, 2_500.0));
    assert_eq!(change.since, "6.12.9+deb13-amd64");
    let functions: Vec<_> =
        change.functions.iter().map(|it| (it.function.as_str(), it.difference())).collect();
    assert_eq!(functions, [("can_rcv", 7.0)]);

    // The report shows the same; the only one with PREEMPT_RT is no history.
    let dir = tempfile::tempdir().unwrap();
    run::prepare(dir.path()).unwrap();
    for result in all.results.iter().step_by(3) {
        let path = run::results_of(dir.path()).join(format!("{}.json", result.experiment));
        std::fs::write(path, serde_json::to_vec(result).unwrap()).unwrap();
    }
    all.profiles.iter().for_each(|profile| drop(keep(dir.path(), profile).unwrap()));
    report::write(dir.path(), report::Besides::default()).unwrap();
    let data = std::fs::read_to_string(dir.path().join("report/data.js")).unwrap();
    let expected = concat!(
        r#""past":[{"experiment":"can","built_by":"deb12","releases":[{"release":"6.1.0-10-amd64","#,
        r#""p50_ns":[1900.0,1900.0],"p999_ns":[35000.0,35000.0],"instructions":null,"lost":0,"changes":[]},"#
    );
    assert!(data.contains(expected), "{data}");
    let change =
        r#"{"figure":"path","before":2000.0,"after":2500.0,"functions":[["can_rcv",7.0]]}]}]}],"#;
    assert!(data.contains(change), "{data}");
}

#[test]
fn a_history_leaves_out_what_ran_with_other_settings() {
    let run = |release: &str, config: &str, machine: &Machine| {
        let mut result = result(&format!("can-{release}"), release, [1_000, 2_000, 10_000]);
        result.axes.insert("vm.kernel".into(), release.into());
        result.config += config;
        let machine = Machine { release: release.into(), ..machine.clone() };
        on(&mut result, &machine);
        result
    };
    let usual = machine("6.12");
    let mips = Machine { mips: 1_000, ..usual.clone() };
    let qemu = Machine { qemu: "10.0.2".into(), ..usual.clone() };
    for (config, other, setting, values) in [
        ("count = 9\n", &usual, "count", ["", "9"]),
        ("", &mips, "vm.mips", ["500", "1000"]),
        ("", &qemu, "QEMU", ["7.2.22 33", "10.0.2 33"]),
        ("title = 'x'\nper_frame = true\n", &usual, "", ["", ""]),
    ] {
        let results = vec![run("6.1", "", &usual), run("6.12", config, other)];
        let History { points, mixed, too_few_boots } =
            history(&Side { results, profiles: Vec::new() });
        // One boot each: that nothing changed is not said.
        assert_eq!(too_few_boots.contains("can"), setting.is_empty());
        let told: Vec<_> =
            mixed.iter().map(|it| (&*it.setting, it.values.each_ref().map(|it| &**it))).collect();
        let expected = if setting.is_empty() { vec![] } else { vec![(setting, values)] };
        assert_eq!(told, expected);
        assert_eq!(points.len(), if setting.is_empty() { 2 } else { 0 }, "{setting}");
    }
}

#[test]
fn functions_are_reported_with_the_largest_difference_first() {
    let old = profile("a", 10, &[("can_rcv", 1_000), ("skb_clone", 500), ("kfree", 70)]);
    let new = profile(
        "b",
        10,
        &[("can_rcv.isra.0", 900), ("can_rcv.cold", 170), ("skb_clone", 500), ("mine", 40)],
    );
    let profiled = |profile| Side { results: Vec::new(), profiles: vec![profile] };
    let comparison = compare(&profiled(old), &profiled(new));
    let reported: Vec<_> =
        comparison.functions.iter().map(|c| (c.function.as_str(), c.difference())).collect();
    assert_eq!(reported, [("(all)", 4.0), ("can_rcv", 7.0), ("kfree", -7.0), ("mine", 4.0)]);
    let sum: f64 = comparison.functions[1..].iter().map(|change| change.difference()).sum();
    assert_eq!(sum, 4.0);
    let told = comparison.functions.iter().all(|it| it.verdict == Verdict::TooFewBoots);
    assert!(told && comparison.figures.is_empty());
}

#[test]
fn functions_that_boots_explain_are_left_out() {
    let of = |kernel: &str, rcv: u64| {
        let one = |(boot, tick): (u64, u64)| {
            let mut counted =
                profile(kernel, 100, &[("can_rcv", rcv), ("tick", 700 + tick), ("kfree", 900)]);
            counted.machine.boot = Boot::of_seed(boot, 100);
            counted.group = Some("one".into());
            counted.experiment = format!("one-seed-{boot}");
            counted
        };
        let profiles = (1..).zip([0, 90, 300, 20, 150]).map(one).collect();
        Side { results: Vec::new(), profiles }
    };
    let comparison = compare(&of("a", 10_000), &of("b", 12_000));
    let reported: Vec<_> = comparison
        .functions
        .iter()
        .map(|it| (it.function.as_str(), it.difference(), it.verdict))
        .collect();
    assert_eq!(reported, [("(all)", 20.0, Verdict::Slower), ("can_rcv", 20.0, Verdict::Slower)]);
    assert_eq!(comparison.functions[0].experiment, "one");
    // Of five boots, one in four thousand pairs of equal kernels would differ in such a way; half an instruction is none.
    let comparison = compare(&of("a", 10_000), &of("a", 10_050));
    let reported: Vec<_> =
        comparison.functions.iter().map(|it| (it.function.as_str(), it.verdict)).collect();
    assert_eq!(reported, [("(all)", Verdict::Same)]);
}

#[test]
fn a_folder_without_results_may_have_counts_and_a_broken_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Side::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("candor lab run FILE --out DIR"), "{error}");
    let profiles = candor_lab::compare::profiles_of(folder.path());
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("a.json"), "{}").unwrap();
    let error = Side::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("a.json") && error.contains("candor lab profile"), "{error}");
}

#[test]
fn figures_that_are_gone_and_other_counts_are_told() {
    let before = simulated("one", "6.12", [1_000, 2_000, 3_000]);
    let mut after = before.clone();
    after.metrics.clear();
    after.counts.received -= 2;
    after.counts.refused += 2;
    let side = |result: &ResultFile| Side { results: vec![result.clone()], ..Side::default() };
    let comparison = compare(&side(&before), &side(&after));
    let gone = ["min", "p50"]
        .map(|figure| format!("one: only the side before has gateway_latency {figure}"));
    assert_eq!(comparison.gone, gone);
    let rows: Vec<_> =
        comparison.counts.iter().map(|it| (it.count, it.seed, it.difference())).collect();
    assert_eq!(rows, [("received", Some(1), -2), ("refused", Some(1), 2)]);
    // What is new is no loss.
    let comparison = compare(&side(&after), &side(&before));
    assert!(comparison.gone.is_empty() && comparison.notes.is_empty(), "{comparison:?}");
    assert_eq!(comparison.counts.len(), 2);
}

#[test]
fn frames_are_counted_by_ending_and_cause_where_they_differ() {
    let before = simulated("one", "6.12", [1_000, 2_000, 3_000]);
    let mut after = before.clone();
    after.counts.received -= 3;
    after.counts.lost += 3;
    after.counts.late = 1;
    after.stopped = vec![
        Stopped::new("rule", "r", Cause::QueueFull, 2),
        Stopped::new("rule", "s", Cause::QueueFull, 1),
        Stopped::new("rule", "r", Cause::Rate, 4),
    ];
    let rows = |comparison: &Comparison| -> Vec<_> {
        let row = |it: &CountChange| (it.count, it.cause.clone(), it.before, it.after);
        comparison.counts.iter().map(row).collect()
    };
    let counts = before.counts;
    let comparison = compare(&side(vec![before.clone()]), &side(vec![after]));
    let expected = [
        ("received", None, counts.received, counts.received - 3),
        ("refused", Some("rate".into()), 0, 4),
        ("lost", None, 0, 3),
        ("lost", Some("queue_full".into()), 0, 3),
        ("late", None, 0, 1),
    ];
    assert_eq!(rows(&comparison), expected);
    assert!(compare(&side(vec![before.clone()]), &side(vec![before])).counts.is_empty());

    // Of chance, all seeds together, if there are as many on both sides.
    let old = loaded("6.12", &[1, 2, 3]);
    let mut new = old.clone();
    new[1].counts.lost += 2;
    let comparison = compare(&side(old.clone()), &side(new.clone()));
    let [count] = &comparison.counts[..] else { panic!("{:?}", comparison.counts) };
    assert_eq!((count.count, count.seed, count.difference()), ("lost", None, 2));
    assert!(compare(&side(old), &side(new[..2].to_vec())).counts.is_empty());
}
