//! [`Claim`]: a rule file is run by one process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candor_linux::lock::{self as single, Lock};

use crate::Error;

/// That no other process of this user, or of root, runs the rules of a file.
pub(super) struct Claim {
    pub(super) names: BTreeSet<PathBuf>,
    _locks: Vec<Lock>,
}

impl Claim {
    pub(super) fn take(path: &Path) -> Result<Self, Error> {
        let names = names_of(path);
        let mut locks = Vec::with_capacity(names.len());
        for name in &names {
            match Lock::take(&name.display().to_string())? {
                single::Outcome::Taken(lock) => locks.push(lock),
                single::Outcome::Held(holder) => return Err(Error::Other(refusal(path, &holder))),
            }
        }
        Ok(Self { names, _locks: locks })
    }
}

/// What a rule file is called: as it was named and, if that is a symbolic link, what it leads to, both
/// in folders without links. A link that is changed later still has its own name.
pub(super) fn names_of(path: &Path) -> BTreeSet<PathBuf> {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let named = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let names: BTreeSet<_> = named.into_iter().chain(path.canonicalize().ok()).collect();
    if names.is_empty() { BTreeSet::from([path.to_owned()]) } else { names }
}

fn refusal(path: &Path, holder: &single::Holder) -> String {
    let who = match holder.process {
        Some(process) => format!("process {process}"),
        None => format!("another process (it holds {})", holder.path.display()),
    };
    format!(
        "{}: {who} already runs these rules; stop it, or change its rules with `candor route load`",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn rules_run_once_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["v1.toml", "v2.toml"] {
            fs::write(at(name), "").unwrap();
        }
        symlink(at("v1.toml"), at("current.toml")).unwrap();
        symlink(at("current.toml"), at("alias.toml")).unwrap();
        symlink(&root, at("folder")).unwrap();
        let claim = Claim::take(&at("current.toml")).unwrap();
        let own = format!("process {} already runs these rules", std::process::id());
        for name in ["current.toml", "v1.toml", "alias.toml", "folder/v1.toml", "./current.toml"] {
            let message = Claim::take(&at(name)).err().expect(name).to_string();
            assert!(message.contains(&own) && message.contains("route load"), "{message}");
        }
        // The link is still taken when it leads elsewhere.
        fs::remove_file(at("current.toml")).unwrap();
        symlink(at("v2.toml"), at("current.toml")).unwrap();
        assert!(Claim::take(&at("current.toml")).is_err());
        assert!(Claim::take(&at("v2.toml")).is_ok());
        drop(claim);
        assert!(Claim::take(&at("current.toml")).is_ok());
        // Who reads a file that is not there reports it.
        assert_eq!(names_of(Path::new("/no/such/file")), [PathBuf::from("/no/such/file")].into());
    }
}
