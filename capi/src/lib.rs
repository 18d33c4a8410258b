//! VCA: one C interface to every bus. `vca.h` says what each function does; this is what stands behind it.
//!
//! ```text
//!  C -- lib: pointers, panics -- handles: number -> Bus -- bus -- candor-port, candor-drivers
//!                                                           |
//!                                       frame, errors: what C sees of them
//! ```
//!
//! A handle of C is a number in the form of a pointer, which nobody follows. So a closed handle is told, and
//! harms nothing. `unsafe` is in this file only: where what C passes is read and written.

mod bus;
mod errors;
mod frame;
mod handles;

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::{ptr, slice};

use bus::Bus;
use errors::Failure;
use frame::{RawFilter, RawFrame, RawStatus};

/// What a handle of C points to: nothing.
#[repr(C)]
#[derive(Debug)]
pub struct Vca {
    _nothing: [u8; 0],
}

/// The bytes of a name at most.
const NAME_MOST: usize = 4_096;
/// Frames, and filters, that one call takes at most.
const FRAMES_MOST: usize = 1 << 20;
const FILTERS_MOST: usize = 4_096;

/// Calls `body`; no panic comes to C. Keeps what [`vca_last_error`] tells.
fn guarded(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(number)) => {
            errors::forget();
            number
        }
        Ok(Err(failure)) => errors::keep(failure),
        Err(_) => errors::keep(Failure::fault()),
    }
}

/// The bus of a handle.
fn bus_of(handle: *mut Vca) -> Result<Arc<Bus>, Failure> {
    match handle.addr() {
        0 => Err(Failure::invalid("the handle is null", "open a bus with vca_open()")),
        number => handles::find(number).ok_or_else(Failure::closed),
    }
}

/// `vca_open()`.
///
/// # Safety
/// `name` is null or a string with a zero at its end; `out` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_open(name: *const c_char, flags: c_uint, out: *mut *mut Vca) -> c_int {
    guarded(|| {
        let unusable = || {
            let reason = "`name` or `out` is null, or `out` is not aligned";
            Failure::invalid(reason, "pass a name and a place for the handle")
        };
        if !is_usable(out) {
            return Err(unusable());
        }
        // SAFETY: the caller has a place for a pointer at this address, which is not null and aligned.
        unsafe { out.write(ptr::null_mut()) };
        if name.is_null() {
            return Err(unusable());
        }
        // SAFETY: `name` is not null, so it is a string with a zero at its end, which lives during this call.
        let name = unsafe { CStr::from_ptr(name) };
        let name = match name.to_str() {
            Ok(name) if name.len() <= NAME_MOST => name,
            _ => {
                let reason = "the name is not UTF-8, or longer than 4096 bytes";
                return Err(Failure::invalid(reason, "write for example can0 or sim:bench"));
            }
        };
        let number = handles::add(Bus::open(name, flags)?);
        // SAFETY: as above.
        unsafe { out.write(ptr::without_provenance_mut(number)) };
        Ok(0)
    })
}

/// `vca_close()`.
#[unsafe(no_mangle)]
pub extern "C" fn vca_close(handle: *mut Vca) -> c_int {
    guarded(|| {
        bus_of(handle)?;
        handles::remove(handle.addr()).ok_or_else(Failure::closed)?.close();
        Ok(0)
    })
}

/// `vca_send()`.
///
/// # Safety
/// `frames` is null or an array of `count` frames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_send(
    handle: *mut Vca,
    frames: *const RawFrame,
    count: usize,
) -> c_int {
    guarded(|| {
        let bus = bus_of(handle)?;
        let frames = match (is_usable(frames), count) {
            (_, 0) => &[][..],
            (false, _) => return Err(bad_array("frames")),
            // SAFETY: the caller has an array of `count` frames at this address, which is not null and
            // aligned. Every content of their bytes is a frame, and nobody writes there during this call.
            (true, _) => unsafe { slice::from_raw_parts(frames, count.min(FRAMES_MOST)) },
        };
        bus.send(frames)
    })
}

/// `vca_receive()`.
///
/// # Safety
/// `frames` is null or room for `room` frames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_receive(
    handle: *mut Vca,
    frames: *mut RawFrame,
    room: usize,
    timeout_ns: i64,
) -> c_int {
    guarded(|| {
        let bus = bus_of(handle)?;
        if !is_usable(frames) || room == 0 {
            return Err(bad_array("frames"));
        }
        bus.receive(room.min(FRAMES_MOST), timeout_ns, &mut |index, frame| {
            // SAFETY: `index` is below `room`, so this place belongs to the array of the caller, which is
            // not null and aligned. What was there needs no drop, and is not read.
            unsafe { frames.add(index).write(frame) };
        })
    })
}

/// `vca_wait()`.
#[unsafe(no_mangle)]
pub extern "C" fn vca_wait(handle: *mut Vca, what: c_uint, timeout_ns: i64) -> c_int {
    guarded(|| bus_of(handle)?.wait(what, timeout_ns))
}

/// `vca_wake()`.
#[unsafe(no_mangle)]
pub extern "C" fn vca_wake(handle: *mut Vca) -> c_int {
    guarded(|| bus_of(handle)?.wake())
}

/// `vca_set_filters()`.
///
/// # Safety
/// `filters` is null or an array of `count` filters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_set_filters(
    handle: *mut Vca,
    filters: *const RawFilter,
    count: usize,
) -> c_int {
    guarded(|| {
        let bus = bus_of(handle)?;
        if filters.is_null() && count == 0 {
            return bus.set_filters(None);
        }
        if !is_usable(filters) || count > FILTERS_MOST {
            return Err(bad_array("filters"));
        }
        // SAFETY: the caller has an array of `count` filters at this address, which is not null and aligned.
        // Every content of their bytes is a filter, and nobody writes there during this call.
        bus.set_filters(Some(unsafe { slice::from_raw_parts(filters, count) }))
    })
}

/// `vca_status()`.
///
/// # Safety
/// `status` is null or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_status(handle: *mut Vca, status: *mut RawStatus) -> c_int {
    guarded(|| {
        let bus = bus_of(handle)?;
        if !is_usable(status) {
            return Err(bad_array("status"));
        }
        let found = bus.status()?;
        // SAFETY: the caller has a place for a status at this address, which is not null and aligned.
        unsafe { status.write(found) };
        Ok(0)
    })
}

/// `vca_strerror()`.
#[unsafe(no_mangle)]
pub extern "C" fn vca_strerror(error: c_int) -> *const c_char {
    errors::text(error).as_ptr()
}

/// `vca_last_error()`.
///
/// # Safety
/// `text` is null or room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vca_last_error(text: *mut c_char, room: usize) -> c_int {
    let outcome = catch_unwind(|| {
        let last = errors::last();
        let bytes = last.as_bytes();
        if !text.is_null() && room > 0 {
            let mut len = bytes.len().min(room - 1);
            // No character is cut.
            while !last.is_char_boundary(len) {
                len -= 1;
            }
            // SAFETY: the caller has room for `room` bytes, of which `len` and a zero are used. The source has
            // `len` bytes, and is memory of this library.
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), text.cast(), len);
                text.add(len).write(0);
            }
        }
        c_int::try_from(bytes.len()).unwrap_or(c_int::MAX)
    });
    outcome.unwrap_or(-libc::ENOTRECOVERABLE)
}

/// Whether something can be at this address.
fn is_usable<T>(place: *const T) -> bool {
    !place.is_null() && place.is_aligned()
}

fn bad_array(what: &str) -> Failure {
    Failure::invalid(
        format!("`{what}` is null, not aligned, empty or too long"),
        "pass an array and the number of its elements",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_comes_to_c() {
        assert_eq!(guarded(|| panic!("for the test")), -libc::ENOTRECOVERABLE);
        assert!(errors::last().starts_with("the library failed; "), "{}", errors::last());
        assert_eq!(guarded(|| Ok(7)), 7);
        assert_eq!(errors::last(), "");
        assert_eq!(vca_close(ptr::null_mut()), -libc::EINVAL);
        assert_eq!(vca_close(ptr::without_provenance_mut(usize::MAX)), -libc::EBADF);
    }
}
