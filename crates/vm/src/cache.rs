//! The folder in which fetched kernels and saved machines are kept. Everything in it can be had
//! again: deleting it costs time, nothing else.
//!
//! | in it | |
//! |---|---|
//! | `kernels/RELEASE/` | a kernel of Debian: image, modules, sums |
//! | `kernels/own-SUM/` | a kernel that somebody built, by the sum of its files |
//! | `machines/HASH/` | a machine that was booted and saved |
//! | `reports/HASH/` | what a machine made of orders |
//! | `headers/RELEASE/`, `compilers/` | what drivers for a kernel are built with |
//! | `drivers/RELEASE-SUM/` | a driver, by the sum of its sources |
//! | `apt/` | the private configuration and lists of apt |

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// The folder of kernels.
pub(crate) const KERNELS: &str = "kernels";
/// The folder of saved machines.
pub(crate) const MACHINES: &str = "machines";
/// The folder of reports.
pub(crate) const REPORTS: &str = "reports";
/// The folder of headers of kernels.
pub(crate) const HEADERS: &str = "headers";
/// The folder of compilers.
pub(crate) const COMPILERS: &str = "compilers";
/// The folder of drivers.
pub(crate) const DRIVERS: &str = "drivers";
/// The folder of apt.
pub(crate) const APT: &str = "apt";
/// The file that is locked while kernels are fetched.
pub(crate) const FETCH_LOCK: &str = "fetch.lock";

/// The name of the folder that belongs to a machine, by the machine's hash.
#[must_use]
pub fn folder_name(hash: &str) -> &str {
    hash.get(..32).unwrap_or(hash)
}

/// The folder in which fetched kernels and saved machines are kept.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens `folder`, or the one of the user: `$CANDOR_CACHE`, else `$XDG_CACHE_HOME/candor`, else
    /// `~/.cache/candor`. It is made if it is not there.
    ///
    /// # Errors
    /// If there is no such place, or if it cannot be made.
    pub fn open(folder: Option<&Path>) -> Result<Self, Error> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => place(|name| env::var_os(name)).ok_or_else(|| {
                Error::Other(
                    "no folder for the cache: neither CANDOR_CACHE nor HOME is set; name one with \
                     CANDOR_CACHE"
                        .into(),
                )
            })?,
        };
        fs::create_dir_all(&folder).map_err(|error| Error::write(&folder, error))?;
        // Programs that work in other folders are told of this one.
        let folder = folder.canonicalize().map_err(|error| Error::read(&folder, error))?;
        Ok(Self { folder })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder for reports, which may not be there yet.
    #[must_use]
    pub fn reports(&self) -> PathBuf {
        self.folder.join(REPORTS)
    }

    /// A folder in it, made if it is not there.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf, Error> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| Error::write(&folder, error))?;
        Ok(folder)
    }
}

/// The folder of the user, by the variables of the environment.
fn place(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let variable = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG specification: a relative path is to be ignored.
    let absolute = |path: &PathBuf| path.is_absolute();
    variable("CANDOR_CACHE")
        .or_else(|| Some(variable("XDG_CACHE_HOME").filter(absolute)?.join("candor")))
        .or_else(|| Some(variable("HOME")?.join(".cache").join("candor")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_found_by_the_environment() {
        type Variables = &'static [(&'static str, &'static str)];
        let cases: [(Variables, Option<&str>); 6] = [
            (&[], None),
            (&[("HOME", "/h")], Some("/h/.cache/candor")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], Some("/x/candor")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")], Some("/h/.cache/candor")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "")], Some("/h/.cache/candor")),
            (&[("XDG_CACHE_HOME", "/x"), ("CANDOR_CACHE", "/c")], Some("/c")),
        ];
        for (variables, expected) in cases {
            let found = place(|name| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            });
            assert_eq!(found, expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let message = Cache::open(Some(&file.join("cache"))).unwrap_err().to_string();
        assert!(message.contains("file/cache cannot be written"), "{message}");
        let cache = Cache::open(Some(&folder.path().join("a").join("b"))).unwrap();
        assert!(cache.folder().ends_with("a/b") && cache.folder().is_dir());
    }
}
