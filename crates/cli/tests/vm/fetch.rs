//! `vm fetch`: downloads, own builds, and what goes wrong with them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::fabricated;
use crate::setting::{DOWNLOAD, PACKAGE, RELEASE, UNPACK, World, fails, stderr, stdout, succeeds};

#[test]
fn a_kernel_is_fetched_once() {
    let world = World::new();
    let output = world.fetch("6.12-rt");
    succeeds(&output);
    assert_eq!(stdout(&output), format!("6.12-rt: {RELEASE} ({PACKAGE} 6.12.1-1, trixie)\n"));
    assert_eq!(world.asked(), ["update", "download"]);
    assert_eq!(world.kernels(), [RELEASE]);
    let cached = world.path("cache/kernels").join(RELEASE);
    assert_eq!(fs::read(cached.join("bzImage")).unwrap(), fabricated::image(RELEASE));
    let index = fs::read_to_string(cached.join("modules/index")).unwrap();
    assert!(index.contains("kvaser_pci: can_dev sja1000\n"), "{index}");

    // From now on neither apt nor a network is needed.
    fs::remove_dir_all(world.path("bin")).unwrap();
    for kernel in ["6.12-rt", "debian:6.12.1+deb13-rt-amd64"] {
        let output = world.run(&["fetch", kernel, "--json"]);
        succeeds(&output);
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["type"], "kernel");
        let data = &line["data"];
        assert_eq!(data["kernel"], kernel);
        assert_eq!(data["release"], RELEASE);
        assert_eq!(data["package"], format!("{PACKAGE} 6.12.1-1"));
        assert_eq!(data["suite"], "trixie");
        assert_eq!(data["system_map"], serde_json::Value::Null);
        assert_eq!(data["sha256"].as_str().unwrap().len(), 64);
        assert!(data["image"].as_str().unwrap().ends_with("/bzImage"));
        assert!(data["modules"].as_str().unwrap().ends_with("/modules"));
    }
}

#[test]
fn apt_works_in_the_cache_alone() {
    let world = World::new();
    succeeds(&world.fetch("6.12-rt"));
    let apt = world.path("cache/apt").canonicalize().unwrap();
    let asked = fs::read_to_string(world.path("asked")).unwrap();
    let option = format!("-c {}/apt.conf", apt.display());
    assert!(asked.lines().all(|line| line.starts_with(&option)), "{asked}");
    let settings = fs::read_to_string(apt.join("apt.conf")).unwrap();
    for line in settings.lines().filter(|line| line.starts_with("Dir::")) {
        let value = line.split('"').nth(1).unwrap();
        assert!(value.is_empty() || Path::new(value).starts_with(&apt), "{line}");
    }
    let sources = fs::read_to_string(apt.join("candor.sources")).unwrap();
    let field = |name: &str| {
        let values = sources.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    let addresses = ["http://mirror.example/debian", "http://mirror.example/debian-security"];
    assert_eq!(field("URIs"), addresses);
    let suites = [
        "bookworm bookworm-backports trixie trixie-backports",
        "bookworm-security trixie-security",
    ];
    assert_eq!(field("Suites"), suites);
    assert!(field("Signed-By").iter().all(|keys| keys.ends_with("/keys")));
}

#[test]
fn what_fails_in_apt_or_dpkg_is_said_and_leaves_nothing() {
    let fail = |says: &str| format!("echo \"{says}\" >&2; exit 100");
    let cases: [(&str, &str, &str, &[&str]); 10] = [
        // update, download, unpack
        (
            &fail("E: Failed to fetch x  Could not resolve m"),
            DOWNLOAD,
            UNPACK,
            &["the mirror cannot be reached", "--mirror", "--kernel", "--modules"],
        ),
        (
            &fail("E: The repository x does not have a Release file."),
            DOWNLOAD,
            UNPACK,
            &["the mirror does not have Debian's package lists", "--mirror"],
        ),
        (
            &fail("E: The repository x is not signed."),
            DOWNLOAD,
            UNPACK,
            &["the signature is not from Debian", "debian-archive-keyring"],
        ),
        (
            &fail("E: write (28: No space left on device)"),
            DOWNLOAD,
            UNPACK,
            &["no space for Debian's package lists", "free space", "CANDOR_CACHE"],
        ),
        (
            "exit 0",
            &fail("E: Failed to fetch x  Hash Sum mismatch"),
            UNPACK,
            &["linux-image-6.12.1+deb13-rt-amd64 is damaged", "Hash Sum mismatch", "try again"],
        ),
        (
            "exit 0",
            "head -c 1000 /dev/zero > package.deb",
            UNPACK,
            &["is damaged: it has 1000 bytes instead of 2097152"],
        ),
        ("exit 0", "exit 0", UNPACK, &["cannot be downloaded"]),
        (
            "exit 0",
            &fail("E: You don't have enough free space in /c."),
            UNPACK,
            &["no space for the package linux-image-6.12.1+deb13-rt-amd64", "free space"],
        ),
        (
            "exit 0",
            DOWNLOAD,
            &fail("dpkg-deb: error: x is not a Debian format archive"),
            &[
                "package.deb cannot be unpacked",
                "is not a Debian format archive",
                "download it again",
            ],
        ),
        (
            "exit 0",
            DOWNLOAD,
            "yes damaged | head -c 2000",
            &["package.deb cannot be unpacked: its archive is damaged"],
        ),
    ];
    for (update, download, unpack, phrases) in cases {
        let world = World::new();
        world.apt(update, download);
        world.program("dpkg-deb", unpack);
        fails(&world.fetch("6.12-rt"), phrases);
        assert_eq!(world.kernels(), [""; 0]);
        // And when all is well again, it works.
        world.apt("exit 0", DOWNLOAD);
        world.program("dpkg-deb", UNPACK);
        succeeds(&world.fetch("6.12-rt"));
    }
}

#[test]
fn a_full_disk_is_reported_whoever_notices_it() {
    let room = ["No space left on device", "free space there", "CANDOR_CACHE"];
    // Whatever is written to this file finds no room.
    let full = |world: &World, file: &str| {
        let file = world.path("cache").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/full", file).unwrap();
    };
    // apt's settings, which are written beside their place first.
    let world = World::new();
    full(&world, "apt/apt.new");
    fails(&world.fetch("6.12-rt"), &room);
    assert_eq!(world.asked(), [""; 0]);
    // What is unpacked.
    let world = World::new();
    let unpack = "for folder in \"$WORLD\"/cache/kernels/.fetch-*; do ln -s /dev/full \"$folder/bzImage\"; \
                  done; exec tar -cf - -C \"$WORLD/tree\" .";
    world.program("dpkg-deb", unpack);
    fails(&world.fetch("6.12-rt"), &room);
    assert_eq!(world.kernels(), [""; 0]);
}

#[test]
fn a_suite_that_is_gone_does_not_stop_the_others() {
    let world = World::new();
    let update = "touch \"$WORLD/cache/apt/lists/m_Packages\"; \
                  echo 'E: The repository m trixie-backports does not have a Release file.' >&2; \
                  exit 100";
    world.apt(update, DOWNLOAD);
    let output = world.fetch("6.12-rt");
    succeeds(&output);
    let note = "not all Debian package lists could be downloaded";
    let message = stderr(&output);
    assert!(message.contains(note) && message.contains("m trixie-backports"), "{message}");
}

#[test]
fn a_program_that_is_absent_is_named() {
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        let world = World::new();
        fs::remove_file(world.path("bin").join(program)).unwrap();
        // Nothing but these: the machine may have the real ones.
        let output = world.fetching("6.12").env("PATH", world.path("bin")).output().unwrap();
        let sentence = format!("{program} was not found");
        fails(&output, &[&sentence, "packages apt and dpkg", "dpkg-deb -x", "--modules DIR"]);
    }
}

#[test]
fn a_file_of_keys_that_is_absent_is_named() {
    let world = World::new();
    fs::remove_file(world.path("keys")).unwrap();
    fails(&world.fetch("6.12-rt"), &["keys cannot be read"]);
}

#[test]
fn what_debian_does_not_have_is_said() {
    let world = World::new();
    fails(&world.fetch("5.9"), &["no complete kernel 5.9", "the kernels are 6.12-rt"]);
    let wanted = "debian:6.12.2+deb13-rt-amd64";
    fails(&world.fetch(wanted), &[wanted, "the kernels are debian:6.12.1+deb13-rt-amd64"]);
    fs::write(world.path("show"), "").unwrap();
    fails(&world.fetch("6.12-rt"), &["no complete kernel 6.12-rt", "the kernels are none"]);
    let output = world.fetch("latest");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("latest is not a kernel; write a series such as 6.12"));
}

#[test]
fn packages_without_a_usable_kernel_are_refused() {
    let world = World::new();
    fs::remove_file(world.path("tree/boot/vmlinuz-made")).unwrap();
    let sentence = format!("{PACKAGE} 6.12.1-1 contains no kernel image");
    fails(&world.fetch("6.12-rt"), &[&sentence, "candor vm kernels"]);

    world.tree(&fabricated::NEEDED[..3]);
    let sentence = format!("kernel {RELEASE} was built without CAN drivers");
    fails(&world.fetch("6.12-rt"), &[&sentence, "CONFIG_CAN_DEV"]);

    world.tree(fabricated::NEEDED);
    fs::write(world.path("tree/boot/vmlinuz-made"), fabricated::image("6.12.2-x")).unwrap();
    fails(&world.fetch("6.12-rt"), &["is a module of 6.12.1", "the image is 6.12.2-x"]);
    assert_eq!(world.kernels(), [""; 0]);
}

#[test]
fn own_builds_are_taken_as_they_are() {
    let world = World::new();
    fs::remove_dir_all(world.path("bin")).unwrap();
    let image = world.path("tree/boot/vmlinuz-made");
    let take = |modules: &Path| {
        let mut command = world.command(&["fetch", "--json", "--kernel"]);
        command.arg(&image).arg("--modules").arg(modules).output().unwrap()
    };
    // The folder of the modules, and all above it up to that into which a package was unpacked.
    let mut sums = Vec::new();
    for below in ["", "usr/lib/modules", "usr/lib/modules/6.12.1+deb13-rt-amd64"] {
        let output = take(&world.path("tree").join(below));
        succeeds(&output);
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["data"]["kernel"], RELEASE);
        assert_eq!(line["data"]["package"], serde_json::Value::Null);
        sums.push(line["data"]["sha256"].as_str().unwrap().to_owned());
    }
    sums.dedup();
    assert_eq!(sums.len(), 1);
    let kernels = world.kernels();
    assert!(kernels.len() == 1 && kernels[0].starts_with("own-"), "{kernels:?}");
    let output = world.run(&["kernels"]);
    succeeds(&output);
    assert!(stdout(&output).contains("own build"), "{}", stdout(&output));

    fails(&take(&world.path("gone")), &["gone cannot be read"]);
    world.tree(&fabricated::NEEDED[1..]);
    fails(&take(&world.path("tree")), &["built without CAN:", "CONFIG_CAN=m"]);
    fs::write(&image, "no kernel").unwrap();
    fails(&take(&world.path("tree")), &["not a Linux kernel for x86", "arch/x86/boot/bzImage"]);
    fs::remove_file(&image).unwrap();
    fails(&take(&world.path("tree")), &["vmlinuz-made cannot be read"]);

    let output = world.run(&["fetch", "--kernel", "bzImage"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--modules <DIR>"), "{}", stderr(&output));
    let output = world.run(&["fetch"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Starts a fetch and reads what it says until `phrase`.
fn start(world: &World, phrase: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = world.fetching("6.12-rt");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(phrase) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before {phrase}");
    }
    (child, lines)
}

#[test]
fn an_interrupted_fetch_leaves_nothing() {
    let world = World::new();
    world.apt("exit 0", "while echo dlstatus:1:1.0:x; do sleep 0.02; done");
    let (mut child, mut lines) = start(&world, PACKAGE);
    assert_eq!(world.kernels().len(), 1, "the folder in work");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut lines, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest}");
    assert!(rest.ends_with("candor: interrupted\n"), "{rest}");
    assert_eq!(world.kernels(), [""; 0]);
}

#[test]
fn two_fetches_at_once_fetch_once() {
    let world = World::new();
    let wait = "until [ -e \"$WORLD/go\" ]; do sleep 0.02; done";
    world.apt("exit 0", &format!("{wait}; {DOWNLOAD}"));
    let (mut first, _first_lines) = start(&world, PACKAGE);
    let (mut second, _second_lines) = start(&world, "another download uses this cache");
    fs::write(world.path("go"), "").unwrap();
    for child in [&mut first, &mut second] {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!(world.asked().iter().filter(|word| *word == "download").count(), 1);
    assert_eq!(world.kernels(), [RELEASE]);
}
