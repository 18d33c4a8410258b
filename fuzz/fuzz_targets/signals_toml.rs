//! The reader of files of the signal service with the DBC files that they name.
#![no_main]

use candor_signal_service::file;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // What stands behind the mark is whatever DBC file is named.
    let (text, other) = text.split_once("\n====\n").unwrap_or((text, ""));
    let include = |name: &str| match name {
        "" | "missing" => Err("is missing".into()),
        _ => Ok(other.as_bytes().to_vec()),
    };
    let (config, findings) = file::parse("fuzz", text, &include, None);
    // Those of a DBC file have their places in it.
    assert_eq!(config.is_none(), findings.has_errors(), "{findings}");
    let Some(config) = config else { return };
    // What is read is what a service that runs already may be changed to.
    let fixed = file::Fixed::from(&config);
    let (again, findings) = file::parse("fuzz", text, &include, Some(&fixed));
    assert!(again.is_some(), "{findings}");
});
