//! `candor route check`: everything that is wrong or suspicious about a rule file.
//!
//! `candor help json route check` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::{Findings, Severity, counted};
use candor_engine::Table;
use candor_gateway::plan::{Choice, Planned, plan};
use candor_gateway::plane::PLANES;
use candor_output::say;
use clap::Args;

use super::{Rules, read_rules};
use crate::Answer;
use crate::color;
use crate::json::check_summary::CheckSummary;
use crate::json::finding::Finding;
use crate::json::plan::Plan;
use crate::json::{line, lines};
use crate::output::print;

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// Show who would run each rule with `candor route run --plane auto`, and why
    #[arg(long)]
    plan: bool,
    /// Print JSON Lines: an object of type "finding" per finding, with --plan one of type "plan" per
    /// rule, then one of type "summary"
    #[arg(long)]
    json: bool,
    /// Print how much memory a gateway needs to read the rules, in bytes
    #[arg(long, hide = true)]
    rehearse: bool,
}

pub(super) fn run(args: &CheckArgs) -> Answer {
    if args.rehearse {
        let bytes = candor_gateway::rehearse(&args.file).map_err(|error| error.to_string())?;
        return print(&format!("{bytes}\n")).map(|()| true);
    }
    let Rules { name, table, findings, .. } = read_rules(&args.file)?;
    let (errors, warnings) = counts(&findings);
    let rules = table.as_ref().map(|table| table.rules.len());
    let planned = match &table {
        // With that plane there is nobody who refuses.
        Some(table) if args.plan => plan(table, PLANES, Choice::Auto).unwrap_or_default(),
        _ => Vec::new(),
    };
    if args.json {
        let findings = lines(findings.sorted().iter().map(Finding::from))?;
        let summary = line(&CheckSummary { file: &name, rules, errors, warnings })?;
        print(&format!(
            "{findings}{}{summary}",
            lines(planned.iter().filter_map(|it| plan_object(table.as_ref()?, it)))?
        ))?;
    } else {
        print(&color::findings(&findings, color::on_stdout()))?;
        if args.plan && table.is_some() {
            let row = |planned: &Planned| {
                let rule = table.as_ref()?.rules.get(planned.rule)?;
                Some(vec![rule.name.clone(), planned.plane.name.into(), planned.reason.clone()])
            };
            let rows: Vec<_> = planned.iter().filter_map(row).collect();
            print(&crate::output::table(&["rule", "plane", "reason"], &rows))?;
        }
    }
    let found = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    match &table {
        Some(table) => {
            let buses = counted(table.buses.len(), "bus");
            say!("{name}: {} on {buses}; {found}", counted(table.rules.len(), "rule"));
        }
        None => say!("{name}: {found}"),
    }
    Ok(table.is_some())
}

/// Who does a rule if can-gw does what it can.
fn plan_object<'a>(table: &'a Table, planned: &Planned) -> Option<Plan<'a>> {
    let rule = table.rules.get(planned.rule)?.name.as_str();
    Some(Plan { rule, plane: planned.plane.name, reason: planned.reason.clone() })
}

fn counts(findings: &Findings) -> (usize, usize) {
    (findings.count(Severity::Error), findings.count(Severity::Warning))
}
