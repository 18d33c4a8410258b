//! [`Campaign`]: the experiments of a file, checked and multiplied out.
//!
//! A file holds the settings of one experiment, or of many: `[[experiment]]` tables are laid over
//! the rest of the file, and `[matrix]` multiplies each by lists of values. What the command line
//! sets comes last.
//!
//! ```text
//!  table -- kind?
//!    can-gateway:    reader, traffic, gateway --> what is said, in any world
//!                                                   |-- sim --> World::Sim     a model, in virtual time
//!                                                   \-- vm  --> World::Vm      real kernels in QEMU
//!    signal-service: signal_service ------------> SignalService               processes of this machine
//!    ping:           ping ----------------------> Ping                        two programs on one bus, in any world
//!    time-triggered: time_triggered ------------> TimeTriggered               end systems and switches on Ethernet
//! ```
//!
//! Every setting is read and checked in every world; a world takes what it needs, leaves alone what
//! is another's, and refuses what it cannot host.

mod effect;
mod gateway;
mod hidden;
mod leaves;
mod machine;
pub(crate) mod matrix;
mod network;
mod options;
mod ping;
mod reader;
mod said;
mod seeds;
mod settings;
mod signal_service;
mod sim;
mod time_triggered;
mod traffic;
mod vm;
mod vm_limits;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use candor_config::{Section, Table, Value};
use candor_diagnostics::{Findings, Severity, Source};
use candor_network::{Gateway, Network};

use self::hidden::Hidden;
use self::matrix::{Draft, multiply};
use self::network::NetworkFile;
use self::reader::Reader;
use self::said::{Hosted, Said};
use self::settings::{Common, KindName, Settings};
use crate::claims::Claim;
use crate::error::Error;
use crate::experiment::{CanGateway, Experiment, Input, Kind, Testbed, Traffic};

pub use self::options::Options;

/// Frames sent unless a count is given; a recording is sent whole.
const DEFAULT_COUNT: u64 = 10_000;

/// A file of experiments.
#[derive(Debug)]
pub struct Campaign {
    /// What it is about.
    pub title: String,
    /// Its experiments, in the order in which they run.
    pub experiments: Vec<Experiment>,
    /// Statements about their results.
    pub claims: Vec<Claim>,
    /// Warnings; errors end the reading.
    pub warnings: Findings,
    /// How many frames its experiments send in all, if there are so many that no line per frame is
    /// written unless an experiment asks for it.
    pub too_many_for_lines: Option<u64>,
}

/// A campaign of more frames writes no line per frame, unless `per_frame` says so: a line has about
/// 150 bytes.
pub const MOST_LINES: u64 = 100_000;
/// A frame has at least so many bytes in a recording, to guess how many there are.
const LEAST_RECORDED_LEN: u64 = 32;

/// Reads the campaign in the file `path`.
///
/// # Errors
/// The file cannot be read, or has findings.
pub fn load(path: &Path, options: &Options) -> Result<Campaign, Error> {
    let text = read_text(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    parse(&path.display().to_string(), &text, base, options)
}

fn read_text(path: &Path) -> Result<String, Error> {
    let file = std::fs::File::open(path).map_err(|error| Error::read(path, error))?;
    let mut bytes = Vec::new();
    let longest = candor_config::MAX_BYTES as u64 + 1;
    file.take(longest).read_to_end(&mut bytes).map_err(|error| Error::read(path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        Error::Other(format!(
            "{}: byte {byte} is not UTF-8; experiment files are text in UTF-8",
            path.display()
        ))
    })
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
    let network = network::read(&mut table, base, &findings);
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    let variants = table.remove("experiment");
    let matrix = table.remove("matrix");
    let claims = crate::claims::read(table.remove("claim").as_ref(), &findings);
    let title = table.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    let drafts = multiply(&table, variants.as_ref(), matrix.as_ref(), &findings);
    // Other kinds read their tables as a whole.
    let kind = table.get("kind").and_then(Value::as_str);
    let is_can = kind.is_none_or(|kind| kind == Kind::NAMES[0]);
    let hidden = hidden::find(&table, variants.as_ref(), matrix.as_ref());
    for hidden in hidden.iter().filter(|_| is_can) {
        check_alone(hidden, base, &findings);
    }
    let only = options.only.as_deref();
    // What a claim may be about: also what is not chosen now, by name or by seed.
    let mut names: BTreeSet<_> = drafts.iter().flat_map(seeds::names).collect();
    let mut repeated = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let is_meant = only.is_none_or(|glob| seeds::is_meant(&draft, glob));
        let laid = options.lay_over(&mut draft.table);
        network.lay_under(&mut draft.table, &findings);
        match laid {
            Ok(()) => repeated.extend(seeds::repeat(draft, options.seed)),
            Err(error) if is_meant => return Err(error),
            // What the command line sets need not fit an experiment that is not chosen.
            Err(_) => {}
        }
    }
    names.extend(repeated.iter().map(|draft| draft.name.clone()));
    crate::claims::refuse_unknown(&claims, &names, &findings);
    matrix::refuse_equal_names(&repeated, &findings);
    if repeated.is_empty() && findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    let selected = select(name, repeated, only)?;
    let mut experiments = Vec::with_capacity(selected.len());
    let mut is_open = Vec::with_capacity(selected.len());
    for draft in selected {
        is_open.push(draft.table.get("per_frame").is_none());
        experiments.extend(read(draft, base, &findings, &network));
    }
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    options.require_effect(&experiments)?;
    let frames = experiments.iter().map(frames_at_most).fold(0, u64::saturating_add);
    let is_too_many = frames > MOST_LINES;
    for (experiment, is_open) in experiments.iter_mut().zip(&is_open) {
        experiment.per_frame &= !(is_too_many && *is_open);
    }
    let is_left_out = is_too_many && is_open.contains(&true);
    let too_many_for_lines = is_left_out.then_some(frames);
    Ok(Campaign { title, experiments, claims, warnings: findings, too_many_for_lines })
}

/// How many frames an experiment sends at most. How many a recording has is guessed by its size.
fn frames_at_most(experiment: &Experiment) -> u64 {
    let can = experiment.can_gateway();
    let Some(Traffic::Replay { log, .. }) = can.map(|can| &can.traffic) else {
        return experiment.count;
    };
    let bytes = std::fs::metadata(log).map_or(0, |log| log.len());
    experiment.count.min(bytes / LEAST_RECORDED_LEN)
}

/// The drafts that match the pattern, all of them without one; it is an error if none does.
fn select(file: &str, drafts: Vec<Draft>, only: Option<&str>) -> Result<Vec<Draft>, Error> {
    let Some(glob) = only else { return Ok(drafts) };
    let (selected, others): (Vec<_>, Vec<_>) =
        drafts.into_iter().partition(|draft| seeds::is_meant(draft, glob));
    if selected.is_empty() {
        let mut names: Vec<_> = others.iter().map(|draft| draft.group.as_str()).collect();
        names.dedup();
        let more = if names.len() > 10 { ", ..." } else { "" };
        names.truncate(10);
        return Err(Error::Other(format!(
            "{file}: no experiment matches `{glob}`; there are {}{more}",
            names.join(", ")
        )));
    }
    Ok(selected)
}

/// Checks values that no experiment uses, each by itself: whether they fit to anything else is a
/// matter of the values that are used.
fn check_alone(hidden: &Hidden, base: &Path, findings: &Findings) {
    let found = Findings::new();
    let mut file = Section::new(&hidden.table, &found);
    if Common::read(&mut file).kind != KindName::CanGateway {
        return;
    }
    let mut reader = Reader::new(base, &found, &mut file);
    reader.network.buses.clear();
    Settings::read(file, &mut reader);
    for finding in found {
        if finding.severity == Severity::Error && hidden.has(&finding.origin) {
            findings.push(finding);
        }
    }
}

/// What is read of one kind of experiments.
struct Examined {
    kind: Kind,
    conditions: String,
    inputs: Vec<Input>,
    /// Frames or events, if the file does not say how many.
    count: u64,
}

/// Reads one experiment; findings tell what is wrong with it.
fn read(
    draft: Draft,
    base: &Path,
    findings: &Findings,
    network: &NetworkFile,
) -> Option<Experiment> {
    let Draft { name, group, seed, axes, table } = draft;
    let mut file = Section::new(&table, findings);
    let common = Common::read(&mut file);
    let examined = match common.kind {
        KindName::CanGateway => read_can_gateway(file, &table, &common, (base, network)),
        KindName::SignalService => signal_service::read(file, &common),
        KindName::Ping => ping::read(file, &common, base),
        KindName::TimeTriggered => time_triggered::read(file, &table, &common, base),
    };
    let Examined { kind, conditions, inputs, count } = examined?;
    Some(Experiment {
        title: common.title.unwrap_or(&group).to_owned(),
        name,
        group,
        axes,
        config: table.to_toml_string(),
        seed: seed.or(common.seed).unwrap_or(1),
        count: common.count.unwrap_or(count),
        conditions,
        inputs,
        per_frame: common.per_frame.unwrap_or(true),
        kind,
    })
}

/// Reads an experiment with CAN buses.
fn read_can_gateway(
    mut file: Section<'_>,
    table: &Table,
    common: &Common<'_>,
    (base, network): (&Path, &NetworkFile),
) -> Option<Examined> {
    let findings = file.findings();
    common.refuse_testbed(&file, &[Testbed::Sim, Testbed::Vm]);
    file.require(&["bus", "traffic"]);
    let mut reader = Reader::new(base, findings, &mut file);
    if let Some((name, path)) = &network.input {
        reader.input(name, path);
        reader.has_network = true;
    }
    network.doubt_gateway(table, findings);
    let settings = Settings::read(file, &mut reader);
    let traffic = settings.traffic;
    let said = Said {
        gateway: settings.gateway,
        load: settings.load,
        load_size: settings.load_size,
        machine: settings.machine,
        count: common.count,
        traffic: traffic.as_ref(),
        wants_tester: settings.wants_tester == Some(true),
        tester_origin: settings.tester_origin,
        table,
    };
    let hosted = match common.testbed.unwrap_or(Testbed::Sim) {
        Testbed::Sim => reader.sim(said),
        Testbed::Vm => reader.vm(said),
        // Refused above.
        Testbed::Host => None,
    };
    let (Some(Hosted { world, rules, conditions }), Some(traffic)) = (hosted, traffic) else {
        return None;
    };
    let count = if matches!(traffic, Traffic::Replay { .. }) { u64::MAX } else { DEFAULT_COUNT };
    let network =
        Network { gateways: rules.map(gateway_with).into_iter().collect(), ..reader.network };
    let kind = Kind::CanGateway(Box::new(CanGateway { network, traffic, world }));
    Some(Examined { kind, conditions, inputs: reader.inputs, count })
}

/// The gateway of an experiment, which has one at most.
fn gateway_with(rules: candor_engine::Table) -> Gateway {
    Gateway { name: "gateway".into(), rules }
}

#[cfg(test)]
mod tests;
