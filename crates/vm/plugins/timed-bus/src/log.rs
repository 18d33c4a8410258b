//! Lines in a file: what happened on the buses.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::{self, Write};

use candor_qemu::c;

/// Written out when it is full, and when the machine stops.
struct Buffer {
    file: c_int,
    used: usize,
    bytes: [u8; 1 << 16],
}

struct Shared(UnsafeCell<Buffer>);

// SAFETY: QEMU calls from one thread at a time.
unsafe impl Sync for Shared {}

static LOG: Shared = Shared(UnsafeCell::new(Buffer { file: -1, used: 0, bytes: [0; 1 << 16] }));

fn buffer() -> &'static mut Buffer {
    // SAFETY: QEMU calls from one thread at a time, and no two references are kept.
    unsafe { &mut *LOG.0.get() }
}

/// Logs go to this file from now on.
pub(crate) fn open(path: &CStr) {
    // SAFETY: a path.
    buffer().file = unsafe { c::creat(path.as_ptr(), 0o644) };
}

/// Writes out what is there.
pub(crate) fn flush() {
    let buffer = buffer();
    let mut from = 0;
    while buffer.file >= 0 && from < buffer.used {
        let rest = &buffer.bytes[from..buffer.used];
        // SAFETY: bytes that are there.
        let written = unsafe { c::write(buffer.file, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => from += written,
            // The disk is full, or the file is gone: candor misses the last line.
            _ => buffer.file = -1,
        }
    }
    buffer.used = 0;
}

/// Adds a line.
pub(crate) fn log(line: fmt::Arguments<'_>) {
    if buffer().file >= 0 {
        let _ = Lines.write_fmt(line);
    }
}

struct Lines;

impl Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if buffer().used == buffer().bytes.len() {
                flush();
            }
            let buffer = buffer();
            buffer.bytes[buffer.used] = byte;
            buffer.used += 1;
        }
        Ok(())
    }
}
