//! `candor vm` as people use it, with programs in place of apt and dpkg that do as they are told:
//! no network is needed. What real packages do is tried by `./test`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

#[path = "../../vm/src/kernel/fabricated.rs"]
mod fabricated;

/// The one kernel that the fabricated Debian has.
const PACKAGE: &str = "linux-image-6.12.1+deb13-rt-amd64";
const RELEASE: &str = "6.12.1+deb13-rt-amd64";
/// The size of its package.
const SIZE: usize = 2 << 20;

/// A download that works.
const DOWNLOAD: &str = "echo dlstatus:1:50.0:half; head -c $SIZE /dev/zero > package.deb";
/// A package that can be unpacked.
const UNPACK: &str = "exec tar -cf - -C \"$WORLD/tree\" .";

/// A folder with programs in place of apt and dpkg, and a cache.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// One in which everything works.
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        world.tree(fabricated::NEEDED);
        let show = format!(
            "Package: {PACKAGE}\nVersion: 6.12.1-1\nFilename: pool/x.deb\nSize: {SIZE}\n\n"
        );
        let madison =
            format!(" {PACKAGE} | 6.12.1-1 | http://m/debian trixie/main amd64 Packages\n");
        fs::write(world.path("show"), show).unwrap();
        fs::write(world.path("madison"), madison).unwrap();
        fs::write(world.path("keys"), "").unwrap();
        world.program(
            "apt-cache",
            &format!(
                "case \" $* \" in\n*\" pkgnames \"*) echo {PACKAGE};;\n\
                 *\" madison \"*) cat \"$WORLD/madison\";;\n*) cat \"$WORLD/show\";;\nesac"
            ),
        );
        world.apt("exit 0", DOWNLOAD);
        world.program("dpkg-deb", UNPACK);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the package holds.
    fn tree(&self, modules: &[(&str, &str)]) {
        let tree = self.path("tree");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join("boot")).unwrap();
        fs::write(tree.join("boot/vmlinuz-made"), fabricated::image(RELEASE)).unwrap();
        let folder = tree.join("usr/lib/modules").join(RELEASE);
        fabricated::tree(&folder, RELEASE, modules);
    }

    fn program(&self, name: &str, script: &str) {
        fs::create_dir_all(self.path("bin")).unwrap();
        let path = self.path("bin").join(name);
        let folder = self.folder.path().display();
        fs::write(&path, format!("#!/bin/sh\nWORLD='{folder}' SIZE={SIZE}\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What apt does when it fetches lists, and when it fetches a package.
    fn apt(&self, update: &str, download: &str) {
        let script = format!(
            "echo \"$*\" >> \"$WORLD/asked\"\n\
             case \" $* \" in\n*\" update \"*) {update};;\n*) {download};;\nesac"
        );
        self.program("apt-get", &script);
    }

    /// What apt was asked for: `update` or `download`, each time.
    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let word = |line: &str| {
            let words = ["update", "download"];
            words.iter().find(|word| line.contains(*word)).unwrap().to_string()
        };
        text.lines().map(word).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        let own = self.path("bin");
        let path = std::env::join_paths([own.as_path(), Path::new("/usr/bin"), Path::new("/bin")]);
        command
            .arg("vm")
            .args(arguments)
            .env("CANDOR_CACHE", self.path("cache"))
            .env("PATH", path.unwrap())
            .stdin(Stdio::null());
        command
    }

    fn fetching(&self, kernel: &str) -> Command {
        let keys = self.path("keys");
        let mut command =
            self.command(&["fetch", kernel, "--mirror", "http://mirror.example/debian"]);
        command.arg("--keyring").arg(keys);
        command
    }

    fn fetch(&self, kernel: &str) -> Output {
        self.fetching(kernel).output().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The folders of kernels, those in work too.
    fn kernels(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/kernels")).into_iter().flatten();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries.map(|entry| name(entry).into_string().unwrap()).collect()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// Fails with the exit code 2 and a sentence that has all of `phrases`.
#[track_caller]
fn fails(output: &Output, phrases: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let last = message.lines().last().unwrap();
    assert!(last.starts_with("candor: "), "{message}");
    for phrase in phrases {
        assert!(last.contains(phrase), "{phrase}: {message}");
    }
}

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

// ---- The cache -----------------------------------------------------------------------------------

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

// ---- Guests --------------------------------------------------------------------------------------

/// An experiment with a rule of its own, in the folder of `world`.
fn experiment(world: &World, gateway: &str, rule: &str) {
    let text = format!(
        "testbed = \"vm\"\ncount = 20\nbus.in.bitrate = \"1M\"\nbus.out.bitrate = \"1M\"\n\
         gateway.kind = \"{gateway}\"\ngateway.rules = \"own.rules.toml\"\n\
         traffic.kind = \"one-at-a-time\"\n"
    );
    let rules = format!(
        "[bus]\nin = \"can0\"\nout = \"can1\"\n\
         [[rule]]\nname = \"mine\"\nfrom = \"in\"\nto = \"out\"\n{rule}\n"
    );
    fs::write(world.path("own.toml"), text).unwrap();
    fs::write(world.path("own.rules.toml"), rules).unwrap();
}

/// `candor lab run` with the experiment of `world`.
fn lab(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command
        .current_dir(world.folder.path())
        .args(["lab", "run", "own.toml", "--out", "out"])
        .args(arguments)
        .env("CANDOR_CACHE", world.path("cache"))
        .stdin(Stdio::null());
    command
}

#[test]
fn rules_that_can_gw_cannot_do_are_named_before_anything_is_started() {
    let world = World::new();
    // Two patterns are two jobs of can-gw, and each of these needs a handle of its own.
    let rule = "match = [\"0x123\", \"0x456\"]\nor = { id = \"0x0\" }\nuid = 7";
    experiment(&world, "kernel", rule);
    // There is neither QEMU nor a kernel here.
    let output = lab(&world, &[]).env("PATH", world.path("bin")).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("can-gw cannot run rule `mine`: "), "{message}");
    assert!(!world.path("out").exists());
    // Our own engine can.
    experiment(&world, "engine", rule);
    let output = lab(&world, &[]).env("PATH", world.path("bin")).output().unwrap();
    fails(&output, &["qemu-system-x86_64 was not found"]);
}

/// The first kernel of `CANDOR_KERNELS`, in the cache of `world` too.
fn one_kernel(world: &World) -> String {
    let kernels = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let fetched = candor_vm::Cache::open(None).unwrap().folder().join("kernels");
    fs::create_dir(world.path("cache")).unwrap();
    std::os::unix::fs::symlink(fetched, world.path("cache/kernels")).unwrap();
    kernels.split_whitespace().next().expect("a kernel").into()
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn results_of_another_qemu_are_not_taken_from_the_cache() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    // A QEMU of our own, beside the modules and the ROMs of the machine's.
    let qemu = candor_vm::Qemu::find().unwrap().program.canonicalize().unwrap();
    let prefix = world.path("patched");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    for folder in ["lib", "share"] {
        let there = qemu.parent().unwrap().parent().unwrap().join(folder);
        std::os::unix::fs::symlink(there, prefix.join(folder)).unwrap();
    }
    let patched = prefix.join("bin/qemu-system-x86_64");
    fs::copy(&qemu, &patched).unwrap();
    let path = std::env::join_paths(
        [prefix.join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    // Which of them ran, what it made, and whether the cache knew it.
    let run = |arguments: &[&str], path: Option<&std::ffi::OsStr>| {
        let mut command = lab(&world, &[&["--kernel", &kernel, "--json"], arguments].concat());
        command.envs(path.map(|path| ("PATH", path)));
        let output = command.output().unwrap();
        succeeds(&output);
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let file = world.folder.path().join(line["data"]["file"].as_str().unwrap());
        let result: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let sum = result["machine"]["qemu_sha256"].as_str().unwrap().to_owned();
        let min = result["metrics"]["gateway_latency"]["min_ns"].clone();
        (sum, min, line["data"]["cached"].as_bool().unwrap())
    };
    let machines = || fs::read_dir(world.path("cache/machines")).unwrap().count();

    let first = run(&[], None);
    assert_eq!(run(&[], None), (first.0.clone(), first.1.clone(), true));
    // The same bytes elsewhere are the same QEMU.
    assert_eq!(run(&[], Some(&path)), (first.0.clone(), first.1.clone(), true));
    assert_eq!(machines(), 1);

    // One byte more: all else is the same, and so are the nanoseconds.
    let mut bytes = fs::read(&qemu).unwrap();
    bytes.push(0);
    fs::remove_file(&patched).unwrap();
    fs::write(&patched, bytes).unwrap();
    fs::set_permissions(&patched, fs::Permissions::from_mode(0o755)).unwrap();
    let other = run(&[], Some(&path));
    assert_ne!(other.0, first.0);
    assert!(!other.2, "another QEMU's result was taken from the cache");
    assert_eq!((machines(), &other.1), (2, &first.1), "and its saved machine was not");
    let fresh = run(&["--no-cache"], Some(&path));
    assert_eq!(fresh, (other.0.clone(), other.1, false));

    // What the other one has made is stale now.
    let output = world
        .command(&["clean", "--dry-run", "--json"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    succeeds(&output);
    let text = stdout(&output);
    assert_eq!(text.matches(r#""stale":"another QEMU""#).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn a_long_experiment_shows_that_it_lives() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    let long = ["--kernel", &kernel, "--set", "count=200000", "--set", "traffic.kind=half"];
    let mut command = lab(&world, &long);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Each comes ten seconds after the one before, if the machine is quick enough.
    let signs: Vec<_> = lines.by_ref().map(Result::unwrap).take(2).collect();
    let seconds: Vec<u64> = signs
        .iter()
        .map(|line| {
            let seconds = line
                .strip_prefix("[0/1] running experiment for ")
                .unwrap_or_else(|| panic!("{line}"));
            seconds.strip_suffix(" s").unwrap().parse().unwrap()
        })
        .collect();
    assert!(seconds[0] >= 9 && seconds[1] - seconds[0] >= 9, "{signs:?}");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().starts_with("candor: interrupted"), "{rest:?}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn a_guest_that_dies_and_a_disk_that_is_full_are_reported() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    let run = |arguments: &[&str]| {
        lab(&world, &[&["--kernel", &kernel], arguments].concat()).output().unwrap()
    };

    let output = run(&["--set", "vm.parameters=rdinit=/nothing"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("\nLinux ") && message.contains(" did not boot: "), "{message}");
    assert!(message.contains("Kernel panic"), "{message}");

    fs::remove_dir_all(world.path("cache/machines")).unwrap();
    succeeds(&run(&[]));
    let machines: Vec<_> = fs::read_dir(world.path("cache/machines")).unwrap().collect();
    let [Ok(machine)] = &machines[..] else { panic!("{machines:?}") };
    fs::remove_file(machine.path().join("state")).unwrap();
    for part in ["state.part0", "state.part1"] {
        std::os::unix::fs::symlink("/dev/full", machine.path().join(part)).unwrap();
    }
    let reported =
        ["the machine cannot be saved: the disk may be full", "free space", "CANDOR_CACHE"];
    fails(&run(&["--no-cache"]), &reported);
    // And when there is room, it works.
    succeeds(&run(&["--no-cache"]));
}
