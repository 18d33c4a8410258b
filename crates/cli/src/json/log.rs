//! The object `log` of `candor log info`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Object, words};

/// A recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Log<'a> {
    /// The file as it was given
    pub(crate) file: String,
    /// Its format
    #[schemars(extend("enum" = words::formats()))]
    pub(crate) format: &'static str,
    /// Frames, without error reports
    pub(crate) frames: u64,
    /// Error reports of drivers
    pub(crate) error_reports: u64,
    /// Different identifiers; one on two interfaces counts twice
    pub(crate) ids: usize,
    /// The earliest time, in ns since 1970; null if there are no records
    pub(crate) first_ns: Option<u64>,
    /// The latest time, in ns since 1970; null if there are no records
    pub(crate) last_ns: Option<u64>,
    /// The time from the earliest to the latest, in ns
    pub(crate) duration_ns: u64,
    /// The longest time between two records, in ns; null if there are no two
    pub(crate) pause_ns_max: Option<u64>,
    /// When that pause began, in ns since 1970; null if there is none
    pub(crate) pause_from_ns: Option<u64>,
    /// Frames per second: the frames after the first one over the duration; null if that is zero
    pub(crate) rate_per_s: Option<f64>,
    /// Records that are earlier than the one before
    pub(crate) out_of_order: u64,
    /// Malformed records passed over
    pub(crate) skipped: u64,
    /// Frames that the recorder says it lost
    pub(crate) lost_frames: u64,
    /// Ethernet frames
    pub(crate) ethernet_frames: u64,
    /// Ethernet frames of which the recorder kept only the start
    pub(crate) cut_frames: u64,
    /// Ethernet frames of which less than a header was kept; they belong to no stream
    pub(crate) short_frames: u64,
    /// Ethernet frames of none of the 65,536 different streams that are listed
    pub(crate) unlisted_stream_frames: u64,
    /// Packets of other protocols in the capture
    pub(crate) other_packets: u64,
    /// Frames with none of the 65,536 different identifiers that are listed
    pub(crate) unlisted_frames: u64,
    /// The (nominal) bit rate in bit/s as it was given; null if it was not
    pub(crate) bitrate: Option<u32>,
    /// The bit rate of the data phase in bit/s; null if no bit rate was given
    pub(crate) data_bitrate: Option<u32>,
    /// The CAN interfaces of the recording
    pub(crate) buses: Vec<LogBus<'a>>,
    /// The Ethernet interfaces of the recording
    pub(crate) links: Vec<LogLink<'a>>,
}

/// A CAN interface of a recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogBus<'a> {
    /// Its name
    pub(crate) interface: &'a str,
    /// Frames, without error reports
    pub(crate) frames: u64,
    /// Error reports of drivers
    pub(crate) error_reports: u64,
    /// Frames per second, from the first to the last of the interface; null if it has one
    pub(crate) rate_per_s: Option<f64>,
    /// The part of the time in which the bus was busy, in percent; null if it is not known
    pub(crate) load_percent: Option<f64>,
    /// The highest load within 10 ms, in percent; null if it is not known
    pub(crate) peak_10ms_percent: Option<f64>,
    /// The highest load within 100 ms, in percent; null if it is not known
    pub(crate) peak_100ms_percent: Option<f64>,
    /// The highest load within a second, in percent; null if it is not known
    pub(crate) peak_1s_percent: Option<f64>,
}

/// An Ethernet interface of a recording.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LogLink<'a> {
    /// Its name
    pub(crate) interface: &'a str,
    /// Frames
    pub(crate) frames: u64,
    /// Their bytes, without check sequences
    pub(crate) bytes: u64,
    /// Frames per second, from the first to the last of the interface; null if it has one
    pub(crate) rate_per_s: Option<f64>,
    /// What the frames take of the link on average, in bit/s, with padding, check sequence, preamble and gap; null if
    /// the interface has one frame
    pub(crate) bits_per_s: Option<f64>,
}

impl Object for Log<'_> {
    const TYPE: &'static str = "log";
    const COMMANDS: &'static [&'static str] = &["log info"];
}
