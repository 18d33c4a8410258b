//! Opening files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for reading, and does not wait for a writer if it is a pipe (`O_NONBLOCK`, fifo(7)). Reading what is no file does
/// not wait either.
///
/// # Errors
/// It is not there, or may not be read.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}
