//! `candor log cut`: a part of a recording, by time, identifier, group number, message and interface.

use std::path::PathBuf;

use candor_bus::criteria::{Criteria, Group, Moment};
use candor_bus::select::Selection;
use candor_diagnostics::counted;
use candor_output::say;
use candor_recording::{AnyRecord, Entry};
use clap::Args;

use super::{InputArgs, Output, SortArgs, write_copy};
use crate::Answer;
use crate::bus::view;
use crate::reading::{has_interface, is_sound};

#[derive(Args)]
pub(crate) struct CutArgs {
    /// The recording to read, or - for standard input
    #[arg(value_name = "IN")]
    input_file: PathBuf,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT")]
    output_file: PathBuf,
    /// Keep frames from this moment on: so long after the first frame (10s, 250ms), or a stamp in seconds with decimals, such as
    /// `log info` shows (1436509052.25, since 1970)
    #[arg(long, value_name = "T")]
    after: Option<Moment>,
    /// Keep frames before this moment, written as for --after; a frame at it is not kept
    #[arg(long, value_name = "T")]
    before: Option<Moment>,
    /// Keep frames by identifier: 0x123, 0x18FEF100x (extended), 0x120/0x7F0, 0x100-0x1FF, 123:7FF, 'remote 0x123', error; ! in
    /// front excludes (may be repeated, or a list with commas)
    #[arg(short = 'i', long = "id", value_name = "PATTERN")]
    ids: Vec<String>,
    /// Keep frames of this group of SAE J1939, by its number, such as 61444 or 0xF004 (may be repeated)
    #[arg(long = "pgn", value_name = "PGN")]
    groups: Vec<Group>,
    /// Keep frames of this interface, also those of Ethernet (may be repeated)
    #[arg(long = "bus", value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Keep messages of this name or pattern (`*`, `?`) in the DBC file (may be repeated)
    #[arg(long = "message", value_name = "NAME", requires = "dbc")]
    messages: Vec<String>,
    /// The DBC file that names messages
    #[arg(long, value_name = "FILE", requires = "messages")]
    dbc: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    sorting: SortArgs,
    #[command(flatten)]
    input: InputArgs,
}

/// False if no frame was kept.
pub(super) fn run(args: &CutArgs) -> Answer {
    let criteria = args.criteria()?;
    let mut recording = args.sorting.sort(args.input.open(&args.input_file)?);
    let writer = args.output.create(&args.output_file)?;
    let format = writer.format();
    let mut first_ns = None;
    let is_wanted = |entry: &Entry<'_>| {
        let time_ns = entry.record.time_ns();
        let frame = match &entry.record {
            AnyRecord::Can(record) => Some(&record.frame),
            AnyRecord::Ethernet(_) => None,
        };
        let first_ns = *first_ns.get_or_insert(time_ns);
        criteria.takes(first_ns, time_ns, entry.interface, frame)
    };
    let Some(copied) = write_copy(&mut recording, writer, args.files(), is_wanted)? else {
        return Ok(true);
    };
    for name in &args.interfaces {
        has_interface(name, &recording);
    }
    let read = counted(copied.read, "frame");
    say!("{} of {read} kept: {} -> {}", copied.records, recording.format().name, format.name);
    Ok(copied.records > 0 && is_sound(&recording))
}

impl CutArgs {
    fn files(&self) -> super::Files<'_> {
        super::Files { input: &self.input_file, output: &self.output_file }
    }

    fn criteria(&self) -> Result<Criteria, String> {
        if let (Some(after), Some(before)) = (self.after, self.before)
            && after.is_never_before(before)
        {
            return Err("no time is in --after and in --before; --after must be the earlier".into());
        }
        let ids = self.ids.iter().map(String::as_str);
        let view = |path| view(path, &self.messages, &[]);
        Ok(Criteria {
            from: self.after,
            until: self.before,
            interfaces: self.interfaces.clone(),
            ids: Selection::parse(ids).map_err(|error| error.to_string())?,
            groups: self.groups.clone(),
            messages: self.dbc.as_deref().map(view).transpose()?,
        })
    }
}
