//! `candor.frames` and `candor.decode`: recordings as columns.

use std::sync::Arc;

use candor_columns::{FrameColumns, Missing, SignalColumns};
use candor_diagnostics::counted;
use candor_signals::{Fit, Wanted};
use candor_wire::can::Kind;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::database::DatabaseOrPath;
use crate::errors::{DatabaseError, Error, RecordingError};
use crate::input::{Input, Names, Source};
use crate::table::Table;

/// The frames of recordings as columns, in the order of the files; `paths` may also be an iterable of `Frame`.
///
/// The columns are `time` (UTC, nanoseconds), `bus`, `id`, `is_extended`, `kind` (`data`, `remote`, `fd`, `error`), `dlc`, `brs`, `esi`,
/// `direction` (`received`, `transmitted`, or missing) and `data`. `bus` keeps those of one or some buses.
#[pyfunction]
#[pyo3(signature = (paths, *, bus=None, skip_malformed=false))]
pub(crate) fn frames(
    py: Python<'_>,
    paths: Source,
    bus: Option<Names>,
    skip_malformed: bool,
) -> PyResult<Table> {
    let input = Input::new(paths, bus, skip_malformed)?;
    let mut columns = FrameColumns::default();
    let remarks = input.read(py, |record, interfaces| {
        columns.add(record, interfaces).map_err(|error| RecordingError::new_err(error.to_string()))
    })?;
    remarks.warn(py)?;
    let table = columns.finish().map_err(|error| Error::new_err(error.to_string()))?;
    Ok(table.into())
}

/// The signals in recordings as columns: a table for each message that comes.
///
/// `paths` are recordings, or an iterable of `Frame`. `dbc` is a path or a `Database`. `signals` are names or patterns (`Message.Signal`, `Signal`, `Motor.*`, `*Temp*`): only they are decoded,
/// and their messages have a table also if no frame came. `bus` keeps the frames of one or some buses.
///
/// A table has a row for each frame, in the order of the files: `time` (UTC, nanoseconds), `bus`, and a column of physical values for each
/// signal, with its unit. What a frame does not have, because it is multiplexed or too short, is missing: a null, or with `nan` not a number,
/// so that NumPy takes the column without a copy.
#[pyfunction]
#[pyo3(signature = (paths, dbc, *, signals=None, bus=None, nan=false, skip_malformed=false))]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    paths: Source,
    dbc: DatabaseOrPath,
    signals: Option<Names>,
    bus: Option<Names>,
    nan: bool,
    skip_malformed: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let DatabaseOrPath(database) = dbc;
    let input = Input::new(paths, bus, skip_malformed)?;
    let wanted = match signals {
        None => Wanted::all(&database),
        Some(patterns) => Wanted::new(&database, &patterns.0)
            .map_err(|error| DatabaseError::new_err(error.to_string()))?,
    };
    let missing = if nan { Missing::Nan } else { Missing::Null };
    let mut columns = SignalColumns::new(Arc::clone(&database), &wanted, missing);
    let mut fit = Fit::default();
    let remarks = input.read(py, |record, interfaces| {
        let frame = &record.frame;
        if !fit.is_any() && frame.kind() != Kind::Error {
            fit.see(frame.id(), database.position_of(frame).is_some());
        }
        columns.add(record, interfaces).map_err(|error| RecordingError::new_err(error.to_string()))
    })?;
    remarks.warn(py)?;
    if fit.is_none() {
        let place = match &input.source {
            Source::Paths(paths) => match &paths[..] {
                [one] => one.display().to_string(),
                many => counted(many.len() as u64, "recording"),
            },
            Source::Frames(_) => "the iterator".to_owned(),
        };
        return Err(DatabaseError::new_err(fit.words(&database, columns.frames(), &place)));
    }
    let tables = columns.finish().map_err(|error| Error::new_err(error.to_string()))?;
    let found = PyDict::new(py);
    for table in tables {
        found.set_item(table.name.clone(), Table::from(table).into_pyobject(py)?)?;
    }
    Ok(found)
}
