//! All results in a folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use candor_lat::section::Unit;
use serde::Deserialize;

use crate::result::{ResultFile, SCHEMA};
use crate::sections;

/// Why there are no results or no report: where, what is wrong, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub path: PathBuf,
    /// Line and column, both from 1, where they are known.
    pub position: Option<(usize, usize)>,
    /// What is wrong, in one clause that begins with a small letter.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

/// One line: `FILE:LINE:COLUMN: what is wrong; the remedy`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}; {}", self.message, self.hint)
    }
}
impl std::error::Error for Error {}

impl Error {
    pub(crate) fn new(path: &Path, message: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.to_owned(), position: None, message: message.into(), hint }
    }

    pub(crate) fn at(mut self, line: usize, column: usize) -> Self {
        self.position = Some((line, column));
        self
    }
}

/// The remedy for a result that this version cannot read.
pub(crate) const RUN_AGAIN: &str = "delete the file or run the experiment again";

/// The longest result file that is read: 64 MB, hundreds of times the usual.
const MAX_RESULT_LEN: u64 = 1 << 26;

/// All results in `dir`, in the order of their file names.
///
/// # Errors
/// There are none, or one is broken or cannot be read.
pub fn read(dir: &Path) -> Result<Vec<ResultFile>, Error> {
    let results = read_files(&crate::run::results_of(dir))?;
    Ok(results.into_iter().map(|(_, _, result)| result).collect())
}

/// The results in a folder, each with its file and the name of that without extension.
pub(crate) fn read_files(dir: &Path) -> Result<Vec<(PathBuf, String, ResultFile)>, Error> {
    const RUN_FIRST: &str = "run `candor lab run FILE --out DIR` first";
    let mut paths = match files_in(dir, "json") {
        Ok(paths) => paths,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::new(dir, "the folder does not exist", RUN_FIRST));
        }
        Err(error) => return Err(unreadable(dir, &error)),
    };
    if paths.is_empty() {
        return Err(Error::new(dir, "the folder contains no results", RUN_FIRST));
    }
    paths.sort();
    let mut seen = BTreeMap::new();
    let mut results = Vec::with_capacity(paths.len());
    for path in paths {
        let read = read_result(path)?;
        let (path, _, result) = &read;
        let key = (result.group().to_owned(), result.seed);
        if let Some(other) = seen.insert(key, path.clone()) {
            let (name, seed) = (result.group(), result.seed);
            let message =
                format!("{} is a result of `{name}` with seed {seed}, too", other.display());
            return Err(Error::new(
                path,
                message,
                "delete one of them, or move it to another folder",
            ));
        }
        results.push(read);
    }
    Ok(results)
}

fn read_result(path: PathBuf) -> Result<(PathBuf, String, ResultFile), Error> {
    let Some(id) = path.file_stem().and_then(OsStr::to_str).map(str::to_owned) else {
        return Err(Error::new(&path, "the file name is not UTF-8", "rename the file"));
    };
    let mut text = Vec::new();
    let read =
        fs::File::open(&path).and_then(|file| file.take(MAX_RESULT_LEN + 1).read_to_end(&mut text));
    let len = read.map_err(|error| unreadable(&path, &error))?;
    if len as u64 > MAX_RESULT_LEN {
        return Err(Error::new(&path, "the file is too large for a result", RUN_AGAIN));
    }
    let result = parse(&path, &text)?;
    Ok((path, id, result))
}

/// What is read of a result first, so that a file of another kind is called that.
#[derive(Deserialize)]
struct Header {
    schema: String,
}

fn parse(path: &Path, text: &[u8]) -> Result<ResultFile, Error> {
    let broken = |error: serde_json::Error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        let message = format!("this is not a complete result: {message}");
        Error::new(path, message, RUN_AGAIN).at(error.line(), error.column().max(1))
    };
    let Header { schema } = serde_json::from_slice(text).map_err(broken)?;
    if schema != SCHEMA {
        let message = format!("the schema is {schema:?}, but this version reads {SCHEMA:?}");
        return Err(Error::new(path, message, RUN_AGAIN));
    }
    let result: ResultFile = serde_json::from_slice(text).map_err(broken)?;
    match result.sections.misfit(&sections::ALL) {
        None => Ok(result),
        Some((kind, row, column)) => {
            let what = if column.unit == Unit::Text { "words" } else { "a number that fits" };
            let message = format!(
                "`{}` in row {} of section `{}` is not {what} ({})",
                column.key,
                row + 1,
                kind.key,
                column.unit.word()
            );
            Err(Error::new(path, message, RUN_AGAIN))
        }
    }
}

/// The files of a folder with that extension, in no order.
pub(crate) fn files_in(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(extension)) && path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::new(path, format!("cannot be read: {error}"), "check that it exists and is readable")
}
