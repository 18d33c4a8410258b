//! The decoder and encoder of candump files.
#![no_main]

mod log_common;

libfuzzer_sys::fuzz_target!(|input: &[u8]| log_common::check("candump", input));
