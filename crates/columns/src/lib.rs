//! Recordings as columns, in the layout of [Apache Arrow](https://arrow.apache.org/docs/format/Columnar.html), which
//! libraries for data frames share without a copy.
//!
//! | item | what it is |
//! |---|---|
//! | [`SignalColumns`] | takes frames, gives a [`Table`] per message: a row per frame, a column per signal |
//! | [`LongColumns`] | takes frames, gives batches of a row per value |
//! | [`FrameColumns`] | takes frames, gives their parts as columns |
//!
//! ```
//! use std::io::Cursor;
//! use std::sync::Arc;
//!
//! use candor_columns::{Missing, SignalColumns};
//! use candor_diagnostics::Findings;
//! use candor_recording::Recording;
//! use candor_signals::{Database, Wanted};
//!
//! let dbc = "BU_: Engine\n\nBO_ 291 Motor: 8 Engine\n \
//!            SG_ Speed : 0|16@1+ (0.25,0) [0|16000] \"rpm\" Engine\n";
//! let database = Database::parse("car.dbc", dbc.as_bytes(), &Findings::new()).ok_or("no DBC file")?;
//! let log = Cursor::new("(1.5) can0 123#A00F000000000000\n(1.6) can0 123#A10F000000000000\n");
//!
//! let wanted = Wanted::new(&database, &["Motor.*"])?;
//! let mut columns = SignalColumns::new(Arc::new(database), &wanted, Missing::Null);
//! let mut recording = Recording::new("drive.log", log, None)?;
//! while let Some(record) = recording.next() {
//!     columns.add(&record?, recording.interfaces())?;
//! }
//! let tables = columns.take()?;
//! assert_eq!(tables[0].name, "Motor");
//! assert_eq!(tables[0].batch.num_rows(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which signals are columns says a [`Wanted`](candor_signals::Wanted). Every table begins with the columns of [`Rows`]: when, and on which bus.

mod bits;
mod frames;
mod long;
mod rows;
mod signals;

pub use arrow_schema::ArrowError;
pub use frames::FrameColumns;
pub use long::LongColumns;
pub use rows::{AddError, Rows, TIME_ZONE, Table};
pub use signals::{Missing, SignalColumns};
