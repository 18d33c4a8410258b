//! What a guest reports, and what it is ordered: any bytes are refused or read, and what is read is
//! read again after writing it.
#![no_main]

use candor_protocol::channel::{decode, encode};
use candor_protocol::{Message, Order};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((message, next))) = decode::<Message>(bytes, 0) {
        assert!(next <= bytes.len());
        let written = encode(&message);
        assert_eq!(decode(&written, 0), Ok(Some((message, written.len()))));
    }
    if let Ok(Some((order, _))) = decode::<Order>(bytes, 0) {
        let written = encode(&order);
        assert_eq!(decode(&written, 0), Ok(Some((order, written.len()))));
    }
});
