//! The file of records, and standard error.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};

use candor_qemu::c;

/// Written out when it is full, when the tester is done, and when the machine stops.
struct Buffer {
    file: c_int,
    used: usize,
    bytes: [u8; 1 << 16],
}

struct Shared(UnsafeCell<Buffer>);

// SAFETY: QEMU calls from one thread at a time.
unsafe impl Sync for Shared {}

static RECORDS: Shared = Shared(UnsafeCell::new(Buffer { file: -1, used: 0, bytes: [0; 1 << 16] }));

fn buffer() -> &'static mut Buffer {
    // SAFETY: QEMU calls from one thread at a time, and no two references are kept.
    unsafe { &mut *RECORDS.0.get() }
}

/// Records go to this file from now on; whether it can be written.
pub(crate) fn open(path: &CStr) -> bool {
    // SAFETY: a path.
    buffer().file = unsafe { c::creat(path.as_ptr(), 0o600) };
    buffer().file >= 0
}

/// Adds bytes.
pub(crate) fn write(bytes: &[u8]) {
    if buffer().used + bytes.len() > buffer().bytes.len() {
        flush();
    }
    let buffer = buffer();
    if let Some(room) = buffer.bytes.get_mut(buffer.used..buffer.used + bytes.len()) {
        room.copy_from_slice(bytes);
        buffer.used += bytes.len();
    }
}

/// Writes out what is there.
pub(crate) fn flush() {
    let buffer = buffer();
    if buffer.file >= 0 && !write_all(buffer.file, &buffer.bytes[..buffer.used]) {
        // The disk is full, or the file is gone: candor misses the last record.
        buffer.file = -1;
    }
    buffer.used = 0;
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
