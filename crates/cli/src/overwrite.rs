//! `--force`: commands replace no file that is already there unless they are asked to.
//!
//! A folder of results is another matter: running experiments again replaces what earlier runs left
//! there. `--force` is needed where somebody else's page or files are in the way.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use candor_output::{Existing, Target};
use clap::Args;

/// Whether a command may replace files.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Overwriting {
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

impl Overwriting {
    /// What happens to a file that is already there.
    pub(crate) const fn existing(self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }

    /// A file that takes its name when it is complete, or standard output if that is `-`.
    pub(crate) fn target(self, path: &Path) -> Result<Target, String> {
        if path.as_os_str() == "-" {
            return Ok(Target::stdout());
        }
        Target::create(path, self.existing()).map_err(|error| failure(path, &error))
    }

    /// Writes a whole file. One that already has these contents stays as it is.
    pub(crate) fn write(self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        if has_contents(path, bytes) {
            return Ok(());
        }
        let mut target = self.target(path)?;
        let written = io::Write::write_all(&mut target, bytes).and_then(|()| target.finish());
        written.map_err(|error| failure(path, &error))
    }

    /// Refuses a folder for results in which a report would replace somebody else's files.
    #[cfg(feature = "lab")]
    pub(crate) fn folder(self, dir: &Path) -> Result<(), String> {
        if self.force {
            return Ok(());
        }
        match candor_lab::folder::foreign(dir) {
            Ok(None) => Ok(()),
            Ok(Some(path)) => Err(format!(
                "{} is not part of a report, or is damaged; remove it, choose another folder, or use \
                 --force to replace the files in this one",
                path.display()
            )),
            Err(error) => Err(format!("{}: cannot be read: {error}", dir.display())),
        }
    }
}

/// Whether a file has these contents. What is no file, such as a device, is not read.
fn has_contents(path: &Path, bytes: &[u8]) -> bool {
    if path.as_os_str() == "-" {
        return false;
    }
    let has_length =
        |metadata: fs::Metadata| metadata.is_file() && metadata.len() == bytes.len() as u64;
    fs::metadata(path).is_ok_and(has_length) && fs::read(path).is_ok_and(|present| present == bytes)
}

/// Why a file is not replaced, and what to do.
pub(crate) fn refusal(path: &Path) -> String {
    format!("{} already exists; choose another name, or use --force to replace it", path.display())
}

/// Why a file could not be created.
fn failure(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AlreadyExists => refusal(path),
        _ => unwritable(path, error, "check the folder and its permissions"),
    }
}

/// Why a file could not be written, and what to do: `otherwise` if the error does not tell.
pub(crate) fn unwritable(path: &Path, error: &io::Error, otherwise: &'static str) -> String {
    let remedy = candor_recording::remedy(error, otherwise);
    format!("{}: cannot be written: {error}; {remedy}", path.display())
}
