//! Requests for metrics: once it is known what a request asks for, more bytes change nothing, and what
//! is refused is reported in an answer that is whole.
#![no_main]

use candor_gateway::metrics::{Asked, MAX_REQUEST, asked};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let whole = asked(bytes);
    let before = asked(&bytes[..bytes.len() * usize::from(cut) / 255]);
    if before != Asked::More {
        assert_eq!(before, whole);
    }
    match whole {
        Asked::More => assert!(bytes.len() < MAX_REQUEST),
        Asked::Metrics { .. } => assert!(bytes.windows(8).any(|part| part == b"/metrics")),
        Asked::Refused(refusal) => {
            let answer = refusal.answer();
            assert!(answer.starts_with(b"HTTP/1.1 ") && answer.ends_with(b"\n"));
        }
    }
});
