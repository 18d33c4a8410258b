//! `candor route check`: everything that is wrong or suspicious about a rule file.
//!
//! `--json` prints one object per finding, of type `finding` with `severity`, `file`, `line`,
//! `column` (from 1, 0 if it has no place), `message` and `hint` (or null), then one of type
//! `summary` with `file`, `rules` (null if there are errors), `errors` and `warnings`. With `--plan`
//! one object per rule, of type `plan`, comes before the summary: `rule`, `plane` (`user` or
//! `kernel`) and `reason`.

use std::path::PathBuf;

use candor_config::{Finding, Findings, Severity};
use candor_gateway::plan::{Plane, Planned, plan};
use candor_route::Table;
use clap::Args;
use serde::Serialize;

use super::{Rules, json_lines, plural, read_rules};
use crate::Answer;
use crate::color;
use crate::output::print;

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// Show who would run each rule with `candor route run --plane auto`, and why
    #[arg(long)]
    plan: bool,
    /// Print JSON Lines: one object of type "finding" per finding, then one of type "summary"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Answer {
    let Rules { name, table, findings, .. } = read_rules(&args.file)?;
    let (errors, warnings) = counts(&findings);
    let rules = table.as_ref().map(|table| table.rules.len());
    let planned = match &table {
        Some(table) if args.plan => planned(table),
        _ => Vec::new(),
    };
    if args.json {
        let findings = findings.sorted();
        let lines = findings.iter().map(|finding| Line::Finding(finding_line(finding)));
        let summary = Line::Summary(SummaryLine { file: &name, rules, errors, warnings });
        let planned = planned.into_iter().map(Line::Plan);
        print(&json_lines(lines.chain(planned).chain([summary]))?)?;
    } else {
        print(&color::findings(&findings, color::on_stdout()))?;
        if args.plan && table.is_some() {
            let row = |line: PlanLine| vec![line.rule, line.plane.to_owned(), line.reason];
            let rows: Vec<_> = planned.into_iter().map(row).collect();
            print(&crate::output::table(&["rule", "plane", "reason"], &rows))?;
        }
    }
    let found = format!("{}, {}", plural(errors, "error"), plural(warnings, "warning"));
    match &table {
        Some(table) => {
            let buses = plural(table.buses.len(), "bus");
            eprintln!("{name}: {} on {buses}; {found}", plural(table.rules.len(), "rule"));
        }
        None => eprintln!("{name}: {found}"),
    }
    Ok(table.is_some())
}

/// Who does which rule if can-gw does what it can.
fn planned(table: &Table) -> Vec<PlanLine> {
    // With that plane there is nobody who refuses.
    let planned = plan(table, Plane::Auto).unwrap_or_default();
    let line = |planned: Planned| {
        let rule = table.rules.get(planned.rule)?.name.clone();
        Some(PlanLine { rule, plane: planned.doer.name(), reason: planned.reason })
    };
    planned.into_iter().filter_map(line).collect()
}

fn counts(findings: &Findings) -> (usize, usize) {
    (findings.count(Severity::Error), findings.count(Severity::Warning))
}

fn finding_line(finding: &Finding) -> FindingLine<'_> {
    let (line, column) = finding.origin.line_column();
    FindingLine {
        severity: finding.severity.name(),
        file: finding.origin.source().name(),
        line,
        column,
        message: &finding.message,
        hint: finding.hint.as_deref(),
    }
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
enum Line<'a> {
    Finding(FindingLine<'a>),
    Plan(PlanLine),
    Summary(SummaryLine<'a>),
}

#[derive(Serialize)]
struct FindingLine<'a> {
    severity: &'static str,
    file: &'a str,
    line: u32,
    column: u32,
    message: &'a str,
    hint: Option<&'a str>,
}

#[derive(Serialize)]
struct PlanLine {
    rule: String,
    plane: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct SummaryLine<'a> {
    file: &'a str,
    rules: Option<usize>,
    errors: usize,
    warnings: usize,
}
