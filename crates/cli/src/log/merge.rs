//! `candor log merge`: several recordings as one, by time.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use candor_diagnostics::{counted, did_you_mean, list_of_names};
use candor_output::say;
use candor_recording::{Merge, MergeInput, Recording, Writer};
use clap::Args;

use super::{
    CopySummary, InputArgs, Output, Progress, SortArgs, at_most_one_stdin, explain,
    explain_malformed, report_losses, report_skipped,
};
use crate::Answer;
use crate::duration;
use crate::output::distinct;
use crate::reading::is_sound;

#[derive(Args)]
pub(crate) struct MergeArgs {
    /// The recordings to read; one of them may be - for standard input
    #[arg(required = true, num_args = 2.., value_name = "IN")]
    input_files: Vec<PathBuf>,
    /// The file to write, or - for standard output
    #[arg(value_name = "OUT", required = true)]
    output_file: PathBuf,
    /// Shift the times of a recording, as it is named among IN: b.log=1.5s makes them later, b.log=-250ms earlier (may be repeated)
    #[arg(long = "offset", value_name = "IN=DURATION", allow_hyphen_values = true)]
    offsets: Vec<TimeOffset>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    sorting: SortArgs,
    #[command(flatten)]
    input: InputArgs,
}

/// `b.log=-250ms`
#[derive(Clone)]
struct TimeOffset {
    file: String,
    shift_ns: i64,
}

impl FromStr for TimeOffset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((file, shift)) if !file.is_empty() => {
                Ok(Self { file: file.into(), shift_ns: duration::read_signed(shift)? })
            }
            _ => Err("expected IN=DURATION, such as b.log=-250ms".into()),
        }
    }
}

pub(super) fn run(args: &MergeArgs) -> Answer {
    let shifts_ns = args.shifts_ns()?;
    let open = |file: &PathBuf| Ok(args.sorting.sort(args.input.open(file)?));
    let recordings: Vec<_> = args.input_files.iter().map(open).collect::<Result<_, String>>()?;
    let formats: Vec<_> = recordings.iter().map(Recording::format).collect();
    let writer = args.output.create(&args.output_file)?;
    let format = writer.format();
    let may_use_terminal = args.output_file.as_os_str() != "-";
    let len_bytes = recordings.iter().map(|it| it.len_bytes()).sum();
    let progress = Progress::of(len_bytes, may_use_terminal);
    let mut merge = Merge::new(recordings.into_iter().zip(shifts_ns));
    let Some(copied) = copy(&mut merge, writer, &progress, &args.input_files)? else {
        return Ok(true);
    };
    report(&merge, &args.input_files);
    copied.report(format);
    let names = distinct(formats.iter().map(|format| format.name));
    let records = counted(copied.records, "record");
    let files = counted(args.input_files.len() as u64, "recording");
    say!("{records} of {files}: {} -> {}", names.join(", "), format.name);
    Ok(merge.inputs().iter().all(|input| is_sound(input.recording())))
}

impl MergeArgs {
    /// By how much each of the recordings is shifted.
    fn shifts_ns(&self) -> Result<Vec<i64>, String> {
        at_most_one_stdin(&self.input_files)?;
        for (place, TimeOffset { file, .. }) in self.offsets.iter().enumerate() {
            if !self.input_files.iter().any(|input| input.as_os_str() == file.as_str()) {
                return Err(self.unknown(file));
            }
            if self.offsets[..place].iter().any(|offset| offset.file == *file) {
                return Err(format!("--offset names `{file}` twice; give one sum"));
            }
        }
        let shift = |file: &PathBuf| {
            let is_of = |offset: &&TimeOffset| file.as_os_str() == offset.file.as_str();
            self.offsets.iter().find(is_of).map_or(0, |offset| offset.shift_ns)
        };
        Ok(self.input_files.iter().map(shift).collect())
    }

    fn unknown(&self, file: &str) -> String {
        let names: Vec<_> = self.input_files.iter().filter_map(|file| file.to_str()).collect();
        match did_you_mean(file, names.iter().copied()) {
            Some(meant) => format!("`{file}` in --offset is none of IN; did you mean `{meant}`?"),
            None => {
                let names = list_of_names(names, "and");
                format!("`{file}` in --offset is none of IN; there are {names}")
            }
        }
    }
}

/// Writes all records that the format can hold; `None` if nobody reads on.
fn copy(
    merge: &mut Merge,
    mut writer: Writer,
    progress: &Progress,
    files: &[PathBuf],
) -> Result<Option<CopySummary>, String> {
    let mut done = CopySummary::default();
    loop {
        let entry = match merge.next_any() {
            None => break,
            Some(Ok(entry)) => entry,
            Some(Err((place, error))) => {
                let records = merge.inputs().get(place).map_or(0, |input| input.records());
                let file = files.get(place).map_or(Path::new(""), PathBuf::as_path);
                return Err(explain_malformed(error, records, file));
            }
        };
        done.read += 1;
        match done.write(&mut writer, &entry) {
            Err(error) if error.is_broken_pipe() => return Ok(None),
            written => written.map_err(explain)?,
        }
        let consumed = |merge: &Merge| {
            merge.inputs().iter().map(|input| input.recording().consumed_bytes()).sum()
        };
        progress.show_bytes(done.read, || consumed(merge));
    }
    progress.clear();
    report_losses(&writer);
    match writer.finish() {
        Err(error) if error.is_broken_pipe() => Ok(None),
        finished => finished.map_err(explain).map(|()| Some(done)),
    }
}

/// Says what of the recordings is not as it should be.
fn report(merge: &Merge, files: &[PathBuf]) {
    for (input, file) in merge.inputs().iter().zip(files) {
        report_skipped(input.recording());
        if input.backwards() > 0 && input.recording().sorted().is_none() {
            say!(
                "note: {}: {} stamped earlier than the one before; they stay behind it, so OUT goes back in time there, too; put \
                 them in order with --sort",
                file.display(),
                counted(input.backwards(), "record")
            );
        }
    }
    let other = |input: &MergeInput| input.recording().passed_over().other_packets;
    let other: u64 = merge.inputs().iter().map(other).sum();
    if other > 0 {
        say!("note: what is no frame of CAN or Ethernet was skipped: {other}");
    }
}
