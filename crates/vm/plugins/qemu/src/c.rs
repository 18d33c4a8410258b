//! The C library, which QEMU has loaded.

use core::ffi::{c_char, c_int, c_uint, c_void};

unsafe extern "C" {
    /// `calloc(3)`.
    pub fn calloc(count: usize, bytes: usize) -> *mut c_void;
    /// `creat(2)`.
    pub fn creat(path: *const c_char, mode: c_uint) -> c_int;
    /// `write(2)`.
    pub fn write(file: c_int, bytes: *const c_void, length: usize) -> isize;
    /// `open(2)`.
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    /// `read(2)`.
    pub fn read(file: c_int, bytes: *mut c_void, length: usize) -> isize;
    /// `close(2)`.
    pub fn close(file: c_int) -> c_int;
    /// `exit(3)`.
    pub fn exit(status: c_int) -> !;
    /// `abort(3)`.
    pub fn abort() -> !;
}
