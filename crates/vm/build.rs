//! Builds the plugin of QEMU that counts instructions (`plugin/lib.rs`), and hands its bytes to
//! `src/counting.rs`. It is one file without any crate, so the compiler is called directly; that
//! takes a second.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=plugin");
    let library = PathBuf::from(variable("OUT_DIR")).join("count.so");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return fs::write(library, []).expect("the build folder can be written");
    }
    let status = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-name", "candor_count", "--crate-type", "cdylib"])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Cstrip=symbols", "-Clink-arg=-nostartfiles"])
        .args(["--target", &variable("TARGET"), "-o"])
        .arg(library)
        .arg(PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("plugin/lib.rs"))
        .status();
    assert!(
        status.expect("rustc can be run").success(),
        "the plugin could not be built; see above"
    );
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
