//! A lock between processes that ends with its holder, whatever way that one ends.
//!
//! It is a file that is locked (`flock(2)`), named after what is not to be done twice, in one of the
//! [run-time folders](crate::runtime).
//!
//! The lock is taken in the first place that can be written and that nobody but this user and root can
//! change: a folder that belongs to another user, that others can write to, or that is a symbolic link
//! is passed over. Lock files have mode 0600, so that no other user can open one, and whoever cannot open
//! it cannot lock it. For the same reason the locks of other users are not seen, except by root, who sees all of them: in `/run/candor`, in the folders of services
//! within it, and in those of users.
//!
//! Whoever gives a lock back removes its file. A process that is killed leaves it: that it is there means nothing. A
//! process may have opened a file before it was removed, and lock it afterwards. So a lock counts only if its path
//! still leads to the locked file; otherwise the file is opened, or made, again.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Writers};
use crate::runtime::{Folders, mode_of};
use crate::{Errno, Error};

/// What is read of a lock file at most.
const MAX_LEN: u64 = 4096;
/// Folders within a place that are looked into at most.
const MAX_FOLDERS: usize = 1000;
/// How often a file is opened again that was removed before it could be locked: each time another process had the
/// lock, and gave it back, between two system calls of this one.
const ATTEMPTS: usize = 1_000;

/// The lock, held until it is dropped, which removes its file.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if the process named in the file is alive and has the file open. `None` if
    /// that cannot be seen, such as from within another PID namespace.
    pub process: Option<u32>,
    pub path: PathBuf,
}

impl Lock {
    /// Tries to take the lock on `key`, such as the path of a rule file. Does not wait.
    ///
    /// # Errors
    /// There is no place to which a lock file can be written.
    pub fn take(key: &str) -> Result<Outcome, Error> {
        let folders = Folders::of_process();
        match held_by_user(&folders, key) {
            Some(holder) => Ok(Outcome::Held(holder)),
            None => Self::take_in(&folders.locks(), key),
        }
    }

    /// The same in the first of these folders that will do; their parents must be there.
    ///
    /// # Errors
    /// A lock file can be written to none of them.
    pub fn take_in(places: &[PathBuf], key: &str) -> Result<Outcome, Error> {
        let mut reason = None;
        for place in places {
            match attempt(place, key) {
                Ok(outcome) => return Ok(outcome),
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
        Err(error.with_remedy("name your own folder with XDG_RUNTIME_DIR"))
    }

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

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is locked only its holder removes it; somebody who tidies up may have done so before.
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Tries one place.
fn attempt(place: &Path, key: &str) -> io::Result<Outcome> {
    let folder = Folder::open_or_make(place, mode_of(place, 0o700))?;
    folder.check(Writers::Owner)?;
    let name = file_name(key);
    if let Some(holder) = held_within(&folder, &name) {
        return Ok(Outcome::Held(holder));
    }
    for _ in 0..ATTEMPTS {
        let mut file = folder.open_own_file(&name)?;
        let path = place.join(&name);
        match file.try_lock() {
            // Whoever had the lock may have removed the file in between: then it locks nothing.
            Ok(()) if !is_at(&file, &path) => {}
            Ok(()) => {
                let mut lock = Lock { file, path };
                lock.write(key)?;
                return Ok(Outcome::Taken(lock));
            }
            Err(TryLockError::WouldBlock) => return Ok(Outcome::Held(holder(&mut file, path))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("the lock file is removed again and again"))
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let found = fs::symlink_metadata(path).map(identity);
    found.is_ok_and(|found| file.metadata().map(identity).is_ok_and(|own| own == found))
}

/// Who holds the lock in a folder within a place: services have theirs in `/run/candor/NAME`. Only the
/// owner of a place makes folders in it, and only the owner of such a folder files in that.
fn held_within(place: &Folder, name: &str) -> Option<Holder> {
    let entries = fs::read_dir(place.path()).ok()?.flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders = folders.take(MAX_FOLDERS);
    folders.find_map(|entry| held(&Folder::open(&entry.path()).ok()?, name))
}

/// Which user holds the lock, if any does: root sees their folders. A user could keep root from something by such a
/// lock, so it counts only while this program holds it, for which the user must be able to do that something.
fn held_by_user(folders: &Folders, key: &str) -> Option<Holder> {
    let name = file_name(key);
    let folders = folders.of_users();
    let holders = folders.iter().filter_map(|(path, _)| held(&Folder::open(path).ok()?, &name));
    let program = |process: &str| fs::metadata(format!("/proc/{process}/exe")).ok();
    let identity = |found: Metadata| (found.dev(), found.ino());
    let own = program("self").map(identity)?;
    let is_this_program = |process: u32| program(&process.to_string()).map(identity) == Some(own);
    { holders }.find(|holder| holder.process.is_some_and(is_this_program))
}

/// Who holds the lock in a folder of any one user.
fn held(folder: &Folder, name: &str) -> Option<Holder> {
    let mut file = folder.open_file(name).ok()?;
    let (found, owner) = (file.metadata().ok()?, folder.metadata().ok()?);
    let is_of_owner = owner.mode() & 0o022 == 0 && found.uid() == owner.uid() && found.is_file();
    let is_held = is_of_owner && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    is_held.then(|| holder(&mut file, folder.path().join(name)))
}

fn holder(file: &mut File, path: PathBuf) -> Holder {
    let mut text = String::new();
    let _ = file.take(MAX_LEN).read_to_string(&mut text);
    // What is written there may be of a process that ended long ago.
    let named = text.lines().next().and_then(|line| line.parse().ok());
    Holder { process: named.filter(|&process| has_open(process, file)), path }
}

/// Whether a process is there and has the file open, as far as this user may see.
fn has_open(process: u32, file: &File) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let Ok(wanted) = file.metadata() else { return false };
    files
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
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

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::{DirBuilder, Permissions};
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// A folder of its own for each test, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("candor-test-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn take(places: &[PathBuf], key: &str) -> Outcome {
        Lock::take_in(places, key).unwrap()
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
        assert!(!path.exists());
        // A file that somebody left who was killed.
        fs::write(&path, "999999999\nkey of a process that was killed\n").unwrap();
        let Outcome::Taken(lock) = take(&places, "/etc/car.toml") else { panic!("nobody else") };
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n/etc/car.toml\n", std::process::id()));
        drop(lock);
        assert_eq!(fs::read_dir(&places[0]).unwrap().count(), 0, "left behind");
    }

    /// All of them open, lock, and remove the same file all the time. Locks of `flock(2)` belong to open files, so
    /// threads exclude each other as processes do.
    #[test]
    fn a_lock_that_changes_hands_has_one_holder_and_leaves_nothing() {
        const ROUNDS: usize = 1_000;
        let folder = Folder::new("lock-hands");
        let places = [folder.0.join("candor")];
        let (holders, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let compete = || {
            for _ in 0..ROUNDS {
                let Outcome::Taken(lock) = take(&places, "key") else { continue };
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "held twice");
                thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                held.fetch_add(1, Ordering::SeqCst);
                drop(lock);
            }
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(compete);
            }
        });
        assert!(held.load(Ordering::SeqCst) > 0);
        assert_eq!(fs::read_dir(&places[0]).unwrap().count(), 0, "left behind");
    }

    /// However many files are beside its folder.
    #[test]
    fn files_hide_no_folder_of_a_service() {
        let folder = Folder::new("lock-many");
        for number in 0..=MAX_FOLDERS {
            fs::write(folder.0.join(format!("{number}.lock")), "").unwrap();
        }
        // Wherever the folder comes among the entries, most of these come after 1,000 files.
        let services: Vec<_> = (0..20).map(|number| folder.0.join(number.to_string())).collect();
        for service in &services {
            let Outcome::Taken(_lock) = take(std::slice::from_ref(service), "key") else {
                panic!("nobody else")
            };
            let outcome = take(std::slice::from_ref(&folder.0), "key");
            assert!(matches!(outcome, Outcome::Held(_)), "{outcome:?}");
        }
    }

    #[test]
    fn the_next_place_serves_if_one_cannot_be_written() {
        let folder = Folder::new("lock-places");
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        let places = [file.join("candor"), folder.0.join("candor")];
        let Outcome::Taken(lock) = take(&places, "key") else { panic!("nobody else") };
        assert!(lock.path().starts_with(&places[1]));
        let error = Lock::take_in(&places[..1], "key").unwrap_err();
        assert!(error.is(libc::ENOTDIR) && error.remedy().is_some(), "{error}");
        assert!(Lock::take_in(&[], "key").is_err());
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
        DirBuilder::new().mode(0o700).create(&place).unwrap();
        std::os::unix::fs::symlink(&victim, place.join(file_name("key"))).unwrap();
        let error = Lock::take_in(std::slice::from_ref(&place), "key").unwrap_err();
        assert!(error.is(libc::ELOOP), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let error = Lock::take_in(std::slice::from_ref(&link), "other").unwrap_err();
        assert!(error.to_string().contains("symbolic link; name your own folder"), "{error}");
        // Where others can write they can also replace a lock file.
        fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
        let error = Lock::take_in(std::slice::from_ref(&place), "other").unwrap_err();
        assert!(error.to_string().contains("other users can write to it (mode 0777)"), "{error}");
        let Outcome::Taken(lock) = take(&[place, link, folder.0.join("own")], "other") else {
            panic!("the third place is left");
        };
        assert!(lock.path().starts_with(folder.0.join("own")));
    }

    #[test]
    fn nobody_else_can_open_a_lock_file() {
        let folder = Folder::new("lock-modes");
        let place = folder.0.join("candor");
        let Outcome::Taken(lock) = take(std::slice::from_ref(&place), "key") else { panic!() };
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(lock.path()), mode(&place)), (0o600, 0o700));
    }

    #[test]
    fn only_a_process_that_has_the_file_open_is_named() {
        let folder = Folder::new("lock-dead");
        let places = [folder.0.join("candor")];
        let path = places[0].join(file_name("key"));
        DirBuilder::new().mode(0o700).create(&places[0]).unwrap();
        // Of a process that ended long ago, of one that is alive but has nothing to do with it, of none.
        for written in ["999999999", "1", "", "no number"] {
            fs::write(&path, format!("{written}\nkey\n")).unwrap();
            let holding = File::open(&path).unwrap();
            holding.lock().unwrap();
            match take(&places, "key") {
                Outcome::Held(holder) => assert_eq!(holder.process, None, "{written:?}"),
                Outcome::Taken(_) => panic!("taken twice"),
            }
        }
    }

    #[test]
    fn a_file_that_was_removed_is_made_anew() {
        let folder = Folder::new("lock-removed");
        let places = [folder.0.join("candor")];
        let Outcome::Taken(lock) = take(&places, "key") else { panic!() };
        fs::remove_file(lock.path()).unwrap();
        let Outcome::Taken(new) = take(&places, "key") else { panic!() };
        assert!(!is_at(&lock.file, &lock.path) && is_at(&new.file, &lock.path));
        // Whoever had the old one leaves the new one where it is.
        drop(lock);
        assert!(is_at(&new.file, new.path()));
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
