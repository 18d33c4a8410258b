//! [`Folders`]: where programs that run keep their locks and sockets.
//!
//! | folder | for |
//! |---|---|
//! | `/run/candor` | root |
//! | `$RUNTIME_DIRECTORY` | a service: systemd makes this folder for it |
//! | `$XDG_RUNTIME_DIR/candor` | a user who is logged in |
//! | `candor-UID` in the folder for temporary files | anybody else |
//!
//! All of these have mode 0700 where they are made, but for `/run/candor`, which has 0755 as when systemd makes it:
//! services of other users have their folders in it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::folder;
use crate::peer::own_user;

/// Where root and services have their locks and sockets.
const SYSTEM: &str = "/run/candor";

/// Folders of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    system: PathBuf,
    service: Option<PathBuf>,
    session: Option<PathBuf>,
    temporary: PathBuf,
    user: u32,
}

impl Folders {
    /// Those of this process, by its environment.
    #[must_use]
    pub fn of_process() -> Self {
        let temporary = env::temp_dir();
        Self::new(|name| env::var_os(name), Path::new(SYSTEM), &temporary, own_user())
    }

    /// Those by other variables, of another user, or in other places.
    #[must_use]
    pub fn new(
        variable: impl Fn(&str) -> Option<OsString>,
        system: &Path,
        temporary: &Path,
        user: u32,
    ) -> Self {
        let absolute = |path: &PathBuf| path.is_absolute();
        // systemd lists several folders with colons; the first one will do.
        let service = variable("RUNTIME_DIRECTORY")
            .and_then(|list| Some(PathBuf::from(list.to_str()?.split(':').next()?)));
        let session = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(absolute);
        Self {
            system: system.to_owned(),
            service: service.filter(absolute),
            session: session.map(|path| path.join("candor")),
            temporary: temporary.to_owned(),
            user,
        }
    }

    /// Where locks are, the best place first. That is where most others look.
    #[must_use]
    pub fn locks(&self) -> Vec<PathBuf> {
        // systemd may make it as a symbolic link to a folder that it keeps.
        let service = self.service.clone().map(|path| path.canonicalize().unwrap_or(path));
        [Some(self.system.clone()), service, self.session.clone(), Some(self.own())]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Where sockets are, the best place first. That is the one that the service has for itself.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let service = self.service.clone();
        [service, Some(self.system.clone()), self.session.clone(), Some(self.own())]
            .into_iter()
            .flatten()
            .collect()
    }

    fn own(&self) -> PathBuf {
        self.temporary.join(format!("candor-{}", self.user))
    }

    /// The place in which services have folders.
    #[must_use]
    pub fn system(&self) -> &Path {
        &self.system
    }

    #[must_use]
    pub const fn user(&self) -> u32 {
        self.user
    }

    /// The folders of all users, each with the user; none but for root, who sees them.
    #[must_use]
    pub fn of_users(&self) -> Vec<(PathBuf, u32)> {
        match self.user {
            0 => folder::of_users(Path::new("/run/user"), &self.temporary),
            _ => Vec::new(),
        }
    }
}

/// The mode with which a place is made that has `mode` elsewhere: others must be able to enter the one
/// for root and services, but there is nothing in it that they can open.
#[must_use]
pub fn mode_of(place: &Path, mode: u32) -> u32 {
    if place == Path::new(SYSTEM) { 0o755 } else { mode }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_found_by_the_environment() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, &[&str], &[&str]); 3] = [
            (&[], &["/run/candor", "/t/candor-7"], &["/run/candor", "/t/candor-7"]),
            (
                &[("XDG_RUNTIME_DIR", "/run/user/7")],
                &["/run/candor", "/run/user/7/candor", "/t/candor-7"],
                &["/run/candor", "/run/user/7/candor", "/t/candor-7"],
            ),
            (
                &[("RUNTIME_DIRECTORY", "/run/a:/run/b"), ("XDG_RUNTIME_DIR", "relative")],
                &["/run/candor", "/run/a", "/t/candor-7"],
                &["/run/a", "/run/candor", "/t/candor-7"],
            ),
        ];
        for (variables, locks, sockets) in cases {
            let variable = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            };
            let folders = Folders::new(variable, Path::new(SYSTEM), Path::new("/t"), 7);
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
            assert_eq!(folders.locks(), paths(locks));
            assert_eq!(folders.sockets(), paths(sockets));
        }
        assert_eq!(mode_of(Path::new("/t/candor-7"), 0o700), 0o700);
        assert_eq!(mode_of(Path::new("/run/candor"), 0o700), 0o755);
    }
}
