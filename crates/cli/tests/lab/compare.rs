//! `lab compare`: what became slower, and what cannot be compared.

use std::fs;

use serde_json::Value;

use crate::scene::{CAMPAIGN, Scene, keys};

/// Two folders of results: `before`, and `after` with another delay of the gateway.
fn compared(delay: &str) -> Scene {
    let scene = Scene::new(CAMPAIGN);
    scene.run(&["run", "two.toml", "--out", "before", "--only", "calm"], 0);
    let set = format!("gateway.delay={delay}");
    scene.run(&["run", "two.toml", "--out", "after", "--only", "calm", "--set", &set], 0);
    scene
}

#[test]
fn what_became_slower_is_a_no() {
    let scene = compared("35.1us");
    let (stdout, _) = scene.run(&["compare", "before", "after"], 1);
    let shown = "\
changed        before  after
-------------  ------  --------
gateway.delay  \"35us\"  \"35.1us\"

experiment  figure    before     after  difference  instructions           verdict
----------  ------  --------  --------  ----------  ------------  -------  -------
calm        min     35000 ns  35100 ns     +100 ns                +0.29 %  slower
calm        p50     35000 ns  35100 ns     +100 ns                +0.29 %  slower

1 experiment compared: 2 figures slower, 0 faster, 0 the same
";
    assert_eq!(stdout, shown);
    for (allow, code) in [("1%", 0), ("0.1%", 1), ("100ns", 0), ("99ns", 1), ("1us", 0)] {
        scene.run(&["compare", "before", "after", "--allow", allow], code);
    }
    scene.run(&["compare", "after", "before"], 0);
    let (stdout, _) = scene.run(&["compare", "before", "before"], 0);
    assert!(stdout.contains("nothing changed"), "{stdout}");
    assert!(stdout.ends_with("0 figures slower, 0 faster, 2 the same\n"), "{stdout}");
}

#[test]
fn a_comparison_in_json_has_the_documented_fields() {
    let scene = compared("35.1us");
    let (stdout, _) = scene.run(&["compare", "before", "after", "--json"], 1);
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().find(|line| line["type"] == kind).map(|l| &l["data"]);
    assert_eq!(keys(of("changed").unwrap()), ["setting", "before", "after"].into());
    let figure = of("figure").unwrap();
    let expected = [
        "experiment",
        "metric",
        "figure",
        "unit",
        "seed",
        "before",
        "after",
        "before_share_percent",
        "after_share_percent",
        "difference",
        "difference_percent",
        "difference_instructions",
        "resolution",
        "verdict",
        "is_allowed",
    ];
    assert_eq!(keys(figure), expected.into());
    assert_eq!((&figure["difference"], &figure["verdict"]), (&100.0.into(), &"slower".into()));
    let verdict = of("verdict").unwrap();
    assert_eq!(keys(&figure["before"]), ["values", "least", "median", "most"].into());
    let expected =
        ["pairs", "slower", "faster", "same", "too_few_boots", "not_allowed", "allow", "agrees"];
    assert_eq!(keys(verdict), expected.into());
    assert_eq!(verdict["agrees"], false);
}

#[test]
fn what_is_not_exact_is_headed_so_and_never_a_no() {
    let scene = compared("70us");
    for folder in ["before", "after"] {
        let path = scene.0.path().join(folder).join("results/calm.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"testbed\": \"sim\"", "\"testbed\": \"live\"")).unwrap();
    }
    let (stdout, _) = scene.run(&["compare", "before", "after"], 0);
    assert!(stdout.contains("over the seeds, no verdict  figure "), "{stdout}");
    assert!(stdout.contains("too few seeds") && !stdout.contains("load"), "{stdout}");
}

#[test]
fn no_figure_names_the_folders_and_the_remedy() {
    let scene = compared("36us");
    scene.run(&["run", "two.toml", "--out", "after", "--only", "calm", "--seed", "7"], 0);
    let (_, stderr) = scene.run(&["compare", "before", "after"], 2);
    assert!(stderr.contains("before and after: no figure to compare (calm: "), "{stderr}");
    assert!(stderr.contains("with the same seeds on both sides"), "{stderr}");
}

#[test]
fn names_in_results_are_shown_without_controls() {
    let scene = compared("36us");
    let path = scene.0.path().join("before/results/calm.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"calm\"", "\"ca\\u001b[31mlm\"")).unwrap();
    for arguments in [&["show", "before", "--histogram"][..], &["show", "before"]] {
        let (stdout, _) = scene.run(arguments, 0);
        assert!(stdout.contains("lm") && !stdout.contains('\u{1b}'), "{stdout:?}");
    }
}

#[test]
fn two_values_of_a_setting_in_one_folder_are_compared() {
    let text = CAMPAIGN.split("[[experiment]]").next().unwrap().to_owned()
        + "[matrix]\n\"gateway.delay\" = [\"35us\", \"36us\"]\n";
    let scene = Scene::new(&text);
    scene.run(&["run", "two.toml", "--out", "both"], 0);
    let by = |values: &str, code| {
        scene.run(&["compare", "both", "--by", &format!("gateway.delay={values}")], code)
    };
    assert!(by("35us,36us", 1).0.contains("+1000 ns"));
    by("36us,35us", 0);
    let (_, stderr) = by("35us,37us", 2);
    assert!(stderr.contains("no experiment has gateway.delay = 37us"), "{stderr}");
}

#[test]
fn what_cannot_be_compared_is_reported_with_the_remedy() {
    let scene = compared("36us");
    for (arguments, part) in [
        (&["compare", "before", "absent"][..], "run `candor lab run FILE --out DIR` first"),
        (&["compare", "before"], "<AFTER>"),
        (&["compare", "before", "after", "--allow", "1"], "write 1%, 50ns or 0.2us"),
        (&["compare", "before", "--by", "a=b"], "two values"),
    ] {
        let (_, stderr) = scene.run(arguments, 2);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    // Neither side has a setting in common that would explain the other one.
    let matrix =
        CAMPAIGN.split("[[claim]]").next().unwrap().to_owned() + "[matrix]\ncount = [20, 30]\n";
    fs::write(scene.0.path().join("two.toml"), matrix).unwrap();
    for (out, gone) in [("other", ["calm-20", "flood-30"]), ("another", ["calm-30", "flood-20"])] {
        scene.run(&["run", "two.toml", "--out", out], 0);
        for name in gone {
            let file = scene.0.path().join(format!("{out}/results/{name}.json"));
            fs::remove_file(file).unwrap();
        }
    }
    let (_, stderr) = scene.run(&["compare", "other", "another", "--json"], 2);
    assert!(stderr.contains("run the same file with the same options"), "{stderr}");
}

#[test]
fn one_boot_is_no_verdict_and_no_agreement() {
    let scene = compared("70us");
    for folder in ["before", "after"] {
        let path = scene.0.path().join(folder).join("results/calm.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"testbed\": \"sim\"", "\"testbed\": \"vm\"")).unwrap();
    }
    let (stdout, stderr) = scene.run(&["compare", "before", "after"], 2);
    assert!(stdout.contains("too few boots"), "{stdout}");
    assert!(stdout.contains("0 the same, 3 without a verdict\n"), "{stdout}");
    assert!(stderr.contains("calm: no verdict, since a side has fewer than 5 boots"), "{stderr}");
    let (stdout, _) = scene.run(&["compare", "before", "after", "--json"], 2);
    assert!(stdout.contains("\"verdict\":\"too_few_boots\""), "{stdout}");
}
