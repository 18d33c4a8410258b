//! The schemas of rule files, experiment files, network files and files of the signal service have the keys that are read, and no others.

mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use candor_config::{Data, Table};
use candor_diagnostics::{Findings, Source};
use serde_json::{Map, Value};

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

/// A key that no reader knows, with a number behind it. A reader answers to it with the keys that it asks for.
const UNKNOWN: &str = "zzzzzz";

/// Whether this part of a schema allows certain keys only.
fn names_all_keys(part: &Value) -> bool {
    part.get("properties").is_some() && part.get("additionalProperties") == Some(&false.into())
}

/// The keys of the tables of one kind of files, by place such as `rule.[].edit.[]`; `*` stands for any name.
struct Keys<'a> {
    schema: &'a Value,
    /// Those in files that the reader takes, and those that it lists.
    read: BTreeMap<String, BTreeSet<String>>,
    described: BTreeMap<String, BTreeSet<String>>,
    /// The parts of the schema that allow certain keys only, and that a table was held against.
    met: BTreeSet<*const Value>,
}

impl<'a> Keys<'a> {
    /// The part itself, those that it refers to, and those of which each may hold.
    fn with_all(&self, part: &'a Value, found: &mut Vec<&'a Value>) {
        found.push(part);
        if let Some(reference) = part.get("$ref") {
            let to = reference.as_str().unwrap().trim_start_matches('#');
            self.with_all(self.schema.pointer(to).unwrap(), found);
        }
        for keyword in ["allOf", "anyOf"] {
            let parts = part.get(keyword).and_then(Value::as_array).into_iter().flatten();
            parts.for_each(|part| self.with_all(part, found));
        }
    }

    /// What describes the value of a key, and how the key is called in a place.
    fn below(&self, parts: &[&'a Value], key: &str) -> (String, Vec<&'a Value>) {
        let (mut name, mut found) = (key.to_owned(), Vec::new());
        for part in parts {
            if let Some(below) = part.pointer("/properties").and_then(|known| known.get(key)) {
                self.with_all(below, &mut found);
            } else if let Some(below) = part.get("additionalProperties").filter(|it| it.is_object())
            {
                name = "*".into();
                self.with_all(below, &mut found);
            }
        }
        (name, found)
    }

    /// The table with an unknown key in each table of which the schema names all keys; the places of these keys.
    fn marked(
        &mut self,
        table: &Table,
        (place, parts): (&str, &[&'a Value]),
        marks: &mut Vec<String>,
    ) -> Table {
        let mut marked = Table::new(table.origin().clone());
        for entry in table.entries() {
            let (name, below) = self.below(parts, &entry.key);
            let place = match place {
                // What experiments and alternatives have is laid over the file.
                "" | "experiment.[]" | "alternative.[]" => name,
                place => format!("{place}.{name}"),
            };
            // `a_matrix_has_every_setting_in_every_way_to_write_it` looks at these.
            let value = match place.as_str() {
                "matrix" => entry.value.clone(),
                place => self.marked_value(&entry.value, (place, &below), marks),
            };
            marked.set_path(&[&entry.key], value);
        }
        let closed: Vec<_> = parts.iter().filter(|part| names_all_keys(part)).collect();
        if closed.is_empty() {
            return marked;
        }
        let place = match place {
            "experiment.[]" | "alternative.[]" => "",
            place => place,
        };
        let used = table.entries().iter().map(|entry| entry.key.clone());
        self.read.entry(place.into()).or_default().extend(used);
        for part in closed {
            self.met.insert(*part);
            let names = part["properties"].as_object().unwrap().keys().cloned();
            self.described.entry(place.into()).or_default().extend(names);
        }
        let (origin, data) = (table.origin().clone(), Data::Integer(0));
        let unknown = format!("{UNKNOWN}{}", marks.len());
        marked.set_path(&[&unknown], candor_config::Value { origin, data });
        marks.push(place.to_owned());
        marked
    }

    fn marked_value(
        &mut self,
        value: &candor_config::Value,
        (place, parts): (&str, &[&'a Value]),
        marks: &mut Vec<String>,
    ) -> candor_config::Value {
        let data = match &value.data {
            Data::Table(table) => Data::Table(self.marked(table, (place, parts), marks)),
            Data::Array(values) => {
                let mut items = Vec::new();
                let below = parts.iter().filter_map(|part| part.get("items"));
                below.for_each(|part| self.with_all(part, &mut items));
                let item = (&*format!("{place}.[]"), &*items);
                Data::Array(values.iter().map(|it| self.marked_value(it, item, marks)).collect())
            }
            data => data.clone(),
        };
        candor_config::Value { origin: value.origin.clone(), data }
    }

    /// Takes what a reader says of this text with unknown keys, as a file at `path`.
    fn ask(&mut self, (group, command): (&str, &str), path: &Path, text: &str) {
        let table = candor_config::parse(&Source::new("file", text), &Findings::new()).unwrap();
        let (mut marks, mut whole) = (Vec::new(), Vec::new());
        self.with_all(self.schema, &mut whole);
        let marked = self.marked(&table, ("", &whole), &mut marks);
        fs::write(path, marked.to_toml_string()).unwrap();
        let mut candor = Command::new(env!("CARGO_BIN_EXE_candor"));
        let output = candor.args([group, command]).arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let mut answered = vec![false; marks.len()];
        for answer in said.split("unknown key `").skip(1) {
            let (key, rest) = answer.split_once('`').unwrap();
            let number = key.strip_prefix(UNKNOWN).and_then(|number| number.parse::<usize>().ok());
            let number = number.unwrap_or_else(|| panic!("{key}\n{said}\n{text}"));
            let list = rest.split_once("hint: the keys are ").map_or("", |(_, list)| list);
            let names = list.lines().next().unwrap_or("").split('`').skip(1).step_by(2);
            self.read.entry(marks[number].clone()).or_default().extend(names.map(str::to_owned));
            answered[number] = true;
        }
        let mute = marks.iter().zip(&answered).find(|(_, answered)| !**answered);
        assert_eq!(mute, None, "a table takes any key\n{said}\n{text}");
    }

    /// The parts of the schema that name all keys, and that no table was held against.
    fn unmet(&self, part: &'a Value, place: &str, found: &mut BTreeSet<String>) {
        if names_all_keys(part) && !self.met.contains(&std::ptr::from_ref(part)) {
            found.insert(place.to_owned());
        }
        let fields = part.as_object().into_iter().flatten();
        let items = part.as_array().into_iter().flatten();
        for (name, below) in fields.filter(|(name, _)| !name.starts_with("matrix")) {
            self.unmet(below, &format!("{place}/{name}"), found);
        }
        items.for_each(|below| self.unmet(below, place, found));
    }
}

/// Each table of these files, of the cases and of `others` has the keys in the schema that its reader asks for, and no
/// others. The schema has no further tables.
#[track_caller]
fn has_all_keys(
    (group, command): (&str, &str),
    (folders, is_wanted): (&[&str], impl Fn(&str) -> bool),
    others: &[&str],
) {
    let schema = schema_of(group);
    let mut keys = Keys {
        schema: &schema,
        read: BTreeMap::new(),
        described: BTreeMap::new(),
        met: BTreeSet::new(),
    };
    // Beside what the files name.
    let scene = tempfile::tempdir().unwrap();
    for folder in folders {
        let to = scene.path().join(folder);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let entry = entry.unwrap();
            std::os::unix::fs::symlink(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    let reader = (group, command);
    for path in files(folders, is_wanted) {
        let folder = path.parent().unwrap().strip_prefix(root()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        keys.ask(reader, &scene.path().join(folder).join("marked.toml"), &text);
    }
    let path = scene.path().join("case.toml");
    let cases = json(&root().join("crates/cli/testdata/schema-cases.toml"));
    if let Some(cases) = cases.get(group) {
        let base = cases["base"].as_str().unwrap();
        for case in cases["right"].as_array().unwrap() {
            keys.ask(reader, &path, &format!("{base}{}", case.as_str().unwrap()));
        }
    }
    for other in others {
        keys.ask(reader, &path, other);
    }
    for (place, described) in &keys.described {
        let read = &keys.read[place];
        let missing: Vec<_> = read.difference(described).collect();
        assert!(missing.is_empty(), "candor {group} schema lacks {missing:?} at `{place}`");
        let unread: Vec<_> = described.difference(read).collect();
        assert!(
            unread.is_empty(),
            "candor {group} schema has {unread:?} at `{place}`, which nothing reads"
        );
    }
    let mut unmet = BTreeSet::new();
    keys.unmet(&schema, "", &mut unmet);
    assert!(unmet.is_empty(), "no file and no case has such tables: {unmet:#?}");
}

/// Whether a reader takes a file.
fn is_taken(group: &str, command: &str, path: &Path) -> bool {
    let mut candor = Command::new(env!("CARGO_BIN_EXE_candor"));
    candor.args([group, command]).arg(path).output().unwrap().status.success()
}

#[test]
fn every_key_of_rule_files_is_in_their_schema() {
    let folders = ["examples", "campaigns", "crates/rules/testdata"];
    let golden = root().join("crates/rules/testdata");
    let is_rule_file = |name: &str| {
        let path = golden.join(name);
        name.ends_with(".rules.toml") || path.exists() && is_taken("route", "check", &path)
    };
    has_all_keys(("route", "check"), (&folders, is_rule_file), &[]);
}

/// Whether it is a file of experiments.
fn has_experiments(name: &str) -> bool {
    let others = [".rules.toml", ".network.toml", ".signals.toml", ".tte.toml"];
    !others.iter().any(|end| name.ends_with(end))
}

#[test]
fn every_key_of_experiment_files_is_in_their_schema() {
    let folders = ["examples", "campaigns", "tests/browser/experiments"];
    let others = [
        "bus = { in.bitrate = '1M', out.bitrate = '1M' }\ngateway.delay = '35us'\ntraffic.kind = 'periodic'\n\
         traffic.nodes.in = ['A']\ntraffic.node.A.queue = 'priority'\n\
         traffic.message = [{ id = '0x100', period = '10ms', node = 'A' }]\n",
        "bus = { in.bitrate = '1M', out.bitrate = '1M' }\ntraffic.kind = 'flood'\ntestbed = 'vm'\nseeds = 1\n\
         gateway.kind = 'command'\ngateway.command = ['/bin/relay', '{in}', '{out}']\n\
         gateway.files = { from = 'case.toml', to = '/bin/relay' }\n",
    ];
    has_all_keys(("lab", "list"), (&folders, has_experiments), &others);
}

#[test]
fn experiments_and_alternatives_have_every_setting_of_their_file() {
    let schema = schema_of("lab");
    let keys = |place: &str| -> BTreeSet<_> {
        let known = schema.pointer(&format!("{place}/properties")).unwrap();
        known.as_object().unwrap().keys().cloned().collect()
    };
    let lists = ["experiment", "alternative", "figure", "claim"];
    let mut settings = keys("");
    settings.retain(|key| !lists.contains(&key.as_str()));
    assert_eq!(keys("/properties/experiment/items"), settings);
    settings.remove("matrix");
    settings.insert("except".into());
    assert_eq!(keys("/properties/alternative/items"), settings);
}

#[test]
fn every_key_of_network_files_is_in_their_schema() {
    let is_network = |name: &str| name.ends_with(".network.toml");
    has_all_keys(("network", "show"), (&["examples"], is_network), &[]);
}

#[test]
fn every_key_of_network_files_of_time_triggered_ethernet_is_in_their_schema() {
    let rate_constrained = "cycle = '4ms'\nprecision = '10us'\nframes.type = 0x88d7\nend_system = { a = {}, b = {} }\n\
                            link.ab.between = ['a', 'b']\n[flow.r]\nclass = 'rc'\nid = 1\nfrom = 'a'\nto = 'b'\n\
                            gap = '2ms'\njitter = '1us'\n";
    let is_network = |name: &str| name.ends_with(".tte.toml");
    has_all_keys(("tte", "check"), (&["examples"], is_network), &[rate_constrained]);
}

#[test]
fn every_key_of_files_of_the_signal_service_is_in_their_schema() {
    let is_service = |name: &str| name.ends_with(".signals.toml");
    has_all_keys(("signals", "check"), (&["examples"], is_service), &[]);
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
    let golden = files(&["crates/rules/testdata"], |_| true);
    let golden = golden.into_iter().filter(|path| is_taken("route", "check", path));
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
    let all = files(&folders, has_experiments);
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
