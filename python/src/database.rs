//! `candor.Database`: a DBC file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_diagnostics::Findings;
use candor_signals::Database as Signals;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::{DatabaseError, os_error};

/// A DBC file: what the bits of frames mean.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Database {
    signals: Arc<Signals>,
}

/// A database, or the path of one.
pub(crate) struct DatabaseOrPath(pub(crate) Arc<Signals>);

impl<'py> FromPyObject<'_, 'py> for DatabaseOrPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(database) = object.cast::<Database>() {
            return Ok(Self(Arc::clone(&database.get().signals)));
        }
        let Ok(path) = object.extract::<PathBuf>() else {
            let kind = object.get_type().name()?;
            let text =
                format!("expected a `candor.Database` or the path of a DBC file, not {kind}");
            return Err(PyTypeError::new_err(text));
        };
        load(&path).map(Self)
    }
}

fn load(path: &Path) -> PyResult<Arc<Signals>> {
    // Python tells what keeps a file from being opened; the rest is a matter of what is in it.
    File::open(path).map_err(|error| os_error(path, &error))?;
    let findings = Findings::new();
    let database = Signals::load(path, &findings);
    database.map(Arc::new).ok_or_else(|| DatabaseError::new_err(findings.to_string()))
}

#[pymethods]
impl Database {
    /// Reads a DBC file.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self { signals: load(&path)? })
    }

    /// What the file is called.
    #[getter]
    fn name(&self) -> &str {
        self.signals.name()
    }

    /// The names of the messages, as written.
    #[getter]
    fn messages(&self) -> Vec<String> {
        self.signals.messages().iter().map(|message| message.name.clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<candor.Database {}: {} messages>", self.name(), self.signals.messages().len())
    }
}
