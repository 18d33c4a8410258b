//! `candor route compile`: rules as a program image, for readers in other languages.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_engine::Program;
use clap::Args;

use super::{Rules, read_rules};
use crate::Answer;
use crate::color;
use crate::output::thousands;
use crate::overwrite::Overwriting;

#[derive(Args)]
pub(crate) struct CompileArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    /// The image to write
    #[arg(short, long, value_name = "IMAGE")]
    output: PathBuf,
    #[command(flatten)]
    overwriting: Overwriting,
}

pub(super) fn run(args: &CompileArgs) -> Answer {
    let Rules { name, table, findings, .. } = read_rules(&args.rules)?;
    color::eprint_findings(&findings);
    let Some(table) = table else { return Ok(false) };
    let image = Program::new(&table).to_image();
    // Nothing is written that no reader takes.
    if let Err(error) = Program::from_image(&image) {
        return Err(format!("{name}: there is no image of these rules: {error}"));
    }
    args.overwriting.write(&args.output, &image)?;
    let (rules, buses) = (counted(table.rules.len(), "rule"), counted(table.buses.len(), "bus"));
    eprintln!(
        "{}: {rules} on {buses}, {} bytes",
        args.output.display(),
        thousands(image.len() as u64)
    );
    Ok(true)
}
