//! A campaign in a folder of its own, and what `candor lab` printed about it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::progress::without_progress;

pub(crate) const CAMPAIGN: &str = "\
title = \"Two buses\"
count = 200

[bus.in]
bitrate = \"1M\"

[bus.out]
bitrate = \"500k\"

[gateway]
delay = \"35us\"

[traffic]
kind = \"one-at-a-time\"

[[experiment]]
name = \"calm\"

[[experiment]]
name = \"flood\"
traffic.kind = \"flood\"

[[claim]]
id = \"A\"
says = \"nothing is lost\"
value = \"calm lost\"
at_most = 0

[[claim]]
id = \"B\"
says = \"a flood loses frames\"
value = \"flood lost\"
at_least = 1
";

/// The same buses in a virtual machine.
pub(crate) const KERNEL: &str = "\
testbed = \"vm\"
count = 100
bus.in.bitrate = \"1M\"
bus.out.bitrate = \"500k\"
gateway.kind = \"kernel\"
traffic.kind = \"one-at-a-time\"
";

/// A folder with a file of experiments.
pub(crate) struct Scene(pub(crate) TempDir);

impl Scene {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("two.toml"), text).unwrap();
        Self(folder)
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
        command.current_dir(self.0.path()).arg("lab").args(arguments);
        command
    }

    /// Runs it; standard output and standard error.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], code: i32) -> (String, String) {
        reported(&self.command(arguments).output().unwrap(), code)
    }

    /// Runs it; the objects of that type.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str], kind: &str, code: i32) -> Vec<Value> {
        let (stdout, _) = self.run(arguments, code);
        let data = |line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["type"], kind);
            line["data"].take()
        };
        stdout.lines().map(data).collect()
    }
}

#[track_caller]
pub(crate) fn reported(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    (stdout, without_progress(&stderr))
}

pub(crate) fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The names in a folder, hidden ones too.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
