//! Builds the guest program, static, and hands its bytes to `src/lib.rs`.
//!
//! It is built for another target than the host's. Its SHA-256 stands in every result.

#[path = "../nested.rs"]
mod nested;

use nested::Nested;

fn main() {
    let program = Nested {
        folder: "guest",
        arguments: &["build", "--package", "candor-guest"],
        // At fixed addresses: which function an instruction belongs to can be told without asking.
        flags: &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"],
        product: "guest/candor-guest",
    };
    program.build();
}
