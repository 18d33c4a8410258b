//! `candor route compile`: rules as a program image, for readers in other languages.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_engine::Program;
use candor_output::say;
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
    /// The image to write, or - for standard output
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
    if args.output.as_os_str() != "-" && is_same_file(&args.rules, &args.output) {
        let path = args.output.display();
        return Err(format!("{path}: the image would replace its own rules; choose another name"));
    }
    args.overwriting.write(&args.output, &image)?;
    let (rules, buses) = (counted(table.rules.len(), "rule"), counted(table.buses.len(), "bus"));
    say!("{}: {rules} on {buses}, {} bytes", args.output.display(), thousands(image.len() as u64));
    Ok(true)
}

/// Whether both names lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}
