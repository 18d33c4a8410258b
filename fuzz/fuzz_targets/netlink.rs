//! Answers of the kernel: links, queues, acknowledgements, and can-gw jobs, which are read again
//! after writing them.
#![no_main]

use candor_linux::netlink::{decode_datagram, decode_link, decode_queue};
use candor_rules::netlink::{decode, encode};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = decode_datagram(bytes);
    if let Some(link) = decode_link(bytes) {
        assert!(!link.name.is_empty() && link.name.len() <= 3 * bytes.len());
    }
    let _ = decode_queue(bytes);
    match decode(bytes) {
        Ok((job, _)) => {
            let written = encode(&job);
            assert_eq!(decode(&written).map(|(read, _)| read), Ok(job));
        }
        Err(error) => assert!(error.at <= bytes.len() + 3, "{error}"),
    }
});
