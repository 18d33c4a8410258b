//! The decoder of MF4 recordings, which reads a file wherever it wants.
#![no_main]

use std::io::{self, Cursor};

use candor_recording::{Format, Input, ReadError, Step};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let format = Format::by_name("mf4").expect("a format");
    let file = Cursor::new(input.to_vec());
    let (mut input, mut decoder) = (Input::new(io::empty()).with_file(file), format.decoder());
    let mut errors = 0;
    loop {
        match decoder.next(&mut input) {
            Ok(Step::Record(record)) => {
                assert!(!decoder.interfaces().name(record.interface).is_empty());
            }
            Ok(Step::End) => break,
            Err(ReadError::Malformed(error)) if error.resume.is_none() || error.is_cut() => break,
            // Each costs a record, and a record some bytes.
            Err(ReadError::Malformed(_)) => errors += 1,
            other => panic!("{other:?}"),
        }
        assert!(errors <= 64 << 20, "it ends");
    }
});
