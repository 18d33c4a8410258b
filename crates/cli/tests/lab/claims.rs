//! `lab claims`: what agrees, what does not, and the exit code.

use std::fs;

use serde_json::Value;

use crate::scene::{CAMPAIGN, Scene, names};

#[test]
fn claims_are_judged_on_the_results_of_shards() {
    let scene = Scene::new(CAMPAIGN);
    for shard in ["1/2", "2/2"] {
        let arguments = ["run", "two.toml", "--out", shard.split('/').next().unwrap()];
        scene.run(&[&arguments[..], &["--shard", shard]].concat(), 0);
    }
    let merged = scene.0.path().join("merged/results");
    fs::create_dir_all(&merged).unwrap();
    for shard in ["1", "2"] {
        let results = scene.0.path().join(shard).join("results");
        assert_eq!(names(&results).len(), 2);
        for name in names(&results) {
            fs::copy(results.join(&name), merged.join(&name)).unwrap();
        }
    }
    let (_, stderr) = scene.run(&["claims", "two.toml", "--out", "merged", "--no-run"], 0);
    assert_eq!(stderr, "2 of 2 claims agree\nreport: merged/index.html\n");
    let (_, whole) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    assert!(whole.starts_with("2 of 2 claims agree"), "{whole}");
    for file in names(&merged) {
        let read =
            |out: &str| fs::read_to_string(scene.0.path().join(out).join("results").join(&file));
        assert_eq!(read("merged").unwrap(), read("out").unwrap(), "{file}");
    }
}

#[test]
fn the_verdict_of_claims_knows_the_exit_code() {
    let wrong = CAMPAIGN.replace("at_most = 0", "at_most = -1");
    let scene = Scene::new(&wrong);
    let verdict = |stdout: &str| -> Value {
        let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["type"], "verdict");
        last["data"].clone()
    };
    let arguments = ["claims", "two.toml", "--out", "out", "--json"];
    let (stdout, _) = scene.run(&arguments, 1);
    let found = verdict(&stdout);
    assert_eq!((&found["no"], &found["agrees"]), (&1.into(), &false.into()));
    assert_eq!(found["exit_code"], 1);
    // A report that cannot be written.
    fs::remove_file(scene.0.path().join("out/index.html")).unwrap();
    fs::create_dir(scene.0.path().join("out/index.html")).unwrap();
    let (stdout, _) = scene.run(&[&arguments[..], &["--no-run", "--force"]].concat(), 2);
    assert_eq!(verdict(&stdout)["exit_code"], 2);
}

#[test]
fn a_claim_that_does_not_hold_is_a_no() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    let last = |text: &str| -> Vec<String> {
        let claims = text.lines().skip(2).take_while(|line| !line.is_empty());
        claims.map(|line| line.split("  ").last().unwrap().trim().into()).collect()
    };
    assert_eq!(last(&stdout), ["yes", "yes"], "{stdout}");
    assert_eq!(stderr, "2 of 2 claims agree\nreport: out/index.html\n");

    let strict = ["claims", "two.toml", "--out", "out", "--set", "bus.out.bitrate=1M"];
    let (stdout, stderr) = scene.run(&strict, 1);
    assert_eq!(last(&stdout), ["yes", "no"], "{stdout}");
    assert!(stderr.starts_with("1 of 2 claims agrees\n"), "{stderr}");

    // Of what was not selected, nothing is claimed.
    let (stdout, stderr) = scene.run(&["claims", "two.toml", "--out", "out", "--only", "calm"], 0);
    assert_eq!(last(&stdout), ["yes"], "{stdout}");
    assert!(stderr.starts_with("1 of 1 claim agrees\n"), "{stderr}");

    // An experiment that did not run gives no value.
    fs::remove_file(scene.0.path().join("out/results/flood.json")).unwrap();
    let (stdout, stderr) =
        scene.run(&["claims", "two.toml", "--out", "out", "--no-run", "--json"], 1);
    assert!(stderr.contains("1 of 2 experiments has no result in the folder: flood\n"), "{stderr}");
    let claim: Value = serde_json::from_str(stdout.lines().nth(1).unwrap()).unwrap();
    let data = &claim["data"];
    assert_eq!((&data["value"], &data["agrees"]), (&Value::Null, &false.into()));
    assert_eq!(data["agreement"], "missing");

    let (stdout, _) = scene.run(&["claims", "two.toml", "--out", "out", "--markdown"], 0);
    assert!(stdout.starts_with("| id | claim | published | model |"), "{stdout}");
    assert_eq!(stdout.lines().nth(1), Some("| --- | --- | --- | --- | --- | --- | --- |"));
}

/// With the seeds that are there a claim holds; whether it does with the others, nobody knows.
#[test]
fn a_forgotten_shard_and_other_settings_are_told() {
    let scene = Scene::new(&format!("seeds = 2\n{CAMPAIGN}"));
    scene.run(&["run", "two.toml", "--out", "out"], 0);
    let no_run = ["claims", "two.toml", "--out", "out", "--no-run"];
    let (_, stderr) = scene.run(&no_run, 0);
    assert_eq!(stderr, "2 of 2 claims agree\nreport: out/index.html\n");
    let results = scene.0.path().join("out/results");
    fs::remove_file(results.join("calm-seed-2.json")).unwrap();
    let text = fs::read_to_string(scene.0.path().join("two.toml")).unwrap();
    fs::write(scene.0.path().join("two.toml"), text.replace("count = 200", "count = 100")).unwrap();
    let (_, stderr) = scene.run(&no_run, 1);
    let told = "1 of 4 experiments has no result in the folder: calm-seed-2\n\
                3 of 4 experiments have a result that was made with other settings: calm-seed-1 and 2 more\n";
    assert!(stderr.ends_with(told), "{stderr}");
}

#[test]
fn claims_of_each_share_a_row() {
    let text = CAMPAIGN.split("[[claim]]").next().unwrap().to_owned()
        + "[[claim]]\nid = \"A\"\nsays = \"lost\"\neach = [\"calm\", \"flood\"]\n\
           value = \"{each} lost\"\nat_most = 0\n\
           [[claim]]\nid = \"B\"\nsays = \"sent\"\neach = [\"calm\", \"flood\"]\n\
           value = \"{each} sent\"\nat_least = 1\n";
    let scene = Scene::new(&text);
    let (stdout, stderr) = scene.run(&["claims", "two.toml", "--out", "out", "--markdown"], 1);
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], "| id | claim | published | agreement is | calm | flood | note |");
    assert!(lines[2].starts_with("| A | lost |  | at most 0 | 0.00 | "), "{stdout}");
    assert!(lines[2].ends_with(" no |  |"), "{stdout}");
    assert_eq!(lines[3], "| B | sent |  | at least 1 | 200.0 | 200.0 |  |");
    let groups = ["| A | 2 | 1 | 1 |", "| B | 2 | 2 | 0 |", "| all | 4 | 3 | 1 |"];
    assert_eq!(
        lines[5..],
        [&["| id | claims | yes | no |", "| --- | --- | --- | --- |"], &groups[..]].concat()
    );
    assert!(stderr.starts_with("3 of 4 claims agree\n"), "{stderr}");
}

/// Claims about an alternative stand in a column of their own and are not counted.
#[test]
fn alternatives_are_shown_and_not_counted() {
    let text = CAMPAIGN.split("[[claim]]").next().unwrap().to_owned()
        + "[[claim]]\nid = \"A\"\nsays = \"sent\"\neach = [\"calm\", \"flood\"]\n\
           value = \"{each} sent\"\nat_most = 250\n\
           [[alternative]]\nname = \"three hundred\"\ncount = 300\n";
    let scene = Scene::new(&text);
    let run = |more: &[&str], code| {
        scene.run(&[&["claims", "two.toml", "--out", "out", "--force"], more].concat(), code).0
    };
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let plain = lines(&run(&["--markdown"], 0));
    assert_eq!(plain[2], "| A | sent |  | at most 250 | 200.0 | 200.0 |  |");
    let shown = lines(&run(&["--markdown", "--alternatives"], 0));
    assert_eq!(
        shown[0],
        "| id | claim | published | agreement is | calm | flood | three hundred | note |"
    );
    assert_eq!(shown[2], "| A | sent |  | at most 250 | 200.0 | 200.0 | 300.0 (0 of 2) |  |");
    assert_eq!(shown.last().unwrap(), "| all | 2 | 2 |");
    // Chosen by the names of the file, or by their own.
    let chosen = lines(&run(&["--markdown", "--alternatives", "--only", "calm"], 0));
    assert_eq!(chosen[2], "| A | sent |  | at most 250 | 200.0 | 300.0 no |  |");
    let json = run(&["--json", "--alternatives"], 0);
    let alternatives: Vec<_> = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "claim")
        .map(|line| line["data"]["alternative"].clone())
        .collect();
    let named = Value::from("three hundred");
    assert_eq!(alternatives, [Value::Null, Value::Null, named.clone(), named]);
}

#[test]
fn only_experiments_that_claims_are_about_are_run_for_them() {
    let text = CAMPAIGN.split("[[claim]]\nid = \"B\"").next().unwrap();
    let scene = Scene::new(text);
    let (_, stderr) = scene.run(&["claims", "two.toml", "--out", "out"], 0);
    assert!(stderr.starts_with("1 of 1 claim agrees\n"), "{stderr}");
    assert_eq!(names(&scene.out().join("results")), ["calm.csv", "calm.json"]);
}

#[test]
fn claims_are_chosen_by_id_and_shown_with_enough_digits() {
    // 200 frames of which the flood loses some: the limit is just above.
    let text = CAMPAIGN.split("[[claim]]").next().unwrap().to_owned()
        + "[[claim]]\nid = \"near\"\nsays = \"of {sent}\"\nvalue = \"calm gateway_latency min\"\n\
           at_least = 35.0004\n[[claim]]\nid = \"other\"\nsays = \"so\"\nvalue = \"flood lost\"\n\
           at_most = 0\n";
    let scene = Scene::new(&text);
    let arguments = ["claims", "two.toml", "--out", "out", "--markdown", "--claim", "n*"];
    let (stdout, stderr) = scene.run(&arguments, 1);
    assert!(stdout.contains("| near | of 200 |  | 35.0 | at least 35.0004 | no |"), "{stdout}");
    assert!(stderr.starts_with("0 of 1 claim agrees\n"), "{stderr}");
    assert_eq!(names(&scene.out().join("results")), ["calm.csv", "calm.json"]);

    let text = text.replace("35.0004", "34.9996");
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&arguments, 0);
    assert!(stdout.contains("| 35.0 | at least 34.9996 | yes |"), "{stdout}");
    // 35.0 would look as if it were above the limit.
    let text = text
        .replace("at_least = 34.9996", "at_most = 34.9996\nover = \"calm sent\"")
        .replace("at_most = 34.9996", "at_most = 0.174");
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&arguments, 1);
    assert!(stdout.contains("| 0.175 | at most 0.174 | no |"), "{stdout}");

    // Several patterns: all that match one of them, and none may match nothing.
    let both =
        ["claims", "two.toml", "--out", "both", "--markdown", "--claim", "n*", "--claim", "oth*"];
    let (stdout, _) = scene.run(&both, 1);
    assert!(stdout.contains("| near |") && stdout.contains("| other |"), "{stdout}");
    for patterns in [&["--claim", "x*"][..], &["--claim", "n*", "--claim", "x*"]] {
        let (_, stderr) = scene.run(&[&["claims", "two.toml"][..], patterns].concat(), 2);
        assert!(stderr.contains("no claim has an id that matches `x*`"), "{stderr}");
    }
}

#[test]
fn a_claim_that_says_nothing_is_told_by_the_settings_of_its_experiment() {
    let claims = r#"
[matrix]
traffic.length = [2, 8]
load.kind = ["none"]
[[claim]]
id = "C1"
value = "2-none total_latency max"
at_most = 1_000
[[claim]]
id = "C2"
value = "{each}-none total_latency max"
minus = "2-none total_latency min"
over = "2-none sent"
each = ["2", "8"]
at_least = 0
"#;
    let text = "count = 50\n[bus.in]\nbitrate = '500k'\n[bus.out]\nbitrate = '500k'\n[gateway]\ndelay = '35us'\n\
                [traffic]\nkind = 'one-at-a-time'\nid = '0x123'\n";
    let scene = Scene::new(&format!("{text}{claims}"));
    let arguments = ["claims", "two.toml", "--out", "out"];
    let says = |scene: &Scene| -> Vec<String> {
        let (stdout, _) = scene.run(&[&arguments[..], &["--json"]].concat(), 0);
        let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let claims = lines.filter(|it| it["type"] == "claim");
        claims.map(|it| it["data"]["says"].as_str().unwrap().to_owned()).collect()
    };
    let of = |length| format!("load none · length {length}: total_latency");
    let ratio =
        |length| format!("{} max less {} min, over load none · length 2: sent", of(length), of(2));
    assert_eq!(says(&scene), [format!("{} max", of(2)), ratio(2), ratio(8)]);
    let (stdout, _) = scene.run(&arguments, 0);
    let rows: Vec<_> = stdout.lines().filter(|line| line.starts_with('C')).collect();
    assert!(rows[0].starts_with("C1  load none · length 2: total_latency max "), "{stdout}");
    // The title is empty where the file has none, and stands in place of the settings where it has one.
    let listed = scene.json(&["list", "two.toml", "--json"], "experiment", 0);
    assert_eq!((&listed[0]["name"], &listed[0]["title"]), (&"2-none".into(), &"".into()));
    let scene = Scene::new(&format!("title = 'Body bus'\n{text}{claims}"));
    assert_eq!(says(&scene)[0], "Body bus: total_latency max");
}
