//! [`Files`]: the files in which the kernel and the distribution tell of themselves.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most that is read of a file.
const MAX_LEN: u64 = 4 << 20;

/// The files of a machine, by their paths from the root.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::at(Path::new("/"))
    }

    /// Those below this folder, which is taken for the root.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The folder that is taken for the root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The beginning of a file; `None` if it cannot be read.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.root.join(path)).ok()?.take(MAX_LEN).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The same as text, without white space around it.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned())
    }

    /// A number that is all that stands in a file.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if it is not there.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether there is something of that name.
    #[must_use]
    pub fn is_there(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Which file a name leads to.
    #[must_use]
    pub(crate) fn inode(&self, path: &str) -> Option<u64> {
        Some(fs::metadata(self.root.join(path)).ok()?.ino())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_from_their_root() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sys")).unwrap();
        fs::write(folder.path().join("sys/number"), "17\n").unwrap();
        fs::write(folder.path().join("sys/a"), [b' ', 0xFF]).unwrap();
        let files = Files::at(folder.path());
        assert_eq!(files.number("sys/number"), Some(17));
        assert_eq!(files.text("sys/a").as_deref(), Some("\u{FFFD}"));
        assert_eq!(files.number("sys/a"), None);
        assert_eq!(files.text("sys/none"), None);
        assert_eq!(files.names("sys"), ["a", "number"]);
        assert!(files.names("none").is_empty());
        assert!(files.is_there("sys/a") && !files.is_there("sys/b"));
        assert_eq!(files.inode("sys/../sys/a"), files.inode("sys/a"));
        assert_ne!(files.inode("sys/number"), files.inode("sys/a"));
    }
}
