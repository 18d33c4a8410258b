//! Datagrams of can2udp: what is read is read again after writing it.
#![no_main]

use candor_wire::can::tunnel::can2udp::{Datagram, MAX_LEN};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Datagram::decode(bytes) {
        Ok(datagram) => {
            let mut out = [0; MAX_LEN];
            let len = datagram.encode(&mut out).expect("version 1 has classical frames");
            assert_eq!(len, bytes.len());
            assert_eq!(Datagram::decode(&out[..len]), Ok(datagram));
        }
        Err(error) => assert!(error.offset <= bytes.len() as u64, "{error}"),
    }
});
