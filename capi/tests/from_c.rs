//! Programs in C, compiled with the shared library and run on the buses that need nothing but this machine.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The folder of this crate.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A folder with the library under the name that programs load, and programs.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Cargo puts it beside this test, or a folder above.
        let here = std::env::current_exe().unwrap();
        let library = here.ancestors().skip(1).take(2).map(|place| place.join("libvca.so"));
        let library = library.clone().find(|library| library.exists()).expect("libvca.so");
        for name in ["libvca.so", "libvca.so.0"] {
            symlink(&library, folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// Compiles a program as strictly as is possible.
    fn compile(&self, source: &str, options: &[&str]) -> PathBuf {
        let name = Path::new(source).file_stem().unwrap();
        let program = self.folder.path().join(name);
        let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
        let standard = if source.ends_with(".cc") { "-std=c++11" } else { "-std=c11" };
        let output = Command::new(compiler)
            .args([
                standard,
                "-D_GNU_SOURCE",
                "-O1",
                "-g",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-I",
                HERE,
            ])
            .args(options)
            .arg("-o")
            .arg(&program)
            .arg(Path::new(HERE).join(source))
            .arg("-L")
            .arg(self.folder.path())
            .args(["-lvca", "-pthread"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        program
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        // None of them takes long, and one that hangs is to fail.
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg(program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }
}

/// A name that no other test has, nor another run of this one.
fn unique(name: &str) -> String {
    format!("vca-{name}-{}", std::process::id())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_is_wrong_gives_an_error_and_harms_nothing() {
    let bench = Bench::new();
    let misuse = bench.compile("tests/misuse.c", &["-fsanitize=address,undefined"]);
    let name = format!("sim:{}?bitrate=20M&data_bitrate=20M", unique("misuse"));
    let output = bench.run(&misuse, &[&name]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "passed\n", "{out}{err}");
}

/// Two programs say hello to each other: each receives what the other sent.
#[test]
fn hello_by_name_alone() {
    let bench = Bench::new();
    let hello = bench.compile("examples/hello.c", &[]);
    let monitor = bench.compile("examples/monitor.c", &[]);
    let [here, there] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [here, there] = [here, there].map(|socket| socket.local_addr().unwrap().port());
    let sim = format!("sim:{}", unique("hello"));
    for (ours, theirs) in [
        (sim.clone(), sim),
        (
            format!("can2udp:127.0.0.1:{here}?peer=127.0.0.1:{there}"),
            format!("can2udp:127.0.0.1:{there}?peer=127.0.0.1:{here}"),
        ),
    ] {
        let mut watcher = bench
            .command(&monitor, &["-n", "1", &theirs, "123:7FF"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watcher.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        // Nobody answers, so it says so.
        let output = bench.run(&hello, &[&ours]);
        assert_eq!(text(&output.stderr), "no frame came in 1 s\n", "{ours}");
        let mut seen = String::new();
        lines.read_to_string(&mut seen).unwrap();
        assert!(watcher.wait().unwrap().success(), "{seen}");
        assert!(seen.contains(" 123#68656C6C6F\nstate "), "{seen}");
        assert!(seen.contains(if ours.starts_with("sim") { "500000 bit/s" } else { " 0 bit/s" }));
    }
    for (name, reported) in [
        ("nothing:can0", "nothing:can0: unknown driver `nothing`; the drivers are "),
        ("candor:candor77", "load candor_can and give it a controller"),
        ("file:drive.log", "a recording can be read or written, not both"),
    ] {
        let output = bench.run(&hello, &[name]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(reported), "{}", text(&output.stderr));
    }
}

#[test]
fn a_recording_is_read_to_its_end_through_filters() {
    let bench = Bench::new();
    let monitor = bench.compile("examples/monitor.c", &[]);
    let path = bench.folder.path().join("drive.log");
    std::fs::write(
        &path,
        "(1.000000) can0 123#01\n(1.000001) can0 124#0203\n(1.000002) can0 00000123#\n\
         (1.000003) can0 123#R4\n(1.000004) can0 200##1000102030405060708090A0B\n",
    )
    .unwrap();
    let name = format!("file:{}?speed=max", path.display());
    let all = [
        "(1.000000) 123#01",
        "(1.000001) 124#0203",
        "(1.000002) 00000123#",
        "(1.000003) 123#R4",
        "(1.000004) 200##1000102030405060708090A0B",
    ];
    for (filters, expected) in [
        (&[][..], &all[..]),
        (&["124:7FF", "200"], &[all[1], all[4]]),
        (&["123:1FFFFFFF"], &[all[0], all[2], all[3]]),
        (&["7FF:7FF"], &[]),
    ] {
        let arguments = [&[&*name][..], filters].concat();
        let output = bench.run(&monitor, &arguments);
        let out = text(&output.stdout);
        let mut lines: Vec<_> = out.lines().collect();
        assert!(output.status.success(), "{out}{}", text(&output.stderr));
        assert_eq!(lines.remove(0), "ready");
        assert_eq!(lines.pop(), Some("state unknown, 0 bit/s, lost 0"));
        assert_eq!(lines, expected, "{filters:?}");
    }
}

#[test]
fn the_header_is_one_of_cpp_too() {
    let bench = Bench::new();
    let program = bench.compile("tests/version.cc", &[]);
    let output = bench.run(&program, &[]);
    assert_eq!(text(&output.stdout), "the handle is closed, or was not opened for this\n");
}

/// What the library exports is what the header declares.
#[test]
fn the_library_exports_what_the_header_declares() {
    let bench = Bench::new();
    let header = std::fs::read_to_string(Path::new(HERE).join("vca.h")).unwrap();
    let mut declared: Vec<_> = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with([' ', '\t', '/']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .collect();
    declared.sort_unstable();
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(bench.folder.path().join("libvca.so"))
        .output()
        .unwrap();
    let out = text(&output.stdout);
    let mut exported: Vec<_> = out.lines().filter(|name| !name.starts_with("__")).collect();
    exported.sort_unstable();
    assert_eq!(exported, declared);
    let page = std::fs::read_to_string(Path::new(HERE).join("vca.3")).unwrap();
    for name in declared {
        assert!(page.contains(name), "vca.3 lacks {name}");
    }
}
