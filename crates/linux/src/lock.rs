//! A lock between processes that ends with its holder, whatever way that one ends.
//!
//! It is a file that is locked (`flock(2)`), named after what is not to be done twice:
//!
//! | place | for |
//! |---|---|
//! | `/run/candor` | root |
//! | `$RUNTIME_DIRECTORY` | a service that is not root: systemd makes this folder for it |
//! | `$XDG_RUNTIME_DIR/candor` | a user who is logged in |
//! | `candor-UID` in the folder for temporary files | anybody else |
//!
//! The lock is taken in the first place that can be written; in the places before, and in the folders
//! of services within them, it is looked whether somebody else holds it. The file stays when the lock is given back: that it is there
//! means nothing.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Errno, Error};

/// What is read of a lock file at most.
const MAX_LEN: u64 = 4096;
/// Folders within a place that are looked into at most.
const MAX_FOLDERS: usize = 1000;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

/// What became of trying to take a lock.
#[derive(Debug)]
#[must_use]
pub enum Outcome {
    /// It is ours.
    Taken(Lock),
    /// Somebody else holds it.
    Held(Holder),
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if it has written it down yet and did so in the same PID namespace.
    pub process: Option<u32>,
    /// The locked file.
    pub path: PathBuf,
}

impl Lock {
    /// Tries to take the lock on `key`, such as the path of a rule file. Does not wait.
    ///
    /// # Errors
    /// There is no place to which a lock file can be written.
    pub fn take(key: &str) -> Result<Outcome, Error> {
        let user = fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid());
        let places = places(|name| env::var_os(name), &env::temp_dir(), user);
        Self::take_in(&places, key, user)
    }

    fn take_in(places: &[PathBuf], key: &str, user: u32) -> Result<Outcome, Error> {
        let mut reason = None;
        for place in places {
            if let Some(holder) = held_within(place, key) {
                return Ok(Outcome::Held(holder));
            }
            match attempt(place, key, user) {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => {}
                Err(error) => reason = Some((place, error)),
            }
        }
        let attempt = "write a lock file to";
        let Some((place, error)) = reason else {
            return Err(Error::other(attempt, "any place", "none is known"));
        };
        let place = place.display().to_string();
        let error = match error.raw_os_error() {
            Some(number) => Error::new(attempt, place, Errno(number)),
            None => Error::other(attempt, place, error.to_string()),
        };
        Err(error.with_remedy("name a folder of your own with XDG_RUNTIME_DIR"))
    }

    /// The locked file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, key: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(format!("{}\n{key}\n", std::process::id()).as_bytes())
    }
}

/// Tries one place; `None` if it cannot be written and nobody holds the lock there.
fn attempt(place: &Path, key: &str, user: u32) -> io::Result<Option<Outcome>> {
    let path = place.join(file_name(key));
    // What was made by another user may be locked by that one at any time: not for us.
    let made = DirBuilder::new().mode(0o755).create(place);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.clone().write(true).create(true).mode(0o644).open(&path) {
        Ok(file) if file.metadata()?.is_file() && file.metadata()?.uid() == user => file,
        Ok(_) => return Err(io::Error::other(format!("{} is not ours", path.display()))),
        Err(error) => {
            // A holder of another user is seen if its file can be read.
            if let Some(holder) = held(&path) {
                return Ok(Some(Outcome::Held(holder)));
            }
            // Why there is no folder says more than why there is no file in it.
            let no_folder = made.err().filter(|error| error.kind() != io::ErrorKind::AlreadyExists);
            return Err(no_folder.unwrap_or(error));
        }
    };
    let mut lock = Lock { file, path };
    match lock.file.try_lock() {
        Ok(()) => {
            lock.write(key)?;
            Ok(Some(Outcome::Taken(lock)))
        }
        Err(TryLockError::WouldBlock) => Ok(Some(Outcome::Held(holder(&mut lock.file, lock.path)))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Who holds the lock on a file that can be read.
fn held(path: &Path) -> Option<Holder> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    is_held.then(|| holder(&mut file, path.to_owned()))
}

/// Who holds the lock in a folder within a place: services have theirs in `/run/candor/NAME`.
fn held_within(place: &Path, key: &str) -> Option<Holder> {
    let folders = fs::read_dir(place).ok()?.take(MAX_FOLDERS).flatten();
    let name = file_name(key);
    folders.filter_map(|folder| held(&folder.path().join(&name))).next()
}

fn holder(file: &mut File, path: PathBuf) -> Holder {
    let mut text = String::new();
    let _ = file.take(MAX_LEN).read_to_string(&mut text);
    Holder { process: text.lines().next().and_then(|line| line.parse().ok()), path }
}

/// The name of the file for a key: what people recognize of it, and a sum that tells it from others.
fn file_name(key: &str) -> String {
    // FNV-1a, 64 bits.
    let sum = key.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let last = key.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = last.chars().filter(|&c| is_plain(c)).take(40).collect::<String>();
    format!("{}-{sum:016x}.lock", plain.trim_start_matches('.'))
}

fn places(
    variable: impl Fn(&str) -> Option<OsString>,
    temporary: &Path,
    user: u32,
) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/run/candor")];
    // systemd lists several folders with colons; the first one will do.
    places.extend(
        variable("RUNTIME_DIRECTORY")
            .and_then(|list| Some(PathBuf::from(list.to_str()?.split(':').next()?)))
            .filter(|path| path.is_absolute()),
    );
    let of_user = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    places.extend(of_user.map(|path| path.join("candor")));
    places.push(temporary.join(format!("candor-{user}")));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for each test, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("candor-test-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn user() -> u32 {
        fs::metadata("/proc/self").unwrap().uid()
    }

    fn take(places: &[PathBuf], key: &str) -> Outcome {
        Lock::take_in(places, key, user()).unwrap()
    }

    #[test]
    fn a_lock_is_held_once_and_ends_with_its_holder() {
        let folder = Folder::new("lock-once");
        let places = [folder.0.join("candor")];
        let Outcome::Taken(lock) = take(&places, "/etc/car.toml") else { panic!("nobody else") };
        let path = lock.path().to_owned();
        let expected = Holder { process: Some(std::process::id()), path: path.clone() };
        match take(&places, "/etc/car.toml") {
            Outcome::Held(holder) => assert_eq!(holder, expected),
            Outcome::Taken(_) => panic!("taken twice"),
        }
        assert!(matches!(take(&places, "/etc/truck.toml"), Outcome::Taken(_)), "another key");
        drop(lock);
        assert!(path.exists());
        assert!(matches!(take(&places, "/etc/car.toml"), Outcome::Taken(_)));
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text, format!("{}\n/etc/car.toml\n", std::process::id()));
    }

    #[test]
    fn the_next_place_serves_if_one_cannot_be_written() {
        let folder = Folder::new("lock-places");
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        let places = [file.join("candor"), folder.0.join("candor")];
        let Outcome::Taken(lock) = take(&places, "key") else { panic!("nobody else") };
        assert!(lock.path().starts_with(&places[1]));
        let error = Lock::take_in(&places[..1], "key", user()).unwrap_err();
        assert!(error.is(libc::ENOTDIR) && error.remedy().is_some(), "{error}");
        assert!(Lock::take_in(&[], "key", user()).is_err());
    }

    /// As with services of other users: their folders can be read, not written.
    #[test]
    fn a_service_in_a_folder_of_its_own_is_seen() {
        let folder = Folder::new("lock-service");
        let own = folder.0.join("service");
        let Outcome::Taken(lock) = take(std::slice::from_ref(&own), "key") else { panic!() };
        match take(std::slice::from_ref(&folder.0), "key") {
            Outcome::Held(holder) => assert_eq!(holder.path, lock.path()),
            Outcome::Taken(_) => panic!("taken twice"),
        }
        drop(lock);
        let taken = take(std::slice::from_ref(&folder.0), "key");
        assert!(matches!(taken, Outcome::Taken(_)), "{taken:?}");
    }

    #[test]
    fn what_is_not_ours_is_not_written() {
        let folder = Folder::new("lock-link");
        let victim = folder.0.join("victim");
        fs::write(&victim, "precious").unwrap();
        let place = folder.0.join("candor");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(&victim, place.join(file_name("key"))).unwrap();
        let error = Lock::take_in(std::slice::from_ref(&place), "key", user()).unwrap_err();
        assert!(error.is(libc::ELOOP), "{error}");
        let error = Lock::take_in(std::slice::from_ref(&place), "other", user() + 1).unwrap_err();
        assert!(error.to_string().contains("not ours"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn the_places_are_found_by_the_environment() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, &[&str]); 3] = [
            (&[], &["/run/candor", "/t/candor-7"]),
            (
                &[("XDG_RUNTIME_DIR", "/run/user/7")],
                &["/run/candor", "/run/user/7/candor", "/t/candor-7"],
            ),
            (
                &[("RUNTIME_DIRECTORY", "/run/a:/run/b"), ("XDG_RUNTIME_DIR", "relative")],
                &["/run/candor", "/run/a", "/t/candor-7"],
            ),
        ];
        for (variables, expected) in cases {
            let found = places(
                |name| {
                    variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
                },
                Path::new("/t"),
                7,
            );
            assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_file_is_named_after_its_key() {
        assert_eq!(file_name(""), "-cbf29ce484222325.lock");
        assert_eq!(file_name("a"), "a-af63dc4c8601ec8c.lock");
        assert!(file_name("/etc/candor/car.rules.toml").starts_with("car.rules.toml-"));
        assert!(!file_name("../../..").contains('/') && !file_name("/a/.b").starts_with('.'));
        assert!(file_name(&"x".repeat(1_000)).len() < 80);
    }
}
