//! The decoder of MF4 recordings, which reads a file wherever it wants.
#![no_main]

use std::io::Cursor;

use candor_recording::{Format, Step};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let format = Format::by_name("mf4").expect("a format");
    let open = format.file_decoder().expect("it is sought in");
    let mut decoder = open(Box::new(Cursor::new(input.to_vec())));
    let mut errors = 0;
    loop {
        match decoder.decode(&[], true) {
            Ok(Step::Record { consumed: 0, record }) => {
                assert!(!decoder.interfaces().name(record.interface).is_empty());
            }
            Ok(Step::End) => break,
            Ok(step) => panic!("{step:?}"),
            Err(error) if error.resume.is_none() || error.is_cut() => break,
            // Each costs a record, and a record some bytes.
            Err(_) => errors += 1,
        }
        assert!(errors <= 64 << 20, "it ends");
    }
});
