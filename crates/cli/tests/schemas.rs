//! The schemas of rule files and experiment files have the keys that are read, and no others.

mod schema;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use candor_config::{Data, Table};
use candor_diagnostics::{Findings, Source};
use serde_json::{Map, Value};

/// What reads a key: a method of a section, or a function that calls one.
const READERS: [&str; 24] = [
    ".string",
    ".boolean",
    ".integer",
    ".float",
    ".nanos",
    ".bitrate",
    ".one_of",
    ".strings",
    ".values",
    ".value",
    ".section",
    ".sections",
    ".table_entries",
    ".has",
    ".get",
    ".remove",
    ".buses",
    " finite",
    "(finite",
    " positive",
    " text",
    " term",
    " index",
    " file",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `candor GROUP schema` prints.
fn schema_of(group: &str) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_candor")).args([group, "schema"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file of TOML as JSON.
fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let findings = Findings::new();
    let table = candor_config::parse(&Source::new("file", text), &findings);
    object(&table.unwrap_or_else(|| panic!("{}: {findings}", path.display())))
}

fn object(table: &Table) -> Value {
    let entries = table.entries().iter();
    entries.map(|entry| (entry.key.clone(), value(&entry.value.data))).collect::<Map<_, _>>().into()
}

fn value(data: &Data) -> Value {
    match data {
        Data::String(text) => text.as_str().into(),
        Data::Integer(number) => (*number).into(),
        Data::Float(number) => (*number).into(),
        Data::Boolean(is_true) => (*is_true).into(),
        Data::Array(values) => values.iter().map(|it| value(&it.data)).collect(),
        Data::Table(table) => object(table),
        other => panic!("a schema cannot say anything about {other:?}"),
    }
}

/// The TOML files of these folders whose name `is_wanted`.
fn files(folders: &[&str], is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".toml") && is_wanted(name) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every name of a field, wherever it is.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    let Some(schema) = schema.as_object() else {
        schema.as_array().into_iter().flatten().for_each(|part| names(part, found));
        return;
    };
    for (keyword, part) in schema {
        if keyword == "properties" {
            found.extend(part.as_object().unwrap().keys().cloned());
        }
        match keyword.as_str() {
            "properties" | "$defs" => {
                part.as_object().unwrap().values().for_each(|part| names(part, found));
            }
            _ => names(part, found),
        }
    }
}

/// The keys that a reader asks for, and those that it lists: in `require`, or in arrays of names.
fn keys(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut found = BTreeSet::new();
    for reader in READERS {
        for rest in source.split(&format!("{reader}(")).skip(1) {
            let rest = rest.trim_start().trim_start_matches("&mut ");
            let rest = rest.trim_start_matches("section, ").trim_start_matches("it, ");
            let key = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
            found.extend(key.map(str::to_owned));
        }
    }
    for start in ["require(&[", "for key in [", "const STEPS: [&str; 12] = ["] {
        for rest in source.split(start).skip(1) {
            let list = rest.split(']').next().unwrap();
            found.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// The keys of several sources and those of the schema are the same.
#[track_caller]
fn has_all_keys(group: &str, sources: &[&str]) {
    let mut read = BTreeSet::new();
    for source in sources {
        read.extend(keys(&fs::read_to_string(root().join("crates").join(source)).unwrap()));
    }
    let mut described = BTreeSet::new();
    names(&schema_of(group), &mut described);
    let missing: Vec<_> = read.difference(&described).collect();
    assert!(missing.is_empty(), "candor {group} schema lacks {missing:?}");
    let unread: Vec<_> = described.difference(&read).collect();
    assert!(unread.is_empty(), "candor {group} schema has {unread:?}, which nothing reads");
}

#[test]
fn every_key_of_rule_files_is_in_their_schema() {
    has_all_keys("route", &["rules/src/file/mod.rs", "rules/src/file/extension.rs"]);
}

#[test]
fn every_key_of_experiment_files_is_in_their_schema() {
    let parts = ["", "/gateway", "/matrix", "/reader", "/seeds", "/sim", "/traffic", "/vm"];
    let parts = parts.map(|part| format!("lab/src/campaign{part}.rs"));
    let sources = parts.iter().map(String::as_str).chain(["lab/src/claims.rs"]);
    has_all_keys("lab", &sources.collect::<Vec<_>>());
}

#[test]
fn every_rule_file_fits_its_schema() {
    let schema = schema_of("route");
    let own = ["examples", "examples/gateway", "campaigns", "tests/browser/experiments"];
    let mut all = files(&own, |name| name.ends_with(".rules.toml"));
    // Golden files without mistakes.
    let golden = files(&["crates/rules/testdata"], |_| true).into_iter().filter(|path| {
        let mut check = Command::new(env!("CARGO_BIN_EXE_candor"));
        check.args(["route", "check"]).arg(path).output().unwrap().status.success()
    });
    all.extend(golden);
    assert!(all.len() > 10, "{all:?}");
    for path in all {
        let misfits = schema::misfits(&schema, &json(&path), "file");
        assert!(misfits.is_empty(), "{}: {misfits:#?}", path.display());
    }
}

#[test]
fn every_experiment_file_fits_its_schema() {
    let schema = schema_of("lab");
    let folders = ["examples", "campaigns", "tests/browser/experiments"];
    let all = files(&folders, |name| !name.ends_with(".rules.toml"));
    assert!(all.len() > 10 - 1, "{all:?}");
    for path in all {
        let misfits = schema::misfits(&schema, &json(&path), "file");
        assert!(misfits.is_empty(), "{}: {misfits:#?}", path.display());
    }
}

#[test]
fn mistakes_do_not_fit() {
    let route = schema_of("route");
    let golden = json(&root().join("crates/rules/testdata/mistakes.toml"));
    assert!(schema::misfits(&route, &golden, "file").len() > 5);
    let lab = schema_of("lab");
    for text in [
        r#"{"traffic": {"knd": "flood"}}"#,
        r#"{"traffic": {"kind": "floods"}}"#,
        r#"{"bus": {"in": {"bitrate": []}}}"#,
        r#"{"experiment": [{"title": "without a name"}]}"#,
        r#"{"claim": [{"id": "A", "says": "nothing", "value": "a lost"}]}"#,
        r#"{"claim": [{"id": "A", "says": "", "value": "{each} lost", "at_most": 0, "each": []}]}"#,
        r#"{"experiment": []}"#,
        r#"{"traffic": {"kind": "flood", "id": []}}"#,
    ] {
        let value = serde_json::from_str(text).unwrap();
        assert!(!schema::misfits(&lab, &value, "file").is_empty(), "{text}");
    }
}
