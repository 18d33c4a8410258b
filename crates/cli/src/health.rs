//! `--check` of `candor route stats` and `candor signals stats`: whether what runs is well.

use candor_daemon::health::{MaxSilence, Problem};
use candor_diagnostics::visible;
use clap::Args;

use crate::Answer;
use crate::json::{self, objects};
use crate::output::print;

#[derive(Args)]
pub(crate) struct HealthArgs {
    /// Print what is not as it should be, one a line, in place of the counts. Exits with 1 if there is something
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: for how long each bus, or the one that is named, may be without a frame; 1s or more;
    /// may be repeated
    #[arg(long, value_name = "[BUS=]TIME", requires = "check")]
    pub(crate) max_silence: Vec<MaxSilence>,
}

/// Tells what is wrong. True if nothing is.
pub(crate) fn report(problems: Result<Vec<Problem>, String>, json: bool) -> Answer {
    let problems = problems.map_err(|reason| format!("--max-silence: {reason}"))?;
    let is_well = problems.is_empty();
    print(&match (json, is_well) {
        (true, _) => json::lines(&problems)? + &json::line(&(is_well, problems.len()))?,
        (false, true) => "ok\n".to_owned(),
        // A service may be somebody else's.
        (false, false) => {
            let lines = problems.iter().map(|problem| problem.to_string());
            lines.map(|line| format!("{}\n", visible(&line))).collect()
        }
    })?;
    Ok(is_well)
}

objects! {
    /// Something that is not as it should be; only with --check.
    "problem" of "route stats", "signals stats" for Problem as it {
        /// The bus that has it; null if it is none of a bus
        bus;
        /// What it is
        text;
    }

    /// Whether there are problems, with --check; it comes last.
    "health" of "route stats", "signals stats" for (bool, usize) as (is_well, problems) {
        /// Whether there are none
        ok = *is_well;
        /// How many there are
        problems = *problems;
    }
}
