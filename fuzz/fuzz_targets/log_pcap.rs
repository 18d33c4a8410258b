//! The decoder and encoder of pcap files.
#![no_main]

mod log_common;

libfuzzer_sys::fuzz_target!(|input: &[u8]| log_common::check("pcap", input));
