//! [`FrameColumns`]: the parts of frames as columns.

use std::sync::Arc;

use arrow_array::builder::{BooleanBufferBuilder, Int16Builder, LargeBinaryBuilder};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt8Array, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use candor_recording::{Direction, Interfaces, Record};
use candor_wire::can::Kind;
use candor_wire::can::frame::{BRS, EFF_MASK, ESI};

use crate::rows::{AddError, Buses, Rows, Table, dictionary, words};

/// Takes frames apart: a row per frame, in the order in which they come.
///
/// | column | type | what it is |
/// |---|---|---|
/// | `time` | timestamp, ns, UTC | when it was seen |
/// | `bus` | words | the name of the interface |
/// | `id` | u32 | the identifier, 11 or 29 bits; of an error report, its class |
/// | `is_extended` | bool | whether the identifier has 29 bits |
/// | `kind` | words | `data`, `remote`, `fd`, `error` |
/// | `dlc` | u8 | the data length code on the wire, 0 to 15 |
/// | `brs`, `esi` | bool | the flags of a CAN FD frame: data at the higher bit rate, a passive sender |
/// | `direction` | words or null | `received`, `transmitted`; null if the recording does not say |
/// | `data` | binary | the data; none of a remote frame |
#[derive(Debug, Default)]
pub struct FrameColumns {
    buses: Buses,
    rows: Rows,
    ids: Vec<u32>,
    are_extended: Bits,
    kinds: Vec<i16>,
    dlcs: Vec<u8>,
    switches_rate: Bits,
    indicates_error: Bits,
    directions: Int16Builder,
    data: LargeBinaryBuilder,
}

/// A column of yes and no.
#[derive(Debug)]
struct Bits(BooleanBufferBuilder);

impl Default for Bits {
    fn default() -> Self {
        Self(BooleanBufferBuilder::new(0))
    }
}

impl Bits {
    fn finish(mut self) -> ArrayRef {
        Arc::new(BooleanArray::new(self.0.finish(), None))
    }
}

impl FrameColumns {
    /// Takes a frame of a recording with these interfaces.
    ///
    /// # Errors
    /// It cannot be a row.
    #[inline]
    pub fn add(&mut self, record: &Record, interfaces: &Interfaces) -> Result<(), AddError> {
        let frame = &record.frame;
        let bus = self.buses.of(interfaces, record.interface)?;
        self.rows.add(record, bus)?;
        self.ids.push(frame.can_id() & EFF_MASK);
        self.are_extended.0.append(frame.is_extended());
        self.kinds.push(frame.kind() as i16);
        self.dlcs.push(frame.dlc());
        self.switches_rate.0.append(frame.fd_flags() & BRS != 0);
        self.indicates_error.0.append(frame.fd_flags() & ESI != 0);
        self.directions.append_option(record.direction.map(|direction| direction as i16));
        self.data.append_value(frame.data());
        Ok(())
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The table.
    ///
    /// # Errors
    /// None that is known: Arrow checks that columns are those of a table.
    pub fn finish(mut self) -> Result<Table, ArrowError> {
        let [time, bus] = Rows::fields();
        let fields = vec![
            time,
            bus,
            Field::new("id", DataType::UInt32, false),
            Field::new("is_extended", DataType::Boolean, false),
            Field::new("kind", words(), false),
            Field::new("dlc", DataType::UInt8, false),
            Field::new("brs", DataType::Boolean, false),
            Field::new("esi", DataType::Boolean, false),
            Field::new("direction", words(), true),
            Field::new("data", DataType::LargeBinary, false),
        ];
        let [times, buses] = self.rows.finish(&self.buses)?;
        let arrays: Vec<ArrayRef> = vec![
            times,
            buses,
            Arc::new(UInt32Array::from(self.ids)),
            self.are_extended.finish(),
            dictionary(self.kinds, Kind::ALL.iter().map(|kind| kind.name()))?,
            Arc::new(UInt8Array::from(self.dlcs)),
            self.switches_rate.finish(),
            self.indicates_error.finish(),
            dictionary(self.directions.finish(), Direction::ALL.iter().map(|it| it.name()))?,
            Arc::new(self.data.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        Ok(Table { name: "frames".to_owned(), batch })
    }
}
