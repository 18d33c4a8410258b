//! The part of the page that shows the same experiments on one kernel after the other.

use serde::Serialize;

use crate::group::Range;
use crate::history::{Change, Point};

/// An experiment on one kernel after the other: those of a Debian, with or without PREEMPT_RT.
#[derive(Serialize)]
pub(super) struct Past {
    experiment: String,
    /// Such as `deb13, -rt`.
    built_by: String,
    releases: Vec<Release>,
}

/// Its figures on one of them: the smallest and the largest over the seeds.
#[derive(Serialize)]
struct Release {
    release: String,
    p50_ns: Option<(f64, f64)>,
    p999_ns: Option<(f64, f64)>,
    instructions: Option<(f64, f64)>,
    lost: u64,
    changes: Vec<Changed>,
}

/// A figure that is other than on the release before by more than boots explain.
#[derive(Serialize)]
struct Changed {
    figure: &'static str,
    before: f64,
    after: f64,
    /// Functions on the way of a frame, with the instructions per frame that they take more.
    functions: Vec<(String, f64)>,
}

/// What ran on two releases of a line, or on more.
pub(super) fn past(points: Vec<Point>) -> Vec<Past> {
    let mut all: Vec<Past> = Vec::new();
    for point in points {
        let built_by = point.line.to_string();
        let release = Release {
            release: point.release,
            p50_ns: point.p50_ns.map(ends),
            p999_ns: point.p999_ns.map(ends),
            instructions: point.instructions.map(ends),
            lost: point.lost,
            changes: changed(&point.changes),
        };
        match all.last_mut() {
            Some(it) if it.experiment == point.experiment && it.built_by == built_by => {
                it.releases.push(release);
            }
            _ => all.push(Past { experiment: point.experiment, built_by, releases: vec![release] }),
        }
    }
    all.retain(|it| it.releases.len() > 1);
    all
}

fn ends(range: Range) -> (f64, f64) {
    (range.least, range.most)
}

fn changed(changes: &[Change]) -> Vec<Changed> {
    let one = |change: &Change| Changed {
        figure: change.figure,
        before: change.before,
        after: change.after,
        functions: change
            .functions
            .iter()
            .map(|it| (it.function.clone(), it.difference()))
            .collect(),
    };
    changes.iter().map(one).collect()
}
