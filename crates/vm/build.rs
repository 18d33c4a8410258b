//! Builds the libraries that QEMU loads (`plugins/`), and hands their bytes to `src/plugin.rs`.

#[path = "nested.rs"]
mod nested;

use std::path::Path;

use nested::Nested;

fn main() {
    for file in ["build.rs", "nested.rs", "plugins/Cargo.lock", "plugins/Cargo.toml"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let plugins = Nested {
        workspace: Path::new("plugins"),
        folder: "plugins",
        arguments: &["--release"],
        // No start-up code of the C library, and no other symbols than those that the library itself needs.
        flags: &["-Clink-arg=-nostartfiles"],
        products: &["release/libcount.so", "release/libtimed_bus.so"],
    };
    plugins.build();
}
