//! Mounting file systems, and the room in them.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::check;
use crate::{Errno, Error};

/// Mounts a file system of `kind` (`proc`, `sysfs`, `devtmpfs`, `tmpfs`) at `target`, which must be
/// there. `options` is what `mount -o` takes for that kind, or empty.
///
/// # Errors
/// No permission, no such kind, no such folder.
pub fn mount(kind: &str, target: &str, options: &str) -> Result<(), Error> {
    let fail = |errno| {
        Error::new("mount at", target, errno)
            .remedy_if(libc::EPERM, "this needs root")
            .remedy_if(libc::ENOENT, "create the folder first")
            .remedy_if(libc::ENODEV, "the kernel does not have this file system; load its module")
    };
    let text = |text: &str| CString::new(text).map_err(|_| fail(Errno(libc::EINVAL)));
    let (kind, place, options) = (text(kind)?, text(target)?, text(options)?);
    let flags = 0;
    // SAFETY: four C strings that live until the call returns.
    check(unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    })
    .map(drop)
    .map_err(fail)
}

/// Bytes that this user may still write to the file system of `path`.
///
/// # Errors
/// There is no such path.
pub fn free_bytes(path: &Path) -> Result<u64, Error> {
    let fail = |errno| Error::new("read the free space of", path.display().to_string(), errno);
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| fail(Errno(libc::EINVAL)))?;
    let mut found = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a C string and a place for the answer, both of which live until the call returns.
    check(unsafe { libc::statvfs(name.as_ptr(), found.as_mut_ptr()) }).map_err(fail)?;
    // SAFETY: zeroes are a valid answer, and the kernel has written it.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_that_of_the_file_system() {
        assert!(free_bytes(&std::env::temp_dir()).unwrap() > 0);
        // Nothing can be written there, whoever asks.
        assert_eq!(free_bytes(Path::new("/proc")).unwrap(), 0);
        let error = free_bytes(Path::new("/no/such/folder")).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = mount("proc", "/no/such/folder", "").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot mount at /no/such/folder: E"), "{text}");
        assert!(error.remedy().is_some(), "{text}");
        assert!(mount("pr\0c", "x", "").unwrap_err().is(libc::EINVAL));
    }
}
