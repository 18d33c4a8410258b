//! Claims held against results.

use std::path::Path;

use candor_lab::Error;
use candor_lab::campaign::{self, Campaign, Options};
use candor_lab::claims::{Agreement, Basis};
use candor_lab::experiment::Run;
use candor_lab::result::{Counts, Figures, ResultFile};
use candor_lab::sections::EFFORT;
use candor_lab::simulate;
use candor_lat::section::{Row, Sections};

const EXPERIMENT: &str = "\
name = 'one'
count = 10
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.delay = '35us'
traffic.kind = 'one-at-a-time'
";

/// More experiments, of which there may be results.
fn campaign(claims: &str) -> Result<Campaign, Error> {
    let others = "[[experiment]]\nname = 'one'\n[[experiment]]\nname = 'two'\n[[experiment]]\nname = 'three'\n";
    let text = format!("{EXPERIMENT}{others}{claims}");
    campaign::parse("t.toml", &text, Path::new("."), &Options::default())
}

/// Results of the experiments `one` and `two` with figures that are easy to reckon with.
fn results() -> Vec<ResultFile> {
    let campaign =
        campaign::parse("t.toml", EXPERIMENT, Path::new("."), &Options::default()).unwrap();
    let one =
        simulate::run(Run { command: "again".into(), ..Run::unwatched(&campaign.experiments[0]) })
            .unwrap();
    [("one", 100_000, 5, 0), ("two", 300_000, 0, 3)]
        .map(|(name, max_ns, lost, refused)| {
            let mut result = one.clone();
            result.experiment = name.into();
            let received = 20 - lost - refused;
            result.counts = Counts { sent: 20, received, refused, lost, ..Counts::default() };
            let figures: &mut Figures = result.metrics.get_mut("gateway_latency").unwrap();
            (figures.min_ns, figures.max_ns) = (40_000, max_ns);
            result
        })
        .into()
}

/// The value of a claim, and whether it agrees.
fn judge(claim: &str) -> (Option<f64>, bool) {
    let campaign = campaign(&format!("[[claim]]\nid = 'C'\nsays = 'so'\n{claim}\n"));
    let campaign = campaign.unwrap_or_else(|error| panic!("{error}"));
    let verdict = campaign.claims[0].judge(&results());
    (verdict.value(), verdict.agrees())
}

#[test]
fn values_are_reckoned_and_held_against_both_bounds() {
    let min = "value = 'one gateway_latency min'";
    let max = "value = 'two gateway_latency max'";
    for (claim, value, agrees) in [
        (format!("{min}\nat_least = 40"), Some(40.0), true),
        (format!("{min}\nat_least = 40.1"), Some(40.0), false),
        (format!("{min}\nat_most = 40"), Some(40.0), true),
        (format!("{min}\nat_most = 39.9"), Some(40.0), false),
        (format!("{min}\nat_least = 30\nat_most = 50"), Some(40.0), true),
        ("value = 'one lost_percent'\nat_most = 25".into(), Some(25.0), true),
        ("value = 'one lost'\nat_most = 5".into(), Some(5.0), true),
        // What the rules refuse is no loss.
        ("value = 'two lost'\nat_most = 0".into(), Some(0.0), true),
        ("value = 'two refused'\nat_most = 3".into(), Some(3.0), true),
        ("value = 'two refused_percent'\nat_most = 15".into(), Some(15.0), true),
        ("value = 'two not_routed'\nat_least = 1".into(), Some(0.0), false),
        ("value = 'one sent'\nat_least = 20".into(), Some(20.0), true),
        ("value = 'one received'\nat_most = 14".into(), Some(15.0), false),
        // 300 - 40
        (format!("{max}\nminus = 'one gateway_latency min'\nat_least = 260"), Some(260.0), true),
        // 300 / 100
        (format!("{max}\nover = 'one gateway_latency max'\nat_most = 3"), Some(3.0), true),
        // (300 - 40) / (100 - 40)
        (
            format!(
                "{max}\nminus = 'two gateway_latency min'\nover = 'one gateway_latency max'\n\
                 over_minus = 'one gateway_latency min'\nat_least = 4.3\nat_most = 4.4"
            ),
            Some(260.0 / 60.0),
            true,
        ),
        // Nothing is divided by zero.
        (format!("{max}\nover = 'two lost'\nat_least = 0"), None, false),
        ("value = 'three gateway_latency min'\nat_least = 0".into(), None, false),
        (format!("{max}\nminus = 'three lost'\nat_least = 0"), None, false),
        (format!("{max}\nover = 'three lost'\nat_least = 0"), None, false),
        (format!("{max}\nover_minus = 'three lost'\nat_least = 0"), None, false),
    ] {
        assert_eq!(judge(&claim), (value, agrees), "{claim}");
    }
}

#[test]
fn an_experiment_that_sent_nothing_lost_no_percent() {
    let text = format!(
        "{EXPERIMENT}[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one lost_percent'\nat_most = 0\n"
    );
    let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
    let mut results = results();
    results[0].counts = Counts::default();
    let verdict = campaign.claims[0].judge(&results);
    assert_eq!((verdict.value(), verdict.agrees()), (None, false));
}

#[test]
fn a_claim_of_each_is_several() {
    let campaign = campaign(
        "[[claim]]\nid = 'C'\nsays = 'so'\neach = ['one', 'two', 'three']\n\
         value = '{each} gateway_latency max'\nover = '{each} gateway_latency min'\nat_most = 3\n",
    )
    .unwrap();
    let judged: Vec<_> = campaign
        .claims
        .iter()
        .map(|claim| {
            let verdict = claim.judge(&results());
            (claim.each.as_deref(), verdict.value(), verdict.agrees())
        })
        .collect();
    let expected = [
        (Some("one"), Some(2.5), true),
        (Some("two"), Some(7.5), false),
        (Some("three"), None, false),
    ];
    assert_eq!(judged, expected);
    let [one, two, _] = &campaign.experiments[..] else { panic!("three experiments") };
    assert!(campaign.claims[1].is_about(two) && !campaign.claims[1].is_about(one));
}

#[test]
fn instructions_are_a_figure_where_they_are_counted() {
    let campaign = campaign(
        "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one gateway_instructions'\n\
         over = 'two gateway_instructions'\nat_most = 0.6\n",
    )
    .unwrap();
    let mut results = results();
    assert_eq!(campaign.claims[0].judge(&results).value(), None);
    for (result, instructions) in results.iter_mut().zip([3_000.0, 6_000.0]) {
        let effort = Row::from([("gateway_instructions".into(), instructions.into())]);
        result.sections = Sections::default().with_one(&EFFORT, effort);
    }
    let verdict = campaign.claims[0].judge(&results);
    assert_eq!((verdict.value(), verdict.agrees()), (Some(0.5), true));
}

#[test]
fn bounds_are_shown_as_people_write_them() {
    for (bounds, shown) in [
        ("at_least = 1.5", "at least 1.5"),
        ("at_most = 7", "at most 7"),
        ("at_least = 1\nat_most = 2", "1 to 2"),
    ] {
        let text =
            format!("{EXPERIMENT}[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one sent'\n{bounds}\n");
        let campaign =
            campaign::parse("t.toml", &text, Path::new("."), &Options::default()).unwrap();
        assert_eq!(campaign.claims[0].bounds(), shown);
    }
}

#[test]
fn what_is_wrong_with_a_claim_is_reported_with_its_place() {
    // The claim begins in line 7 with `[[claim]]`.
    for (claim, place, part) in [
        (
            "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one speed p99'\nat_least = 1",
            "10:9",
            "speed",
        ),
        (
            "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one gateway_latency p98'\nat_least = 1",
            "10:9",
            "unknown figure `p98`",
        ),
        (
            "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one sent'\nover = ''\nat_least = 1",
            "11:8",
            "`over`: write `EXPERIMENT",
        ),
        ("[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one sent'", "7:1", "without bounds"),
        ("[[claim]]\nid = 'C'\nsays = 'so'\nat_least = 1", "7:1", "`value` is missing"),
        (
            "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one sent'\natleast = 1\nat_most = 2",
            "11:1",
            "unknown key `atleast`",
        ),
        (
            "[[claim]]\nid = 'C'\nsays = 'so'\nvalue = 'one sent'\nat_most = 2\neach = ['a']",
            "12:8",
            "`each` needs `{each}`",
        ),
        ("claim = [1]", "", "`claim` is an integer, expected a table"),
        ("claim = 1", "", "`claim` is an integer, expected a list of tables"),
    ] {
        // A key at the top must stand before the tables.
        let text = if claim.starts_with('[') {
            format!("{EXPERIMENT}{claim}\n")
        } else {
            format!("{claim}\n{EXPERIMENT}")
        };
        let error = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
        let error = error.unwrap_err().to_string();
        let reported = error
            .lines()
            .any(|line| line.starts_with(&format!("t.toml:{place}")) && line.contains(part));
        assert!(reported, "{place} {part} is missing in\n{error}");
    }
}

/// The results of `one` on a machine, with those largest latencies for the seeds from 1 on.
fn seeded(load: &str, longest_ns: &[i64]) -> Vec<ResultFile> {
    let [one, _] = results().try_into().unwrap();
    let with = |(seed, &max_ns): (u64, &i64)| {
        let mut result = one.clone();
        result.testbed = "vm".into();
        result.seed = seed;
        result.group = Some("one".into());
        result.experiment = format!("one-seed-{seed}");
        result.config = format!("load.kind = '{load}'\n");
        result.metrics.get_mut("gateway_latency").unwrap().max_ns = max_ns;
        result
    };
    (1..).zip(longest_ns).map(with).collect()
}

#[test]
fn no_verdict_comes_from_one_draw() {
    let longest = "value = 'one gateway_latency max'\nat_most = 100";
    let shortest = "value = 'one gateway_latency min'\nat_most = 100";
    let lost = "value = 'one lost'\nat_most = 5";
    for (claim, load, longest_ns, agreement) in [
        (longest, "cpu", &[90_000, 91_000, 92_000][..], Agreement::Yes),
        (longest, "cpu", &[190_000, 191_000, 192_000], Agreement::No),
        (longest, "cpu", &[508_000, 21_000, 10_800], Agreement::Depends),
        (longest, "cpu", &[90_000], Agreement::TooFewSeeds),
        (longest, "cpu", &[508_000], Agreement::TooFewSeeds),
        (longest, "cpu", &[90_000, 91_000], Agreement::TooFewSeeds),
        // The largest of a machine without load meets a timer interrupt or not.
        (longest, "none", &[90_000], Agreement::TooFewSeeds),
        // Another boot moves the shortest one, too.
        (shortest, "none", &[90_000], Agreement::TooFewSeeds),
        (shortest, "none", &[90_000, 90_000, 90_000], Agreement::Yes),
        (shortest, "cpu", &[90_000], Agreement::TooFewSeeds),
        (lost, "none", &[90_000], Agreement::Yes),
        (lost, "cpu", &[90_000], Agreement::TooFewSeeds),
    ] {
        let text = format!("{EXPERIMENT}[[claim]]\nid = 'C'\nsays = 'so'\n{claim}\n");
        let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
        let verdict = campaign.unwrap().claims[0].judge(&seeded(load, longest_ns));
        assert_eq!(verdict.agreement, agreement, "{claim} {load} {longest_ns:?}");
        assert_eq!(verdict.agrees(), agreement == Agreement::Yes);
        assert_eq!(verdict.found.unwrap().count, longest_ns.len());
    }
}

#[test]
fn seeds_are_held_against_their_own() {
    let mut results = seeded("cpu", &[100_000, 200_000, 300_000]);
    let others = seeded("none", &[50_000, 100_000, 150_000]).into_iter().map(|mut other| {
        other.group = Some("two".into());
        other
    });
    results.extend(others);
    let campaign = campaign(
        "[[claim]]\nid = 'C'\nsays = 'of {sent}'\nvalue = 'one gateway_latency max'\n\
         over = 'two gateway_latency max'\nat_least = 2\n",
    )
    .unwrap();
    let claim = &campaign.claims[0];
    let verdict = claim.judge(&results);
    assert_eq!((verdict.value(), verdict.agreement), (Some(2.0), Agreement::Yes));
    assert_eq!(claim.sent(&results), Some(20));
    // Against one run only, each seed is held against that one.
    results.truncate(4);
    let verdict = claim.judge(&results);
    let found = verdict.found.unwrap();
    assert_eq!((found.least, found.most, verdict.agreement), (2.0, 6.0, Agreement::Yes));
}

#[test]
fn a_claim_is_held_against_what_was_published_or_against_nothing() {
    for (more, basis) in [
        ("", Basis::Own),
        ("published = '-'", Basis::Own),
        ("published = '0'", Basis::Published),
        ("published = '35 us'\nby_construction = true", Basis::Construction),
    ] {
        let claim = format!("[[claim]]\nid = 'C'\nvalue = 'one lost'\nat_most = 0\n{more}\n");
        assert_eq!(campaign(&claim).unwrap().claims[0].basis(), basis, "{more}");
    }
}

#[test]
fn a_late_frame_is_lost_in_a_claim_and_nowhere_else() {
    for (value, expected) in [
        ("one lost", 3.0),
        ("one lost_percent", 15.0),
        ("one received", 18.0),
        ("one gateway_latency min", 0.0),
    ] {
        let claim = format!("[[claim]]\nid = 'C'\nvalue = '{value}'\nat_least = 0\n");
        let mut result = results().swap_remove(0);
        let found = |result: &ResultFile| {
            let verdict = campaign(&claim).unwrap().claims[0].judge(std::slice::from_ref(result));
            verdict.value().unwrap()
        };
        result.counts = Counts { sent: 20, received: 18, lost: 1, ..Counts::default() };
        let before = found(&result);
        result.counts.late = 2;
        match value.contains("lost") {
            true => assert_eq!(found(&result), expected, "{value}"),
            false => assert_eq!(found(&result), before, "{value}"),
        }
    }
}

#[test]
fn one_draw_of_a_simulation_gives_no_verdict() {
    let bounds = "at_least = 0\n";
    let judge = |value: &str, is_random, load: &str, seeds: u64| {
        let claim = format!("[[claim]]\nid = 'C'\nsays = ''\nvalue = '{value}'\n{bounds}");
        let run = |seed| {
            let mut result = results().swap_remove(0);
            (result.seed, result.random) = (seed, is_random);
            (result.group, result.experiment) = (Some("one".into()), format!("one-seed-{seed}"));
            result.config.push_str(&format!("\n[load]\nkind = '{load}'\n"));
            result
        };
        let results: Vec<_> = (1..=seeds).map(run).collect();
        campaign(&claim).unwrap().claims[0].judge(&results).agreement
    };
    let [min, p50] = ["one gateway_latency min", "one gateway_latency p50"];
    for value in [min, p50, "one lost", "one gateway_latency max", "one gateway_latency p999"] {
        let is_exact = ["min", "p50", "lost"].iter().any(|figure| value.ends_with(figure));
        let alone = if is_exact { Agreement::Yes } else { Agreement::TooFewSeeds };
        for seeds in [1, 2] {
            assert_eq!(judge(value, true, "none", seeds), alone, "{value}");
            assert_eq!(judge(value, true, "cpu", seeds), Agreement::TooFewSeeds, "{value}");
            // Nothing was drawn: every seed gives these figures.
            assert_eq!(judge(value, false, "none", seeds), Agreement::Yes, "{value}");
        }
        assert_eq!(judge(value, true, "cpu", 3), Agreement::Yes, "{value}");
    }
}

#[test]
fn a_claim_about_no_experiment_of_the_file_is_refused() {
    let plain = "\
name = 'one'\ncount = 10\nbus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\ngateway.delay = '35us'\n\
traffic.kind = 'one-at-a-time'\n[[experiment]]\nname = 'one'\n[[experiment]]\nname = 'loaded'\nseeds = 3\n\
[matrix]\ntraffic.id = [1, 2]\n[[claim]]\nid = 'C'\nsays = 'so'\nat_most = 1\n";
    let parse = |claim: &str, only: Option<&str>, seed| {
        let options = Options {
            only: only.map(str::to_owned).into_iter().collect(),
            seed,
            ..Options::default()
        };
        campaign::parse("t.toml", &format!("{plain}{claim}\n"), Path::new("."), &options)
    };
    let names: Vec<_> = parse("value = 'one-1 lost'", None, None)
        .map(|campaign| campaign.experiments.into_iter().map(|it| it.name).collect())
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(names.iter().any(|name| name == "loaded-2-seed-3"), "{names:?}");
    // It does not matter what is chosen.
    let choices = [(None, None), (Some("one-2"), None), (Some("loaded*"), None), (None, Some(7))];
    for (only, seed) in choices {
        for right in [
            "value = 'one-1 lost'",
            "value = 'loaded-1 lost'",
            "value = 'loaded-2-seed-3 lost'",
            "each = ['1', '2']\nvalue = 'one-{each} lost'\nminus = 'loaded-{each} lost'",
        ] {
            let parsed = parse(right, only, seed);
            assert!(parsed.is_ok(), "{right}: {}", parsed.unwrap_err());
        }
        for (wrong, place, name, hint) in [
            ("value = 'oen-1 lost'", "18:9", "oen-1", "did you mean `one-1`?"),
            (
                "value = 'other lost'",
                "18:9",
                "other",
                "the experiments of this file are loaded-1, loaded-2, one-1, one-2",
            ),
            ("value = 'loaded-1-seed-4 lost'", "18:9", "loaded-1-seed-4", "did you mean `"),
            (
                "value = 'one-1 lost'\nminus = 'one-3 lost'",
                "19:9",
                "one-3",
                "did you mean `one-1`?",
            ),
            ("value = 'one-1 lost'\nover = 'on-2 lost'", "19:8", "on-2", "did you mean `one-2`?"),
            (
                "value = 'one-1 lost'\nover = 'one-2 lost'\nover_minus = 'x lost'",
                "20:14",
                "x",
                "the experiments of",
            ),
            (
                "each = ['1', '3']\nvalue = 'one-{each} lost'",
                "19:9",
                "one-3",
                "did you mean `one-1`?",
            ),
        ] {
            let error = parse(wrong, only, seed).unwrap_err().to_string();
            let found = format!("t.toml:{place}: error: unknown experiment `{name}`");
            assert!(error.contains(&found), "{wrong}: {error}");
            assert!(error.contains(&format!("hint: {hint}")), "{wrong}: {error}");
        }
    }
}

#[test]
fn a_missing_value_has_a_reason() {
    let claims = [
        ("one clock_difference max", Some("the results have no `one clock_difference max`")),
        ("three lost", Some("there is no result of `three`")),
        ("one gateway_instructions", Some("the results have no `one gateway_instructions`")),
        ("one lost", None),
    ];
    for (value, reason) in claims {
        let claim = format!("[[claim]]\nid = 'C'\nsays = ''\nvalue = '{value}'\nat_most = 1\n");
        let campaign = campaign(&claim).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(campaign.claims[0].why_missing(&results()).as_deref(), reason, "{value}");
    }
}
