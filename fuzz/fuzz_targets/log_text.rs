//! The decoders of text formats beside candump's and ASC, and the encoder of TRC.
#![no_main]

#[path = "shared/log.rs"]
mod log;

/// The first byte says which.
const FORMATS: [&str; 7] = [
    "trc",
    "gvret",
    "busmaster",
    "microchip",
    "carbusanalyzer",
    "python-can-csv",
    "candump-console",
];

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((&which, input)) = input.split_first() {
        log::check(FORMATS[usize::from(which) % FORMATS.len()], input);
    }
});
