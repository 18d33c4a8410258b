//! What the package raises.
//!
//! | exception | when |
//! |---|---|
//! | `OSError` and its kinds | a file cannot be opened or read |
//! | `candor.Error` | all below |
//! | `candor.RecordingError` | a recording is of no known format, damaged, or has no such bus |
//! | `candor.UnknownFormatError` | a kind of it: a file is no recording, or one of no known format |
//! | `candor.DatabaseError` | a DBC file cannot be read, describes nothing of a recording, or has no such name |
//! | `candor.EncodeError` | a value cannot be put into a frame, or one is missing |
//! | `candor.RulesError` | rules cannot be read, or have no such bus |
//! | `candor.DatabaseWarning` | what a DBC file describes is left out or called otherwise |
//! | `candor.RecordingWarning` | a recording is cut, or malformed records were passed over |

use std::io;
use std::path::Path;

use candor_recording::RecordingError as Malformed;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::types::PyString;
use pyo3::{PyClass, PyTypeInfo};

create_exception!(candor, Error, PyException, "What the package raises, but for `OSError`.");
create_exception!(
    candor,
    RecordingError,
    Error,
    "A recording is of no known format or damaged, or has no such bus."
);
create_exception!(
    candor,
    UnknownFormatError,
    RecordingError,
    "A file is no recording, or one of no known format."
);
create_exception!(
    candor,
    DatabaseError,
    Error,
    "A DBC file cannot be read, describes nothing of a recording, or has no such name."
);
create_exception!(
    candor,
    EncodeError,
    Error,
    "A value cannot be put into a frame, or one is missing."
);
create_exception!(candor, RulesError, Error, "Rules cannot be read, or have no such bus.");
create_exception!(
    candor,
    DatabaseWarning,
    PyUserWarning,
    "What a DBC file describes is left out or called otherwise."
);
create_exception!(
    candor,
    RecordingWarning,
    PyUserWarning,
    "A recording is cut, or malformed records were passed over."
);

/// Warns of something.
pub(crate) fn warn<C: PyTypeInfo>(py: Python<'_>, text: &str) -> PyResult<()> {
    let warn = py.import("warnings")?.getattr("warn")?;
    warn.call1((PyString::new(py, text), py.get_type::<C>())).map(|_| ())
}

/// The `TypeError` of an object that is something else.
pub(crate) fn not_expected(what: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let kind = object.get_type().name().map_or_else(|_| String::new(), |it| it.to_string());
    PyTypeError::new_err(format!("expected {what}, not {kind}"))
}

/// The iterator, for one thread at a time.
pub(crate) fn exclusive<'py, T: PyClass<Frozen = False>>(
    iterator: &Bound<'py, T>,
) -> PyResult<PyRefMut<'py, T>> {
    iterator.try_borrow_mut().map_err(|_| {
        PyRuntimeError::new_err(
            "another thread reads from this iterator; give each thread one of its own",
        )
    })
}

/// The `OSError` of a file; Python makes `FileNotFoundError` and others of its number.
pub(crate) fn os_error(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.display().to_string()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// The exception of a recording: `OSError` if its file cannot be read.
pub(crate) fn of_recording(error: &Malformed) -> PyErr {
    match error.io_error() {
        Some(_) => PyOSError::new_err(error.to_string()),
        None if error.is_unknown() => UnknownFormatError::new_err(error.to_string()),
        None => RecordingError::new_err(error.to_string()),
    }
}
