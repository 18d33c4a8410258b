//! The layouts of SocketCAN: what is read is read again after writing it.
#![no_main]

use candor_wire::can::socketcan::{IdOrder, decode, encode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for order in [IdOrder::BigEndian, IdOrder::LittleEndian] {
        if let Ok(frame) = decode(bytes, order) {
            let (written, len) = encode(&frame, order);
            assert_eq!(decode(&written[..len], order), Ok(frame));
        }
    }
});
