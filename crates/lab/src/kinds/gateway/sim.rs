//! What the `sim` testbed takes from an experiment: the model of the host, errors on the buses, and
//! the costs of the papers' tester.

use candor_engine::BusIndex;
use candor_protocol::order::TX_QUEUE;
use candor_sim::Discipline;
use candor_sim::instrument::Instrument;
use candor_sim::model::{Egress, Linux, Model};

use super::keys::{self, Kind};
use super::profile::Profile;
use super::said::{Hosted, Said};
use super::settings::{Sim, World};
use crate::experiment::Load;
use crate::reading::reader::Reader;

struct Host {
    model: Model,
    /// The tester that measured the original, if there is one.
    tester: Option<Instrument>,
    /// The host, for people.
    description: String,
}

impl Reader<'_> {
    /// The simulation of what a file says.
    pub(super) fn sim(&self, said: Said<'_>) -> Option<Hosted> {
        let load = said.load;
        if said.warm_up.is_some_and(|frames| frames > 0) {
            let hint = "remove it, or run with --testbed vm";
            let message = "in the simulation nothing is done for the first time: `warm_up` is for real kernels";
            self.findings.error_with_hint(said.origin_of(&["warm_up"]), message, hint);
        }
        let gateway = said.gateway.filter(|gateway| gateway.kind != Kind::None);
        let has_gateway = gateway.is_some();
        let host = gateway.as_ref().and_then(|gateway| self.host(gateway, load));
        if has_gateway && host.is_none() {
            return None;
        }
        let rules = match gateway {
            Some(gateway) => Some(gateway.rules?),
            None => None,
        };
        let tester = host.as_ref().and_then(|host| host.tester);
        let instrument = tester.filter(|_| said.wants_tester);
        if said.wants_tester && tester.is_none() {
            let hint = "the tester's costs come from the profile of the gateway: name one";
            self.findings.error_with_hint(said.tester_origin, "there is no tester", hint);
        }
        let model = host.as_ref().map_or("no gateway", |host| host.description.as_str());
        let stamps = if instrument.is_some() { ", stamps of the papers' tester" } else { "" };
        let conditions = format!("simulation, virtual time; {model}; {}{stamps}", load.describe());
        let model = host.map(|host| host.model);
        let world = World::Sim(Sim { faults: self.faults.clone(), model, instrument });
        Some(Hosted { world, traffic: said.traffic?, rules, conditions })
    }

    fn host(&self, said: &keys::Said<'_>, load: Load) -> Option<Host> {
        let in_user_space = match said.kind {
            Kind::User => true,
            Kind::None | Kind::Kernel => false,
            Kind::Live | Kind::CandorCan | Kind::Command | Kind::Reader => {
                let message =
                    format!("the simulation has no gateway of kind `{}`", said.kind.name());
                let hint = "use kind = \"kernel\" or \"user\", or run it with --testbed vm";
                self.findings.error_with_hint(said.origin, message, hint);
                return None;
            }
        };
        match (&said.profile, said.delay) {
            (None, Some(delay)) => {
                self.refuse_virtual_buses(said)?;
                Some(Host {
                    model: Model::Constant { delay, egress: egress(said, CONSTANT_EGRESS) },
                    tester: None,
                    description: format!("a gateway of constant delay {delay}"),
                })
            }
            (Some((name, profile)), None) => {
                let profile = profile.clone()?;
                let place = match in_user_space {
                    true => "user-space gateway".to_owned(),
                    false => self.kernel_gateway(said)?,
                };
                Some(Host {
                    tester: Some(profile.tester),
                    model: Model::Linux(Box::new(linux(profile, said, in_user_space, load))),
                    description: format!("model {name}, {place}"),
                })
            }
            _ => {
                let hint = "use profile = \"mpc5200-2.6.33\" for a model, or delay = \"35us\" for a \
                     constant";
                let message = "a gateway needs either a `profile` or a `delay`";
                self.findings.error_with_hint(said.origin, message, hint);
                None
            }
        }
    }

    /// A gateway of constant delay is no host: nothing comes back from a virtual bus.
    fn refuse_virtual_buses(&self, said: &keys::Said<'_>) -> Option<()> {
        let Some(rules) = &said.rules else { return Some(()) };
        let mut targets = rules.rules.iter().flat_map(|rule| &rule.to);
        let is_virtual = |bus: &&BusIndex| rules.buses[usize::from(bus.0)].is_virtual;
        let Some(bus) = targets.find(is_virtual) else { return Some(()) };
        let name = &rules.buses[usize::from(bus.0)].name;
        let message = format!("a gateway of constant delay has no virtual buses, such as `{name}`");
        let hint = "use gateway.profile instead of gateway.delay";
        self.findings.error_with_hint(said.rules_origin, message, hint);
        None
    }

    /// A gateway in the kernel, which is can-gw: rules that it cannot do are refused, and what the
    /// model changes about it is said.
    fn kernel_gateway(&self, said: &keys::Said<'_>) -> Option<String> {
        let mut description = "kernel gateway".to_owned();
        let Some(rules) = &said.rules else { return Some(description) };
        let reasons = keys::beyond_can_gw(rules);
        for reason in &reasons {
            let hint = "use kind = \"user\"";
            self.findings.error_with_hint(said.rules_origin, reason, hint);
        }
        if keys::too_few_hops(rules).is_some() {
            description.push_str(&format!(", which lets frames pass {} times", rules.max_hops));
        }
        if said.discipline == Some(Discipline::Priority) {
            description.push_str(" with egress by priority");
        }
        reasons.is_empty().then_some(description)
    }
}

/// The egress queue of a gateway of constant delay, unless the file says otherwise: that of a virtual machine.
const CONSTANT_EGRESS: Egress = Egress { depth: TX_QUEUE as usize, discipline: Discipline::Fifo };

fn egress(said: &keys::Said<'_>, default: Egress) -> Egress {
    Egress {
        depth: said.depth.unwrap_or(default.depth),
        discipline: said.discipline.unwrap_or(default.discipline),
    }
}

/// The host of a profile as the file wants it, under its load.
fn linux(profile: Profile, said: &keys::Said<'_>, in_user_space: bool, load: Load) -> Linux {
    let mut host = profile.host;
    host.egress = egress(said, host.egress);
    if in_user_space {
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
