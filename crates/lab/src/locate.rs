//! Where a file is that another file names.

use std::path::{Path, PathBuf};

/// The file `path` as meant by someone who wrote it in a file of `base`: beside that file or, if
/// it is not there, from the working directory.
pub(crate) fn locate(base: &Path, path: &str) -> PathBuf {
    let beside = base.join(path);
    if beside.exists() { beside } else { PathBuf::from(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_beside_the_experiment_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        let beside = locate(folder.path(), "Cargo.toml");
        assert_eq!(beside, folder.path().join("Cargo.toml"));
        // Tests run in the folder of their crate.
        assert_eq!(locate(&folder.path().join("absent"), "Cargo.toml"), Path::new("Cargo.toml"));
    }
}
