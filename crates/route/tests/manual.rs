//! Every rule file in the manual and in the examples is read; what the manual says about one is
//! what the reader says.

use std::fs;
use std::path::{Path, PathBuf};

use candor_route::{cangw, file};

/// What the manual says fragments stand after.
const BUSES: &str = "[bus]\npowertrain = \"can0\"\nbody = \"can1\"\nbench = \"vcan0\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The fenced blocks of a Markdown text: language and contents.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let mut fences = text.split("\n```").skip(1);
    let mut blocks = Vec::new();
    while let Some(block) = fences.next() {
        blocks.push(block.split_once('\n').expect("a block has lines"));
        fences.next();
    }
    blocks
}

#[test]
fn the_manual_tells_the_truth() {
    let text = fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let blocks = blocks(&text);
    let mut read = 0;
    for (index, (language, block)) in blocks.iter().enumerate() {
        if *language != "toml" {
            continue;
        }
        read += 1;
        let is_whole = block.contains("[bus]");
        let rules = if is_whole { format!("{block}\n") } else { format!("{BUSES}{block}\n") };
        let (table, findings) = file::parse("rules.toml", &rules);
        match blocks.get(index + 1) {
            Some(("text", expected)) => assert_eq!(findings.to_string().trim_end(), *expected),
            _ => {
                let is_unused =
                    |message: &str| !is_whole && message.starts_with("no rule uses bus");
                for finding in findings.sorted() {
                    assert!(is_unused(&finding.message), "{finding}\n{rules}");
                }
                cangw::export(&table.unwrap()).unwrap();
            }
        }
    }
    assert_eq!(read, 6);
}

#[test]
fn the_examples_are_without_findings() {
    let mut read = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_str().unwrap().ends_with(".rules.toml") {
            continue;
        }
        read += 1;
        let (table, findings) = file::parse("example", &fs::read_to_string(&path).unwrap());
        assert!(findings.is_empty(), "{}: {findings}", path.display());
        cangw::export(&table.unwrap()).unwrap();
    }
    assert!(read >= 2);
}
