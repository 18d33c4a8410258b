//! Mounting file systems, and the room in them.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::MountFlags;

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
    let options = CString::new(options).map_err(|_| fail(Errno(libc::EINVAL)))?;
    rustix::mount::mount(kind, target, kind, MountFlags::empty(), &*options)
        .map_err(|errno| fail(errno.into()))
}

/// Bytes that this user may still write to the file system of `path`.
///
/// # Errors
/// There is no such path.
pub fn free_bytes(path: &Path) -> Result<u64, Error> {
    let found = rustix::fs::statvfs(path).map_err(|errno| {
        Error::new("read the free space of", path.display().to_string(), errno.into())
    })?;
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
