//! Programs that tests hand to guests, built by cargo.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The test program `machine` of a package, such as `candor-gateway`.
///
/// All packages are chosen as in `cargo test --workspace`: with fewer, dependencies would have other
/// features, and cargo would compile them again.
pub(crate) fn machine_checks(package: &str) -> PathBuf {
    let folder = package.strip_prefix("candor-").unwrap_or(package);
    let manifest = format!("crates/{folder}/Cargo.toml");
    cargo(&["test", "--workspace", "--test", "machine", "--no-run"], &manifest, "machine")
}

/// Has cargo build something; returns the program of this target of the package with this manifest.
pub(crate) fn cargo(arguments: &[&str], manifest: &str, target: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--quiet", "--locked", "--message-format=json"])
        .output()
        .unwrap_or_else(|error| panic!("cargo cannot be run: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let program = messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let of = Path::new(message.get("manifest_path")?.as_str()?);
        let is_it = message.pointer("/target/name")? == target && of.ends_with(manifest);
        let program = message.get("executable")?.as_str()?;
        is_it.then(|| PathBuf::from(program))
    });
    program.unwrap_or_else(|| panic!("cargo built no {target} of {manifest}"))
}
