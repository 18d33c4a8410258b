//! Drivers that are no part of the kernel: built for it from their sources, and kept in the cache.
//!
//! ```text
//!  sources (Kbuild, *.c, *.h) --+
//!  headers and compiler --------+--> make --> strip --> <cache>/drivers/RELEASE-SUM/NAME.ko
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::headers::Toolchain;
use super::store::{self, Kernel};
use crate::cache::DRIVERS;
use crate::digest::hex;
use crate::{Cache, Error};

/// The module `name`, built for `kernel` from the sources in a folder: its `Kbuild`, `*.c` and `*.h`.
///
/// # Errors
/// There are no sources, headers or tools; or it does not compile.
pub fn build(cache: &Cache, kernel: &Kernel, sources: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let files = files(sources)?;
    let release = &kernel.release;
    let mut sha256 = Sha256::new();
    for (file, bytes) in &files {
        for part in [file.as_bytes(), bytes] {
            sha256.update((part.len() as u64).to_le_bytes());
            sha256.update(part);
        }
    }
    let sum = hex(&sha256.finalize());
    let folder = cache.subfolder(DRIVERS)?.join(format!("{release}-{}", &sum[..16]));
    let module = folder.join(format!("{name}.ko"));
    if !module.is_file() {
        let toolchain = Toolchain::find(cache, release)?;
        store::place(cache, &folder, store::OWN, |new| {
            let work = new.join("work");
            fs::create_dir(&work).map_err(|error| Error::write(&work, error))?;
            for (file, bytes) in &files {
                let path = work.join(file);
                fs::write(&path, bytes).map_err(|error| Error::write(&path, error))?;
            }
            make(&toolchain, &work, release)?;
            let built = work.join(format!("{name}.ko"));
            strip(&built)?;
            fs::rename(&built, new.join(format!("{name}.ko")))
                .map_err(|error| Error::write(&built, error))?;
            fs::remove_dir_all(&work).map_err(|error| Error::write(&work, error))
        })?;
    }
    fs::read(&module).map_err(|error| Error::read(&module, error))
}

/// The sources in a folder, by name.
///
/// # Errors
/// They cannot be read, or there is no Kbuild.
pub fn files(sources: &Path) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(sources).map_err(|error| Error::read(sources, error))?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // What an earlier build left there is generated.
        let is_source = (name.ends_with(".c") && !name.ends_with(".mod.c")) || name.ends_with(".h");
        if is_source || name == "Kbuild" {
            let path = entry.path();
            files.insert(name, fs::read(&path).map_err(|error| Error::read(&path, error))?);
        }
    }
    if files.contains_key("Kbuild") {
        return Ok(files);
    }
    Err(Error::Other(format!(
        "{} has no Kbuild; name the folder with the sources of the driver",
        sources.display()
    )))
}

fn make(toolchain: &Toolchain, work: &Path, release: &str) -> Result<(), Error> {
    let mut command = Command::new("make");
    command.arg("-C").arg(&toolchain.headers).arg(format!("M={}", work.display()));
    // The list of types of the running kernel (BTF) is not in the headers. The folder's name is in no message.
    command.arg("CONFIG_DEBUG_INFO_BTF_MODULES=");
    command.arg(format!("KCFLAGS=-fmacro-prefix-map={}/=", work.display()));
    command.args(["-s", "modules"]).env("PATH", toolchain.path());
    run(command, "builds drivers", &format!("the driver does not compile for Linux {release}"))
}

/// Takes out what is for debuggers: nine tenths of it.
fn strip(module: &Path) -> Result<(), Error> {
    let mut command = Command::new("strip");
    command.arg("-g").arg(module);
    run(command, "shortens drivers", &format!("{} cannot be stripped", module.display()))
}

fn run(mut command: Command, purpose: &'static str, failure: &str) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output().map_err(|_| {
        let remedy = "on Debian and Ubuntu, install the packages make and binutils".into();
        Error::NoProgram { program: program.clone(), purpose, remedy }
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().find(|line| line.contains("rror")).unwrap_or("see its messages");
    Err(Error::Other(format!("{failure}: {program}: {}; correct the sources", first.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_what_is_not_generated() {
        let folder = tempfile::tempdir().unwrap();
        let failed = files(folder.path()).unwrap_err().to_string();
        assert!(failed.contains("has no Kbuild"), "{failed}");
        for name in ["Kbuild", "a.c", "a.h", "a.mod.c", "a.o", "a.ko", "README.md"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let names: Vec<_> = files(folder.path()).unwrap().into_keys().collect();
        assert_eq!(names, ["Kbuild", "a.c", "a.h"]);
    }
}
