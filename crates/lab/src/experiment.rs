//! Experiments: what a file says, checked and multiplied out.
//!
//! A file holds the settings of one experiment, or of many: `[[experiment]]` tables are laid over
//! the rest of the file, and `[matrix]` multiplies each by lists of values. `--set` comes last.

mod gateway;
mod matrix;
mod reader;
mod traffic;

use std::path::{Path, PathBuf};

use candor_config::{Findings, Section, Source, Value};
use candor_sim::instrument::Instrument;
use candor_sim::model::Model;
use candor_sim::{BusConfig, Discipline};

use self::gateway::Load;
pub use self::matrix::matches_glob;
use self::matrix::{Draft, multiply};
use self::reader::Reader;
use crate::claims::Claim;
use crate::error::Error;
use crate::traffic::{Message, Numbered};

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
}

/// One experiment, ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name, unique in its campaign and fit for a file.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Its place in the matrix.
    pub axes: Vec<(String, String)>,
    /// Everything that was set, as TOML.
    pub config: String,
    /// The seed.
    pub seed: u64,
    /// Frames to send at most.
    pub count: u64,
    /// The buses; the first is the source of generated traffic, the second its target.
    pub buses: Vec<BusConfig>,
    /// The gateway, if there is one.
    pub gateway: Option<Gateway>,
    /// What is sent.
    pub traffic: Traffic,
    /// Whether latencies are measured as the papers' tester would, and with which costs.
    pub instrument: Option<Instrument>,
    /// World and conditions, for people.
    pub conditions: String,
    /// Files that were read.
    pub inputs: Vec<Input>,
    /// Whether a line per frame is written.
    pub per_frame: bool,
}

/// A file that an experiment read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// As it was written.
    pub path: String,
    /// Of its contents.
    pub sha256: String,
}

/// A gateway.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// The host it runs on.
    pub model: Model,
    /// Its rules.
    pub rules: candor_route::Table,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Numbered frames from one sender.
    Numbered {
        /// The frames.
        frames: Numbered,
        /// What releases them.
        drive: candor_sim::Drive,
    },
    /// Messages with periods, from the nodes of each bus: `(bus, node, messages)`.
    Periodic {
        /// The senders.
        nodes: Vec<(usize, String, Vec<Message>)>,
        /// The order in their transmit queues.
        discipline: Discipline,
    },
    /// A recording.
    Replay {
        /// The file.
        log: PathBuf,
        /// Only this interface.
        interface: Option<String>,
        /// How many times faster than recorded.
        speed: f64,
        /// The bus it is sent on.
        bus: usize,
    },
}

/// What the command line says about a campaign.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `key=value`, laid over every experiment.
    pub set: Vec<String>,
    /// Only experiments whose name matches.
    pub only: Option<String>,
    /// The seed, instead of the file's.
    pub seed: Option<u64>,
}

/// The file `path` as meant by someone who wrote it in a file of `base`: beside that file or, if
/// it is not there, from the working directory.
pub(crate) fn locate(base: &Path, path: &str) -> PathBuf {
    let beside = base.join(path);
    if beside.exists() { beside } else { PathBuf::from(path) }
}

/// Reads the campaign in the file `path`.
///
/// # Errors
/// The file cannot be read, or has findings.
pub fn load(path: &Path, options: &Options) -> Result<Campaign, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::read(path, error))?;
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
    let variants = table.remove("experiment");
    let matrix = table.remove("matrix");
    let claims = crate::claims::read(table.remove("claim").as_ref(), &findings);
    let title = table.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut drafts = multiply(&table, variants.as_ref(), matrix.as_ref(), &findings);
    for set in &options.set {
        let setting = candor_config::setting("--set", set).map_err(Error::Other)?;
        drafts.iter_mut().for_each(|draft| draft.table.merge(setting.clone()));
    }
    let selected = select(name, drafts, options.only.as_deref())?;
    let experiments = selected
        .into_iter()
        .filter_map(|draft| read(draft, base, options.seed, &findings))
        .collect();
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    Ok(Campaign { title, experiments, claims, warnings: findings })
}

/// The drafts that match the pattern, all of them without one; it is an error if none does.
fn select(file: &str, drafts: Vec<Draft>, only: Option<&str>) -> Result<Vec<Draft>, Error> {
    let Some(glob) = only else { return Ok(drafts) };
    let (selected, others): (Vec<_>, Vec<_>) =
        drafts.into_iter().partition(|draft| matches_glob(glob, &draft.name));
    if selected.is_empty() {
        let names: Vec<_> = others.iter().take(10).map(|draft| draft.name.as_str()).collect();
        let more = if others.len() > 10 { ", ..." } else { "" };
        return Err(Error::Other(format!(
            "{file}: no experiment matches `{glob}`; there are {}{more}",
            names.join(", ")
        )));
    }
    Ok(selected)
}

/// Reads one experiment; findings tell what is wrong with it.
fn read(draft: Draft, base: &Path, seed: Option<u64>, findings: &Findings) -> Option<Experiment> {
    let Draft { name, axes, table } = draft;
    let mut file = Section::new(&table, findings);
    file.require(&["bus", "traffic"]);
    file.string("name");
    let title = file.string("title").unwrap_or(&name).to_owned();
    file.one_of("testbed", &[("sim", ())]);
    let own_seed = file.integer("seed", 0..=i64::MAX.unsigned_abs());
    let count = file.integer("count", 1..=i64::MAX.unsigned_abs());
    let per_frame = file.boolean("per_frame").unwrap_or(true);

    let mut reader = Reader::new(base, findings, &mut file);
    let load = file.section("load").map_or(Load::default(), Load::read);
    let traffic = file.section("traffic").and_then(|section| reader.traffic(section));
    let can_id = match &traffic {
        Some(Traffic::Numbered { frames, .. }) => frames.can_ids.last().copied(),
        _ => None,
    };
    let gateway = file.section("gateway");
    let has_gateway = gateway.is_some();
    let host = gateway.and_then(|section| reader.gateway(section, load, can_id));
    let wants_tester = file.one_of("instrument", &[("wire", false), ("tester", true)]);
    let instrument_origin = file.origin_of("instrument");
    file.finish();
    if has_gateway && host.is_none() {
        return None;
    }

    let tester = host.as_ref().and_then(|host| host.tester);
    let instrument = tester.filter(|_| wants_tester == Some(true));
    if wants_tester == Some(true) && tester.is_none() {
        let hint = "the tester's costs come from the profile of the gateway: name one";
        findings.error_with_hint(instrument_origin, "there is no tester", hint);
    }
    let traffic = traffic?;
    let whole = if matches!(traffic, Traffic::Replay { .. }) { u64::MAX } else { DEFAULT_COUNT };
    let model = host.as_ref().map_or("no gateway", |host| host.description.as_str());
    let stamps = if instrument.is_some() { ", stamps of the papers' tester" } else { "" };
    let conditions = format!("simulation, virtual time; {model}; {}{stamps}", load.describe());
    Some(Experiment {
        name,
        title,
        axes,
        config: table.to_toml_string(),
        seed: seed.or(own_seed).unwrap_or(1),
        count: count.unwrap_or(whole),
        buses: reader.buses,
        gateway: host.map(|host| host.gateway),
        traffic,
        instrument,
        conditions,
        inputs: reader.inputs,
        per_frame,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: &str = r#"
        title = "test"
        count = 100
        [bus.in]
        bitrate = "1M"
        [bus.out]
        bitrate = "500k"
        [gateway]
        delay = "35us"
        [traffic]
        kind = "flood"
    "#;

    fn names(text: &str, options: &Options) -> Result<Vec<String>, Error> {
        let campaign = parse("test.toml", text, Path::new("."), options)?;
        Ok(campaign.experiments.into_iter().map(|experiment| experiment.name).collect())
    }

    #[test]
    fn lists_multiply_into_a_matrix() {
        let text = format!(
            "{SIMPLE}
            [matrix]
            \"traffic.kind\" = [\"flood\", \"half\"]
            traffic.length = [2, 8]
            [[experiment]]
            name = \"a\"
            [[experiment]]
            name = \"b\"
            matrix.seed = [7, 8]"
        );
        let all = names(&text, &Options::default()).unwrap();
        assert_eq!(all[..5], ["a-flood-2", "a-flood-8", "a-half-2", "a-half-8", "b-7-flood-2"]);
        assert_eq!(all.len(), 4 + 8);
        let only = Options { only: Some("*8-half-?".into()), ..Options::default() };
        assert_eq!(names(&text, &only).unwrap(), ["b-8-half-2", "b-8-half-8"]);
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        let options = Options {
            set: vec!["traffic.kind=half".into(), "bus.in.bitrate=250k".into()],
            seed: Some(9),
            only: None,
        };
        let campaign = parse("t.toml", SIMPLE, Path::new("."), &options).unwrap();
        let experiment = &campaign.experiments[0];
        assert_eq!(experiment.seed, 9);
        assert_eq!(experiment.buses[0].timing.nominal.bits_per_second(), 250_000);
        assert!(experiment.config.contains("kind = \"half\""), "{}", experiment.config);
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let text = r#"
            count = -1
            [bus.in]
            bitrate = "fast"
            [gateway]
            profile = "mpc5200-2.6.34"
            [traffic]
            kind = "floot"
            lenght = 8
        "#;
        let error = names(text, &Options::default()).unwrap_err().to_string();
        for part in [
            "test.toml:2:21: error: `count` is -1",
            "`bitrate` is \"fast\"",
            "did you mean `mpc5200-2.6.33`?",
            "did you mean `flood`?",
            "did you mean `length`?",
        ] {
            assert!(error.contains(part), "{part} is missing in\n{error}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_told() {
        let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n";
        let flood = "traffic.kind = 'flood'\n";
        let periodic = "traffic.kind = 'periodic'\n";
        for (text, parts) in [
            (format!("{two}{flood}gateway.tx_queue = 5"), &["either a `profile` or a `delay`"][..]),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', tx_queue = 0 }}"),
                &["`tx_queue` is 0"],
            ),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', rules = 'absent.toml' }}"),
                &["absent.toml cannot be read", "paths count from"],
            ),
            (
                format!("bus.in.bitrate = '1M'\n{flood}gateway.delay = '1us'"),
                &["the rules do not fit the buses"],
            ),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', generate.hops = 101 }}"),
                &["`hops` is 101, but 0 to 100 is possible"],
            ),
            (format!("{two}{flood}instrument = 'tester'"), &["there is no tester"]),
            (format!("bus = {{}}\n{flood}"), &["there is no bus"]),
            (format!("bus.in = 1\n{flood}"), &["`in` is an integer, expected a table"]),
            (
                format!("{two}traffic = {{ kind = 'flood', id = '0x800' }}"),
                &["`0x800` is no identifier"],
            ),
            (format!("{two}traffic = {{ kind = 'flood', length = 1 }}"), &["`length` is 1"]),
            (
                format!("{two}traffic = {{ kind = 'flood', length = 12 }}"),
                &["does not carry CAN FD"],
            ),
            (format!("{two}traffic = {{ kind = 'flood', fill = 256 }}"), &["0 to 255 is possible"]),
            (format!("{two}{periodic}"), &["there are no messages to send"]),
            (
                format!("{two}{periodic}traffic.nodes.inn = ['A']"),
                &["unknown bus `inn`", "did you mean `in`?"],
            ),
            (
                format!(
                    "{two}{periodic}[[traffic.message]]\nid = '0x1'\nnode = 'A'\nperiod = '1us'"
                ),
                &["a period is at least 10us", "node `A` sends 0x1, but is on no bus"],
            ),
            (format!("{two}{periodic}traffic.dbc = 'absent.dbc'"), &["absent.dbc cannot be read"]),
            (format!("{two}traffic.kind = 'replay'"), &["`log` is missing"]),
            (
                format!("{two}traffic = {{ kind = 'replay', log = 'absent.log' }}"),
                &["absent.log cannot be read"],
            ),
            (
                format!("{two}{flood}[matrix]\ncount = 5"),
                &["`count` is an integer, expected a list"],
            ),
            (format!("{two}{flood}[[experiment]]"), &["`name` is missing"]),
            (
                format!("{two}{flood}[[experiment]]\nname = 'a b'\n[[experiment]]\nname = 'a/b'"),
                &["two experiments are called `a-b`"],
            ),
            (
                format!("{two}{flood}[matrix]\nseed = {0:?}\ncount = {0:?}", [1; 400]),
                &["more than 100000 experiments"],
            ),
        ] {
            let error = match names(&text, &Options::default()) {
                Err(error) => error.to_string(),
                Ok(names) => panic!("accepted as {names:?}:\n{text}"),
            };
            for part in parts {
                assert!(error.contains(part), "{part} is missing in\n{error}");
            }
        }
    }

    #[test]
    fn files_are_looked_for_beside_the_experiment_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Cargo.toml"), "").unwrap();
        let beside = locate(folder.path(), "Cargo.toml");
        assert_eq!(beside, folder.path().join("Cargo.toml"));
        // Tests run in the folder of their crate.
        assert_eq!(locate(&folder.path().join("absent"), "Cargo.toml"), Path::new("Cargo.toml"));
    }
}
