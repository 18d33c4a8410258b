//! Where a file is that another file names.

use std::path::{Path, PathBuf};

/// The file `path` as meant by someone who wrote it in a file of `base`: beside that file or, if
/// it is not there, from the working directory.
pub(crate) fn locate(base: &Path, path: &str) -> PathBuf {
    let beside = base.join(path);
    if beside.exists() { beside } else { PathBuf::from(path) }
}

/// The folder `path` of a checkout that a file in `base`, the working directory or this program is in: the first that is
/// there, from each of them upwards. `path` itself if there is none.
pub(crate) fn locate_above(base: &Path, path: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let starts = [base, Path::new("."), &program];
    let starts = starts.into_iter().filter_map(|start| std::path::absolute(start).ok());
    let mut places = starts
        .flat_map(|start| start.ancestors().map(|folder| folder.join(path)).collect::<Vec<_>>());
    places.find(|place| place.exists()).unwrap_or_else(|| PathBuf::from(path))
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

    #[test]
    fn a_folder_of_a_checkout_is_looked_for_upwards() {
        let folder = tempfile::tempdir().unwrap();
        let (deep, sources) = (folder.path().join("a/b"), folder.path().join("kernel/candor_can"));
        std::fs::create_dir_all(&deep).unwrap();
        // That of this program, which is in a checkout, or that of the working directory.
        let own = locate_above(&deep, "kernel/candor_can");
        assert!(own.join("Kbuild").exists(), "{}", own.display());
        std::fs::create_dir_all(&sources).unwrap();
        assert_eq!(locate_above(&deep, "kernel/candor_can"), sources);
        assert_eq!(locate_above(&deep, "kernel/absent"), Path::new("kernel/absent"));
    }
}
