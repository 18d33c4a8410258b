//! The reader and writer of rule files with the files that they name, and the checks.
#![no_main]

use candor_rules::{cangw, file};

libfuzzer_sys::fuzz_target!(|text: &str| {
    // What stands behind the mark is whatever file the rules name.
    let (rules, other) = text.split_once("\n====\n").unwrap_or((text, ""));
    let include = |name: &str| match name {
        "" | "missing" => Err("is missing".into()),
        _ => Ok(other.as_bytes().to_vec()),
    };
    let (table, findings) = file::parse_with("fuzz", rules, &include);
    for finding in findings.sorted() {
        assert!(rules.get(finding.origin.span()).is_some(), "{finding:?}");
    }
    let Some(mut table) = table else { return };
    let written = file::write(&table);
    let (read, findings) = file::parse("written", &written);
    let mut read = read.unwrap_or_else(|| panic!("{written}\n{findings}"));
    for rule in read.rules.iter_mut().chain(&mut table.rules) {
        rule.position = (0, 0);
    }
    assert_eq!(read, table, "{written}");
    if let Ok(script) = cangw::export(&table) {
        let (imported, findings) = cangw::import("script", &script);
        assert!(imported.is_some(), "{script}\n{findings}");
    }
});
