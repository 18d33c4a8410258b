//! The gateway of an experiment: the host it runs on, and its rules.

use candor_config::{Origin, Section};
use candor_route::Table;
use candor_sim::Discipline;
use candor_sim::instrument::Instrument;
use candor_sim::model::{Egress, Linux, Model};
use candor_time::Nanos;

use super::reader::Reader;
use super::{Gateway, locate};
use crate::profile::{self, Profile};
use crate::rules::{FilterKind, Generated, Modification};

/// What else the gateway's host has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    cpu: bool,
    ethernet: bool,
}

impl Load {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        section.require(&["kind"]);
        let load = |cpu, ethernet| Self { cpu, ethernet };
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

    pub(super) const fn describe(self) -> &'static str {
        match (self.cpu, self.ethernet) {
            (false, false) => "no load",
            (true, false) => "CPU load",
            (false, true) => "Ethernet load",
            (true, true) => "CPU and Ethernet load",
        }
    }
}

/// A gateway and what its profile says beside it.
pub(super) struct Host {
    pub(super) gateway: Gateway,
    /// The tester that measured the original, if there is one.
    pub(super) tester: Option<Instrument>,
    /// The host, for people.
    pub(super) description: String,
}

/// What the file says about the host, not yet held together.
struct Wanted<'a> {
    profile: Option<&'a str>,
    delay: Option<Nanos>,
    in_user_space: bool,
    depth: Option<usize>,
    discipline: Option<Discipline>,
    origin: &'a Origin,
}

/// The host of a gateway.
struct HostModel {
    model: Model,
    tester: Option<Instrument>,
    description: String,
}

impl Reader<'_> {
    /// Reads a gateway. Generated rules are made for frames with the identifier word `can_id`.
    pub(super) fn gateway(
        &mut self,
        mut section: Section<'_>,
        load: Load,
        can_id: Option<u32>,
    ) -> Option<Host> {
        let disciplines = [("fifo", Discipline::Fifo), ("priority", Discipline::Priority)];
        let wanted = Wanted {
            profile: section.string("profile"),
            delay: section.nanos("delay"),
            in_user_space: section
                .one_of("kind", &[("kernel", false), ("user", true)])
                .unwrap_or(false),
            depth: section.integer("tx_queue", 1..=1_000_000),
            discipline: section.one_of("egress", &disciplines),
            origin: section.origin(),
        };
        let generated = section.section("generate").map(read_generated);
        let rules_origin = section.origin_of("rules");
        let rules_file = section.string("rules");
        section.finish();

        let HostModel { model, tester, description } = self.host(&wanted, load)?;
        let rules = match (rules_file, generated) {
            (Some(file), None) => self.rule_file(file, rules_origin)?,
            (None, generated) => {
                let generated = generated.unwrap_or(Generated::EVERYTHING);
                self.generated_rules(&generated, can_id.unwrap_or(0x123), wanted.origin)?
            }
            (Some(_), Some(_)) => {
                let message = "a gateway has either `rules` or `generate`";
                self.findings.error(rules_origin, message);
                return None;
            }
        };
        for bus in rules.buses.iter().filter(|bus| !bus.is_virtual) {
            self.bus(&bus.name, rules_origin)?;
        }
        Some(Host { gateway: Gateway { model, rules }, tester, description })
    }

    fn host(&self, wanted: &Wanted<'_>, load: Load) -> Option<HostModel> {
        match (wanted.profile, wanted.delay) {
            (None, Some(delay)) => Some(HostModel {
                model: Model::Constant { delay, egress: wanted.egress(CONSTANT_EGRESS) },
                tester: None,
                description: format!("a gateway of constant delay {delay}"),
            }),
            (Some(name), None) => {
                let load_profile = profile::load(name, self.base);
                let profile = load_profile
                    .map_err(|error| self.findings.error(wanted.origin, error.to_string()))
                    .ok()?;
                let place = if wanted.in_user_space { "user-space" } else { "kernel" };
                Some(HostModel {
                    tester: Some(profile.tester),
                    model: Model::Linux(Box::new(linux(profile, wanted, load))),
                    description: format!("model {name}, {place} gateway"),
                })
            }
            _ => {
                let hint =
                    "profile = \"mpc5200-2.6.33\" models a host, delay = \"35us\" is a constant";
                let message = "a gateway has either a `profile` or a `delay`";
                self.findings.error_with_hint(wanted.origin, message, hint);
                None
            }
        }
    }

    /// Generated rules pass from the first bus to the second.
    fn generated_rules(
        &self,
        generated: &Generated,
        can_id: u32,
        origin: &Origin,
    ) -> Option<Table> {
        let [source, target] = self.buses.as_slice() else {
            let hint = "generated rules pass from the first bus to the second: list two buses, or \
                        name a rule file with gateway.rules";
            self.findings.error_with_hint(origin, "the rules do not fit the buses", hint);
            return None;
        };
        let mut table =
            generated.table(can_id).map_err(|reason| self.findings.error(origin, reason)).ok()?;
        for (bus, config) in table.buses.iter_mut().zip([source, target]) {
            bus.name.clone_from(&config.name);
        }
        Some(table)
    }

    fn rule_file(&mut self, file: &str, origin: &Origin) -> Option<Table> {
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

/// The egress queue of a gateway of constant delay, unless the file says otherwise: as deep as that
/// of a CAN interface (`txqueuelen`, drivers/net/can/dev.c).
const CONSTANT_EGRESS: Egress = Egress { depth: 10, discipline: Discipline::Fifo };

impl Wanted<'_> {
    fn egress(&self, default: Egress) -> Egress {
        Egress {
            depth: self.depth.unwrap_or(default.depth),
            discipline: self.discipline.unwrap_or(default.discipline),
        }
    }
}

/// The host of a profile as the file wants it, under its load.
fn linux(profile: Profile, wanted: &Wanted<'_>, load: Load) -> Linux {
    let mut host = profile.host;
    host.egress = wanted.egress(host.egress);
    if wanted.in_user_space {
        host.user_space = Some(profile.user_space);
    }
    if load.cpu {
        let (slowdown_percent, interference) = profile.cpu_load;
        host.slowdown_percent = slowdown_percent;
        host.interference.extend(interference);
    }
    if load.ethernet {
        host.ethernet = Some(profile.ethernet_load);
    }
    host
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
