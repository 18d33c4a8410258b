//! The reader of experiments, and of the files they name.
#![no_main]

use std::path::Path;

use candor_lab::Error;
use candor_lab::campaign::{Options, parse};

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Only the files of this folder: a path may lead to a device that never ends.
    let base = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
    if text.contains('/') {
        return;
    }
    match parse("fuzz", text, base, &Options::default()) {
        Ok(campaign) => {
            for experiment in &campaign.experiments {
                let again = parse("written", &experiment.config, base, &Options::default());
                assert!(again.is_ok(), "{}\n{:?}", experiment.config, again.err());
            }
        }
        Err(Error::Findings(findings)) => {
            for finding in findings.sorted() {
                assert!(finding.origin.line_column().0 > 0);
            }
        }
        Err(_) => {}
    }
});
