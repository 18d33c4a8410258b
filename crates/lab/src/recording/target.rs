//! Where output goes: a file that appears only when it is complete, or a stream.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// An output being written.
pub(super) struct Target {
    out: Box<dyn Write + Send>,
    /// The temporary file and the name it gets at the end.
    rename: Option<(PathBuf, PathBuf)>,
}

impl Target {
    pub(super) fn stdout() -> Self {
        Self { out: Box::new(io::stdout()), rename: None }
    }

    /// A file that replaces `path` at the end. A path that is there and no regular file, such as a
    /// named pipe or `/dev/null`, is written directly: it must not be replaced.
    pub(super) fn file(path: &Path) -> io::Result<Self> {
        let existing = match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(metadata),
            Ok(_) => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { out: Box::new(file), rename: None });
            }
            Err(_) => None,
        };
        // A symbolic link stays one.
        let path = if existing.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
        let (file, temporary) = create_beside(&path)?;
        let target = Self { out: Box::new(file), rename: Some((temporary, path)) };
        if let (Some(metadata), Some((temporary, _))) = (existing, &target.rename) {
            fs::set_permissions(temporary, metadata.permissions())?;
        }
        Ok(target)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some((temporary, path)) = &self.rename {
            fs::rename(temporary, path)?;
            self.rename = None;
        }
        Ok(())
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

/// Creates a new file in the folder of `path`, with a name that starts with a dot.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"));
    };
    let mut number = 0;
    loop {
        let temporary = path.with_file_name(format!(".{}.{number}.part", name.to_string_lossy()));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1_000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}
