//! The folder of one side: `DIR/results/*.json`, `DIR/profiles/*.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Side;
use crate::error::Error;
use crate::result::{PROFILE_SCHEMA, ProfileFile};
use crate::results;
use crate::run::results_of;

/// The folder of the counts of instructions within `out`.
#[must_use]
pub fn profiles_of(out: &Path) -> PathBuf {
    out.join("profiles")
}

/// Keeps a count of instructions in `out`, in place of an older one of that experiment.
///
/// # Errors
/// It cannot be written.
pub fn keep(out: &Path, profile: &ProfileFile) -> Result<PathBuf, Error> {
    let folder = profiles_of(out);
    fs::create_dir_all(&folder).map_err(|error| Error::write(&folder, error))?;
    let path = folder.join(format!("{}.json", profile.experiment));
    let mut json = serde_json::to_vec_pretty(profile).unwrap_or_default();
    json.push(b'\n');
    candor_output::replace(&path, &json).map_err(|error| Error::write(&path, error))?;
    Ok(path)
}

impl Side {
    /// Everything in the folder `dir`.
    ///
    /// # Errors
    /// There is nothing, or something is broken.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let profiles = read_profiles(&profiles_of(dir))?;
        let has_results = results_of(dir).exists() || profiles.is_empty();
        let results = match has_results {
            true => results::read(dir).map_err(|error| Error::Other(error.to_string()))?,
            false => Vec::new(),
        };
        Ok(Self { results, profiles })
    }
}

/// The counts of instructions in the folder `folder`; none if it is not there.
pub(crate) fn read_profiles(folder: &Path) -> Result<Vec<ProfileFile>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::read(folder, error))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::read(folder, error))?.path();
        paths.extend(Some(path).filter(|path| path.extension().is_some_and(|e| e == "json")));
    }
    paths.sort();
    paths.iter().map(|path| read_profile(path)).collect()
}

fn read_profile(path: &Path) -> Result<ProfileFile, Error> {
    let bytes = fs::read(path).map_err(|error| Error::read(path, error))?;
    let broken = |reason: String| {
        Error::Other(format!(
            "{}: {reason}; delete it or run `candor lab profile` again",
            path.display()
        ))
    };
    let profile: ProfileFile =
        serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    match profile.schema == PROFILE_SCHEMA {
        true => Ok(profile),
        false => {
            let found = &profile.schema;
            Err(broken(format!("the schema is {found:?}, expected {PROFILE_SCHEMA:?}")))
        }
    }
}
