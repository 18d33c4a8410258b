//! `candor lab report`.

use std::path::PathBuf;

use candor_lab::report::{self, Besides};
use candor_output::say;
use clap::Args;

use crate::Answer;
use crate::overwrite::Overwriting;

#[derive(Args)]
pub(crate) struct Report {
    /// The folder with the results
    dir: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

pub(super) fn report(arguments: &Report) -> Answer {
    let dir = &arguments.dir;
    arguments.overwriting.folder(dir)?;
    report::write(dir, Besides::default()).map_err(|error| error.to_string())?;
    say!("report: {}", dir.join("index.html").display());
    Ok(true)
}
