//! Why an experiment could not be run.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use candor_diagnostics::Findings;

/// Names the place, the reason and the remedy.
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
        remedy: &'static str,
    },
    /// Findings in files written by hand, each with its place and hint.
    Findings(Findings),
    /// Anything else, in one sentence.
    Other(String),
    /// The run was interrupted.
    Interrupted,
}

impl Error {
    pub(crate) fn io(
        path: &Path,
        what: &'static str,
        source: io::Error,
        remedy: &'static str,
    ) -> Self {
        Self::Io { path: path.to_owned(), what, source, remedy }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::io(path, "cannot be read", source, "check the name and the permissions")
    }

    /// Lines per frame have no place of their own here: they go wherever the caller sends them.
    pub(crate) fn lines(error: io::Error) -> Self {
        let remedy = candor_recording::remedy(&error, "check where they go");
        Self::Other(format!("the lines per frame cannot be written: {error}; {remedy}"))
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let remedy = candor_recording::remedy(
            &source,
            "check the permissions and the free space, or name another folder with --out",
        );
        Self::io(path, "cannot be written", source, remedy)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, what, source, remedy } => {
                write!(f, "{} {what}: {source}; {remedy}", path.display())
            }
            Self::Findings(findings) => fmt::Display::fmt(findings, f),
            Self::Other(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
