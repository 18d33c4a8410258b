//! `candor lab list`.
//!
//! `candor help json lab list` describes what `--json` prints.

use std::collections::BTreeSet;

use candor_diagnostics::noun;
use candor_lab::Experiment;
use candor_lab::experiment::{MachineChoice, Testbed};
use candor_output::say;
use clap::Args;

use super::coverage;
use super::selection::{Selection, load};
use crate::Answer;
use crate::json::lines;
use crate::output::{print, thousands};

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    selection: Selection,
    /// Show instead which part of the papers' matrix of 653 experiments the file covers
    #[arg(long)]
    coverage: bool,
    /// Print JSON Lines: one object of type "experiment" per experiment; with --coverage, of type
    /// "coverage" and last "coverage_total"
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &List) -> Answer {
    let campaign = load(&arguments.selection)?;
    if arguments.coverage {
        let experiments = &campaign.experiments;
        print(&match arguments.json {
            true => coverage::lines(experiments)?,
            false => coverage::text(experiments),
        })?;
        return Ok(true);
    }
    if arguments.json {
        print(&lines(&campaign.experiments)?)?;
    } else {
        let width = campaign.experiments.iter().map(|experiment| experiment.name.len()).max();
        let width = width.unwrap_or(0);
        let line = |experiment: &Experiment| {
            let machine = machine(experiment).map_or_else(String::new, |it| format!("  {it}"));
            format!("{:width$}  {}{machine}\n", experiment.name, experiment.testbed())
        };
        print(&campaign.experiments.iter().map(line).collect::<String>())?;
        say!("{}", how_many(&campaign.experiments));
    }
    Ok(true)
}

/// The virtual machine of an experiment, if it has one.
fn machine(experiment: &Experiment) -> Option<&MachineChoice> {
    Some(&experiment.vm()?.machine)
}

/// How many experiments there are, and where.
fn how_many(experiments: &[Experiment]) -> String {
    let number = |number: usize| thousands(number as u64);
    let in_testbed = |testbed: Testbed| {
        experiments.iter().filter(|experiment| experiment.testbed() == testbed).count()
    };
    let machines: BTreeSet<_> = experiments.iter().filter_map(machine).collect();
    let parts = Testbed::ALL.into_iter().filter_map(|testbed| {
        let on = match (testbed, machines.len()) {
            (Testbed::Sim, _) => String::new(),
            (Testbed::Host, _) => " with processes of this machine".into(),
            (Testbed::Vm, 1) => " on one machine".into(),
            (Testbed::Vm, machines) => format!(" on {} machines", number(machines)),
        };
        let count = in_testbed(testbed);
        (count > 0).then(|| format!("{} in {testbed}{on}", number(count)))
    });
    let parts: Vec<_> = parts.collect();
    let what = noun(experiments.len(), "experiment");
    format!("{} {what}: {}", number(experiments.len()), parts.join(", "))
}
