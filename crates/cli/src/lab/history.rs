//! `candor lab history`: the same experiments on one kernel after the other.
//!
//! `candor help json lab history` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_lab::compare::{ENOUGH_BOOTS, FunctionChange, Side};
use candor_lab::glob;
use candor_lab::group::Range;
use candor_lab::history::{Change, Mixed, Point, history as of};
use candor_output::say;
use clap::Args;

use super::ranges::{duration_range, number_range, signed};
use crate::Answer;
use crate::json;
use crate::output::{Table, print, thousands};

#[derive(Args)]
pub(crate) struct History {
    /// The folders with results, and with the counts of `candor lab profile --out` if functions are to be named
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Select experiments by name; * stands for any characters, ? for one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Print JSON Lines: an object of type "point" per experiment and release
    #[arg(long)]
    json: bool,
}

pub(super) fn history(arguments: &History) -> Answer {
    let mut all = Side::default();
    for dir in &arguments.dirs {
        let side = Side::read(dir).map_err(|error| error.to_string())?;
        all.results.extend(side.results);
        all.profiles.extend(side.profiles);
    }
    let found = of(&all);
    for Mixed { experiment, setting, values: [one, other] } in &found.mixed {
        say!(
            "left out: `{experiment}` ran with two values of {setting}: {} and {}; give the folders of one of them",
            shown(one),
            shown(other)
        );
    }
    for experiment in &found.too_few_boots {
        say!(
            "`{experiment}` has a release with fewer than {ENOUGH_BOOTS} boots, so nothing is said of changes there; run it without --seed"
        );
    }
    let mut points = found.points;
    if points.is_empty() && !found.mixed.is_empty() {
        return Err("no experiment ran with the same settings on all kernels".into());
    }
    if points.is_empty() {
        return Err(
            "the folders have no results of kernels; run a file with testbed = \"vm\" first".into(),
        );
    }
    let is_idle = |glob: &&String| !points.iter().any(|it| glob::matches(glob, &it.experiment));
    if let Some(glob) = arguments.only.iter().find(is_idle) {
        return Err(format!(
            "no experiment matches `{glob}`; names are without that of the kernel"
        ));
    }
    points.retain(|point| glob::is_meant(&arguments.only, &point.experiment));
    match arguments.json {
        true => print(&json::lines(&points)?)?,
        false => print(&text(&points))?,
    }
    let changed = points.iter().filter(|point| !point.changes.is_empty()).count();
    say!(
        "{} on {} of a kernel, {} with a figure that boots do not explain other than on the release before",
        counted(distinct(points.iter().map(|it| &it.experiment)), "experiment"),
        counted(distinct(points.iter().map(|it| (&it.line, &it.release))), "release"),
        thousands(changed as u64)
    );
    Ok(true)
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "none" } else { value }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> usize {
    values.collect::<std::collections::BTreeSet<_>>().len()
}

fn text(points: &[Point]) -> String {
    let times =
        |range: Option<Range>| range.map_or(String::new(), |it| duration_range(it.least, it.most));
    let numbers = |it: Range| number_range(it.least, it.most, 0);
    Table::of(points)
        .column("experiment", |it| it.experiment.clone())
        .column("built by", |it| it.line.to_string())
        .column("release", |it| it.release.clone())
        .column(">p50", |it| times(it.p50_ns))
        .column(">p99.9", |it| times(it.p999_ns))
        .column(">instructions", |it| it.instructions.map_or(String::new(), numbers))
        .column(">lost", |it| thousands(it.lost))
        .column("change", |it| changes(&it.changes))
        .text()
}

/// Such as `min +600 ns, path +612 ns: cgw_csum_xor_rel +89`. Functions are those of the experiment, so of all its figures.
fn changes(changes: &[Change]) -> String {
    let figure = |change: &Change| {
        let unit = if ["instructions", "lost"].contains(&change.figure) { "" } else { " ns" };
        format!("{} {}{unit}", change.figure, signed(change.after - change.before, 0))
    };
    let figures = changes.iter().map(figure).collect::<Vec<_>>().join(", ");
    let function = |it: &FunctionChange| format!("{} {}", it.function, signed(it.difference(), 0));
    let functions = changes.first().map_or(&[][..], |change| &change.functions);
    let functions: Vec<_> = functions.iter().map(function).collect();
    if functions.is_empty() { figures } else { format!("{figures}: {}", functions.join(", ")) }
}
