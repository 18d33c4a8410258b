//! What QEMU and the C library have for a library that QEMU has loaded: declarations, and the options of the library.
//!
//! | module | what it declares |
//! |---|---|
//! | [`c`] | functions of the C library |
//! | [`devices`] | devices, memory, timers and clocks of QEMU |
//! | [`exclusive`] | statics that one call at a time may change |
//!
//! A library that QEMU loads with `-plugin` runs on its threads. Nothing may unwind into QEMU, so panics end it.

#![cfg_attr(not(test), no_std)]

pub mod c;
pub mod devices;
pub mod exclusive;

use core::ffi::{CStr, c_char, c_int};

/// The number of the plugin interface, which QEMU reads and which candor sets for the QEMU that is there.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
pub static qemu_plugin_version: c_int = 1;

/// The number that candor has set, which the compiler must not know.
#[must_use]
pub fn plugin_interface() -> c_int {
    // SAFETY: a static that nobody writes while QEMU runs.
    unsafe { (&raw const qemu_plugin_version).read_volatile() }
}

/// The options of a library: name and value of each `name=value`. What has no `=` is a name without a value.
///
/// # Safety
/// `arguments` points to `count` strings that stay, as `qemu_plugin_install` gets them.
pub unsafe fn options(
    count: c_int,
    arguments: *const *mut c_char,
) -> impl Iterator<Item = (&'static [u8], &'static CStr)> {
    (0..usize::try_from(count).unwrap_or(0)).map(move |index| {
        // SAFETY: there are `count` of them, which stay.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) }.to_bytes_with_nul();
        let end = argument.len() - 1;
        let equals = argument.iter().position(|&byte| byte == b'=').unwrap_or(end);
        let value = argument.get(equals + 1..).unwrap_or_default();
        (&argument[..equals], CStr::from_bytes_with_nul(value).unwrap_or_default())
    })
}

/// The decimal number that a value begins with; it wraps around at 2^64.
#[must_use]
pub fn number(value: &CStr) -> u64 {
    let digits = value.to_bytes().iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// The parts of the core library that are compiled for unwinding name it. Nothing unwinds in QEMU; tests have that of std.
#[cfg(panic = "abort")]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
