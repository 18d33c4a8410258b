//! `candor lab list --coverage`: which part of the papers' matrix a campaign covers.
//!
//! `candor help json coverage` and `candor help json coverage_total` describe what `--json` prints.

use candor_diagnostics::counted;
use candor_lab::Experiment;
use candor_lab::coverage::{Coverage, GATEWAYS, LOADS, PUBLISHED, PUBLISHED_KERNELS, TRAFFICS};

use crate::json;
use crate::output::Table;

/// Combinations of traffic and load.
pub(crate) const CONDITIONS: usize = TRAFFICS.len() * LOADS.len();

/// What a campaign covers, for people.
pub(super) fn text(experiments: &[Experiment]) -> String {
    let coverage = Coverage::new(experiments);
    let kernels: Vec<_> = coverage.kernels().collect();
    let mut table = Table::of(GATEWAYS).column("gateway", |gateway| (*gateway).to_owned());
    for kernel in &kernels {
        table = table.column(format!(">{kernel}"), |gateway| {
            let missing = coverage.missing(kernel, gateway).len();
            format!("{} of {CONDITIONS}", CONDITIONS - missing)
        });
    }
    let mut out = if kernels.is_empty() { String::new() } else { table.text() + "\n" };
    let (covered, size) = (coverage.covered(), coverage.size());
    out.push_str(&format!(
        "{covered} of {size} combinations on {}: {} gateways, {} traffics, {} loads\n",
        counted(kernels.len(), "kernel"),
        GATEWAYS.len(),
        TRAFFICS.len(),
        LOADS.len()
    ));
    let missing =
        [("traffic", missing_by_traffic(&coverage)), ("load", missing_by_load(&coverage))];
    for (axis, missing) in missing {
        let counts = missing.map(|(name, count)| format!("{name} {count}"));
        out.push_str(&format!("missing by {axis}: {}\n", counts.join(", ")));
    }
    out.push_str(&format!(
        "the papers: {PUBLISHED} experiments on {PUBLISHED_KERNELS} kernels, which they do not list; \
         this matrix has {} on as many\n",
        PUBLISHED_KERNELS * Coverage::PER_KERNEL
    ));
    out
}

/// The same as JSON Lines.
pub(super) fn lines(experiments: &[Experiment]) -> Result<String, String> {
    let coverage = Coverage::new(experiments);
    let gateways = |kernel| GATEWAYS.into_iter().map(move |gateway| (kernel, gateway));
    let objects = coverage.kernels().flat_map(gateways);
    let objects = objects.map(|(kernel, gateway)| (&coverage, kernel, gateway));
    Ok(json::lines(objects)? + &json::line(&coverage)?)
}

/// What is missing of a gateway on a kernel: traffic and load.
pub(crate) fn missing(coverage: &Coverage, kernel: &str, gateway: &str) -> Vec<[&'static str; 2]> {
    coverage.missing(kernel, gateway).into_iter().map(<[_; 2]>::from).collect()
}

/// All combinations that are missing: traffic and load.
fn all_missing(coverage: &Coverage) -> Vec<[&'static str; 2]> {
    let of = |kernel| GATEWAYS.iter().flat_map(move |gateway| missing(coverage, kernel, gateway));
    coverage.kernels().flat_map(of).collect()
}

/// How many combinations are missing, by traffic.
pub(crate) fn missing_by_traffic(coverage: &Coverage) -> [(&'static str, usize); TRAFFICS.len()] {
    let missing = all_missing(coverage);
    TRAFFICS.map(|name| (name, missing.iter().filter(|[traffic, _]| *traffic == name).count()))
}

/// The same by load.
pub(crate) fn missing_by_load(coverage: &Coverage) -> [(&'static str, usize); LOADS.len()] {
    let missing = all_missing(coverage);
    LOADS.map(|name| (name, missing.iter().filter(|[_, load]| *load == name).count()))
}
