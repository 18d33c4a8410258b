//! Requests for metrics: the answer does not depend on how a request is cut, and is whole.
#![no_main]

use candor_gateway::metrics::exchange;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let whole = exchange(&[bytes]).expect("there are files");
    let (first, second) = bytes.split_at(bytes.len() * usize::from(cut) / 255);
    assert_eq!(exchange(&[first, second]).expect("there are files"), whole);
    if whole.starts_with(b"HTTP/1.1 200 ") || whole.starts_with(b"HTTP/1.0 200 ") {
        assert!(bytes.windows(8).any(|part| part == b"/metrics"));
    } else {
        assert!(whole.is_empty() || whole.starts_with(b"HTTP/1.") && whole.contains(&b'\n'));
    }
});
