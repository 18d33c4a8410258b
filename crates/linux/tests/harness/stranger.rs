//! Another user of this machine: processes that were root and became `nobody`.

#![allow(dead_code, reason = "each of the programs with checks has use for some of it")]

use std::fs::{self, Permissions};
use std::io::{Read, Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use candor_linux::process::{Child, become_user, fork};

/// A user who is not root and owns nothing (`nobody`).
pub(crate) const NOBODY: u32 = 65_534;

/// A folder in which everybody may make files, like `/tmp`, removed in the end.
pub(crate) struct Shared(PathBuf);

impl Shared {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("candor-check-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process of another user that has done something and is still there.
pub(crate) struct Stranger {
    child: Option<Child>,
}

impl Stranger {
    /// Waits until `body` is done; whatever it returns is kept open until this is dropped.
    pub(crate) fn that<T>(body: impl FnOnce() -> T) -> Self {
        let (mut done, mut tell) = pipe().unwrap();
        let child = fork(|| {
            become_user(NOBODY).unwrap();
            let _kept = body();
            tell.write_all(b".").unwrap();
            loop {
                std::thread::park();
            }
        });
        drop(tell);
        let stranger = Self { child: child.ok() };
        done.read_exact(&mut [0]).expect("the stranger could not do it");
        stranger
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // It may have panicked.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether another user comes to the end of `body` without a panic.
pub(crate) fn as_stranger(body: impl FnOnce()) -> bool {
    let child = fork(|| {
        become_user(NOBODY).unwrap();
        body();
        0
    });
    child.unwrap().wait().unwrap().status == Ok(0)
}
