//! `candor.Table`: columns that every library for data frames takes without a copy.

use std::collections::BTreeMap;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::Error;

/// Rows and columns in memory, in the layout of Apache Arrow.
///
/// It has `__arrow_c_stream__`, so pyarrow, Polars, DuckDB and pandas take it without a copy: `pyarrow.table(table)`,
/// `polars.DataFrame(table)`, `pandas.DataFrame.from_arrow(table)`.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Table {
    /// What the rows are: the name of a message, or `frames`.
    #[pyo3(get)]
    name: String,
    batch: RecordBatch,
}

impl From<candor_columns::Table> for Table {
    fn from(table: candor_columns::Table) -> Self {
        Self { name: table.name, batch: table.batch }
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What is known of the message: `message`, `id`, `sender`.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        self.batch.schema().metadata().clone().into_iter().collect()
    }

    /// The units of columns that have one.
    #[getter]
    fn units(&self) -> BTreeMap<String, String> {
        let schema = self.batch.schema();
        let units = schema.fields().iter().filter_map(|field| {
            let unit = field.metadata().get("unit")?;
            Some((field.name().clone(), unit.to_owned()))
        });
        units.collect()
    }

    /// How many values of a column are missing.
    fn null_count(&self, column: &str) -> PyResult<usize> {
        let array = self.batch.column_by_name(column);
        let array = array.ok_or_else(|| PyKeyError::new_err(column.to_owned()))?;
        Ok(array.null_count())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<candor.Table {}: {} rows of {names}>", self.name, self.batch.num_rows())
    }

    /// The schema as a capsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        let schema = schema.map_err(|error| Error::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The columns as a capsule of the Arrow C stream interface. They are given as they are, whatever schema is asked for.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
