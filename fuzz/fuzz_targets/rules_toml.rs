//! The reader and writer of rule files, and the checks.
#![no_main]

use candor_route::{cangw, file};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (table, findings) = file::parse("fuzz", text);
    for finding in findings.sorted() {
        assert!(text.get(finding.origin.span()).is_some(), "{finding:?}");
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
