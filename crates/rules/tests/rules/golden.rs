//! Rule files and cangw listings with what is expected of them, side by side in `testdata`.
//!
//! `X.toml` and `X.cangw` are read, `X.toml.expected` and `X.cangw.expected` hold the findings,
//! then the table as a rule file if there is one. With `UPDATE_EXPECT=1` the expectations are written anew.

use std::fs;
use std::path::{Path, PathBuf};

use candor_diagnostics::Findings;
use candor_engine::{Filter, Table};
use candor_rules::{cangw, file};
use candor_wire::can::frame::ERR_FLAG;
use expect_test::expect_file;

fn read(path: &Path) -> (Option<Table>, Findings) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string(path).unwrap();
    if cangw::is_cangw(&text) {
        return cangw::import(name, &text);
    }
    file::parse_with(name, &text, &|included| {
        let path = path.with_file_name(included);
        // What the machine says is not the same everywhere.
        fs::read(path).map_err(|_| "cannot be read".into())
    })
}

fn inputs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let is_input = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "toml" || extension == "cangw")
    };
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<_> = entries.filter(is_input).collect();
    inputs.sort();
    assert!(inputs.len() >= 8, "{inputs:?}");
    inputs
}

#[test]
fn files_give_what_is_expected() {
    for input in inputs() {
        let (table, findings) = read(&input);
        let table = table.map_or("no table\n".into(), |table| file::write(&table));
        let found = format!("{findings}----\n{table}");
        let mut expected = input.clone().into_os_string();
        expected.push(".expected");
        expect_file![expected].assert_eq(&found);
    }
}

#[test]
fn a_file_that_was_written_reads_as_the_same_table() {
    for input in inputs() {
        let Some(mut table) = read(&input).0 else { continue };
        let (read, findings) = file::parse("written", &file::write(&table));
        let mut read = read.unwrap_or_else(|| panic!("{findings}"));
        for rule in read.rules.iter_mut().chain(&mut table.rules) {
            rule.position = (0, 0);
        }
        assert_eq!(read, table, "{}", input.display());
    }
}

/// A program may say that of every frame each one fires; a file has no word for it.
#[test]
fn every_first_frame_is_not_written() {
    let text = "[bus]\na = \"can0\"\nb = \"can1\"\n[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x1\"]\n";
    let mut table = file::parse("rules.toml", text).0.unwrap();
    table.rules[0].extension.pace.every = 1;
    let (read, findings) = file::parse("written", &file::write(&table));
    assert_eq!(read.map(|it| it.rules[0].extension.pace.every), Some(0), "{findings}");
}

/// The kernel takes error reports by one mask for all classes.
#[test]
fn classes_of_error_reports_share_a_job() {
    let text = "[bus]\na = \"can0\"\nb = \"can1\"\n[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x1\"]\n";
    let mut table = file::parse("rules.toml", text).0.unwrap();
    let class = |bits| Filter { can_id: 0, mask: ERR_FLAG | bits, inverted: false };
    table.rules[0].filters = vec![class(0x05), class(0x44)];
    let script = cangw::export(&table).unwrap();
    let commands: Vec<_> = script.lines().filter(|line| line.starts_with("cangw")).collect();
    assert_eq!(commands, ["cangw -A -s can0 -d can1 -f 000:20000045"]);
}

#[test]
fn a_table_that_is_handed_on_stays_the_same() {
    for input in inputs() {
        let Some(table) = read(&input).0 else { continue };
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table, "{}", input.display());
    }
}
