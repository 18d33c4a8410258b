//! Finds plotly.js, and compresses it to where `src/lib.rs` embeds it.
//!
//! It comes out of the package `plotly`, whose version and checksum stand in `package/Cargo.lock`.
//! Cargo downloads that package and says where it is. Nothing of it is compiled, since nothing but
//! the script is used, and the package needs 16 others, procedural macros among them.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Where the script is in the package.
const SCRIPT: &str = "resource/plotly.min.js";

fn main() {
    for file in ["build.rs", "package/Cargo.toml", "package/Cargo.lock"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let script = package_folder().join(SCRIPT);
    let text = fs::read(&script).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let path = PathBuf::from(variable("OUT_DIR")).join("plotly.min.js.gz");
    let file = File::create(&path).expect("the build folder can be written");
    // The header has no time and no name, so that the same script gives the same bytes.
    let mut compressed = GzEncoder::new(file, Compression::best());
    compressed.write_all(&text).and_then(|()| compressed.finish()).expect("the disk has room");
}

/// Where cargo keeps the sources of the package `plotly`.
fn package_folder() -> PathBuf {
    let output = Command::new(variable("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--quiet"])
        .args(["--filter-platform", &variable("TARGET"), "--manifest-path"])
        .arg(Path::new(&variable("CARGO_MANIFEST_DIR")).join("package/Cargo.toml"))
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "the package `plotly` could not be downloaded; connect this machine to the package registry, or \
         run `cargo fetch --manifest-path crates/plotly/package/Cargo.toml` where it is: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listing = String::from_utf8(output.stdout).expect("cargo lists packages as JSON");
    let manifest = manifest_of("plotly", &listing).expect("cargo lists the package `plotly`");
    manifest.parent().expect("a manifest is in a folder").to_owned()
}

/// The `Cargo.toml` of a package in what `cargo metadata` prints.
fn manifest_of(package: &str, listing: &str) -> Option<PathBuf> {
    // What a package depends on is listed without a version.
    let (_, of_package) = listing.split_once(&format!(r#"{{"name":"{package}","version":""#))?;
    let (_, path) = of_package.split_once(r#""manifest_path":""#)?;
    let (path, _) = path.split_once(r#"","#)?;
    Some(path.replace(r"\\", r"\").into())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
