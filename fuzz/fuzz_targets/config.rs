//! The reader and writer of TOML, and assignments from the command line.
#![no_main]

use candor_config::{parse, setting};
use candor_diagnostics::{Findings, Source};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let findings = Findings::new();
    let table = parse(&Source::new("fuzz", text), &findings);
    for finding in findings.sorted() {
        assert!(text.get(finding.origin.span()).is_some(), "{finding:?}");
        assert!(finding.origin.line_column().0 > 0);
    }
    assert!(findings.to_string().len() <= 1_000 + text.len().min(400) * 2_000);
    if let (Some(table), true) = (table, findings.is_empty()) {
        let written = table.to_toml_string();
        let read = parse(&Source::new("written", written.as_str()), &findings);
        assert!(findings.is_empty(), "{written}\n{findings}");
        // Compared as text, because NaN is not equal to itself.
        assert_eq!(read.map(|table| table.to_toml_string()), Some(written));
    }
    if let Err(message) = setting("--set", text) {
        assert!(message.starts_with("--set "));
    }
});
