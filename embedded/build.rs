//! Compiles the rules to a program image, and says where the memory of the board is.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use candor_engine::Program;
use candor_rules::file;

const RULES: &str = "../examples/gateway.rules.toml";

/// Less than the board has: what many Cortex-M4 have.
const MEMORY: &str = "MEMORY {
    FLASH : ORIGIN = 0x00000000, LENGTH = 512K
    RAM : ORIGIN = 0x20000000, LENGTH = 256K
}
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={RULES}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (table, findings) = file::parse(RULES, &fs::read_to_string(RULES)?);
    let table = table.ok_or_else(|| format!("{RULES}: {findings:?}"))?;
    fs::write(out.join("gateway.image"), Program::new(&table).to_image())?;
    if env::var("CARGO_CFG_TARGET_OS")? == "none" {
        fs::write(out.join("memory.x"), MEMORY)?;
        println!("cargo:rustc-link-search={}", out.display());
        println!("cargo:rustc-link-arg-bins=-Tlink.x");
    }
    Ok(())
}
