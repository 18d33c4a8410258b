//! The schemas of rule files, experiment files, network files and files of the signal service have the keys that are read, and no others.

mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use candor_config::{Data, Table};
use candor_diagnostics::{Findings, Source};
use serde_json::{Map, Value};

/// What reads a key: a method of a section, or a function that calls one.
const READERS: [&str; 26] = [
    " time",
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
    " tables",
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
            // Those of a matrix may have dots.
            let keys = part.as_object().unwrap().keys();
            found.extend(keys.flat_map(|key| key.split('.')).map(str::to_owned));
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
            let rest = rest.trim_start_matches("file, ");
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
    has_all_keys(
        "route",
        &[
            "rules/src/file/mod.rs",
            "rules/src/file/bus.rs",
            "rules/src/file/edit.rs",
            "rules/src/file/rule.rs",
            "rules/src/file/extension/mod.rs",
            "rules/src/file/extension/conditions.rs",
            "rules/src/file/extension/steps/mod.rs",
            "rules/src/file/extension/steps/place.rs",
        ],
    );
}

#[test]
fn every_key_of_experiment_files_is_in_their_schema() {
    let parts = [
        "campaign",
        "campaign/alternatives",
        "campaign/figures",
        "campaign/matrix",
        "campaign/seeds",
        "claims",
        "kinds/gateway",
        "kinds/gateway/keys",
        "kinds/gateway/sim",
        "kinds/gateway/traffic",
        "kinds/gateway/vm",
        "kinds/ping/read",
        "kinds/signals/read",
        "kinds/time_triggered/read",
        "reading",
        "reading/machine",
        "reading/network",
        "reading/reader",
    ];
    let parts = parts.map(|part| format!("lab/src/{part}.rs"));
    let shared = ["bus", "listed", "nodes"].map(|part| format!("network/src/file/{part}.rs"));
    let sources: Vec<_> = parts.iter().chain(&shared).map(String::as_str).collect();
    has_all_keys("lab", &sources);
}

#[test]
fn every_key_of_network_files_is_in_their_schema() {
    let parts = ["bus", "gateway", "listed", "mod", "nodes"]
        .map(|part| format!("network/src/file/{part}.rs"));
    has_all_keys("network", &parts.each_ref().map(String::as_str));
}

#[test]
fn every_key_of_network_files_of_time_triggered_ethernet_is_in_their_schema() {
    has_all_keys("tte", &["tte/src/file.rs", "tte/src/file/synchronisation.rs"]);
}

#[test]
fn every_key_of_files_of_the_signal_service_is_in_their_schema() {
    has_all_keys("signals", &["signal-service/src/file.rs"]);
}

/// A part of a schema, by the `#/...` that refers to it, or what that refers to.
fn part<'a>(schema: &'a Value, reference: &str) -> (String, &'a Value) {
    let part = schema.pointer(reference.trim_start_matches('#')).unwrap();
    match part.as_object().unwrap().iter().collect::<Vec<_>>()[..] {
        [(keyword, to)] if keyword == "$ref" => self::part(schema, to.as_str().unwrap()),
        _ => (reference.to_owned(), part),
    }
}

/// Every way to write a setting in a matrix, with `/` between tables and `.` within quotes, and the part
/// of the schema that says what its values may be.
type Ways = BTreeMap<String, String>;

/// The ways that the schema allows in the part of it that is at `reference`, which stands below `way`.
fn allowed_ways(schema: &Value, reference: &str, way: &str, found: &mut Ways) {
    let (reference, part) = part(schema, reference);
    if let Some(values) = part.pointer("/items/$ref") {
        assert_eq!(part["minItems"], 1, "{way}");
        found.insert(way.to_owned(), values.as_str().unwrap().to_owned());
    }
    for keyword in ["properties", "patternProperties"] {
        for key in part[keyword].as_object().into_iter().flatten().map(|(key, _)| key) {
            assert_eq!(part["additionalProperties"], false, "{way}");
            let name = key.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
            let below = match part[keyword][key].get("$ref") {
                Some(to) => to.as_str().unwrap().to_owned(),
                None => format!("{reference}/{keyword}/{key}"),
            };
            allowed_ways(schema, &below, &format!("{way}/{name}"), found);
        }
    }
}

/// The ways to write the settings of the part of the schema that is at `reference`, which has this path.
fn ways(schema: &Value, reference: &str, path: &[&str], found: &mut Ways) {
    let (reference, part) = part(schema, reference);
    // Between two words there is a dot or another table.
    for choice in 0..1 << path.len().saturating_sub(1) {
        let separator = |at: usize| if at > 0 && choice >> (at - 1) & 1 == 1 { '.' } else { '/' };
        let words = path.iter().enumerate();
        let way: String = words.map(|(at, word)| format!("{}{word}", separator(at))).collect();
        found.insert(way, reference.clone());
    }
    for key in part["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let below = format!("{reference}/properties/{key}");
        ways(schema, &below, &[path, &[key.as_str()]].concat(), found);
    }
    if part["additionalProperties"].is_object() {
        let below = format!("{reference}/additionalProperties");
        ways(schema, &below, &[path, &["[^.]+"]].concat(), found);
    }
}

#[test]
fn a_matrix_has_every_setting_in_every_way_to_write_it() {
    let schema = schema_of("lab");
    let mut allowed = Ways::new();
    allowed_ways(&schema, "#/$defs/matrix", "", &mut allowed);
    let mut wanted = Ways::new();
    let settings = schema["properties"].as_object().unwrap().keys();
    for key in settings.filter(|key| {
        !["network", "matrix", "experiment", "alternative", "figure", "claim"]
            .contains(&key.as_str())
    }) {
        ways(&schema, &format!("#/properties/{key}"), &[key], &mut wanted);
    }
    let missing: Vec<_> = wanted.iter().filter(|(way, _)| !allowed.contains_key(*way)).collect();
    assert!(missing.is_empty(), "the matrix of candor lab schema lacks {missing:#?}");
    assert_eq!(allowed, wanted);
}

/// Files that schema and reader must both take or both refuse; `tests/conformance/schemas.py` uses them
/// too.
#[track_caller]
fn schema_and_reader_agree(group: &str, command: &str) {
    let schema = schema_of(group);
    let cases = json(&root().join("crates/cli/testdata/schema-cases.toml"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.toml");
    let base = cases[group]["base"].as_str().unwrap();
    for (kind, is_right) in [("right", true), ("wrong", false)] {
        for case in cases[group][kind].as_array().unwrap() {
            let text = format!("{base}{}", case.as_str().unwrap());
            fs::write(&path, &text).unwrap();
            let mut candor = Command::new(env!("CARGO_BIN_EXE_candor"));
            let output = candor.args([group, command]).arg(&path).output().unwrap();
            let findings =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert_eq!(output.status.success(), is_right, "the reader of\n{text}\n{findings}");
            let misfits = schema::misfits(&schema, &json(&path), "file");
            assert_eq!(misfits.is_empty(), is_right, "the schema of\n{text}\n{misfits:#?}");
        }
    }
}

#[test]
fn the_schema_of_experiment_files_is_as_strict_as_their_reader() {
    schema_and_reader_agree("lab", "list");
}

#[test]
fn the_schema_of_network_files_is_as_strict_as_their_reader() {
    schema_and_reader_agree("network", "show");
}

#[test]
fn the_schema_of_rule_files_knows_which_keys_need_each_other() {
    schema_and_reader_agree("route", "check");
}

#[test]
fn the_schema_of_files_of_the_signal_service_is_as_strict_as_their_reader() {
    schema_and_reader_agree("signals", "check");
}

#[test]
fn every_file_of_the_signal_service_fits_its_schema() {
    let schema = schema_of("signals");
    let all = files(&["examples"], |name| name.ends_with(".signals.toml"));
    assert!(!all.is_empty());
    for path in all {
        let misfits = schema::misfits(&schema, &json(&path), "file");
        assert!(misfits.is_empty(), "{}: {misfits:#?}", path.display());
    }
}

#[test]
fn every_network_file_of_time_triggered_ethernet_fits_its_schema() {
    let schema = schema_of("tte");
    let all = files(&["examples"], |name| name.ends_with(".tte.toml"));
    assert!(all.len() > 2, "{all:?}");
    for path in all {
        let misfits = schema::misfits(&schema, &json(&path), "file");
        assert!(misfits.is_empty(), "{}: {misfits:#?}", path.display());
    }
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
    let is_other = |name: &str| {
        [".rules.toml", ".network.toml", ".signals.toml", ".tte.toml"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    let all = files(&folders, |name| !is_other(name));
    assert!(all.len() > 10 - 1, "{all:?}");
    for path in all {
        let misfits = schema::misfits(&schema, &json(&path), "file");
        assert!(misfits.is_empty(), "{}: {misfits:#?}", path.display());
    }
}

/// Where a key may be text or a table, an editor must show what is wrong within the table.
#[test]
fn a_mistake_within_a_table_has_its_place() {
    for (group, text, place) in [
        ("route", r#"{"bus": {"a": {"prt": "can0", "port": "can0"}}}"#, "file.bus.a"),
        (
            "route",
            r#"{"bus": {}, "rule": [{"from": "a", "to": "b", "edit": [{"signal":
                {"from": {"bit": 0, "bits": 8, "scal": 2}, "offset": 1}}]}]}"#,
            "file.rule[0].edit[0].signal.from",
        ),
        ("route", r#"{"bus": {}, "rule": [{"from": [1], "to": "b"}]}"#, "file.rule[0].from[0]"),
        ("lab", r#"{"vm": {"kernel": {"imag": "bzImage"}}}"#, "file.vm.kernel"),
        ("lab", r#"{"matrix": {"vm": {"kernel": {"imag": []}}}}"#, "file.matrix.vm.kernel"),
    ] {
        let value = serde_json::from_str(text).unwrap();
        let misfits = schema::misfits(&schema_of(group), &value, "file");
        let [misfit] = &misfits[..] else { panic!("{text}: {misfits:#?}") };
        assert_eq!(misfit.split(": ").next(), Some(place), "{misfit}");
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
