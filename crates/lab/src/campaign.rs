//! [`Campaign`]: the experiments of a file, checked and multiplied out.
//!
//! A file holds the settings of one experiment, or of many: `[[experiment]]` tables are laid over
//! the rest of the file, and `[matrix]` multiplies each by lists of values. What the command line
//! sets comes last.

mod alternatives;
mod effect;
mod figures;
mod hidden;
mod leaves;
mod matrix;
mod options;
mod seeds;

use std::collections::BTreeSet;
use std::path::Path;

use candor_config::{Section, Value};
use candor_diagnostics::{Findings, Severity, Source};

use self::hidden::Hidden;
use self::matrix::{Draft, multiply};
use crate::claims::Claim;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::kinds::{self, CheckParts, Kinds};
use crate::reading::network::{self, NetworkFile};
use crate::reading::{Common, Examined, Reading, read_text};

pub use self::alternatives::Alternative;
pub use self::figures::Figure;
pub use self::options::Options;

/// A file of experiments.
#[derive(Debug)]
pub struct Campaign {
    /// What it is about.
    pub title: String,
    /// Its experiments, in the order in which they run.
    pub experiments: Vec<Experiment>,
    /// Statements about their results.
    pub claims: Vec<Claim>,
    /// Other settings that the experiments run with as well; none unless [`Options::has_alternatives`].
    pub alternatives: Vec<Alternative>,
    /// What its report links to.
    pub figures: Vec<Figure>,
    /// Warnings; errors end the reading.
    pub warnings: Findings,
    /// How many frames its experiments send in all, if there are so many that no line per frame is
    /// written unless an experiment asks for it.
    pub too_many_for_lines: Option<u64>,
}

/// A campaign of more frames writes no line per frame, unless `per_frame` says so: a line has about
/// 150 bytes.
pub const MOST_LINES: u64 = 100_000;

/// Reads the campaign in the file `path`.
///
/// # Errors
/// The file cannot be read, or has findings.
pub fn load(path: &Path, options: &Options) -> Result<Campaign, Error> {
    let text = read_text(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    parse(&path.display().to_string(), &text, base, options)
}

/// Reads a campaign from `text`; other files are looked for in `base`.
///
/// # Errors
/// Findings.
pub fn parse(name: &str, text: &str, base: &Path, options: &Options) -> Result<Campaign, Error> {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let Some(mut table) = candor_config::parse(&source, &findings) else {
        return Err(Error::Findings(findings));
    };
    let kind = kinds::named(options.kinds, table.get("kind").and_then(Value::as_str));
    let network = network::read(&mut table, kind.has_own_network, base, &findings);
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    let variants = table.remove("experiment");
    let matrix = table.remove("matrix");
    let matrices = matrix::all(variants.as_ref(), matrix.as_ref());
    let kernels = options.kernel_values()?;
    let replacement = matrix::replacement(&matrices, &kernels);
    let mut claims = crate::claims::read(table.remove("claim").as_ref(), &replacement, &findings);
    let figures = figures::read(table.remove("figure").as_ref(), &replacement, &findings);
    let mut alternatives = alternatives::read(table.remove("alternative").as_ref(), &findings);
    let title = table.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut drafts = multiply(&table, variants.as_ref(), matrix.as_ref(), &[], &findings);
    if let Some(check_parts) = kind.check_parts {
        let hidden = hidden::find(&table, variants.as_ref(), matrix.as_ref());
        hidden.iter().for_each(|it| check_alone(it, check_parts, base, &findings));
    }
    // What a claim may be about: also what is not chosen now, by name or by seed.
    let mut names: BTreeSet<_> = drafts.iter().flat_map(seeds::names).collect();
    alternatives.iter().for_each(|it| it.require_matches(&drafts, &findings));
    figures::require_matches(&figures, &drafts, &alternatives, &kernels, &findings);
    if !kernels.is_empty() && !findings.has_errors() {
        drafts = multiply(&table, variants.as_ref(), matrix.as_ref(), &kernels, &findings);
        names.extend(drafts.iter().flat_map(seeds::names));
    }
    let of_file = drafts.clone();
    alternatives.retain(|it| it.fits(&of_file, &findings));
    if !options.has_alternatives {
        check_unused(&alternatives, &of_file, options, (base, &network), &findings);
        alternatives.clear();
    }
    drafts
        .extend(alternatives.iter().flat_map(|it| of_file.iter().filter_map(|draft| it.of(draft))));
    let repeated = with_options(drafts, options, &kernels, &network, &findings)?;
    names.extend(repeated.iter().map(|draft| draft.name.clone()));
    crate::claims::refuse_unknown(&claims, &names, &findings);
    matrix::refuse_equal_names(&repeated, &findings);
    if repeated.is_empty() && findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    let figures = figures::resolve(figures, &repeated);
    let selected = select(name, repeated, &options.only)?;
    let (mut experiments, is_open) = read_all(selected, options, (base, &network), &findings);
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    options.require_effect(&experiments)?;
    // One about a kernel that the command line has replaced says nothing.
    claims.retain(|claim| kernels.is_empty() || claim.is_within(&experiments));
    for alternative in &alternatives {
        alternative.require_use(options.kinds, &experiments, &findings);
    }
    // What the command line leaves out or changes may be what an axis is for.
    if options.leave_the_file_as_it_is() {
        effect::require_axes(options.kinds, &matrices, &experiments, &findings);
        if findings.has_errors() {
            return Err(Error::Findings(findings));
        }
    }
    let too_many_for_lines = leave_lines_out(&mut experiments, &is_open);
    Ok(Campaign {
        title,
        experiments,
        claims,
        alternatives,
        figures,
        warnings: findings,
        too_many_for_lines,
    })
}

/// What does not run now is checked all the same.
fn check_unused(
    alternatives: &[Alternative],
    of_file: &[Draft],
    options: &Options,
    (base, network): (&Path, &NetworkFile),
    findings: &Findings,
) {
    for mut draft in alternatives.iter().filter_map(|it| of_file.iter().find_map(|one| it.of(one)))
    {
        network.lay_under(&mut draft.table, findings);
        read(draft, options.kinds, (base, network), findings);
    }
}

/// Reads what is selected, and says of each whether the file leaves open if there is a line per frame.
fn read_all(
    selected: Vec<Draft>,
    options: &Options,
    place: (&Path, &NetworkFile),
    findings: &Findings,
) -> (Vec<Experiment>, Vec<bool>) {
    let mut experiments = Vec::with_capacity(selected.len());
    let mut is_open = Vec::with_capacity(selected.len());
    for draft in selected {
        is_open.push(draft.table.get("per_frame").is_none());
        experiments.extend(read(draft, options.kinds, place, findings));
    }
    (experiments, is_open)
}

/// What the command line and the network say, laid over and under the drafts, and one of each for each seed.
fn with_options(
    drafts: Vec<Draft>,
    options: &Options,
    kernels: &[Value],
    network: &NetworkFile,
    findings: &Findings,
) -> Result<Vec<Draft>, Error> {
    let mut repeated = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let only = &options.only;
        let is_meant = only.is_empty() || only.iter().any(|glob| seeds::is_meant(&draft, glob));
        let laid = options.lay_over(&mut draft);
        network.lay_under(&mut draft.table, findings);
        let has_kernel = draft.over.get_path(&["vm", "kernel"]).is_some();
        let drafts = match options::is_vm(&draft.table) && kernels.len() > 1 && !has_kernel {
            true => draft.on(kernels),
            false => vec![draft],
        };
        match laid {
            Ok(()) => repeated
                .extend(drafts.into_iter().flat_map(|draft| seeds::repeat(draft, options.seed))),
            Err(error) if is_meant => return Err(error),
            // What the command line sets need not fit an experiment that is not chosen.
            Err(_) => {}
        }
    }
    Ok(repeated)
}

/// How many frames the experiments send, if that is too many for a line each: then those write none that do not say so.
fn leave_lines_out(experiments: &mut [Experiment], is_open: &[bool]) -> Option<u64> {
    let frames =
        experiments.iter().map(|it| it.kind.frames_at_most(it.count)).fold(0, u64::saturating_add);
    let is_too_many = frames > MOST_LINES;
    for (experiment, is_open) in experiments.iter_mut().zip(is_open) {
        experiment.per_frame &= !(is_too_many && *is_open);
    }
    (is_too_many && is_open.contains(&true)).then_some(frames)
}

/// The drafts that match one of the patterns, all of them without any; it is an error if none matches one of these.
fn select(file: &str, mut drafts: Vec<Draft>, only: &[String]) -> Result<Vec<Draft>, Error> {
    let is_idle = |glob: &&String| !drafts.iter().any(|draft| seeds::is_meant(draft, glob));
    if let Some(glob) = only.iter().find(is_idle) {
        let mut names: Vec<_> = drafts.iter().map(|draft| draft.group.as_str()).collect();
        names.dedup();
        let more = if names.len() > 10 { ", ..." } else { "" };
        names.truncate(10);
        return Err(Error::Other(format!(
            "{file}: no experiment matches `{glob}`; there are {}{more}",
            names.join(", ")
        )));
    }
    if !only.is_empty() {
        drafts.retain(|draft| only.iter().any(|glob| seeds::is_meant(draft, glob)));
    }
    Ok(drafts)
}

/// Checks values that no experiment uses, each by itself: whether they fit to anything else is a
/// matter of the values that are used.
fn check_alone(hidden: &Hidden, check_parts: CheckParts, base: &Path, findings: &Findings) {
    let found = Findings::new();
    check_parts(&hidden.table, base, &found);
    for finding in found {
        if finding.severity == Severity::Error && hidden.has(&finding.origin) {
            findings.push(finding);
        }
    }
}

/// Reads one experiment; findings tell what is wrong with it.
fn read(
    draft: Draft,
    kinds: Kinds,
    (base, network): (&Path, &NetworkFile),
    findings: &Findings,
) -> Option<Experiment> {
    let Draft { name, group, seed, axes, table, .. } = draft;
    let mut file = Section::new(&table, findings);
    let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
    let mut common = Common::read(&mut file, &names);
    common.seed = seed.unwrap_or(common.seed);
    let kind = kinds::named(kinds, Some(common.kind));
    common.refuse_testbed(&file, kind.testbeds);
    let reading = Reading { file, table: &table, common: &common, base, network };
    let Examined { kind, conditions, inputs, count } = (kind.read)(reading)?;
    Some(Experiment {
        title: common.title.unwrap_or_default().to_owned(),
        name,
        group,
        axes,
        config: table.to_toml_string(),
        seed: common.seed,
        count: common.count.unwrap_or(count),
        conditions,
        inputs,
        per_frame: common.per_frame.unwrap_or(true),
        kind,
    })
}

#[cfg(test)]
mod tests;
