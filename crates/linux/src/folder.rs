//! [`Folder`]: a folder of which it is known who can change it.
//!
//! Locks, sockets and temporary files are only as safe as the folder that they are in: whoever can
//! write to it can put a file of his own there first, or replace one later. `/tmp` belongs to all
//! users, so a folder in it may be a stranger's, or a symbolic link of a stranger.
//!
//! A [`Folder`] is held open, and its files are opened relative to it: what happens to its path
//! afterwards makes no difference.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::peer::own_user;

/// Write access for the group and for all others.
const OTHERS_WRITE: u32 = 0o022;
/// `S_ISVTX`: in a folder that is sticky, only the owner of a file removes or renames it.
const STICKY: u32 = 0o1000;
/// What names of private folders consist of: each letter is as likely as any other.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// How often such a name is drawn until there is no file of that name.
const ATTEMPTS: usize = 100;

/// How many folders of users are found at most in one place.
const MAX_FOLDERS: usize = 10_000;

/// The folders in which users have their locks and sockets, for root, who sees all of them: `UID/candor` in
/// `run` (`/run/user`), and `candor-UID` in `temporary`. A folder that does not belong to that user is left
/// out. Each comes with the user.
#[must_use]
pub fn of_users(run: &Path, temporary: &Path) -> Vec<(PathBuf, u32)> {
    let within = |folder: &Path, prefix: &str, rest: &str| -> Vec<(PathBuf, u32)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| {
            let user = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((entry.path().join(rest), user))
        });
        let is_own = |(path, user): &(PathBuf, u32)| {
            fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == *user)
        };
        named.filter(is_own).take(MAX_FOLDERS).collect()
    };
    [within(run, "", "candor"), within(temporary, "candor-", "")].concat()
}

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    file: File,
    path: PathBuf,
}

/// Who may change a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Its owner: this user or root.
    Owner,
    /// The group as well, and all users if the folder is sticky, as `/tmp` is: they can add files,
    /// but cannot replace those of others.
    Group,
}

impl Folder {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// It is not there, is no folder or is a symbolic link, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|error| match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => io::Error::other("it is a symbolic link"),
            _ => error,
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The same, but makes the folder with this mode if it is not there.
    ///
    /// # Errors
    /// As [`Folder::open`], or it cannot be made.
    pub fn open_or_make(path: &Path, mode: u32) -> io::Result<Self> {
        match DirBuilder::new().mode(mode).create(path) {
            // It may be somebody else's: who opens it looks.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::open(path),
            // Where nothing can be made, a folder may still be there.
            Err(error) => Self::open(path).map_err(|_| error),
            Ok(()) => Self::open(path),
        }
    }

    /// Whether nobody but `writers` can change it; if not, why.
    ///
    /// # Errors
    /// It belongs to another user, or others may write to it: half a sentence without a remedy.
    pub fn check(&self, writers: Writers) -> io::Result<()> {
        let found = self.file.metadata()?;
        match distrust(&found, own_user(), writers) {
            Some(reason) => Err(io::Error::other(reason)),
            None => Ok(()),
        }
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the kernel says about it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Sets its mode.
    ///
    /// # Errors
    /// It belongs to somebody else.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(mode))
    }

    /// Opens one of its files for reading. It is no symbolic link, and opening it does not wait.
    ///
    /// # Errors
    /// It is not there, is a symbolic link, or may not be read.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::RDONLY)
    }

    /// Opens one of its files for reading and writing, made with mode 0600 if it is not there. It is a
    /// plain file of this user, and nobody else can read or write it.
    ///
    /// # Errors
    /// It is another user's, a symbolic link or no plain file, or may not be written.
    pub fn open_own_file(&self, name: &str) -> io::Result<File> {
        let file = self.open_at(name, OFlags::RDWR | OFlags::CREATE)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != own_user() {
            let place = self.path.join(name);
            return Err(io::Error::other(format!(
                "{} does not belong to this user",
                place.display()
            )));
        }
        if found.mode() & 0o177 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.file, name, flags, mode)?.into())
    }

    /// Makes a folder in it that only this user can enter, with a name that nobody can know before; the
    /// name is short, since paths of sockets are. It is removed when it is dropped, if it is empty by then.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make_private(&self) -> io::Result<Private> {
        for _ in 0..ATTEMPTS {
            let mut random = [0; 6];
            getrandom(&mut random, GetRandomFlags::empty())?;
            let letters = random.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
            let path = self.path.join(format!(".{}", String::from_iter(letters)));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Private(path)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

/// A folder that only this user can enter.
#[derive(Debug)]
pub struct Private(PathBuf);

impl Private {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What is still in it somebody wants to keep.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Why a folder is not to be trusted.
fn distrust(found: &Metadata, user: u32, writers: Writers) -> Option<String> {
    let is_trusted = |owner: u32| owner == user || is_root(owner);
    if !is_trusted(found.uid()) {
        return Some(format!("it belongs to another user ({})", found.uid()));
    }
    let mode = found.mode();
    let is_open = match writers {
        Writers::Owner => mode & OTHERS_WRITE != 0,
        Writers::Group => mode & 0o002 != 0 && mode & STICKY == 0,
    };
    is_open.then(|| format!("other users can write to it (mode {:04o})", mode & 0o7777))
}

/// Whether this user may do anything anyway: 0, and in a user namespace that root is not part of,
/// whoever has the root folder.
fn is_root(user: u32) -> bool {
    user == 0 || fs::metadata("/").is_ok_and(|root| root.uid() == user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own for each test, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let name = format!("candor-test-{}-folder-{test}", std::process::id());
            let path = std::env::temp_dir().canonicalize().unwrap().join(name);
            let _ = fs::remove_dir_all(&path);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn who_may_write_decides() {
        let place = Place::new("writers");
        let folder = Folder::open_or_make(&place.0.join("a"), 0o700).unwrap();
        for (mode, owner, group) in [
            (0o700, true, true),
            (0o755, true, true),
            (0o770, false, true),
            (0o1777, false, true),
            (0o777, false, false),
            (0o702, false, false),
        ] {
            folder.set_mode(mode).unwrap();
            assert_eq!(folder.check(Writers::Owner).is_ok(), owner, "{mode:o}");
            assert_eq!(folder.check(Writers::Group).is_ok(), group, "{mode:o}");
        }
        let reason = folder.check(Writers::Owner).unwrap_err().to_string();
        assert_eq!(reason, "other users can write to it (mode 0702)");
    }

    #[test]
    fn links_and_files_are_no_folders() {
        let place = Place::new("links");
        let link = place.0.join("link");
        symlink(&place.0, &link).unwrap();
        let reason = Folder::open_or_make(&link, 0o700).unwrap_err().to_string();
        assert_eq!(reason, "it is a symbolic link");
        let file = place.0.join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(Folder::open(&file).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(Folder::open_or_make(&file.join("x"), 0o700).is_err());
    }

    #[test]
    fn files_are_plain_and_ones_own() {
        let place = Place::new("files");
        let folder = Folder::open(&place.0).unwrap();
        folder.open_own_file("own").unwrap();
        let mode = |name: &str| fs::metadata(place.0.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode("own"), 0o600);
        // One that was made with another mode.
        fs::set_permissions(place.0.join("own"), fs::Permissions::from_mode(0o644)).unwrap();
        folder.open_own_file("own").unwrap();
        assert_eq!(mode("own"), 0o600);
        fs::write(place.0.join("victim"), "precious").unwrap();
        symlink(place.0.join("victim"), place.0.join("link")).unwrap();
        for name in ["link", "a\0b"] {
            assert!(folder.open_own_file(name).is_err(), "{name}");
            assert!(folder.open_file(name).is_err(), "{name}");
        }
        fs::create_dir(place.0.join("folder")).unwrap();
        assert!(folder.open_own_file("folder").is_err());
        // The folder stays the same one, whatever happens to its path.
        let moved = place.0.with_extension("moved");
        fs::rename(&place.0, &moved).unwrap();
        let is_there = folder.open_file("own").is_ok();
        fs::rename(&moved, &place.0).unwrap();
        assert!(is_there);
    }

    #[test]
    fn private_folders_have_names_that_nobody_knows() {
        let place = Place::new("private");
        let folder = Folder::open(&place.0).unwrap();
        let (one, two) = (folder.make_private().unwrap(), folder.make_private().unwrap());
        assert_ne!(one.path(), two.path());
        let mode = fs::metadata(one.path()).unwrap().mode() & 0o7777;
        assert_eq!((mode, one.path().parent()), (0o700, Some(&*place.0)));
        fs::write(two.path().join("kept"), "").unwrap();
        drop((one, two));
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1, "what is not empty stays");
    }
}
