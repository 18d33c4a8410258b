//! Why something with kernels or guests could not be done.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Each names the place, the reason and the remedy.
#[derive(Debug)]
pub enum Error {
    /// A file or folder could not be read or written.
    Io {
        path: PathBuf,
        /// What was tried: `cannot be read`.
        what: &'static str,
        /// Why not.
        source: io::Error,
        /// What to do about it.
        remedy: String,
    },
    /// A program is not there.
    NoProgram {
        /// Its name.
        program: String,
        /// What it is needed for.
        purpose: &'static str,
        /// How to get it.
        remedy: String,
    },
    /// The guest died, hung, or said that it could not do what it was asked to.
    Guest {
        /// What happened.
        reason: String,
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// Anything else, in one sentence with reason and remedy.
    Other(String),
    /// The caller wanted no more.
    Interrupted,
}

impl Error {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        let remedy = "check the name and the permissions".into();
        Self::Io { path: path.to_owned(), what: "cannot be read", source, remedy }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::StorageFull => {
                "free space there, or name another folder with CANDOR_CACHE".into()
            }
            io::ErrorKind::FileTooLarge => "raise the limit of file sizes (`ulimit -f`)".into(),
            _ => "check the permissions, or name another folder with CANDOR_CACHE".into(),
        };
        Self::Io { path: path.to_owned(), what: "cannot be written", source, remedy }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, what, source, remedy } => {
                write!(f, "{} {what}: {source}; {remedy}", path.display())
            }
            Self::NoProgram { program, purpose, remedy } => {
                write!(f, "{program} was not found; it {purpose}; {remedy}")
            }
            Self::Guest { reason, console } => {
                f.write_str(reason)?;
                if !console.is_empty() {
                    f.write_str("\nthe last lines of the guest's console:")?;
                    console.iter().try_for_each(|line| write!(f, "\n  {line}"))?;
                }
                Ok(())
            }
            Self::Other(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
