//! [`Scratch`]: the files of one process of QEMU, which nobody else may read and which leave nothing
//! behind, however we end.
//!
//! QEMU takes names of files. As soon as it has opened them the names are removed: from then on the
//! files last as long as both have them open, and go when both have ended, even by SIGKILL.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::ending;
use crate::error::Error;

/// A folder for files that go with the value, which nobody else may enter.
pub(crate) fn folder() -> Result<TempDir, Error> {
    let made = tempfile::Builder::new()
        .prefix("candor-vm-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    made.map_err(|error| {
        let remedy = "free space there, or name another folder with TMPDIR".into();
        let path = std::env::temp_dir();
        Error::Io { path, what: "cannot store temporary files", source: error, remedy }
    })
}

/// The files of one process.
pub(crate) struct Scratch {
    /// Where they have names.
    folder: Option<TempDir>,
    console: Kept,
    report: Kept,
    order: PathBuf,
    /// What a tester outside of the guest saw.
    records: Option<Kept>,
}

/// What its files are called.
pub(crate) struct Files<'a> {
    /// What the serial console prints.
    pub(crate) console: &'a Path,
    /// What the guest reports.
    pub(crate) report: &'a Path,
    pub(crate) order: &'a Path,
}

/// A file that QEMU writes.
struct Kept {
    path: PathBuf,
    file: File,
}

impl Kept {
    fn new(path: PathBuf) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| Error::write(&path, error))?;
        Ok(Self { path, file })
    }

    fn read(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.rewind()
            .and_then(|()| file.read_to_end(&mut bytes))
            .map_err(|error| Error::read(&self.path, error))?;
        Ok(bytes)
    }
}

impl Scratch {
    /// New files, with these bytes as the order.
    pub(crate) fn new(order: &[u8]) -> Result<Self, Error> {
        let folder = folder()?;
        let place = |name: &str| folder.path().join(name);
        let (console, report) = (Kept::new(place("console"))?, Kept::new(place("report"))?);
        let path = place("order");
        fs::write(&path, order).map_err(|error| Error::write(&path, error))?;
        Ok(Self { folder: Some(folder), console, report, order: path, records: None })
    }

    /// A further file for QEMU to open.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.place(name);
        fs::write(&path, bytes).map_err(|error| Error::write(&path, error))?;
        Ok(path)
    }

    /// A file for what a tester outside of the guest sees.
    pub(crate) fn keep_records(&mut self) -> Result<PathBuf, Error> {
        let kept = Kept::new(self.place("records"))?;
        let path = kept.path.clone();
        self.records = Some(kept);
        Ok(path)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(std::env::temp_dir, |it| it.path().into()).join(name)
    }

    /// What a tester outside of the guest has seen.
    pub(crate) fn records(&self) -> Result<Vec<u8>, Error> {
        self.records.as_ref().map_or_else(|| Ok(Vec::new()), Kept::read)
    }

    /// Their names, for QEMU to open.
    pub(crate) fn files(&self) -> Files<'_> {
        Files { console: &self.console.path, report: &self.report.path, order: &self.order }
    }

    /// To be called once QEMU has opened them: removes their names.
    pub(crate) fn hide(&mut self) {
        // What cannot be removed now is removed in the end.
        if let Some(folder) = self.folder.take()
            && fs::remove_dir_all(folder.path()).is_err()
        {
            self.folder = Some(folder);
        }
    }

    /// What the guest has reported so far.
    pub(crate) fn report(&self) -> Result<Vec<u8>, Error> {
        self.report.read()
    }

    /// What the console says about the end.
    pub(crate) fn console(&self) -> Vec<String> {
        ending::console(&self.console.read().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_without_names_are_still_read() {
        let mut scratch = Scratch::new(b"order").unwrap();
        let folder = scratch.files().report.parent().unwrap().to_owned();
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "nobody else reads what a guest says");
        assert_eq!(fs::read(scratch.files().order).unwrap(), b"order");
        // As QEMU opens them.
        let open = |path| OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let mut report = open(scratch.files().report).unwrap();
        let mut console = open(scratch.files().console).unwrap();
        report.write_all(b"begun, ").unwrap();
        scratch.hide();
        assert!(!folder.exists(), "nothing is left if we are killed from here on");
        report.write_all(b"done").unwrap();
        console.write_all(b"all is well\n").unwrap();
        assert_eq!(scratch.report().unwrap(), b"begun, done");
        assert_eq!(scratch.report().unwrap(), b"begun, done", "once more");
        assert_eq!(scratch.console(), ["all is well"]);
    }

    #[test]
    fn a_process_that_never_starts_leaves_nothing() {
        let scratch = Scratch::new(b"").unwrap();
        let folder = scratch.files().report.parent().unwrap().to_owned();
        drop(scratch);
        assert!(!folder.exists());
    }
}
