//! Rows of values as an Arrow IPC stream.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use candor_bus::words::View;
use candor_columns::LongColumns;
use candor_recording::{Interfaces, Record};

use super::{Out, Sheet, Stop};

struct Stream {
    out: Out,
    columns: LongColumns,
    /// Into memory, so that what is wrong with standard output is not an error of Arrow.
    writer: StreamWriter<Vec<u8>>,
}

pub(super) fn sheet(out: Out, view: &View) -> Result<Box<dyn Sheet>, String> {
    if io::stdout().is_terminal() {
        return Err("--format arrow: an Arrow stream is binary, and standard output is a terminal; write it into a file: \
                    > values.arrow"
            .to_owned());
    }
    let columns = LongColumns::new(Arc::clone(view.database()), view.wanted());
    let writer = StreamWriter::try_new(Vec::new(), &LongColumns::schema());
    let writer = writer.map_err(|error| unwritten(&error))?;
    Ok(Box::new(Stream { out, columns, writer }))
}

impl Stream {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        self.writer.write(batch)?;
        self.write_out()
    }

    fn write_out(&mut self) -> Result<(), Stop> {
        let bytes = self.writer.get_mut();
        self.out.write_all(bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Sheet for Stream {
    fn show(&mut self, _: &View, record: &Record, interfaces: &Interfaces) -> Result<u64, Stop> {
        let values = self.columns.add(record, interfaces);
        let values = values.map_err(|error| Stop::Error(error.to_string()))?;
        while let Some(batch) = self.columns.take_full()? {
            self.write(&batch)?;
        }
        Ok(values as u64)
    }

    fn finish(mut self: Box<Self>) -> Result<(), Stop> {
        let rest = self.columns.take_rest()?;
        if rest.num_rows() > 0 {
            self.write(&rest)?;
        }
        self.writer.finish()?;
        self.write_out()?;
        Ok(self.out.flush()?)
    }
}

impl From<ArrowError> for Stop {
    fn from(error: ArrowError) -> Self {
        Self::Error(unwritten(&error))
    }
}

fn unwritten(error: &ArrowError) -> String {
    format!("the values cannot be written as an Arrow stream: {error}")
}
