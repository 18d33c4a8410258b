//! `candor.frames` and `candor.decode`: recordings as columns.

use std::sync::{Arc, Mutex, PoisonError};

use candor_columns::{AddError, FrameColumns, LongColumns, Missing, SignalColumns};
use candor_recording::Record;
use candor_signals::{Database, Fit, Wanted};
use candor_wire::can::Kind;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::database::DatabaseOrPath;
use crate::errors::{DatabaseError, Error, RecordingError, exclusive};
use crate::input::{Names, Next, Reader, Source};
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
    let mut reader = Reader::new(paths, bus, skip_malformed)?;
    let mut columns = FrameColumns::default();
    reader.read(py, |record, interfaces| {
        columns.add(record, interfaces).map_err(unfit)?;
        Ok(Next::Now)
    })?;
    let table = columns.finish().map_err(broken)?;
    Ok(table.into())
}

fn unfit(error: AddError) -> PyErr {
    match error {
        AddError::Memory => PyMemoryError::new_err(error.to_string()),
        AddError::Time(_) | AddError::Bus(_) => RecordingError::new_err(error.to_string()),
    }
}

fn broken(error: candor_columns::ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}

/// The signals in recordings as columns: a table for each message that comes.
///
/// `paths` are recordings, or an iterable of `Frame`. `dbc` is a path or a `Database`. `signals` are names or patterns (`Message.Signal`, `Signal`,
/// `Motor.*`, `*Temp*`): only they are decoded, and their messages have a table also if no frame came. `bus` keeps the frames of one or some
/// buses.
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
    let mut decoder = Decoder::new(paths, dbc, signals, bus, nan, skip_malformed)?;
    decoder.read(py, usize::MAX)?;
    decoder.tables(py, 0)
}

/// The signals in recordings in the long form: one table with a row for each value, in the order of the frames.
///
/// The arguments are those of `decode`. The columns are `time` (UTC, nanoseconds), `bus`, `message`, `signal`, and the physical `value`. What a
/// frame does not have has no row.
#[pyfunction]
#[pyo3(signature = (paths, dbc, *, signals=None, bus=None, skip_malformed=false))]
pub(crate) fn values(
    py: Python<'_>,
    paths: Source,
    dbc: DatabaseOrPath,
    signals: Option<Names>,
    bus: Option<Names>,
    skip_malformed: bool,
) -> PyResult<Table> {
    let database = dbc.0.signals;
    let mut reader = Reader::new(paths, bus, skip_malformed)?;
    let mut columns = LongColumns::new(Arc::clone(&database), &wanted(&database, signals)?);
    let mut seen = Seen::default();
    reader.read(py, |record, interfaces| {
        seen.see(&database, record);
        columns.add(record, interfaces).map_err(unfit)?;
        Ok(Next::Now)
    })?;
    seen.fits(&database, &reader)?;
    let batch = columns.take_rest().map_err(broken)?;
    Ok(candor_columns::Table { name: "values".to_owned(), batch }.into())
}

/// The signals that are asked for.
fn wanted(database: &Database, signals: Option<Names>) -> PyResult<Wanted> {
    let Some(patterns) = signals else { return Ok(Wanted::all(database)) };
    Wanted::new(database, &patterns.0).map_err(|error| DatabaseError::new_err(error.to_string()))
}

/// Whether the database describes what came.
#[derive(Default)]
struct Seen {
    fit: Fit,
    frames: u64,
}

impl Seen {
    fn see(&mut self, database: &Database, record: &Record) {
        let frame = &record.frame;
        if !matches!(frame.kind(), Kind::Error) {
            self.frames += 1;
            if !self.fit.is_any() {
                self.fit.see(frame.id(), database.position_of(frame).is_some());
            }
        }
    }

    /// That it describes a frame, if there was one.
    fn fits(&self, database: &Database, reader: &Reader) -> PyResult<()> {
        if self.fit.is_none() {
            let text = self.fit.words(database, self.frames, &reader.name());
            return Err(DatabaseError::new_err(text));
        }
        Ok(())
    }
}

/// The same as `decode`, piece by piece: an iterator over dictionaries of tables, each of at most so many `rows` in all of its tables. Memory does
/// not grow with the recordings. Messages of which no frame is in a piece have no table there.
#[pyfunction]
#[pyo3(signature = (paths, dbc, *, rows=1_000_000, signals=None, bus=None, nan=false, skip_malformed=false))]
pub(crate) fn batches(
    paths: Source,
    dbc: DatabaseOrPath,
    rows: usize,
    signals: Option<Names>,
    bus: Option<Names>,
    nan: bool,
    skip_malformed: bool,
) -> PyResult<Batches> {
    if rows == 0 {
        return Err(PyValueError::new_err("a batch has at least 1 row"));
    }
    let decoder = Decoder::new(paths, dbc, signals, bus, nan, skip_malformed)?;
    Ok(Batches { decoder: Mutex::new(Some(decoder)), rows })
}

/// An iterator over pieces of decoded recordings: dictionaries of tables.
#[pyclass(module = "candor")]
pub(crate) struct Batches {
    /// `None` at the end, and after an error that is no pause. The lock is never waited for: it makes the decoder one that threads may share.
    decoder: Mutex<Option<Decoder>>,
    rows: usize,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        exclusive(slf)?.next(py)
    }
}

impl Batches {
    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let place = self.decoder.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(mut decoder) = place.take() else {
            return Ok(None);
        };
        let next = match decoder.read(py, self.rows) {
            Ok(next) => next,
            Err(error) => {
                if decoder.reader.is_paused {
                    *place = Some(decoder);
                }
                return Err(error);
            }
        };
        let has_rows = decoder.columns.rows() > 0;
        let tables = decoder.tables(py, 1)?;
        if next == Next::Later {
            *place = Some(decoder);
        }
        Ok((has_rows || next == Next::Later).then_some(tables))
    }
}

/// Reads frames into columns of their signals.
struct Decoder {
    reader: Reader,
    columns: SignalColumns,
    seen: Seen,
}

impl Decoder {
    fn new(
        source: Source,
        database: DatabaseOrPath,
        signals: Option<Names>,
        bus: Option<Names>,
        nan: bool,
        skips_malformed: bool,
    ) -> PyResult<Self> {
        let database = database.0.signals;
        let reader = Reader::new(source, bus, skips_malformed)?;
        let wanted = wanted(&database, signals)?;
        let missing = if nan { Missing::Nan } else { Missing::Null };
        let columns = SignalColumns::new(database, &wanted, missing);
        Ok(Self { reader, columns, seen: Seen::default() })
    }

    /// Reads until there are so many rows.
    fn read(&mut self, py: Python<'_>, rows: usize) -> PyResult<Next> {
        let Self { reader, columns, seen } = self;
        let next = reader.read(py, |record, interfaces| {
            seen.see(columns.database(), record);
            columns.add(record, interfaces).map_err(unfit)?;
            Ok(if columns.rows() < rows { Next::Now } else { Next::Later })
        })?;
        if next == Next::Over {
            seen.fits(columns.database(), reader)?;
        }
        Ok(next)
    }

    /// The tables of what was read since the last ones, of at least so many rows.
    fn tables<'py>(&mut self, py: Python<'py>, least: usize) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let tables = self.columns.take().map_err(broken)?;
        for table in tables.into_iter().filter(|table| table.batch.num_rows() >= least) {
            found.set_item(table.name.clone(), Table::from(table).into_pyobject(py)?)?;
        }
        Ok(found)
    }
}
