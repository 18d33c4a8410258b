//! A world with programs of its own in place of apt, dpkg and QEMU, and what they printed.

use crate::fabricated;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The one kernel that the fabricated Debian has.
pub(crate) const PACKAGE: &str = "linux-image-6.12.1+deb13-rt-amd64";

pub(crate) const RELEASE: &str = "6.12.1+deb13-rt-amd64";

/// The size of its package.
pub(crate) const SIZE: usize = 2 << 20;

/// A download that works.
pub(crate) const DOWNLOAD: &str =
    "echo dlstatus:1:50.0:half; head -c $SIZE /dev/zero > package.deb";

/// A package that can be unpacked.
pub(crate) const UNPACK: &str = "exec tar -cf - -C \"$WORLD/tree\" .";

/// A folder with programs in place of apt and dpkg, and a cache.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    /// One in which everything works.
    pub(crate) fn new() -> Self {
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the package holds.
    pub(crate) fn tree(&self, modules: &[(&str, &str)]) {
        let tree = self.path("tree");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join("boot")).unwrap();
        fs::write(tree.join("boot/vmlinuz-made"), fabricated::image(RELEASE)).unwrap();
        let folder = tree.join("usr/lib/modules").join(RELEASE);
        fabricated::tree(&folder, RELEASE, modules);
    }

    pub(crate) fn program(&self, name: &str, script: &str) {
        fs::create_dir_all(self.path("bin")).unwrap();
        let path = self.path("bin").join(name);
        let folder = self.folder.path().display();
        fs::write(&path, format!("#!/bin/sh\nWORLD='{folder}' SIZE={SIZE}\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What apt does when it fetches lists, and when it fetches a package.
    pub(crate) fn apt(&self, update: &str, download: &str) {
        let script = format!(
            "echo \"$*\" >> \"$WORLD/asked\"\n\
             case \" $* \" in\n*\" update \"*) {update};;\n*) {download};;\nesac"
        );
        self.program("apt-get", &script);
    }

    /// What apt was asked for: `update` or `download`, each time.
    pub(crate) fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let word = |line: &str| {
            let words = ["update", "download"];
            words.iter().find(|word| line.contains(*word)).unwrap().to_string()
        };
        text.lines().map(word).collect()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
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

    pub(crate) fn fetching(&self, kernel: &str) -> Command {
        let keys = self.path("keys");
        let mut command =
            self.command(&["fetch", kernel, "--mirror", "http://mirror.example/debian"]);
        command.arg("--keyring").arg(keys);
        command
    }

    pub(crate) fn fetch(&self, kernel: &str) -> Output {
        self.fetching(kernel).output().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The folders of kernels, those in work too.
    pub(crate) fn kernels(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/kernels")).into_iter().flatten();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries.map(|entry| name(entry).into_string().unwrap()).collect()
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

/// Fails with the exit code 2 and a sentence that has all of `phrases`.
#[track_caller]
pub(crate) fn fails(output: &Output, phrases: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let last = message.lines().last().unwrap();
    assert!(last.starts_with("candor: "), "{message}");
    for phrase in phrases {
        assert!(last.contains(phrase), "{phrase}: {message}");
    }
}
