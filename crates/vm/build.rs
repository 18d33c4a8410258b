//! Builds the guest program, static, and hands its bytes to `src/machine.rs`.
//!
//! It is a program of another target than the host's, so it is built by a cargo of its own in a
//! target folder of its own. Paths of this machine are kept out of it: the same sources and
//! compiler give the same bytes anywhere, and its SHA-256 stands in every result.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only architecture that guests have so far.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What the guest program is made of, besides this crate's `guest` folder.
const PARTS: [&str; 9] = [
    "../bed",
    "../gateway",
    "../lat",
    "../linux",
    "../port",
    "../queue",
    "../route",
    "../time",
    "../wire",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=guest");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    println!("cargo:rerun-if-changed=../../Cargo.toml");
    for part in PARTS {
        println!("cargo:rerun-if-changed={part}/src");
        println!("cargo:rerun-if-changed={part}/Cargo.toml");
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let init = out.join("init");
    let built = if variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
    {
        build(&out)
    } else {
        Vec::new()
    };
    fs::write(&init, built).expect("the build folder can be written");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn build(out: &Path) -> Vec<u8> {
    let crate_folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = crate_folder.join("../..").canonicalize().expect("the workspace is there");
    let target_folder = out.join("guest");
    // At fixed addresses: which function an instruction belongs to can be told without asking.
    let fixed = "-Crelocation-model=static".to_owned();
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), fixed];
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    flags.push(remap(&workspace, "candor"));
    if let Some(home) = cargo_home() {
        flags.push(remap(&home, "cargo"));
    }
    flags.push(remap(&target_folder, "target"));

    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "--package", "candor-guest"])
        .args(["--profile", "guest", "--target", TARGET, "--target-dir"])
        .arg(&target_folder)
        .current_dir(&workspace)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("CARGO_TARGET_DIR");
    // What an outer cargo says about its own build (a linter, a fuzzer) is not meant for this one.
    for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_BOOTSTRAP", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo can be run");
    assert!(status.success(), "the guest program could not be built; see above");
    let program = target_folder.join(TARGET).join("guest/candor-guest");
    fs::read(&program).expect("the guest program was built")
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
