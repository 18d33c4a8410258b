//! [`LongColumns`]: signals of frames as rows, a value each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use candor_recording::{Interfaces, Record};
use candor_signals::{Database, Wanted};
use candor_wire::can::Kind;

use crate::rows::{AddError, Buses, Rows, make_room, take_first};

/// Decodes frames into a row per value, in the order in which they come, and in a frame in that of the database.
///
/// | column | type | what it is |
/// |---|---|---|
/// | `time` | timestamp, ns, UTC | when the frame was seen |
/// | `bus` | words | the name of the interface |
/// | `message`, `signal` | words | their names |
/// | `value` | f64 | the physical value |
///
/// Signals that a frame does not have, frames that the database does not describe, remote frames and error reports have no
/// row. Memory holds at most [`LongColumns::MAX_ROWS`] and the rows of a frame, if full batches are taken after each.
///
/// ```
/// # use std::sync::Arc;
/// # use candor_columns::LongColumns;
/// # use candor_signals::Wanted;
/// # use candor_recording::Recording;
/// # use candor_signals::Database;
/// # use candor_diagnostics::Findings;
/// # let dbc = "BO_ 291 Motor: 2 A\n SG_ Speed : 0|16@1+ (0.25,0) [0|16000] \"rpm\" A\n";
/// # let database = Database::parse("car.dbc", dbc.as_bytes(), &Findings::new()).ok_or("no DBC file")?;
/// # let log = std::io::Cursor::new("(1.5) can0 123#A00F\n(1.6) can0 123#A10F\n");
/// let wanted = Wanted::all(&database);
/// let mut columns = LongColumns::new(Arc::new(database), &wanted);
/// let mut batches = Vec::new();
/// let mut recording = Recording::new("drive.log", log, None)?;
/// while let Some(record) = recording.next() {
///     columns.add(&record?, recording.interfaces())?;
///     while let Some(batch) = columns.take_full()? {
///         batches.push(batch);
///     }
/// }
/// batches.push(columns.take_rest()?);
/// assert_eq!(batches[0].num_rows(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LongColumns {
    database: Arc<Database>,
    /// By message.
    columns: Vec<Columns>,
    message_names: ArrayRef,
    signal_names: ArrayRef,
    buses: Buses,
    rows: Rows,
    messages: Vec<i32>,
    signals: Vec<i32>,
    values: Vec<f64>,
}

/// What is wanted of a message: places of signals, and the numbers of the names.
#[derive(Debug)]
struct Columns {
    name: i32,
    signals: Vec<(usize, i32)>,
}

impl LongColumns {
    /// The most rows of a batch.
    pub const MAX_ROWS: usize = 65_536;

    /// For the wanted signals of a database.
    #[must_use]
    pub fn new(database: Arc<Database>, wanted: &Wanted) -> Self {
        let (mut message_names, mut signal_names) =
            (NameDictionary::default(), NameDictionary::default());
        let mut columns = Vec::new();
        for (place, message) in database.messages().iter().enumerate() {
            let signals = wanted.of(place).iter().filter_map(|&place| {
                Some((place, signal_names.number(&message.signals.get(place)?.name)))
            });
            let signals: Vec<_> = signals.collect();
            let name = if signals.is_empty() { 0 } else { message_names.number(&message.name) };
            columns.push(Columns { name, signals });
        }
        let (message_names, signal_names) = (message_names.array(), signal_names.array());
        Self {
            database,
            columns,
            message_names,
            signal_names,
            buses: Buses::default(),
            rows: Rows::default(),
            messages: Vec::new(),
            signals: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The columns.
    #[must_use]
    pub fn schema() -> SchemaRef {
        let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let [time, bus] = Rows::fields();
        Arc::new(Schema::new(vec![
            time,
            bus,
            Field::new("message", words.clone(), false),
            Field::new("signal", words, false),
            Field::new("value", DataType::Float64, false),
        ]))
    }

    /// Takes a frame of a recording with these interfaces; how many values it has.
    ///
    /// # Errors
    /// It cannot be rows.
    #[inline]
    pub fn add(&mut self, record: &Record, interfaces: &Interfaces) -> Result<usize, AddError> {
        let frame = &record.frame;
        if matches!(frame.kind(), Kind::Error | Kind::Remote) {
            return Ok(0);
        }
        let place = self.database.position_of(frame);
        let message = place.and_then(|place| self.database.messages().get(place));
        let wanted = place.and_then(|place| self.columns.get(place));
        let (Some(message), Some(wanted)) = (message, wanted) else {
            return Ok(0);
        };
        let before = self.values.len();
        let bus = self.buses.of(interfaces, record.interface)?;
        for &(place, name) in &wanted.signals {
            let signal = message.signals.get(place);
            if let Some(decoded) = signal.and_then(|signal| message.read(signal, frame.data())) {
                make_room(&mut self.messages, 1)?;
                make_room(&mut self.signals, 1)?;
                make_room(&mut self.values, 1)?;
                self.rows.add(record, bus)?;
                self.messages.push(wanted.name);
                self.signals.push(name);
                self.values.push(decoded.physical);
            }
        }
        Ok(self.values.len() - before)
    }

    /// The first of the rows, if there are as many as a batch has at most.
    ///
    /// # Errors
    /// None that is known: Arrow checks that columns are those of the schema.
    pub fn take_full(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let is_full = self.values.len() >= Self::MAX_ROWS;
        is_full.then(|| self.take(Self::MAX_ROWS)).transpose()
    }

    /// All rows that were not taken, perhaps none.
    ///
    /// # Errors
    /// None that is known: Arrow checks that columns are those of the schema.
    pub fn take_rest(&mut self) -> Result<RecordBatch, ArrowError> {
        self.take(self.values.len())
    }

    fn take(&mut self, rows: usize) -> Result<RecordBatch, ArrowError> {
        let [times, buses] = self.rows.take(rows).finish(&self.buses)?;
        let words = |numbers: &mut Vec<i32>, names: &ArrayRef| {
            let numbers = take_first(numbers, rows);
            DictionaryArray::<Int32Type>::try_new(numbers.into(), Arc::clone(names))
        };
        let arrays: Vec<ArrayRef> = vec![
            times,
            buses,
            Arc::new(words(&mut self.messages, &self.message_names)?),
            Arc::new(words(&mut self.signals, &self.signal_names)?),
            Arc::new(Float64Array::from(take_first(&mut self.values, rows))),
        ];
        RecordBatch::try_new(Self::schema(), arrays)
    }
}

/// Different names.
#[derive(Default)]
struct NameDictionary<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, i32>,
}

impl<'a> NameDictionary<'a> {
    fn number(&mut self, name: &'a str) -> i32 {
        let next = self.names.len() as i32;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }

    fn array(&self) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(&self.names))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int16Type, TimestampNanosecondType};
    use candor_diagnostics::Findings;
    use candor_recording::InterfaceIndex;
    use candor_wire::can::Frame;
    use proptest::prelude::*;

    use super::*;

    const CAR: &str = "\
BO_ 1 Pages: 8 A
 SG_ Page M : 0|4@1+ (1,0) [0|0] \"\" B
 SG_ Left m0 : 8|16@1- (0.1,5) [0|0] \"\" B
 SG_ Right m1 : 15|16@0+ (1,0) [0|0] \"\" B
 SG_ Same : 56|8@1+ (1,0) [0|0] \"s\" B
BO_ 2 Other: 1 A
 SG_ Same : 0|8@1+ (2,0) [0|0] \"\" B
";

    /// Time, bus, message, signal, value.
    type Row = (i64, String, String, String, f64);

    fn rows_of(batch: &RecordBatch) -> Vec<Row> {
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let buses = batch.column(1).as_dictionary::<Int16Type>();
        let buses = buses.downcast_dict::<StringArray>().unwrap();
        let words = |column: usize| {
            let words = batch.column(column).as_dictionary::<Int32Type>();
            words.downcast_dict::<StringArray>().unwrap().into_iter().map(Option::unwrap)
        };
        let values = batch.column(4).as_primitive::<Float64Type>();
        let names = buses.into_iter().flatten().zip(words(2)).zip(words(3));
        let rows = times.values().iter().zip(names).zip(values.values());
        rows.map(|((&time, ((bus, message), signal)), &value)| {
            (time, bus.to_owned(), message.to_owned(), signal.to_owned(), value)
        })
        .collect()
    }

    proptest! {
        /// The rows of all batches are the values of the frames one by one; every batch but the last is full.
        #[test]
        fn rows_are_the_values_of_the_frames(
            sent in proptest::collection::vec((1_u16..4, proptest::collection::vec(any::<u8>(), 0..9), 0_u16..3), 0..60),
            repeated in prop_oneof![15 => Just(1), 1 => Just(700)],
            patterns in prop_oneof![Just(&["*"][..]), Just(&["Same", "Pages.Right"][..]), Just(&["Other.*"][..])],
        ) {
            let database = Database::parse("t.dbc", CAR.as_bytes(), &Findings::new()).unwrap();
            let database = Arc::new(database);
            let mut interfaces = Interfaces::default();
            for name in ["can0", "can1", "vcan0"] {
                interfaces.intern(name.as_bytes()).unwrap();
            }
            let wanted = Wanted::new(&database, patterns).unwrap();
            let mut columns = LongColumns::new(database.clone(), &wanted);
            let (mut batches, mut expected) = (Vec::new(), Vec::new());
            for (time, (id, data, bus)) in std::iter::repeat_n(&sent, repeated).flatten().enumerate() {
                let data: String = data.iter().map(|byte| format!("{byte:02X}")).collect();
                let frame: Frame = format!("{id:03X}#{data}").parse().unwrap();
                let interface = InterfaceIndex(*bus);
                let record = Record { time_ns: time as u64, interface, direction: None, frame };
                let before = expected.len();
                if let Some(message) = database.message_of(&frame) {
                    let place = database.position_of(&frame).unwrap();
                    for decoded in message.decode(&frame) {
                        let of = message.signals.iter().position(|it| it == decoded.signal);
                        if wanted.of(place).contains(&of.unwrap()) {
                            let bus = interfaces.name(interface).to_owned();
                            let names = (message.name.clone(), decoded.signal.name.clone());
                            expected.push((time as i64, bus, names.0, names.1, decoded.physical));
                        }
                    }
                }
                prop_assert_eq!(columns.add(&record, &interfaces).unwrap(), expected.len() - before);
                while let Some(batch) = columns.take_full().unwrap() {
                    prop_assert_eq!(batch.num_rows(), LongColumns::MAX_ROWS);
                    batches.push(batch);
                }
            }
            let last = columns.take_rest().unwrap();
            prop_assert!(last.num_rows() < LongColumns::MAX_ROWS);
            let rows: Vec<_> = batches.iter().chain([&last]).flat_map(rows_of).collect();
            prop_assert!(rows == expected);
        }
    }
}
