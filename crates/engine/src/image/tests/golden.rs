//! The bytes of a small image: a change of the format is seen.

use std::fmt::Write as _;
use std::format;
use std::string::String;

use expect_test::expect_file;

use super::sample::small;
use crate::Program;

/// Bytes as hexdump shows them: 16 in a line, and `*` for lines that are like the one before.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut before, mut is_same) = (None, false);
    for (index, line) in bytes.chunks(16).enumerate() {
        if before == Some(line) {
            if !is_same {
                text.push_str("*\n");
            }
            is_same = true;
            continue;
        }
        (before, is_same) = (Some(line), false);
        let _ = write!(text, "{:08x} ", index * 16);
        for byte in line {
            let _ = write!(text, " {byte:02x}");
        }
        text.push('\n');
    }
    text + &format!("{:08x}\n", bytes.len())
}

/// If this fails, the format has changed: give it a new version, and describe it in docs/program-image.md.
#[test]
fn the_bytes_of_an_image_are_those_in_the_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/image.txt");
    expect_file![path].assert_eq(&dump(&Program::new(&small()).to_image()));
}
