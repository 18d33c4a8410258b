//! `candor.Database`, `candor.Message`, `candor.Signal`: a DBC file.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_diagnostics::Findings;
use candor_signals::{self as signals, Decoded, MAX_BYTES, Value, ValueType};
use candor_wire::can::Id;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyMapping, PyMemoryView, PyTuple};

use crate::errors::{DatabaseError, DatabaseWarning, EncodeError, not_expected, warn};
use crate::open;

/// A DBC file: what the bits of frames mean.
#[pyclass(frozen, module = "candor")]
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) signals: Arc<signals::Database>,
    /// The file, which another process makes it of.
    text: Arc<[u8]>,
}

impl Database {
    /// The database, and what the file loses.
    fn parse(name: &str, text: &[u8]) -> PyResult<(Self, String)> {
        let findings = Findings::new();
        let database = signals::Database::parse(name, text, &findings);
        let signals = database.ok_or_else(|| DatabaseError::new_err(findings.to_string()))?;
        Ok((Self { signals: Arc::new(signals), text: text.into() }, findings.to_string()))
    }

    /// Warns once of all that the file loses.
    fn told(py: Python<'_>, (database, losses): (Self, String)) -> PyResult<Self> {
        match losses.trim_end() {
            "" => {}
            losses => warn::<DatabaseWarning>(py, losses)?,
        }
        Ok(database)
    }

    fn load(path: &Path) -> PyResult<(Self, String)> {
        // One more tells that it is too large.
        let text = open::read(path, MAX_BYTES as u64 + 1)?;
        Self::parse(&path.display().to_string(), &text)
    }
}

/// A database of Candor or of cantools, or the path of a DBC file.
pub(crate) struct DatabaseOrPath(pub(crate) Database);

impl<'py> FromPyObject<'_, 'py> for DatabaseOrPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(database) = object.cast::<Database>() {
            return Ok(Self(database.get().clone()));
        }
        if let Ok(path) = object.extract::<PathBuf>() {
            let loaded = object.py().detach(|| Database::load(&path))?;
            return Database::told(object.py(), loaded).map(Self);
        }
        // What cantools read from ARXML, KCD or SYM, by the DBC file that it makes of it.
        if object.hasattr("as_dbc_string")? {
            let text: String = object.call_method0("as_dbc_string")?.extract()?;
            let parsed = Database::parse("cantools", text.as_bytes())?;
            return Database::told(object.py(), parsed).map(Self);
        }
        let kind = object.get_type().name()?;
        let text = format!("expected a `candor.Database` or the path of a DBC file, not {kind}");
        Err(PyTypeError::new_err(text))
    }
}

/// The database of the text of a DBC file, which errors call `name`. With `warns`, what the file loses is a `DatabaseWarning`.
#[pyfunction]
#[pyo3(signature = (name, text, warns=true))]
pub(crate) fn parse_dbc(
    py: Python<'_>,
    name: &str,
    text: &[u8],
    warns: bool,
) -> PyResult<Database> {
    let (database, losses) = Database::parse(name, text)?;
    if warns { Database::told(py, (database, losses)) } else { Ok(database) }
}

/// A word or a number: the name of a message or the identifier of its frames; the name of a value or a value.
pub(crate) enum WordOr<T> {
    Word(String),
    Number(T),
}

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for WordOr<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<String>() {
            Ok(word) => Ok(Self::Word(word)),
            Err(_) => Ok(Self::Number(object.extract::<T>().map_err(Into::into)?)),
        }
    }
}

type NameOrId = WordOr<Identifier>;

/// The identifier of a message.
struct Identifier(u32);

impl<'py> FromPyObject<'_, 'py> for Identifier {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !object.is_instance_of::<PyInt>() {
            return Err(not_expected("the name of a message or its identifier", &object));
        }
        object.extract().map(Self).map_err(|_| {
            let text = format!("{} is no identifier; give one of 0 to 0x1FFFFFFF", &*object);
            PyValueError::new_err(text)
        })
    }
}

/// Bytes, or what has such, as `bytearray` and `memoryview`.
pub(crate) struct Data(Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.as_bytes().to_vec()));
        }
        // The buffer interface itself is in the stable one since Python 3.11 only.
        let view = PyMemoryView::from(&object).map_err(|_| not_expected("bytes", &object))?;
        // Of bytes, and not of larger numbers.
        let format: String = view.getattr("format")?.extract()?;
        if !matches!(format.as_str(), "B" | "c") {
            return Err(not_expected("bytes", &object));
        }
        let bytes = view.call_method0("tobytes")?;
        Ok(Self(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
    }
}

/// A number of Python.
enum Number {
    Whole(i128),
    Float(f64),
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !object.is_instance_of::<PyInt>() {
            let wrong = |_| not_expected("a number, or the name of a value", &object);
            return object.extract().map(Self::Float).map_err(wrong);
        }
        if let Ok(number) = object.extract() {
            return Ok(Self::Whole(number));
        }
        object.extract().map(Self::Float).map_err(|_| {
            EncodeError::new_err(
                "a whole number of more than 1024 bits fits into no signal; give a smaller one",
            )
        })
    }
}

impl Number {
    /// The nearest raw value, exactly where the number is whole.
    fn value_of(self, signal: &signals::Signal) -> Value {
        match self {
            Self::Float(physical) => Value::Physical(physical),
            Self::Whole(number) => {
                signal.raw_of_whole(number).map_or(Value::Physical(number as f64), Value::Raw)
            }
        }
    }
}

#[pymethods]
impl Database {
    /// Reads a DBC file, or takes over a database of cantools, such as one that it read from ARXML, KCD or SYM. What it loses is a
    /// `DatabaseWarning`.
    #[new]
    fn new(source: DatabaseOrPath) -> Self {
        source.0
    }

    /// What the file is called.
    #[getter]
    fn name(&self) -> &str {
        self.signals.name()
    }

    /// The DBC file; of a database of cantools, the one that cantools makes of it.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.text)
    }

    /// The messages, as written.
    #[getter]
    fn messages(&self) -> Vec<Message> {
        (0..self.signals.messages().len()).map(|index| self.at(index)).collect()
    }

    /// The message of this name, or the one whose frames have this identifier. One of 11 bits is looked for before one of 29 bits;
    /// `is_extended` says which is meant. Of SAE J1939, the group number decides.
    #[pyo3(signature = (name_or_id, *, is_extended=None))]
    fn message(&self, name_or_id: NameOrId, is_extended: Option<bool>) -> PyResult<Message> {
        let found = match name_or_id {
            WordOr::Word(name) => self
                .signals
                .message_named(&name)
                .map_err(|error| DatabaseError::new_err(error.to_string()))?,
            WordOr::Number(Identifier(number)) => {
                let short = u16::try_from(number).ok().and_then(candor_wire::can::StandardId::new);
                let short = short.filter(|_| is_extended != Some(true)).map(Id::Standard);
                let long = candor_wire::can::ExtendedId::new(number);
                let long = long.filter(|_| is_extended != Some(false)).map(Id::Extended);
                let mut ids = short.into_iter().chain(long);
                ids.find_map(|id| self.signals.message_with(id)).ok_or_else(|| {
                    let text =
                        format!("no message of {} has the identifier {number:#X}", self.name());
                    DatabaseError::new_err(text)
                })?
            }
        };
        let index = self.signals.messages().iter().position(|message| std::ptr::eq(message, found));
        Ok(self.at(index.unwrap_or_default()))
    }

    /// The values of the signals in the data of a frame of this message, by name; see `Message.decode`.
    #[pyo3(signature = (name_or_id, data, *, decode_choices=true))]
    fn decode_message<'py>(
        &self,
        py: Python<'py>,
        name_or_id: NameOrId,
        data: Data,
        decode_choices: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.message(name_or_id, None)?.decode(py, data, decode_choices)
    }

    /// The data of a frame of this message with these values; see `Message.encode`.
    #[pyo3(signature = (name_or_id, values, *, strict=true))]
    fn encode_message<'py>(
        &self,
        py: Python<'py>,
        name_or_id: NameOrId,
        values: &Bound<'py, PyMapping>,
        strict: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.message(name_or_id, None)?.encode(py, values, strict)
    }

    /// Pickled, it is the text of its file, of which was told what it loses.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let parse = py.import("candor")?.getattr("parse_dbc")?;
        Ok((parse, (self.name(), self.text(py), false).into_pyobject(py)?))
    }

    fn __len__(&self) -> usize {
        self.signals.messages().len()
    }

    fn __repr__(&self) -> String {
        format!("<candor.Database {}: {} messages>", self.name(), self.signals.messages().len())
    }
}

impl Database {
    fn at(&self, index: usize) -> Message {
        Message { signals: Arc::clone(&self.signals), index }
    }
}

/// The layout of the frames with one identifier.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Message {
    signals: Arc<signals::Database>,
    index: usize,
}

impl Message {
    fn get(&self) -> PyResult<&signals::Message> {
        let message = self.signals.messages().get(self.index);
        message.ok_or_else(|| PyKeyError::new_err(self.index))
    }
}

#[pymethods]
impl Message {
    /// Its name.
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(&self.get()?.name)
    }

    /// The identifier of its frames, 11 or 29 bits.
    #[getter]
    fn id(&self) -> PyResult<u32> {
        Ok(match self.get()?.id {
            Id::Standard(id) => id.as_raw().into(),
            Id::Extended(id) => id.as_raw(),
        })
    }

    /// Whether the identifier has 29 bits.
    #[getter]
    fn is_extended(&self) -> PyResult<bool> {
        Ok(matches!(self.get()?.id, Id::Extended(_)))
    }

    /// Whether its frames are CAN FD ones.
    #[getter]
    fn is_fd(&self) -> PyResult<bool> {
        Ok(self.get()?.is_fd)
    }

    /// How many bytes its frames have.
    #[getter]
    fn length(&self) -> PyResult<usize> {
        Ok(self.get()?.length)
    }

    /// The node that sends it.
    #[getter]
    fn sender(&self) -> PyResult<Option<&str>> {
        Ok(self.get()?.sender.as_deref())
    }

    /// How often it is sent, in milliseconds, if it is sent again and again.
    #[getter]
    fn cycle_time_ms(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.cycle_time.map(|time| time.as_nanos() as f64 / 1e6))
    }

    /// Its signals, as written.
    #[getter]
    fn signals(&self) -> PyResult<Vec<Signal>> {
        let signals = self.get()?.signals.iter().enumerate();
        Ok(signals.map(|(index, _)| self.signal(index)).collect())
    }

    /// The values of the signals in the data of a frame, by name: whole numbers where scale and offset are, else floating-point numbers, and
    /// with `decode_choices` the name of a value that has one. Signals that are not selected, or behind the end of the data, are left out.
    #[pyo3(signature = (data, *, decode_choices=true))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: Data,
        decode_choices: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for decoded in self.get()?.decode_data(&data.0) {
            let name = &decoded.signal.name;
            match (decoded.value_name().filter(|_| decode_choices), whole(&decoded)) {
                (Some(choice), _) => values.set_item(name, choice)?,
                (None, Some(number)) => values.set_item(name, number)?,
                (None, None) => values.set_item(name, decoded.physical)?,
            }
        }
        Ok(values)
    }

    /// The data of a frame with these values by name, each a number or the name of one. A number is rounded to the nearest raw value.
    ///
    /// Raises `EncodeError` for a signal that the message does not have or that its selector does not select, and for a value that its bits
    /// do not hold; with `strict` also for a value outside of the range in the file, and for a signal that is missing. Without, a signal
    /// that is missing has the raw value 0.
    #[pyo3(signature = (values, *, strict=true))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyMapping>,
        strict: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let fail = |text: String| EncodeError::new_err(text);
        let message = self.get()?;
        let mut given = HashMap::new();
        // A list, since what is asked for its value might change the dictionary.
        for item in values.items()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let name = name
                .extract::<String>()
                .map_err(|_| not_expected("the name of a signal", &name))?;
            let value: WordOr<Number> = value.extract()?;
            let signal = message.signal_named(&name).map_err(|error| fail(error.to_string()))?;
            let value = match value {
                WordOr::Number(number) => number.value_of(signal),
                WordOr::Word(word) => {
                    let raw = signal.value_named(&word).map_err(|error| fail(error.to_string()))?;
                    Value::Raw(raw)
                }
            };
            let number = match value {
                Value::Physical(physical) => physical,
                Value::Raw(raw) => signal.physical(raw),
            };
            if let Some(limits) =
                signal.limits.as_ref().filter(|it| strict && !it.contains(&number))
            {
                // What its bits do not hold is an error of its own.
                let mut data = [0; 64];
                signal.write(&mut data, value).map_err(|error| fail(error.to_string()))?;
                let (least, most) = (limits.start(), limits.end());
                let text = format!(
                    "`{name}` is {number}, but must be {least} to {most} (strict=False allows it)"
                );
                return Err(fail(text));
            }
            given.insert(name, value);
        }
        let values = given.iter().map(|(name, &value)| (name.as_str(), value));
        let frame = message.encode(values).map_err(|error| fail(error.to_string()))?;
        let is_missing = |signal: &&signals::Signal| {
            !given.contains_key(&signal.name) && message.is_selected(signal, frame.data())
        };
        if let Some(signal) = message.signals.iter().find(is_missing).filter(|_| strict) {
            let text = format!("`{}` has no value (strict=False makes it 0)", signal.name);
            return Err(fail(text));
        }
        Ok(PyBytes::new(py, frame.data()))
    }

    fn __repr__(&self) -> PyResult<String> {
        let message = self.get()?;
        Ok(format!("<candor.Message {}: {} signals>", message.name, message.signals.len()))
    }
}

impl Message {
    fn signal(&self, index: usize) -> Signal {
        let message = Self { signals: Arc::clone(&self.signals), index: self.index };
        Signal { message, index }
    }
}

/// Scale and offset of a signal that has only whole numbers.
fn whole_scaling(signal: &signals::Signal) -> Option<(i128, i128)> {
    let (scale, offset) = (signal.scaling.scale(), signal.scaling.offset());
    let is_whole = |number: f64| number.fract() == 0.0 && number.abs() < 2_f64.powi(63);
    let has_only_whole =
        signal.value_type == ValueType::Integer && is_whole(scale) && is_whole(offset);
    has_only_whole.then_some((scale as i128, offset as i128))
}

/// The value as a whole number, if the signal has only such.
fn whole(decoded: &Decoded<'_>) -> Option<i128> {
    let (scale, offset) = whole_scaling(decoded.signal)?;
    decoded.raw.checked_mul(scale)?.checked_add(offset)
}

/// A number in the frames of a message.
#[pyclass(frozen, module = "candor")]
pub(crate) struct Signal {
    message: Message,
    index: usize,
}

impl Signal {
    fn get(&self) -> PyResult<&signals::Signal> {
        let signal = self.message.get()?.signals.get(self.index);
        signal.ok_or_else(|| PyKeyError::new_err(self.index))
    }
}

#[pymethods]
impl Signal {
    /// Its name.
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(&self.get()?.name)
    }

    /// The unit of its values; empty if it has none.
    #[getter]
    fn unit(&self) -> PyResult<&str> {
        Ok(&self.get()?.unit)
    }

    /// What one step of the raw value is worth.
    #[getter]
    fn scale(&self) -> PyResult<f64> {
        Ok(self.get()?.scaling.scale())
    }

    /// The value of the raw value 0.
    #[getter]
    fn offset(&self) -> PyResult<f64> {
        Ok(self.get()?.scaling.offset())
    }

    /// The least value, if the file has a range.
    #[getter]
    fn minimum(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.limits.as_ref().map(|limits| *limits.start()))
    }

    /// The greatest value, if the file has a range.
    #[getter]
    fn maximum(&self) -> PyResult<Option<f64>> {
        Ok(self.get()?.limits.as_ref().map(|limits| *limits.end()))
    }

    /// How many bits it has.
    #[getter]
    fn bits(&self) -> PyResult<u32> {
        Ok(self.get()?.field.bits().into())
    }

    /// Whether the raw value may be negative.
    #[getter]
    fn is_signed(&self) -> PyResult<bool> {
        Ok(self.get()?.field.is_signed())
    }

    /// Whether it decides which other signals a frame has.
    #[getter]
    fn is_selector(&self) -> PyResult<bool> {
        Ok(self.get()?.is_selector)
    }

    /// The names of values, by the raw value, from the smallest.
    #[getter]
    fn choices(&self) -> PyResult<BTreeMap<i128, String>> {
        let names = self.get()?.value_names.iter();
        Ok(names.map(|(raw, name)| (raw, name.to_owned())).collect())
    }

    fn __repr__(&self) -> PyResult<String> {
        let signal = self.get()?;
        let unit = if signal.unit.is_empty() { "no unit" } else { &signal.unit };
        Ok(format!("<candor.Signal {}.{}: {unit}>", self.message.get()?.name, signal.name))
    }
}
