//! Experiments: what a file says, checked and multiplied out.
//!
//! A file holds the settings of one experiment, or of many: `[[experiment]]` tables are laid over
//! the rest of the file, and `[matrix]` multiplies each by lists of values. `--set` comes last.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candor_config::{Data, Findings, Origin, Section, Source, Table, Value};
use candor_sim::model::{Egress, Model};
use candor_sim::{BusConfig, Discipline};
use candor_time::Nanos;
use candor_wire::frame::{BRS, EFF_FLAG, EFF_MASK, SFF_MASK, fd_dlc};
use candor_wire::{Bitrate, Timing};
use sha2::{Digest, Sha256};

use crate::claims::Claim;
use crate::error::Error;
use crate::profile;
use crate::rules::{FilterKind, Generated, Modification};
use crate::traffic::{Message, Numbered, messages_of_dbc};

/// Experiments at most in one campaign.
const MAX_EXPERIMENTS: usize = 100_000;

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
    pub instrument: Option<candor_sim::instrument::Instrument>,
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
    let mut settings = Vec::new();
    for set in &options.set {
        settings.push(candor_config::setting("--set", set).map_err(Error::Other)?);
    }

    let mut drafts = Vec::new();
    for (name, axes, mut draft) in multiply(&table, variants.as_ref(), matrix.as_ref(), &findings) {
        for set in &settings {
            draft.merge(set.clone());
        }
        drafts.push((name, axes, draft));
    }
    let selected: Vec<_> = drafts
        .iter()
        .filter(|(name, _, _)| options.only.as_deref().is_none_or(|glob| matches_glob(glob, name)))
        .collect();
    if let (true, Some(glob)) = (selected.is_empty(), &options.only) {
        let names: Vec<_> = drafts.iter().take(10).map(|(name, _, _)| name.as_str()).collect();
        let more = if drafts.len() > 10 { ", ..." } else { "" };
        return Err(Error::Other(format!(
            "{name}: no experiment matches `{glob}`; there are {}{more}",
            names.join(", ")
        )));
    }
    let experiments: Vec<_> = selected
        .into_iter()
        .filter_map(|(name, axes, draft)| {
            read(name, axes.clone(), draft, base, options, &findings)
        })
        .collect();
    if findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    Ok(Campaign { title, experiments, claims, warnings: findings })
}

/// Whether `name` matches a pattern with `*` and `?`.
fn matches_glob(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<_>, Vec<_>) = (glob.chars().collect(), name.chars().collect());
    // Greedy with one point to fall back to: linear space, no recursion.
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    g = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|&c| c == '*')
}

/// Letters, digits, `.`, `_` and `-`; anything else becomes `-`.
fn file_name(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .collect();
    let clean = clean.trim_matches(['.', '-']);
    if clean.is_empty() { "experiment".into() } else { clean.chars().take(120).collect() }
}

/// A name, a place in the matrix, and settings.
type Draft = (String, Vec<(String, String)>, Table);

/// Lays `[[experiment]]` tables over the rest and multiplies by `[matrix]`.
fn multiply(
    table: &Table,
    variants: Option<&Value>,
    matrix: Option<&Value>,
    findings: &Findings,
) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    match variants {
        None => {
            let name = table.get("name").and_then(Value::as_str).unwrap_or_default();
            drafts.push((name.into(), Vec::new(), table.clone()));
        }
        Some(Value { data: Data::Array(variants), .. }) => {
            for variant in variants {
                let Some(over) = variant.as_table() else {
                    findings.wrong_type("experiment", variant, "a table");
                    continue;
                };
                let Some(name) = over.get("name").and_then(Value::as_str) else {
                    let hint = "give each [[experiment]] a name of its own";
                    findings.error_with_hint(over.origin(), "`name` is missing", hint);
                    continue;
                };
                let mut own = over.clone();
                // An experiment may have a matrix of its own, beside the one for all.
                let own_matrix = own.remove("matrix");
                let mut merged = table.clone();
                merged.merge(own);
                let own = vec![(name.to_owned(), Vec::new(), merged)];
                drafts.extend(spread(own, own_matrix.as_ref(), findings));
            }
        }
        Some(other) => {
            let message = "`experiment` is a list of tables";
            findings.error_with_hint(&other.origin, message, "write [[experiment]]");
        }
    }
    let drafts = spread(drafts, matrix, findings);
    let mut seen = BTreeSet::new();
    drafts
        .into_iter()
        .map(|(name, axes, table)| {
            let name = file_name(&name);
            if !seen.insert(name.clone()) {
                let message = format!("two experiments are called `{name}`");
                findings.error_with_hint(table.origin(), message, "give each a name of its own");
            }
            (name, axes, table)
        })
        .collect()
}

/// Multiplies drafts by the lists of a matrix.
fn spread(mut drafts: Vec<Draft>, matrix: Option<&Value>, findings: &Findings) -> Vec<Draft> {
    let Some(matrix) = matrix else { return drafts };
    let Some(axes) = matrix.as_table() else {
        findings.wrong_type("matrix", matrix, "a table");
        return drafts;
    };
    for (path, value) in leaves(axes, &mut Vec::new()) {
        let Some(values) = value.as_array() else {
            findings.wrong_type(&path.join("."), value, "a list of values");
            continue;
        };
        if drafts.len().saturating_mul(values.len()) > MAX_EXPERIMENTS {
            let message = format!("the matrix makes more than {MAX_EXPERIMENTS} experiments");
            findings.error_with_hint(&value.origin, message, "split it over several files");
            return drafts;
        }
        drafts = drafts
            .iter()
            .flat_map(|(name, axes, table)| {
                let path = &path;
                values.iter().map(move |value| {
                    let keys: Vec<_> = path.iter().map(String::as_str).collect();
                    let mut table = table.clone();
                    table.set_path(&keys, value.clone());
                    let shown = shown(value);
                    let separator = if name.is_empty() { "" } else { "-" };
                    let name = format!("{name}{separator}{}", file_name(&shown));
                    let mut axes = axes.clone();
                    axes.push((path.join("."), shown));
                    (name, axes, table)
                })
            })
            .collect();
    }
    drafts
}

/// Every value of a table that is no table, with its path. A quoted key may hold dots.
fn leaves<'a>(table: &'a Table, path: &mut Vec<String>) -> Vec<(Vec<String>, &'a Value)> {
    let mut found = Vec::new();
    for entry in table.entries() {
        let depth = path.len();
        path.extend(entry.key.split('.').map(str::to_owned));
        match entry.value.as_table() {
            Some(table) => found.extend(leaves(table, path)),
            None => found.push((path.clone(), &entry.value)),
        }
        path.truncate(depth);
    }
    found
}

/// A value in a name.
fn shown(value: &Value) -> String {
    match &value.data {
        Data::String(text) => text.clone(),
        Data::Integer(number) => number.to_string(),
        Data::Float(number) => number.to_string(),
        Data::Boolean(flag) => flag.to_string(),
        _ => "list".into(),
    }
}

/// Reads one experiment; findings tell what is wrong with it.
fn read(
    name: &str,
    axes: Vec<(String, String)>,
    table: &Table,
    base: &Path,
    options: &Options,
    findings: &Findings,
) -> Option<Experiment> {
    let mut file = Section::new(table, findings);
    let mut reader = Reader { base, findings, inputs: Vec::new() };
    file.require(&["bus", "traffic"]);
    file.string("name");
    let title = file.string("title").unwrap_or(name).to_owned();
    file.one_of("testbed", &[("sim", ())]);
    let seed = file.integer("seed", 0..=i64::MAX).unwrap_or(1);
    let seed = options.seed.unwrap_or(seed.unsigned_abs());
    let count = file.integer("count", 1..=i64::MAX).map(i64::unsigned_abs);
    let per_frame = file.boolean("per_frame").unwrap_or(true);

    let (names, buses) = reader.buses(&mut file);
    let load = file.section("load").map_or(Load::default(), read_load);
    let traffic = file.section("traffic").and_then(|traffic| reader.traffic(traffic, &names, &buses));
    let can_id = match &traffic {
        Some(Traffic::Numbered { frames, .. }) => frames.can_ids.last().copied(),
        _ => None,
    };
    let instrument_named = file.one_of("instrument", &[("wire", false), ("tester", true)]);
    let gateway = file.section("gateway");
    let has_gateway = gateway.is_some();
    let gateway = gateway.and_then(|gateway| reader.gateway(gateway, &names, load, can_id));
    file.finish();

    let (gateway, tester, model) = match gateway {
        Some((gateway, tester, model)) => (Some(gateway), tester, model),
        None if has_gateway => return None,
        None => (None, None, "no gateway".into()),
    };
    let instrument = match (instrument_named, tester) {
        (Some(true), Some(tester)) => Some(tester),
        (Some(true), None) => {
            let hint = "the tester's costs come from the profile of the gateway: name one";
            findings.error_with_hint(file_origin(table, "instrument"), "there is no tester", hint);
            None
        }
        _ => None,
    };
    let traffic = traffic?;
    let count = count.unwrap_or(match traffic {
        Traffic::Replay { .. } => u64::MAX,
        _ => 10_000,
    });
    let stamps = if instrument.is_some() { ", stamps of the papers' tester" } else { "" };
    Some(Experiment {
        name: name.into(),
        title,
        axes,
        config: table.to_toml_string(),
        seed,
        count,
        buses,
        gateway,
        traffic,
        instrument,
        conditions: format!("simulation, virtual time; {model}; {}{stamps}", load.describe()),
        inputs: reader.inputs,
        per_frame,
    })
}

fn file_origin<'a>(table: &'a Table, key: &str) -> &'a Origin {
    table.get(key).map_or(table.origin(), |value| &value.origin)
}

/// What else the gateway's host has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    cpu: bool,
    ethernet: bool,
}

impl Load {
    const fn describe(self) -> &'static str {
        match (self.cpu, self.ethernet) {
            (false, false) => "no load",
            (true, false) => "CPU load",
            (false, true) => "Ethernet load",
            (true, true) => "CPU and Ethernet load",
        }
    }
}

fn read_load(mut section: Section<'_>) -> Load {
    section.require(&["kind"]);
    let load = |cpu, ethernet| Load { cpu, ethernet };
    let kinds = [
        ("none", load(false, false)),
        ("cpu", load(true, false)),
        ("ethernet", load(false, true)),
        ("both", load(true, true)),
    ];
    let load = section.one_of("kind", &kinds).unwrap_or_default();
    section.finish();
    load
}

/// Reads the parts of an experiment that refer to one another and to other files.
struct Reader<'a> {
    base: &'a Path,
    findings: &'a Findings,
    inputs: Vec<Input>,
}

impl Reader<'_> {
    /// Notes a file that was read.
    fn input(&mut self, shown: &str, path: &Path) {
        if let Ok(bytes) = std::fs::read(path) {
            let digest = Sha256::digest(&bytes);
            let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            self.inputs.push(Input { path: shown.into(), sha256 });
        }
    }

    fn buses(&mut self, file: &mut Section<'_>) -> (Vec<String>, Vec<BusConfig>) {
        let mut names = Vec::new();
        let mut buses = Vec::new();
        for entry in file.table_entries("bus") {
            let Some(table) = entry.value.as_table() else {
                self.findings.wrong_type(&entry.key, &entry.value, "a table with a bitrate");
                continue;
            };
            let mut bus = Section::new(table, self.findings);
            bus.require(&["bitrate"]);
            let nominal = bus.bitrate("bitrate");
            let data = bus.bitrate("data_bitrate");
            let is_fd = bus.boolean("fd").unwrap_or(data.is_some());
            let bit_error_rate = bus.float("bit_error_rate", 0.0..=0.1).unwrap_or(0.0);
            let restart = bus.nanos("restart");
            bus.finish();
            let nominal = nominal.unwrap_or(Bitrate::MAX);
            names.push(entry.key.clone());
            buses.push(BusConfig {
                name: entry.key.clone(),
                timing: Timing { nominal, data: data.unwrap_or(nominal) },
                is_fd,
                bit_error_rate,
                restart,
            });
        }
        if buses.is_empty() && file.has("bus") {
            self.findings.error(file.origin_of("bus"), "there is no bus");
        }
        (names, buses)
    }

    /// The place of a bus among `names`.
    fn bus(&self, name: &str, names: &[String], origin: &Origin) -> Option<usize> {
        let found = names.iter().position(|known| known == name);
        if found.is_none() {
            let message = format!("unknown bus `{name}`");
            let names = names.iter().map(String::as_str);
            match candor_config::did_you_mean(name, names.clone()) {
                Some(meant) => {
                    let hint = format!("did you mean `{meant}`?");
                    self.findings.error_with_hint(origin, message, hint);
                }
                None => {
                    let known = names.collect::<Vec<_>>().join(", ");
                    self.findings.error_with_hint(origin, message, format!("there are {known}"));
                }
            }
        }
        found
    }

    fn traffic(
        &mut self,
        mut section: Section<'_>,
        names: &[String],
        buses: &[BusConfig],
    ) -> Option<Traffic> {
        #[derive(Clone, Copy)]
        enum Kind {
            OneAtATime,
            Half,
            Flood,
            Periodic,
            Replay,
        }
        section.require(&["kind"]);
        let kind = section.one_of(
            "kind",
            &[
                ("one-at-a-time", Kind::OneAtATime),
                ("half", Kind::Half),
                ("flood", Kind::Flood),
                ("periodic", Kind::Periodic),
                ("replay", Kind::Replay),
            ],
        );
        // A campaign sets what any of its kinds needs; each kind takes its own.
        let frames = self.numbered(&mut section, buses);
        let turnaround = (
            section.nanos("turnaround_shortest").unwrap_or(Nanos::from_micros(50)),
            section.nanos("turnaround_longest").unwrap_or(Nanos::from_micros(150)),
        );
        let timeout = section.nanos("timeout").unwrap_or(Nanos::from_secs(1));
        let discipline = section
            .one_of("queue", &[("fifo", Discipline::Fifo), ("priority", Discipline::Priority)])
            .unwrap_or(Discipline::Priority);
        let is_periodic = matches!(kind, Some(Kind::Periodic));
        let nodes = self.periodic(&mut section, names, buses, is_periodic);
        let is_replay = matches!(kind, Some(Kind::Replay));
        let replay = self.replay(&mut section, names, is_replay);
        section.finish();
        let numbered = |drive| Some(Traffic::Numbered { frames: frames.clone()?, drive });
        match kind? {
            Kind::OneAtATime => numbered(candor_sim::Drive::OneAtATime { turnaround, timeout }),
            Kind::Half => numbered(candor_sim::Drive::Paced { period_percent: 200 }),
            Kind::Flood => numbered(candor_sim::Drive::Flood),
            Kind::Periodic => Some(Traffic::Periodic { nodes, discipline }),
            Kind::Replay => replay,
        }
    }

    fn numbered(&mut self, section: &mut Section<'_>, buses: &[BusConfig]) -> Option<Numbered> {
        let can_ids: Vec<_> = section
            .strings("id")
            .into_iter()
            .filter_map(|(text, origin)| match parse_id(text) {
                Ok(can_id) => Some(can_id),
                Err(reason) => {
                    self.findings.error(origin, format!("`{text}` is no identifier: {reason}"));
                    None
                }
            })
            .collect();
        let length = section.integer("length", 0..=64_i64).unwrap_or(8).unsigned_abs() as usize;
        let is_fd = section.boolean("fd").unwrap_or(length > 8);
        let fill = section.integer("fill", 0..=255_i64).unwrap_or(0x55) as u8;
        let fits = if is_fd { fd_dlc(length).is_some() } else { length <= 8 };
        if length < 2 || !fits {
            let message = format!("`length` is {length}, but the frame's number needs 2 bytes and \
                                   a frame has at most 8, or with CAN FD 12, 16, 20, 24, 32, 48, 64");
            self.findings.error(section.origin_of("length"), message);
            return None;
        }
        if is_fd && buses.first().is_some_and(|bus| !bus.is_fd) {
            let hint = "give the bus a data_bitrate, or fd = true";
            let message = "the first bus does not carry CAN FD";
            self.findings.error_with_hint(section.origin_of("length"), message, hint);
        }
        let fd_flags = is_fd.then_some(BRS);
        let can_ids = if can_ids.is_empty() { vec![0x123] } else { can_ids };
        Some(Numbered { can_ids, length, fd_flags, fill })
    }

    fn periodic(
        &mut self,
        section: &mut Section<'_>,
        names: &[String],
        buses: &[BusConfig],
        is_used: bool,
    ) -> Vec<(usize, String, Vec<Message>)> {
        let mut messages = Vec::new();
        let mut placed: Vec<(usize, String)> = Vec::new();
        for entry in section.table_entries("nodes") {
            let Some(bus) = self.bus(&entry.key, names, &entry.origin) else { continue };
            for node in entry.value.as_array().unwrap_or_default() {
                match node.as_str() {
                    Some(node) => placed.push((bus, node.to_owned())),
                    None => self.findings.wrong_type(&entry.key, node, "the name of a node"),
                }
            }
        }
        let dbc_origin = section.origin_of("dbc");
        if let Some(dbc) = section.string("dbc").filter(|_| is_used) {
            let path = locate(self.base, dbc);
            match messages_of_dbc(&path) {
                Ok(of_dbc) => messages.extend(of_dbc),
                Err(error) => self.findings.error(dbc_origin, error.to_string()),
            }
            self.input(dbc, &path);
        }
        for mut entry in section.sections("message") {
            entry.require(&["id", "period", "node"]);
            let text = entry.string("id").unwrap_or("0x0");
            let can_id = parse_id(text).unwrap_or_else(|reason| {
                let message = format!("`{text}` is no identifier: {reason}");
                self.findings.error(entry.origin_of("id"), message);
                0
            });
            let length = entry.integer("length", 0..=64_i64).unwrap_or(8).unsigned_abs() as usize;
            if fd_dlc(length).is_none() {
                let message = format!("no frame has {length} bytes");
                self.findings.error(entry.origin_of("length"), message);
            }
            let period = entry.nanos("period").unwrap_or(Nanos::from_secs(1));
            if period < Nanos::from_micros(10) {
                self.findings.error(entry.origin_of("period"), "a period is at least 10us");
            }
            messages.push(Message {
                name: entry.string("name").unwrap_or(text).to_owned(),
                node: entry.string("node").unwrap_or_default().to_owned(),
                can_id,
                length,
                period: period.max(Nanos::from_micros(10)),
                offset: entry.nanos("offset"),
                jitter: entry.nanos("jitter").unwrap_or_default(),
            });
            entry.finish();
        }
        if !is_used {
            return Vec::new();
        }
        if messages.is_empty() && !self.findings.has_errors() {
            let hint = "name a DBC file with traffic.dbc, or list messages under [[traffic.message]]";
            self.findings.error_with_hint(section.origin(), "there are no messages to send", hint);
        }
        let mut nodes: Vec<(usize, String, Vec<Message>)> = Vec::new();
        for message in messages {
            let Some(&(bus, _)) = placed.iter().find(|(_, node)| *node == message.node) else {
                let text = format!("node `{}` sends {}, but is on no bus", message.node, message.name);
                let hint = "list it under [traffic.nodes], as in powertrain = [\"Engine\"]";
                self.findings.error_with_hint(section.origin(), text, hint);
                continue;
            };
            if message.length > 8 && !buses[bus].is_fd {
                let text = format!("{} has {} bytes, but its bus is classical", message.name, message.length);
                self.findings.error(section.origin(), text);
            }
            match nodes.iter_mut().find(|(at, node, _)| *at == bus && *node == message.node) {
                Some((_, _, messages)) => messages.push(message),
                None => nodes.push((bus, message.node.clone(), vec![message])),
            }
        }
        nodes
    }

    fn replay(
        &mut self,
        section: &mut Section<'_>,
        names: &[String],
        is_used: bool,
    ) -> Option<Traffic> {
        let log_origin = section.origin_of("log");
        let log = section.string("log");
        let interface = section.string("interface").map(str::to_owned);
        let speed = section.float("speed", 0.001..=1_000_000.0).unwrap_or(1.0);
        let bus_origin = section.origin_of("bus");
        let bus = match section.string("bus") {
            Some(name) => self.bus(name, names, bus_origin)?,
            None => 0,
        };
        if !is_used {
            return None;
        }
        let Some(log) = log else {
            let hint = "name a recording: log = \"drive.log\", or --set traffic.log=drive.log";
            self.findings.error_with_hint(section.origin(), "`log` is missing", hint);
            return None;
        };
        let path = locate(self.base, log);
        if let Err(error) = std::fs::File::open(&path) {
            let hint = "paths count from the experiment's folder or from here";
            self.findings.error_with_hint(log_origin, format!("{log} cannot be read: {error}"), hint);
            return None;
        }
        self.input(log, &path);
        Some(Traffic::Replay { log: path, interface, speed, bus })
    }

    #[expect(clippy::type_complexity, reason = "read in one place")]
    fn gateway(
        &mut self,
        mut section: Section<'_>,
        names: &[String],
        load: Load,
        can_id: Option<u32>,
    ) -> Option<(Gateway, Option<candor_sim::instrument::Instrument>, String)> {
        let profile_name = section.string("profile");
        let delay = section.nanos("delay");
        let in_user_space =
            section.one_of("kind", &[("kernel", false), ("user", true)]).unwrap_or(false);
        let depth = section.integer("tx_queue", 1..=1_000_000_i64).map(|n| n.unsigned_abs() as usize);
        let discipline = section
            .one_of("egress", &[("fifo", Discipline::Fifo), ("priority", Discipline::Priority)]);
        let generate = section.section("generate").map(read_generated);
        let rules_origin = section.origin_of("rules");
        let rules_file = section.string("rules");
        let origin = section.origin();
        section.finish();

        let (model, tester, description) = match (profile_name, delay) {
            (None, Some(delay)) => {
                let egress = Egress {
                    depth: depth.unwrap_or(10),
                    discipline: discipline.unwrap_or(Discipline::Fifo),
                };
                let description = format!("a gateway of constant delay {delay}");
                (Model::Constant { delay, egress }, None, description)
            }
            (Some(name), None) => {
                let profile = match profile::load(name, self.base) {
                    Ok(profile) => profile,
                    Err(error) => {
                        self.findings.error(section_origin(origin, names), error.to_string());
                        return None;
                    }
                };
                let mut host = profile.host;
                host.egress = Egress {
                    depth: depth.unwrap_or(host.egress.depth),
                    discipline: discipline.unwrap_or(host.egress.discipline),
                };
                if in_user_space {
                    host.user_space = Some(profile.user_space);
                }
                if load.cpu {
                    host.slowdown_percent = profile.cpu_load.0;
                    host.interference.extend(profile.cpu_load.1);
                }
                if load.ethernet {
                    host.ethernet = Some(profile.ethernet_load);
                }
                let place = if in_user_space { "user-space" } else { "kernel" };
                let description = format!("model {name}, {place} gateway");
                (Model::Linux(Box::new(host)), Some(profile.tester), description)
            }
            _ => {
                let hint = "profile = \"mpc5200-2.6.33\" models a host, delay = \"35us\" is a constant";
                let message = "a gateway has either a `profile` or a `delay`";
                self.findings.error_with_hint(origin, message, hint);
                return None;
            }
        };
        let rules = match (rules_file, generate) {
            (Some(file), None) => self.rules(file, rules_origin)?,
            (None, generated) => {
                let generated = generated.unwrap_or(Generated::EVERYTHING);
                let [source, target] = names else {
                    let hint = "generated rules pass from the first bus to the second: list two buses, \
                                or name a rule file with gateway.rules";
                    self.findings.error_with_hint(origin, "the rules do not fit the buses", hint);
                    return None;
                };
                match generated.table(can_id.unwrap_or(0x123)) {
                    Ok(mut table) => {
                        for (bus, name) in table.buses.iter_mut().zip([source, target]) {
                            bus.name.clone_from(name);
                        }
                        table
                    }
                    Err(reason) => {
                        self.findings.error(origin, reason);
                        return None;
                    }
                }
            }
            (Some(_), Some(_)) => {
                let message = "a gateway has either `rules` or `generate`";
                self.findings.error(rules_origin, message);
                return None;
            }
        };
        for bus in rules.buses.iter().filter(|bus| !bus.is_virtual) {
            self.bus(&bus.name, names, rules_origin)?;
        }
        Some((Gateway { model, rules }, tester, description))
    }

    fn rules(&mut self, file: &str, origin: &Origin) -> Option<candor_route::Table> {
        let path = locate(self.base, file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                let hint = "paths count from the experiment's folder or from here";
                let message = format!("{file} cannot be read: {error}");
                self.findings.error_with_hint(origin, message, hint);
                return None;
            }
        };
        self.input(file, &path);
        let (table, of_rules) = candor_route::file::parse(&path.display().to_string(), &text);
        if of_rules.has_errors() {
            let message = format!("the rules in {file} have errors:\n{of_rules}");
            let hint = format!("`candor route check {}` shows them too", path.display());
            self.findings.error_with_hint(origin, message, hint);
            return None;
        }
        table
    }
}

fn section_origin<'a>(origin: &'a Origin, _names: &[String]) -> &'a Origin {
    origin
}

impl Generated {
    /// One rule for everything.
    const EVERYTHING: Self = Self {
        filters: 0,
        kind: FilterKind::Standard,
        modification: Modification::None,
        hops: 0,
        virtual_buses: 1,
    };
}

fn read_generated(mut section: Section<'_>) -> Generated {
    let generated = Generated {
        filters: section.integer("filters", 0..=100_000).unwrap_or(0),
        kind: section
            .one_of(
                "filter_kind",
                &[
                    ("standard", FilterKind::Standard),
                    ("extended", FilterKind::Extended),
                    ("masked", FilterKind::Masked),
                ],
            )
            .unwrap_or(FilterKind::Standard),
        modification: section
            .one_of(
                "modify",
                &[
                    ("none", Modification::None),
                    ("and", Modification::And),
                    ("or", Modification::Or),
                    ("xor", Modification::Xor),
                    ("set", Modification::Set),
                    ("checksum", Modification::Checksum),
                ],
            )
            .unwrap_or(Modification::None),
        hops: section.integer("hops", 0..=100).unwrap_or(0),
        virtual_buses: section.integer("virtual_buses", 1..=2).unwrap_or(1),
    };
    section.finish();
    generated
}

/// An identifier: `0x123`, or `0x18FEF100x` for an extended one.
fn parse_id(text: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "expected 0x123, or 0x18FEF100x for an extended one";
    let digits = text.strip_prefix("0x").ok_or(EXPECTED)?;
    let (digits, is_extended) = match digits.strip_suffix('x') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let id = u32::from_str_radix(digits, 16).map_err(|_| EXPECTED)?;
    match (is_extended, id) {
        (true, 0..=EFF_MASK) => Ok(id | EFF_FLAG),
        (false, 0..=SFF_MASK) => Ok(id),
        (false, 0..=EFF_MASK) => Err("a standard identifier is at most 0x7FF; an extended one ends in x"),
        _ => Err("an identifier is at most 0x1FFFFFFFx"),
    }
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
    fn globs_match_as_in_a_shell() {
        for (glob, name, matches) in [
            ("*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*b*", "abab", true),
            ("abc", "abc", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_glob(glob, name), matches, "{glob} {name}");
        }
    }

    #[test]
    fn identifiers_are_read_as_in_rule_files() {
        assert_eq!(parse_id("0x123"), Ok(0x123));
        assert_eq!(parse_id("0x18FEF100x"), Ok(0x98FE_F100));
        for text in ["123", "0x800", "0x20000000x", "0x", "0xG", ""] {
            assert!(parse_id(text).is_err(), "{text}");
        }
    }
}
