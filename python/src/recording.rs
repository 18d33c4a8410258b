//! `candor.read`: the frames of a recording, one after the other.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use candor_recording::{Direction, Interfaces, Record, Recording as Source};
use candor_wire::can::Kind;
use candor_wire::can::frame::{BRS, EFF_MASK, ESI};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::of_recording;
use crate::input::{self, Interrupts};

/// A frame of a recording.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Frame {
    /// When it was seen, in nanoseconds since the zero of the recorder, usually 1970.
    #[pyo3(get)]
    time_ns: u64,
    /// The name of the interface that it was seen on.
    #[pyo3(get)]
    bus: Py<PyString>,
    direction: Option<Direction>,
    frame: candor_wire::can::Frame,
}

impl Frame {
    pub(crate) fn bus<'a>(&'a self, py: Python<'a>) -> PyResult<&'a str> {
        self.bus.to_str(py)
    }

    pub(crate) fn time_ns(&self) -> u64 {
        self.time_ns
    }

    pub(crate) fn get(&self) -> &candor_wire::can::Frame {
        &self.frame
    }

    /// It as one of a recording with these interfaces.
    pub(crate) fn record(&self, py: Python<'_>, interfaces: &mut Interfaces) -> PyResult<Record> {
        let interface = interfaces.intern(self.bus(py)?.as_bytes());
        let interface = interface.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let Self { time_ns, direction, frame, .. } = *self;
        Ok(Record { time_ns, interface, direction, frame })
    }

    /// Another frame on another bus at the same time.
    pub(crate) fn copy(&self, bus: Py<PyString>, frame: candor_wire::can::Frame) -> Self {
        Self { time_ns: self.time_ns, bus, direction: None, frame }
    }
}

#[pymethods]
impl Frame {
    /// A frame as a candump log writes it, such as `123#DEADBEEF`, `123#R`, `18FEF100##1AABB`.
    #[new]
    #[pyo3(signature = (text, *, time_ns=0, bus="can0"))]
    fn new(py: Python<'_>, text: &str, time_ns: u64, bus: &str) -> PyResult<Self> {
        let frame = text.parse::<candor_wire::can::Frame>();
        let frame = frame.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { time_ns, bus: PyString::intern(py, bus).unbind(), direction: None, frame })
    }

    /// When it was seen, in seconds; `time_ns` is exact.
    #[getter]
    fn time(&self) -> f64 {
        self.time_ns as f64 / 1e9
    }

    /// The identifier, 11 or 29 bits; of an error report, its class.
    #[getter]
    fn id(&self) -> u32 {
        self.frame.can_id() & EFF_MASK
    }

    /// Whether the identifier has 29 bits.
    #[getter]
    fn is_extended(&self) -> bool {
        self.frame.is_extended()
    }

    /// Whether it is a remote frame, which has a length and no data.
    #[getter]
    fn is_remote(&self) -> bool {
        self.frame.kind() == Kind::Remote
    }

    /// Whether it is an error report of the driver.
    #[getter]
    fn is_error(&self) -> bool {
        self.frame.kind() == Kind::Error
    }

    /// Whether it is a CAN FD frame.
    #[getter]
    fn is_fd(&self) -> bool {
        self.frame.is_fd()
    }

    /// Whether the data of a CAN FD frame have the higher bit rate.
    #[getter]
    fn brs(&self) -> bool {
        self.frame.fd_flags() & BRS != 0
    }

    /// Whether the sender of a CAN FD frame was error passive.
    #[getter]
    fn esi(&self) -> bool {
        self.frame.fd_flags() & ESI != 0
    }

    /// The data length code on the wire, 0 to 15.
    #[getter]
    fn dlc(&self) -> u8 {
        self.frame.dlc()
    }

    /// The data, 0 to 64 bytes.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.frame.data())
    }

    /// `"received"`, `"transmitted"`, or `None` if the recording does not say.
    #[getter]
    fn direction(&self) -> Option<&'static str> {
        self.direction.map(Direction::name)
    }

    fn __len__(&self) -> usize {
        self.frame.data().len()
    }

    /// As in a candump log: time, bus, frame.
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { time_ns, bus, frame, .. } = self;
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        Ok(format!("({seconds}.{rest:09}) {} {frame}", bus.to_str(py)?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<candor.Frame {}>", self.__str__(py)?))
    }
}

/// A recording that is being read: an iterator over its frames.
#[pyclass(module = "candor")]
pub(crate) struct Recording {
    /// `None` once it was closed. The lock is never waited for: it makes the source one that threads may share.
    source: Mutex<Option<Source>>,
    /// The names of its interfaces so far.
    buses: Vec<Py<PyString>>,
    interrupts: Interrupts,
}

/// Reads the frames of a recording one after the other.
///
/// The format is found from the contents: candump, BLF, ASC, TRC, MF4, pcap, pcapng and others, also in gzip and zstd. Ethernet frames
/// are passed over. A record that is malformed raises `RecordingError`, or is passed over with `skip_malformed`.
#[pyfunction]
#[pyo3(signature = (path, *, skip_malformed=false))]
pub(crate) fn read(path: PathBuf, skip_malformed: bool) -> PyResult<Recording> {
    let source = Mutex::new(Some(input::open(&path, skip_malformed)?));
    Ok(Recording { source, buses: Vec::new(), interrupts: Interrupts::default() })
}

impl Recording {
    fn source(&mut self) -> &mut Option<Source> {
        self.source.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Recording {
    /// The format, as `candor log convert --to` calls it.
    #[getter]
    fn format(&mut self) -> Option<&'static str> {
        self.source().as_ref().map(|source| source.format().name)
    }

    /// How many malformed records were passed over so far.
    #[getter]
    fn skipped(&mut self) -> u64 {
        self.source().as_ref().map_or(0, |source| source.skipped().count)
    }

    /// Where the file ends inside a record, once that was found.
    #[getter]
    fn cut(&mut self) -> Option<String> {
        self.source().as_ref().and_then(Source::cut).map(ToString::to_string)
    }

    /// Closes the file; the iteration is over.
    fn close(&mut self) {
        *self.source() = None;
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        let Self { source, buses, interrupts } = self;
        interrupts.look()?;
        let source = source.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(source) = source else {
            return Ok(None);
        };
        let Some(record) = source.next() else {
            return Ok(None);
        };
        let record = record.map_err(|error| of_recording(&error))?;
        let known = buses.len();
        for (_, name) in source.interfaces().iter().skip(known) {
            buses.push(PyString::intern(py, name).unbind());
        }
        let bus = buses.get(usize::from(record.interface.0));
        let bus = bus.map_or_else(|| PyString::intern(py, "").unbind(), |bus| bus.clone_ref(py));
        let Record { time_ns, direction, frame, .. } = record;
        Ok(Some(Frame { time_ns, bus, direction, frame }))
    }
}
