//! `candor lab list --coverage`: which part of the papers' matrix a campaign covers.
//!
//! `--json` prints an object of type `coverage` per kernel and gateway: `kernel`, `gateway`, `covered`,
//! `of`, `missing` (pairs of traffic and load); then one of type `coverage_total`: `kernels`, `covered`,
//! `of`, `published` (653), `missing_by_traffic` and `missing_by_load` (how many, by name).

use candor_lab::Experiment;
use candor_lab::coverage::{Coverage, GATEWAYS, LOADS, PUBLISHED, PUBLISHED_KERNELS, TRAFFICS};
use serde_json::{Value, json};

use crate::output::{json_line, table};

/// Combinations of traffic and load.
const CONDITIONS: usize = TRAFFICS.len() * LOADS.len();

/// What a campaign covers, for people.
pub(super) fn text(experiments: &[Experiment]) -> String {
    let coverage = Coverage::of(experiments);
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
    let number = kernels.len();
    out.push_str(&format!(
        "{covered} of {size} combinations on {number} kernels: {} gateways, {} traffics, {} loads\n",
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
    let coverage = Coverage::of(experiments);
    let mut out = String::new();
    for kernel in coverage.kernels() {
        for gateway in GATEWAYS {
            let missing = coverage.missing(kernel, gateway);
            out.push_str(&json_line(&json!({"type": "coverage", "data": {
                "kernel": kernel,
                "gateway": gateway,
                "covered": CONDITIONS - missing.len(),
                "of": CONDITIONS,
                "missing": missing,
            }}))?);
        }
    }
    let counts = |missing: Vec<(&str, usize)>| -> Value {
        missing.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
    };
    let [(_, traffics), (_, loads)] = by_axis(&coverage);
    out.push_str(&json_line(&json!({"type": "coverage_total", "data": {
        "kernels": coverage.kernels().collect::<Vec<_>>(),
        "covered": coverage.covered(),
        "of": coverage.size(),
        "published": PUBLISHED,
        "missing_by_traffic": counts(traffics),
        "missing_by_load": counts(loads),
    }}))?);
    Ok(out)
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
