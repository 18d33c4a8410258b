//! `candor route check`: everything that is wrong or suspicious about a rule file.
//!
//! `candor help json route check` describes what `--json` prints.

use std::collections::BTreeMap;
use std::path::PathBuf;

use candor_diagnostics::{Origin, Severity, counted};
use candor_gateway::control::FindingLine;
use candor_gateway::plan::{Choice, Planned, Refused, plan};
use candor_gateway::plane::PLANES;
use candor_output::say;
use clap::Args;

use super::{Rules, read_rules};
use crate::Answer;
use crate::color;
use crate::json::{line, lines};
use crate::output::{Table, print};

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The rule file or output of `cangw -L`, or - for standard input
    file: PathBuf,
    /// Show who would run each rule with `candor route run`, and why
    #[arg(long)]
    plan: bool,
    /// The --plane of `candor route run`; each rule that it cannot run is an error
    #[arg(long, value_name = "PLANE", default_value = "auto", value_parser = super::planes())]
    plane: Choice,
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
    let rules = read_rules(&args.file)?;
    let planned = planned(&rules, args.plane);
    let Rules { name, table, findings, .. } = rules;
    let [errors, warnings] =
        [Severity::Error, Severity::Warning].map(|severity| findings.count(severity));
    let rules = table.as_ref().map_or(&[][..], |table| &table.rules);
    let planned = planned.iter().filter(|_| args.plan);
    let planned: Vec<_> = planned.filter_map(|it| Some((rules.get(it.rule)?, it))).collect();
    if args.json {
        let findings = lines(findings.sorted().iter().map(FindingLine::new))?;
        let plans = lines(planned)?;
        let summary =
            line(&(name.as_str(), table.as_ref().map(|_| rules.len()), [errors, warnings]))?;
        print(&(findings + &plans + &summary))?;
    } else {
        print(&color::findings(&findings, color::on_stdout()))?;
        if args.plan && table.is_some() && errors == 0 {
            let steps: BTreeMap<_, _> = planned
                .iter()
                .filter_map(|(_, it)| Some((it.plane.title, it.most_steps?)))
                .collect();
            let table = Table::of(planned)
                .column("rule", |(rule, _)| rule.name.clone())
                .column("plane", |(_, it)| it.plane.name.into())
                .column("reason", |(_, it)| it.reason.clone());
            print(&table.text())?;
            for (title, steps) in steps {
                let steps = counted(steps, "step");
                print(&format!(
                    "the rules in {title} take at most {steps} for one frame, without open files\n"
                ))?;
            }
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
    Ok(table.is_some() && errors == 0)
}

/// Which plane runs which rule. What the chosen one cannot run is an error at its rule.
fn planned(rules: &Rules, choice: Choice) -> Vec<Planned> {
    let Rules { table: Some(table), findings, source, .. } = rules else { return Vec::new() };
    plan(table, PLANES, choice).unwrap_or_else(|refused| {
        let title = if let Choice::Only(plane) = choice { plane.title } else { "nothing" };
        for Refused { rule, reason } in refused {
            let Some(rule) = table.rules.get(rule) else { continue };
            let origin = Origin::at(source, rule.position.0, rule.position.1);
            let message = format!("{title} cannot run rule {:?}: {reason}", rule.name);
            findings.error_with_hint(&origin, message, "change it, or use another --plane");
        }
        Vec::new()
    })
}
