//! Mounting file systems.

use std::ffi::CString;

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
            .remedy_if(libc::EPERM, "it takes root")
            .remedy_if(libc::ENOENT, "make the folder first")
            .remedy_if(libc::ENODEV, "the kernel lacks this file system; load its module")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = mount("proc", "/no/such/folder", "").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot mount at /no/such/folder: E"), "{text}");
        assert!(error.remedy().is_some(), "{text}");
        assert!(mount("pr\0c", "x", "").unwrap_err().is(libc::EINVAL));
    }
}
