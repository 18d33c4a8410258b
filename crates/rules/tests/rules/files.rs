//! The files that a rule file names: each is read once, and there is a limit to everything.

use std::cell::RefCell;
use std::fmt::Write as _;

use candor_engine::BusIndex;
use candor_rules::file;

const BUSES: &str = "[bus]\na = \"can0\"\nb = \"can1\"\n";

/// A rule with a table of identifiers out of each of these files.
fn remaps<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut text = BUSES.to_owned();
    for (index, name) in names.enumerate() {
        write!(
            text,
            "[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x{index:X}x\"]\n\
             edit = [{{ remap = \"{name}\" }}]\n"
        )
        .unwrap();
    }
    text
}

fn messages(text: &str, include: file::Include<'_>) -> Vec<String> {
    let (table, findings) = file::parse_with("rules.toml", text, include);
    assert_eq!(table.is_none(), findings.has_errors());
    findings.sorted().into_iter().map(|finding| finding.message).collect()
}

#[test]
fn each_file_is_read_once() {
    let read = RefCell::new(Vec::new());
    let include = |name: &str| {
        read.borrow_mut().push(name.to_owned());
        match name {
            "car.dbc" => Ok(b"BU_: A\n\nBO_ 1 One: 8 A\n".to_vec()),
            "missing.dbc" => Err("is missing".into()),
            _ => Ok(b"0x1 0x2".to_vec()),
        }
    };
    let text = remaps(["ids.csv", "other.csv", "ids.csv", "ids.csv"].into_iter()).replace(
        BUSES,
        "[bus]\na = { port = \"can0\", dbc = \"car.dbc\" }\nb = { port = \"can1\", dbc = \
         \"car.dbc\" }\nc = { port = \"can2\", dbc = \"missing.dbc\" }\nd = { port = \"can3\", \
         dbc = \"missing.dbc\" }\n",
    );
    assert_eq!(messages(&text, &include), ["\"missing.dbc\": is missing"]);
    assert_eq!(*read.borrow(), ["car.dbc", "missing.dbc", "ids.csv", "other.csv"]);
}

#[test]
fn there_is_a_limit_to_the_number_of_files() {
    let names: Vec<_> = (0..70).map(|index| format!("{index}.csv")).collect();
    let include = |_: &str| Ok(b"0x1 0x2".to_vec());
    let text = remaps(names.iter().take(64).map(String::as_str));
    assert_eq!(messages(&text, &include), [""; 0]);
    let text = remaps(names.iter().map(String::as_str));
    assert_eq!(messages(&text, &include), ["more than 64 other files are named"; 6]);
}

#[test]
fn there_is_a_limit_to_their_size() {
    for (len, expected) in
        [(8 << 20, None), ((8 << 20) + 1, Some("\"ids.csv\" is longer than 8388608 bytes"))]
    {
        let include = |_: &str| {
            let mut table = b"0x1 0x2 # the rest is a remark".to_vec();
            table.resize(len, b'.');
            Ok(table)
        };
        let found = messages(&remaps(["ids.csv"].into_iter()), &include);
        assert_eq!(found, Vec::from_iter(expected), "{len}");
    }
}

#[test]
fn there_is_a_limit_to_what_tables_hold_together() {
    let mut table = String::new();
    for id in 0..0x4_0000 {
        writeln!(table, "0x{id:X}x 0x1").unwrap();
    }
    let include = |_: &str| Ok(table.clone().into_bytes());
    let text = |count| remaps(["ids.csv"; 9].into_iter().take(count));
    assert_eq!(messages(&text(4), &include), [""; 0]);
    let found = messages(&text(6), &include);
    assert_eq!(found, ["the tables have more than 1048576 identifiers together"; 2]);
}

#[test]
fn there_is_a_limit_to_what_rules_remember_together() {
    let mut text = BUSES.to_owned();
    for index in 0..9 {
        write!(
            text,
            "[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x{index:X}00000x/0x1FF00000\"]\n\
             every = 2\nids = 32767\n"
        )
        .unwrap();
    }
    let found = messages(&text, &|_| Err("nothing is read".into()));
    assert_eq!(found, ["all rules together remember more than 262144 identifiers"]);
    // Single identifiers need no more than that.
    let text = text.replace("/0x1FF00000", "");
    assert_eq!(messages(&text, &|_| Err("nothing is read".into())), [""; 0]);
}

#[test]
fn there_is_a_limit_to_the_steps_of_a_rule() {
    for (count, expected) in [(1, 0), (256, 0), (257, 1), (300, 1)] {
        let steps = vec!["{ xor = { data = \"01\" } }"; count].join(", ");
        let text = format!("{BUSES}[[rule]]\nfrom = \"a\"\nto = \"b\"\nedit = [{steps}]\n");
        let found = messages(&text, &|_| Ok(Vec::new()));
        assert_eq!(found.len(), expected, "{count}: {found:?}");
        assert!(found.iter().all(|message| message == "more than 256 steps"), "{found:?}");
    }
}

#[test]
fn files_that_are_no_text_are_reported() {
    let found = messages(&remaps(["ids.csv"].into_iter()), &|_| Ok(vec![b'#', 0xFF]));
    assert_eq!(found, ["ids.csv:1: byte 1 is not UTF-8"]);
}

#[test]
fn without_a_reader_files_cannot_be_named() {
    let (table, findings) = file::parse("rules.toml", &remaps(["ids.csv"].into_iter()));
    assert!(table.is_none());
    assert!(findings.to_string().contains("\"ids.csv\": no other files are read here"));
}

#[test]
fn names_have_a_limit() {
    let reported = |rule: &str, bus: &str| {
        let text = format!(
            "[bus]\na = \"can0\"\n{bus} = \"can1\"\n\n[[rule]]\nname = \"{rule}\"\nfrom = \"a\"\n\
             to = \"{bus}\"\nmatch = [\"0x1\"]\n"
        );
        let (table, findings) = file::parse("rules.toml", &text);
        assert_eq!(table.is_none(), findings.has_errors());
        findings.to_string()
    };
    for len in [1, 100] {
        assert_eq!(reported(&"x".repeat(len), "b"), "", "{len}");
        assert_eq!(reported("ü", &"b".repeat(len + 1)).is_empty(), len == 1);
    }
    assert_eq!(reported(&"ü".repeat(100), "b"), "", "characters, not bytes");
    for len in [101, 65_536] {
        let rule = reported(&"x".repeat(len), "b");
        let message = format!("the name of this rule has {len} characters, more than 100");
        assert!(rule.starts_with(&format!("rules.toml:6:8: error: {message}\n")), "{rule}");
        assert!(rule.contains("hint: choose a short name"), "{rule}");
        let bus = reported("x", &"b".repeat(len));
        let message = format!("the name of this bus has {len} characters, more than 100");
        assert!(bus.starts_with("rules.toml:3:") && bus.contains(&message), "{bus}");
    }
}

#[test]
fn databases_are_those_of_their_buses() {
    let text = "[bus]\na = \"can0\"\nb = { port = \"can1\", dbc = \"car.dbc\" }\n\
                c = { port = \"can2\", dbc = \"missing.dbc\" }\n";
    let include = |name: &str| match name {
        "car.dbc" => Ok(b"BU_: A\n\nBO_ 1 One: 8 A\n".to_vec()),
        _ => Err("is missing".into()),
    };
    let databases = file::databases("rules.toml", text, &include);
    assert_eq!(databases.keys().copied().collect::<Vec<_>>(), [BusIndex(1)]);
    let names: Vec<_> = databases[&BusIndex(1)].messages().iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["One"]);
}

#[test]
fn ports_that_cannot_be_used_are_reported_at_their_place() {
    let no_files = |_: &str| Err("no files".into());
    let bad = |table: &candor_engine::Table| {
        assert_eq!(table.buses[1].port, "can1");
        let (reason, remedy) = ("`can1` is away".into(), "plug it in".into());
        vec![file::BadPort { bus: BusIndex(1), reason, remedy }]
    };
    let (table, findings) = file::parse_for("r", BUSES, &no_files, &bad);
    assert!(table.is_none());
    let expected =
        "r:3:5: error: `can1` is away\n  b = \"can1\"\n      ^^^^^^\n  hint: plug it in\n";
    let shown = findings.to_string();
    assert!(shown.contains(expected), "{shown}");
    // Rules that are wrong are mended first.
    let (_, findings) = file::parse_for("r", &format!("x = 1\n{BUSES}"), &no_files, &bad);
    assert!(!findings.to_string().contains("is away"), "{findings}");
}

#[test]
fn there_is_a_limit_to_the_number_of_buses() {
    for (count, is_read) in [(0x1_0000, true), (0x1_0001, false)] {
        let mut text = String::from("[bus]\n");
        for bus in 0..count {
            writeln!(text, "b{bus} = \"p{bus}\"").unwrap();
        }
        let (table, findings) = file::parse("rules.toml", &text);
        let found = findings.sorted().into_iter().map(|finding| finding.message);
        assert_eq!(table.is_some(), is_read);
        assert_eq!(found.filter(|it| it == "more than 65536 buses").count(), usize::from(!is_read));
    }
}

#[test]
fn what_is_no_hex_digit_is_shown_where_it_stands() {
    for (data, place, carets) in
        [("1G", "7:17", "^"), ("\u{fc}", "7:16", "^"), ("11 \u{fc}", "7:19", "^")]
    {
        let rules = "[[rule]]\nfrom = \"a\"\nto = \"b\"";
        let edit = format!("or = {{ data = \"{data}\" }}");
        let text = format!("[bus]\na = \"can0\"\nb = \"can1\"\n{rules}\n{edit}\n");
        let (_, findings) = file::parse("t", &text);
        let column: usize = place[2..].parse().unwrap();
        let expected = format!(
            "t:{place}: error: each byte of `data` must be two hex digits\n  {edit}\n  {carets:>column$}\n"
        );
        assert!(findings.to_string().starts_with(&expected), "{findings}{expected}");
    }
}
