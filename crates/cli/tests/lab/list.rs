//! `lab list`: which experiments there are, and what they cover and need.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::scene::{CAMPAIGN, KERNEL, Scene, names, reported};

#[test]
fn list_names_the_experiments() {
    let scene = Scene::new(CAMPAIGN);
    let (stdout, stderr) = scene.run(&["list", "two.toml"], 0);
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("calm   sim\nflood  sim\n", "2 experiments: 2 in sim\n")
    );
    let (stdout, _) = scene.run(&["list", "two.toml", "--only", "fl*"], 0);
    assert_eq!(stdout, "flood  sim\n");
    let (stdout, _) = scene.run(&["list", "two.toml", "--shard", "2/2"], 0);
    assert_eq!(stdout, "flood  sim\n");
    let experiments = scene.json(&["list", "two.toml", "--json"], "experiment", 0);
    assert_eq!(experiments.len(), 2);
    assert_eq!(
        experiments[1],
        serde_json::json!({
            "name": "flood",
            "title": "Two buses",
            "testbed": "sim",
            "conditions": "simulation, virtual time; a gateway of constant delay 35us; no load",
            "axes": {},
        })
    );
    assert_eq!(names(scene.0.path()), ["two.toml"]);
}

#[test]
fn experiments_of_machines_say_so() {
    let text = KERNEL.replace("testbed = \"vm\"\n", "")
        + "gateway.delay = \"1us\"\n[[experiment]]\nname = \"a\"\n";
    let scene = Scene::new(&text);
    let (stdout, _) = scene.run(&["list", "two.toml"], 0);
    assert_eq!(stdout, "a  sim\n");
    let scene = Scene::new(&format!("{KERNEL}[matrix]\nseed = [1, 2]\n"));
    let (stdout, stderr) =
        scene.run(&["list", "two.toml", "--kernel", "6.1-rt", "--mips", "250"], 0);
    assert_eq!(stdout, "1  vm  Linux 6.1-rt, 250 MIPS\n2  vm  Linux 6.1-rt, 250 MIPS, boot 2\n");
    assert_eq!(stderr, "2 experiments: 2 in vm on 2 machines\n");
}

#[test]
fn list_shows_what_of_the_papers_is_covered() {
    let file = format!(
        "{KERNEL}[matrix]\n\"vm.kernel\" = ['6.1', '6.12-rt']\n\"load.kind\" = ['none', 'cpu', 'both']\n"
    );
    let scene = Scene::new(&file);
    let (stdout, _) = scene.run(&["list", "two.toml", "--coverage"], 0);
    let line = |start: &str| stdout.lines().find(|line| line.starts_with(start)).unwrap_or(&stdout);
    assert_eq!(line("gateway "), "gateway                   6.1  6.12-rt");
    assert_eq!(line("simple, 8 "), "simple, 8 bytes        2 of 9   2 of 9");
    assert_eq!(line("user space"), "user space             0 of 9   0 of 9");
    assert!(stdout.contains("\n4 of 270 combinations on 2 kernels: "), "{stdout}");
    assert!(stdout.contains("\nmissing by traffic: one-at-a-time 86, half 90, flood 90\n"));
    assert!(stdout.contains("\nmissing by load: none 88, cpu 88, ethernet 90\n"), "{stdout}");
    assert!(line("the papers: ").contains("653 experiments on 5 kernels"), "{stdout}");

    let arguments = ["list", "two.toml", "--coverage", "--json"];
    let (stdout, _) = scene.run(&arguments, 0);
    let parsed = |line| serde_json::from_str::<Value>(line).unwrap();
    let objects: Vec<_> = stdout.lines().map(parsed).collect();
    assert_eq!(objects.len(), 2 * 15 + 1);
    assert!(objects[..30].iter().all(|object| object["type"] == "coverage"), "{stdout}");
    assert_eq!(objects[30]["type"], "coverage_total");
    let gateways: Vec<_> = objects.iter().map(|object| &object["data"]).collect();
    let simple = gateways[2];
    assert_eq!((&simple["kernel"], &simple["gateway"]), (&"6.1".into(), &"simple, 8 bytes".into()));
    assert_eq!((&simple["covered"], &simple["of"]), (&2.into(), &9.into()));
    assert_eq!(simple["missing"][0], serde_json::json!(["one-at-a-time", "ethernet"]));
    let total = gateways[30];
    assert_eq!((&total["covered"], &total["of"]), (&4.into(), &270.into()));
    assert_eq!(total["missing_by_load"]["ethernet"], 90);
}

#[test]
fn identifiers_are_set_as_they_are_written() {
    let scene = Scene::new(CAMPAIGN);
    for (set, frame) in [
        ("traffic.id=0x124", "124#"),
        ("traffic.id=[0x124, 0x125]", "125#"),
        ("traffic.id=0x18FEF100x", "18FEF100#"),
    ] {
        let only = ["--only", "calm", "--set", "count=4", "--set", set];
        scene.run(&[&["run", "two.toml", "--out", "out"], &only[..]].concat(), 0);
        let frames = fs::read_to_string(scene.out().join("results/calm.csv")).unwrap();
        assert!(frames.contains(frame), "{set}: {frames}");
    }
}

#[test]
fn what_machines_need_is_reported_in_one_sentence() {
    let scene = Scene::new(KERNEL);
    let empty = scene.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let run = |name: &str, value: &Path| {
        let mut command = scene.command(&["run", "two.toml", "--out", "out"]);
        reported(&command.env("CANDOR_CACHE", &empty).env(name, value).output().unwrap(), 2).1
    };
    let no_qemu = run("PATH", &empty);
    assert!(no_qemu.starts_with("candor: qemu-system-x86_64 was not found"), "{no_qemu}");
    assert_eq!(no_qemu.lines().count(), 1, "{no_qemu}");
    // Where there is no QEMU, that is what is reported.
    let no_kernel = run("CANDOR_CACHE", &empty);
    let is_reported = no_kernel.contains("candor vm fetch 6.12") || no_kernel == no_qemu;
    assert!(is_reported, "{no_kernel}");
}
