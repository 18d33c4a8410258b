//! [`Common`]: what is read of an experiment of any kind. [`Settings`]: what is read of one with CAN buses, in
//! any world.

use candor_config::Section;
use candor_diagnostics::Origin;

use super::gateway;
use super::machine::{self, LoadSize};
use super::reader::Reader;
use super::seeds;
use crate::experiment::{Kind, Load, Testbed, Traffic};

/// The kinds of experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KindName {
    #[default]
    CanGateway,
    SignalService,
    Ping,
    TimeTriggered,
}

/// What is read of an experiment of any kind.
pub(super) struct Common<'a> {
    pub(super) kind: KindName,
    pub(super) title: Option<&'a str>,
    pub(super) testbed: Option<Testbed>,
    pub(super) seed: Option<u64>,
    pub(super) count: Option<u64>,
    pub(super) per_frame: Option<bool>,
}

impl<'a> Common<'a> {
    pub(super) fn read(file: &mut Section<'a>) -> Self {
        file.string("name");
        let [can_gateway, signal_service, ping, time_triggered] = Kind::NAMES;
        let kinds = [
            (can_gateway, KindName::CanGateway),
            (signal_service, KindName::SignalService),
            (ping, KindName::Ping),
            (time_triggered, KindName::TimeTriggered),
        ];
        let testbeds = Testbed::ALL.map(|testbed| (testbed.name(), testbed));
        let _ = file.integer("seeds", 1..=seeds::MOST);
        Self {
            kind: file.one_of("kind", &kinds).unwrap_or_default(),
            title: file.string("title"),
            testbed: file.one_of("testbed", &testbeds),
            seed: file.integer("seed", 0..=i64::MAX.unsigned_abs()),
            count: file.integer("count", 1..=i64::MAX.unsigned_abs()),
            per_frame: file.boolean("per_frame"),
        }
    }

    /// Refuses a testbed that does not have this kind.
    pub(super) fn refuse_testbed(&self, file: &Section<'_>, known: &[Testbed]) {
        let Some(testbed) = self.testbed.filter(|testbed| !known.contains(testbed)) else { return };
        let kind = match self.kind {
            KindName::CanGateway => Kind::NAMES[0],
            KindName::SignalService => Kind::NAMES[1],
            KindName::Ping => Kind::NAMES[2],
            KindName::TimeTriggered => Kind::NAMES[3],
        };
        let message = format!("the testbed `{testbed}` has no experiments of the kind `{kind}`");
        let names: Vec<_> = known.iter().map(|testbed| format!("\"{testbed}\"")).collect();
        let hint = format!("use testbed = {}", names.join(" or "));
        file.findings().error_with_hint(file.origin_of("testbed"), message, hint);
    }
}

/// What is read of an experiment with CAN buses, in any world.
pub(super) struct Settings<'a> {
    pub(super) load: Load,
    pub(super) load_size: LoadSize,
    pub(super) traffic: Option<Traffic>,
    pub(super) gateway: Option<gateway::Said<'a>>,
    pub(super) machine: machine::Said,
    pub(super) wants_tester: Option<bool>,
    pub(super) tester_origin: &'a Origin,
}

impl<'a> Settings<'a> {
    pub(super) fn read(mut file: Section<'a>, reader: &mut Reader<'_>) -> Self {
        let (load, load_size) = file.section("load").map(read_load).unwrap_or_default();
        let traffic = file.section("traffic").and_then(|section| reader.traffic(section));
        let gateway =
            file.section("gateway").map(|section| reader.gateway(section, traffic.as_ref()));
        let machine = reader.machine(file.section("vm"));
        let wants_tester = file.one_of("instrument", &[("wire", false), ("tester", true)]);
        let tester_origin = file.origin_of("instrument");
        file.finish();
        Self { load, load_size, traffic, gateway, machine, wants_tester, tester_origin }
    }
}

/// Which load, and how much of it.
pub(super) fn read_load(mut section: Section<'_>) -> (Load, LoadSize) {
    section.require(&["kind"]);
    let load = |cpu, ethernet| Load { cpu, ethernet };
    let kinds = [
        ("none", load(false, false)),
        ("cpu", load(true, false)),
        ("ethernet", load(false, true)),
        ("both", load(true, true)),
    ];
    let load = section.one_of("kind", &kinds).unwrap_or_default();
    let size = LoadSize::read(&mut section);
    section.finish();
    (load, size)
}
