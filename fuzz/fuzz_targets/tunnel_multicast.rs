//! Messages of python-can: what is read is read again after writing it.
#![no_main]

use candor_wire::can::tunnel::multicast::{Datagram, MAX_LEN};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Datagram::decode(bytes) {
        Ok(datagram) => {
            let mut out = [0; MAX_LEN];
            let len = datagram.encode(&mut out).expect("what is read can be written");
            let again = Datagram::decode(&out[..len]).expect("what is written can be read");
            assert_eq!(again.frame, datagram.frame);
            // Written and read once more, the time stays as it is.
            let len = again.encode(&mut out).expect("what is read can be written");
            assert_eq!(Datagram::decode(&out[..len]), Ok(again));
        }
        Err(error) => assert!(error.offset <= bytes.len() as u64, "{error}"),
    }
});
