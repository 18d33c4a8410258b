//! Network namespaces. Interfaces, addresses, sockets and can-gw jobs belong to one each; which one
//! a new socket belongs to is a property of the thread that opens it.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::{Errno, Error};

/// The kind of container that a system whose root is here tells that it is, such as `docker`; `None` without a sign.
///
/// The marks are those of [systemd](https://systemd.io/CONTAINER_INTERFACE/), podman and docker.
#[must_use]
pub fn container(root: &Path) -> Option<String> {
    let reported = fs::read_to_string(root.join("run/systemd/container")).unwrap_or_default();
    if !reported.trim().is_empty() {
        return Some(reported.trim().to_owned());
    }
    let marks = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
    let found = marks.iter().find(|(mark, _)| root.join(mark).exists());
    found.map(|(_, name)| (*name).to_owned())
}

/// A network namespace, kept alive as long as the value.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// That of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn current() -> Result<Self, Error> {
        Self::open("/proc/thread-self/ns/net".into())
    }

    /// That of a process.
    ///
    /// # Errors
    /// `/proc` is not mounted, or there is no such process.
    pub fn of_process(process: u32) -> Result<Self, Error> {
        Self::open(format!("/proc/{process}/ns/net"))
    }

    fn open(path: String) -> Result<Self, Error> {
        let file = File::open(&path).map_err(|error| {
            let errno = Errno(error.raw_os_error().unwrap_or(libc::EINVAL));
            Error::new("open the network namespace", path, errno)
                .remedy_if(libc::ENOENT, "is /proc mounted?")
        })?;
        Ok(Self(file.into()))
    }

    /// Makes a new one, empty but for a loopback interface that is down, and moves the calling
    /// thread there. Threads it starts from now on begin there.
    ///
    /// # Errors
    /// No permission.
    pub fn unshare() -> Result<Self, Error> {
        unshare(UnshareFlags::NEWNET).map_err(|errno| {
            Error::new("create a network namespace", "", errno).remedy_if(
                libc::EPERM,
                "this needs root or CAP_SYS_ADMIN; try `unshare --map-root-user`",
            )
        })?;
        Self::current()
    }

    /// Lets the next process that this one forks be number 1 of a namespace of process numbers, as the
    /// first process of a container is.
    ///
    /// # Errors
    /// No permission.
    pub fn unshare_processes() -> Result<(), Error> {
        unshare(UnshareFlags::NEWPID).map_err(|errno| {
            Error::new("create a process namespace", "", errno)
                .remedy_if(libc::EPERM, "this needs root or CAP_SYS_ADMIN")
        })
    }

    /// Moves the calling thread here.
    ///
    /// # Errors
    /// No permission.
    pub fn enter(&self) -> Result<(), Error> {
        move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|errno| {
            Error::new("enter a network namespace", "", errno.into())
                .remedy_if(libc::EPERM, "this needs root or CAP_SYS_ADMIN")
        })
    }
}

/// Gives the calling thread new namespaces, and nothing else of its own.
fn unshare(namespaces: UnshareFlags) -> Result<(), Errno> {
    let namespaces = namespaces & (UnshareFlags::NEWNET | UnshareFlags::NEWPID);
    // SAFETY: the thread still has its open files in common with the others.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
