//! Builds the libraries that QEMU loads (`plugins/`), and hands their bytes to `src/plugin.rs`.

#[path = "nested.rs"]
mod nested;

use nested::Nested;

fn main() {
    for (package, product) in
        [("candor-count", "guest/libcount.so"), ("candor-timed-bus", "guest/libtimed_bus.so")]
    {
        let plugin = Nested {
            folder: "plugins",
            // In the workspace they are libraries as all others, since what QEMU loads cannot unwind and tests do.
            arguments: &["rustc", "--package", package, "--crate-type", "cdylib"],
            // No start-up code of the C library, and no other symbols than those that the library itself needs.
            flags: &["-Clink-arg=-nostartfiles", "-Cstrip=symbols"],
            product,
        };
        plugin.build();
    }
}
