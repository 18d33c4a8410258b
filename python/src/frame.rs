//! `candor.Frame`: a frame of a recording.

use std::hash::{DefaultHasher, Hash, Hasher};

use candor_recording::{Direction, Interfaces, Record};
use candor_wire::can::Kind;
use candor_wire::can::frame::{BRS, EFF_MASK, ESI};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

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
    /// That of a record of a recording, whose bus has this name.
    pub(crate) fn of(record: Record, bus: Py<PyString>) -> Self {
        let Record { time_ns, direction, frame, .. } = record;
        Self { time_ns, bus, direction, frame }
    }

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
