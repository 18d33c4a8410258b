//! Import of commands and listings of cangw, and their export.
#![no_main]

use candor_rules::{cangw, file};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (table, findings) = cangw::import("fuzz", text);
    for finding in findings.sorted() {
        assert!(text.get(finding.origin.span()).is_some(), "{finding:?}");
    }
    let Some(table) = table else { return };
    let (read, findings) = file::parse("written", &file::write(&table));
    if let Some(mut read) = read {
        for (read, rule) in read.rules.iter_mut().zip(&table.rules) {
            read.position = rule.position;
        }
        assert_eq!(read, table);
    } else {
        // Names of interfaces are the only thing that cangw takes and a rule file does not: those with
        // control characters, and those that name a port together with options.
        let reported = findings.to_string();
        let is_name = reported.contains("is not a port") || reported.contains("is already bus");
        assert!(is_name, "{reported}");
    }
    if let Ok(script) = cangw::export(&table) {
        let (again, findings) = cangw::import("script", &script);
        let again = again.unwrap_or_else(|| panic!("{script}\n{findings}"));
        assert_eq!(cangw::export(&again).ok().as_deref(), Some(script.as_str()));
    }
});
