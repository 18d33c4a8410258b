//! Kernel modules.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use rustix::io::Errno as RawErrno;

use crate::{Errno, Error};

const NO_MODULES: &str = "this kernel was built without module support";

/// What became of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    Now,
    /// It was there before, with whatever parameters it was given then.
    Before,
}

/// Loads the module in `file` (`.ko`, not compressed) with `parameters` such as `max_hops=3`.
///
/// # Errors
/// The file cannot be read, belongs to another kernel, or needs a module that is not loaded yet.
pub fn load(file: &Path, parameters: &str) -> Result<Loaded, Error> {
    let fail = |errno| {
        Error::new("load the module", file.display().to_string(), errno)
            .remedy_if(libc::EPERM, "this needs root and a kernel that permits modules")
            .remedy_if(libc::ENOSYS, NO_MODULES)
            .remedy_if(
                libc::ENOENT,
                "first load the modules that it depends on; dmesg shows the missing symbols",
            )
            .remedy_if(libc::ENOEXEC, "it belongs to another kernel, or is compressed")
            .remedy_if(libc::ENOKEY, "this kernel requires signed modules")
            .remedy_if(libc::EINVAL, "check its parameters; dmesg shows more")
    };
    let opened = File::open(file).map_err(|error| {
        let errno = Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
        Error::new("read the module", file.display().to_string(), errno)
    })?;
    let parameters = CString::new(parameters).map_err(|_| fail(Errno(libc::EINVAL)))?;
    match rustix::system::finit_module(&opened, &parameters, 0) {
        Ok(()) => Ok(Loaded::Now),
        Err(RawErrno::EXIST) => Ok(Loaded::Before),
        Err(errno) => Err(fail(errno.into())),
    }
}

/// Removes a module, which is named with underscores: `can_gw`.
///
/// # Errors
/// It is in use, or not loaded.
pub fn unload(name: &str) -> Result<(), Error> {
    let fail = |errno| {
        Error::new("remove the module", name, errno)
            .remedy_if(libc::EPERM, "this needs root")
            .remedy_if(libc::ENOSYS, NO_MODULES)
            .remedy_if(libc::ENOENT, "it is not loaded; write the name with underscores: can_gw")
            .remedy_if(libc::EWOULDBLOCK, "it is in use; see lsmod")
    };
    let text = CString::new(name).map_err(|_| fail(Errno(libc::EINVAL)))?;
    rustix::system::delete_module(&text, libc::O_NONBLOCK).map_err(|errno| fail(errno.into()))
}

/// Whether a module is there, loaded or built in. Takes `/sys`; the name has underscores: `can_gw`.
#[must_use]
pub fn is_there(name: &str) -> bool {
    Path::new("/sys/module").join(name).exists()
}

/// Whether a module of this kernel can be loaded from its file. The name has underscores: `can_gw`.
#[must_use]
pub fn is_available(name: &str) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    ["/lib/modules", "/usr/lib/modules"].iter().any(|folder| {
        let list = Path::new(folder).join(&release).join("modules.dep");
        std::fs::read_to_string(list).is_ok_and(|list| is_listed(&list, name))
    })
}

/// Whether a list such as `modules.dep` or `modules.builtin` has a module. The name has underscores: `can_gw`.
#[must_use]
pub fn is_listed(list: &str, name: &str) -> bool {
    // File names have dashes where the kernel has underscores: can-raw.ko, can_raw.
    list.lines().any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        file.split(".ko").next().is_some_and(|file| file.replace('-', "_") == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_there_is_named() {
        let error = load(Path::new("no-such-module.ko"), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the module no-such-module.ko: ENOENT (No such file or directory)"
        );
        assert!(unload("no_such_module").unwrap_err().remedy().is_some());
        assert!(!is_there("no_such_module"));
        assert!(!is_available("no_such_module"));
    }

    #[test]
    fn modules_are_found_in_lists() {
        let list = "kernel/net/can/can-raw.ko.xz: kernel/net/can/can.ko.xz\nkernel/lib/crc8.ko\n";
        for (name, expected) in
            [("can_raw", true), ("crc8", true), ("can", false), ("can-raw", false), ("crc", false)]
        {
            assert_eq!(is_listed(list, name), expected, "{name}");
        }
    }
}
