//! [`Error`]: what was tried on what, the kernel's reason, and a remedy.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// The numbers that sockets, netlink, modules and the scheduler answer with.
const NAMES: [(i32, &str); 48] = [
    (libc::E2BIG, "E2BIG"),
    (libc::EACCES, "EACCES"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EBADF, "EBADF"),
    (libc::EBADMSG, "EBADMSG"),
    (libc::EBUSY, "EBUSY"),
    (libc::ECHILD, "ECHILD"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::EDOM, "EDOM"),
    (libc::EEXIST, "EEXIST"),
    (libc::EFAULT, "EFAULT"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EINTR, "EINTR"),
    (libc::EINVAL, "EINVAL"),
    (libc::EIO, "EIO"),
    (libc::EISCONN, "EISCONN"),
    (libc::EKEYREJECTED, "EKEYREJECTED"),
    (libc::EMFILE, "EMFILE"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENETDOWN, "ENETDOWN"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOENT, "ENOENT"),
    (libc::ENOEXEC, "ENOEXEC"),
    (libc::ENOKEY, "ENOKEY"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::ENOTSOCK, "ENOTSOCK"),
    (libc::ENXIO, "ENXIO"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EOVERFLOW, "EOVERFLOW"),
    (libc::EPERM, "EPERM"),
    (libc::EPIPE, "EPIPE"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::EPROTOTYPE, "EPROTOTYPE"),
    (libc::ERANGE, "ERANGE"),
    (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
    (libc::ESRCH, "ESRCH"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::EXDEV, "EXDEV"),
];

impl Errno {
    /// The number that the last call of this thread left.
    pub(crate) fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// Its name, such as `ENODEV`, if it is one of those that are to be expected here.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }
}

impl From<nix::errno::Errno> for Errno {
    fn from(errno: nix::errno::Errno) -> Self {
        Self(errno as i32)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl fmt::Display for Errno {
    /// `ENODEV (No such device)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        match self.name() {
            Some(name) => write!(f, "{name} ({text})"),
            None => write!(f, "error {} ({text})", self.0),
        }
    }
}

/// Why something could not be done.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone, PartialEq, Eq)]
struct ErrorParts {
    attempt: &'static str,
    subject: String,
    errno: Option<Errno>,
    detail: Option<String>,
    remedy: Option<Cow<'static, str>>,
}

impl Error {
    /// `attempt` is an infinitive (`open a CAN socket on`), `subject` what it was tried on.
    pub(crate) fn new(attempt: &'static str, subject: impl Into<String>, errno: Errno) -> Self {
        let errno = Some(errno);
        let subject = subject.into();
        Self(Box::new(ErrorParts { attempt, subject, errno, detail: None, remedy: None }))
    }

    /// For what the kernel did not refuse itself.
    pub(crate) fn other(
        attempt: &'static str,
        subject: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (subject, detail) = (subject.into(), Some(reason.into()));
        Self(Box::new(ErrorParts { attempt, subject, errno: None, detail, remedy: None }))
    }

    /// Adds what the kernel says beside the number.
    pub(crate) fn with_detail(mut self, detail: Option<String>) -> Self {
        self.0.detail = detail;
        self
    }

    /// Whether it is that the interface is down (`ENETDOWN`), which may end.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.is(libc::ENETDOWN)
    }

    /// What to do about it.
    pub(crate) fn with_remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// What to do about it if the number is `errno`.
    pub(crate) fn remedy_if(self, errno: i32, remedy: &'static str) -> Self {
        if self.errno() == Some(Errno(errno)) { self.with_remedy(remedy) } else { self }
    }

    /// The same with a remedy that is found out only then.
    pub(crate) fn remedy_with(self, errno: i32, remedy: impl FnOnce() -> String) -> Self {
        if self.is(errno) { self.with_remedy(remedy()) } else { self }
    }

    /// The kernel's number; `None` if the reason lies elsewhere.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        self.0.errno
    }

    /// Whether the kernel's number is `errno`, such as `libc::ENODEV`.
    #[must_use]
    pub fn is(&self, errno: i32) -> bool {
        self.errno() == Some(Errno(errno))
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }
}

impl fmt::Display for Error {
    /// `cannot open a CAN socket on can7: ENODEV (No such device); see ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { attempt, subject, errno, detail, remedy } = &*self.0;
        write!(f, "cannot {attempt}")?;
        if !subject.is_empty() {
            write!(f, " {subject}")?;
        }
        if let Some(errno) = errno {
            write!(f, ": {errno}")?;
        }
        if let Some(detail) = detail {
            write!(f, ": {detail}")?;
        }
        if let Some(remedy) = remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// The sentence too: it says more than the parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// The outcome of a call that answers -1 if it fails.
pub(crate) fn check<T: PartialEq + From<i8>>(result: T) -> Result<T, Errno> {
    if result == T::from(-1) { Err(Errno::last()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_was_tried_and_what_to_do() {
        let error = Error::new("open a CAN socket on", "can7", Errno(libc::ENODEV))
            .remedy_if(libc::EPERM, "never shown")
            .remedy_if(libc::ENODEV, "list the interfaces with `ip link`");
        assert_eq!(
            error.to_string(),
            "cannot open a CAN socket on can7: ENODEV (No such device); \
             list the interfaces with `ip link`"
        );
        assert!(error.is(libc::ENODEV));
    }

    #[test]
    fn numbers_without_a_name_are_still_reported() {
        assert_eq!(Errno(libc::EXFULL).name(), None);
        // The C library has the words, of which musl has none for this one.
        assert!(Errno(libc::EXFULL).to_string().starts_with("error 54 ("));
    }

    #[test]
    fn every_name_has_its_own_number() {
        for (index, (number, _)) in NAMES.iter().enumerate() {
            assert!(NAMES[..index].iter().all(|(other, _)| other != number), "{number}");
        }
    }
}
