//! `candor.read`: the frames of a recording, one after the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use candor_recording::{Record, Recording as Source};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::exclusive;
use crate::frame::Frame;
use crate::input::{Interrupts, Remarks};
use crate::open::Opened;

/// How many frames of a file are read before the first of them is given, so that the lock of the interpreter is not taken for each.
const BLOCK: usize = 256;

/// A recording that is being read: an iterator over its frames.
#[pyclass(module = "candor")]
pub(crate) struct Recording {
    /// `None` once it was closed. The lock is never waited for: it makes the source one that threads may share.
    source: Mutex<Option<Opened>>,
    /// Frames that were read and not given, and what came behind them.
    ready: VecDeque<Record>,
    behind: Option<PyErr>,
    is_over: bool,
    /// Whether what is to be said at the end was said.
    is_told: bool,
    /// The names of its interfaces so far.
    buses: Vec<Py<PyString>>,
    interrupts: Interrupts,
}

/// Reads the frames of a recording one after the other.
///
/// The format is found from the contents: candump, BLF, ASC, TRC, MF4, pcap, pcapng and others, also in gzip and zstd. Ethernet frames
/// are passed over. A record that is malformed raises `RecordingError`, or is passed over with `skip_malformed`; that, and a recording
/// that ends inside a record, is a `RecordingWarning` at the end.
#[pyfunction]
#[pyo3(signature = (path, *, skip_malformed=false))]
pub(crate) fn read(py: Python<'_>, path: PathBuf, skip_malformed: bool) -> PyResult<Recording> {
    let source = py.detach(|| Opened::new(&path, skip_malformed))?;
    Ok(Recording {
        source: Mutex::new(Some(source)),
        ready: VecDeque::new(),
        behind: None,
        is_over: false,
        is_told: false,
        buses: Vec::new(),
        interrupts: Interrupts::default(),
    })
}

impl Recording {
    fn source(&mut self) -> Option<&Source> {
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map(|source| &source.recording)
    }

    /// Reads the next block. Of a pipe it is one frame: the next one may not be there for long.
    fn fill(&mut self, py: Python<'_>) {
        let Self { source, ready, behind, is_over, interrupts, .. } = self;
        let source = source.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(source) = source.as_mut().filter(|_| !*is_over) else { return };
        if let Err(error) = source.check_process() {
            *behind = Some(error);
            return;
        }
        py.detach(|| {
            let most = if source.is_regular { BLOCK } else { 1 };
            while ready.len() < most && !*is_over {
                match interrupts.look().map(|()| source.next()) {
                    Ok(Some(Ok(record))) => ready.push_back(record),
                    Ok(None) => *is_over = true,
                    Ok(Some(Err(error))) if !source.is_paused => {
                        (*behind, *is_over) = (Some(error), true);
                    }
                    // It can go on.
                    Ok(Some(Err(error))) | Err(error) => {
                        *behind = Some(error);
                        break;
                    }
                }
            }
        });
    }

    /// Says once what is to be said of the whole.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        let mut remarks = Remarks::default();
        if let Some(source) = self.source() {
            remarks.add(source);
        }
        remarks.warn(py)
    }
}

#[pymethods]
impl Recording {
    /// The format, as `candor log convert --to` calls it.
    #[getter]
    fn format(&mut self) -> Option<&'static str> {
        self.source().map(|source| source.format().name)
    }

    /// How many malformed records were passed over in what was read.
    #[getter]
    fn skipped(&mut self) -> u64 {
        self.source().map_or(0, |source| source.skipped().count)
    }

    /// Where the file ends inside a record, or its compression is cut or has a wrong checksum, once that was found.
    #[getter]
    fn cut(&mut self) -> Option<String> {
        self.source().and_then(Source::cut).map(ToString::to_string)
    }

    /// Closes the file; the iteration is over.
    fn close(&mut self) {
        *self.source.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        self.ready.clear();
        self.behind = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Option<Frame>> {
        exclusive(slf)?.next(py)
    }
}

impl Recording {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        if self.ready.is_empty() && self.behind.is_none() {
            self.fill(py);
            let is_empty = self.ready.is_empty() && self.behind.is_none();
            if is_empty && self.is_over && !std::mem::replace(&mut self.is_told, true) {
                self.end(py)?;
            }
        }
        let Some(record) = self.ready.pop_front() else {
            return self.behind.take().map_or(Ok(None), Err);
        };
        let known = self.buses.len();
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner);
        let names = source.iter().flat_map(|source| source.recording.interfaces().iter());
        for (_, name) in names.skip(known) {
            self.buses.push(PyString::intern(py, name).unbind());
        }
        let bus = self.buses.get(usize::from(record.interface.0));
        let bus = bus.map_or_else(|| PyString::intern(py, "").unbind(), |bus| bus.clone_ref(py));
        Ok(Some(Frame::of(record, bus)))
    }
}
