//! The Python package `candor`: recordings, signals and columns.
//!
//! A file for each class; `python/candor/__init__.py` hands them on. Whatever reads a recording releases the lock of the interpreter, and
//! looks at signals every some milliseconds.

#![warn(missing_docs)]

mod bits;
mod database;
mod decode;
mod errors;
mod frame;
mod input;
mod open;
mod recording;
mod results;
mod rules;
mod table;

#[pyo3::pymodule]
mod _candor {
    #[pymodule_export]
    use crate::bits::{bus_load, frame_bits};
    #[pymodule_export]
    use crate::database::{Database, Message, Signal, parse_dbc};
    #[pymodule_export]
    use crate::decode::{Batches, batches, decode, frames, values};
    #[pymodule_export]
    use crate::errors::{
        DatabaseError, DatabaseWarning, EncodeError, Error, RecordingError, RecordingWarning,
        RulesError, UnknownFormatError,
    };
    #[pymodule_export]
    use crate::frame::Frame;
    #[pymodule_export]
    use crate::recording::{Recording, read};
    #[pymodule_export]
    use crate::results::{profiles, results};
    #[pymodule_export]
    use crate::rules::{Applied, Rules};
    #[pymodule_export]
    use crate::table::Table;
}
