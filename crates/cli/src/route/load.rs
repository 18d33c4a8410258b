//! `candor route load`: a running gateway takes other rules.
//!
//! `--json` prints one object: of type `loaded` with `generation` (how often the rules were changed
//! since the start), `rules` (how many there are) and `took_us`; or for rules that were refused, those
//! of type `finding`, as `candor route check` prints them, and in the end one of type `rejected` with
//! `message`.

use std::path::PathBuf;

use candor_gateway::control::{
    Answer as Reply, ClientError, FindingLine, Loaded, Rejected, Request,
};
use clap::Args;
use serde::Serialize;

use super::gateway::{connect, describe, other_file};
use super::{json_lines, plural};
use crate::Answer;
use crate::output::{duration, json_line, print};

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// The rule file; default: read the gateway's own file again
    file: Option<PathBuf>,
    /// The control socket of the gateway, or its name; default: the gateway with the name of the
    /// file, or the only gateway that runs
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Print JSON Lines: one object of type "loaded"; or objects of type "finding" and one of type
    /// "rejected"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &LoadArgs) -> Answer {
    let file = args.file.as_deref();
    let mut client = connect(file, args.control.as_deref())?;
    if args.control.is_none()
        && let Some(other) = other_file(&client, file)
    {
        return Err(format!(
            "the gateway of this name runs the rules of {other}; to load these instead, name the \
             gateway with --control"
        ));
    }
    let absolute = |file| std::path::absolute(file).map_err(|error| error.to_string());
    let file = file.map(absolute).transpose()?;
    let theirs = client.version().file.clone();
    let shown = file.as_ref().map_or(theirs, |file| file.display().to_string());
    match client.request(&Request::Load { file }) {
        Ok(Reply::Loaded(loaded)) => {
            if args.json {
                print(&json_line(&Line::Loaded(&loaded))?)?;
            }
            eprintln!("{shown}: {}", summary(&loaded));
            Ok(true)
        }
        Ok(other) => Err(client.unexpected(&other).to_string()),
        Err(ClientError::Refused(rejected)) => {
            refuse(&rejected, args.json)?;
            Ok(false)
        }
        Err(error) => Err(describe(error)),
    }
}

fn summary(loaded: &Loaded) -> String {
    let rules = plural(usize::try_from(loaded.rules).unwrap_or(usize::MAX), "rule");
    let took = duration(loaded.took_us as f64 * 1e3);
    format!("{rules} loaded in {took}; change {}", loaded.generation)
}

fn refuse(rejected: &Rejected, json: bool) -> Result<(), String> {
    let Rejected { message, findings } = rejected;
    if json {
        let last = Line::Rejected { message };
        print(&json_lines(findings.iter().map(finding).chain([last]))?)?;
    } else {
        print(&findings.iter().map(|finding| finding.text.as_str()).collect::<String>())?;
    }
    eprintln!("{message}");
    Ok(())
}

fn finding(finding: &FindingLine) -> Line<'_> {
    let FindingLine { severity, file, line, column, message, hint, text: _ } = finding;
    Line::Finding { severity, file, line: *line, column: *column, message, hint: hint.as_deref() }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Loaded(&'a Loaded),
    Finding {
        severity: &'a str,
        file: &'a str,
        line: u32,
        column: u32,
        message: &'a str,
        hint: Option<&'a str>,
    },
    Rejected {
        message: &'a str,
    },
}
