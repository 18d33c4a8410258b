//! `candor.read`: the frames of a recording, one after the other.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use candor_recording::{Direction, Interfaces, Record, Recording as Source};
use candor_wire::can::Kind;
use candor_wire::can::frame::{BRS, EFF_MASK, ESI};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::input::{Interrupts, Remarks};
use crate::open::Opened;

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
    #[pyo3(signature = (text, *, time_ns=0, bus="can0", direction=None))]
    fn new(
        py: Python<'_>,
        text: &str,
        time_ns: u64,
        bus: &str,
        direction: Option<&str>,
    ) -> PyResult<Self> {
        if bus.is_empty() {
            return Err(PyValueError::new_err("a bus has a name, such as \"can0\""));
        }
        let known = |name: &&str| Direction::ALL.into_iter().find(|it| it.name() == *name);
        let unknown =
            || PyValueError::new_err("a direction is \"received\", \"transmitted\" or None");
        let direction = direction.map(|name| known(&name).ok_or_else(unknown)).transpose()?;
        let frame = text.parse::<candor_wire::can::Frame>();
        let frame = frame.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { time_ns, bus: PyString::intern(py, bus).unbind(), direction, frame })
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

    /// Equal are frames at the same time, on the same bus, in the same direction.
    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let is_equal = (self.time_ns, self.direction, self.frame)
            == (other.time_ns, other.direction, other.frame);
        Ok(is_equal && self.bus(py)? == other.bus(py)?)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.time_ns, self.frame.can_id(), self.frame.data()).hash(&mut hasher);
        hasher.finish()
    }

    /// Pickled, it is what it is made of.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((String,), Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("time_ns", self.time_ns)?;
        named.set_item("bus", &self.bus)?;
        named.set_item("direction", self.direction())?;
        Ok(((self.frame.to_string(),), named))
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
        py.detach(|| {
            let most = if source.is_regular { BLOCK } else { 1 };
            while ready.len() < most && !*is_over {
                match interrupts.look().map(|()| source.next()) {
                    Ok(Some(Ok(record))) => ready.push_back(record),
                    Ok(None) => *is_over = true,
                    Ok(Some(Err(error))) => (*behind, *is_over) = (Some(error), true),
                    // It can go on.
                    Err(error) => {
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

    /// Where the file ends inside a record, once that was found.
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

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        if self.ready.is_empty() && self.behind.is_none() {
            self.fill(py);
            let is_empty = self.ready.is_empty() && self.behind.is_none();
            if is_empty && self.is_over && !std::mem::replace(&mut self.is_told, true) {
                self.end(py)?;
            }
        }
        let Some(Record { time_ns, interface, direction, frame }) = self.ready.pop_front() else {
            return self.behind.take().map_or(Ok(None), Err);
        };
        let known = self.buses.len();
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner);
        let names = source.iter().flat_map(|source| source.recording.interfaces().iter());
        for (_, name) in names.skip(known) {
            self.buses.push(PyString::intern(py, name).unbind());
        }
        let bus = self.buses.get(usize::from(interface.0));
        let bus = bus.map_or_else(|| PyString::intern(py, "").unbind(), |bus| bus.clone_ref(py));
        Ok(Some(Frame { time_ns, bus, direction, frame }))
    }
}
