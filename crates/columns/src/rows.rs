//! [`Rows`]: the columns that every table begins with.

use std::sync::Arc;
use std::{fmt, mem};

use arrow_array::types::Int16Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int16Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use candor_recording::{InterfaceError, InterfaceIndex, Interfaces, Record};

pub const TIME_ZONE: &str = "UTC";

/// Rows of a name.
#[derive(Clone, Debug)]
pub struct Table {
    /// What they are: a message of a database, or `frames`.
    pub name: String,
    /// The columns.
    pub batch: RecordBatch,
}

/// Why a frame cannot be a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// Its time in nanoseconds since 1970 does not fit into 63 bits: it is after the year 2262.
    Time(u64),
    /// There are more buses than a recording may have.
    Bus(InterfaceError),
    /// There is not enough memory for the columns.
    Memory,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time_ns) => write!(
                f,
                "a frame has the time {} s, after the year 2262, which columns of nanoseconds do not hold; correct the \
                 times of the recording",
                time_ns / 1_000_000_000
            ),
            Self::Bus(error) => error.fmt(f),
            Self::Memory => f.write_str(
                "there is not enough memory for the columns; take fewer signals, or piece by piece",
            ),
        }
    }
}
impl std::error::Error for AddError {}

/// When each row was, and on which bus: the columns `time`, nanoseconds since the zero of the recorder in UTC, and `bus`, the name
/// of the interface.
#[derive(Debug, Default)]
pub struct Rows {
    times: Vec<i64>,
    buses: Vec<i16>,
}

/// The buses of several recordings.
#[derive(Debug, Default)]
pub(crate) struct Buses(Interfaces);

impl Buses {
    /// The number of the bus of this name.
    pub(crate) fn of(
        &mut self,
        interfaces: &Interfaces,
        index: InterfaceIndex,
    ) -> Result<i16, AddError> {
        let found = self.0.intern(interfaces.name(index).as_bytes());
        // No more than MAX_INTERFACES.
        found.map(|index| index.0 as i16).map_err(AddError::Bus)
    }
}

impl Rows {
    /// The fields of the columns.
    #[must_use]
    pub fn fields() -> [Field; 2] {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some(TIME_ZONE.into()));
        [Field::new("time", time, false), Field::new("bus", words(), false)]
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    #[inline]
    pub(crate) fn add<F>(&mut self, record: &Record<F>, bus: i16) -> Result<(), AddError> {
        let time = i64::try_from(record.time_ns).map_err(|_| AddError::Time(record.time_ns))?;
        make_room(&mut self.times, 1)?;
        make_room(&mut self.buses, 1)?;
        self.times.push(time);
        self.buses.push(bus);
        Ok(())
    }

    /// Takes the first of them.
    pub(crate) fn take(&mut self, count: usize) -> Self {
        Self {
            times: take_first(&mut self.times, count),
            buses: take_first(&mut self.buses, count),
        }
    }

    pub(crate) fn finish(self, buses: &Buses) -> Result<[ArrayRef; 2], ArrowError> {
        let times = TimestampNanosecondArray::from(self.times).with_timezone(TIME_ZONE);
        let names = buses.0.iter().map(|(_, name)| name);
        Ok([Arc::new(times), dictionary(self.buses, names)?])
    }
}

/// Makes room for more items: too little memory is an error, and ends no process.
#[inline]
pub(crate) fn make_room<T>(items: &mut Vec<T>, more: usize) -> Result<(), AddError> {
    items.try_reserve(more).map_err(|_| AddError::Memory)
}

/// Takes the first of the items.
pub(crate) fn take_first<T>(items: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = items.split_off(count.min(items.len()));
    mem::replace(items, rest)
}

/// The type of columns of few different words.
pub(crate) fn words() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8))
}

/// A column of words by their numbers.
///
/// # Errors
/// A number is none of a word.
pub(crate) fn dictionary<'a>(
    numbers: impl Into<Int16Array>,
    names: impl Iterator<Item = &'a str>,
) -> Result<ArrayRef, ArrowError> {
    let words = Arc::new(StringArray::from_iter_values(names));
    let array = DictionaryArray::<Int16Type>::try_new(numbers.into(), words)?;
    Ok(Arc::new(array))
}
