//! The gateway of an experiment: what a file says about it in any world, and its rules.

use std::cell::RefCell;
use std::path::Path;

use candor_config::{Section, Value};
use candor_diagnostics::Origin;
use candor_engine::table::Gate;
use candor_engine::{Rule, Table};
use candor_network::file::place_buses;
use candor_rules::candor_can;
use candor_rules::file::disk;
use candor_rules::job::{Inexpressible, plan};
use candor_sim::Discipline;
use candor_time::Nanos;

use super::profile::{self, Profile};
use super::rules::{FilterKind, Generated, Modification};
use super::settings::Traffic;
use crate::locate::locate;
use crate::reading::reader::Reader;

/// What passes frames on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Kernel,
    User,
    Live,
    CandorCan,
    Command,
    Reader,
}

const KINDS: [(&str, Kind); 7] = [
    ("kernel", Kind::Kernel),
    ("user", Kind::User),
    ("live", Kind::Live),
    ("candor_can", Kind::CandorCan),
    ("command", Kind::Command),
    ("reader", Kind::Reader),
    ("none", Kind::None),
];

impl Kind {
    /// Whether frames come out on the second bus.
    pub(super) const fn passes_on(self) -> bool {
        !matches!(self, Self::None | Self::Reader)
    }

    /// As files name it.
    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// What stands for the interface in the name of a port.
const INTERFACE: &str = "{interface}";

/// What a file says about the gateway, not yet held against a world.
pub(super) struct Said<'a> {
    pub(super) kind: Kind,
    /// The host, by name; nothing if there is no such profile.
    pub(super) profile: Option<(&'a str, Option<Profile>)>,
    pub(super) delay: Option<Nanos>,
    pub(super) depth: Option<usize>,
    pub(super) discipline: Option<Discipline>,
    pub(super) priority: Option<u8>,
    pub(super) receive_buffer: Option<u32>,
    /// The name of the ports of the live gateway.
    pub(super) port: Option<String>,
    /// Whether the live gateway measures latencies itself.
    pub(super) measures: bool,
    /// The program and its arguments.
    pub(super) command: Vec<(&'a str, &'a Origin)>,
    /// Further files for the command: which, and where it finds them.
    pub(super) files: Vec<(&'a str, Option<&'a str>, &'a Origin)>,
    pub(super) rules: Option<Table>,
    /// Whether the rules are any but one that passes everything as it is.
    pub(super) has_rules: bool,
    /// Where the rules are named.
    pub(super) rules_origin: &'a Origin,
    pub(super) origin: &'a Origin,
}

impl Reader<'_> {
    /// Reads a gateway. Generated rules are made for the frames of `traffic`.
    pub(super) fn gateway<'a>(
        &mut self,
        mut section: Section<'a>,
        traffic: Option<&Traffic>,
    ) -> Said<'a> {
        let disciplines = [("fifo", Discipline::Fifo), ("priority", Discipline::Priority)];
        let kind = section.one_of("kind", &KINDS).unwrap_or(Kind::Kernel);
        let profile_origin = section.origin_of("profile");
        let profile =
            section.string("profile").map(|name| (name, self.profile(name, profile_origin)));
        let delay = section.nanos("delay");
        let depth = section.integer("tx_queue", 1..=1_000_000);
        let discipline = section.one_of("egress", &disciplines);
        let priority = section.integer("priority", 0..=99);
        let receive_buffer = section.integer("receive_buffer", 1..=1 << 30);
        let port = self.port(&mut section);
        let measures = section.boolean("measures").unwrap_or(false);
        let command = section.strings("command");
        let files = read_files(&mut section);
        let generated = section.section("generate").map(read_generated);
        let rules_file = section.string("rules");
        let rules_key = if rules_file.is_some() { "rules" } else { "generate" };
        let rules_origin = section.origin_of(rules_key);
        let origin = section.origin();
        section.finish();

        let has_rules = rules_file.is_some()
            || generated.as_ref().is_some_and(|generated| *generated != Generated::EVERYTHING);
        let rules = match (rules_file, generated) {
            // Nobody is there to follow rules.
            _ if !kind.passes_on() => None,
            (Some(file), None) => self.rule_file(file, rules_origin),
            (None, generated) => {
                let generated = generated.unwrap_or(Generated::EVERYTHING);
                self.generated_rules(&generated, traffic, origin)
            }
            (Some(_), Some(_)) => {
                let message = "a gateway can have `rules` or `generate`, not both";
                self.findings.error(rules_origin, message);
                None
            }
        };
        let rules = rules.map(|mut rules| {
            place_buses(&mut rules, &self.network.buses);
            rules
        });
        let rules = rules.filter(|rules| {
            let mut real = rules.buses.iter().filter(|bus| !bus.is_virtual);
            real.all(|bus| self.bus(&bus.name, rules_origin).is_some())
        });
        Said {
            kind,
            profile,
            delay,
            depth,
            discipline,
            priority,
            receive_buffer,
            port,
            measures,
            command,
            files,
            rules,
            has_rules,
            rules_origin,
            origin,
        }
    }

    fn profile(&mut self, name: &str, origin: &Origin) -> Option<Profile> {
        if let Some(path) = profile::file(name, self.base) {
            self.input(name, &path);
        }
        let profile = profile::load(name, self.base);
        profile.map_err(|error| self.findings.error(origin, error.to_string())).ok()
    }

    fn port(&mut self, section: &mut Section<'_>) -> Option<String> {
        let port = section.string("port")?;
        if !port.contains(INTERFACE) {
            let message = format!("`port` is \"{port}\", which does not contain {INTERFACE}");
            let hint = "for example \"packet:{interface}?gather=1ms\"";
            self.findings.error_with_hint(section.origin_of("port"), message, hint);
            return None;
        }
        Some(port.to_owned())
    }

    /// Generated rules pass from the first bus to the second.
    fn generated_rules(
        &self,
        generated: &Generated,
        traffic: Option<&Traffic>,
        origin: &Origin,
    ) -> Option<Table> {
        if !self.unread.is_empty() {
            return None; // there is a finding about that
        }
        let [source, target] = self.network.buses.as_slice() else {
            let hint = "generated rules forward from the first bus to the second: list two buses, \
                        or name a rule file with gateway.rules";
            self.findings.error_with_hint(origin, "the rules do not match the buses", hint);
            return None;
        };
        let (can_id, gate) = match traffic {
            Some(Traffic::Numbered { frames, .. }) => {
                let gate = if frames.fd_flags.is_some() { Gate::Fd } else { Gate::Classical };
                (frames.can_ids.last().copied(), gate)
            }
            // A rule for both kinds rewrites nothing.
            _ if source.is_fd && generated.modification == Modification::None => (None, Gate::Any),
            _ => (None, Gate::Classical),
        };
        let table = generated.table(can_id.unwrap_or(0x123));
        let mut table = table.map_err(|reason| self.findings.error(origin, reason)).ok()?;
        // Chains over virtual buses rewrite identifiers.
        if gate != Gate::Any || generated.hops == 0 {
            table.rules.iter_mut().for_each(|rule| rule.gate = gate);
        }
        for (bus, config) in table.buses.iter_mut().zip([source, target]) {
            bus.name.clone_from(&config.name);
        }
        Some(table)
    }

    fn rule_file(&mut self, file: &str, origin: &Origin) -> Option<Table> {
        let path = locate(self.base, file);
        let text = match disk::read_text(&path, "rule file") {
            Ok(text) => text,
            Err(message) => {
                let hint = "paths are relative to the experiment file or to the current folder";
                self.findings.error_with_hint(origin, message, hint);
                return None;
            }
        };
        self.input(file, &path);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let included = RefCell::new(Vec::new());
        let include = |name: &str| {
            let path = folder.join(name);
            let bytes = disk::read(&path, disk::MOST_BYTES);
            included.borrow_mut().push((name.to_owned(), path));
            bytes
        };
        let (table, of_rules) =
            candor_rules::file::parse_with(&path.display().to_string(), &text, &include);
        for (name, path) in included.into_inner() {
            self.input(&name, &path);
        }
        if of_rules.has_errors() {
            let message = format!("the rules in {file} have errors:\n{of_rules}");
            let hint = format!("see also `candor route check {}`", path.display());
            self.findings.error_with_hint(origin, message, hint);
            return None;
        }
        table
    }
}

/// can-gw's parameter `max_hops` reaches so far (`CGW_MAX_HOPS`, net/can/gw.c).
const KERNEL_HOPS: u8 = candor_engine::table::HOPS_LIMIT;

/// Why frames pass these rules more often than can-gw lets them.
pub(super) fn too_few_hops(rules: &Table) -> Option<String> {
    (rules.max_hops > KERNEL_HOPS).then(|| {
        format!(
            "a frame would pass can-gw {} times, but can-gw allows at most {KERNEL_HOPS}",
            rules.max_hops
        )
    })
}

/// What else can-gw cannot do of these rules: the first few reasons.
pub(super) fn beyond_can_gw(rules: &Table) -> Vec<String> {
    const MOST: usize = 5;
    let reported = |failure: &Inexpressible| {
        let name = rules.rules.get(failure.rule).map_or("", |rule| rule.name.as_str());
        format!("can-gw cannot run rule `{name}`: {}", failure.reason)
    };
    match plan(rules) {
        Ok(_) => Vec::new(),
        Err(failures) => failures.iter().take(MOST).map(reported).collect(),
    }
}

/// What candor_can cannot do of these rules: the first few reasons.
pub(super) fn beyond_candor_can(rules: &Table) -> Vec<String> {
    const MOST: usize = 5;
    let reported = |rule: &Rule| {
        let reason = candor_can::obstacle(rules, rule)?;
        Some(format!("candor_can cannot run rule `{}`: {reason}", rule.name))
    };
    let mut reasons: Vec<_> = rules.rules.iter().filter_map(reported).take(MOST).collect();
    if reasons.is_empty() {
        let excess = candor_can::excess(rules);
        reasons
            .extend(excess.map(|(_, reason)| format!("candor_can cannot run the rules: {reason}")));
    }
    reasons
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

/// `files = ["my.conf", { from = "my.conf", to = "/etc/my.conf" }]`
fn read_files<'a>(section: &mut Section<'a>) -> Vec<(&'a str, Option<&'a str>, &'a Origin)> {
    let findings = section.findings();
    let read = |value: &'a Value| match (value.as_str(), value.as_table()) {
        (Some(from), _) => Some((from, None, &value.origin)),
        (None, Some(table)) => {
            let mut entry = Section::new(table, findings);
            entry.require(&["from", "to"]);
            let (from, to) = (entry.string("from"), entry.string("to"));
            if to.is_some_and(|to| !to.starts_with('/')) {
                let message = "`to` must be an absolute path in the guest";
                findings.error_with_hint(entry.origin_of("to"), message, "such as /etc/my.conf");
            }
            entry.finish();
            Some((from?, Some(to?), &value.origin))
        }
        (None, None) => {
            value.wrong_type("files", "the name of a file, or a table", findings);
            None
        }
    };
    section.values("files").into_iter().filter_map(read).collect()
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
                    ("crc8", Modification::Crc8),
                ],
            )
            .unwrap_or(Modification::None),
        hops: section.integer("hops", 0..=100).unwrap_or(0),
        virtual_buses: section.integer("virtual_buses", 1..=2).unwrap_or(1),
    };
    section.finish();
    generated
}
