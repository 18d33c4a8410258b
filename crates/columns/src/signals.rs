//! [`SignalColumns`]: signals of frames as columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use candor_recording::{Interfaces, Record};
use candor_signals::{Database, Message, Signal, Wanted};
use candor_wire::can::Kind;
use candor_wire::can::frame::id_word;
use candor_wire::can::notation::Identifier;

use crate::bits::There;
use crate::rows::{AddError, Buses, Rows, Table, make_room};

/// What stands for a signal that a frame does not have: one that its selector does not select, or that lies behind the end of
/// its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    #[default]
    Null,
    /// Not a number, so that a column is one piece of memory that NumPy takes as it is.
    Nan,
}

/// Decodes frames into a table per message: a row per frame in the order in which they come, with a column of physical values per
/// signal. Frames that the database does not describe, remote frames and error reports are none of its rows.
///
/// A column has the metadata `unit`, and `value_names`, a JSON object of names by raw values, where the database has them. A table
/// has `message`, `id` (hexadecimal, with 8 digits if it has 29 bits), and `sender`. A signal that is called like a column of
/// [`Rows`] has the name of its message before it: `Message.time`.
#[derive(Debug)]
pub struct SignalColumns {
    database: Arc<Database>,
    missing: Missing,
    buses: Buses,
    /// By message, if signals of it are wanted.
    tables: Vec<Option<Columns>>,
    /// In all tables.
    rows: usize,
}

#[derive(Debug)]
struct Columns {
    is_asked_for: bool,
    rows: Rows,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    /// Its place in the message.
    signal: usize,
    values: Vec<f64>,
    there: There,
}

impl SignalColumns {
    #[must_use]
    pub fn new(database: Arc<Database>, wanted: &Wanted, missing: Missing) -> Self {
        let columns = |(number, _): (usize, &Message)| {
            let column =
                |&signal: &usize| Column { signal, values: Vec::new(), there: There::default() };
            let columns: Vec<_> = wanted.of(number).iter().map(column).collect();
            let is_asked_for = wanted.is_asked_for(number);
            (!columns.is_empty()).then(|| Columns { is_asked_for, rows: Rows::default(), columns })
        };
        let tables = database.messages().iter().enumerate().map(columns).collect();
        Self { database, missing, buses: Buses::default(), tables, rows: 0 }
    }

    /// Takes a frame of a recording with these interfaces.
    ///
    /// # Errors
    /// It cannot be a row.
    #[inline]
    pub fn add(&mut self, record: &Record, interfaces: &Interfaces) -> Result<(), AddError> {
        let frame = &record.frame;
        if matches!(frame.kind(), Kind::Error | Kind::Remote) {
            return Ok(());
        }
        let Some(place) = self.database.position_of(frame) else {
            return Ok(());
        };
        let (Some(message), Some(Some(table))) =
            (self.database.messages().get(place), self.tables.get_mut(place))
        else {
            return Ok(());
        };
        let bus = self.buses.of(interfaces, record.interface)?;
        table.rows.add(record, bus)?;
        self.rows += 1;
        let data = frame.data();
        for column in &mut table.columns {
            let signal = message.signals.get(column.signal);
            let value = signal.and_then(|signal| message.read(signal, data));
            column.add(value.map(|decoded| decoded.physical), self.missing)?;
        }
        Ok(())
    }

    /// How many rows there are in all tables.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Takes the tables of messages that came or that were asked for, in the order of the database; they begin anew without rows.
    ///
    /// # Errors
    /// None that is known: Arrow checks that columns are those of a table.
    pub fn take(&mut self) -> Result<Vec<Table>, ArrowError> {
        self.rows = 0;
        let tables = self.database.messages().iter().zip(&mut self.tables);
        let tables = tables.filter_map(|(message, table)| Some((message, table.as_mut()?)));
        let wanted = tables.filter(|(_, table)| table.is_asked_for || !table.rows.is_empty());
        wanted.map(|(message, table)| table.take(message, &self.buses)).collect()
    }
}

impl Column {
    #[inline]
    fn add(&mut self, value: Option<f64>, missing: Missing) -> Result<(), AddError> {
        make_room(&mut self.values, 1)?;
        self.values.push(value.unwrap_or(f64::NAN));
        self.there.push(value.is_some() || missing == Missing::Nan)
    }
}

impl Columns {
    fn take(&mut self, message: &Message, buses: &Buses) -> Result<Table, ArrowError> {
        let [time, bus] = Rows::fields();
        let mut fields = vec![time, bus];
        let mut arrays = std::mem::take(&mut self.rows).finish(buses)?.to_vec();
        for Column { signal, values, there } in &mut self.columns {
            if let Some(signal) = message.signals.get(*signal) {
                fields.push(field(message, signal));
                let values = std::mem::take(values).into();
                arrays
                    .push(Arc::new(Float64Array::try_new(values, std::mem::take(there).finish())?));
            }
        }
        let schema = Schema::new_with_metadata(fields, metadata(message));
        let batch = RecordBatch::try_new(Arc::new(schema), arrays)?;
        Ok(Table { name: message.name.clone(), batch })
    }
}

fn field(message: &Message, signal: &Signal) -> Field {
    let is_taken = Rows::fields().iter().any(|field| *field.name() == signal.name);
    let name = match is_taken {
        true => format!("{}.{}", message.name, signal.name),
        false => signal.name.clone(),
    };
    let mut metadata = HashMap::new();
    if !signal.unit.is_empty() {
        metadata.insert("unit".to_owned(), signal.unit.clone());
    }
    if !signal.value_names.is_empty() {
        let names = signal.value_names.iter();
        let names: serde_json::Map<_, _> =
            names.map(|(raw, name)| (raw.to_string(), name.into())).collect();
        metadata.insert("value_names".to_owned(), serde_json::Value::Object(names).to_string());
    }
    Field::new(name, DataType::Float64, true).with_metadata(metadata)
}

fn metadata(message: &Message) -> HashMap<String, String> {
    let id = format!("0x{}", Identifier(id_word(message.id)));
    let mut metadata =
        HashMap::from([("message".to_owned(), message.name.clone()), ("id".to_owned(), id)]);
    if let Some(sender) = &message.sender {
        metadata.insert("sender".to_owned(), sender.clone());
    }
    metadata
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, TimestampNanosecondType};
    use candor_diagnostics::Findings;
    use candor_recording::InterfaceIndex;
    use candor_wire::can::Frame;
    use proptest::prelude::*;

    use super::*;

    const PAGES: &str = "\
BO_ 1 Pages: 8 A
 SG_ Page M : 0|4@1+ (1,0) [0|0] \"\" B
 SG_ Left m0 : 8|16@1- (0.1,5) [0|0] \"\" B
 SG_ Right m1 : 15|16@0+ (1,0) [0|0] \"\" B
 SG_ time : 56|8@1+ (1,0) [0|0] \"s\" B
BO_ 2 Other: 1 A
 SG_ Byte : 0|8@1+ (2,0) [0|0] \"\" B
";

    fn record(time_ns: u64, frame: Frame) -> Record {
        Record { time_ns, interface: InterfaceIndex(0), direction: None, frame }
    }

    proptest! {
        /// Column by column, the values are those that decoding a frame by itself gives, whatever comes in between.
        #[test]
        fn rows_are_the_frames_of_their_message(
            sent in proptest::collection::vec((1_u16..4, proptest::collection::vec(any::<u8>(), 0..9)), 0..60),
            missing in prop_oneof![Just(Missing::Null), Just(Missing::Nan)],
        ) {
            let database = Database::parse("t.dbc", PAGES.as_bytes(), &Findings::new()).unwrap();
            let database = Arc::new(database);
            let mut interfaces = Interfaces::default();
            interfaces.intern(b"can0").unwrap();
            let mut columns =
                SignalColumns::new(database.clone(), &Wanted::all(&database), missing);
            let frames: Vec<_> = sent
                .iter()
                .map(|(id, data)| format!("{id:03X}#{}", hex(data)).parse::<Frame>().unwrap())
                .collect();
            for (time, frame) in frames.iter().enumerate() {
                columns.add(&record(time as u64, *frame), &interfaces).unwrap();
            }
            for table in columns.take().unwrap() {
                let message = database.message_named(&table.name).unwrap();
                let rows: Vec<_> = frames
                    .iter()
                    .enumerate()
                    .filter(|(_, frame)| database.message_of(frame) == Some(message))
                    .collect();
                let times = table.batch.column(0).as_primitive::<TimestampNanosecondType>();
                let expected: Vec<_> = rows.iter().map(|&(time, _)| time as i64).collect();
                prop_assert_eq!(&times.values()[..], &expected[..]);
                for (signal, column) in message.signals.iter().zip(&table.batch.columns()[2..]) {
                    let values = column.as_primitive::<Float64Type>();
                    for (row, (_, frame)) in rows.iter().enumerate() {
                        let of_signal = |it: &candor_signals::Decoded<'_>| it.signal.name == signal.name;
                        let decoded = message.decode(frame).find(of_signal);
                        match decoded {
                            Some(decoded) => {
                                prop_assert!(values.is_valid(row));
                                prop_assert_eq!(values.value(row), decoded.physical);
                            }
                            None if missing == Missing::Null => prop_assert!(values.is_null(row)),
                            None => prop_assert!(values.is_valid(row) && values.value(row).is_nan()),
                        }
                    }
                }
            }
        }
    }

    fn hex(data: &[u8]) -> String {
        data.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    #[test]
    fn a_time_that_no_column_holds_is_told() {
        let database = Database::parse("t.dbc", PAGES.as_bytes(), &Findings::new()).unwrap();
        let wanted = Wanted::all(&database);
        let mut columns = SignalColumns::new(Arc::new(database), &wanted, Missing::Null);
        let mut interfaces = Interfaces::default();
        interfaces.intern(b"can0").unwrap();
        let frame = "001#00".parse().unwrap();
        columns.add(&record(i64::MAX as u64, frame), &interfaces).unwrap();
        let error = columns.add(&record(1 << 63, frame), &interfaces).unwrap_err();
        assert!(error.to_string().contains("after the year 2262"), "{error}");
        assert_eq!(columns.rows(), 1);
        assert_eq!(columns.take().unwrap().len(), 1);
    }
}
