//! [`Csv`]: a line for each frame or round trip in a file.

use std::fmt::{Arguments, Display};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use candor_output::Target;

use crate::overwrite::{Overwriting, unwritable};

/// A file of lines, which takes its name when it is complete.
pub(crate) struct Csv {
    path: PathBuf,
    out: BufWriter<Target>,
}

impl Csv {
    pub(crate) fn create(
        path: &Path,
        overwriting: Overwriting,
        head: &str,
    ) -> Result<Self, String> {
        let out = BufWriter::with_capacity(1 << 20, overwriting.target(path)?);
        let mut csv = Self { path: path.to_owned(), out };
        csv.line(format_args!("{head}"))?;
        Ok(csv)
    }

    pub(crate) fn line(&mut self, line: Arguments<'_>) -> Result<(), String> {
        writeln!(self.out, "{line}").map_err(|error| failure(&self.path, &error))
    }

    /// The file takes its name: it is complete.
    pub(crate) fn finish(self) -> Result<(), String> {
        let finished = self.out.into_inner().map_err(|error| error.into_error());
        finished.and_then(Target::finish).map_err(|error| failure(&self.path, &error))
    }
}

fn failure(path: &Path, error: &io::Error) -> String {
    unwritable(path, error, "name another file")
}

/// A value in a line, or nothing.
pub(crate) fn cell(value: Option<impl Display>) -> String {
    value.map(|it| it.to_string()).unwrap_or_default()
}
