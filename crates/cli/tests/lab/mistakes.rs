//! Campaigns, files and folders that are not right.

use std::fs;

use crate::scene::{CAMPAIGN, KERNEL, Scene, names};

#[test]
fn what_is_wrong_is_reported_with_place_and_remedy_before_anything_is_written() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "[trafic]\nkind = 'flood'\n",
            &[],
            &["two.toml:1:2: error: unknown key `trafic`", "did you mean `traffic`?"],
        ),
        (CAMPAIGN, &["--set", "count=-5"], &["`count` is -5, but must be 1 to "]),
        (CAMPAIGN, &["--set", "count=0"], &["`count` is 0, but must be 1 to "]),
        (
            CAMPAIGN,
            &["--set", "testbed=vn"],
            &["`testbed` is \"vn\", but must be `sim`, `vm` or `host`"],
        ),
        (CAMPAIGN, &["--set", "traffic.knd=flood"], &["unknown key `knd`", "did you mean `kind`?"]),
        (CAMPAIGN, &["--set", "count"], &["--set"]),
        (CAMPAIGN, &["--set", "=1"], &["--set"]),
        (CAMPAIGN, &["--set", "traffic.length=9"], &["`length` is 9"]),
        (CAMPAIGN, &["--set", "gateway.profile=mpc"], &["either a `profile` or a `delay`"]),
        (
            CAMPAIGN,
            &["--only", "x*"],
            &["two.toml: no experiment matches `x*`; there are calm, flood"],
        ),
        (CAMPAIGN, &["--seed=-1"], &["--seed"]),
        (CAMPAIGN, &["--testbed", "vn"], &["--testbed", "expected one of sim, vm"]),
        (CAMPAIGN, &["--testbed", "vm"], &["a gateway of constant delay", "gateway.kind"]),
        (CAMPAIGN, &["--shard", "0/3"], &["such as 3/8"]),
        (CAMPAIGN, &["--shard", "4/3"], &["such as 3/8"]),
        (CAMPAIGN, &["--shard", "3"], &["such as 3/8"]),
        (
            CAMPAIGN,
            &["--set", "bus.oit.bitrate=500k"],
            &["--set bus.oit.bitrate=500k: unknown bus `oit`; did you mean `out`?"],
        ),
        (CAMPAIGN, &["--set", "bus.lin.bitrate=20k"], &["unknown bus `lin`; did you mean `in`?"]),
        (CAMPAIGN, &["--kernel", "9.9"], &["--kernel 9.9 has no effect", "--testbed vm"]),
        (CAMPAIGN, &["--mips", "250"], &["--mips 250 has no effect"]),
        (CAMPAIGN, &["--set", "vm.mips=250"], &["--set vm.mips=250 has no effect"]),
        (CAMPAIGN, &["--set", "traffic.log=a.log"], &["has no effect", "traffic.kind=replay"]),
        (
            CAMPAIGN,
            &["--only", "flood", "--set", "traffic.turnaround_longest=1ms"],
            &["has no effect", "traffic.kind=one-at-a-time"],
        ),
        (
            CAMPAIGN,
            &["--only", "flood", "--set", "traffic.timeout=4s"],
            &["has no effect", "traffic.kind=one-at-a-time"],
        ),
        (KERNEL, &["--set", "gateway.profile=mpc5200-2.6.33"], &["has no effect"]),
        (CAMPAIGN, &["--set", "title=7"], &["write --set 'title=\"7\"'"]),
        (CAMPAIGN, &["--set", "traffic.id=0x800"], &["--set traffic.id=0x800x"]),
        (CAMPAIGN, &["--kernel", "./bzImage"], &["--kernel ./bzImage is a file", "--modules DIR"]),
        (CAMPAIGN, &["--modules", "lib"], &["--kernel"]),
        (KERNEL, &["--mips", "400"], &["--mips", "400 MIPS is not possible"]),
        (KERNEL, &["--kernel", "linux"], &["--kernel", "linux"]),
        (KERNEL, &["--set", "vm.kernel=6.12"], &["`kernel` is a number", "--kernel 6.12"]),
        ("count = \n", &[], &["two.toml:1:"]),
        ("", &[], &["`bus` is missing", "`traffic` is missing"]),
    ];
    for (text, arguments, parts) in cases {
        let scene = Scene::new(text);
        let (stdout, stderr) =
            scene.run(&[&["run", "two.toml", "--out", "out"], *arguments].concat(), 2);
        assert_eq!(stdout, "", "{arguments:?}");
        for part in *parts {
            assert!(stderr.contains(part), "{arguments:?}: {part} is missing in\n{stderr}");
        }
        assert_eq!(names(scene.0.path()), ["two.toml"], "{arguments:?}");
    }
}

#[test]
fn files_and_folders_that_are_not_right_are_one_sentence() {
    let scene = Scene::new(CAMPAIGN);
    fs::write(scene.0.path().join("file"), "").unwrap();
    fs::create_dir(scene.0.path().join("empty")).unwrap();
    let no_claims = CAMPAIGN.split("[[claim]]").next().unwrap();
    fs::write(scene.0.path().join("plain.toml"), no_claims).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["run", "absent.toml"], "candor: absent.toml cannot be read: "),
        (&["list", "absent.toml"], "candor: absent.toml cannot be read: "),
        (&["run", "two.toml", "--out", "file"], "candor: file/results cannot be written: "),
        (&["claims", "two.toml", "--out", "file"], "candor: file/results cannot be written: "),
        (&["claims", "plain.toml", "--out", "out"], "candor: plain.toml has no claims; "),
        (&["report", "absent"], "candor: absent/results: the folder does not exist; "),
        (&["report", "empty"], "candor: empty/results: the folder does not exist; "),
    ];
    for (arguments, start) in cases {
        let (stdout, stderr) = scene.run(arguments, 2);
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(start), "{arguments:?}: {stderr}");
    }
    assert_eq!(names(scene.0.path()), ["empty", "file", "plain.toml", "two.toml"]);
}

#[test]
fn on_a_kernel_a_run_waits_as_long_as_is_set_whatever_it_sends() {
    let scene = Scene::new(KERNEL);
    for kind in ["one-at-a-time", "open-loop", "half", "flood"] {
        let kind = format!("traffic.kind={kind}");
        let (stdout, stderr) =
            scene.run(&["list", "two.toml", "--set", &kind, "--set", "traffic.timeout=4s"], 0);
        assert!(!stdout.is_empty() && !stderr.contains("has no effect"), "{kind}: {stderr}");
    }
}
