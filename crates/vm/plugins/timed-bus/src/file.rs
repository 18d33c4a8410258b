//! The file of records, and standard error.

use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};

use candor_qemu::c;
use candor_qemu::exclusive::Exclusive;

/// Written out when it is full, when the tester is done, and when the machine stops.
struct Buffer {
    file: c_int,
    used: usize,
    bytes: [u8; 1 << 16],
}

static RECORDS: Exclusive<Buffer> =
    Exclusive::new(Buffer { file: -1, used: 0, bytes: [0; 1 << 16] });

impl Buffer {
    fn flush(&mut self) {
        if self.file >= 0 && !write_all(self.file, &self.bytes[..self.used]) {
            // The disk is full, or the file is gone: candor misses the last record.
            self.file = -1;
        }
        self.used = 0;
    }
}

/// Records go to this file from now on; whether it can be written.
pub(crate) fn open(path: &CStr) -> bool {
    // SAFETY: a path.
    let file = unsafe { c::creat(path.as_ptr(), 0o600) };
    RECORDS.with(|buffer| buffer.file = file);
    file >= 0
}

/// Adds bytes.
pub(crate) fn write(bytes: &[u8]) {
    RECORDS.with(|buffer| {
        if buffer.used + bytes.len() > buffer.bytes.len() {
            buffer.flush();
        }
        if let Some(room) = buffer.bytes.get_mut(buffer.used..buffer.used + bytes.len()) {
            room.copy_from_slice(bytes);
            buffer.used += bytes.len();
        }
    });
}

/// Writes out what is there.
pub(crate) fn flush() {
    RECORDS.with(Buffer::flush);
}

/// Whether all could be written.
fn write_all(file: c_int, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: bytes that are there.
        let written = unsafe { c::write(file, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = bytes.get(written..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}

/// A line on standard error, which candor shows.
pub(crate) fn complain(reason: fmt::Arguments<'_>) {
    let _ = writeln!(StandardError, "candor: {reason}");
}

struct StandardError;

impl Write for StandardError {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if write_all(2, text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}
