//! Every rule file in the manuals and in the examples is read; what the manuals say about one is
//! what the reader says, and what they say becomes of frames is what the engine does.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use candor_causes::Cause;
use candor_diagnostics::Findings;
use candor_engine::Table;
use candor_engine::counters::{CAUSES, Outcome};
use candor_engine::program::JobIndex;
use candor_engine::{Egress, Engine, Forward, Passage};
use candor_rules::{cangw, file};
use candor_time::Nanos;
use candor_wire::can::Frame;

/// What `docs/rules.md` says fragments stand after.
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

/// Reads rules that may name files of a folder.
fn parse_in(folder: &Path, name: &str, text: &str) -> (Option<Table>, Findings) {
    file::parse_with(name, text, &|file| {
        fs::read(folder.join(file)).map_err(|error| format!("cannot be read: {error}"))
    })
}

/// What becomes of a frame, in words.
struct Text<'a> {
    table: &'a Table,
    text: String,
}

impl Text<'_> {
    fn tell(&mut self, text: std::fmt::Arguments<'_>) {
        let comma = if self.text.is_empty() { "" } else { ", " };
        write!(self.text, "{comma}{text}").unwrap();
    }
}

impl Egress for Text<'_> {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let bus = &self.table.buses[usize::from(copy.to.0)].name;
        self.tell(format_args!("{bus} {}", copy.frame));
        if copy.deadline != Nanos::ZERO {
            write!(self.text, " within {}", copy.deadline).unwrap();
        }
        Outcome::Handled
    }

    fn refused(&mut self, _: JobIndex, cause: Cause) {
        self.tell(format_args!("refused {}", cause.name()));
    }
}

/// Puts frames into an engine: lines of `@TIME BUS FRAME -> what becomes of it`. What stands right
/// of the arrow is written anew.
fn run_frames(table: &Table, lines: &str) -> String {
    let mut engine = Engine::new(table);
    let mut now = Nanos::ZERO;
    let mut ran = Vec::new();
    for line in lines.lines() {
        let (left, _) = line.split_once("->").unwrap_or_else(|| panic!("no arrow: {line}"));
        let mut words = left.split_whitespace().peekable();
        if let Some(time) = words.next_if(|word| word.starts_with('@')) {
            let time: Nanos = time[1..].parse().unwrap();
            assert!(time >= now, "time goes back: {line}");
            now = time;
        }
        let [bus, frame] = words.collect::<Vec<_>>()[..] else { panic!("bus and frame: {line}") };
        let bus = table.bus(bus).unwrap_or_else(|| panic!("no such bus: {line}"));
        let frame: Frame = frame.parse().unwrap_or_else(|error| panic!("{error}: {line}"));
        let unmatched = engine.counters().buses()[usize::from(bus.0)].unmatched;
        let mut fate = Text { table, text: String::new() };
        engine.handle(now, bus, &frame, Passage::received_on(bus), &mut fate);
        if engine.counters().buses()[usize::from(bus.0)].unmatched > unmatched {
            assert!(fate.text.is_empty());
            fate.text = "no rule".into();
        }
        ran.push(format!("{left}-> {}", fate.text));
    }
    ran.join("\n")
}

#[test]
fn the_manual_of_the_kernels_rules_tells_the_truth() {
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
fn the_manual_of_the_gateway_tells_the_truth() {
    let text = fs::read_to_string(root().join("docs/gateway.md")).unwrap();
    let folder = root().join("examples/gateway");
    let blocks = blocks(&text);
    // Fragments stand after the buses of the first block.
    let (_, first) = *blocks.iter().find(|(language, _)| *language == "toml").unwrap();
    let buses = first.split("[[rule]]").next().unwrap();
    let mut updated = text.clone();
    let (mut rules_read, mut frames_run) = (0, 0);
    let mut table: Option<Table> = None;
    for (index, (language, block)) in blocks.iter().enumerate() {
        match *language {
            "toml" => {
                rules_read += 1;
                let is_whole = block.contains("[bus]");
                let rules =
                    if is_whole { format!("{block}\n") } else { format!("{buses}{block}\n") };
                let (parsed, findings) = parse_in(&folder, "rules.toml", &rules);
                if let Some(("text", expected)) = blocks.get(index + 1) {
                    updated = updated.replacen(*expected, findings.to_string().trim_end(), 1);
                } else {
                    let is_unused =
                        |message: &str| !is_whole && message.starts_with("no rule uses bus");
                    for finding in findings.sorted() {
                        assert!(is_unused(&finding.message), "{finding}\n{rules}");
                    }
                }
                table = parsed;
            }
            "frames" => {
                let ran = run_frames(table.as_ref().expect("rules stand before frames"), block);
                frames_run += ran.lines().count();
                updated = updated.replacen(
                    &format!("```frames\n{block}\n"),
                    &format!("```frames\n{ran}\n"),
                    1,
                );
            }
            // What the manual shows of other files stands there.
            "dbc" | "csv" => {
                let file = if *language == "dbc" { "car.dbc" } else { "ids.csv" };
                let file = fs::read_to_string(folder.join(file)).unwrap();
                for part in block.split("\n\n") {
                    assert!(file.contains(part), "{part}");
                }
            }
            _ => {}
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() && updated != text {
        fs::write(root().join("docs/gateway.md"), &updated).unwrap();
        return;
    }
    for (written, ran) in text.lines().zip(updated.lines()) {
        assert_eq!(written, ran);
    }
    assert_eq!(text.len(), updated.len());
    assert!(rules_read >= 20 && frames_run >= 60, "{rules_read} {frames_run}");
}

#[test]
fn the_manual_lists_every_cause() {
    let text = fs::read_to_string(root().join("docs/gateway.md")).unwrap();
    for cause in CAUSES {
        let row = format!("\n| `{}` | ", cause.name());
        assert!(text.contains(&row), "{} is not in the list of causes", cause.name());
    }
}

#[test]
fn the_examples_are_without_findings() {
    let mut read = 0;
    for folder in ["examples", "examples/gateway"] {
        let folder = root().join(folder);
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if !path.to_str().unwrap().ends_with(".rules.toml") {
                continue;
            }
            read += 1;
            let text = fs::read_to_string(&path).unwrap();
            let (table, findings) = parse_in(&folder, "example", &text);
            assert!(findings.is_empty(), "{}: {findings}", path.display());
            if table.unwrap().rules.iter().all(|rule| rule.extension.is_empty()) {
                let (table, _) = parse_in(&folder, "example", &text);
                cangw::export(&table.unwrap()).unwrap();
            }
        }
    }
    assert!(read >= 3);
}
