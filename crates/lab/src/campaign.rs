//! [`Campaign`]: the experiments of a file, checked and multiplied out.
//!
//! A file holds the settings of one experiment, or of many: `[[experiment]]` tables are laid over
//! the rest of the file, and `[matrix]` multiplies each by lists of values. What the command line
//! sets comes last.
//!
//! ```text
//!  table -- reader, traffic, gateway --> what is said, in any world
//!                                          |-- sim --> World::Sim     a model, in virtual time
//!                                          \-- vm  --> World::Vm      real kernels in QEMU
//! ```
//!
//! Every setting is read and checked in every world; a world takes what it needs, leaves alone what
//! is another's, and refuses what it cannot host.

mod effect;
mod gateway;
mod hidden;
mod matrix;
mod reader;
mod seeds;
mod sim;
mod traffic;
mod vm;

use std::path::Path;

use candor_config::{Data, Section, Table, Value, quoted};
use candor_diagnostics::{Findings, Origin, Severity, Source};

use self::hidden::Hidden;
use self::matrix::{Draft, multiply};
use self::reader::Reader;
use crate::claims::Claim;
use crate::error::Error;
use crate::experiment::{Bus, Experiment, KernelChoice, Load, Testbed, Traffic, World};

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

/// What the command line says about a campaign.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `key=value`, laid over every experiment.
    pub set: Vec<String>,
    /// Only experiments whose name matches.
    pub only: Option<String>,
    /// Use this seed instead of the file's.
    pub seed: Option<u64>,
    /// The testbed, instead of the file's.
    pub testbed: Option<Testbed>,
    /// The kernel of every virtual machine, instead of the file's.
    pub kernel: Option<KernelChoice>,
    /// The speed of every virtual machine, instead of the file's.
    pub mips: Option<u32>,
}

impl Options {
    /// Lays over a draft what the command line says.
    fn lay_over(&self, table: &mut Table) -> Result<(), Error> {
        for set in &self.set {
            let over = candor_config::setting("--set", set).map_err(Error::Other)?;
            if let Some((bus, hint)) = effect::unknown_bus(table, &over) {
                return Err(Error::Other(format!("--set {set}: unknown bus `{bus}`; {hint}")));
            }
            table.merge(over);
        }
        let merge = |table: &mut Table, option: &str, setting: &str| {
            table.merge(candor_config::setting(option, setting).map_err(Error::Other)?);
            Ok::<(), Error>(())
        };
        if let Some(testbed) = self.testbed {
            merge(table, "--testbed", &format!("testbed={}", quoted(testbed.name())))?;
        }
        let is_vm = table.get("testbed").and_then(Value::as_str) == Some(Testbed::Vm.name());
        if let Some(kernel) = self.kernel.as_ref().filter(|_| is_vm) {
            // A table would be laid over one of the file, not put in its place.
            if let Some(mut machine) = table.get("vm").and_then(Value::as_table).cloned() {
                machine.remove("kernel");
                table.remove("vm");
                let origin = machine.origin().clone();
                table.set_path(&["vm"], Value { origin, data: Data::Table(machine) });
            }
            merge(table, KERNEL_OPTION, &format!("vm.kernel={}", kernel.to_toml()))?;
        }
        if let Some(mips) = self.mips.filter(|_| is_vm) {
            merge(table, "--mips", &format!("vm.mips={mips}"))?;
        }
        Ok(())
    }
}

impl Options {
    /// Refuses options that none of the experiments uses.
    fn require_effect(&self, experiments: &[Experiment]) -> Result<(), Error> {
        for set in &self.set {
            let over = candor_config::setting("--set", set).map_err(Error::Other)?;
            effect::require(set, &over, experiments)?;
        }
        if let Some(kernel) = &self.kernel {
            effect::User::Vm.require(&format!("{KERNEL_OPTION} {kernel}"), experiments)?;
        }
        if let Some(mips) = self.mips {
            effect::User::Vm.require(&format!("--mips {mips}"), experiments)?;
        }
        Ok(())
    }
}

/// What findings about a kernel of the command line name as their place.
pub(crate) const KERNEL_OPTION: &str = "--kernel";

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
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
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
    let variants = table.remove("experiment");
    let matrix = table.remove("matrix");
    let claims = crate::claims::read(table.remove("claim").as_ref(), &findings);
    let title = table.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    let drafts = multiply(&table, variants.as_ref(), matrix.as_ref(), &findings);
    for hidden in hidden::find(&table, variants.as_ref(), matrix.as_ref()) {
        check_alone(&hidden, base, &findings);
    }
    let only = options.only.as_deref();
    let mut repeated = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let is_meant = only.is_none_or(|glob| seeds::is_meant(&draft, glob));
        match options.lay_over(&mut draft.table) {
            Ok(()) => repeated.extend(seeds::repeat(draft, options.seed)),
            Err(error) if is_meant => return Err(error),
            // What the command line sets need not fit an experiment that is not chosen.
            Err(_) => {}
        }
    }
    matrix::refuse_equal_names(&repeated, &findings);
    if repeated.is_empty() && findings.has_errors() {
        return Err(Error::Findings(findings));
    }
    let selected = select(name, repeated, only)?;
    let mut experiments = Vec::with_capacity(selected.len());
    let mut is_open = Vec::with_capacity(selected.len());
    for draft in selected {
        is_open.push(draft.table.get("per_frame").is_none());
        experiments.extend(read(draft, base, &findings));
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
    let Traffic::Replay { log, .. } = &experiment.traffic else { return experiment.count };
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

/// What a file says beside its buses, rules and traffic, before a world has looked at it.
struct Said<'a> {
    gateway: Option<gateway::Said<'a>>,
    load: Load,
    load_size: vm::LoadSize,
    machine: vm::Said,
    count: Option<u64>,
    traffic: Option<&'a Traffic>,
    wants_tester: bool,
    tester_origin: &'a Origin,
    /// The place of a setting that may be absent: then that of its table.
    table: &'a Table,
}

impl<'a> Said<'a> {
    /// Where the value of a setting stands, or what is around it.
    fn origin_of(&self, path: &[&str]) -> &'a Origin {
        let mut table = self.table;
        let mut origin = table.origin();
        for key in path {
            let Some(value) = table.get(key) else { break };
            origin = &value.origin;
            let Some(inner) = value.as_table() else { break };
            table = inner;
        }
        origin
    }
}

/// What is read of an experiment in any world.
struct Settings<'a> {
    title: Option<&'a str>,
    testbed: Option<Testbed>,
    seed: Option<u64>,
    count: Option<u64>,
    per_frame: Option<bool>,
    load: Load,
    load_size: vm::LoadSize,
    traffic: Option<Traffic>,
    gateway: Option<gateway::Said<'a>>,
    machine: vm::Said,
    wants_tester: Option<bool>,
    tester_origin: &'a Origin,
}

impl<'a> Settings<'a> {
    fn read(mut file: Section<'a>, reader: &mut Reader<'_>) -> Self {
        file.string("name");
        let title = file.string("title");
        let testbeds = Testbed::ALL.map(|testbed| (testbed.name(), testbed));
        let testbed = file.one_of("testbed", &testbeds);
        let seed = file.integer("seed", 0..=i64::MAX.unsigned_abs());
        let _ = file.integer("seeds", 1..=seeds::MOST);
        let count = file.integer("count", 1..=i64::MAX.unsigned_abs());
        let per_frame = file.boolean("per_frame");
        let (load, load_size) = file.section("load").map(read_load).unwrap_or_default();
        let traffic = file.section("traffic").and_then(|section| reader.traffic(section));
        let gateway =
            file.section("gateway").map(|section| reader.gateway(section, traffic.as_ref()));
        let machine = reader.machine(file.section("vm"));
        let wants_tester = file.one_of("instrument", &[("wire", false), ("tester", true)]);
        let tester_origin = file.origin_of("instrument");
        file.finish();
        Self {
            title,
            testbed,
            seed,
            count,
            per_frame,
            load,
            load_size,
            traffic,
            gateway,
            machine,
            wants_tester,
            tester_origin,
        }
    }
}

/// Checks values that no experiment uses, each by itself: whether they fit to anything else is a
/// matter of the values that are used.
fn check_alone(hidden: &Hidden, base: &Path, findings: &Findings) {
    let found = Findings::new();
    let mut file = Section::new(&hidden.table, &found);
    let mut reader = Reader::new(base, &found, &mut file);
    reader.buses.clear();
    Settings::read(file, &mut reader);
    for finding in found {
        if finding.severity == Severity::Error && hidden.has(&finding.origin) {
            findings.push(finding);
        }
    }
}

/// Reads one experiment; findings tell what is wrong with it.
fn read(draft: Draft, base: &Path, findings: &Findings) -> Option<Experiment> {
    let Draft { name, group, seed, axes, table } = draft;
    let mut file = Section::new(&table, findings);
    file.require(&["bus", "traffic"]);
    let mut reader = Reader::new(base, findings, &mut file);
    let settings = Settings::read(file, &mut reader);
    let traffic = settings.traffic;
    let said = Said {
        gateway: settings.gateway,
        load: settings.load,
        load_size: settings.load_size,
        machine: settings.machine,
        count: settings.count,
        traffic: traffic.as_ref(),
        wants_tester: settings.wants_tester == Some(true),
        tester_origin: settings.tester_origin,
        table: &table,
    };
    let hosted = match settings.testbed.unwrap_or(Testbed::Sim) {
        Testbed::Sim => reader.sim(said),
        Testbed::Vm => reader.vm(said),
    };
    let (Some(Hosted { world, rules, conditions }), Some(traffic)) = (hosted, traffic) else {
        return None;
    };
    let whole = if matches!(traffic, Traffic::Replay { .. }) { u64::MAX } else { DEFAULT_COUNT };
    Some(Experiment {
        title: settings.title.unwrap_or(&group).to_owned(),
        name,
        group,
        axes,
        config: table.to_toml_string(),
        seed: seed.or(settings.seed).unwrap_or(1),
        count: settings.count.unwrap_or(whole),
        buses: reader.buses.into_iter().map(Bus::from).collect(),
        rules,
        traffic,
        conditions,
        inputs: reader.inputs,
        per_frame: settings.per_frame.unwrap_or(true),
        world,
    })
}

/// A world that can host an experiment.
struct Hosted {
    world: World,
    /// The rules of its gateway.
    rules: Option<candor_engine::Table>,
    conditions: String,
}

/// Which load, and how much of it.
fn read_load(mut section: Section<'_>) -> (Load, vm::LoadSize) {
    section.require(&["kind"]);
    let load = |cpu, ethernet| Load { cpu, ethernet };
    let kinds = [
        ("none", load(false, false)),
        ("cpu", load(true, false)),
        ("ethernet", load(false, true)),
        ("both", load(true, true)),
    ];
    let load = section.one_of("kind", &kinds).unwrap_or_default();
    let size = vm::LoadSize::read(&mut section);
    section.finish();
    (load, size)
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
            ..Options::default()
        };
        let campaign = parse("t.toml", SIMPLE, Path::new("."), &options).unwrap();
        let experiment = &campaign.experiments[0];
        assert_eq!(experiment.seed, 9);
        assert_eq!(experiment.buses[0].timing.nominal.bits_per_second(), 250_000);
        assert!(experiment.config.contains("kind = \"half\""), "{}", experiment.config);
    }

    #[test]
    fn everything_wrong_is_reported_at_once() {
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
    fn what_does_not_fit_together_is_reported() {
        let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n";
        let flood = "traffic.kind = 'flood'\n";
        let periodic = "traffic.kind = 'periodic'\n";
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.log");
        std::fs::write(&empty, "# nothing happened\n").unwrap();
        let empty = empty.display();
        for (text, parts) in [
            (format!("{two}{flood}gateway.tx_queue = 5"), &["either a `profile` or a `delay`"][..]),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', tx_queue = 0 }}"),
                &["`tx_queue` is 0"],
            ),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', rules = 'absent.toml' }}"),
                &["absent.toml cannot be read", "paths are relative"],
            ),
            (
                format!("bus.in.bitrate = '1M'\n{flood}gateway.delay = '1us'"),
                &["the rules do not match the buses"],
            ),
            (
                format!("{two}{flood}gateway = {{ delay = '1us', generate.hops = 101 }}"),
                &["`hops` is 101, but must be 0 to 100"],
            ),
            (format!("{two}{flood}instrument = 'tester'"), &["there is no tester"]),
            (format!("bus = {{}}\n{flood}"), &["no bus is defined"]),
            (format!("bus.in = 1\n{flood}"), &["`in` is an integer, expected a table"]),
            (
                format!("{two}traffic = {{ kind = 'flood', id = '0x800' }}"),
                &["`0x800` is not an identifier"],
            ),
            (format!("{two}traffic = {{ kind = 'flood', length = 1 }}"), &["`length` is 1"]),
            (
                format!("{two}traffic = {{ kind = 'flood', length = 12 }}"),
                &["does not support CAN FD"],
            ),
            (format!("{two}traffic = {{ kind = 'flood', fill = 256 }}"), &["must be 0 to 255"]),
            (format!("{two}{periodic}"), &["there are no messages to send"]),
            (
                format!("{two}{periodic}traffic.nodes.inn = ['A']"),
                &["unknown bus `inn`", "did you mean `in`?"],
            ),
            (
                format!(
                    "{two}{periodic}[[traffic.message]]\nid = '0x1'\nnode = 'A'\nperiod = '1us'"
                ),
                &["a period must be at least 10us", "node `A` sends 0x1, but is not on any bus"],
            ),
            (format!("{two}{periodic}traffic.dbc = 'absent.dbc'"), &["absent.dbc cannot be read"]),
            (format!("{two}traffic.kind = 'replay'"), &["`log` is missing"]),
            (
                format!("{two}traffic = {{ kind = 'replay', log = 'absent.log' }}"),
                &["absent.log cannot be read"],
            ),
            (
                format!("{two}traffic = {{ kind = 'replay', log = '{empty}' }}"),
                &["empty.log has no frames to send"],
            ),
            (
                format!("{two}{flood}[matrix]\nbus.oit.bitrate = ['1M']"),
                &["the matrix sets bus `oit`", "did you mean `out`?"],
            ),
            (
                format!("{two}{flood}[matrix]\ncount = 5"),
                &["`count` is an integer, expected a list"],
            ),
            (format!("{two}{flood}[[experiment]]"), &["`name` is missing"]),
            (
                format!("{two}{flood}[[experiment]]\nname = 'a b'\n[[experiment]]\nname = 'a/b'"),
                &["two experiments are called `a-b`", "letters, digits", "name = 'a/b'"],
            ),
            (
                format!("{two}{flood}[matrix]\ntraffic.kind = []\ntraffic.length = 1"),
                &[
                    "test.toml:5:16: error: `traffic.kind` is empty",
                    "remove it from the matrix",
                    "`traffic.length` is an integer, expected a list",
                ],
            ),
            (
                format!("{two}{flood}[matrix]\ntraffic.kind = ['half']\n'traffic.kind' = ['half']"),
                &["test.toml:6:18: error: two lists of a matrix set `traffic.kind`", "one list"],
            ),
            (
                format!(
                    "{two}{flood}[[experiment]]\nname = 'a'\nmatrix.seed = [1, 2]\n\
                     [matrix]\nseed = [3]"
                ),
                &["test.toml:8:8: error: two lists of a matrix set `seed`"],
            ),
            (
                format!(
                    "testbed = 'vm'\n{two}{flood}gateway = {{ kind = 'kernel', profile = 'mpc' }}"
                ),
                &["test.toml:5:40: error: unknown host profile `mpc`"],
            ),
            (
                format!("experiment = []\n{two}{flood}"),
                &["test.toml:1:14: error: `experiment` is empty", "write a table [[experiment]]"],
            ),
            (
                format!("{two}traffic = {{ kind = 'flood', id = [] }}"),
                &["test.toml:3:34: error: `id` is empty", "remove `id` to send 0x123"],
            ),
            (
                format!("{two}{flood}traffic.nodes.in = 'A'"),
                &["test.toml:4:20: error: `in` is text, expected a list of nodes"],
            ),
            (
                format!(
                    "{two}{flood}[[claim]]\nid = 'A'\nsays = ''\nvalue = '{{each}} lost'\n\
                     at_most = 0\neach = []"
                ),
                &["test.toml:9:8: error: `each` is empty", "remove `each` to make one claim"],
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

    /// What each experiment lays something over is read too, by itself.
    #[test]
    fn values_that_no_experiment_uses_are_checked() {
        let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\ngateway.delay = '1us'\n";
        let all = "[[experiment]]\nname = 'a'\ncount = 5\ntraffic = { kind = 'half', length = 2 }\n\
                   [[experiment]]\nname = 'b'\ncount = 6\ntraffic = { kind = 'half', length = 3 }\n";
        let matrix = "[matrix]\ntraffic.kind = ['half', 'flood']\n'gateway.kind' = ['kernel']\n";
        for (text, parts) in [
            (
                format!("count = 0\n{two}[traffic]\nlength = 65\nkind = 'floot'\n{all}"),
                &[
                    "test.toml:1:9: error: `count` is 0",
                    "test.toml:6:10: error: `length` is 65",
                    "test.toml:7:8: error: `kind` is \"floot\"",
                    "did you mean `flood`?",
                ][..],
            ),
            (
                format!(
                    "{two}traffic.kind = 'half'\ngateway.profile = 'mpc'\n\
                     [[experiment]]\nname = 'a'\ngateway.profile = 'mpc5200-2.6.33'\n"
                )
                .replace("gateway.delay = '1us'\n", ""),
                &["test.toml:4:19: error: unknown host profile `mpc`"],
            ),
            (format!("name = 5\n{two}{all}"), &["test.toml:1:8: error: `name` is an integer"]),
            (
                format!("{two}[[traffic]]\nkind = 'flood'\n{matrix}"),
                &["test.toml:4:1: error: `traffic` is a list, expected a table"],
            ),
            (
                format!("{two}[traffic.kind]\nhalf = true\n{matrix}"),
                &["test.toml:4:1: error: `kind` is a table, expected text"],
            ),
            (
                format!("{two}traffic.kind = 'x'\n[[experiment]]\nname = 'a'\n{matrix}"),
                &["test.toml:4:16: error: `kind` is \"x\""],
            ),
            (
                format!("{two}[[experiment]]\nname = 'a'\ntraffic.kind = 'x'\n{matrix}"),
                &["test.toml:6:16: error: `kind` is \"x\""],
            ),
        ] {
            let error = match names(&text, &Options::default()) {
                Err(error) => error.to_string(),
                Ok(names) => panic!("accepted as {names:?}:\n{text}"),
            };
            let count = error.matches("error:").count();
            let expected = parts.iter().filter(|part| part.contains("error:")).count();
            assert_eq!(count, expected, "{text}\n{error}");
            for part in parts {
                assert!(error.contains(part), "{part} is missing in\n{error}");
            }
        }
    }

    /// Whether they would fit to the rest does not matter.
    #[test]
    fn values_that_no_experiment_uses_are_held_against_nothing() {
        let two = "bus.in.bitrate = '1M'\nbus.out.bitrate = '1M'\n";
        for (rest, expected) in [
            // A classical bus, another kind of traffic, no log, a bus that is not there.
            (
                "testbed = 'vm'\ntraffic.length = 64\ntraffic.kind = 'replay'\ntraffic.bus = 'x'\n\
                 gateway.delay = '1us'\n\
                 [[experiment]]\nname = 'a'\ntestbed = 'sim'\n\
                 traffic = { kind = 'half', length = 8, bus = 'in' }\n",
                &["a"][..],
            ),
            // A load without a kind; a table that every experiment completes.
            (
                "load.groups = 2\ngateway.profile = 'mpc5200-2.6.33'\ntraffic.fill = 1\n\
                 [matrix]\nload.groups = [3, 4]\nload.kind = ['cpu']\ntraffic.fill = [2]\n\
                 traffic.kind = ['half']\n",
                &["3-cpu-2-half", "4-cpu-2-half"],
            ),
        ] {
            let found =
                names(&format!("{rest}[bus]\n{}", two.replace("bus.", "")), &Options::default());
            assert_eq!(found.unwrap(), expected, "{rest}");
        }
    }

    #[test]
    fn a_file_without_experiments_says_why_whatever_is_chosen() {
        let only = Options { only: Some("a".into()), ..Options::default() };
        let error = names("experiment = []", &only).unwrap_err().to_string();
        assert!(error.contains("`experiment` is empty"), "{error}");
    }
}
