//! What comes over the control socket, in pieces: lines are the same however they are cut, a request
//! that is read is read again after writing it, and nothing takes more memory than it may.
#![no_main]

use candor_daemon::lines::Lines;
use candor_gateway::control::{Answer, Request};

const MAX_LINE: usize = 256;

/// What the lines are in pieces of this size; nothing for one that is too long.
fn cut(bytes: &[u8], size: usize) -> Vec<Option<Vec<u8>>> {
    let mut lines = Lines::new(MAX_LINE);
    let mut found = Vec::new();
    for piece in bytes.chunks(size) {
        lines.push(piece);
        while let Some(line) = lines.next_line() {
            found.push(line.ok().map(<[u8]>::to_vec));
        }
        assert!(lines.held() <= MAX_LINE + piece.len());
    }
    found
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let lines = cut(bytes, usize::from(size).max(1));
    assert_eq!(lines, cut(bytes, bytes.len().max(1)));
    for line in lines.into_iter().flatten() {
        match Request::decode(&line) {
            Ok(request) => {
                let again = request.encode().expect("paths came out of JSON");
                assert_eq!(Request::decode(&again), Ok(request));
            }
            Err(reason) => assert!(!reason.is_empty() && reason.len() < 4 * MAX_LINE, "{reason}"),
        }
        if let Ok(answer) = Answer::decode(&line) {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
    }
});
