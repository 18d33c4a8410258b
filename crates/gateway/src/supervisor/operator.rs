//! [`RequestOperator`]: what the control socket asks for, done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use candor_linux::clock;
use candor_time::Monotonic;

use super::Shared;
use super::claim::{Claim, names_of};
use crate::control::{Handler, Loaded, PlanLine, Rejected};
use crate::lock::lock;
use crate::{Compiled, Error, Snapshot, read_rules};

/// Answers requests from the control socket.
pub(super) struct RequestOperator {
    pub(super) shared: Arc<Shared>,
    pub(super) file: PathBuf,
    /// Whether rules are loaded only from the folder of that file and below: others than its user may ask.
    pub(super) is_confined: bool,
    /// Of the file that the gateway was started with.
    pub(super) claim: Claim,
    /// Of another file that was loaded since.
    pub(super) loaded: Mutex<Option<Claim>>,
}

impl RequestOperator {
    /// Takes the claim on a file if it is not there yet; returns it if it is one of its own.
    fn claim(&self, file: &Path) -> Result<Option<Claim>, Error> {
        let loaded = lock(&self.loaded);
        let claims = [Some(&self.claim), loaded.as_ref()];
        let names = names_of(file);
        let is_claimed = claims.into_iter().flatten().any(|claim| !claim.names.is_disjoint(&names));
        if is_claimed { Ok(None) } else { Claim::take(file).map(Some) }
    }
}

impl Handler for RequestOperator {
    fn file(&self) -> String {
        self.file.display().to_string()
    }

    fn snapshot(&self) -> Snapshot {
        lock(&self.shared.gateway).snapshot()
    }

    fn load(&self, file: Option<&Path>) -> Result<Loaded, Rejected> {
        let allowed = file.filter(|_| self.is_confined);
        let allowed = allowed.map(|file| below(self.file.parent(), file)).transpose()?;
        let file = allowed.as_deref().or(file).unwrap_or(&self.file);
        let rejected = |error| match error {
            Error::Rules(findings) => Rejected::new(file, &findings),
            other => Rejected { message: other.to_string(), findings: Vec::new() },
        };
        let claim = self.claim(file).map_err(rejected)?;
        let loaded = change(&self.shared, file).map_err(rejected)?;
        if claim.is_some() {
            *lock(&self.loaded) = claim;
        }
        Ok(loaded)
    }

    fn plan(&self) -> Vec<PlanLine> {
        lock(&self.shared.gateway).plan_lines()
    }

    fn stop(&self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
    }
}

/// The file without symbolic links, if it is in this folder or below. Of others not even whether they are there is told.
///
/// # Errors
/// It is not.
fn below(folder: Option<&Path>, file: &Path) -> Result<PathBuf, Rejected> {
    let folder = folder.and_then(|folder| fs::canonicalize(folder).ok()).unwrap_or_default();
    let real = fs::canonicalize(file).ok();
    match real.filter(|real| real.starts_with(&folder) && !folder.as_os_str().is_empty()) {
        Some(real) => Ok(real),
        None => Err(Rejected {
            message: format!(
                "{}: there is no such rule file in {} or below, and with --control-group others are not read",
                file.display(),
                folder.display()
            ),
            findings: Vec::new(),
        }),
    }
}

/// Reads rules and puts them into place.
pub(super) fn change(shared: &Shared, path: &Path) -> Result<Loaded, Error> {
    let start = clock::now::<Monotonic>();
    let _one = lock(&shared.loading);
    // Everything that takes time comes before the gateway is locked.
    let rehearsed = match &shared.rehearsal {
        Some(rehearsal) => {
            rehearsal.check(path).map_err(|why| Error::File(format!("{}: {why}", path.display())))
        }
        None => Ok(()),
    };
    let rules = rehearsed.and_then(|()| read_rules(path));
    let compiled = rules.and_then(|rules| Compiled::new(&shared.config, rules));
    let mut gateway = lock(&shared.gateway);
    if shared.is_stopped.load(Ordering::Relaxed) {
        return Err(Error::Other("the gateway has ended".to_owned()));
    }
    gateway.load_compiled(compiled)?;
    Ok(Loaded {
        generation: gateway.changes(),
        rules: gateway.table().rules.len() as u64,
        took_us: (clock::now::<Monotonic>() - start).as_nanos() / 1_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_really_below_the_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("candor");
        fs::create_dir_all(own.join("winter")).unwrap();
        for name in ["secret", "candor/a.toml", "candor/winter/b.toml"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path().join("secret"), own.join("link.toml")).unwrap();
        std::os::unix::fs::symlink("a.toml", own.join("same.toml")).unwrap();
        for (name, expected) in [
            ("a.toml", Some("a.toml")),
            ("winter/b.toml", Some("winter/b.toml")),
            ("winter/../a.toml", Some("a.toml")),
            ("same.toml", Some("a.toml")),
            ("link.toml", None),
            ("../secret", None),
            ("../absent", None),
            ("absent.toml", None),
            ("/etc/passwd", None),
        ] {
            let found = below(Some(&own), &own.join(name)).map_err(|rejected| rejected.message);
            let expected = expected.map(|name| fs::canonicalize(own.join(name)).unwrap());
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{name}: {found:?}");
        }
        assert!(below(None, &own.join("a.toml")).is_err());
        assert!(below(Some(Path::new("/absent")), &own.join("a.toml")).is_err());
    }
}
