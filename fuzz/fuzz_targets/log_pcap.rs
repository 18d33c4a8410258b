//! The decoder and encoder of pcap files.
#![no_main]

#[path = "shared/log.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|input: &[u8]| log::check("pcap", input));
