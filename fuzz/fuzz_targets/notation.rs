//! The notation of candump: what is read is read again after showing it.
#![no_main]

use candor_wire::can::{Frame, notation};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    match notation::parse(text) {
        Ok(frame) => {
            let shown = frame.to_string();
            assert_eq!(shown.parse::<Frame>(), Ok(frame));
            // The buffer beyond the length too, which equality leaves out.
            assert_eq!(shown.parse::<Frame>().map(|frame| *frame.buffer()), Ok(*frame.buffer()));
        }
        Err(error) => assert!(error.offset <= text.len(), "{error}"),
    }
});
