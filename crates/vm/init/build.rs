//! Builds the guest program, static, and hands its bytes to `src/lib.rs`.
//!
//! It is built for another target than the host's, so a cargo of its own builds it, in a target
//! folder of its own that all profiles of the outer build share. Paths of this machine are kept out
//! of it: the same sources and compiler give the same bytes anywhere, and its SHA-256 stands in every
//! result.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only architecture that guests have so far.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../guest/Cargo.toml");
    println!("cargo:rerun-if-changed=../../../Cargo.lock");
    println!("cargo:rerun-if-changed=../../../Cargo.toml");
    let out = PathBuf::from(variable("OUT_DIR"));
    let built = if variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
    {
        build(&target_folder(&out))
    } else {
        Vec::new()
    };
    fs::write(out.join("init"), built).expect("the build folder can be written");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The folder `guest` in the target folder of the outer build. `out` is
/// `target/[triple/]profile/build/package/out`; a folder within `target` has the tag that cargo
/// writes there. Without one, `out` itself serves.
fn target_folder(out: &Path) -> PathBuf {
    let target = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.unwrap_or(out).join("guest")
}

fn build(target_folder: &Path) -> Vec<u8> {
    let crate_folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = crate_folder.join("../../..").canonicalize().expect("the workspace is there");
    // At fixed addresses: which function an instruction belongs to can be told without asking.
    let fixed = "-Crelocation-model=static".to_owned();
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), fixed];
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    flags.push(remap(&workspace, "candor"));
    if let Some(home) = cargo_home() {
        flags.push(remap(&home, "cargo"));
    }
    flags.push(remap(target_folder, "target"));

    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "--package", "candor-guest"])
        .args(["--profile", "guest", "--target", TARGET, "--target-dir"])
        .arg(target_folder)
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
    watch_sources(&program.with_extension("d"), &workspace);
    fs::read(&program).expect("the guest program was built")
}

/// Asks to be run again when a source of the guest program changes. Cargo lists them in a file of
/// the form `program: source source ...`, with a backslash before a space in a name.
fn watch_sources(listing: &Path, workspace: &Path) {
    let text = fs::read_to_string(listing).expect("cargo lists the sources of the guest program");
    let (_, sources) = text.split_once(": ").expect("the listing has the form `program: sources`");
    for source in sources.trim_end().replace("\\ ", "\0").split(' ') {
        let source = PathBuf::from(source.replace('\0', " "));
        println!("cargo:rerun-if-changed={}", source.display());
        let mut folders = source.ancestors().skip(1).take_while(|folder| *folder != workspace);
        if let Some(folder) = folders.find(|folder| folder.join("Cargo.toml").is_file()) {
            println!("cargo:rerun-if-changed={}", folder.join("Cargo.toml").display());
        }
    }
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
