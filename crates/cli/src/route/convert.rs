//! `candor route convert`: rule files to commands of cangw and back.

use std::path::{Path, PathBuf};

use candor_diagnostics::counted;
use candor_output::say;
use candor_rules::{cangw, file};
use clap::Args;

use super::{Notation, Rules, read_rules};
use crate::Answer;
use crate::color;
use crate::output::print;
use crate::overwrite::Overwriting;

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// The rule file or commands of cangw to read, or - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write; default, or with -: standard output
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// The notation to write; default: by the extension of OUT, else the one that IN does not use
    #[arg(long, value_name = "NOTATION")]
    to: Option<Notation>,
    #[command(flatten)]
    overwriting: Overwriting,
}

pub(super) fn run(args: &ConvertArgs) -> Answer {
    let Rules { name, notation, table, findings, .. } = read_rules(&args.input)?;
    color::eprint_findings(&findings);
    let Some(table) = table else { return Ok(false) };
    let output = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    let by_ending = output.and_then(Path::extension).and_then(|ending| match ending.to_str()? {
        "toml" => Some(Notation::Toml),
        "sh" | "cangw" => Some(Notation::Cangw),
        _ => None,
    });
    let other = if notation == Notation::Toml { Notation::Cangw } else { Notation::Toml };
    let text = match args.to.or(by_ending).unwrap_or(other) {
        Notation::Toml => file::write(&table),
        Notation::Cangw => match cangw::export(&table) {
            Ok(text) => text,
            Err(failures) => {
                for failure in failures {
                    let Some(rule) = table.rules.get(failure.rule) else { continue };
                    let (line, column) = rule.position;
                    let place = format!("{name}:{line}:{column}");
                    say!(
                        "{place}: error: cangw cannot express {:?}: {}",
                        rule.name,
                        failure.reason
                    );
                }
                return Ok(false);
            }
        },
    };
    match output {
        None => print(&text)?,
        Some(path) => args.overwriting.write(path, text.as_bytes())?,
    }
    say!("{}", counted(table.rules.len(), "rule"));
    Ok(true)
}
