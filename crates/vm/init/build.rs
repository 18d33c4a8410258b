//! Builds the guest program, static, and hands its bytes to `src/lib.rs`.
//!
//! It is built for another target than the host's. Its SHA-256 stands in every result.

#[path = "../nested.rs"]
mod nested;

use std::path::Path;

use nested::Nested;

fn main() {
    for file in [
        "build.rs",
        "../nested.rs",
        "../guest/Cargo.toml",
        "../../../Cargo.lock",
        "../../../Cargo.toml",
    ] {
        println!("cargo:rerun-if-changed={file}");
    }
    let program = Nested {
        workspace: Path::new("../../.."),
        folder: "guest",
        arguments: &["--package", "candor-guest", "--profile", "guest"],
        // At fixed addresses: which function an instruction belongs to can be told without asking.
        flags: &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"],
        products: &["guest/candor-guest"],
    };
    program.build();
}
