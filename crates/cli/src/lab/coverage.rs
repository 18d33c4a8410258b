//! `candor lab list --coverage`: which part of the papers' matrix a campaign covers.
//!
//! `candor help json coverage` and `candor help json coverage_total` describe what `--json` prints.

use candor_diagnostics::counted;
use candor_lab::Experiment;
use candor_lab::coverage::{Coverage, GATEWAYS, LOADS, PUBLISHED, PUBLISHED_KERNELS, TRAFFICS};

use crate::json;
use crate::json::lab::coverage::Covered;
use crate::json::lab::coverage_total::CoveredInAll;
use crate::output::table;

/// Combinations of traffic and load.
const CONDITIONS: usize = TRAFFICS.len() * LOADS.len();

/// What a campaign covers, for people.
pub(super) fn text(experiments: &[Experiment]) -> String {
    let coverage = Coverage::new(experiments);
    let kernels: Vec<_> = coverage.kernels().collect();
    let heads: Vec<_> = kernels.iter().map(|kernel| format!(">{kernel}")).collect();
    let head: Vec<_> = ["gateway"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let row = |gateway: &&str| {
        let cell = |kernel: &&str| {
            let missing = coverage.missing(kernel, gateway).len();
            format!("{} of {CONDITIONS}", CONDITIONS - missing)
        };
        [(*gateway).to_owned()].into_iter().chain(kernels.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = GATEWAYS.iter().map(row).collect();
    let mut out = if kernels.is_empty() { String::new() } else { table(&head, &rows) + "\n" };
    let (covered, size) = (coverage.covered(), coverage.size());
    out.push_str(&format!(
        "{covered} of {size} combinations on {}: {} gateways, {} traffics, {} loads\n",
        counted(kernels.len(), "kernel"),
        GATEWAYS.len(),
        TRAFFICS.len(),
        LOADS.len()
    ));
    for (axis, missing) in by_axis(&coverage) {
        let counts: Vec<_> =
            missing.iter().map(|(name, count)| format!("{name} {count}")).collect();
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
    let object = |kernel, gateway| {
        let missing = coverage.missing(kernel, gateway);
        Covered {
            covered: CONDITIONS - missing.len(),
            gateway,
            kernel,
            missing: missing.into_iter().map(|(traffic, load)| [traffic, load]).collect(),
            of: CONDITIONS,
        }
    };
    let gateways = |kernel| GATEWAYS.into_iter().map(move |gateway| (kernel, gateway));
    let objects = coverage.kernels().flat_map(gateways);
    let [(_, traffics), (_, loads)] = by_axis(&coverage);
    let total = CoveredInAll {
        covered: coverage.covered(),
        kernels: coverage.kernels().collect(),
        missing_by_load: loads.into_iter().collect(),
        missing_by_traffic: traffics.into_iter().collect(),
        of: coverage.size(),
        published: PUBLISHED,
    };
    let objects = objects.map(|(kernel, gateway)| object(kernel, gateway));
    Ok(format!("{}{}", json::lines(objects)?, json::line(&total)?))
}

/// How many combinations are missing, by traffic and by load.
fn by_axis(coverage: &Coverage) -> [(&'static str, Vec<(&'static str, usize)>); 2] {
    let missing: Vec<_> = coverage
        .kernels()
        .flat_map(|kernel| GATEWAYS.iter().flat_map(|gateway| coverage.missing(kernel, gateway)))
        .collect();
    let count = |is: &dyn Fn(&(&str, &str)) -> bool| missing.iter().filter(|cell| is(cell)).count();
    let traffics = TRAFFICS.map(|name| (name, count(&|cell| cell.0 == name)));
    let loads = LOADS.map(|name| (name, count(&|cell| cell.1 == name)));
    [("traffic", traffics.to_vec()), ("load", loads.to_vec())]
}
