//! Recordings of CAN and Ethernet frames: formats, reading, writing, statistics, merging, comparing.
//!
//! [`open`] a recording and iterate over its records; [`create`] one and write records to it, or hand them
//! to a [`Sink`]. Both keep one buffer of 128 KiB, whatever the size of the recording, and what a [`Compression`] around
//! it needs. `-` stands for standard input and standard output.
//!
//! ```
//! use candor_recording::{Recording, Statistics};
//!
//! let log: &[u8] = b"(1.000000) can0 123#11\n(1.010000) can0 123#12\n";
//! let mut recording = Recording::new("example", log, None)?;
//! let mut statistics = Statistics::default();
//! for record in &mut recording {
//!     statistics.add(&record?);
//! }
//! assert_eq!(recording.format().name, "candump");
//! assert_eq!((statistics.frames, statistics.duration_ns()), (2, 10_000_000));
//! # Ok::<(), candor_recording::RecordingError>(())
//! ```
//!
//! A [`Format`] is one file in `src/format/` and one line in its registry [`FORMATS`]. Its [`Decoder`] reads records from
//! an [`Input`], as many bytes as it needs; its [`Encoder`] is given records and appends bytes. Neither opens files, and
//! neither keeps more than some names and counters, and of compressed recordings a piece of bounded size:
//!
//! ```
//! use candor_recording::{Format, Input, Step};
//!
//! let log: &[u8] = b"(0000000012.500000) can0 123#DEADBEEF\n";
//! let format = Format::by_content(log).expect("it begins like a candump log");
//! let (mut input, mut decoder) = (Input::new(log), format.decoder());
//! let mut times = Vec::new();
//! loop {
//!     match decoder.next(&mut input)? {
//!         Step::Record(record) => {
//!             times.push((record.time_ns, decoder.interfaces().name(record.interface).to_owned()));
//!         }
//!         Step::Ethernet(_) => unreachable!("candump logs hold only CAN"),
//!         Step::Skip => {}
//!         Step::End => break,
//!     }
//! }
//! assert_eq!(times, [(12_500_000_000, "can0".to_owned())]);
//! # Ok::<(), candor_recording::ReadError>(())
//! ```

#![warn(missing_docs)]

mod can_udp;
mod compression;
#[cfg(feature = "create")]
mod create;
mod decode;
mod diff;
mod encode;
mod error;
mod format;
mod input;
mod merge;
mod read;
mod record;
mod sort;
mod statistics;
mod write;

pub use can_udp::{CanUdp, NoPort};
pub use compression::Compression;
#[cfg(feature = "create")]
pub use create::{Writer, create};
pub use decode::{
    DecodeError, Decoder, MAX_LINE_LEN, MAX_RECORD_LEN, PassedOver, Position, ReadError, Reason,
    Step,
};
pub use diff::{
    Clocks, Comparison, Differences, HEAD_FRAMES, MAX_PENDING, START_SPREAD_NS, Side, Sighting,
    diff,
};
pub use encode::{EncodeError, Encoder};
pub use error::{RecordingError, remedy};
pub use format::{CAN2UDP, FORMATS, Format, Labels};
pub use input::{Input, Source};
pub use merge::{Merge, MergeInput};
pub use read::{Entry, Recording, Skipped, open, open_file, open_through};
pub use record::{
    AnyRecord, Direction, EitherRecord, InterfaceError, InterfaceIndex, Interfaces,
    MAX_INTERFACE_NAME_LEN, MAX_INTERFACES, Packet, PacketSpan, Record,
};
pub use sort::{SORT_WINDOW, Sorted};
pub use statistics::{
    BusStatistics, BusyBits, EthernetStatistics, IdStatistics, LinkStatistics, MAX_IDS,
    MAX_STREAMS, PEAK_WINDOWS_NS, Pause, PeriodStatistics, Statistics, Stream, StreamStatistics,
};
pub use write::{Sink, format_of_name, growing_format_of_name};
