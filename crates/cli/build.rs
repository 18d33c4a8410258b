//! Tells the program its version: that of the package, the commit if this is a checkout, its features and its target.
//!
//! `CANDOR_COMMIT` in the environment takes the place of the commit, for builds from an archive. The
//! same commit gives the same version, and the script runs again only when the commit changes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CANDOR_COMMIT");
    let package = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let given = env::var("CANDOR_COMMIT").ok().filter(|commit| !commit.is_empty());
    let version = match given.or_else(commit) {
        Some(commit) => format!("{package} ({commit})"),
        None => package,
    };
    println!("cargo:rustc-env=CANDOR_VERSION={version}");
    println!("cargo:rustc-env=CANDOR_FEATURES={}", features());
    println!("cargo:rustc-env=CANDOR_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// The optional features that are in the program: those of the manifest without `default`.
fn features() -> String {
    let prefix = "CARGO_FEATURE_";
    let named = env::vars().filter_map(|(name, _)| Some(name.strip_prefix(prefix)?.to_lowercase()));
    let mut features: Vec<_> = named.filter(|name| name != "default").collect();
    features.sort_unstable();
    if features.is_empty() { "none".to_owned() } else { features.join(", ") }
}

/// The commit of the checkout that this package is in. `None` outside one, without git, and if the
/// package was copied into the repository of another project.
fn commit() -> Option<String> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let root = package.ancestors().nth(2)?;
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // A commit, a checkout and a reset each change one of these. Cargo takes a file that is not there
    // for one that has changed, so only those that are there are named.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(root, &["rev-parse", "--path-format=absolute", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(root, &["rev-parse", "--short=12", "HEAD"])
}

/// What a command of git prints; `None` if it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
