//! What a program puts out: files and streams that appear only when they are complete, and
//! [`messages`] to people.
//!
//! The new contents grow in a file beside the target, whose name starts with a dot and ends in `.part`,
//! and take its place in one step. An error leaves the target as it was. What removes the `.part` when a
//! signal ends the program is the program's to say ([`guard_with`]). One that is killed (SIGKILL), and one
//! whose machine stops, leaves it behind: nothing reads such files, a later run takes another name, and
//! they may be deleted at any time.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use std::io::Write;
//! let mut target = candor_output::Target::file("frames.csv".as_ref())?;
//! target.write_all(b"number,latency_ns\n")?;
//! target.finish()
//! # }
//! ```

pub mod messages;

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::NamedTempFile;

/// What happens to a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays as it is, and the output is refused with [`ErrorKind::AlreadyExists`].
    Keep,
    Replace,
}

/// As long as it lives, a file that grows is removed when a signal ends the program.
pub type Guard = Box<dyn Send + Sync>;

static GUARD: OnceLock<fn(&Path) -> Guard> = OnceLock::new();

/// From now on `guard` is asked for a guard of each file, right before that is made. Only the first one counts.
pub fn guard_with(guard: fn(&Path) -> Guard) {
    let _ = GUARD.set(guard);
}

/// Puts `bytes` in place of the file at `path`, as a whole or not at all.
///
/// # Errors
/// The file cannot be written; what was there before is unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut target = Target::file(path)?;
    target.write_all(bytes)?;
    target.finish()
}

/// An output being written. Dropped without [`Target::finish`], it leaves no file behind. It does not
/// buffer.
pub struct Target(OpenOutput);

enum OpenOutput {
    /// Written directly: standard output, a named pipe, a device.
    Stream(Box<dyn Write + Send>),
    /// Renamed at the end.
    File { grows: NamedTempFile, path: PathBuf, existing: Existing, guard: Option<Guard> },
}

impl Target {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self(OpenOutput::Stream(Box::new(io::stdout())))
    }

    /// A file that replaces `path` at the end; see [`Target::create`].
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder.
    pub fn file(path: &Path) -> io::Result<Self> {
        Self::create(path, Existing::Replace)
    }

    /// A file that takes the name `path` at the end. A path that is there and no regular file, such
    /// as a named pipe or `/dev/null`, is written directly and never replaced. A symbolic link stays
    /// one, and the new file has the permissions of the old one.
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder; [`ErrorKind::AlreadyExists`] if the file
    /// is there and may not be replaced.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(metadata),
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self(OpenOutput::Stream(Box::new(file))));
            }
            Err(_) => None,
        };
        // A link to nowhere is a name that is taken, too.
        if existing == Existing::Keep && fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file already exists"));
        }
        let path = if metadata.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
        let (grows, guard) = create_beside(&path)?;
        if let Some(metadata) = metadata {
            grows.as_file().set_permissions(metadata.permissions())?;
        }
        Ok(Self(OpenOutput::File { grows, path, existing, guard }))
    }

    /// Where the file grows until it is put in its place.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            OpenOutput::Stream(_) => None,
            OpenOutput::File { grows, .. } => Some(grows.path()),
        }
    }

    /// Cuts off what was written behind the first `len` bytes, and goes on there. A stream has what it has.
    ///
    /// # Errors
    /// The file cannot be cut off.
    pub fn truncate(&mut self, len: u64) -> io::Result<()> {
        let OpenOutput::File { grows, .. } = &mut self.0 else { return Ok(()) };
        grows.as_file_mut().set_len(len)?;
        grows.as_file_mut().seek(SeekFrom::Start(len)).map(drop)
    }

    /// Writes `head` in place of the first bytes, and goes on behind the last. A stream has what it has.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace_head(&mut self, head: &[u8]) -> io::Result<()> {
        let OpenOutput::File { grows, .. } = &mut self.0 else { return Ok(()) };
        let file = grows.as_file_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(head)?;
        file.seek(SeekFrom::End(0)).map(drop)
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed. A file that has appeared
    /// under the name and may not be replaced is [`ErrorKind::AlreadyExists`]; the output is kept in
    /// the temporary file, which the error names.
    pub fn finish(self) -> io::Result<()> {
        let (grows, path, existing, _guard) = match self.0 {
            OpenOutput::Stream(mut stream) => return stream.flush(),
            OpenOutput::File { grows, path, existing, guard } => (grows, path, existing, guard),
        };
        let refused = match existing {
            Existing::Replace => grows.persist(path).err(),
            Existing::Keep => grows.persist_noclobber(path).err(),
        };
        let Some(refused) = refused else { return Ok(()) };
        if refused.error.kind() != ErrorKind::AlreadyExists {
            return Err(refused.error);
        }
        let (_, kept) = refused.file.keep()?;
        let message = format!("another file has this name now; the output is {}", kept.display());
        Err(io::Error::new(ErrorKind::AlreadyExists, message))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            OpenOutput::Stream(stream) => stream.write(bytes),
            OpenOutput::File { grows, .. } => grows.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            OpenOutput::Stream(stream) => stream.flush(),
            OpenOutput::File { grows, .. } => grows.as_file_mut().flush(),
        }
    }
}

/// Creates a new file in the folder of `path`, with the permissions that new files have here, and its guard.
fn create_beside(path: &Path) -> io::Result<(NamedTempFile, Option<Guard>)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"));
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut guard = None;
    // Guarded first: a signal may come as soon as it is there.
    let create = |path: &Path| {
        guard = GUARD.get().map(|guard| guard(path));
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    };
    let grows = tempfile::Builder::new().prefix(&prefix).suffix(".part").make_in(folder, create)?;
    Ok((grows, guard))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut target = Target::file(&path).unwrap();
        target.write_all(b"new").unwrap();
        let grows = target.path().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(grows.starts_with(".a.csv.") && grows.ends_with(".part"), "{grows}");
        assert_eq!(names(folder.path()), [grows.as_str(), "a.csv"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        target.finish().unwrap();
        assert_eq!(names(folder.path()), ["a.csv"]);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_is_to_stay_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let create = || Target::create(&path, Existing::Keep);
        fs::write(&path, "old").unwrap();
        assert_eq!(create().err().unwrap().kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), ["a.csv"]);
        fs::remove_file(&path).unwrap();

        let (mut first, mut second) = (create().unwrap(), create().unwrap());
        first.write_all(b"first").unwrap();
        second.write_all(b"second").unwrap();
        first.finish().unwrap();
        let grows = second.path().unwrap().to_owned();
        let error = second.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().ends_with(grows.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read(&grows).unwrap(), b"second");
        // What is no regular file is written and not replaced.
        Target::create(Path::new("/dev/null"), Existing::Keep).unwrap().finish().unwrap();
    }

    #[test]
    fn given_up_it_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut target = Target::file(&path).unwrap();
        target.write_all(b"new").unwrap();
        drop(target);
        assert_eq!(names(folder.path()), ["a.csv"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_new_file_has_the_permissions_that_new_files_have_here() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        replace(&folder.path().join("a.csv"), b"new").unwrap();
        fs::write(folder.path().join("b.csv"), b"new").unwrap();
        assert_eq!(mode("a.csv"), mode("b.csv"));
    }

    #[test]
    fn a_folder_in_the_way_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::create_dir(&path).unwrap();
        replace(&path, b"new").unwrap_err();
        replace(&folder.path().join("absent/a.csv"), b"new").unwrap_err();
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn links_permissions_and_devices_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.csv"), folder.path().join("link.csv"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        replace(Path::new("/dev/null"), b"new").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
