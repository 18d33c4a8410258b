//! Recordings as they are given: one path or many, all buses or some.

use std::fs::File;
use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_recording::{Interfaces, Record, Recording, open_file};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{RecordingError, RecordingWarning, of_recording, os_error};

/// How many frames are read between two looks at signals, of which Ctrl-C is one: some milliseconds.
const FRAMES_PER_LOOK: u32 = 1 << 15;

/// What may be given alone or in a list.
pub(crate) trait Given: for<'py> FromPyObjectOwned<'py> {
    /// What it is called, with its article.
    const WHAT: &str;
}

impl Given for PathBuf {
    const WHAT: &str = "a path";
}

impl Given for String {
    const WHAT: &str = "a name";
}

/// One thing, or an iterable of them.
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<'py, T: Given> FromPyObject<'_, 'py> for OneOrMany<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(one) = object.extract::<T>() {
            return Ok(Self(vec![one]));
        }
        let wrong = |object: &Bound<'py, PyAny>| {
            let kind = object.get_type().name().map_or_else(|_| String::new(), |it| it.to_string());
            PyTypeError::new_err(format!("expected {} or a list of them, not {kind}", T::WHAT))
        };
        let items = object.try_iter().map_err(|_| wrong(&object))?;
        let items = items.map(|item| {
            let item = item?;
            item.extract::<T>().map_err(|_| wrong(&item))
        });
        Ok(Self(items.collect::<PyResult<_>>()?))
    }
}

/// Recordings that are read one after the other.
pub(crate) struct Input {
    pub(crate) paths: Vec<PathBuf>,
    /// The buses that are wanted; all if there are none.
    buses: Vec<String>,
    skips_malformed: bool,
}

/// What is to be said about recordings that were read.
#[derive(Default)]
pub(crate) struct Remarks(Vec<String>);

impl Remarks {
    /// Warns of each.
    pub(crate) fn warn(self, py: Python<'_>) -> PyResult<()> {
        let category = py.get_type::<RecordingWarning>();
        for remark in self.0 {
            let warn = py.import("warnings")?.getattr("warn")?;
            warn.call1((PyString::new(py, &remark), &category))?;
        }
        Ok(())
    }

    fn add(&mut self, recording: &Recording) {
        if let Some(cut) = recording.cut() {
            self.0.push(cut.to_string());
        }
        let skipped = recording.skipped();
        if let Some(first) = &skipped.first {
            let count = counted(skipped.count, "malformed record");
            self.0.push(format!("{count} passed over; the first: {first}"));
        }
    }
}

/// Opens the recording in a file.
pub(crate) fn open(path: &Path, skips_malformed: bool) -> PyResult<Recording> {
    let file = File::open(path).map_err(|error| os_error(path, &error))?;
    let recording = open_file(path, Ok(file), None).map_err(|error| match error.io_error() {
        Some(error) => os_error(path, error),
        None => of_recording(&error),
    })?;
    Ok(recording.skip_malformed(skips_malformed))
}

impl Input {
    /// Of what Python gives.
    pub(crate) fn new(
        paths: OneOrMany<PathBuf>,
        bus: Option<OneOrMany<String>>,
        skips_malformed: bool,
    ) -> PyResult<Self> {
        if paths.0.is_empty() {
            return Err(PyValueError::new_err("no recording is given; give a path or more"));
        }
        let buses = bus.map(|buses| buses.0).unwrap_or_default();
        Ok(Self { paths: paths.0, buses, skips_malformed })
    }

    /// Hands each frame of the wanted buses to `take`, without the lock of the interpreter.
    pub(crate) fn read(
        &self,
        py: Python<'_>,
        mut take: impl FnMut(&Record, &Interfaces) -> PyResult<()> + Send,
    ) -> PyResult<Remarks> {
        py.detach(|| {
            let mut remarks = Remarks::default();
            let mut found = vec![false; self.buses.len()];
            let mut others = Vec::new();
            for path in &self.paths {
                let mut recording = open(path, self.skips_malformed)?;
                // By interface: whether it is wanted.
                let mut wanted = Vec::new();
                let mut left = FRAMES_PER_LOOK;
                while let Some(record) = recording.next() {
                    left -= 1;
                    if left == 0 {
                        left = FRAMES_PER_LOOK;
                        Python::attach(|py| py.check_signals())?;
                    }
                    let record = record.map_err(|error| of_recording(&error))?;
                    let interfaces = recording.interfaces();
                    while wanted.len() < interfaces.len() {
                        let index = candor_recording::InterfaceIndex(wanted.len() as u16);
                        wanted.push(self.wants(interfaces.name(index), &mut found, &mut others));
                    }
                    if wanted.get(usize::from(record.interface.0)) == Some(&true) {
                        take(&record, interfaces)?;
                    }
                }
                remarks.add(&recording);
            }
            match self.buses.iter().zip(found).find(|(_, is_found)| !is_found) {
                Some((bus, _)) => Err(no_bus(bus, &others)),
                None => Ok(remarks),
            }
        })
    }

    fn wants(&self, bus: &str, found: &mut [bool], others: &mut Vec<String>) -> bool {
        if self.buses.is_empty() {
            return true;
        }
        let place = self.buses.iter().position(|wanted| wanted == bus);
        if let Some(is_found) = place.and_then(|place| found.get_mut(place)) {
            *is_found = true;
        } else if !others.iter().any(|other| other == bus) {
            others.push(bus.to_owned());
        }
        place.is_some()
    }
}

fn no_bus(bus: &str, others: &[String]) -> PyErr {
    let others = match others.len() {
        0 => String::new(),
        _ => format!("; others are {}", others.join(", ")),
    };
    RecordingError::new_err(format!("no frame is on a bus `{bus}`{others}"))
}
