//! `candor route load`: a running gateway takes other rules.
//!
//! `candor help json route load` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_gateway::control::{Answer as Reply, ClientError, Loaded, Rejected, Request};
use candor_output::say;
use clap::Args;

use super::gateway::{connect, describe, other_file};
use crate::Answer;
use crate::json;
use crate::output::{duration, print};

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
                print(&json::line(&loaded)?)?;
            }
            say!("{shown}: {}", summary(&loaded));
            Ok(true)
        }
        Ok(other) => Err(client.unexpected(&other).to_string()),
        Err(ClientError::Refused(rejected)) => refuse(&rejected, args.json),
        Err(error) => Err(describe(error)),
    }
}

fn summary(loaded: &Loaded) -> String {
    let rules = counted(loaded.rules, "rule");
    let took = duration(loaded.took_us as f64 * 1e3);
    format!("{rules} loaded in {took}; change {}", loaded.generation)
}

/// Says why the rules are not in use: they have errors, or something else is in the way.
fn refuse(rejected: &Rejected, json: bool) -> Answer {
    let Rejected { message, findings } = rejected;
    if json {
        print(&(json::lines(findings)? + &json::line(rejected)?))?;
    } else {
        print(&findings.iter().map(|finding| finding.text.as_str()).collect::<String>())?;
    }
    if findings.is_empty() {
        return Err(message.clone());
    }
    say!("{message}");
    Ok(false)
}
