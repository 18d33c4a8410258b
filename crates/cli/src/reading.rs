//! [`ReadingArgs`]: how recordings are read.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use candor_bus::outlet::Stop;
use candor_diagnostics::{did_you_mean, list_of_names};
use candor_linux::file::{Interruptible, open_at_once};
use candor_output::say;
use candor_recording::{CanUdp, Encoder, Format, Recording, RecordingError};
use clap::Args;

use crate::file_kind::FileKind;

/// How recordings are read.
#[derive(Args)]
pub(crate) struct ReadingArgs {
    /// Skip malformed records and report how many there were
    #[arg(long)]
    skip_malformed: bool,
    /// The UDP port whose datagrams in captures of Ethernet are CAN frames (can2udp); none: they stay Ethernet frames
    #[arg(long, value_name = "PORT", default_value = "4858")]
    can_udp: CanUdp,
}

impl ReadingArgs {
    /// Opens a recording, of this format if it is not to be detected.
    pub(crate) fn open(
        &self,
        file: &Path,
        format: Option<&'static Format>,
    ) -> Result<Recording, String> {
        self.opened(file, candor_recording::open(file, format))
    }

    /// The same, of any format, but `stop` ends the waiting for a pipe that is silent: here with `None`, and later with an error that
    /// [is a pause](RecordingError::is_pause).
    pub(crate) fn open_until(
        &self,
        file: &Path,
        stop: &'static Stop,
    ) -> Result<Option<Recording>, String> {
        let look = || match stop.load(Ordering::Relaxed) {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(()),
        };
        let opened = if file.as_os_str() == "-" {
            let input = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string());
            let input = Interruptible::new(File::from(input?), look);
            Recording::new("standard input", input, None)
        } else {
            match open_at_once(file) {
                Ok(pipe) => candor_recording::open_through(file, pipe, None, |pipe| {
                    Interruptible::new(pipe, look)
                }),
                failed => candor_recording::open_file(file, failed, None),
            }
        };
        match opened {
            Err(error) if error.is_pause() => Ok(None),
            opened => Ok(Some(self.opened(file, opened)?.before_reading(look))),
        }
    }

    fn opened(
        &self,
        file: &Path,
        opened: Result<Recording, RecordingError>,
    ) -> Result<Recording, String> {
        let recording = opened.map_err(|error| {
            FileKind::Recording.mix_up(file).unwrap_or_else(|| error.to_string())
        })?;
        let skips = self.skip_malformed;
        Ok(recording.skip_malformed(skips).end_at_malformed(skips).can_udp(self.can_udp))
    }
}

/// Whether a recording that was read has an interface of this name; says so if not. Nothing is said of one without any.
pub(crate) fn has_interface(name: &str, recording: &Recording) -> bool {
    let names: Vec<_> = recording.interfaces().iter().map(|(_, name)| name).collect();
    let is_there = names.is_empty() || names.contains(&name);
    if !is_there {
        match did_you_mean(name, names.iter().copied()) {
            Some(meant) => say!("note: no frame is of interface `{name}`; did you mean `{meant}`?"),
            None => {
                let names = list_of_names(names.iter().copied(), "and");
                say!("note: no frame is of interface `{name}`; there are those of {names}");
            }
        }
    }
    is_there
}

/// False if no checksum confirms what was read at last of what the recording is compressed with, or nothing was read behind a
/// malformed record.
pub(crate) fn is_confirmed(recording: &Recording) -> bool {
    recording.unverified().is_none() && recording.skipped().end.is_none()
}

/// The same, or if not all of it could be sorted.
pub(crate) fn is_sound(recording: &Recording) -> bool {
    is_confirmed(recording) && recording.sorted().is_none_or(|sorted| sorted.late == 0)
}

/// What writes frames as candump does.
pub(crate) fn candump_lines() -> Result<Box<dyn Encoder>, String> {
    // Every list of formats has candump's.
    let format = Format::by_name("candump").ok_or("there is no format candump")?;
    Ok(format.encoder(&mut Vec::new()))
}
