//! Host profiles: the parameters of a model, each with its source.
//!
//! A profile is a TOML file. Every parameter is a table with a `value` and a `source`; a parameter
//! without a source is refused, for a model without sources is a guess. Profiles under `profiles/`
//! are built in; another one is named by its path.

use std::path::{Path, PathBuf};

use candor_config::{Section, Table};
use candor_diagnostics::{Findings, Source};
use candor_sim::Discipline;
use candor_sim::instrument::Instrument;
use candor_sim::model::{
    Egress, EthernetLoad, FilterCosts, Interference, Linux, Readout, UserSpace,
};
use candor_time::Nanos;

use crate::error::Error;
use crate::locate::locate;

/// The profiles that are built in: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("mpc5200-2.6.33", include_str!("../../../../../profiles/mpc5200-2.6.33.toml")),
    ("mpc5200-2.6.33-rt", include_str!("../../../../../profiles/mpc5200-2.6.33-rt.toml")),
];

/// A host profile.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// The host without load, with its rules in the kernel.
    pub(super) host: Linux,
    /// What a gateway in user space costs.
    pub(super) user_space: UserSpace,
    /// What a load on the processor does: the slowdown in percent and more interference.
    pub(super) cpu_load: (u32, Vec<Interference>),
    pub(super) ethernet_load: EthernetLoad,
    /// The computer that measured the original.
    pub(super) tester: Instrument,
}

/// The file of a profile that is not built in.
pub(super) fn file(name: &str, base: &Path) -> Option<PathBuf> {
    let is_built_in = BUILT_IN.iter().any(|(built_in, _)| *built_in == name);
    (!is_built_in && name.ends_with(".toml")).then(|| locate(base, name))
}

/// Loads a built-in profile or, if `name` ends in `.toml`, a file.
///
/// # Errors
/// There is none of that name, or it is not right.
pub(super) fn load(name: &str, base: &Path) -> Result<Profile, Error> {
    let built_in = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
    let (file, text) = match (built_in, file(name, base)) {
        (Some((_, text)), _) => (format!("profiles/{name}.toml"), (*text).to_owned()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path).map_err(|error| Error::read(&path, error))?;
            (path.display().to_string(), text)
        }
        (None, None) => {
            let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            let meant = candor_diagnostics::did_you_mean(name, names.iter().copied())
                .map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
            return Err(Error::Other(format!(
                "unknown host profile `{name}`; {meant}the built-in profiles are {}; a file name \
                 must end in .toml",
                names.join(", ")
            )));
        }
    };
    parse(&file, &text)
}

fn parse(file: &str, text: &str) -> Result<Profile, Error> {
    let findings = Findings::new();
    let source = Source::new(file, text);
    let profile = candor_config::parse(&source, &findings).map(|table| read(&table, &findings));
    match profile {
        Some(profile) if !findings.has_errors() => Ok(profile),
        _ => Err(Error::Findings(findings)),
    }
}

/// A table of parameters, each a table of `value` and `source`, or of more such tables.
struct Parameters<'a> {
    section: Section<'a>,
    /// What is read where a table is missing: all its keys are missing too.
    empty: &'a Table,
}

impl<'a> Parameters<'a> {
    /// Reads the table `key`, which must be there, to its end.
    fn table<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.section.require(&[key]);
        let section = self.section.section(key);
        let section = section.unwrap_or_else(|| Section::new(self.empty, self.section.findings()));
        let mut table = Self { section, empty: self.empty };
        let value = read(&mut table);
        table.section.finish();
        value
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'a>) -> Option<T>,
    ) -> Option<T> {
        self.section.require(&[key]);
        let mut parameter = self.section.section(key)?;
        parameter.require(&["value", "source"]);
        let value = read(&mut parameter);
        if parameter.string("source").is_some_and(|source| source.trim().is_empty()) {
            let hint = "name the source of the number: a paper, a data sheet, a measurement, a fit";
            let findings = parameter.findings();
            findings.error_with_hint(parameter.origin_of("source"), "`source` is empty", hint);
        }
        parameter.finish();
        value
    }

    fn nanos(&mut self, key: &'static str) -> Nanos {
        self.read(key, |parameter| parameter.nanos("value")).unwrap_or_default()
    }

    fn count(&mut self, key: &'static str, most: u32) -> u32 {
        self.read(key, |parameter| parameter.integer("value", 0..=most)).unwrap_or(1)
    }

    fn share(&mut self, key: &'static str) -> f64 {
        self.read(key, |parameter| parameter.float("value", 0.0..=1.0)).unwrap_or_default()
    }

    fn flag(&mut self, key: &'static str) -> bool {
        self.read(key, |parameter| parameter.boolean("value")).unwrap_or_default()
    }

    /// `[[interference]]`: what disturbs the host.
    fn interferences(&mut self) -> Vec<Interference> {
        let sections = self.section.sections("interference");
        sections
            .into_iter()
            .map(|mut section| {
                section.require(&["name"]);
                section.string("name");
                let mut of = Self { section, empty: self.empty };
                let interference = Interference {
                    every: of.nanos("every"),
                    is_random: of.flag("random"),
                    duration: (of.nanos("shortest"), of.nanos("longest")),
                };
                let section = of.section;
                if interference.every < Nanos::from_micros(10) {
                    let message = "`every` must be at least 10us";
                    section.findings().error(section.origin_of("every"), message);
                }
                section.finish();
                interference
            })
            .collect()
    }
}

fn read(table: &Table, findings: &Findings) -> Profile {
    let empty = Table::new(table.origin().clone());
    let mut file = Parameters { section: Section::new(table, findings), empty: &empty };
    file.section.require(&["title"]);
    // What it describes is for its readers.
    let _ = file.section.string("title");
    let filter = file.table("filter", filter_costs);
    let interference = file.interferences();
    let host = file.table("host", |host| linux(host, filter, interference));
    let user_space = file.table("user_space", user_space);
    let (cpu_load, ethernet_load) = file.table("load", load_costs);
    let tester = file.table("tester", tester);
    file.section.finish();
    Profile { host, user_space, cpu_load, ethernet_load, tester }
}

/// `[filter]`: what it takes to look through the rules.
fn filter_costs(filter: &mut Parameters<'_>) -> FilterCosts {
    FilterCosts {
        slot: filter.nanos("slot"),
        entry: filter.nanos("entry"),
        entry_uncached: filter.nanos("entry_uncached"),
        cached_entries: filter.count("cached_entries", 1_000_000),
        extended_in_list: filter.flag("extended_in_list"),
    }
}

/// `[host]`: the kernel.
fn linux(host: &mut Parameters<'_>, filter: FilterCosts, interference: Vec<Interference>) -> Linux {
    let readout = host.read("readout", |parameter| {
        parameter.one_of("value", &[("soft-irq", Readout::SoftIrq), ("hard-irq", Readout::HardIrq)])
    });
    Linux {
        interrupt: host.nanos("interrupt"),
        readout: readout.unwrap_or(Readout::SoftIrq),
        read: host.nanos("read"),
        rx_fifo: host.count("rx_fifo", 65_536) as usize,
        tx_buffers: host.count("tx_buffers", 65_536) as usize,
        transmit_done: host.nanos("transmit_done"),
        soft_irq: host.nanos("soft_irq"),
        poll_weight: host.count("poll_weight", 65_536).max(1),
        receive: host.nanos("receive"),
        jitter: host.nanos("jitter"),
        filter,
        clone: host.nanos("clone"),
        copy: host.nanos("copy"),
        transmit: host.nanos("transmit"),
        virtual_transmit: host.nanos("virtual_transmit"),
        virtual_more: host.nanos("virtual_more"),
        backlog: host.count("backlog", 1_000_000) as usize,
        egress: Egress {
            depth: host.count("tx_queue", 1_000_000) as usize,
            discipline: Discipline::Fifo,
        },
        user_space: None,
        is_preempt_rt: host.flag("preempt_rt"),
        slowdown_percent: 100,
        interference,
        ethernet: None,
    }
}

/// `[user_space]`: what a process costs that forwards frames.
fn user_space(user: &mut Parameters<'_>) -> UserSpace {
    UserSpace {
        socket: user.nanos("socket"),
        socket_depth: user.count("socket_depth", 1_000_000) as usize,
        wake: user.nanos("wake"),
        recv: user.nanos("recv"),
        send: user.nanos("send"),
    }
}

/// `[load]`: how much slower a busy processor is and what disturbs it, and the load of Ethernet.
fn load_costs(load: &mut Parameters<'_>) -> ((u32, Vec<Interference>), EthernetLoad) {
    let cpu_load = load.table("cpu", |cpu| {
        let interference = cpu.interferences();
        (cpu.count("slowdown_percent", 10_000).max(1), interference)
    });
    let ethernet_load = load.table("ethernet", |ethernet| EthernetLoad {
        every: ethernet.nanos("every"),
        fragments: ethernet.count("fragments", 1_000).max(1),
        spacing: ethernet.nanos("spacing"),
        interrupt: ethernet.nanos("interrupt"),
        receive: ethernet.nanos("receive"),
        reply: ethernet.nanos("reply"),
    });
    if ethernet_load.spacing * u64::from(ethernet_load.fragments - 1) >= ethernet_load.every {
        let message = "the fragments of one request take longer than `every`";
        let hint = "raise `every` or lower `spacing`";
        let section = &load.section;
        section.findings().error_with_hint(section.origin_of("ethernet"), message, hint);
    }
    (cpu_load, ethernet_load)
}

/// `[tester]`: the instrument of the papers.
fn tester(tester: &mut Parameters<'_>) -> Instrument {
    Instrument {
        interrupt: tester.nanos("interrupt"),
        transmit_done: tester.nanos("transmit_done"),
        reload: tester.nanos("reload"),
        read: tester.nanos("read"),
        noise: tester.nanos("noise"),
        late_share: tester.share("late_share"),
        late: tester.nanos("late"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_right() {
        for (name, _) in BUILT_IN {
            drop(load(name, Path::new(".")).unwrap_or_else(|error| panic!("{error}")));
        }
    }

    #[test]
    fn a_number_without_a_source_is_refused() {
        let (_, text) = BUILT_IN[0];
        let start = text.find("source = \"").unwrap() + "source = \"".len();
        let end = start + text[start..].find('"').unwrap();
        let text = format!("{}{}", &text[..start], &text[end..]);
        let Err(Error::Findings(findings)) = parse("p.toml", &text) else { panic!("accepted") };
        assert!(findings.to_string().contains("`source` is empty"), "{findings}");
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_place() {
        let (_, good) = BUILT_IN[0];
        // What is replaced, by what, and the finding: the place counts from the line replaced.
        for (from, to, finding) in [
            ("\"5us\"", "\"5\"", "`value` is \"5\", but the unit of a duration is"),
            ("\"5us\"", "\"-5us\"", "`value` is \"-5us\", but"),
            ("\"5us\"", "5", "`value` is an integer, expected a duration such as \"250us\""),
            ("value = 4,", "value = -4,", "`value` is -4, but must be 0 to 65536"),
            ("value = 4,", "value = 4.5,", "`value` is a number, expected an integer"),
            ("value = 4,", "", "`value` is missing"),
            (
                "\"soft-irq\"",
                "\"soft\"",
                "`value` is \"soft\", but must be `soft-irq` or `hard-irq`",
            ),
            ("value = true,", "value = 1,", "`value` is an integer, expected true or false"),
            ("rx_fifo ", "rx_fivo ", "unknown key `rx_fivo`"),
        ] {
            assert!(good.contains(from), "{from}");
            let line = 1 + good[..good.find(from).unwrap()].matches('\n').count();
            let text = good.replacen(from, to, 1);
            let Err(Error::Findings(findings)) = parse("p.toml", &text) else {
                panic!("{to} is accepted")
            };
            let all = findings.to_string();
            let reported = all.lines().any(|reported| {
                reported.starts_with(&format!("p.toml:{line}:")) && reported.contains(finding)
            });
            assert!(reported, "{line}: {finding} is missing in\n{all}");
        }
    }

    #[test]
    fn every_section_and_parameter_is_required() {
        let Err(Error::Findings(findings)) = parse("p.toml", "") else { panic!("accepted") };
        let all = findings.to_string();
        for key in ["title", "filter", "host", "user_space", "load", "cpu", "ethernet", "tester"] {
            assert!(all.contains(&format!("`{key}` is missing")), "{key} is missing in\n{all}");
        }
        let (_, good) = BUILT_IN[0];
        for line in good.lines().filter(|line| line.contains("{ value")) {
            let name = line.split('=').next().unwrap().trim();
            let text = good.replacen(line, "", 1);
            let Err(Error::Findings(findings)) = parse("p.toml", &text) else {
                panic!("accepted without `{name}`")
            };
            let missing = format!("`{name}` is missing");
            assert!(findings.to_string().contains(&missing), "{name}: {findings}");
        }
    }

    #[test]
    fn an_unknown_profile_is_named_with_the_known_ones() {
        let error = load("mpc5200-2.6.34", Path::new(".")).unwrap_err().to_string();
        assert!(error.contains("did you mean `mpc5200-2.6.33`?"), "{error}");
    }
}
