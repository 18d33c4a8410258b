//! `vm kernels`, `vm cache` and `vm clean`: what is there, what is stale, what goes.

use std::fs;
use std::process::Output;

use crate::setting::{RELEASE, SIZE, World, fails, stderr, stdout, succeeds};

#[test]
fn kernels_are_listed() {
    let world = World::new();
    let output = world.run(&["kernels"]);
    succeeds(&output);
    assert_eq!(
        stdout(&output),
        "no kernel is in the cache; download one with `candor vm fetch 6.12`\n"
    );
    assert!(stderr(&output).contains("`candor vm kernels --update`"), "{}", stderr(&output));

    let keys = world.path("keys");
    let mut command =
        world.command(&["kernels", "--update", "--mirror", "http://mirror.example/debian"]);
    let output = command.arg("--keyring").arg(&keys).output().unwrap();
    succeeds(&output);
    let expected = format!(
        "available  release                package version  suite   download\n\
         ---------  ---------------------  ---------------  ------  --------\n\
         6.12-rt    {RELEASE}  6.12.1-1         trixie    2.1 MB\n\n\
         no kernel is in the cache; download one with `candor vm fetch 6.12`\n"
    );
    assert_eq!(stdout(&output), expected);
    assert_eq!(world.asked(), ["update"]);

    succeeds(&world.fetch("6.12-rt"));
    let output = world.run(&["kernels", "--json"]);
    succeeds(&output);
    let text = stdout(&output);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [available, cached] = lines.as_slice() else { panic!("{text}") };
    assert_eq!(available["type"], "available");
    assert_eq!(available["data"]["kernel"], "6.12-rt");
    assert_eq!(available["data"]["series"], "6.12");
    assert_eq!(available["data"]["is_rt"], true);
    assert_eq!(available["data"]["release"], RELEASE);
    assert_eq!(available["data"]["version"], "6.12.1-1");
    assert_eq!(available["data"]["suite"], "trixie");
    assert_eq!(available["data"]["download_bytes"], SIZE);
    assert_eq!(cached["type"], "cached");
    assert_eq!(cached["data"]["kernel"], "6.12-rt");
    assert_eq!(cached["data"]["release"], RELEASE);
    assert_eq!(cached["data"]["damage"], serde_json::Value::Null);
    assert!(cached["data"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_damaged_kernel_is_named_and_not_used() {
    let world = World::new();
    succeeds(&world.fetch("6.12-rt"));
    let module = world.path("cache/kernels").join(RELEASE).join("modules/can.ko");
    fs::write(&module, "damaged").unwrap();
    let sentence = "modules/can.ko is damaged: its checksum differs; delete ";
    fails(&world.fetch("6.12-rt"), &[sentence]);
    let output = world.run(&["kernels", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(sentence), "{}", stderr(&output));
    let text = stdout(&output);
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(line["data"]["damage"].as_str().unwrap().contains(sentence), "{text}");
    assert_eq!(line["data"]["sha256"], serde_json::Value::Null);
    // As the sentence says.
    fs::remove_dir_all(world.path("cache/kernels").join(RELEASE)).unwrap();
    succeeds(&world.fetch("6.12-rt"));
}

/// A cache with a kernel, two machines of which one has reports, and lists of packages. There is no
/// QEMU: which one the machines need is not looked at.
fn filled() -> World {
    let world = World::new();
    succeeds(&world.fetch("6.12-rt"));
    fs::remove_dir_all(world.path("cache/apt")).unwrap();
    let fill = |name: &str, bytes: &[u8]| {
        let path = world.path("cache").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let about =
        br#"{"kernel": "5.9", "release": "5.9.1", "kernel_sha256": "00", "guest_sha256": "11",
        "qemu": "7.2", "flags": [], "shift": 1, "mips": 500}"#;
    fill("machines/gone/machine.json", about);
    fill("machines/gone/state", &[7; 3_000_000]);
    fill("machines/part/state.part0", &[7; 1_000_000]);
    fill("reports/gone/machine.json", about);
    fill("reports/gone/one", &[7; 200_000]);
    fill("apt/lists/m", &[7; 500_000]);
    world
}

fn cached(world: &World, arguments: &[&str]) -> Output {
    let output = world.command(arguments).env("PATH", world.path("bin")).output().unwrap();
    succeeds(&output);
    let note = "cannot check which QEMU the machines need: qemu-system-x86_64 was not found";
    assert!(stderr(&output).starts_with(note), "{}", stderr(&output));
    output
}

#[test]
fn the_cache_is_shown_with_what_is_stale() {
    let world = filled();
    let output = cached(&world, &["cache"]);
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert!(lines[0].starts_with("kernel         6.12-rt "), "{text}");
    assert_eq!(
        lines[1..],
        [
            "machine        5.9      3.0 MB  kernel not here  gone",
            "machine        -        1.0 MB  unfinished       part",
            "results        5.9      0.2 MB  kernel not here  gone",
            "package lists  Debian   0.5 MB                   apt",
        ]
    );
    let message = stderr(&output);
    assert!(message.lines().last().unwrap().starts_with("5 folders with "), "{message}");

    let output = cached(&world, &["cache", "--json"]);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["data"]["stale"], serde_json::Value::Null);
    assert_eq!(lines[3]["type"], "cache");
    let data = &lines[3]["data"];
    assert_eq!((&data["kind"], &data["of"]), (&"results".into(), &"5.9".into()));
    assert_eq!(data["stale"], "kernel not here");
    assert!(data["bytes"].as_u64().unwrap() > 200_000);
    assert!(data["folder"].as_str().unwrap().ends_with("/reports/gone"));
}

#[test]
fn what_is_stale_goes_and_more_by_choice() {
    let there = |world: &World| {
        let names = ["kernels/6.12.1+deb13-rt-amd64", "machines/gone", "reports/gone", "apt"];
        names.map(|name| world.path("cache").join(name).exists())
    };
    for (arguments, left, sum) in [
        (&["clean", "--dry-run"][..], [true; 4], "3 folders with 4.2 MB would be removed from "),
        (&["clean"], [true, false, false, true], "3 folders with 4.2 MB removed from "),
        (&["clean", "--all"], [true, false, false, false], "4 folders with 4.7 MB removed from "),
        (&["clean", "--kernels"], [false, false, false, true], "4 folders with "),
        (&["clean", "--all", "--kernels"], [false; 4], "5 folders with "),
    ] {
        let world = filled();
        let output = cached(&world, arguments);
        assert_eq!(there(&world), left, "{arguments:?}");
        let message = stderr(&output);
        assert!(message.lines().last().unwrap().starts_with(sum), "{arguments:?}: {message}");
        assert!(stdout(&output).contains("\nresults "), "{}", stdout(&output));
        if arguments.len() == 1 {
            // Nothing is left to be done.
            assert_eq!(stdout(&cached(&world, arguments)), "");
        }
    }
    let world = filled();
    let booting = fs::File::create(world.path("cache/machines/part/lock")).unwrap();
    booting.lock().unwrap();
    let output = cached(&world, &["clean", "--json"]);
    assert!(stderr(&output).contains("machines/part is in use by another process and was kept"));
    assert_eq!(stdout(&output).lines().count(), 2);
    assert!(world.path("cache/machines/part/state.part0").exists());
}
