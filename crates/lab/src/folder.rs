//! Folders for results and reports: is what they hold ours to replace?
//!
//! Running experiments again into the same folder replaces its results and its report. A folder that
//! holds a page, a `report` folder or results of somebody else is not written to.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::result::SCHEMA;
use crate::run::results_of;

/// What every page of a report refers to, and hardly any other page.
const MARK: &str = "report/data.js";
/// How much of a page is read to find [`MARK`].
const PAGE_HEAD_LEN: u64 = 16 << 10;
/// How much of a result is read to find its schema, which comes first.
const RESULT_HEAD_LEN: u64 = 64;
/// What a report keeps in its folder `report`.
const ASSETS: [&str; 9] = [
    "app.js",
    "charts",
    "claims.json",
    "data.js",
    "figures.json",
    "frames",
    "latest.json",
    "plotly.min.js",
    "style.css",
];

/// The first thing in `dir` that a report would replace although no report wrote it.
///
/// # Errors
/// Something in the folder cannot be read. A folder that is not there holds nothing.
pub fn foreign(dir: &Path) -> io::Result<Option<PathBuf>> {
    let page = dir.join("index.html");
    if let Some(head) = head(&page, PAGE_HEAD_LEN)?
        && !head.contains(MARK)
    {
        return Ok(Some(page));
    }
    for path in entries(&dir.join("report"))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Files that were being written when a run was killed begin with a dot.
        if !ASSETS.contains(&name) && !name.starts_with('.') {
            return Ok(Some(path));
        }
    }
    for path in entries(&results_of(dir))? {
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        if is_json && head(&path, RESULT_HEAD_LEN)?.is_some_and(|head| !is_result(&head)) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Whether a file that begins like this is a result, of whichever version.
fn is_result(head: &str) -> bool {
    let family = SCHEMA.split('/').next().unwrap_or(SCHEMA);
    head.contains(&format!("\"schema\": \"{family}/"))
}

/// Whether nothing is there.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The beginning of a file; `None` if it is not there.
fn head(path: &Path, len: u64) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What is in a folder, by name; nothing if it is not there.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first foreign thing in a folder with these files.
    fn foreign_of(files: &[(&str, &str)]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = foreign(dir.path()).unwrap()?;
        Some(found.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn what_a_report_did_not_write_is_foreign() {
        let page = include_str!("report/index.html");
        let result = format!("{{\n  \"schema\": \"{SCHEMA}\",\n");
        for (files, expected) in [
            (&[][..], None),
            (&[("notes.txt", "")], None),
            (&[("index.html", page)], None),
            (&[("index.html", "<title>My page</title>")], Some("index.html")),
            (&[("report/data.js", ""), ("report/charts/a.js", ""), ("report/.a.0.part", "")], None),
            (&[("report/thesis.tex", "")], Some("report/thesis.tex")),
            (&[("results/a.json", &*result), ("results/a.csv", "")], None),
            (&[("results/a.json", "{\n  \"schema\": \"candor-result/0\"")], None),
            (&[("results/a.json", "{}")], Some("results/a.json")),
        ] {
            assert_eq!(foreign_of(files).as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(foreign(&dir.path().join("absent")).unwrap(), None);
    }
}
