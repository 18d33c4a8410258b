//! `candor lab profile`: where the instructions of a `vm` experiment go.
//!
//! `candor help json lab profile` describes what `--json` prints.

use std::path::{Path, PathBuf};

use candor_diagnostics::noun;
use candor_lab::experiment::Testbed;
use candor_lab::result::ProfileFile;
use candor_lab::runner::Watch;
use candor_lab::vm::{Emulator, Machines};
use candor_lab::{Experiment, compare};
use candor_linux::clock;
use candor_output::say;
use candor_time::{Instant, Monotonic};
use clap::Args;

use super::selection::{Selection, load};
use crate::Answer;
use crate::json;
use crate::output::{Table, print_more, thousands};
use crate::progress::{Pulse, catch_interrupt, is_interrupted};

#[derive(Args)]
pub(crate) struct Profile {
    #[command(flatten)]
    selection: Selection,
    /// How many functions to list; 0 for all
    #[arg(long, default_value_t = 15, value_name = "N")]
    top: usize,
    /// Also store the counts in this folder, for `candor lab compare`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON Lines: objects of type "place" and "function"
    #[arg(long)]
    json: bool,
}

/// Goes on until Ctrl-C, and shows from time to time that it does.
struct UntilInterrupted<'a> {
    experiment: &'a str,
    since: Instant<Monotonic>,
    pulse: Pulse,
}

impl Watch for UntilInterrupted<'_> {
    fn proceed(&self, _: candor_time::Nanos, _: u64) -> bool {
        let now = clock::now();
        if self.pulse.is_due(now) {
            let seconds = (now - self.since).as_nanos() / 1_000_000_000;
            say!("counting {} for {seconds} s", self.experiment);
        }
        !is_interrupted()
    }

    fn note(&self, text: &str) {
        say!("{text}");
    }
}

pub(super) fn profile(arguments: &Profile) -> Answer {
    let campaign = load(&arguments.selection)?;
    let elsewhere =
        campaign.experiments.iter().find(|experiment| experiment.testbed() != Testbed::Vm);
    if let Some(experiment) = elsewhere {
        return Err(format!(
            "{}: only experiments on the vm testbed count instructions; select one with --only, \
             or use --testbed vm",
            experiment.name
        ));
    }
    catch_interrupt();
    let machines =
        Emulator::machines(candor_init::INIT, false).map_err(|error| error.to_string())?;
    let total = campaign.experiments.len();
    let all: Vec<_> = (1..).zip(&campaign.experiments).collect();
    for of_group in all.chunk_by(|(_, a), (_, b)| a.group == b.group) {
        let counts = of_group.iter().map(|(number, experiment)| {
            say!("[{number}/{total}] {}", experiment.name);
            count(&machines, experiment, arguments.out.as_deref())
        });
        let counts: Vec<ProfileFile> = counts.collect::<Result<_, _>>()?;
        let Some(together) = ProfileFile::together(&counts) else { continue };
        let shown = match arguments.json {
            true => lines(&together, arguments.top)?,
            false => text(&together, arguments.top),
        };
        // With --out, the counts are wanted even if nobody reads.
        if !print_more(&shown)? && arguments.out.is_none() {
            break;
        }
    }
    Ok(true)
}

/// Counts the instructions of one experiment, and keeps them if that is wanted.
fn count(
    machines: &Machines,
    experiment: &Experiment,
    out: Option<&Path>,
) -> Result<ProfileFile, String> {
    let watch =
        UntilInterrupted { experiment: &experiment.name, since: clock::now(), pulse: Pulse::new() };
    let counted = machines.profile(experiment, &watch);
    let counted = counted.map_err(|error| format!("{}: {error}", experiment.name))?;
    if let Some(out) = out {
        let kept = compare::keep(out, &counted);
        say!("counts: {}", kept.map_err(|error| error.to_string())?.display());
    }
    Ok(counted)
}

/// How many functions to list.
fn listed(top: usize) -> usize {
    if top == 0 { usize::MAX } else { top }
}

fn text(breakdown: &ProfileFile, top: usize) -> String {
    let profile = &breakdown.profile;
    let per_frame = |instructions: u64| format!("{:.1}", breakdown.per_frame(instructions));
    let share = |instructions: u64| {
        format!("{:.1}", instructions as f64 / profile.instructions.max(1) as f64 * 100.0)
    };
    let places = Table::of(profile.places())
        .column("place", |(place, _)| place.clone())
        .column(">per frame", |(_, instructions)| per_frame(*instructions))
        .column(">%", |(_, instructions)| share(*instructions));
    let functions = Table::of(profile.functions.iter().take(listed(top)))
        .column("function", |it| it.name.clone())
        .column("place", |it| it.place.clone())
        .column(">per frame", |it| per_frame(it.instructions))
        .column(">%", |it| share(it.instructions));
    format!(
        "{}: {} {} for {} {}, {:.1} per frame\n\n{}\n{}\n",
        breakdown.experiment,
        thousands(profile.instructions),
        noun(profile.instructions, "instruction"),
        thousands(breakdown.frames),
        noun(breakdown.frames, "frame"),
        breakdown.per_frame(profile.instructions),
        places.text(),
        functions.text(),
    )
}

fn lines(breakdown: &ProfileFile, top: usize) -> Result<String, String> {
    let places = breakdown.profile.places();
    let places = places.iter().map(|(place, instructions)| (breakdown, &**place, *instructions));
    let functions = breakdown.profile.functions.iter().take(listed(top));
    let functions = functions.map(|function| (breakdown, function));
    Ok(json::lines(places)? + &json::lines(functions)?)
}
