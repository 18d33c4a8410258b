//! Files of text, and the files they name, read from disk with bounds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs::{self, File};
use std::io::{Error as IoError, ErrorKind, Read};
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
    // Looked at before it is opened: opening a pipe waits for somebody who writes into it. A device could go on
    // for ever, a folder cannot be read.
    let file = fs::metadata(path).and_then(|metadata| match metadata.is_file() {
        true => File::open(path),
        false => Err(IoError::other("it is not a regular file")),
    });
    file.and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| unreadable(&error))?;
    Ok(bytes)
}

/// Why something cannot be read, without its name, and what helps.
#[must_use]
pub fn unreadable(error: &IoError) -> String {
    let remedy = match error.kind() {
        ErrorKind::OutOfMemory => "the process needs more: raise its limit (`ulimit -v`)",
        _ => "check the path and its permissions",
    };
    format!("cannot be read: {error}; {remedy}")
}

/// A file of TOML. `kind` is what such files are called, as in `rule file`.
///
/// # Errors
/// It cannot be read, is too long or is not UTF-8: a sentence that begins with its name.
pub fn read_text(path: &Path, kind: &str) -> Result<String, String> {
    let text = read(path, MAX_BYTES as u64 + 1).and_then(|bytes| text(bytes, kind));
    text.map_err(|reason| format!("{}: {reason}", path.display()))
}

/// What was read of a file of TOML, one byte more than it may have at most. `kind` is what such files are called.
///
/// # Errors
/// It is too long or is not UTF-8, without its name.
pub fn text(bytes: Vec<u8>, kind: &str) -> Result<String, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes; a {kind} cannot be that long"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        format!("byte {byte} is not UTF-8; a {kind} is text")
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    /// A pipe into which nobody writes, as a name in a file of somebody else may lead to.
    #[test]
    fn a_pipe_a_device_and_a_folder_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let error = read(path, 10).unwrap_err();
            assert!(error.starts_with("cannot be read: it is not a regular file"), "{error}");
            let error = read_text(path, "rule file").unwrap_err();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
        let file = folder.path().join("file");
        fs::write(&file, "0123456789").unwrap();
        assert_eq!(read(&file, 4).unwrap(), b"0123");
        assert_eq!(read_text(&file, "rule file").unwrap(), "0123456789");
        assert_eq!(read(&file, MOST_BYTES).unwrap(), b"0123456789");
        fs::write(&file, vec![b' '; MAX_BYTES]).unwrap();
        assert_eq!(read_text(&file, "rule file").unwrap().len(), MAX_BYTES);
        fs::write(&file, vec![b' '; MAX_BYTES + 1]).unwrap();
        let error = read_text(&file, "rule file").unwrap_err();
        assert!(error.contains("is longer than"), "{error}");
        fs::write(&file, b"a\xFF").unwrap();
        let error = read_text(&file, "rule file").unwrap_err();
        assert!(error.ends_with("byte 1 is not UTF-8; a rule file is text"), "{error}");
    }
}
