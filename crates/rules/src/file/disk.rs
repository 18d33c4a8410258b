//! Files of text, and the files they name, read from disk with bounds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs::File;
use std::io::{Error as IoError, Read};
use std::path::Path;

use candor_config::MAX_BYTES;

/// The most that is read of a file that another file names, in bytes: more than the largest DBC files have.
pub const MOST_BYTES: u64 = 32 << 20;

/// The first `most` bytes of a file.
///
/// # Errors
/// Why it cannot be read, without its name.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| {
        // A device or a pipe could go on for ever, a folder cannot be read.
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(IoError::other("it is not a regular file")),
        }
    });
    file.and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}; check the path and its permissions"))?;
    Ok(bytes)
}

/// A file of TOML. `kind` is what such files are called, as in `rule file`.
///
/// # Errors
/// It cannot be read, is too long or is not UTF-8: a sentence that begins with its name.
pub fn read_text(path: &Path, kind: &str) -> Result<String, String> {
    let name = path.display();
    let bytes = read(path, MAX_BYTES as u64 + 1).map_err(|reason| format!("{name}: {reason}"))?;
    if bytes.len() > MAX_BYTES {
        return Err(format!(
            "{name}: is longer than {MAX_BYTES} bytes; a {kind} cannot be that long"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        format!("{name}: byte {byte} is not UTF-8; a {kind} is text")
    })
}
