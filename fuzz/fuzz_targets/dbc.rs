//! DBC files: the library that reads them must not panic on what people send us.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(dbc) = candor_lab::dbc::parse("fuzz", bytes) {
        for message in &dbc.messages {
            assert!(message.length <= 64 && message.period.as_nanos() > 0);
        }
    }
});
