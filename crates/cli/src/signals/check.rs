//! `candor signals check`: everything that is wrong or suspicious about a file of the signal service.

use std::path::PathBuf;

use candor_daemon::rehearsal;
use candor_diagnostics::{Severity, counted};
use candor_output::say;
use clap::Args;

use super::file::{self, Read};
use crate::Answer;
use crate::color;
use crate::output::print;

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The file
    file: PathBuf,
    /// Print how much memory a service needs to read it, in bytes
    #[arg(long, hide = true)]
    rehearse: bool,
}

pub(super) fn run(args: &CheckArgs) -> Answer {
    if args.rehearse {
        let (_, bytes) = rehearsal::measure(|| {
            let config = file::read(&args.file, None).ok()?.config?;
            candor_signal_service::rehearse(config);
            Some(())
        })
        .map_err(|error| error.to_string())?;
        return print(&format!("{bytes}\n")).map(|()| true);
    }
    let Read { config, findings, .. } = file::read(&args.file, None)?;
    print(&color::findings(&findings, color::on_stdout()))?;
    let count = |severity, word| counted(findings.count(severity), word);
    let found =
        format!("{}, {}", count(Severity::Error, "error"), count(Severity::Warning, "warning"));
    let name = args.file.display();
    match &config {
        Some(config) => {
            let signals: usize = config.sources.iter().map(file::signals).sum();
            let buses = counted(config.sources.len(), "bus");
            say!("{name}: {} on {buses}; {found}", counted(signals, "signal"));
        }
        None => say!("{name}: {found}"),
    }
    Ok(config.is_some())
}
