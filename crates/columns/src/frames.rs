//! [`FrameColumns`]: the parts of frames as columns.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int16Array, LargeBinaryArray, RecordBatch, UInt8Array, UInt32Array,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::ArrowError;
use candor_recording::{Direction, Interfaces, Record};
use candor_wire::can::Kind;
use candor_wire::can::frame::{BRS, EFF_MASK, ESI};

use crate::bits::{Bits, There};
use crate::rows::{AddError, Buses, Rows, Table, dictionary, make_room};

#[inline]
fn put<T>(column: &mut Vec<T>, value: T) -> Result<(), AddError> {
    make_room(column, 1)?;
    column.push(value);
    Ok(())
}

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
#[derive(Debug)]
pub struct FrameColumns {
    buses: Buses,
    rows: Rows,
    ids: Vec<u32>,
    are_extended: Bits,
    kinds: Vec<i16>,
    dlcs: Vec<u8>,
    switches_rate: Bits,
    indicates_error: Bits,
    directions: Vec<i16>,
    has_direction: There,
    data: Vec<u8>,
    /// 0, and where the data of each frame end.
    ends: Vec<i64>,
}

impl Default for FrameColumns {
    fn default() -> Self {
        Self {
            buses: Buses::default(),
            rows: Rows::default(),
            ids: Vec::new(),
            are_extended: Bits::default(),
            kinds: Vec::new(),
            dlcs: Vec::new(),
            switches_rate: Bits::default(),
            indicates_error: Bits::default(),
            directions: Vec::new(),
            has_direction: There::default(),
            data: Vec::new(),
            ends: vec![0],
        }
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
        put(&mut self.ids, frame.can_id() & EFF_MASK)?;
        self.are_extended.push(frame.is_extended())?;
        put(&mut self.kinds, frame.kind() as i16)?;
        put(&mut self.dlcs, frame.dlc())?;
        self.switches_rate.push(frame.fd_flags() & BRS != 0)?;
        self.indicates_error.push(frame.fd_flags() & ESI != 0)?;
        put(&mut self.directions, record.direction.map_or(0, |direction| direction as i16))?;
        self.has_direction.push(record.direction.is_some())?;
        make_room(&mut self.data, frame.data().len())?;
        self.data.extend_from_slice(frame.data());
        put(&mut self.ends, self.data.len() as i64)?;
        Ok(())
    }

    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The table.
    ///
    /// # Errors
    /// None that is known: Arrow checks that columns are those of a table.
    pub fn finish(self) -> Result<Table, ArrowError> {
        let [times, buses] = self.rows.finish(&self.buses)?;
        let directions = Int16Array::try_new(self.directions.into(), self.has_direction.finish())?;
        let ends = OffsetBuffer::new(self.ends.into());
        let kinds = dictionary(self.kinds, Kind::ALL.iter().map(|kind| kind.name()))?;
        let directions = dictionary(directions, Direction::ALL.iter().map(|it| it.name()))?;
        let data = LargeBinaryArray::try_new(ends, Buffer::from_vec(self.data), None)?;
        let flags = |bits: Bits| -> ArrayRef { Arc::new(BooleanArray::new(bits.finish(), None)) };
        // Only a direction may be missing.
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("time", times, false),
            ("bus", buses, false),
            ("id", Arc::new(UInt32Array::from(self.ids)) as ArrayRef, false),
            ("is_extended", flags(self.are_extended), false),
            ("kind", kinds, false),
            ("dlc", Arc::new(UInt8Array::from(self.dlcs)), false),
            ("brs", flags(self.switches_rate), false),
            ("esi", flags(self.indicates_error), false),
            ("direction", directions, true),
            ("data", Arc::new(data), false),
        ])?;
        Ok(Table { name: "frames".to_owned(), batch })
    }
}
