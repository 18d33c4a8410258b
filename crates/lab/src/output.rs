//! Where output goes: a file that appears only when it is complete, or a stream.
//!
//! Everything that is written in place of something older goes through here. The new contents
//! grow in a file beside the target, whose name starts with a dot and ends in `.part`, and take
//! its place in one step. An error leaves the target as it was. A program that is killed may
//! leave the `.part` behind: nothing reads such files, a later run takes another name, and they
//! may be deleted at any time.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use std::io::Write;
//! let mut target = candor_lab::output::Target::file("frames.csv".as_ref())?;
//! target.write_all(b"number,latency_ns\n")?;
//! target.finish()
//! # }
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What happens to a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays as it is, and the output is refused with [`ErrorKind::AlreadyExists`].
    Keep,
    /// The output replaces it.
    Replace,
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

/// An output being written. Dropped without [`Target::finish`], it leaves no file behind. It does
/// not buffer.
pub struct Target {
    out: Box<dyn Write + Send>,
    /// The temporary file and the name it gets at the end.
    rename: Option<(PathBuf, PathBuf)>,
    /// What happens to a file that has this name by then.
    existing: Existing,
}

impl Target {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self { out: Box::new(io::stdout()), rename: None, existing: Existing::Replace }
    }

    /// A file that replaces `path` at the end; see [`Target::create`].
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder.
    pub fn file(path: &Path) -> io::Result<Self> {
        Self::create(path, Existing::Replace)
    }

    /// A file that takes the name `path` at the end. A path that is there and no regular file, such
    /// as a named pipe or `/dev/null`, is written directly and never replaced.
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder; [`ErrorKind::AlreadyExists`] if the file
    /// is there and may not be replaced.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(metadata),
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { out: Box::new(file), rename: None, existing });
            }
            Err(_) => None,
        };
        // A link to nowhere is a name that is taken, too.
        if existing == Existing::Keep && fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file already exists"));
        }
        // A symbolic link stays one.
        let path = if metadata.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
        let (file, temporary) = create_beside(&path)?;
        let target = Self { out: Box::new(file), rename: Some((temporary, path)), existing };
        if let (Some(metadata), Some((temporary, _))) = (metadata, &target.rename) {
            fs::set_permissions(temporary, metadata.permissions())?;
        }
        Ok(target)
    }

    /// Where the file grows until it is put in its place.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.rename.as_ref().map(|(temporary, _)| temporary.as_path())
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed. A file that has appeared
    /// under the name and may not be replaced is [`ErrorKind::AlreadyExists`]; the output is kept in
    /// the temporary file, which the error names.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((temporary, path)) = &self.rename {
            match self.existing {
                Existing::Replace => fs::rename(temporary, path)?,
                Existing::Keep => match rename_new(temporary, path) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        let kept = temporary.display().to_string();
                        self.rename = None;
                        let message = format!(
                            "another file has this name now; the output is \
                                               {kept}"
                        );
                        return Err(io::Error::new(ErrorKind::AlreadyExists, message));
                    }
                    renamed => renamed?,
                },
            }
            self.rename = None;
        }
        Ok(())
    }
}

/// Renames a file unless the new name is taken.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // A file system without links, such as FAT.
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // There is nobody left to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Names tried for a temporary file: far more than are ever left over or in use.
const NAMES: u32 = 10_000;

/// Creates a new file in the folder of `path`, with a name that starts with a dot.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"));
    };
    let mut number = 0;
    loop {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{number}.part"));
        let temporary = path.with_file_name(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < NAMES => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(names(folder.path()), [".a.csv.0.part", "a.csv"]);
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
        let error = second.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().ends_with(".a.csv.1.part"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read(folder.path().join(".a.csv.1.part")).unwrap(), b"second");
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
    fn what_a_killed_run_left_over_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(folder.path().join(".a.csv.0.part"), "left over").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), [".a.csv.0.part", "a.csv"]);
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

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_stay_what_they_are() {
        use std::os::unix::fs::PermissionsExt;
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
