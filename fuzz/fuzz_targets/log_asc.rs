//! The decoder and encoder of ASC recordings.
#![no_main]

#[path = "shared/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|input: &[u8]| log::check("asc", input));
