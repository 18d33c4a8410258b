//! Ethernet headers: what is read is written back as it was.
#![no_main]

use candor_wire::eth::{Frame, HEADER_LEN, TAG_LEN};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match Frame::parse(bytes) {
    Ok(frame) => {
        let mut written = vec![0; bytes.len()];
        let payload = frame.header.write(&mut written).expect("as long as it was");
        payload.copy_from_slice(frame.payload);
        assert_eq!(written, bytes);
    }
    Err(error) => assert!(error.len == bytes.len() && error.len < HEADER_LEN + TAG_LEN),
});
